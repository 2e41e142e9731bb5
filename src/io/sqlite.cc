#include "io/sqlite.h"

#include <sqlite3.h>

#include "base/error.h"

namespace firn {
namespace {

constexpr int kLockWaitMs = 5'000;

[[noreturn]] void fail_sqlite(sqlite3* handle, int code, const std::string& path) {
  ErrorKind kind = ErrorKind::io;
  std::string advice;
  switch (code & 0xff) {
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
      kind = ErrorKind::corrupt;
      advice = "; restore it from a backup";
      break;
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
      kind = ErrorKind::busy;
      break;
    default:
      break;
  }
  fail(kind, "{}: {} (SQLite error {}){}", path, handle == nullptr ? sqlite3_errstr(code) : sqlite3_errmsg(handle),
       code, advice);
}

std::string path_of(sqlite3* handle) {
  const char* path = sqlite3_db_filename(handle, "main");
  return path == nullptr ? "a database" : path;
}

void check_sqlite(sqlite3* handle, int code) {
  if (code != SQLITE_OK) fail_sqlite(handle, sqlite3_extended_errcode(handle), path_of(handle));
}

}  // namespace

SqliteStatement::SqliteStatement(const SqliteFile& file, std::string_view sql) {
  check_sqlite(file.handle(), sqlite3_prepare_v3(file.handle(), sql.data(), static_cast<int>(sql.size()),
                                                 SQLITE_PREPARE_PERSISTENT, &statement_, nullptr));
}

SqliteStatement::~SqliteStatement() { sqlite3_finalize(statement_); }

void SqliteStatement::reset() {
  sqlite3_reset(statement_);  // its result is the last step's error, thrown there
}

bool SqliteStatement::step() {
  const int code = sqlite3_step(statement_);
  if (code == SQLITE_ROW) return true;
  sqlite3* handle = sqlite3_db_handle(statement_);
  const int error = sqlite3_extended_errcode(handle);
  if (code == SQLITE_DONE) {
    sqlite3_reset(statement_);
    return false;
  }
  try {
    fail_sqlite(handle, error, path_of(handle));
  } catch (...) {
    sqlite3_reset(statement_);
    throw;
  }
}

void SqliteStatement::bind(int index, int64_t value) {
  check_sqlite(sqlite3_db_handle(statement_), sqlite3_bind_int64(statement_, index, value));
}

void SqliteStatement::bind(int index, std::string_view text) {
  check_sqlite(sqlite3_db_handle(statement_), sqlite3_bind_text(statement_, index, text.empty() ? "" : text.data(),
                                                                static_cast<int>(text.size()), SQLITE_STATIC));
}

void SqliteStatement::bind(int index, const Sha256Digest& digest) {
  check_sqlite(sqlite3_db_handle(statement_),
               sqlite3_bind_blob(statement_, index, digest.data(), static_cast<int>(digest.size()), SQLITE_TRANSIENT));
}

void SqliteStatement::bind(int index, std::nullopt_t) {
  check_sqlite(sqlite3_db_handle(statement_), sqlite3_bind_null(statement_, index));
}

int SqliteStatement::columns() const { return sqlite3_column_count(statement_); }

int64_t SqliteStatement::integer(int column) const { return sqlite3_column_int64(statement_, column); }

std::optional<int64_t> SqliteStatement::maybe_integer(int column) const {
  if (sqlite3_column_type(statement_, column) == SQLITE_NULL) return std::nullopt;
  return integer(column);
}

std::string SqliteStatement::text(int column) const {
  const void* bytes = sqlite3_column_blob(statement_, column);
  return bytes == nullptr ? "" : std::string(static_cast<const char*>(bytes), sqlite3_column_bytes(statement_, column));
}

SqliteFile::SqliteFile(const std::string& path, Open open) : path_(path) {
  const int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | (open == Open::created ? SQLITE_OPEN_CREATE : 0);
  const int code = sqlite3_open_v2(path.c_str(), &handle_, flags, nullptr);
  try {
    if (code != SQLITE_OK) fail_sqlite(handle_, handle_ == nullptr ? code : sqlite3_extended_errcode(handle_), path);
    sqlite3_busy_timeout(handle_, kLockWaitMs);
    run(open == Open::created ? "pragma journal_mode = wal; pragma synchronous = full"
                              : "pragma synchronous = full; pragma schema_version");  // reads the file's head
  } catch (...) {
    sqlite3_close(handle_);
    throw;
  }
}

SqliteFile::~SqliteFile() { sqlite3_close_v2(handle_); }

void SqliteFile::run(const char* sql) { check_sqlite(handle_, sqlite3_exec(handle_, sql, nullptr, nullptr, nullptr)); }

int64_t SqliteFile::integer(const char* sql) {
  SqliteStatement statement(*this, sql);
  if (!statement.step()) fail(ErrorKind::corrupt, "{}: no answer to: {}", path_, sql);
  return statement.integer(0);
}

bool SqliteFile::is_in_transaction() const { return sqlite3_get_autocommit(handle_) == 0; }

}  // namespace firn
