#include "iceberg/avro/container.h"

#include "base/error.h"
#include "base/hash.h"
#include "iceberg/avro/cursor.h"
#include "iceberg/avro/encoder.h"

namespace firn::iceberg::avro {

namespace {

constexpr std::string_view kMagic("Obj\1", 4);
constexpr size_t kSyncBytes = 16;
constexpr size_t kBlockBytes = 64 << 10;  // before compression; readers hold one block at a time

}  // namespace

ContainerReader::ContainerReader(std::string_view bytes, std::string_view where) : where_(where) {
  if (!bytes.starts_with(kMagic)) fail(ErrorKind::corrupt, "{}: not an Avro container file", where_);
  Cursor cursor(bytes.substr(kMagic.size()), where_);
  Node value;
  value.kind = Kind::bytes;
  while (const int64_t count = cursor.next_item_count(value)) {
    for (int64_t i = 0; i < count; ++i) {
      std::string key(cursor.read_bytes());
      metadata_[std::move(key)] = cursor.read_bytes();
    }
  }
  sync_marker_ = cursor.read_fixed(kSyncBytes);
  rest_ = bytes.substr(bytes.size() - cursor.remaining());

  const auto schema = metadata_.find("avro.schema");
  if (schema == metadata_.end()) fail(ErrorKind::corrupt, "{}: the Avro header lacks avro.schema", where_);
  schema_ = WriterSchema::parse(schema->second, where_);
  if (const auto codec = metadata_.find("avro.codec"); codec != metadata_.end())
    codec_ = BlockCodec(codec_from_name(codec->second, where_));
}

std::optional<ContainerReader::Block> ContainerReader::next_block() {
  if (rest_.empty()) return std::nullopt;
  Cursor cursor(rest_, where_);
  Block block;
  block.record_count = cursor.read_long();
  const std::string_view stored = cursor.read_fixed(cursor.read_long());
  if (cursor.read_fixed(kSyncBytes) != sync_marker_)
    fail(ErrorKind::corrupt, "{}: an Avro block does not end in the file's sync marker; the file is damaged", where_);
  rest_ = rest_.substr(rest_.size() - cursor.remaining());
  block.data = codec_.decompress(stored, where_);
  if (block.record_count < 0 ||
      (!schema_.root().is_empty && static_cast<uint64_t>(block.record_count) > block.data.size()))
    cursor.fail_corrupt("a count of records that their block cannot hold");
  return block;
}

ContainerWriter::ContainerWriter(const std::string& schema_json,
                                 const std::vector<std::pair<std::string, std::string>>& metadata, CodecKind codec)
    : codec_(codec), file_(kMagic) {
  put_long(file_, static_cast<int64_t>(metadata.size()) + 2);
  put_bytes(file_, "avro.schema");
  put_bytes(file_, schema_json);
  put_bytes(file_, "avro.codec");
  put_bytes(file_, to_string(codec));
  for (const auto& [key, value] : metadata) {
    put_bytes(file_, key);
    put_bytes(file_, value);
  }
  put_long(file_, 0);
  const Sha256Digest digest = sha256(file_);
  sync_marker_.assign(reinterpret_cast<const char*>(digest.data()), kSyncBytes);
  file_ += sync_marker_;
}

void ContainerWriter::end_record() {
  ++block_records_;
  if (block_.size() >= kBlockBytes) flush_block();
}

std::string ContainerWriter::finish() {
  if (block_records_ > 0) flush_block();
  return std::move(file_);
}

void ContainerWriter::flush_block() {
  const std::string stored = codec_.compress(block_);
  put_long(file_, block_records_);
  put_bytes(file_, stored);
  file_ += sync_marker_;
  block_.clear();
  block_records_ = 0;
}

}  // namespace firn::iceberg::avro
