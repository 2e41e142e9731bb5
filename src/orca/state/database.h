// One database behind the run's state: SQLite or PostgreSQL, with the same SQL. That SQL has numbered parameters (?1),
// bigint and text columns, "for update" and "skip locked" (which SQLite, where a transaction that writes is alone
// anyway, is not shown), and orca_now(): the database's clock in milliseconds (P14.2).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace firn::orca {

// A parameter.
class SqlValue {
 public:
  SqlValue(std::nullopt_t) {}                                                                  // NOLINT: null
  SqlValue(int64_t value) : text_(std::to_string(value)), number_(value), is_number_(true) {}  // NOLINT
  SqlValue(int value) : SqlValue(static_cast<int64_t>(value)) {}                               // NOLINT
  SqlValue(std::string text) : text_(std::move(text)) {}                                       // NOLINT
  SqlValue(std::string_view text) : text_(std::string(text)) {}                                // NOLINT
  SqlValue(const char* text) : text_(std::string(text)) {}                                     // NOLINT
  template <class T>
  SqlValue(const std::optional<T>& value) {  // NOLINT
    if (value) *this = SqlValue(*value);
  }
  const std::optional<std::string>& text() const { return text_; }
  bool is_number() const { return is_number_; }
  int64_t number() const { return number_; }

 private:
  std::optional<std::string> text_;
  int64_t number_ = 0;
  bool is_number_ = false;
};
using SqlValues = std::vector<SqlValue>;

class SqlRow {
 public:
  explicit SqlRow(std::vector<std::optional<std::string>> cells) : cells_(std::move(cells)) {}
  int64_t integer(size_t column) const;  // throws corrupt where it is null or no number
  std::optional<int64_t> maybe_integer(size_t column) const;
  std::string text(size_t column) const;  // empty where null
  const std::optional<std::string>& cell(size_t column) const { return cells_.at(column); }

 private:
  std::vector<std::optional<std::string>> cells_;
};

struct SqlResult {
  std::vector<SqlRow> rows;
  int64_t changed = 0;  // rows inserted, updated or deleted
};

// A connection; one thread at a time. Throws io where the server or the disk failed, busy where a lock was not had in
// time, corrupt. After io and busy the transaction is gone and the connection may be: open another.
class Database {
 public:
  virtual ~Database() = default;
  virtual SqlResult run(const std::string& sql, const SqlValues& values = {}) = 0;
  // The statement once for each of `values`, in one round trip.
  virtual std::vector<SqlResult> run_each(const std::string& sql, const std::vector<SqlValues>& values) = 0;
  // What a transaction changes is durable when commit() returns. SQLite's takes the write lock at once.
  virtual void begin() = 0;
  virtual void commit() = 0;
  virtual void rollback() noexcept = 0;
  virtual const std::string& title() const = 0;  // for messages: without a password
  virtual void lock_schema() = 0;                // within a transaction: one migrator at a time
  virtual bool is_postgres() const = 0;
};

// Where the run's state lies.
struct StateLocation {
  std::string postgres_url;  // of libpq; empty: SQLite
  std::string sqlite_path;
};
// ORCA_DATABASE_URL, else the file ORCA_STATE, else .orca/state.db in the working directory (absolute).
StateLocation state_location();

// Opens, creates what is missing and brings the schema up to date. Throws io, config (the address is none), corrupt,
// and unsupported where a newer orca wrote it.
std::unique_ptr<Database> open_database(const StateLocation& location);
// As open_database, but nothing is created: throws not_found where there is no state yet.
std::unique_ptr<Database> open_existing_database(const StateLocation& location);

// The two behind it, without a schema.
std::unique_ptr<Database> open_sqlite(const std::string& path, bool create);
std::unique_ptr<Database> open_postgres(const std::string& url);

// Creates or migrates the tables. Safe among processes.
void migrate(Database& database);

}  // namespace firn::orca
