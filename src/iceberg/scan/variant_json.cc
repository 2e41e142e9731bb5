#include "iceberg/scan/variant_json.h"

#include <cstring>

#include <arrow/util/decimal.h>
#include <fmt/format.h>

#include "base/civil_time.h"
#include "base/error.h"
#include "iceberg/scan/json_text.h"

namespace firn::iceberg {

namespace {

constexpr int kVariantDepthMax = 500;  // deeper nesting is taken for hostile: it would exhaust the stack

std::string_view take(std::string_view bytes, uint64_t offset, uint64_t size) {
  if (offset > bytes.size() || size > bytes.size() - offset) {
    fail(ErrorKind::corrupt, "variant: {} bytes at {} are outside of the {} there are", size, offset, bytes.size());
  }
  return bytes.substr(offset, size);
}

uint64_t load_unsigned(std::string_view bytes, uint64_t offset, unsigned size) {
  const std::string_view taken = take(bytes, offset, size);
  uint64_t value = 0;
  for (unsigned i = 0; i < size; ++i) value |= static_cast<uint64_t>(static_cast<uint8_t>(taken[i])) << (8 * i);
  return value;
}

template <class T>
T load(std::string_view bytes, uint64_t offset) {
  T value;
  std::memcpy(&value, take(bytes, offset, sizeof(T)).data(), sizeof(T));
  return value;
}

// The dictionary of field names.
class Names {
 public:
  explicit Names(std::string_view bytes) : bytes_(bytes) {
    const auto header = load<uint8_t>(bytes, 0);
    if ((header & 0x0F) != 1) fail(ErrorKind::corrupt, "variant: metadata version {}, 1 is known", header & 0x0F);
    offset_size_ = (header >> 6) + 1U;
    count_ = load_unsigned(bytes, 1, offset_size_);
  }
  std::string_view at(uint64_t id) const {
    if (id >= count_) fail(ErrorKind::corrupt, "variant: field name {} of {}", id, count_);
    const uint64_t begin = offset(id);
    const uint64_t end = offset(id + 1);
    if (begin > end) fail(ErrorKind::corrupt, "variant: field name {} ends before it begins", id);
    return take(bytes_, 1 + (count_ + 2) * offset_size_ + begin, end - begin);
  }

 private:
  uint64_t offset(uint64_t id) const { return load_unsigned(bytes_, 1 + (id + 1) * offset_size_, offset_size_); }
  std::string_view bytes_;
  unsigned offset_size_ = 0;
  uint64_t count_ = 0;
};

class Writer {
 public:
  // A value of `size_bytes` has no more values within: children that share their bytes would grow beyond all bounds.
  Writer(const Names& names, size_t size_bytes, std::string& out)
      : names_(names), values_left_(size_bytes), out_(out) {}

  void append(std::string_view value, int depth) {
    if (depth > kVariantDepthMax) fail(ErrorKind::corrupt, "variant: nested deeper than {}", kVariantDepthMax);
    if (values_left_-- == 0) fail(ErrorKind::corrupt, "variant: more values than bytes");
    const auto first = load<uint8_t>(value, 0);
    const unsigned header = first >> 2;
    switch (first & 3) {
      case 0:
        append_primitive(value, header);
        break;
      case 1:
        append_string(take(value, 1, header));
        break;
      case 2:
        append_object(value, header, depth);
        break;
      default:
        append_array(value, header, depth);
        break;
    }
  }

 private:
  void append_text(std::string_view type, std::string_view text, bool quoted) {
    fmt::format_to(std::back_inserter(out_), R"({{"t":"{}","v":{}{}{}}})", type, quoted ? "\"" : "", text,
                   quoted ? "\"" : "");
  }

  void append_string(std::string_view text) {
    out_ += R"({"t":"string","v":)";
    append_json_string(text, out_);
    out_.push_back('}');
  }

  void append_decimal(std::string_view type, std::string_view value, unsigned size) {
    const auto scale = load<uint8_t>(value, 1);
    if (scale > 38) fail(ErrorKind::corrupt, "variant: decimal of scale {}", scale);
    const std::string_view digits = take(value, 2, size);
    std::array<uint8_t, 16> big_endian;
    for (unsigned i = 0; i < size; ++i) big_endian[i] = static_cast<uint8_t>(digits[size - 1 - i]);
    const auto number = arrow::Decimal128::FromBigEndian(big_endian.data(), static_cast<int32_t>(size)).ValueOrDie();
    out_ += fmt::format(R"({{"t":"{}","v":)", type);
    append_json_decimal(number, scale, out_);
    out_.push_back('}');
  }

