#include "base/warn_once.h"

#include <mutex>
#include <set>

#include "base/log.h"

namespace firn {

void warn_once(const std::string& message) {
  static std::mutex mutex;
  static std::set<std::string> said;
  {
    const std::lock_guard guard(mutex);
    if (!said.insert(message).second) return;
  }
  spdlog::warn("{}", message);
}

}  // namespace firn
