#include "base/error.h"

#include <cerrno>
#include <system_error>

namespace firn {

std::string_view to_string(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::invalid_argument:
      return "invalid_argument";
    case ErrorKind::config:
      return "config";
    case ErrorKind::not_found:
      return "not_found";
    case ErrorKind::already_exists:
      return "already_exists";
    case ErrorKind::corrupt:
      return "corrupt";
    case ErrorKind::unsupported:
      return "unsupported";
    case ErrorKind::io:
      return "io";
    case ErrorKind::busy:
      return "busy";
    case ErrorKind::cancelled:
      return "cancelled";
    case ErrorKind::commit_conflict:
      return "commit_conflict";
    case ErrorKind::commit_unknown:
      return "commit_unknown";
    case ErrorKind::schema_mismatch:
      return "schema_mismatch";
    case ErrorKind::partition_spec_drift:
      return "iceberg_partition_spec_drift";
    case ErrorKind::destination_behind:
      return "destination_behind";
    case ErrorKind::destination_forgot:
      return "destination_forgot";
    case ErrorKind::internal:
      return "internal";
    case ErrorKind::lease_lost:
      return "lease_lost";
    case ErrorKind::step_not_deterministic:
      return "step_not_deterministic";
  }
  return "internal";
}

void fail_errno(int error_number, std::string_view what) {
  const ErrorKind kind = error_number == ENOENT   ? ErrorKind::not_found
                         : error_number == EEXIST ? ErrorKind::already_exists
                                                  : ErrorKind::io;
  fail(kind, "{}: {}", what, std::generic_category().message(error_number));
}

}  // namespace firn
