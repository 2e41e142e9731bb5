#include "cli/firn/variant_text.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <limits>
#include <map>
#include <set>
#include <vector>

#include <arrow/util/decimal.h>

#include "base/civil_time.h"
#include "cli/firn/value_text.h"
#include "iceberg/value.h"

namespace firn::cli {
namespace {

constexpr int kDepthMax = 64;

void put_unsigned(uint64_t value, unsigned size, std::string& out) {
  for (unsigned i = 0; i < size; ++i) out.push_back(static_cast<char>(value >> (8 * i) & 0xFF));
}

unsigned bytes_needed(uint64_t value) { return value < 0x100 ? 1 : value < 0x10000 ? 2 : value < 0x1000000 ? 3 : 4; }

template <class T>
void put_raw(T value, std::string& out) {
  char bytes[sizeof(T)];
  std::memcpy(bytes, &value, sizeof(T));
  out.append(bytes, sizeof(T));
}

void collect_names(const Json& json, int depth, std::set<std::string>& names) {
  if (depth > kDepthMax) fail(ErrorKind::invalid_argument, "the variant is nested deeper than {}", kDepthMax);
  if (!json.is_object() || !json.contains("v") || !json["v"].is_structured()) return;
  for (const auto& [name, value] : json["v"].items()) {
    if (json["v"].is_object()) names.insert(name);
    collect_names(value, depth + 1, names);
  }
}

class Encoder {
 public:
  explicit Encoder(const std::set<std::string>& names) {
    for (const std::string& name : names) ids_.emplace(name, ids_.size());
  }

  void append(const Json& json, std::string& out) const {
    const bool has_type = json.is_object() && json.contains("t") && json["t"].is_string();
    if (!has_type) fail(ErrorKind::invalid_argument, "a variant value is {{\"t\":physical type,\"v\":value}}");
    const auto type = json["t"].get<std::string>();
    const Json value = json.contains("v") ? json["v"] : Json();
    if (type == "object") return append_object(value, out);
    if (type == "array") return append_array(value, out);
    if (!append_constant(type, out) && !append_number(type, value, out) && !append_timely(type, value, out) &&
        !append_bytes(type, value, out)) {
      fail(ErrorKind::invalid_argument, "the variant's {} is no {}",
           value.is_structured() ? "nested value" : value.dump(), type);
    }
  }

 private:
  static void put_type(unsigned type, std::string& out) { out.push_back(static_cast<char>(type << 2)); }

  static bool append_constant(const std::string& type, std::string& out) {
    if (type != "null" && type != "boolean_true" && type != "boolean_false") return false;
    put_type(type == "null" ? 0 : type == "boolean_true" ? 1 : 2, out);
    return true;
  }

  template <class T>
  static bool append_integer(unsigned type, const Json& value, std::string& out) {
    if (!value.is_number_integer()) return false;
    const auto number = value.get<int64_t>();
    if (value.is_number_unsigned() && value.get<uint64_t>() > INT64_MAX) return false;
    if (number < std::numeric_limits<T>::min() || number > std::numeric_limits<T>::max()) return false;
    put_type(type, out);
    put_raw(static_cast<T>(number), out);
    return true;
  }

  template <class T>
  static bool append_float(unsigned type, const Json& value, std::string& out) {
    const std::string text = value.is_string() ? value.get<std::string>() : value.is_number() ? value.dump() : "";
    T number{};
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (text.empty() || error != std::errc{} || end != text.data() + text.size()) return false;
    put_type(type, out);
    put_raw(number, out);
    return true;
  }

  // The scale is that of the text.
  static bool append_decimal(unsigned type, unsigned size, int32_t precision_max, const Json& value, std::string& out) {
    if (!value.is_string()) return false;
    const std::string text = value.get<std::string>();
    arrow::Decimal128 wrapped;  // where there are too many digits
    int32_t precision = 0, scale = 0;
    if (!arrow::Decimal128::FromString(text, &wrapped, &precision, &scale).ok() || scale < 0 || scale > 38)
      return false;
    const auto number = iceberg::floor_decimal(text, scale);
    if (!number || !number->unscaled.FitsInPrecision(precision_max)) return false;
    put_type(type, out);
    put_unsigned(static_cast<uint64_t>(scale), 1, out);
    const auto bytes = number->unscaled.ToBytes();  // little-endian
    out.append(reinterpret_cast<const char*>(bytes.data()), size);
    return true;
  }

  static bool append_number(const std::string& type, const Json& value, std::string& out) {
    if (type == "int8") return append_integer<int8_t>(3, value, out);
    if (type == "int16") return append_integer<int16_t>(4, value, out);
    if (type == "int32") return append_integer<int32_t>(5, value, out);
    if (type == "int64") return append_integer<int64_t>(6, value, out);
    if (type == "double") return append_float<double>(7, value, out);
    if (type == "float") return append_float<float>(14, value, out);
    if (type == "decimal4") return append_decimal(8, 4, 9, value, out);
    if (type == "decimal8") return append_decimal(9, 8, 18, value, out);
    if (type == "decimal16") return append_decimal(10, 16, 38, value, out);
    return false;
  }

