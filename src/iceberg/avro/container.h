// Avro object container files (Avro 1.11 spec, "Object Container Files").
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "iceberg/avro/codec.h"
#include "iceberg/avro/writer_schema.h"

namespace arrow {
class Buffer;
namespace io {
class RandomAccessFile;
}
}  // namespace arrow

namespace firn::iceberg::avro {

struct Block {
  int64_t record_count = 0;  // not more than `data` has bytes, unless records are empty
  std::string_view data;     // decompressed; valid until the next block is read
};

// What stands before the blocks.
struct ContainerHeader {
  // Every key, "avro.schema" and "avro.codec" included.
  std::map<std::string, std::string, std::less<>> metadata;
  WriterSchema schema;
  std::string sync_marker;
  CodecKind codec = CodecKind::null;
};

// Reads the blocks of a file in memory, in order. `bytes` and `where` must outlive it. One thread.
class ContainerReader {
 public:
  // Reads the header. Throws corrupt, or unsupported for an unknown codec, naming `where`.
  ContainerReader(std::string_view bytes, std::string_view where);

  const WriterSchema& schema() const { return header_.schema; }
  const std::map<std::string, std::string, std::less<>>& metadata() const { return header_.metadata; }
  std::optional<Block> next_block();  // nullopt at the end

 private:
  std::string_view where_;
  std::string_view rest_;
  ContainerHeader header_;
  BlockCodec codec_{CodecKind::null};
};

// Reads the blocks of a file on disk, in order, holding one of them at a time. One thread.
class ContainerStream {
 public:
  // Reads the header. Throws corrupt, unsupported for an unknown codec, and io, naming `where`.
  ContainerStream(std::shared_ptr<arrow::io::RandomAccessFile> file, std::string where);
  ~ContainerStream();

  const WriterSchema& schema() const { return header_.schema; }
  std::optional<Block> next_block();  // nullopt at the end
  int64_t bytes_read() const { return bytes_read_; }

 private:
  // The next `bytes` of the file, or all that are left of it. Valid until the next call.
  std::string_view peek(int64_t bytes);

  std::shared_ptr<arrow::io::RandomAccessFile> file_;
  std::string where_;
  int64_t size_bytes_ = 0, position_ = 0;
  std::shared_ptr<arrow::Buffer> window_;
  int64_t window_offset_ = 0;  // of window_ in the file
  int64_t bytes_read_ = 0;
  ContainerHeader header_;
  BlockCodec codec_{CodecKind::null};
};

// Builds a file. The caller appends one record at a time to record() (encoder.h) and calls end_record(). One thread.
class ContainerWriter {
 public:
  // `metadata` goes into the header beside the schema and the codec. Equal input gives equal bytes: the sync marker is
  // made of a hash of the header.
  ContainerWriter(const std::string& schema_json, const std::vector<std::pair<std::string, std::string>>& metadata,
                  CodecKind codec);

  std::string& record() { return block_; }
  void end_record();
  // The whole file; the writer is of no use afterwards.
  std::string finish();

 private:
  void flush_block();

  BlockCodec codec_;
  std::string file_;
  std::string sync_marker_;
  std::string block_;
  int64_t block_records_ = 0;
};

}  // namespace firn::iceberg::avro
