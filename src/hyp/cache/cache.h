// The cache: partitions of datasets, each a generation of an Iceberg v3 table (protocols P5–P7, P9).
//
//   <cacheRoot>/datasets/<dataset>/source=<s>/cursor.json   {v, tableDir, cacheId}
//   <cacheRoot>/datasets/<dataset>/source=<s>/table-<n>/
//   <cacheRoot>/datasets/<dataset>/source=<s>/table-<n>.lock  the generation's lock: shared by its readers and those of
//                                                             its snapshots (P7, generation_lock.h)
//   <cacheRoot>/datasets/<dataset>/source=<s>/lock           the partition lock
//   <cacheRoot>/datasets/<dataset>/schema.lock               held while a partition's schema is made or widened
//   <cacheRoot>/rejects/<dataset>.ndjson                     rejected lines, each once (rejects.h)
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <arrow/record_batch.h>

#include "hyp/cache/generation_lock.h"
#include "hyp/cache/sequence.h"
#include "hyp/capture/row_parser.h"
#include "hyp/capture/spool.h"
#include "hyp/config.h"
#include "iceberg/catalog/catalog.h"
#include "iceberg/scan/scan.h"
#include "io/local.h"

namespace firn::hyp {

// Hidden columns: optional, last in a new cache table (columns added later follow them), never in what leaves the
// cache. Ids are given as for any column.
inline constexpr const char* kIngestSeqColumn = "_hyp_ingest_seq";  // long
inline constexpr const char* kRowIdColumn = "_hyp_cache_row_id";  // string: SHA-256 in hex… of the row's content (P5.3)
inline constexpr const char* kBatchIdColumn = "_hyp_cache_batch_id";  // string: UUIDv7

// Table properties.
inline constexpr const char* kMaxSeqProperty = "firn.max-seq";  // the partition's highest sequence (P5.2)
inline constexpr const char* kFlushedPrefix = "firn.flushed.";  // + spool id = "<segment>,<offset>" (P6.2)
inline constexpr const char* kReceivedPrefix =
    "firn.received.";  // + a receiver's spool id = the commits that its ledger had seen when rows of it were flushed
inline constexpr const char* kOpensProperty = "firn.opens";  // the latest 64 opens that stamped rows of the table
inline constexpr const char* kSequencedProperty =
    "firn.sequenced";  // "true": rows without a number that are found from now on get new ones (P9.3)

// The table's marker of a spool: its frames that *begin before* this place are in the table, those that begin at or
// after it are not. nullopt: none is. Throws corrupt.
std::optional<SpoolPosition> flushed_until(const iceberg::TableMetadata& metadata, const std::string& spool_id);

struct PartitionId {
  std::string dataset;
  std::string source;
  auto operator<=>(const PartitionId&) const = default;
  // Relative to the cache root, each segment encoded: "datasets/<dataset>/source=<s>".
  std::string logical_path() const;
  // The watermark's and the stream's partition key: "source=<s>", encoded.
  std::string key() const;
};

// A generation and one of its snapshots, held by shared locks while it lives (P7): neither the directory nor a file
// that the snapshot names is removed. `table` is its head as loaded.
struct HeldTable {
  GenerationLock lock;
  std::shared_ptr<iceberg::TableOperations> operations;
  iceberg::LoadedTable table;
};

class Cache {
 public:
  // Makes the folders if they are missing. Reads nothing big.
  explicit Cache(const Config& config, std::shared_ptr<FileIO> io = make_local_file_io());
  ~Cache();

  const Config& config() const;
  const std::shared_ptr<FileIO>& io() const;
  SequenceAllocator& sequence() const;
  std::vector<std::string> datasets() const;                              // that have a partition, sorted
  std::vector<PartitionId> partitions(const std::string& dataset) const;  // sorted
  std::string folder(const PartitionId& partition) const;                 // absolute
  // The live generation, or nullopt if the partition has no table yet. Syncs its metadata directory first where
  // `acting` on what another process committed (P10.8). Throws corrupt if there is a table with rows and no cursor.
  std::optional<HeldTable> hold(const PartitionId& partition, bool acting = false) const;
  FileLock lock(const PartitionId& partition) const;  // the partition lock, exclusive; waits
  // Removes the unfinished files that killed flushes left in the partition; looks once a process. Best effort. Requires
  // the partition lock.
  void remove_leftovers(const PartitionId& partition, const HeldTable& held) const;
  // The snapshots that this object's last sweep of the table at `location` left to their readers (generations.h);
  // nullopt: it has not swept it, or not to the end.
  std::optional<std::set<int64_t>> swept(const std::string& location) const;
  void note_swept(const std::string& location, std::optional<std::set<int64_t>> left_to_readers) const;

