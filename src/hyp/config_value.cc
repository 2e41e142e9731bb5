#include "hyp/config_value.h"

#include <algorithm>

#include "hyp/config.h"

namespace firn::hyp {
namespace {

constexpr int kJsonDepthMax = 64;

class ConfigParser {
 public:
  ConfigParser(std::string_view text, const std::string& path) : text_(text), path_(path) {
    if (text_.starts_with("\xEF\xBB\xBF")) at_ = 3;
  }

  ConfigValue parse() {
    skip_space();
    ConfigValue value = parse_value(0);
    skip_space();
    if (at_ < text_.size()) fail_here("text after the configuration's end");
    return value;
  }

 private:
  [[noreturn]] void fail_here(const std::string& what) const { fail_config(path_, line_, "", what); }

  char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }
  void advance() {
    if (text_[at_] == '\n') ++line_;
    ++at_;
  }
  bool take(char c) {
    if (peek() != c || at_ >= text_.size()) return false;
    advance();
    return true;
  }

  void skip_space() {
    while (at_ < text_.size()) {
      const std::string_view rest = text_.substr(at_);
      if (rest.starts_with("//")) {
        while (at_ < text_.size() && text_[at_] != '\n') advance();
      } else if (rest.starts_with("/*")) {
        const int begin = line_;
        const size_t end = rest.find("*/", 2);
        if (end == std::string_view::npos) fail_config(path_, begin, "", "the comment does not end");
        for (size_t i = 0; i < end + 2; ++i) advance();
      } else if (rest[0] == ' ' || rest[0] == '\t' || rest[0] == '\r' || rest[0] == '\n') {
        advance();
      } else {
        return;
      }
    }
  }

  ConfigValue parse_value(int depth) {
    if (depth > kJsonDepthMax) fail_here("nested too deeply");
    ConfigValue value;
    value.line = line_;
    if (take('{')) {
      value.kind = ConfigValue::Kind::object;
      parse_members(value, depth);
    } else if (take('[')) {
      value.kind = ConfigValue::Kind::array;
      for (skip_space(); !take(']'); skip_space()) {
        value.items.push_back(parse_value(depth + 1));
        skip_space();
        if (!take(',') && peek() != ']') fail_here("expected ',' or ']'");
      }
    } else {
      value.scalar = parse_scalar();
    }
    return value;
  }

  void parse_members(ConfigValue& object, int depth) {
    for (skip_space(); !take('}'); skip_space()) {
      const int line = line_;
      if (peek() != '"') fail_here("expected a key in double quotes, or '}'");
      const std::string key = parse_scalar().get<std::string>();
      if (object.find(key) != nullptr) fail_config(path_, line, key, "the key occurs twice");
      skip_space();
      if (!take(':')) fail_here(fmt::format("expected ':' after \"{}\"", key));
      skip_space();
      object.members.push_back({key, line, parse_value(depth + 1)});
      skip_space();
      if (!take(',') && peek() != '}') fail_here(fmt::format("expected ',' or '}}' after the value of \"{}\"", key));
    }
  }

  // A token, read by nlohmann/json.
  Json parse_scalar() {
    const size_t begin = at_;
    if (peek() == '"') {
      advance();
      while (at_ < text_.size() && text_[at_] != '"' && text_[at_] != '\n') {
        if (text_[at_] == '\\' && at_ + 1 < text_.size()) advance();
        advance();
      }
      if (!take('"')) fail_here("the string does not end on its line");
    } else {
      while (at_ < text_.size() && std::string_view(",:]}[{\"/ \t\r\n").find(text_[at_]) == std::string_view::npos)
        advance();
    }
    const std::string_view token = text_.substr(begin, at_ - begin);
    Json value = Json::parse(token, nullptr, /*allow_exceptions=*/false);
    if (value.is_discarded()) {
      fail_here(token.empty() ? "expected a value" : fmt::format("'{}' is no JSON value", token.substr(0, 80)));
    }
    return value;
  }

