// One object of a blob sink: rows as Parquet or JSONL.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include <arrow/record_batch.h>

#include "hyp/config.h"
#include "iceberg/schema.h"
#include "io/file_io.h"

namespace firn::hyp {

// ".parquet", ".jsonl", ".jsonl.gz" or ".jsonl.zst". Throws config naming a compression that the format does not have.
std::string blob_extension(BlobFormat format, const std::string& compression);

// Streaming, memory bounded by a row group. One thread.
class BlobFile {
 public:
  virtual ~BlobFile() = default;  // without close(): nothing is left behind
  virtual void write(const arrow::RecordBatch& batch) = 0;
  virtual int64_t close() = 0;  // publishes the file, durable (P15); returns its size
};
// `path`'s extension decides the format; `compression` is Parquet's. Replaces a file that is there. Batches have
// to_arrow_schema(schema).
std::unique_ptr<BlobFile> create_blob_file(FileIO& io, const std::string& path, const iceberg::Schema& schema,
                                           const std::string& compression);

}  // namespace firn::hyp
