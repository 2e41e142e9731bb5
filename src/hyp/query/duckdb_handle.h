// Owners of DuckDB's handles, and its errors as ours.
#pragma once

#include <string>
#include <utility>

#include "base/error.h"
#include "hyp/query/duckdb_api.h"

namespace firn::hyp {

// Owns a handle that `destroy` takes by address.
template <class Handle, void (*destroy)(Handle*)>
class DuckHandle {
 public:
  DuckHandle() = default;
  explicit DuckHandle(Handle handle) : handle_(handle) {}
  ~DuckHandle() { reset(); }
  DuckHandle(DuckHandle&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  DuckHandle& operator=(DuckHandle&& other) noexcept {
    if (this != &other) {
      reset();
      handle_ = std::exchange(other.handle_, nullptr);
    }
    return *this;
  }
  Handle get() const { return handle_; }
  Handle* out() {  // for a call that makes one
    reset();
    return &handle_;
  }
  void reset() {
    if (handle_ != nullptr) destroy(&handle_);
    handle_ = nullptr;
  }
  explicit operator bool() const { return handle_ != nullptr; }

 private:
  Handle handle_ = nullptr;
};

using DuckDatabase = DuckHandle<duckdb_database, duckdb_close>;
using DuckConnection = DuckHandle<duckdb_connection, duckdb_disconnect>;
using DuckConfig = DuckHandle<duckdb_config, duckdb_destroy_config>;
using DuckStatement = DuckHandle<duckdb_prepared_statement, duckdb_destroy_prepare>;
using DuckStatements = DuckHandle<duckdb_extracted_statements, duckdb_destroy_extracted>;
using DuckPending = DuckHandle<duckdb_pending_result, duckdb_destroy_pending>;
using DuckType = DuckHandle<duckdb_logical_type, duckdb_destroy_logical_type>;
using DuckChunk = DuckHandle<duckdb_data_chunk, duckdb_destroy_data_chunk>;
using DuckValue = DuckHandle<duckdb_value, duckdb_destroy_value>;
using DuckArrowOptions = DuckHandle<duckdb_arrow_options, duckdb_destroy_arrow_options>;
using DuckArrowSchema = DuckHandle<duckdb_arrow_converted_schema, duckdb_destroy_arrow_converted_schema>;
using DuckTableFunction = DuckHandle<duckdb_table_function, duckdb_destroy_table_function>;

struct DuckResult {
  duckdb_result result{};
  DuckResult() = default;
  DuckResult(const DuckResult&) = delete;
  DuckResult& operator=(const DuckResult&) = delete;
  ~DuckResult() { duckdb_destroy_result(&result); }
};

// Throws internal with DuckDB's message if there is one; frees it.
inline void check_duckdb(duckdb_error_data error, const char* what) {
  DuckHandle<duckdb_error_data, duckdb_destroy_error_data> owned(error);
  if (owned && duckdb_error_data_has_error(error))
    fail(ErrorKind::internal, "{}: {}", what, duckdb_error_data_message(error));
}

// Its text, freed.
inline std::string take_text(char* text) {
  std::string copy = text != nullptr ? text : "";
  duckdb_free(text);
  return copy;
}

}  // namespace firn::hyp
