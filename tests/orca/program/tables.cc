// Pipelines that write tables in each way there is, for tests that kill, stop and race their runs. A row says which
// attempt wrote it: "<run number>/<step>/<key>/<attempt>".
#include <atomic>
#include <csignal>
#include <iostream>
#include <utility>

#include <arrow/api.h>
#include <firn/iceberg.h>
#include <firn/orca.h>

#include "base/fault_point.h"
#include "base/log.h"
#include "orca/program/told.h"

namespace iceberg = firn::iceberg;
namespace orca = firn::orca;
using firn::Error;
using orca::Ctx, orca::DataFiles, orca::Day, orca::Table;

namespace {

constexpr const char* kDays = "t.days";    // by day; replaced
constexpr const char* kFiles = "t.files";  // by day; replaced, with files that tasks write
constexpr const char* kSums = "t.sums";    // replaced as a whole
constexpr const char* kLog = "t.log";      // appended to, and compacted
constexpr const char* kNew = "t.new";      // made where TEST_WIDE is set

// TEST_WIDE: with a column more.
iceberg::Schema row_schema() {
  const auto column = [](int32_t id, std::string name, iceberg::TypeId type) {
    return iceberg::Field{.id = id, .name = std::move(name), .type = iceberg::Type::primitive(type)};
  };
  std::vector<iceberg::Field> fields = {column(1, "id", iceberg::TypeId::long_),
                                        column(2, "day", iceberg::TypeId::string),
                                        column(3, "writer", iceberg::TypeId::string)};
  if (!environment("TEST_WIDE").empty()) fields.push_back(column(4, "note", iceberg::TypeId::string));
  return iceberg::Schema(fields);
}

Table ensure(Ctx& ctx, const char* dataset, bool by_day) {
  const iceberg::Schema schema = row_schema();
  const iceberg::PartitionSpec spec =
      by_day ? iceberg::make_partition_spec({{.column = "day"}}, schema) : iceberg::PartitionSpec{};
  return orca::ensure_table(ctx, dataset, schema, spec, {{"commit.retry.num-retries", "1000"}});
}

std::string writer_of(const Ctx& ctx) {
  return fmt::format("{}/{}/{}/{}", ctx.id().run_number, ctx.id().step, ctx.id().partition, ctx.id().attempt);
}

// Ids say run, day and place: 1000 times the run's number, 10 times the days since the year began, and `from` on.
std::vector<int64_t> ids_of(int64_t run_number, const Day& day, int64_t from, int64_t count) {
  std::vector<int64_t> ids;
  for (int64_t i = 0; i < count; ++i) {
    ids.push_back(1'000 * run_number + 10 * (day.days - Day::parse("2013-01-01").days) + from + i);
  }
  return ids;
}

orca::Batches rows_of(const std::vector<int64_t>& ids, const std::vector<std::string>& days,
                      const std::string& writer) {
  arrow::Int64Builder id;
  arrow::StringBuilder day, by;
  for (size_t i = 0; i < ids.size(); ++i) {
    firn::check(id.Append(ids[i]), "ids");
    firn::check(day.Append(days[i]), "days");
    firn::check(by.Append(writer), "writers");
  }
  const auto columns = arrow::schema(
      {arrow::field("id", arrow::int64()), arrow::field("day", arrow::utf8()), arrow::field("writer", arrow::utf8())});
  return {arrow::RecordBatch::Make(
      columns, static_cast<int64_t>(ids.size()),
      {firn::check(id.Finish(), "ids"), firn::check(day.Finish(), "days"), firn::check(by.Finish(), "writers")})};
}

orca::Batches day_rows(const Ctx& ctx, const Day& day, int64_t from) {
  return rows_of(ids_of(ctx.id().run_number, day, from, 2), {day.str(), day.str()}, writer_of(ctx));
}

struct Rows {
  std::vector<int64_t> ids;
  std::vector<std::string> days;
};

Rows read(const orca::TableScan& scan) {
  Rows rows;
  for (const auto& batch : scan.to_batches()) {
    const auto& ids = dynamic_cast<const arrow::Int64Array&>(*batch->GetColumnByName("id"));
    const auto& days = dynamic_cast<const arrow::StringArray&>(*batch->GetColumnByName("day"));
    for (int64_t i = 0; i < batch->num_rows(); ++i) {
      rows.ids.push_back(ids.Value(i));
      rows.days.push_back(days.GetString(i));
    }
  }
  return rows;
}

// TEST_FAIL: what has committed fails all the same, so that its retry meets its commits.
void end_step(const Ctx& ctx) {
  if (!environment("TEST_FAIL").empty()) throw std::runtime_error("told to fail");
  tell("end", ctx);
}

// --- the steps of `tables` ---

void make(Ctx& ctx) {
  tell("begin", ctx);
  ensure(ctx, kDays, true);
  ensure(ctx, kFiles, true);
  ensure(ctx, kSums, false);
  ensure(ctx, kLog, false);
  if (!environment("TEST_WIDE").empty()) {
    Table made = ensure(ctx, kNew, false);
    orca::append(ctx, made, rows_of({ctx.id().run_number}, {""}, writer_of(ctx)));
  }
  end_step(ctx);
}

int64_t load(Ctx& ctx, const Day& day) {
  tell("begin", ctx);
  Table days = orca::table(ctx, kDays), log = orca::table(ctx, kLog);
  orca::append(ctx, days, day_rows(ctx, day, 0));  // replaces what earlier runs left
  orca::append(ctx, log, day_rows(ctx, day, 0));
  orca::append(ctx, days, day_rows(ctx, day, 2));  // beside its own
  end_step(ctx);
  return 4;
}

DataFiles write_row(int64_t id, const std::string& day, const std::string& writer) {
  return orca::write_files(orca::load_dataset(kFiles), rows_of({id}, {day}, writer));
}

int64_t write_day(Ctx& ctx, const Day& day, const int64_t& loaded) {
  tell("begin", ctx);
  Table files = orca::table(ctx, kFiles);
  DataFiles written;
  if (!orca::find_commit(ctx, files)) {
    std::vector<orca::TaskRef<DataFiles>> tasks;
    for (const int64_t id : ids_of(ctx.id().run_number, day, 4, 2))
      tasks.push_back(ctx.tasks().remote(write_row, id, day.str(), writer_of(ctx)));
    for (const DataFiles& one : ctx.tasks().get_all(tasks)) written.add(one);
  }
  orca::append_files(ctx, files, written);
  end_step(ctx);
  return loaded + 2;
}

// Of t.log; the rows are then this step's.
void compact(Ctx& ctx) {
  tell("begin", ctx);
  Table log = orca::table(ctx, kLog);
  orca::FileChanges changes;
  if (!orca::find_commit(ctx, log)) {
    const orca::TableScan rows = orca::scan(ctx, log);
    for (const iceberg::FileScanTask& task : rows.plan().tasks) changes.removed.push_back(task.file);
    const Rows found = read(rows);
    changes.added = orca::write_files(log, rows_of(found.ids, found.days, writer_of(ctx))).files;
    changes.read_snapshot_id = rows.snapshot_id();
  }
  orca::commit(ctx, log, "replace", changes);
  end_step(ctx);
}

// One row, whose id is the sum of those of t.days.
int64_t sum(Ctx& ctx, const std::vector<int64_t>& rows) {
  tell("begin", ctx);
  int64_t total = 0, count = 0;
  for (const int64_t id : read(orca::scan(ctx, orca::table(ctx, kDays))).ids) total += id;
  for (const int64_t one : rows) count += one;
  Table sums = orca::table(ctx, kSums);
  orca::append(ctx, sums, rows_of({total}, {""}, writer_of(ctx)));
  end_step(ctx);
  return count;
}

// --- the step of `days` ---

std::atomic<int> num_loading = 0;
struct Loading {
  Loading() { ++num_loading; }
  ~Loading() { --num_loading; }
};

// The attempt on this thread that is to be held at a fault point.
thread_local const Ctx* held_at_point = nullptr;

// TEST_HOLD_AT: the first pass of that fault point by the attempt waits for the gate.
void hold_at_point(const char* name) {
  if (held_at_point == nullptr || environment("TEST_HOLD_AT") != name) return;
  const Ctx& ctx = *std::exchange(held_at_point, nullptr);
  tell("held", ctx, name);
  wait_for_gate(ctx);
}

// TEST_COMMITS commits (1) of two rows each to TEST_TABLE (t.days), by TEST_CALL (append, commit), and then TEST_DIE.
// TEST_HOLD: a day, or all, that waits for the gate, before its commits or at TEST_HOLD_AT.
void load_day(Ctx& ctx, const Day& day) {
  const auto or_else = [](const std::string& text, const char* otherwise) { return text.empty() ? otherwise : text; };
  const std::string dataset = or_else(environment("TEST_TABLE"), kDays), held = environment("TEST_HOLD");
  const bool is_held = held == "all" || held == day.str();
  tell("begin", ctx);
  const Loading loading;
  if (is_held && environment("TEST_HOLD_AT").empty()) wait_for_gate(ctx);
  if (is_held) held_at_point = &ctx;
  try {
    Table table = ensure(ctx, dataset.c_str(), true);
    for (int64_t i = 0; i < std::stoll(or_else(environment("TEST_COMMITS"), "1")); ++i) {
      const orca::Batches rows = day_rows(ctx, day, 2 * i);
      const bool by_commit = environment("TEST_CALL") == "commit";
      const int64_t id = by_commit ? orca::commit(ctx, table, "append", {orca::write_files(table, rows).files, {}, {}})
                                   : orca::append(ctx, table, rows);
      tell("committed", ctx, std::to_string(id));
    }
  } catch (const Error& e) {
    held_at_point = nullptr;
    tell("refused", ctx, std::string(to_string(e.kind())));
    throw;
  }
  held_at_point = nullptr;
  if (!environment("TEST_DIE").empty()) kill(getpid(), SIGKILL);
  end_step(ctx);
}

}  // namespace

ORCA_TASK(write_row);

ORCA_PIPELINE(tables) {
  const auto made = step("make", make).writes(kDays, kFiles, kSums, kLog, kNew);
  const auto loads = step("load", load).mapped<Day>().after(made).replaces(kDays).writes(kLog);
  const auto files = step("write_day", write_day).mapped<Day>().from(loads).replaces(kFiles);
  const auto compacted = step("compact", compact).after(files).reads(kLog).writes(kLog);
  step("sum", sum).from(files).after(compacted).reads(kDays).replaces(kSums);
}

ORCA_PIPELINE(days) { step("load", load_day).mapped<Day>().replaces(kDays).writes(kLog); }

int main(int argc, char** argv) {
  if (environment("TEST_HOLD").empty()) return orca::pipeline_main(argc, argv, orca::expire_tables);
  // Commits are heard to their end though the run has ended without them, where pipeline_main() leaves them behind.
  if (!environment("TEST_HOLD_AT").empty()) firn::set_fault_handler(hold_at_point);
  firn::init_log(spdlog::level::err);
  const int status = orca::run_pipeline_command(
      {.program = "tables", .words = {argv + 1, argv + argc}, .out = &std::cout, .err = &std::cerr},
      orca::registered_pipelines());
  while (num_loading > 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  std::cout.flush();
  _exit(status);
}
