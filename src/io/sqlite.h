// SQLite's handles with owners, and its errors as ours. What is written is durable when the transaction's commit
// returns (write-ahead log, synchronous=FULL).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/hash.h"

struct sqlite3;
struct sqlite3_stmt;

namespace firn {

// Of one connection, which must outlive it. One thread. All throw corrupt, busy or io naming the file.
class SqliteStatement {
 public:
  SqliteStatement(const class SqliteFile& file, std::string_view sql);
  ~SqliteStatement();
  SqliteStatement(const SqliteStatement&) = delete;
  SqliteStatement& operator=(const SqliteStatement&) = delete;

  // From the start again, with the parameters bound in order. Text must outlive the steps.
  template <class... Values>
  SqliteStatement& with(const Values&... values) {
    reset();
    int index = 0;
    (bind(++index, values), ...);
    return *this;
  }
  bool step();  // false: no row is left
  void run() {
    while (step()) {
    }
  }              // for statements without rows
  void reset();  // frees what the statement holds, as its last step does
  int64_t integer(int column) const;
  std::optional<int64_t> maybe_integer(int column) const;  // nullopt: null
  std::string text(int column) const;
  int columns() const;

  // The parameter ?<index> of a statement that was reset, for those whose number is not known beforehand.
  void bind(int index, int64_t value);
  void bind(int index, std::string_view text);
  void bind(int index, const Sha256Digest& digest);  // a blob
  void bind(int index, std::nullopt_t);              // null

 private:
  sqlite3_stmt* statement_ = nullptr;
};

// A connection. One thread at a time.
class SqliteFile {
 public:
  enum class Open : uint8_t { existing, created };
  // Throws not_found, corrupt (no database, or a damaged one), io. Waits up to 5 s for locks of other processes.
  SqliteFile(const std::string& path, Open open);
  ~SqliteFile();
  SqliteFile(const SqliteFile&) = delete;
  SqliteFile& operator=(const SqliteFile&) = delete;

  void run(const char* sql);         // one statement or several, without rows
  int64_t integer(const char* sql);  // the first column of the first row
  bool is_in_transaction() const;
  const std::string& path() const { return path_; }
  sqlite3* handle() const { return handle_; }

 private:
  std::string path_;
  sqlite3* handle_ = nullptr;
};

}  // namespace firn
