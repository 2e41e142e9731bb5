#include "iceberg/avro/container.h"

#include <algorithm>

#include <arrow/buffer.h>
#include <arrow/io/interfaces.h>

#include "base/arrow_status.h"
#include "base/error.h"
#include "base/hash.h"
#include "iceberg/avro/cursor.h"
#include "iceberg/avro/encoder.h"

namespace firn::iceberg::avro {

namespace {

constexpr std::string_view kMagic("Obj\1", 4);
constexpr size_t kSyncBytes = 16;
constexpr size_t kBlockBytes = 64 << 10;       // before compression; readers hold one block at a time
constexpr int64_t kWindowBytes = 1 << 20;      // what is fetched at once, unless one block is larger
constexpr int64_t kHeaderBytesMax = 64 << 20;  // of a file on disk; a schema of 10,000 columns has one or two
constexpr int64_t kBlockHeadBytesMax = 20;     // two numbers

// Reads the header at the start of `bytes`, and sets `size` to the bytes it takes.
ContainerHeader read_header(std::string_view bytes, std::string_view where, size_t& size) {
  if (!bytes.starts_with(kMagic)) fail(ErrorKind::corrupt, "{}: not an Avro container file", where);
  Cursor cursor(bytes.substr(kMagic.size()), where);
  ContainerHeader header;
  Node value;
  value.kind = Kind::bytes;
  while (const int64_t count = cursor.next_item_count(value)) {
    for (int64_t i = 0; i < count; ++i) {
      std::string key(cursor.read_bytes());
      header.metadata[std::move(key)] = cursor.read_bytes();
    }
  }
  header.sync_marker = cursor.read_fixed(kSyncBytes);
  size = bytes.size() - cursor.remaining();
  return header;
}

void resolve_header(ContainerHeader& header, std::string_view where) {
  const auto schema = header.metadata.find("avro.schema");
  if (schema == header.metadata.end()) fail(ErrorKind::corrupt, "{}: the Avro header lacks avro.schema", where);
  header.schema = WriterSchema::parse(schema->second, where);
  if (const auto codec = header.metadata.find("avro.codec"); codec != header.metadata.end())
    header.codec = codec_from_name(codec->second, where);
}

// The block's count, bytes and sync marker at `cursor`, unpacked.
Block read_block(Cursor& cursor, const ContainerHeader& header, BlockCodec& codec) {
  const std::string_view where = cursor.where();
  Block block;
  block.record_count = cursor.read_long();
  const std::string_view stored = cursor.read_fixed(cursor.read_long());
  if (cursor.read_fixed(kSyncBytes) != header.sync_marker)
    fail(ErrorKind::corrupt, "{}: an Avro block does not end in the file's sync marker; the file is damaged", where);
  block.data = codec.decompress(stored, where);
  if (block.record_count < 0 ||
      (!header.schema.root().is_empty && static_cast<uint64_t>(block.record_count) > block.data.size()))
    cursor.fail_corrupt("a count of records that their block cannot hold");
  return block;
}

}  // namespace

ContainerReader::ContainerReader(std::string_view bytes, std::string_view where) : where_(where) {
  size_t header_size = 0;
  header_ = read_header(bytes, where_, header_size);
  rest_ = bytes.substr(header_size);
  resolve_header(header_, where_);
  codec_ = BlockCodec(header_.codec);
}

std::optional<Block> ContainerReader::next_block() {
  if (rest_.empty()) return std::nullopt;
  Cursor cursor(rest_, where_);
  const Block block = read_block(cursor, header_, codec_);
  rest_ = rest_.substr(rest_.size() - cursor.remaining());
  return block;
}

ContainerStream::ContainerStream(std::shared_ptr<arrow::io::RandomAccessFile> file, std::string where)
    : file_(std::move(file)), where_(std::move(where)), window_(std::make_shared<arrow::Buffer>(nullptr, 0)) {
  size_bytes_ = check(file_->GetSize(), where_);
  // The header does not say how long it is, so it is tried with ever more of the file.
  for (int64_t tried = 64 << 10;; tried *= 4) {
    const std::string_view bytes = peek(tried);
    const bool is_all = static_cast<int64_t>(bytes.size()) == size_bytes_ || tried >= kHeaderBytesMax;
    try {
      size_t header_size = 0;
      header_ = read_header(bytes, where_, header_size);
      position_ = static_cast<int64_t>(header_size);
      break;
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::corrupt || is_all || !bytes.starts_with(kMagic)) throw;
    }
  }
  resolve_header(header_, where_);
  codec_ = BlockCodec(header_.codec);
}

ContainerStream::~ContainerStream() = default;

std::string_view ContainerStream::peek(int64_t bytes) {
  const int64_t wanted = std::min(bytes, size_bytes_ - position_);
  if (position_ < window_offset_ || position_ + wanted > window_offset_ + window_->size()) {
    const int64_t fetched = std::min(std::max(wanted, kWindowBytes), size_bytes_ - position_);
    window_ = check(file_->ReadAt(position_, fetched), "read " + where_);
    window_offset_ = position_;
    bytes_read_ += window_->size();
    if (window_->size() < wanted) fail(ErrorKind::io, "{}: the file became shorter while it was read", where_);
  }
  return {reinterpret_cast<const char*>(window_->data()) + (position_ - window_offset_), static_cast<size_t>(wanted)};
}

std::optional<Block> ContainerStream::next_block() {
  if (position_ == size_bytes_) return std::nullopt;
  Cursor head(peek(kBlockHeadBytesMax), where_);
  const size_t head_bytes = head.remaining();
  head.read_long();
  const int64_t stored_bytes = head.read_long();
  const int64_t left = size_bytes_ - position_;
  if (stored_bytes < 0 || stored_bytes > left) head.fail_corrupt("a block beyond the end of the file");
  const int64_t bytes = static_cast<int64_t>(head_bytes - head.remaining()) + stored_bytes + int64_t{kSyncBytes};
  Cursor cursor(peek(bytes), where_);
  const size_t before = cursor.remaining();
  const Block block = read_block(cursor, header_, codec_);
  position_ += static_cast<int64_t>(before - cursor.remaining());
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
