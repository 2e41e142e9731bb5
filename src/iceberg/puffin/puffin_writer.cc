// PuffinWriter and decode_puffin_blob.
#include "base/arrow_status.h"
#include "iceberg/puffin/compression.h"
#include "iceberg/puffin/puffin.h"

namespace firn::iceberg {

namespace {

void append_little_endian(uint32_t value, std::string& out) {
  for (int shift = 0; shift < 32; shift += 8) out.push_back(static_cast<char>(value >> shift));
}

Json blob_json(const PuffinBlob& blob) {
  Json json = {{"type", blob.type},
               {"fields", blob.fields},
               {"snapshot-id", blob.snapshot_id},
               {"sequence-number", blob.sequence_number},
               {"offset", blob.offset},
               {"length", blob.length}};
  if (!blob.compression_codec.empty()) json["compression-codec"] = blob.compression_codec;
  if (!blob.properties.empty()) json["properties"] = blob.properties;
  return json;
}

}  // namespace

std::string decode_puffin_blob(const PuffinBlob& blob, std::string_view stored, std::string_view where,
                               int64_t size_bytes_max) {
  const std::string what = fmt::format("{}: the Puffin blob of type {} at {}", where, blob.type, blob.offset);
  if (static_cast<int64_t>(stored.size()) != blob.length)
    fail(ErrorKind::corrupt, "{} has {} bytes, {} were given", what, blob.length, stored.size());
  if (blob.compression_codec == "lz4") return decompress_lz4_frame(stored, size_bytes_max, what);
  if (blob.compression_codec == "zstd") return decompress_zstd_frame(stored, size_bytes_max, what);
  if (!blob.compression_codec.empty())
    fail(ErrorKind::unsupported, "{} is compressed with {}; lz4 and zstd are known", what, blob.compression_codec);
  if (blob.length > size_bytes_max)
    fail(ErrorKind::corrupt, "{} has {} bytes, more than {}", what, blob.length, size_bytes_max);
  return std::string(stored);
}

PuffinWriter::PuffinWriter(arrow::io::OutputStream& out, std::string where) : out_(out), where_(std::move(where)) {
  write(kPuffinMagic);
}

void PuffinWriter::write(std::string_view bytes) {
  check(out_.Write(bytes.data(), static_cast<int64_t>(bytes.size())), "write " + where_);
  offset_ += static_cast<int64_t>(bytes.size());
}

PuffinBlob PuffinWriter::add(PuffinBlob blob, std::string_view content) {
  std::string compressed;
  if (blob.compression_codec == "lz4") {
    compressed = compress_lz4_frame(content);
  } else if (blob.compression_codec == "zstd") {
    compressed = compress_zstd_frame(content);
  } else if (!blob.compression_codec.empty()) {
    fail(ErrorKind::invalid_argument, "{}: Puffin has no codec {}: give lz4, zstd, or none", where_,
         blob.compression_codec);
  }
  const std::string_view stored = blob.compression_codec.empty() ? content : compressed;
  blob.offset = offset_;
  blob.length = static_cast<int64_t>(stored.size());
  write(stored);
  blobs_.push_back(blob);
  return blob;
}

int64_t PuffinWriter::finish(const std::map<std::string, std::string>& properties, bool compress_footer) {
  Json json = {{"blobs", Json::array()}};
  for (const PuffinBlob& blob : blobs_) json["blobs"].push_back(blob_json(blob));
  if (!properties.empty()) json["properties"] = properties;
  std::string payload = json.dump();
  if (compress_footer) payload = compress_lz4_frame(payload);
  std::string footer(kPuffinMagic);
  footer += payload;
  append_little_endian(static_cast<uint32_t>(payload.size()), footer);
  append_little_endian(compress_footer ? 1 : 0, footer);
  footer += kPuffinMagic;
  write(footer);
  return offset_;
}

}  // namespace firn::iceberg