  template <class T>
  void append_number(std::string_view type, std::string_view value) {
    append_text(type, fmt::format("{}", static_cast<int64_t>(load<T>(value, 1))), false);
  }

  template <class T>
  void append_float(std::string_view type, std::string_view value) {
    out_ += fmt::format(R"({{"t":"{}","v":)", type);
    append_json_float(load<T>(value, 1), out_);
    out_.push_back('}');
  }

  void append_primitive(std::string_view value, unsigned type) {
    switch (type) {
      case 0:
        out_ += R"({"t":"null"})";
        break;
      case 1:
        append_text("boolean_true", "true", false);
        break;
      case 2:
        append_text("boolean_false", "false", false);
        break;
      case 3:
        append_number<int8_t>("int8", value);
        break;
      case 4:
        append_number<int16_t>("int16", value);
        break;
      case 5:
        append_number<int32_t>("int32", value);
        break;
      case 6:
        append_number<int64_t>("int64", value);
        break;
      case 7:
        append_float<double>("double", value);
        break;
      case 8:
        append_decimal("decimal4", value, 4);
        break;
      case 9:
        append_decimal("decimal8", value, 8);
        break;
      case 10:
        append_decimal("decimal16", value, 16);
        break;
      case 11:
        append_text("date", format_date(load<int32_t>(value, 1)), true);
        break;
      case 12:
        append_text("timestamptz", format_timestamp_us(load<int64_t>(value, 1), true), true);
        break;
      case 13:
        append_text("timestampntz", format_timestamp_us(load<int64_t>(value, 1), false), true);
        break;
      case 14:
        append_float<float>("float", value);
        break;
      case 15: {
        out_ += R"({"t":"binary","v":)";
        append_json_hex(take(value, 5, load<uint32_t>(value, 1)), out_);
        out_.push_back('}');
        break;
      }
      case 16:
        append_string(take(value, 5, load<uint32_t>(value, 1)));
        break;
      case 17:
        append_text("time", format_time_us(load<int64_t>(value, 1)), true);
        break;
      case 18:
        append_text("timestamptz_nanos", format_timestamp_ns(load<int64_t>(value, 1), true), true);
        break;
      case 19:
        append_text("timestampntz_nanos", format_timestamp_ns(load<int64_t>(value, 1), false), true);
        break;
      case 20: {
        out_ += R"({"t":"uuid","v":)";
        append_json_uuid(take(value, 1, 16), out_);
        out_.push_back('}');
        break;
      }
      default:
        fail(ErrorKind::unsupported, "variant: unknown primitive type {}", type);
    }
  }

  void append_object(std::string_view value, unsigned header, int depth) {
    const unsigned offset_size = (header & 3) + 1;
    const unsigned id_size = (header >> 2 & 3) + 1;
    const unsigned count_size = (header >> 4 & 1) != 0 ? 4 : 1;
    const uint64_t count = load_unsigned(value, 1, count_size);
    const uint64_t ids = 1 + count_size;
    const uint64_t offsets = ids + count * id_size;
    const uint64_t values = offsets + (count + 1) * offset_size;
    take(value, 0, values);
    out_ += R"({"t":"object","v":{)";
    for (uint64_t i = 0; i < count; ++i) {
      if (i > 0) out_.push_back(',');
      append_json_string(names_.at(load_unsigned(value, ids + i * id_size, id_size)), out_);
      out_.push_back(':');
      const uint64_t begin = values + load_unsigned(value, offsets + i * offset_size, offset_size);
      append(take(value, begin, value.size() - std::min<uint64_t>(begin, value.size())), depth + 1);
    }
    out_ += "}}";
  }

  void append_array(std::string_view value, unsigned header, int depth) {
    const unsigned offset_size = (header & 3) + 1;
    const unsigned count_size = (header >> 2 & 1) != 0 ? 4 : 1;
    const uint64_t count = load_unsigned(value, 1, count_size);
    const uint64_t offsets = 1 + count_size;
    const uint64_t values = offsets + (count + 1) * offset_size;
    take(value, 0, values);
    out_ += R"({"t":"array","v":[)";
    for (uint64_t i = 0; i < count; ++i) {
      if (i > 0) out_.push_back(',');
      const uint64_t begin = values + load_unsigned(value, offsets + i * offset_size, offset_size);
      append(take(value, begin, value.size() - std::min<uint64_t>(begin, value.size())), depth + 1);
    }
    out_ += "]}";
  }

  const Names& names_;
  size_t values_left_;
  std::string& out_;
};

}  // namespace

void append_variant_json(std::string_view metadata, std::string_view value, std::string& out) {
  const Names names(metadata);
  Writer(names, value.size(), out).append(value, 0);
}

}  // namespace firn::iceberg
