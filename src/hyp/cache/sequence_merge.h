// Rows of many files in sequence order (protocols P9.1).
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <arrow/record_batch.h>

namespace firn::hyp {

constexpr size_t kMergeOpenMax = 64;

// Rows whose numbers ascend, such as a cache table's data file. Opened when the merge comes to it.
struct SequencedRun {
  int64_t lower = std::numeric_limits<int64_t>::min();  // bounds of its numbers, inclusive; need not be tight
  int64_t upper = std::numeric_limits<int64_t>::max();
  std::function<std::shared_ptr<arrow::RecordBatchReader>()> open;
  std::string name;  // for messages
};

// Yields all rows of `runs` by ascending number. Runs whose bounds do not overlap are read one after another; of those
// that do, at most kMergeOpenMax are open at once: where more overlap, groups of them are first merged into temporary
// files, which have no name and go with the process. Memory is bounded by the open runs' batches. One thread.
class SequenceMerge {
 public:
  // All batches have `schema`; column `seq_column` is the int64 number, never null. Throws corrupt from next() naming
  // the run whose numbers do not ascend.
  SequenceMerge(std::vector<SequencedRun> runs, std::shared_ptr<arrow::Schema> schema, int seq_column,
                int64_t batch_rows_max);
  ~SequenceMerge();
  std::shared_ptr<arrow::RecordBatch> next();  // never empty; nullptr at the end

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// A run's rows in any order as runs whose numbers ascend, each in a temporary file.
std::vector<SequencedRun> sort_into_runs(const SequencedRun& unsorted, int seq_column);

}  // namespace firn::hyp
