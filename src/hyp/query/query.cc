#include "hyp/query/query.h"

#include <filesystem>
#include <thread>

#include <arrow/c/bridge.h>

#include "base/arrow_status.h"
#include "base/clock.h"
#include "base/span.h"
#include "base/threads.h"
#include "base/uuid.h"
#include "hyp/query/dataset_scan.h"
#include "hyp/query/pruning.h"
#include "hyp/query/statement.h"

namespace firn::hyp {
namespace {

// A DuckDB of one statement's own, that reaches nothing outside it.
DuckDatabase open_database(const QueryOptions& options) {
  DuckConfig config;
  duckdb_create_config(config.out());
  const auto set = [&](const char* name, const std::string& value) {
    if (duckdb_set_config(config.get(), name, value.c_str()) != DuckDBSuccess) {
      fail(ErrorKind::internal, "DuckDB does not know the setting {} = {}", name, value);
    }
  };
  // What does not fit in memory is spilled there; DuckDB makes the folder when it has to, and removes it. Its default
  // is .tmp in the working directory.
  set("temp_directory", (std::filesystem::temp_directory_path() / ("hyp-query-" + uuid_v7(now_ms()))).string());
  set("autoinstall_known_extensions", "false");
  set("autoload_known_extensions", "false");
  set("allow_community_extensions", "false");
  if (options.threads > 0) set("threads", std::to_string(options.threads));
  if (options.memory_bytes_max > 0) set("memory_limit", std::to_string(options.memory_bytes_max) + "B");
  DuckDatabase database;
  char* error = nullptr;
  if (duckdb_open_ext(nullptr, database.out(), config.get(), &error) != DuckDBSuccess) {
    fail(ErrorKind::internal, "DuckDB cannot be opened: {}", take_text(error));
  }
  return database;
}

void execute(duckdb_connection connection, const char* sql) {
  DuckStatement statement;
  DuckResult result;
  if (duckdb_prepare(connection, sql, statement.out()) != DuckDBSuccess) {
    fail(ErrorKind::internal, "{}: {}", sql, duckdb_prepare_error(statement.get()));
  }
  if (duckdb_execute_prepared(statement.get(), &result.result) != DuckDBSuccess) {
    fail(ErrorKind::internal, "{}: {}", sql, duckdb_result_error(&result.result));
  }
}

// Interrupts the connection once `cancelled` is set, until destroyed.
class Interrupter {
 public:
  Interrupter(duckdb_connection connection, const std::atomic<bool>* cancelled) {
    if (cancelled == nullptr) return;
    thread_ = begin_thread([this, connection, cancelled] {
      while (!done_) {
        if (*cancelled) duckdb_interrupt(connection);
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
      }
    });
  }
  ~Interrupter() {
    done_ = true;
    if (thread_.joinable()) thread_.join();
  }

 private:
  std::atomic<bool> done_{false};
  std::jthread thread_;
};

class QueryReader final : public arrow::RecordBatchReader {
 public:
  QueryReader(const Cache& cache, const std::string& sql, const QueryOptions& options)
      : cut_(cache, options.cancelled), cancelled_(options.cancelled) {
    database_ = open_database(options);
    if (duckdb_connect(database_.get(), connection_.out()) != DuckDBSuccess)
      fail(ErrorKind::internal, "DuckDB takes no connection");
    // After the start, so that DuckDB still spills to the temporary directory.
    execute(connection_.get(), "set enable_external_access = false");
    execute(connection_.get(), "set timezone = 'UTC'");
    context_.cut = &cut_;
    context_.connection = connection_.get();
    context_.threads =
        options.threads > 0 ? options.threads : static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
    context_.prune = options.prune;
    context_.counters = options.counters;
    context_.blob_counters = options.blob_counters;
    context_.archive_counters = options.archive_counters;
    const std::string statement = with_tables_shown(sql, cut_);
    if (const auto ast = parse_select(connection_.get(), statement)) {
      check_qualified_names(*ast, cut_);
      if (options.prune) context_.pruning = find_pruning(connection_.get(), cut_, *ast);
    }
    register_dataset_scan(database_.get(), connection_.get(), &context_);
    execute(connection_.get(), "set lock_configuration = true");
    interrupter_ = std::make_unique<Interrupter>(connection_.get(), cancelled_);
    run(statement);
  }

  ~QueryReader() override {
    chunk_.reset();
    interrupter_.reset();
  }

  std::shared_ptr<arrow::Schema> schema() const override { return schema_; }

