// The footer of Puffin files: magic, JSON payload (may be an LZ4 frame), payload size, flags, magic.
#include "base/error.h"
#include "iceberg/puffin/compression.h"
#include "iceberg/puffin/puffin.h"

namespace firn::iceberg {

namespace {

constexpr int64_t kFooterPayloadBytesMax = 256 << 20;  // decompressed; what is above is taken for hostile

int32_t load_int32(std::string_view bytes) {
  uint32_t value = 0;
  for (size_t i = 0; i < 4; ++i) value |= static_cast<uint32_t>(static_cast<uint8_t>(bytes[i])) << (8 * i);
  return static_cast<int32_t>(value);
}

std::map<std::string, std::string> string_map(const Json& object, std::string_view where) {
  std::map<std::string, std::string> map;
  const Json* properties = find_member(object, "properties");
  if (properties == nullptr) return map;
  if (!properties->is_object()) fail(ErrorKind::corrupt, "{}: properties is no object", where);
  for (const auto& [key, value] : properties->items()) {
    if (!value.is_string()) fail(ErrorKind::corrupt, "{}: property {} is no string", where, key);
    map.emplace(key, value.get<std::string>());
  }
  return map;
}

PuffinBlob parse_blob(const Json& json, int64_t footer_offset, const std::string& where) {
  if (!json.is_object()) fail(ErrorKind::corrupt, "{} is no object", where);
  PuffinBlob blob;
  blob.type = get_string(json, "type", where);
  for (const Json& field : get_array(json, "fields", where)) {
    if (!field.is_number_integer()) fail(ErrorKind::corrupt, "{}: a field id is no integer", where);
    blob.fields.push_back(field.get<int32_t>());
  }
  blob.snapshot_id = get_int64(json, "snapshot-id", where);
  blob.sequence_number = get_int64(json, "sequence-number", where);
  blob.offset = get_int64(json, "offset", where);
  blob.length = get_int64(json, "length", where);
  blob.compression_codec = find_string(json, "compression-codec", where).value_or("");
  blob.properties = string_map(json, where);
  if (blob.offset < static_cast<int64_t>(kPuffinMagic.size()) || blob.length < 0 || blob.offset > footer_offset ||
      blob.length > footer_offset - blob.offset) {
    fail(ErrorKind::corrupt, "{} lies at {} with {} bytes, outside of 4 to {}", where, blob.offset, blob.length,
         footer_offset);
  }
  return blob;
}

}  // namespace

int64_t puffin_footer_size_bytes(std::string_view file_end, int64_t file_size_bytes, std::string_view where) {
  constexpr int64_t kPuffinMagicBytes = kPuffinMagic.size();
  if (static_cast<int64_t>(file_end.size()) < kPuffinFooterEndBytes ||
      file_size_bytes < 2 * kPuffinMagicBytes + kPuffinFooterEndBytes) {
    fail(ErrorKind::corrupt, "{}: {} bytes are too few for a Puffin file", where, file_size_bytes);
  }
  const std::string_view end = file_end.substr(file_end.size() - kPuffinFooterEndBytes);
  if (end.substr(8) != kPuffinMagic) fail(ErrorKind::corrupt, "{}: no Puffin file: it does not end with PFA1", where);
  const int64_t payload = load_int32(end);
  if (payload < 0 || payload > file_size_bytes - 2 * kPuffinMagicBytes - kPuffinFooterEndBytes) {
    fail(ErrorKind::corrupt, "{}: a Puffin footer payload of {} bytes does not fit into {} bytes", where, payload,
         file_size_bytes);
  }
  return kPuffinMagicBytes + payload + kPuffinFooterEndBytes;
}

PuffinFile parse_puffin_footer(std::string_view whole_file_or_tail, int64_t file_size_bytes, std::string_view where) {
  const int64_t footer_bytes = puffin_footer_size_bytes(whole_file_or_tail, file_size_bytes, where);
  if (footer_bytes > static_cast<int64_t>(whole_file_or_tail.size())) {
    fail(ErrorKind::corrupt, "{}: the Puffin footer has {} bytes, {} were given", where, footer_bytes,
         whole_file_or_tail.size());
  }
  const std::string_view footer =
      whole_file_or_tail.substr(whole_file_or_tail.size() - static_cast<size_t>(footer_bytes));
  if (footer.substr(0, kPuffinMagic.size()) != kPuffinMagic) {
    fail(ErrorKind::corrupt, "{}: the Puffin footer does not begin with PFA1", where);
  }
  const std::string_view payload = footer.substr(
      kPuffinMagic.size(), footer.size() - kPuffinMagic.size() - static_cast<size_t>(kPuffinFooterEndBytes));
  const uint32_t flags = static_cast<uint32_t>(load_int32(footer.substr(footer.size() - 8)));
  if ((flags & ~1U) != 0) fail(ErrorKind::unsupported, "{}: unknown Puffin footer flags {:#x}", where, flags);
  const std::string title = fmt::format("{}: Puffin footer", where);
  const Json json = (flags & 1) != 0 ? parse_json(decompress_lz4_frame(payload, kFooterPayloadBytesMax, title), title)
                                     : parse_json(payload, title);
  if (!json.is_object()) fail(ErrorKind::corrupt, "{} is no object", title);
  PuffinFile file;
  file.properties = string_map(json, title);
  for (const Json& blob : get_array(json, "blobs", title)) {
    file.blobs.push_back(
        parse_blob(blob, file_size_bytes - footer_bytes, fmt::format("{}, blob {}", title, file.blobs.size())));
  }
  return file;
}

}  // namespace firn::iceberg
