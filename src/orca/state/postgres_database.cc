#include <libpq-fe.h>

#include <map>

#include "base/error.h"
#include "orca/state/database.h"

namespace firn::orca {
namespace {

struct FreeResult {
  void operator()(PGresult* result) const { PQclear(result); }
};
using ResultPtr = std::unique_ptr<PGresult, FreeResult>;

// ?1 is $1 there; no text of ours has a question mark.
std::string for_postgres(std::string sql) {
  for (char& c : sql) {
    if (c == '?') c = '$';
  }
  return sql;
}

std::string trimmed(const char* text) {
  std::string message = text == nullptr ? "" : text;
  while (!message.empty() && (message.back() == '\n' || message.back() == ' ')) message.pop_back();
  return message;
}

class PostgresDatabase final : public Database {
 public:
  explicit PostgresDatabase(const std::string& url) {
    // A server that is gone is noticed within half a minute, so that leases mean what they say.
    const char* keys[] = {"dbname",           "connect_timeout",  "keepalives_idle",           "keepalives_interval",
                          "keepalives_count", "tcp_user_timeout", "fallback_application_name", nullptr};
    const char* values[] = {url.c_str(), "10", "10", "5", "3", "25000", "orca", nullptr};
    connection_ = PQconnectdbParams(keys, values, 1);
    if (connection_ == nullptr) fail(ErrorKind::io, "PostgreSQL: no memory for a connection");
    title_ = title_of(connection_);
    if (PQstatus(connection_) != CONNECTION_OK) {
      const std::string message = trimmed(PQerrorMessage(connection_));
      PQfinish(connection_);
      fail(ErrorKind::io, "{}: cannot connect: {} (ORCA_DATABASE_URL names the database)", title_, message);
    }
    PQsetNoticeProcessor(
        connection_, [](void*, const char*) {}, nullptr);
    try {
      simple("set client_min_messages = warning");
      simple("set default_transaction_isolation = 'read committed'");
      simple("set lock_timeout = '20s'");
      // A process that is stopped within a transaction loses it, and the rows it locked, before others give up.
      simple("set idle_in_transaction_session_timeout = '15s'");
      // What orca acknowledged must survive a crash of the server.
      simple("set synchronous_commit = on");
    } catch (...) {
      PQfinish(connection_);
      throw;
    }
  }
  ~PostgresDatabase() override { PQfinish(connection_); }

  SqlResult run(const std::string& sql, const SqlValues& values) override {
    const Parameters parameters(values);
    const std::string& name = prepared(sql, values.size());
    const ResultPtr result(
        PQexecPrepared(connection_, name.c_str(), parameters.count(), parameters.texts(), nullptr, nullptr, 0));
    return taken(result.get());
  }

  std::vector<SqlResult> run_each(const std::string& sql, const std::vector<SqlValues>& values) override {
    if (values.empty()) return {};
    if (values.size() == 1) return {run(sql, values.front())};
    // Sent without waiting for each answer. In portions that the server's and our buffers hold, so that neither side
    // waits for the other to read.
    std::vector<SqlResult> results;
    const std::string& name = prepared(sql, values.front().size());
    constexpr size_t kPortion = 64;
    for (size_t from = 0; from < values.size(); from += kPortion) {
      send_portion(name, values, from, std::min(values.size(), from + kPortion), results);
    }
    return results;
  }

  void begin() override { simple("begin"); }
  void commit() override {
    const ResultPtr result(PQexec(connection_, "commit"));
    check(result.get());
    // A transaction that an error ended is rolled back by commit, without an error.
    if (std::string_view(PQcmdStatus(result.get())) != "COMMIT")
      fail(ErrorKind::io, "{}: the transaction was rolled back", title_);
  }
  void rollback() noexcept override { PQclear(PQexec(connection_, "rollback")); }
  const std::string& title() const override { return title_; }
  void lock_schema() override { simple("select pg_advisory_xact_lock(7236142907)"); }
  bool is_postgres() const override { return true; }

 private:
  class Parameters {
   public:
    explicit Parameters(const SqlValues& values) {
      for (const SqlValue& value : values) texts_.push_back(value.text() ? value.text()->c_str() : nullptr);
    }
    int count() const { return static_cast<int>(texts_.size()); }
    const char* const* texts() const { return texts_.data(); }

   private:
    std::vector<const char*> texts_;
  };

