// Arrow's Status and Result become firn::Error here, and nowhere else.
#pragma once

#include <string_view>
#include <utility>

#include <arrow/result.h>
#include <arrow/status.h>

#include "base/error.h"

namespace firn {

// The kind that fits an Arrow status code: IOError io (ENOENT not_found), Invalid/TypeError/SerializationError corrupt,
// NotImplemented unsupported, Cancelled cancelled, else internal.
[[noreturn]] void fail_status(const arrow::Status& status, std::string_view what);

// Throws if `status` is not ok; `what` names the operation and its object.
inline void check(const arrow::Status& status, std::string_view what) {
  if (!status.ok()) [[unlikely]]
    fail_status(status, what);
}

template <class T>
T check(arrow::Result<T>&& result, std::string_view what) {
  if (!result.ok()) [[unlikely]]
    fail_status(result.status(), what);
  return std::move(result).MoveValueUnsafe();
}

}  // namespace firn
