// Exceptions of the Parquet library become firn::Error here.
#pragma once

#include <new>
#include <string_view>

#include <parquet/exception.h>

#include "base/arrow_status.h"
#include "base/error.h"

namespace firn::iceberg {

// Runs `work`; a ParquetException is thrown again as an Error of `kind`, or as its status says if it carries one.
// `what` names the operation and the file.
template <class Work>
auto translate_parquet_errors(ErrorKind kind, std::string_view what, Work&& work) {
  try {
    return work();
  } catch (const parquet::ParquetStatusException& error) {
    if (kind != ErrorKind::corrupt) fail_status(error.status(), what);
    throw Error(kind, std::string(what), error);
  } catch (const parquet::ParquetException& error) {
    throw Error(kind, std::string(what), error);
  }
}

}  // namespace firn::iceberg
