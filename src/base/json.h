// JSON built, read and written with nlohmann/json, members in the order they were set; the accessors name what was
// wrong.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

#include "base/error.h"

namespace firn {

using Json = nlohmann::ordered_json;

// Throws corrupt naming `where` (a path or a title) with line and column of the mistake. Duplicate keys: the last wins.
Json parse_json(std::string_view text, std::string_view where);

// Members of an object. `where` titles the object in errors. The first family throws corrupt where the member is
// missing or of another type; the second returns nullopt where it is missing or null, and throws where it is of another
// type.
int64_t get_int64(const Json& object, const char* key, std::string_view where);
int32_t get_int32(const Json& object, const char* key, std::string_view where);
bool get_bool(const Json& object, const char* key, std::string_view where);
std::string get_string(const Json& object, const char* key, std::string_view where);
const Json& get_array(const Json& object, const char* key, std::string_view where);
const Json& get_object(const Json& object, const char* key, std::string_view where);

std::optional<int64_t> find_int64(const Json& object, const char* key, std::string_view where);
std::optional<int32_t> find_int32(const Json& object, const char* key, std::string_view where);
std::optional<bool> find_bool(const Json& object, const char* key, std::string_view where);
std::optional<std::string> find_string(const Json& object, const char* key, std::string_view where);
const Json* find_member(const Json& object, const char* key);  // nullptr if missing or null

}  // namespace firn
