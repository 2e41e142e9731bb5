#include "hyp/type_text.h"

#include <algorithm>
#include <charconv>
#include <map>

#include "base/error.h"

namespace firn::hyp {
namespace {

using iceberg::Field;
using iceberg::Type;
using iceberg::TypeId;
using iceberg::TypePtr;

constexpr int kTypeDepthMax = 32;

const std::map<std::string_view, TypeId>& primitives() {
  static const std::map<std::string_view, TypeId> names = {
      {"boolean", TypeId::boolean_},
      {"int", TypeId::int_},
      {"long", TypeId::long_},
      {"float", TypeId::float_},
      {"double", TypeId::double_},
      {"date", TypeId::date},
      {"time", TypeId::time},
      {"timestamp", TypeId::timestamp},
      {"timestamptz", TypeId::timestamptz},
      {"timestamp_ns", TypeId::timestamp_ns},
      {"timestamptz_ns", TypeId::timestamptz_ns},
      {"string", TypeId::string},
      {"uuid", TypeId::uuid},
      {"binary", TypeId::binary},
  };
  return names;
}

class TypeParser {
 public:
  TypeParser(std::string_view text, int32_t& next_id) : text_(text), rest_(text), next_id_(next_id) {}

  TypePtr parse() {
    TypePtr type = parse_type(0);
    skip_space();
    if (!rest_.empty()) fail_here(fmt::format("unexpected \"{}\"", rest_));
    return type;
  }

 private:
  [[noreturn]] void fail_here(const std::string& what) const {
    fail(ErrorKind::invalid_argument, "type \"{}\": {}", text_, what);
  }

  void skip_space() { rest_.remove_prefix(std::min(rest_.find_first_not_of(" \t\r\n"), rest_.size())); }
  bool take(char c) {
    skip_space();
    if (!rest_.starts_with(c)) return false;
    rest_.remove_prefix(1);
    return true;
  }
  void expect(char c) {
    if (!take(c))
      fail_here(rest_.empty() ? fmt::format("'{}' is missing", c)
                              : fmt::format("expected '{}' before \"{}\"", c, rest_));
  }
  int32_t take_integer() {
    skip_space();
    int32_t value = 0;
    const auto [stop, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), value);
    if (error != std::errc()) fail_here("expected an integer");
    rest_.remove_prefix(static_cast<size_t>(stop - rest_.data()));
    return value;
  }

  TypePtr parse_type(int depth) {
    if (depth > kTypeDepthMax) fail_here("nested too deeply");
    skip_space();
    constexpr std::string_view kWord = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789";
    const size_t size = std::min(rest_.find_first_not_of(kWord), rest_.size());
    const std::string_view name = rest_.substr(0, size);
    rest_.remove_prefix(size);
    if (name == "decimal") {
      expect('(');
      const int32_t precision = take_integer();
      expect(',');
      const int32_t scale = take_integer();
      expect(')');
      return Type::decimal(precision, scale);
    }
    if (name == "fixed") {
      expect('[');
      const int32_t length = take_integer();
      expect(']');
      if (length < 1) fail_here("a length below 1");
      return Type::fixed(length);
    }
    if (name == "list") {
      expect('<');
      const int32_t id = next_id_++;
      TypePtr element = parse_type(depth + 1);
      expect('>');
      return Type::list_of(id, false, std::move(element));
    }
    if (name == "map") {
      expect('<');
      const int32_t key_id = next_id_++;
      const int32_t value_id = next_id_++;
      TypePtr key = parse_type(depth + 1);
      if (key->id() != TypeId::string) fail_here("maps are captured from JSON objects: their keys must be string");
      expect(',');
      TypePtr value = parse_type(depth + 1);
      expect('>');
      return Type::map_of(key_id, std::move(key), value_id, false, std::move(value));
    }
    if (name == "struct") return parse_struct(depth);
    const auto known = primitives().find(name);
    if (known == primitives().end()) {
      std::vector<std::string_view> names;
      for (const auto& [primitive, id] : primitives()) names.push_back(primitive);
      if (name.empty())
        fail_here(rest_.empty() ? "a type is missing" : fmt::format("expected a type before \"{}\"", rest_));
      fail_here(fmt::format(
          "unknown type \"{}\"; known are {}, decimal(p,s), fixed[n], list<T>, map<string, T> and struct<a: T>", name,
          fmt::join(names, ", ")));
    }
    return Type::primitive(known->second);
  }

  TypePtr parse_struct(int depth) {
    expect('<');
    std::vector<Field> fields;
    do {
      skip_space();
      const size_t colon = rest_.find_first_of(":<>,");
      if (colon == std::string_view::npos || rest_[colon] != ':') fail_here("expected a field's name and ':'");
      std::string_view name = rest_.substr(0, colon);
      rest_.remove_prefix(colon + 1);
      name = name.substr(0, name.find_last_not_of(" \t\r\n") + 1);
      if (name.empty()) fail_here("a field without a name");
      const int32_t id = next_id_++;
      fields.push_back(Field{.id = id, .name = std::string(name), .required = false, .type = parse_type(depth + 1)});
    } while (take(','));
    expect('>');
    return Type::struct_of(std::move(fields));
  }

  std::string_view text_;
  std::string_view rest_;
  int32_t& next_id_;
};

}  // namespace

TypePtr parse_type(std::string_view text, int32_t& next_id) { return TypeParser(text, next_id).parse(); }

std::string type_text(const Type& type) {
  switch (type.id()) {
    case TypeId::struct_: {
      std::string fields;
      for (const Field& field : type.fields()) {
        fields += fmt::format("{}{}: {}", fields.empty() ? "" : ", ", field.name, type_text(*field.type));
      }
      return "struct<" + fields + ">";
    }
    case TypeId::list:
      return "list<" + type_text(*type.element().type) + ">";
    case TypeId::map:
      return fmt::format("map<{}, {}>", type_text(*type.key().type), type_text(*type.value().type));
    default:
      return type.to_string();
  }
}

}  // namespace firn::hyp