  // The dataset's columns without the hidden ones: the union of its partitions' schemas and the declared one; where
  // that contradicts the tables, theirs stand. Ids are of no table. Empty fields if nothing is known yet.
  iceberg::Schema dataset_schema(const std::string& dataset) const;
  // The configured dataset, or the defaults for a name that the configuration no longer takes: what is cached stays
  // readable.
  DatasetConfig dataset_config(const std::string& dataset) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Throws config naming the column and the partition if the configuration declares a column of `dataset` as its tables
// can never have it: with a type that theirs cannot be widened to, or as required where rows may lack it. What is
// captured under such a declaration could not be stored as declared. (Rows that are spooled already are stored as far
// as they fit the tables and the declaration; the others are rejects.)
void check_declared_columns(const Cache& cache, const std::string& dataset);

struct Rejected {
  std::string dataset, source;
  SpoolPosition frame;  // where its frame begins
  int64_t line = 0;     // in its source
  std::string column, reason;
};

struct FlushReport {
  int64_t rows = 0, rejected = 0, partitions = 0, commits = 0, bytes = 0;
  std::map<std::string, int64_t> rows_by_dataset, rejected_by_dataset;
  std::vector<Rejected> first_rejected;  // the first 20 in spool order, for the summary
  std::vector<std::string> problems;     // partitions that failed (I/O) and were left for the next flush
};

struct FlushOptions {
  int64_t range_bytes_max = 128 << 20;  // of spooled text that is worked on at once
  // Called before each piece of about 1 MiB of text, by the flush's threads. It may wait, so that others get on; the
  // flush then holds a partition's lock.
  std::function<void()> give_way = [] {};
};

// Moves what the spool holds into the cache tables (P6), a range after another; each is one commit a partition.
// Rejected lines go to <cacheRoot>/rejects/<dataset>.ndjson: {time, spool, segment, offset, lineOffset, source, line,
// column, reason, text | textBase64, cut?, lineBytes?}. Throws what concerns the spool or the allocator as a whole.
FlushReport flush(Cache& cache, Spool& spool, const FlushOptions& options = {});

// For a process that has just opened the spool, before it captures: what comes is routed to partitions as configured
// now. Where something is spooled yet, that waits until it is flushed, by the configuration that it came under.
void take_configured_routing(const Cache& cache, const Spool& spool);

// Consecutive lines of a frame's text, [begin, end), and the source partition that they belong to: the frame's, or
// where the dataset has a sourceColumn the value of that column (null or missing: the frame's). Lines whose source
// cannot be told are `rejected` with offsets into the text; they belong to no partition.
struct RoutedLines {
  std::string source;
  int64_t begin = 0, end = 0;
};
struct RoutedFrame {
  std::vector<RoutedLines> lines;
  std::vector<RejectedLine> rejected;
};
RoutedFrame route_lines(const Frame& frame, const DatasetConfig& dataset);

// --- reads ---

struct ReadOptions {
  std::vector<std::string> columns;        // empty: all of the partition's, hidden ones left out
  std::optional<int64_t> since_exclusive;  // _hyp_ingest_seq > since
  std::optional<int64_t> until;            // _hyp_ingest_seq <= until
  // Rows that had no number when firn first met them (P9.3). SequencedReader numbers first what lacks a number: such
  // rows then come at their numbers, at or below 0. False: neither those come nor, without `since`, any at or below 0.
  bool include_legacy = true;
  int64_t batch_rows_max = 16384;
  iceberg::ReadCounters* counters = nullptr;
};

// Clean rows with the number to store once each is durably shipped (the `after` of spec §2).
struct SequencedBatch {
  std::shared_ptr<arrow::RecordBatch> rows;  // hidden columns stripped
  std::vector<int64_t> after;                // one a row, ascending; at or below 0 for legacy rows
};

// Rows of one partition in _hyp_ingest_seq order (P9.1), at a cost that follows the new rows. Holds the generation and
// the snapshot that it began with. With include_legacy it may take the partition lock (legacy_rows.h): the caller must
// not have it. One thread.
class SequencedReader {
 public:
  SequencedReader(const Cache& cache, const PartitionId& partition, const ReadOptions& options);
  ~SequencedReader();
  std::optional<SequencedBatch> next();
  const iceberg::Schema& schema() const;  // of the rows: the table's ids
  int64_t max_seq() const;                // firn.max-seq of the snapshot read; 0: none

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// All rows of a partition without order, hidden columns stripped (`read_rows` of spec §2). With include_legacy, rows
// without a number come too, whatever the range.
std::shared_ptr<arrow::RecordBatchReader> read_rows(const Cache& cache, const PartitionId& partition,
                                                    const ReadOptions& options);

}  // namespace firn::hyp
