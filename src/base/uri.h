// URIs of tables and files, and names made safe for a path or an object key.
#pragma once

#include <string>
#include <string_view>

namespace firn {

// "file:/a", "file:///a" and "/a" are the same local path "/a"; returns it for those, else `uri` unchanged.
std::string local_path(std::string_view uri);
bool is_local(std::string_view uri);
// Joins with exactly one '/'.
std::string join_path(std::string_view folder, std::string_view name);

// Percent-encodes every byte but [A-Za-z0-9._-]; a leading '.' is encoded too, and an empty name is "%". Two names
// never get the same text, and none can leave its folder.
std::string encode_segment(std::string_view name);
std::string decode_segment(std::string_view segment);  // throws corrupt

// application/x-www-form-urlencoded, UTF-8, as Java's URLEncoder: space is '+', [A-Za-z0-9.*_-] stay.
std::string form_encode(std::string_view text);

}  // namespace firn
