#include "io/synced_append.h"

#include "base/error.h"
#include "io/local.h"

namespace firn {

int64_t append_synced(const std::string& path, std::optional<int64_t> size, std::string_view bytes) {
  try {
    AppendFile file = AppendFile::open(path, size);
    file.append(bytes);
    file.sync();
    return file.size_bytes();
  } catch (const Error&) {
    try {
      AppendFile::open(path, size.value_or(0));
    } catch (const Error&) {  // best effort: the disk fails
    }
    throw;
  }
}

}  // namespace firn
