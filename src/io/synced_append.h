// Adding to a file that others read while it grows.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace firn {

// Appends `bytes` and syncs; returns the file's size then. `size`: what it is cut to first, where something torn
// follows; nullopt: it is not there yet. If the disk fails the bytes are cut off again as far as that can be done, for
// a later sync of the same bytes would prove nothing (P15). Throws corrupt, io.
int64_t append_synced(const std::string& path, std::optional<int64_t> size, std::string_view bytes);

}  // namespace firn
