// The configuration's text as values that know their line: JSON with // and /* */ comments and trailing commas.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/json.h"

namespace firn::hyp {

struct ConfigMember;

struct ConfigValue {
  enum class Kind : uint8_t { scalar, object, array };
  Kind kind = Kind::scalar;
  Json scalar;                        // null, a boolean, a number or a string
  int line = 1;                       // from 1
  std::vector<ConfigMember> members;  // in the file's order, each key once
  std::vector<ConfigValue> items;

  const ConfigValue* find(std::string_view key) const;
};

struct ConfigMember {
  std::string key;
  int line = 1;  // of the key
  ConfigValue value;
};

// Throws config naming file, line and what is wrong; repeated keys too.
ConfigValue parse_config_text(std::string_view text, const std::string& path);

// An object being read: each key asked for is known, and what was not asked for is an error in finish().
class ConfigReader {
 public:
  // `title` is the object's place for messages: "sinks.archive"; empty for the root. All arguments must outlive it.
  ConfigReader(const ConfigValue& value, std::string title, const std::string& path);

  const ConfigValue* find(const std::string& key);  // nullptr: not there, or null
  bool has(const std::string& key) { return find(key) != nullptr; }
  bool is_null(const std::string& key);  // said, as null
  std::string text(const std::string& key, std::string fallback);
  std::string required_text(const std::string& key);
  bool boolean(const std::string& key, bool fallback);
  int64_t integer(const std::string& key, int64_t fallback, int64_t min);
  std::vector<std::string> texts(const std::string& key);  // an array of strings; empty if absent
  const ConfigValue* object(const std::string& key);
  const ConfigValue* array(const std::string& key);
  // Throws config for the first key that nobody asked for, with the nearest known one.
  void finish() const;

  // config, with file, the key's line (the object's if it is absent) and the key.
  [[noreturn]] void fail_at(const std::string& key, const std::string& what) const;
  int line_of(const std::string& key) const;  // the object's if it is absent
  std::string full_key(const std::string& key) const { return title_.empty() ? key : title_ + "." + key; }

 private:
  const ConfigValue& value_;
  std::string title_;
  const std::string& path_;
  std::vector<std::string> known_;
};

[[noreturn]] void fail_config(const std::string& path, int line, const std::string& key, const std::string& what);

}  // namespace firn::hyp
