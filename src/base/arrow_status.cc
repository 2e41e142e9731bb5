#include "base/arrow_status.h"

#include <cerrno>

#include <arrow/util/io_util.h>

namespace firn {
namespace {

ErrorKind kind_of(const arrow::Status& status) {
  switch (status.code()) {
    case arrow::StatusCode::IOError:
      return arrow::internal::ErrnoFromStatus(status) == ENOENT ? ErrorKind::not_found : ErrorKind::io;
    case arrow::StatusCode::Invalid:
    case arrow::StatusCode::TypeError:
    case arrow::StatusCode::SerializationError:
      return ErrorKind::corrupt;
    case arrow::StatusCode::NotImplemented:
      return ErrorKind::unsupported;
    case arrow::StatusCode::Cancelled:
      return ErrorKind::cancelled;
    default:
      return ErrorKind::internal;
  }
}

}  // namespace

void fail_status(const arrow::Status& status, std::string_view what) {
  fail(kind_of(status), "{}: {}", what, status.message());
}

}  // namespace firn
