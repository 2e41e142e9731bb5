// Where the checks of verify report to.
#pragma once

#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "iceberg/inspect/verify.h"

namespace firn::iceberg {

// Thread-safe. What is wrong with an object that several snapshots have is one finding.
class Findings {
 public:
  // Thrown by error() and warning() once there are `findings_max`: the check ends.
  struct Full {};

  Findings(bool strict, size_t findings_max) : strict_(strict), findings_max_(findings_max) {}

  void error(std::string_view code, const std::string& object, std::string message) {
    add(Severity::error, code, object, std::move(message));
  }
  void warning(std::string_view code, const std::string& object, std::string message) {  // dropped unless strict
    if (strict_) add(Severity::warning, code, object, std::move(message));
  }
  bool strict() const { return strict_; }
  std::vector<Finding> take() { return std::move(findings_); }

 private:
  void add(Severity severity, std::string_view code, const std::string& object, std::string message) {
    const std::lock_guard lock(mutex_);
    if (!said_.insert(fmt::format("{} {} {}", code, object, without_snapshot_ids(message))).second) return;
    if (findings_.size() >= findings_max_) throw Full();
    findings_.push_back({severity, std::string(code), object, std::move(message)});
  }

  static std::string without_snapshot_ids(const std::string& message) {
    constexpr std::string_view kSnapshot = "snapshot ";
    std::string text;
    for (size_t i = 0; i < message.size();) {
      if (message.compare(i, kSnapshot.size(), kSnapshot) == 0) {
        text += kSnapshot;
        i += kSnapshot.size();
        while (i < message.size() && message[i] >= '0' && message[i] <= '9') ++i;
      } else {
        text += message[i++];
      }
    }
    return text;
  }

  const bool strict_;
  const size_t findings_max_;
  std::mutex mutex_;
  std::vector<Finding> findings_;
  std::set<std::string> said_;
};

}  // namespace firn::iceberg
