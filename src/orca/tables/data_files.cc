#include "orca/tables/data_files.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "base/json.h"
#include "iceberg/avro/cursor.h"
#include "iceberg/avro/encoder.h"

namespace firn::orca {
namespace {

using iceberg::DataFile;
using iceberg::FileContent;
using iceberg::Value;
using iceberg::avro::Cursor;
using iceberg::avro::put_boolean;
using iceberg::avro::put_bytes;
using iceberg::avro::put_floating;
using iceberg::avro::put_long;

// "OF" and a version: bytes of something else are told from ours.
constexpr std::string_view kMagic = "OF\1";
constexpr std::string_view kWhere = "encoded data files";

// Found by the templates below.
void put(std::string& out, const Value& value);
void put(std::string& out, const DataFile& file);
void get(Cursor& in, Value& value);
void get(Cursor& in, DataFile& file);

void put(std::string& out, int64_t value) { put_long(out, value); }
void put(std::string& out, int32_t value) { put_long(out, value); }
void put(std::string& out, const std::string& value) { put_bytes(out, value); }

template <class T>
void put(std::string& out, const std::optional<T>& value) {
  put_boolean(out, value.has_value());
  if (value) put(out, *value);
}

template <class T>
void put(std::string& out, const std::vector<T>& values) {
  put_long(out, static_cast<int64_t>(values.size()));
  for (const T& value : values) put(out, value);
}

template <class T>
void put(std::string& out, const std::map<int32_t, T>& values) {
  put_long(out, static_cast<int64_t>(values.size()));
  for (const auto& [id, value] : values) {
    put(out, id);
    put(out, value);
  }
}

// The alternative's index, then its bytes: as base/value's variant has them.
struct PutValue {
  std::string& out;
  void operator()(std::monostate) {}
  void operator()(bool value) { put_boolean(out, value); }
  void operator()(int32_t value) { put_long(out, value); }
  void operator()(int64_t value) { put_long(out, value); }
  void operator()(float value) { put_floating(out, value); }
  void operator()(double value) { put_floating(out, value); }
  void operator()(const arrow::Decimal128& value) {
    const auto bytes = value.ToBytes();
    out.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  }
  void operator()(const std::string& value) { put_bytes(out, value); }
  void operator()(const iceberg::NestedJson& value) { put_bytes(out, value.text); }
};

void put(std::string& out, const Value& value) {
  out.push_back(static_cast<char>(value.index()));
  std::visit(PutValue{out}, value);
}

void get(Cursor& in, int64_t& value) { value = in.read_long(); }
void get(Cursor& in, int32_t& value) { value = in.read_int(); }
void get(Cursor& in, std::string& value) { value = in.read_bytes(); }

template <class T>
void get(Cursor& in, std::optional<T>& value) {
  if (!in.read_boolean()) return;
  get(in, value.emplace());
}

int64_t get_count(Cursor& in) {
  const int64_t count = in.read_long();
  // Everything counted takes a byte at the least, so that no count makes for more memory than there are bytes.
  if (count < 0 || static_cast<uint64_t>(count) > in.remaining()) in.fail_corrupt("a count beyond the end of the data");
  return count;
}

template <class T>
void get(Cursor& in, std::vector<T>& values) {
  for (int64_t left = get_count(in); left > 0; --left) get(in, values.emplace_back());
}

template <class T>
void get(Cursor& in, std::map<int32_t, T>& values) {
  for (int64_t left = get_count(in); left > 0; --left) {
    const int32_t id = in.read_int();
    get(in, values[id]);
  }
}

void get(Cursor& in, Value& value) {
  switch (in.read_fixed(1)[0]) {
    case 0:
      value = std::monostate();
      return;
    case 1:
      value = in.read_boolean();
      return;
    case 2:
      value = in.read_int();
      return;
    case 3:
      value = in.read_long();
      return;
    case 4:
      value = in.read_float();
      return;
    case 5:
      value = in.read_double();
      return;
    case 6: {
      uint64_t words[2];  // as ToBytes gives them: the machine's order, little-endian
      std::memcpy(words, in.read_fixed(sizeof(words)).data(), sizeof(words));
      value = arrow::Decimal128(static_cast<int64_t>(words[1]), words[0]);
      return;
    }
    case 7:
      value = std::string(in.read_bytes());
      return;
    case 8:
      value = iceberg::NestedJson{std::string(in.read_bytes())};
      return;
    default:
      in.fail_corrupt("a value of no known kind");
  }
}
static_assert(std::variant_size_v<Value> == 9, "a new kind of value needs a case above");

// Every field of an entry, in one place for both directions.
template <class Entry, class Visit>
void for_each_field(Entry& file, const Visit& visit) {
  visit(file.file_path);
  visit(file.file_format);
  visit(file.partition);
  visit(file.record_count);
  visit(file.file_size_bytes);
  visit(file.column_sizes);
  visit(file.value_counts);
  visit(file.null_value_counts);
  visit(file.nan_value_counts);
  visit(file.lower_bounds);
  visit(file.upper_bounds);
  visit(file.key_metadata);
  visit(file.split_offsets);
  visit(file.equality_ids);
  visit(file.sort_order_id);
  visit(file.first_row_id);
  visit(file.referenced_data_file);
  visit(file.content_offset);
  visit(file.content_size_bytes);
  visit(file.partition_spec_id);
}

void put(std::string& out, const DataFile& file) {
  out.push_back(static_cast<char>(file.content));
  for_each_field(file, [&](const auto& field) { put(out, field); });
}

void get(Cursor& in, DataFile& file) {
  const char content = in.read_fixed(1)[0];
  if (content < 0 || content > static_cast<char>(FileContent::equality_deletes)) in.fail_corrupt("a file of no kind");
  file.content = static_cast<FileContent>(content);
  for_each_field(file, [&](auto& field) { get(in, field); });
}

}  // namespace

void DataFiles::add(const DataFiles& other) {
  if (&other == this) return add(DataFiles(other));
  files.insert(files.end(), other.files.begin(), other.files.end());
  for (const iceberg::Schema& schema : other.schemas) {
    const bool is_there =
        std::any_of(schemas.begin(), schemas.end(), [&](const auto& s) { return s.same_fields(schema); });
    if (!is_there) schemas.push_back(schema);
  }
}

void DataFiles::encode(std::string& out) const {
  std::string body;
  put_long(body, static_cast<int64_t>(schemas.size()));
  for (const iceberg::Schema& schema : schemas) put_bytes(body, schema.to_json().dump());
  put(body, files);
  out += kMagic;
  put_bytes(out, body);
}

DataFiles DataFiles::decode(std::string_view buf, size_t& pos) {
  const std::string_view bytes = buf.substr(std::min(pos, buf.size()));
  Cursor outer(bytes, kWhere);
  const std::string_view magic = outer.read_fixed(static_cast<int64_t>(kMagic.size()));
  if (magic.substr(0, 2) != kMagic.substr(0, 2)) outer.fail_corrupt("bytes that are no data files");
  if (magic != kMagic)
    fail(ErrorKind::unsupported, "{}: version {}; another version of this program wrote them", kWhere,
         static_cast<int>(magic[2]));
  Cursor in(outer.read_bytes(), kWhere);
  DataFiles result;
  for (int64_t left = get_count(in); left > 0; --left)
    result.schemas.push_back(iceberg::Schema::from_json(parse_json(in.read_bytes(), kWhere), kWhere));
  get(in, result.files);
  if (in.remaining() != 0) in.fail_corrupt("bytes after the last file");
  pos = buf.size() - outer.remaining();
  return result;
}

}  // namespace firn::orca