  static std::string title_of(PGconn* connection) {
    const auto part = [](const char* text) { return std::string(text == nullptr ? "" : text); };
    return "PostgreSQL " + part(PQdb(connection)) + " at " + part(PQhost(connection)) + ":" + part(PQport(connection));
  }

  const std::string& prepared(const std::string& sql, size_t parameters) {
    const auto found = names_.find(sql);
    if (found != names_.end()) return found->second;
    const std::string name = "s" + std::to_string(names_.size());
    const ResultPtr result(
        PQprepare(connection_, name.c_str(), for_postgres(sql).c_str(), static_cast<int>(parameters), nullptr));
    check(result.get());
    return names_.emplace(sql, name).first->second;
  }

  void send_portion(const std::string& name, const std::vector<SqlValues>& values, size_t from, size_t to,
                    std::vector<SqlResult>& results) {
    if (PQenterPipelineMode(connection_) != 1) fail(ErrorKind::io, "{}: no pipeline mode", title_);
    for (size_t i = from; i < to; ++i) {
      const Parameters parameters(values[i]);
      if (PQsendQueryPrepared(connection_, name.c_str(), parameters.count(), parameters.texts(), nullptr, nullptr, 0) !=
          1) {
        fail(ErrorKind::io, "{}: {}", title_, trimmed(PQerrorMessage(connection_)));
      }
    }
    if (PQpipelineSync(connection_) != 1) fail(ErrorKind::io, "{}: {}", title_, trimmed(PQerrorMessage(connection_)));
    std::optional<Error> error;
    for (size_t i = from; i < to; ++i) {
      const ResultPtr result(PQgetResult(connection_));
      PQclear(PQgetResult(connection_));  // the null that ends one statement's results
      if (error) continue;
      try {
        results.push_back(taken(result.get()));
      } catch (const Error& e) {
        error = e;
        if (PQstatus(connection_) != CONNECTION_OK) throw;
      }
    }
    PQclear(PQgetResult(connection_));  // of the sync
    if (PQexitPipelineMode(connection_) != 1 && !error) {
      fail(ErrorKind::io, "{}: {}", title_, trimmed(PQerrorMessage(connection_)));
    }
    if (error) throw *error;
  }

  void simple(const char* sql) {
    const ResultPtr result(PQexec(connection_, sql));
    check(result.get());
  }

  void check(const PGresult* result) {
    const ExecStatusType status = PQresultStatus(result);
    if (status == PGRES_COMMAND_OK || status == PGRES_TUPLES_OK) return;
    const char* code = result == nullptr ? nullptr : PQresultErrorField(result, PG_DIAG_SQLSTATE);
    const std::string_view state = code == nullptr ? "" : code;
    ErrorKind kind = ErrorKind::internal;  // a statement of ours that the server does not take
    if (state == "55P03" || state.starts_with("40")) {
      kind = ErrorKind::busy;  // lock_not_available, deadlock_detected, …: tried again, it works
    } else if (state.empty() || state == "25006" || PQstatus(connection_) != CONNECTION_OK) {
      kind = ErrorKind::io;  // the connection is gone, or the server became a standby
    } else {
      for (const std::string_view outage : {"08", "53", "57", "58"}) {
        if (state.starts_with(outage)) kind = ErrorKind::io;
      }
    }
    fail(kind, "{}: {}{}", title_,
         trimmed(result == nullptr ? PQerrorMessage(connection_) : PQresultErrorMessage(result)),
         state.empty() ? "" : fmt::format(" (SQLSTATE {})", state));
  }

  SqlResult taken(const PGresult* result) {
    check(result);
    SqlResult answer;
    const int columns = PQnfields(result);
    for (int row = 0; row < PQntuples(result); ++row) {
      std::vector<std::optional<std::string>> cells;
      for (int column = 0; column < columns; ++column) {
        if (PQgetisnull(result, row, column) != 0) {
          cells.emplace_back();
        } else {
          cells.emplace_back(std::string(PQgetvalue(result, row, column), PQgetlength(result, row, column)));
        }
      }
      answer.rows.emplace_back(std::move(cells));
    }
    const std::string_view changed = PQcmdTuples(const_cast<PGresult*>(result));
    answer.changed = changed.empty() ? 0 : std::stoll(std::string(changed));
    return answer;
  }

  std::string title_;
  PGconn* connection_ = nullptr;
  std::map<std::string, std::string> names_;  // of prepared statements, by their text
};

}  // namespace

std::unique_ptr<Database> open_postgres(const std::string& url) { return std::make_unique<PostgresDatabase>(url); }

}  // namespace firn::orca
