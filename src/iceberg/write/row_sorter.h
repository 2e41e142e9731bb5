// An external sort of rows within a memory budget: sorted runs are spilled to disk and merged.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <arrow/record_batch.h>

#include "iceberg/write/sort_keys.h"
#include "iceberg/write/spill_file.h"

namespace firn::iceberg {

// Stable: rows with equal keys keep the order they came in. Spilled runs are files without a name, gone with the
// process. One thread.
class RowSorter {
 public:
  using KeysOf = std::function<SortKeys(const arrow::RecordBatch&)>;
  // Sorted rows. They come in pieces of bounded size.
  using Emit = std::function<void(const std::shared_ptr<arrow::RecordBatch>&)>;

  // `keys_of` is asked again for rows that come back from disk, and must answer the same. About `memory_bytes_max` are
  // held at any time. `spill_folder` empty: the system's temporary folder.
  RowSorter(std::shared_ptr<arrow::Schema> schema, KeysOf keys_of, int64_t memory_bytes_max, std::string spill_folder);
  ~RowSorter();

  void add(const std::shared_ptr<arrow::RecordBatch>& batch);
  void finish(const Emit& emit);  // once; nothing is held afterwards

  int64_t runs_spilled() const { return runs_spilled_; }

 private:
  void emit_buffered(const Emit& emit);
  std::unique_ptr<SpillFile> write_run(const std::function<void(const Emit&)>& produce);
  void spill();
  void merge(std::vector<std::unique_ptr<SpillFile>> runs, const Emit& emit) const;

  std::shared_ptr<arrow::Schema> schema_;
  KeysOf keys_of_;
  int64_t buffer_bytes_max_;  // of rows and keys; sorting them takes as much again
  int64_t piece_bytes_;       // of a batch in a run; one of each run is held while merging
  std::string spill_folder_;
  std::vector<std::shared_ptr<arrow::RecordBatch>> batches_;
  std::vector<SortKeys> keys_;
  int64_t buffered_bytes_ = 0, buffered_rows_ = 0;
  // Level n holds runs that took n merges; later levels hold older rows.
  std::vector<std::vector<std::unique_ptr<SpillFile>>> levels_;
  int64_t runs_spilled_ = 0;
};

}  // namespace firn::iceberg
