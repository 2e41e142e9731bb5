// Where the checks of verify report to.
#pragma once

#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "iceberg/inspect/verify.h"

namespace firn::iceberg {

// Thread-safe.
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
    if (findings_.size() >= findings_max_) throw Full();
    findings_.push_back({severity, std::string(code), object, std::move(message)});
  }

  const bool strict_;
  const size_t findings_max_;
  std::mutex mutex_;
  std::vector<Finding> findings_;
};

}  // namespace firn::iceberg
