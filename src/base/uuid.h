#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace firn {

std::string uuid_v4();  // random, lower-case text form; thread-safe
std::string uuid_v7(
    int64_t unix_ms);  // time-ordered: its first 48 bits are `unix_ms`, 0 if that is negative; thread-safe
std::optional<int64_t> uuid_v7_time_ms(std::string_view uuid);
std::optional<std::string> uuid_to_bytes(std::string_view text);  // 16 bytes, big-endian
std::string uuid_from_bytes(std::string_view bytes16);

// A positive random int64, as Iceberg snapshot ids are. Thread-safe.
int64_t random_id();

}  // namespace firn
