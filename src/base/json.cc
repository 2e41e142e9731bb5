#include "base/json.h"

#include <algorithm>
#include <limits>

namespace firn {
namespace {

// Deeper documents are refused, so that code which recurses over a document cannot run out of stack.
constexpr int kDepthMax = 512;

// Accepts every value and keeps where the parser stopped.
struct ErrorLocator {
  size_t position = 0;  // bytes read, the offending one included
  std::string message;

  bool null() { return true; }
  bool boolean(bool) { return true; }
  bool number_integer(Json::number_integer_t) { return true; }
  bool number_unsigned(Json::number_unsigned_t) { return true; }
  bool number_float(Json::number_float_t, const std::string&) { return true; }
  bool string(std::string&) { return true; }
  bool binary(Json::binary_t&) { return true; }
  bool start_object(size_t) { return true; }
  bool key(std::string&) { return true; }
  bool end_object() { return true; }
  bool start_array(size_t) { return true; }
  bool end_array() { return true; }
  bool parse_error(size_t at, const std::string&, const nlohmann::detail::exception& error) {
    position = at;
    message = error.what();
    return false;
  }
};

[[noreturn]] void fail_at(std::string_view text, size_t position, std::string_view where, std::string_view what) {
  const std::string_view before = text.substr(0, std::min(position, text.size()));
  const size_t line = 1 + std::count(before.begin(), before.end(), '\n');
  const size_t line_start = before.rfind('\n') == std::string_view::npos ? 0 : before.rfind('\n') + 1;
  fail(ErrorKind::corrupt, "{}: line {}, column {}: {}", where, line, before.size() - line_start + 1, what);
}

void check_depth(std::string_view text, std::string_view where) {
  int depth = 0;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\') ++i;
      if (c == '"') in_string = false;
    } else if (c == '"') {
      in_string = true;
    } else if (c == '[' || c == '{') {
      if (++depth > kDepthMax) fail_at(text, i, where, fmt::format("nested deeper than {} levels", kDepthMax));
    } else if (c == ']' || c == '}') {
      --depth;
    }
  }
}

std::string_view type_title(const Json& value) { return value.type_name(); }

const Json& get_member(const Json& object, const char* key, std::string_view where) {
  if (!object.is_object()) fail(ErrorKind::corrupt, "{}: expected an object, found {}", where, type_title(object));
  const auto it = object.find(key);
  if (it == object.end()) fail(ErrorKind::corrupt, "{}: \"{}\" is missing", where, key);
  return *it;
}

[[noreturn]] void fail_type(const Json& value, const char* key, std::string_view where, std::string_view expected) {
  fail(ErrorKind::corrupt, "{}: \"{}\" should be {}, not {}", where, key, expected,
       value.is_primitive() ? value.dump(-1, ' ', false, Json::error_handler_t::replace).substr(0, 80)
                            : std::string(type_title(value)));
}

int64_t as_int64(const Json& value, const char* key, std::string_view where) {
  const bool fits = value.is_number_unsigned()
                        ? value.get<uint64_t>() <= static_cast<uint64_t>(std::numeric_limits<int64_t>::max())
                        : value.is_number_integer();
  if (!fits) fail_type(value, key, where, "a 64-bit integer");
  return value.get<int64_t>();
}

int32_t as_int32(const Json& value, const char* key, std::string_view where) {
  const int64_t wide = value.is_number_integer() ? as_int64(value, key, where) : std::numeric_limits<int64_t>::max();
  if (wide < std::numeric_limits<int32_t>::min() || wide > std::numeric_limits<int32_t>::max()) {
    fail_type(value, key, where, "a 32-bit integer");
  }
  return static_cast<int32_t>(wide);
}

bool as_bool(const Json& value, const char* key, std::string_view where) {
  if (!value.is_boolean()) fail_type(value, key, where, "true or false");
  return value.get<bool>();
}

std::string as_string(const Json& value, const char* key, std::string_view where) {
  if (!value.is_string()) fail_type(value, key, where, "a string");
  return value.get<std::string>();
}

const Json* find_checked(const Json& object, const char* key, std::string_view where) {
  if (!object.is_object()) fail(ErrorKind::corrupt, "{}: expected an object, found {}", where, type_title(object));
  return find_member(object, key);
}

}  // namespace

Json parse_json(std::string_view text, std::string_view where) {
  check_depth(text, where);
  Json parsed = Json::parse(text.begin(), text.end(), nullptr, /*allow_exceptions=*/false);
  if (!parsed.is_discarded()) return parsed;
  ErrorLocator locator;
  Json::sax_parse(text.begin(), text.end(), &locator);
  // nlohmann's text: "[json.exception.parse_error.101] parse error at line 1, column 2: <what was wrong>".
  std::string_view message = locator.message;
  if (const size_t head = message.find("] "); head != std::string_view::npos) message.remove_prefix(head + 2);
  if (const size_t colon = message.find(": "); message.starts_with("parse error") && colon != std::string_view::npos) {
    message.remove_prefix(colon + 2);
  }
  fail_at(text, locator.position == 0 ? 0 : locator.position - 1, where, message);
}

int64_t get_int64(const Json& object, const char* key, std::string_view where) {
  return as_int64(get_member(object, key, where), key, where);
}
int32_t get_int32(const Json& object, const char* key, std::string_view where) {
  return as_int32(get_member(object, key, where), key, where);
}
bool get_bool(const Json& object, const char* key, std::string_view where) {
  return as_bool(get_member(object, key, where), key, where);
}
std::string get_string(const Json& object, const char* key, std::string_view where) {
  return as_string(get_member(object, key, where), key, where);
}
const Json& get_array(const Json& object, const char* key, std::string_view where) {
  const Json& value = get_member(object, key, where);
  if (!value.is_array()) fail_type(value, key, where, "an array");
  return value;
}
const Json& get_object(const Json& object, const char* key, std::string_view where) {
  const Json& value = get_member(object, key, where);
  if (!value.is_object()) fail_type(value, key, where, "an object");
  return value;
}

std::optional<int64_t> find_int64(const Json& object, const char* key, std::string_view where) {
  const Json* value = find_checked(object, key, where);
  return value ? std::optional(as_int64(*value, key, where)) : std::nullopt;
}
std::optional<int32_t> find_int32(const Json& object, const char* key, std::string_view where) {
  const Json* value = find_checked(object, key, where);
  return value ? std::optional(as_int32(*value, key, where)) : std::nullopt;
}
std::optional<bool> find_bool(const Json& object, const char* key, std::string_view where) {
  const Json* value = find_checked(object, key, where);
  return value ? std::optional(as_bool(*value, key, where)) : std::nullopt;
}
std::optional<std::string> find_string(const Json& object, const char* key, std::string_view where) {
  const Json* value = find_checked(object, key, where);
  return value ? std::optional(as_string(*value, key, where)) : std::nullopt;
}
const Json* find_member(const Json& object, const char* key) {
  if (!object.is_object()) return nullptr;
  const auto it = object.find(key);
  return it == object.end() || it->is_null() ? nullptr : &*it;
}

}  // namespace firn
