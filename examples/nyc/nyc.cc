// Flights out of New York in 2013, from files of months to totals by day and carrier: a pipeline of four steps.
//
//   load_month   a month's file into nyc.raw, whose month it replaces
//   load_day     a day of nyc.raw into nyc.events, whose day it replaces; tasks write the files on other processes
//   compact      the files of a day of nyc.events, rewritten as one
//   summarise    nyc.daily, from all of nyc.events
//
// NYC_INPUT is a folder of flights-<month>.ndjson, and ORCA_WAREHOUSE where the tables go; README.md says how it is
// run.
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <set>

#include <firn/iceberg.h>
#include <firn/orca.h>

#include "flights.h"

using firn::check, firn::ErrorKind, firn::fail;
using firn::orca::Ctx, firn::orca::DataFiles, firn::orca::Day, firn::orca::Table, firn::orca::TaskRef;
namespace iceberg = firn::iceberg;
namespace orca = firn::orca;

namespace {

constexpr const char* kRaw = "nyc.raw";
constexpr const char* kEvents = "nyc.events";
constexpr const char* kDaily = "nyc.daily";

// The table of a dataset with these columns, partitioned by one of them, or by none.
Table ensure_table(Ctx& ctx, const char* dataset, const arrow::Schema& columns, const std::string& partition = "") {
  const iceberg::Schema schema = iceberg::from_arrow_schema(columns);
  std::vector<iceberg::PartitionDeclaration> partitions;
  if (!partition.empty()) partitions.push_back({.column = partition});
  return orca::ensure_table(ctx, dataset, schema, iceberg::make_partition_spec(partitions, schema));
}

// The rows of a snapshot that match, written again as files of `to`. For tasks, which know no step: nothing is
// committed.
DataFiles write_matching(const char* from, int64_t snapshot, const std::string& filter, const char* to,
                         std::shared_ptr<arrow::RecordBatch> (*convert)(const arrow::RecordBatch&) = nullptr) {
  const Table table = orca::load_dataset(from);
  const auto reader = iceberg::scan(table.metadata(), table.io(),
                                    {.snapshot_id = snapshot, .filter = iceberg::parse_expression(filter)});
  orca::FileWriter writer(orca::load_dataset(to));
  for (auto next : *reader) {
    const std::shared_ptr<arrow::RecordBatch> rows = check(std::move(next), from);
    writer.put(convert != nullptr ? convert(*rows) : rows);
  }
  return writer.finish();
}

// A number of the snapshot's summary. It is the same for the attempt that committed the snapshot and for a retry that
// found it; what the attempt has in memory is not.
int64_t summary_number(const Table& table, int64_t snapshot, const std::string& name) {
  const auto& summary = table.metadata().find_snapshot(snapshot)->summary;
  const auto found = summary.find(name);
  return found == summary.end() ? 0 : std::stoll(found->second);
}

// What load_month and load_day return.
struct Loaded {
  int64_t snapshot = 0, rows = 0;
};
ORCA_FIELDS(Loaded, snapshot, rows);

Loaded loaded(const Table& table, int64_t snapshot) {
  return {.snapshot = snapshot, .rows = summary_number(table, snapshot, "added-records")};
}

// --- load_month ---

std::filesystem::path input_folder() {
  const char* folder = std::getenv("NYC_INPUT");
  if (folder == nullptr) fail(ErrorKind::config, "NYC_INPUT names no folder of flights-<month>.ndjson");
  return folder;
}

// Its keys, such as "02": the months whose files are there; where the run was begun for some days, the months of those.
// Days of a month without a file would be done with no rows: that is an error.
std::vector<std::string> months(const orca::KeysRequest& run) {
  std::set<std::string> wanted;
  for (const std::string& day : run.keys) wanted.insert(day.substr(5, 2));
  std::vector<std::string> found;
  for (const auto& entry : std::filesystem::directory_iterator(input_folder())) {
    const std::string name = entry.path().stem().string();  // flights-02
    if (entry.path().extension() != ".ndjson" || !name.starts_with("flights-")) continue;
    const std::string month = name.substr(8);
    if (wanted.empty() || wanted.contains(month)) found.push_back(month);
  }
  std::sort(found.begin(), found.end());
  for (const std::string& month : wanted) {
    if (std::binary_search(found.begin(), found.end(), month)) continue;
    fail(ErrorKind::config, "{} has no flights-{}.ndjson", input_folder().string(), month);
  }
  return found;
}

Loaded load_month(Ctx& ctx, const std::string& month) {
  Table raw = ensure_table(ctx, kRaw, *nyc::raw_columns(), "month");
  const orca::Batches rows = nyc::read_file(input_folder() / ("flights-" + month + ".ndjson"));
  return loaded(raw, orca::append(ctx, raw, rows));  // the step says replaces(kRaw): the month's earlier rows go
}

// --- load_day ---

// Its keys: the days that nyc.raw has once its months are loaded.
std::vector<Day> days() {
  const Table raw = orca::load_dataset(kRaw);
  std::set<int32_t> found;
  const auto reader = iceberg::scan(raw.metadata(), raw.io(), {.columns = {"year", "month", "day"}});
  for (auto next : *reader) nyc::add_days(*check(std::move(next), kRaw), found);
  std::vector<Day> days;
  for (const int32_t day : found) days.push_back(Day{day});
  return days;
}

DataFiles write_hours(int64_t raw_snapshot, const Day& day, int first_hour, int end_hour) {
  const std::string text = day.str();  // 2013-02-14
  return write_matching(
      kRaw, raw_snapshot,
      fmt::format("year = {} and month = {} and day = {} and hour >= {} and hour < {}", std::stoi(text.substr(0, 4)),
                  std::stoi(text.substr(5, 2)), std::stoi(text.substr(8, 2)), first_hour, end_hour),
      kEvents, nyc::to_events);
}

Loaded load_day(Ctx& ctx, const Day& day) {
  Table events = ensure_table(ctx, kEvents, *nyc::event_columns(), "day");
  // A retry of an attempt that got as far as its commit does not write the files again.
  if (orca::find_commit(ctx, events)) return loaded(events, orca::append_files(ctx, events, {}));
  // The scan is pinned: every attempt reads the same snapshot, and so do the tasks, which are told its number.
  const auto raw = orca::scan(ctx, orca::table(ctx, kRaw)).snapshot_id();
  if (!raw) fail(ErrorKind::not_found, "{} has no rows yet", kRaw);
  std::vector<TaskRef<DataFiles>> tasks;
  for (const int hour : {0, 8, 16}) tasks.push_back(ctx.tasks().remote(write_hours, *raw, day, hour, hour + 8));
  DataFiles files;
  for (const DataFiles& written : ctx.tasks().get_all(tasks)) files.add(written);
  return loaded(events, orca::append_files(ctx, events, files));
}

// --- compact ---

DataFiles rewrite_days(int64_t snapshot, const std::vector<Day>& days) {
  std::string list;
  for (const Day& day : days) list += (list.empty() ? "'" : ", '") + day.str() + "'";
  return write_matching(kEvents, snapshot, "day in (" + list + ")", kEvents);
}

struct Compacted {
  int64_t removed = 0, added = 0;  // files
};
ORCA_FIELDS(Compacted, removed, added);

Compacted compacted(const Table& table, int64_t snapshot) {
  return {.removed = summary_number(table, snapshot, "deleted-data-files"),
          .added = summary_number(table, snapshot, "added-data-files")};
}

// Planned on the table as it is, not on a pinned scan: a retry after a conflict is to see what another writer did.
Compacted compact(Ctx& ctx) {
  Table events = orca::table(ctx, kEvents);
  if (orca::find_commit(ctx, events)) return compacted(events, orca::commit(ctx, events, "replace", {}));
  const iceberg::ScanPlan plan = iceberg::plan_scan(events.metadata(), events.io(), {});
  std::map<Day, std::vector<iceberg::DataFile>> files;
  for (const iceberg::FileScanTask& task : plan.tasks)
    files[Day{std::get<int32_t>(task.file.partition.at(0))}].push_back(task.file);
  orca::FileChanges changes{.read_snapshot_id = plan.snapshot_id};
  std::vector<std::vector<Day>> portions;  // a task's each: a month of days, so that few tasks plan their reads
  for (const auto& [day, of_day] : files) {
    if (of_day.size() < 2) continue;
    if (portions.empty() || portions.back().size() == 31) portions.emplace_back();
    portions.back().push_back(day);
    changes.removed.insert(changes.removed.end(), of_day.begin(), of_day.end());
  }
  if (portions.empty()) return {};
  std::vector<TaskRef<DataFiles>> tasks;
  for (const std::vector<Day>& days : portions)
    tasks.push_back(ctx.tasks().remote(rewrite_days, *plan.snapshot_id, days));
  for (const DataFiles& written : ctx.tasks().get_all(tasks))
    changes.added.insert(changes.added.end(), written.files.begin(), written.files.end());
  return compacted(events, orca::commit(ctx, events, "replace", changes));
}

// --- summarise ---

struct Summary {
  int64_t days_loaded = 0, flights_loaded = 0;  // in this run
  int64_t flights = 0, cancelled = 0;           // in all
};
ORCA_FIELDS(Summary, days_loaded, flights_loaded, flights, cancelled);

Summary summarise(Ctx& ctx, const std::vector<Loaded>& days) {
  const auto events =
      orca::scan(ctx, orca::table(ctx, kEvents), {.columns = {"day", "carrier", "dep_delay", "arr_delay"}});
  const nyc::Daily daily = nyc::to_daily(*events.read());
  Table table = ensure_table(ctx, kDaily, *nyc::daily_columns());
  orca::append(ctx, table, {daily.rows});  // replaces(kDaily), which has no partitions: all that was there goes
  Summary summary{
      .days_loaded = static_cast<int64_t>(days.size()), .flights = daily.flights, .cancelled = daily.cancelled};
  for (const Loaded& day : days) summary.flights_loaded += day.rows;
  return summary;
}

}  // namespace

ORCA_TASK(write_hours);
ORCA_TASK(rewrite_days);

ORCA_PIPELINE(nyc) {
  describe("flights out of New York, from files of months to totals by day and carrier");
  schedule("0 6 * * *");
  const auto load_months = step("load_month", load_month).mapped<std::string>(months).replaces(kRaw).retries(3);
  const auto load_days =
      step("load_day", load_day).mapped<Day>(days).after(load_months).reads(kRaw).replaces(kEvents).retries(3);
  step("compact", compact).after(load_days).writes(kEvents).retries(3);
  step("summarise", summarise).from(load_days).reads(kEvents).replaces(kDaily).retries(3);
}
