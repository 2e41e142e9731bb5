// Which files hold rows with numbers of a range, at a cost that follows the new rows (protocols P9.2).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "iceberg/scan/scan.h"

namespace firn::hyp {

struct SequenceWindow {
  std::optional<int64_t> since_exclusive, until;
  bool unnumbered = false;  // and rows that have no number yet
};

// True for the rows of the range; unbound, and always a filter, so that plans keep the column's bounds.
iceberg::ExpressionPtr sequence_filter(const SequenceWindow& range);

// plan_scan of the head with sequence_filter(range) in the place of scan.filter. Manifests never change, and this
// process remembers the bounds of those that it has read: it opens only those that came since, and those with rows of
// the range. The table has the column _hyp_ingest_seq. Thread-safe.
iceberg::ScanPlan plan_sequence(const iceberg::TableMetadata& metadata, const std::shared_ptr<FileIO>& io,
                                const iceberg::ScanOptions& scan, const SequenceWindow& range);

}  // namespace firn::hyp
