#include <fcntl.h>
#include <sqlite3.h>
#include <unistd.h>
#include <filesystem>
#include <map>

#include "base/clock.h"
#include "base/error.h"
#include "io/local.h"
#include "io/sqlite.h"
#include "orca/state/database.h"

namespace firn::orca {
namespace {

void sql_now(sqlite3_context* context, int, sqlite3_value**) { sqlite3_result_int64(context, now_ms()); }

// Locks are SQLite's own: a transaction that writes is the only one.
std::string for_sqlite(std::string sql) {
  for (const std::string_view words : {" for update skip locked", " for update"}) {
    for (size_t at = sql.find(words); at != std::string::npos; at = sql.find(words)) sql.erase(at, words.size());
  }
  return sql;
}

class SqliteDatabase final : public Database {
 public:
  SqliteDatabase(const std::string& path, bool create)
      : file_(path, create ? SqliteFile::Open::created : SqliteFile::Open::existing) {
    sqlite3_create_function_v2(file_.handle(), "orca_now", 0, SQLITE_UTF8, nullptr, sql_now, nullptr, nullptr, nullptr);
    // A checkpoint's work is spread: few pages each, and the log does not grow beyond some megabytes.
    file_.run("pragma wal_autocheckpoint = 1000; pragma foreign_keys = off");
  }

  SqlResult run(const std::string& sql, const SqlValues& values) override {
    SqliteStatement& statement = prepared(sql);
    statement.reset();
    for (size_t i = 0; i < values.size(); ++i) {
      const int index = static_cast<int>(i) + 1;
      if (values[i].is_number()) {
        statement.bind(index, values[i].number());
      } else if (values[i].text()) {
        statement.bind(index, std::string_view(*values[i].text()));
      } else {
        statement.bind(index, std::nullopt);
      }
    }
    SqlResult result;
    const int64_t before = sqlite3_total_changes64(file_.handle());
    while (statement.step()) {
      std::vector<std::optional<std::string>> cells;
      for (int column = 0; column < statement.columns(); ++column) {
        const bool is_null = !statement.maybe_integer(column);
        cells.push_back(is_null ? std::nullopt : std::optional(statement.text(column)));
      }
      result.rows.emplace_back(std::move(cells));
    }
    result.changed = sqlite3_total_changes64(file_.handle()) - before;
    return result;
  }

  std::vector<SqlResult> run_each(const std::string& sql, const std::vector<SqlValues>& values) override {
    std::vector<SqlResult> results;
    results.reserve(values.size());
    for (const SqlValues& one : values) results.push_back(run(sql, one));
    return results;
  }

  void begin() override { file_.run("begin immediate"); }
  void commit() override { file_.run("commit"); }
  void rollback() noexcept override {
    for (auto& [sql, statement] : statements_) statement.reset();
    sqlite3_exec(file_.handle(), "rollback", nullptr, nullptr, nullptr);  // none open is fine
  }
  const std::string& title() const override { return file_.path(); }
  void lock_schema() override {}
  bool is_postgres() const override { return false; }

 private:
  SqliteStatement& prepared(const std::string& sql) {
    const auto found = statements_.find(sql);
    if (found != statements_.end()) return found->second;
    return statements_.try_emplace(sql, file_, for_sqlite(sql)).first->second;
  }

  SqliteFile file_;
  std::map<std::string, SqliteStatement> statements_;
};

}  // namespace

std::unique_ptr<Database> open_sqlite(const std::string& path, bool create) {
  if (create) {
    const std::string folder = std::filesystem::path(path).parent_path().string();
    if (!folder.empty()) make_directories(folder);
  } else if (!std::filesystem::exists(path)) {
    fail(ErrorKind::not_found,
         "{}: there is no state of runs here; a pipeline's first run makes it (ORCA_STATE names the file)", path);
  } else if (!std::filesystem::exists(path + "-wal")) {
    const std::string folder = std::filesystem::absolute(path).parent_path().string();
    if (faccessat(AT_FDCWD, folder.c_str(), W_OK, AT_EACCESS) != 0)
      fail(ErrorKind::io,
           "{}: even a look needs write permission on its folder while no other program has it open: SQLite reads it "
           "with the help of two files beside it ({}-wal and -shm), and they have to be made. Look as a user who may "
           "write to {}, or while a runner works",
           path, std::filesystem::path(path).filename().string(), folder);
  }
  return std::make_unique<SqliteDatabase>(path, create);
}

}  // namespace firn::orca