  static bool append_timely(const std::string& type, const Json& value, std::string& out) {
    if (!value.is_string()) return false;
    const auto& text = value.get_ref<const std::string&>();
    if (type == "date") {
      const auto days = parse_date(text, Years::any);
      if (days) put_type(11, out), put_raw(*days, out);
      return days.has_value();
    }
    if (type == "time") {
      const auto micros = parse_time_us(text);
      if (micros) put_type(17, out), put_raw(*micros, out);
      return micros.has_value();
    }
    const bool is_nanos = type.ends_with("_nanos"), has_zone = type.starts_with("timestamptz");
    const unsigned id = type == "timestamptz"          ? 12
                        : type == "timestampntz"       ? 13
                        : type == "timestamptz_nanos"  ? 18
                        : type == "timestampntz_nanos" ? 19
                                                       : 0;
    if (id == 0) return false;
    const auto parsed = is_nanos ? parse_timestamp_ns(text, Years::any) : parse_timestamp_us(text, Years::any);
    if (!parsed || parsed->has_offset != has_zone) return false;
    put_type(id, out);
    put_raw(parsed->value, out);
    return true;
  }

  static bool append_bytes(const std::string& type, const Json& value, std::string& out) {
    if (!value.is_string()) return false;
    const auto& text = value.get_ref<const std::string&>();
    if (type == "string") {
      if (text.size() < 64) {
        out.push_back(static_cast<char>(text.size() << 2 | 1));  // a short string
      } else {
        put_type(16, out);
        put_unsigned(text.size(), 4, out);
      }
      out += text;
      return true;
    }
    const auto bytes = type == "uuid" ? bytes_of_uuid(text) : type == "binary" ? bytes_of_hex(text) : std::nullopt;
    if (!bytes) return false;
    put_type(type == "uuid" ? 20 : 15, out);
    if (type == "binary") put_unsigned(bytes->size(), 4, out);
    out += *bytes;
    return true;
  }

  // Offsets of the values, one more than there are, and the values.
  static void put_values(const std::vector<std::string>& values, unsigned offset_size, std::string& out) {
    uint64_t offset = 0;
    for (const std::string& value : values) put_unsigned(offset, offset_size, out), offset += value.size();
    put_unsigned(offset, offset_size, out);
    for (const std::string& value : values) out += value;
  }
  static unsigned offset_size_of(const std::vector<std::string>& values) {
    uint64_t size = 0;
    for (const std::string& value : values) size += value.size();
    if (size > UINT32_MAX) fail(ErrorKind::invalid_argument, "the variant is too large");
    return bytes_needed(size);
  }

  void append_object(const Json& json, std::string& out) const {
    if (!json.is_object()) fail(ErrorKind::invalid_argument, "a variant's object has an object as \"v\"");
    std::map<std::string, std::string> members;  // by name, as the encoding wants them
    for (const auto& [name, value] : json.items()) append(value, members[name]);
    std::vector<std::string> values;
    for (const auto& [name, value] : members) values.push_back(value);
    const bool is_large = members.size() > 255;
    const unsigned offset_size = offset_size_of(values), id_size = bytes_needed(ids_.size());
    out.push_back(static_cast<char>((unsigned{is_large} << 4 | (id_size - 1) << 2 | (offset_size - 1)) << 2 | 2));
    put_unsigned(members.size(), is_large ? 4 : 1, out);
    for (const auto& [name, value] : members) put_unsigned(ids_.at(name), id_size, out);
    put_values(values, offset_size, out);
  }

  void append_array(const Json& json, std::string& out) const {
    if (!json.is_array()) fail(ErrorKind::invalid_argument, "a variant's array has an array as \"v\"");
    std::vector<std::string> values;
    for (const Json& element : json) append(element, values.emplace_back());
    const bool is_large = values.size() > 255;
    const unsigned offset_size = offset_size_of(values);
    out.push_back(static_cast<char>((unsigned{is_large} << 2 | (offset_size - 1)) << 2 | 3));
    put_unsigned(values.size(), is_large ? 4 : 1, out);
    put_values(values, offset_size, out);
  }

  std::map<std::string, uint64_t> ids_;
};

// The dictionary of field names, sorted.
std::string encode_names(const std::set<std::string>& names) {
  uint64_t size = names.size();
  for (const std::string& name : names) size += name.size();
  const unsigned offset_size = bytes_needed(size);
  std::string out(1, static_cast<char>((offset_size - 1) << 6 | 1U << 4 | 1U));
  put_unsigned(names.size(), offset_size, out);
  uint64_t offset = 0;
  for (const std::string& name : names) put_unsigned(offset, offset_size, out), offset += name.size();
  put_unsigned(offset, offset_size, out);
  for (const std::string& name : names) out += name;
  return out;
}

}  // namespace

VariantBytes encode_variant(const Json& json) {
  std::set<std::string> names;
  collect_names(json, 0, names);
  VariantBytes bytes;
  bytes.metadata = encode_names(names);
  Encoder(names).append(json, bytes.value);
  return bytes;
}

}  // namespace firn::cli
