// Rows set aside on disk.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include <arrow/ipc/reader.h>
#include <arrow/ipc/writer.h>
#include <arrow/record_batch.h>

#include "io/local.h"

namespace firn::iceberg {

// A file that has no name: it is gone when its last owner is, however the process ends. Written once, then read any
// number of times. One thread writes; readers are independent.
class SpillFile {
 public:
  // In `folder`, made if it is missing; empty: the system's temporary folder.
  SpillFile(const std::string& folder, const std::shared_ptr<arrow::Schema>& schema);
  void write(const arrow::RecordBatch& batch);
  void finish();
  // Batches as they were written, by index. Only after finish().
  std::shared_ptr<arrow::ipc::RecordBatchFileReader> read() const;

 private:
  Descriptor fd_;
  std::shared_ptr<arrow::io::OutputStream> stream_;
  std::shared_ptr<arrow::ipc::RecordBatchWriter> writer_;
};

}  // namespace firn::iceberg
