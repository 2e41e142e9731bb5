// The one exception type of firn.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>

namespace firn {

// Kinds are told apart by what the caller does next.
enum class ErrorKind : uint8_t {
  invalid_argument,      // the call or its input is wrong; the message says which part. Change it and call again.
  config,                // the configuration is wrong; the message names key and line.
  not_found,             // asked for by name and not there.
  already_exists,        // to be made, and there already.
  corrupt,               // stored bytes break the format. A retry cannot help.
  unsupported,           // well formed, and beyond what firn does.
  io,                    // the disk or the network failed; what was not acknowledged did not happen.
  busy,                  // another process holds what is needed. Try again later.
  cancelled,             // stopped on request.
  commit_conflict,       // the table moved; nothing was committed. Load again and stage again.
  commit_unknown,        // no answer; it may have landed. Look for it; delete nothing it names.
  schema_mismatch,       // field ids of staged files mean other columns on the new base. Stage anew.
  partition_spec_drift,  // the table's partition spec is not the derived one. Export to a new table.
  destination_behind,    // the destination has less of a stream than was confirmed before. An operator decides.
  destination_forgot,    // the destination no longer knows this open. An operator decides.
  internal,              // a defect of firn.
  lease_lost,            // another attempt of the same work took over; this one must stop. Nothing of it was committed.
  step_not_deterministic,  // what an earlier attempt committed differs from what this one is about to. Mend the step.
};

// The stable spelling of `kind`, e.g. "commit_conflict"; partition_spec_drift is spelled "iceberg_partition_spec_drift"
// as the export specification has it.
std::string_view to_string(ErrorKind kind);

class Error : public std::runtime_error {
 public:
  // `message` names the object, what was wrong, and what to do.
  Error(ErrorKind kind, const std::string& message) : std::runtime_error(message), kind_(kind) {}
  // With `cause`'s message appended after ": ".
  Error(ErrorKind kind, const std::string& message, const std::exception& cause)
      : std::runtime_error(message + ": " + cause.what()), kind_(kind) {}

  ErrorKind kind() const { return kind_; }

 private:
  ErrorKind kind_;
};

// Throws Error(kind, formatted message).
template <class... Args>
[[noreturn]] void fail(ErrorKind kind, fmt::format_string<Args...> format, Args&&... args) {
  throw Error(kind, fmt::format(format, std::forward<Args>(args)...));
}

// errno `error_number` as an Error: ENOENT is not_found, EEXIST already_exists, all else io. `what` names the operation
// and the path.
[[noreturn]] void fail_errno(int error_number, std::string_view what);

}  // namespace firn
