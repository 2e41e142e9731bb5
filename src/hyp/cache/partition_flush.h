// One partition's part of a flush: spooled lines in, one commit out (protocols P5.2, P6.2).
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "hyp/cache/cache.h"
#include "hyp/cache/dataset_columns.h"
#include "hyp/cache/flush_rows.h"

namespace firn::hyp {

inline constexpr const char* kLastFlushProperty = "firn.last-flush";  // table property: ISO 8601

// A table has more of a spool than the spool ever held, which no spool of this cache reached: it is an older copy, or
// its clock was behind, so that its newest frames cannot be told from those that are there.
struct SpoolIsOlder : Error {
  using Error::Error;
};

// What of which spool is flushed.
struct SpoolPart {
  std::string spool_id;
  SpoolPosition until;                      // the lines' frames begin before it
  SpoolPosition end;                        // of all that the spool ever held
  std::optional<int64_t> received_commits;  // of a receiver's spool what its ledger had seen (kReceivedPrefix)
  const std::function<void()>& give_way;    // FlushOptions
};

struct PartitionFlushed {
  int64_t rows = 0;                   // committed now; 0: there was nothing to commit
  std::vector<RejectedRow> rejected;  // decided now, durable in the rejects file
};

// Under the partition lock: takes the lines of frames past the table's marker, makes the table or widens its schema
// where they need it, makes the decisions on what it cannot take durable, then stamps and commits the rest in one
// snapshot, with the marker `part.until` in the same metadata commit. `lines` are whole lines in spool order, none of
// them decided before. Throws what befell the partition: then it has none of the lines, or (commit_unknown) all or
// none; SpoolIsOlder (corrupt) if the table's marker is past `part.end`. `seen`: of the dataset, kept from partition to
// partition.
PartitionFlushed flush_partition(Cache& cache, const DatasetConfig& config, const PartitionId& partition,
                                 const SpoolPart& part, std::vector<LineRange> lines, SeenColumns& seen);

// The column whose strings are read as timestamps where nobody declared a type; empty: none.
std::string timestamp_column(const DatasetConfig& config);

}  // namespace firn::hyp