  std::string_view text_;
  const std::string& path_;
  size_t at_ = 0;
  int line_ = 1;
};

// How many single-character changes lead from one to the other.
size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t substituted = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({substituted, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row[b.size()];
}

}  // namespace

const std::string* nearest_name(std::string_view name, const std::vector<std::string>& names) {
  const std::string* nearest = nullptr;
  size_t nearest_distance = std::max<size_t>(2, name.size() / 3) + 1;
  for (const std::string& known : names) {
    const size_t distance = edit_distance(name, known);
    if (distance < nearest_distance) {
      nearest_distance = distance;
      nearest = &known;
    }
  }
  return nearest;
}

const ConfigValue* ConfigValue::find(std::string_view key) const {
  for (const ConfigMember& member : members) {
    if (member.key == key) return &member.value;
  }
  return nullptr;
}

ConfigValue parse_config_text(std::string_view text, const std::string& path) {
  return ConfigParser(text, path).parse();
}

void fail_config(const std::string& path, int line, const std::string& key, const std::string& what) {
  const std::string place = path.empty() ? "the configuration" : path;
  if (key.empty()) fail(ErrorKind::config, "{}, line {}: {}", place, line, what);
  fail(ErrorKind::config, "{}, line {}: \"{}\": {}", place, line, key, what);
}

ConfigReader::ConfigReader(const ConfigValue& value, std::string title, const std::string& path)
    : value_(value), title_(std::move(title)), path_(path) {
  if (value.kind != ConfigValue::Kind::object) {
    fail_config(path, value.line, title_, title_.empty() ? "the configuration must be an object" : "must be an object");
  }
}

const ConfigValue* ConfigReader::find(const std::string& key) {
  if (std::find(known_.begin(), known_.end(), key) == known_.end()) known_.push_back(key);
  const ConfigValue* value = value_.find(key);
  if (value != nullptr && value->kind == ConfigValue::Kind::scalar && value->scalar.is_null()) return nullptr;
  return value;
}

bool ConfigReader::is_null(const std::string& key) { return find(key) == nullptr && value_.find(key) != nullptr; }

std::string ConfigReader::text(const std::string& key, std::string fallback) {
  const ConfigValue* value = find(key);
  if (value == nullptr) return fallback;
  if (!value->scalar.is_string()) fail_at(key, "must be a string");
  return value->scalar.get<std::string>();
}

std::string ConfigReader::required_text(const std::string& key) {
  if (!has(key)) fail_at(key, "is missing");
  std::string value = text(key, "");
  if (value.empty()) fail_at(key, "must not be empty");
  return value;
}

bool ConfigReader::boolean(const std::string& key, bool fallback) {
  const ConfigValue* value = find(key);
  if (value == nullptr) return fallback;
  if (!value->scalar.is_boolean()) fail_at(key, "must be true or false");
  return value->scalar.get<bool>();
}

int64_t ConfigReader::integer(const std::string& key, int64_t fallback, int64_t min) {
  const ConfigValue* value = find(key);
  if (value == nullptr) return fallback;
  const Json& number = value->scalar;
  const bool is_int64 = number.is_number_unsigned() ? number.get<uint64_t>() <= static_cast<uint64_t>(INT64_MAX)
                                                    : number.is_number_integer();
  if (!is_int64) fail_at(key, "must be an integer");
  if (number.get<int64_t>() < min) fail_at(key, fmt::format("must be at least {}", min));
  return number.get<int64_t>();
}

std::vector<std::string> ConfigReader::texts(const std::string& key) {
  std::vector<std::string> values;
  const ConfigValue* list = array(key);
  if (list == nullptr) return values;
  for (const ConfigValue& item : list->items) {
    if (!item.scalar.is_string()) fail_config(path_, item.line, full_key(key), "must be an array of strings");
    values.push_back(item.scalar.get<std::string>());
  }
  return values;
}

const ConfigValue* ConfigReader::object(const std::string& key) {
  const ConfigValue* value = find(key);
  if (value != nullptr && value->kind != ConfigValue::Kind::object) fail_at(key, "must be an object");
  return value;
}

const ConfigValue* ConfigReader::array(const std::string& key) {
  const ConfigValue* value = find(key);
  if (value != nullptr && value->kind != ConfigValue::Kind::array) fail_at(key, "must be an array");
  return value;
}

void ConfigReader::finish() const {
  for (const ConfigMember& member : value_.members) {
    if (std::find(known_.begin(), known_.end(), member.key) != known_.end()) continue;
    const std::string* nearest = nearest_name(member.key, known_);
    fail_config(path_, member.line, full_key(member.key),
                nearest != nullptr ? fmt::format("unknown key; did you mean \"{}\"?", *nearest)
                                   : fmt::format("unknown key; known are: {}", fmt::join(known_, ", ")));
  }
}

void ConfigReader::fail_at(const std::string& key, const std::string& what) const {
  fail_config(path_, line_of(key), full_key(key), what);
}

int ConfigReader::line_of(const std::string& key) const {
  int line = value_.line;
  for (const ConfigMember& member : value_.members) {
    if (member.key == key) line = member.line;
  }
  return line;
}

}  // namespace firn::hyp