  arrow::Status ReadNext(std::shared_ptr<arrow::RecordBatch>* batch) override {
    batch->reset();
    chunk_ = DuckChunk(duckdb_fetch_chunk(result_.result));
    if (!chunk_) {
      if (const char* error = duckdb_result_error(&result_.result); error != nullptr && *error != '\0')
        fail_statement(error);
      return arrow::Status::OK();
    }
    ArrowArray array{};
    check_duckdb(duckdb_data_chunk_to_arrow(arrow_options_.get(), chunk_.get(), &array), "take rows from DuckDB");
    *batch = check(arrow::ImportRecordBatch(&array, schema_), "take rows from DuckDB");
    return arrow::Status::OK();
  }

 private:
  [[noreturn]] void fail_statement(const char* error) {
    if (cancelled_ != nullptr && *cancelled_) fail(ErrorKind::cancelled, "the query was interrupted");
    // DuckDB calls it an error of its binder.
    if (!context_.failure.empty() && std::string_view(error).find(context_.failure) != std::string_view::npos)
      fail(ErrorKind::invalid_argument, "{}", context_.failure);
    fail(ErrorKind::invalid_argument, "{}", with_datasets_named(error, cut_));
  }

  [[noreturn]] static void fail_not_reading() {
    fail(ErrorKind::invalid_argument,
         "only statements that read are run: SELECT, WITH, VALUES, DESCRIBE, SUMMARIZE, EXPLAIN");
  }

  void run(const std::string& sql) {
    DuckStatements statements;
    const idx_t count = duckdb_extract_statements(connection_.get(), sql.c_str(), statements.out());
    if (count == 0) {
      const char* error = duckdb_extract_statements_error(statements.get());
      fail_statement(error != nullptr ? error : "there is no statement");
    }
    if (count > 1) fail(ErrorKind::invalid_argument, "there are {} statements; one is run at a time", count);
    if (duckdb_prepare_extracted_statement(connection_.get(), statements.get(), 0, statement_.out()) != DuckDBSuccess) {
      // A statement that changes something fails first on what it names: a dataset is no table of DuckDB's.
      if (!begins_as_reading(sql)) fail_not_reading();
      fail_statement(duckdb_prepare_error(statement_.get()));
    }
    const int type = duckdb_prepared_statement_type(statement_.get());
    if (type != DUCKDB_STATEMENT_SELECT && type != DUCKDB_STATEMENT_EXPLAIN) fail_not_reading();
    DuckPending pending;
    if (duckdb_pending_prepared_streaming(statement_.get(), pending.out()) != DuckDBSuccess) {
      fail_statement(duckdb_pending_error(pending.get()));
    }
    if (duckdb_execute_pending(pending.get(), &result_.result) != DuckDBSuccess)
      fail_statement(duckdb_result_error(&result_.result));
    arrow_options_ = DuckArrowOptions(duckdb_result_get_arrow_options(&result_.result));
    import_schema();
  }

  void import_schema() {
    std::vector<DuckType> types;
    std::vector<duckdb_logical_type> raw_types;
    std::vector<const char*> names;
    const idx_t count = duckdb_column_count(&result_.result);
    for (idx_t i = 0; i < count; ++i) {
      types.emplace_back(duckdb_column_logical_type(&result_.result, i));
      raw_types.push_back(types.back().get());
      names.push_back(duckdb_column_name(&result_.result, i));
    }
    ArrowSchema exported{};
    check_duckdb(duckdb_to_arrow_schema(arrow_options_.get(), raw_types.data(), names.data(), count, &exported),
                 "take a result's schema from DuckDB");
    schema_ = check(arrow::ImportSchema(&exported), "take a result's schema from DuckDB");
  }

  // Destroyed from the last to the first: the scans that the result runs use the context and the cut.
  Cut cut_;
  DatasetScanContext context_;
  const std::atomic<bool>* cancelled_;
  DuckDatabase database_;
  DuckConnection connection_;
  std::unique_ptr<Interrupter> interrupter_;
  DuckStatement statement_;
  DuckResult result_;
  DuckArrowOptions arrow_options_;
  std::shared_ptr<arrow::Schema> schema_;
  DuckChunk chunk_;
};

}  // namespace

std::shared_ptr<arrow::RecordBatchReader> run_query(const Cache& cache, const std::string& sql,
                                                    const QueryOptions& options) {
  Span span("hyp.query");
  return std::make_shared<QueryReader>(cache, sql, options);
}

}  // namespace firn::hyp
