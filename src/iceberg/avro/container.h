// Avro object container files in memory (Avro 1.11 spec, "Object Container Files").
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "iceberg/avro/codec.h"
#include "iceberg/avro/writer_schema.h"

namespace firn::iceberg::avro {

// Reads a file's blocks in order. `bytes` and `where` must outlive it. One thread.
class ContainerReader {
 public:
  // Reads the header. Throws corrupt, or unsupported for an unknown codec, naming `where`.
  ContainerReader(std::string_view bytes, std::string_view where);

  const WriterSchema& schema() const { return schema_; }
  // Every key of the header, "avro.schema" and "avro.codec" included.
  const std::map<std::string, std::string, std::less<>>& metadata() const { return metadata_; }

  struct Block {
    int64_t record_count = 0;  // not more than `data` has bytes, unless records are empty
    std::string_view data;     // decompressed; valid until the next call
  };
  std::optional<Block> next_block();  // nullopt at the end

 private:
  std::string_view where_;
  std::string_view rest_;
  std::map<std::string, std::string, std::less<>> metadata_;
  WriterSchema schema_;
  std::string sync_marker_;
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
