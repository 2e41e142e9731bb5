// Commits of a step that its retry recognises (protocols P3, P14). Every function here first looks for the commit that
// an earlier attempt of this step made as its next one to the table in this run, again on the base of every try, and
// returns that snapshot instead of committing a second time. All of them
//   - refuse (invalid_argument) a dataset that the step did not declare, naming both;
//   - say in the snapshot's summary who committed it: orca.pipeline, .run, .run-number, .step, .partition, .attempt,
//     .commit (the number of the commit to this table), .label (the function), .code, .reads (the snapshots read);
//   - throw lease_lost where another attempt has taken over, step_not_deterministic where the commit that is found was
//     made by another function or with another operation, commit_unknown where an expired history cannot tell, and
//     commit_conflict where nothing was committed and the step is to be tried again, or the message says what to do.
// `table` holds the committed metadata afterwards.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "orca/tables/file_writer.h"
#include "orca/tables/table.h"

namespace firn::orca {

// The snapshot this step already committed as its next commit to the table in this run; nullopt: it has not. Reads
// metadata alone, at a cost that does not grow with the table's history. A step that writes files before committing
// them asks first, so that a retry of an attempt that committed does not write them again.
std::optional<int64_t> find_commit(Ctx& ctx, const Table& table);

// Writes `batches` and commits them as one append snapshot; returns its id. No batches commit an empty snapshot, so
// that a step's commits keep their numbers. To a dataset in replaces=, it is replace_partitions. Files written for a
// commit that did not land are removed, but after commit_unknown.
int64_t append(Ctx& ctx, Table& table, const Batches& batches);

// Commits data files already written, here or on a worker (write_files), as append does. Files that are no longer
// there are not_found (P15: written long ago, and taken for orphans); one that is not a data file is invalid_argument,
// since delete files go through commit(). The files stay, whatever happens. To a dataset in replaces=, it is
// replace_partition_files.
int64_t append_files(Ctx& ctx, Table& table, const DataFiles& files);

struct FileChanges {
  std::vector<iceberg::DataFile> added;    // data and delete files, durable
  std::vector<iceberg::DataFile> removed;  // live in the current snapshot
  // The snapshot that the caller read `removed` at. nullopt: what this step is pinned to in the table, or what `table`
  // had when commit() was called, whichever is older. Deletes committed since for rows of the removed files are a
  // conflict; of a "replace", the added files keep its sequence number, so that equality deletes still apply.
  std::optional<int64_t> read_snapshot_id;
};

// Commits `files` as one snapshot of `operation` (append, overwrite, delete, or replace for a compaction), and returns
// its id. Every removed file must be in the current snapshot, on the first try and on each retry after another writer
// committed first; else commit_conflict, and nothing is committed: the step's retry plans the change again. But for a
// replace, which keeps the rows, files with rows of a later run are not removed either (P14.1).
int64_t commit(Ctx& ctx, Table& table, const std::string& operation, const FileChanges& files);

// Writes `batches` as one snapshot that also removes the files earlier runs left in the partitions the rows land in.
//   - The run's first commit to a partition is an overwrite that removes every data and delete file in it that this run
//     didn't commit; later ones find only the run's own and append. Files of this run are never removed.
//   - The partitions are those of the new files under the table's current spec: no rows replace nothing. Files of an
//     older spec are left alone; the log warns of those that may hold rows of the partitions. An unpartitioned table is
//     one partition, with the files from when it had more.
//   - What to remove is planned on the snapshot that each try commits on top of.
//   - commit_conflict naming the writer, where a file of such a partition was added by another writer after this run's
//     first commit to the table, or by a later run (P14.1), or by a rewrite of this run's own files: then only one of
//     them keeps its rows. See file_owners.h for files whose snapshots have expired.
// The summary has orca.replaced-files and orca.replaced-records: the data files removed, and their rows.
int64_t replace_partitions(Ctx& ctx, Table& table, const Batches& batches);

// replace_partitions of data files already written. Throws partition_spec_drift where the table's spec is another by
// now.
int64_t replace_partition_files(Ctx& ctx, Table& table, const DataFiles& files);

}  // namespace firn::orca
