// Flights out of New York in 2013, from raw months to a summary.
//
//   load_raw   a month's file into nyc.raw, whose month it replaces
//   load_day   a day of nyc.raw into nyc.flights, whose day it replaces; a task writes each airport's file
//   compact    the days' small files, rewritten as one each
//   summary    flights and delays by month and airport
//
// NYC_INPUT is a folder of flights-<month>.ndjson (examples/flights/make_ndjson.py), ORCA_WAREHOUSE where the tables
// go.
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>

#include <arrow/api.h>
#include <firn/iceberg.h>
#include <firn/orca.h>

#include "base/arrow_status.h"

using firn::check;
using firn::ErrorKind;
using firn::Json;
using firn::orca::Ctx;
using firn::orca::DataFiles;
using firn::orca::Day;
using firn::orca::Table;
namespace iceberg = firn::iceberg;
namespace orca = firn::orca;

namespace {

// --- the tables ---

constexpr const char* kRaw = "nyc.raw";
constexpr const char* kFlights = "nyc.flights";
constexpr const char* kSummary = "nyc.summary";

iceberg::Field column(int32_t id, const char* name, iceberg::TypeId type, bool required = false) {
  return {.id = id, .name = name, .required = required, .type = iceberg::Type::primitive(type)};
}

// Both of raw and of flights.
const iceberg::Schema& flight_schema() {
  using enum iceberg::TypeId;
  static const iceberg::Schema schema(
      {column(1, "day", date, true), column(2, "month", int_, true), column(3, "carrier", string),
       column(4, "flight", int_), column(5, "tailnum", string), column(6, "origin", string), column(7, "dest", string),
       column(8, "dep_time", int_), column(9, "dep_delay", int_), column(10, "arr_delay", int_),
       column(11, "distance", int_)});
  return schema;
}

const iceberg::Schema& summary_schema() {
  using enum iceberg::TypeId;
  static const iceberg::Schema schema({column(1, "month", int_, true), column(2, "origin", string, true),
                                       column(3, "flights", long_), column(4, "cancelled", long_),
                                       column(5, "mean_dep_delay", double_)});
  return schema;
}

// --- load_raw ---

std::string input_folder() {
  const char* folder = std::getenv("NYC_INPUT");
  if (folder == nullptr) firn::fail(ErrorKind::config, "NYC_INPUT names no folder of flights-<month>.ndjson");
  return folder;
}

// "01", "02", …: the months whose files are there.
std::vector<std::string> months() {
  std::vector<std::string> found;
  for (const auto& entry : std::filesystem::directory_iterator(input_folder())) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with("flights-") && name.ends_with(".ndjson")) found.push_back(name.substr(8, name.size() - 15));
  }
  std::sort(found.begin(), found.end());
  return found;
}

void append_cell(arrow::ArrayBuilder& builder, const Json& value) {
  if (value.is_null()) {
    check(builder.AppendNull(), "a row");
  } else if (auto* text = dynamic_cast<arrow::StringBuilder*>(&builder)) {
    check(text->Append(value.get_ref<const std::string&>()), "a row");
  } else if (auto* date = dynamic_cast<arrow::Date32Builder*>(&builder)) {
    check(date->Append(value.get<int32_t>()), "a row");
  } else {
    check(dynamic_cast<arrow::Int32Builder&>(builder).Append(value.get<int32_t>()), "a row");
  }
}

struct LoadedMonth {
  std::string month;
  int64_t rows = 0;
};
ORCA_FIELDS(LoadedMonth, month, rows);

LoadedMonth load_raw(Ctx& ctx, const std::string& month) {
  const auto by_month = iceberg::make_partition_spec({{.column = "month"}}, flight_schema());
  Table raw = orca::ensure_table(ctx, kRaw, flight_schema(), by_month);
  std::ifstream file(input_folder() + "/flights-" + month + ".ndjson");
  const auto schema = iceberg::to_arrow_schema(flight_schema());
  const auto builder = check(arrow::RecordBatchBuilder::Make(schema, arrow::default_memory_pool()), "rows");
  LoadedMonth loaded{.month = month};
  for (std::string line; std::getline(file, line); ++loaded.rows) {
    Json row = firn::parse_json(line, "flights-" + month + ".ndjson");
    row["day"] = Day::parse(fmt::format("{}-{:02}-{:02}", row["year"].get<int>(), row["month"].get<int>(),
                                        row["day"].get<int>()))
                     .days;
    for (int i = 0; i < schema->num_fields(); ++i) append_cell(*builder->GetField(i), row[schema->field(i)->name()]);
  }
  orca::append(ctx, raw, {check(builder->Flush(), "rows")});  // replaces: the step says so
  return loaded;
}

// --- load_day ---

// The days that the raw months have: the keys of load_day, asked once the months are loaded.
std::vector<Day> days() {
  const Table raw = orca::load_dataset(kRaw);
  std::set<Day> found;
  const auto reader = iceberg::scan(raw.metadata(), raw.io(), {.columns = {"day"}});
  for (std::shared_ptr<arrow::RecordBatch> batch;;) {
    check(reader->ReadNext(&batch), kRaw);
    if (!batch) break;
    const auto& values = dynamic_cast<const arrow::Date32Array&>(*batch->column(0));
    for (int64_t i = 0; i < values.length(); ++i) found.insert(Day{values.Value(i)});
  }
  return {found.begin(), found.end()};
}

// A task: it may run in another process, so it knows no step, and reads the snapshot that the step was pinned to.
DataFiles write_origin(int64_t raw_snapshot, const std::string& day, const std::string& origin) {
  const Table raw = orca::load_dataset(kRaw);
  const auto reader =
      iceberg::scan(raw.metadata(), raw.io(),
                    {.snapshot_id = raw_snapshot,
                     .filter = iceberg::parse_expression(fmt::format("month = {} and day = '{}' and origin = '{}'",
                                                                     std::stoi(day.substr(5, 2)), day, origin))});
  orca::FileWriter writer(orca::load_dataset(kFlights));
  for (std::shared_ptr<arrow::RecordBatch> batch;;) {
    check(reader->ReadNext(&batch), kRaw);
    if (!batch) break;
    writer.put(batch);
  }
  return writer.finish();
}

int64_t load_day(Ctx& ctx, const Day& day) {
  const Table raw = orca::table(ctx, kRaw);
  const auto by_day = iceberg::make_partition_spec({{.column = "day"}}, flight_schema());
  Table flights = orca::ensure_table(ctx, kFlights, flight_schema(), by_day);
  if (orca::find_commit(ctx, flights)) return orca::append_files(ctx, flights, {});  // a retry: it is there
  const auto snapshot = orca::scan(ctx, raw).snapshot_id();
  if (!snapshot) firn::fail(ErrorKind::not_found, "{} has no rows yet", kRaw);
  std::vector<orca::TaskRef<DataFiles>> tasks;
  for (const char* origin : {"EWR", "JFK", "LGA"}) {
    tasks.push_back(ctx.tasks().remote(write_origin, *snapshot, day.str(), origin));
  }
  DataFiles files;
  for (const DataFiles& written : ctx.tasks().get_all(tasks)) files.add(written);
  return orca::append_files(ctx, flights, files);
}

// --- compact ---

// One file a day in the stead of several. The rows stay, so nothing is read again by whoever reads them.
int64_t compact(Ctx& ctx) {
  Table flights = orca::table(ctx, kFlights);
  if (orca::find_commit(ctx, flights)) return orca::commit(ctx, flights, "replace", {});  // a retry: it is there
  const auto plan = std::make_shared<const iceberg::ScanPlan>(orca::scan(ctx, flights).plan());
  std::map<int32_t, std::vector<size_t>> by_day;
  for (size_t i = 0; i < plan->tasks.size(); ++i) {
    by_day[std::get<int32_t>(plan->tasks[i].file.partition.at(0))].push_back(i);
  }
  orca::FileChanges changes;
  changes.read_snapshot_id = plan->snapshot_id;
  orca::FileWriter writer(flights);
  for (const auto& [day, tasks] : by_day) {
    if (tasks.size() < 2) continue;
    for (const size_t task : tasks) {
      const auto reader = iceberg::read_task(plan, task, flights.io(), {});
      for (std::shared_ptr<arrow::RecordBatch> batch;;) {
        check(reader->ReadNext(&batch), kFlights);
        if (!batch) break;
        writer.put(batch);
      }
      changes.removed.push_back(plan->tasks[task].file);
    }
  }
  changes.added = writer.finish().files;
  return orca::commit(ctx, flights, "replace", changes);
}

// --- summary ---

struct Totals {
  int64_t flights = 0, cancelled = 0, days = 0;
};
ORCA_FIELDS(Totals, flights, cancelled, days);

Totals summarise(Ctx& ctx) {
  struct Group {
    int64_t flights = 0, cancelled = 0, delay = 0;
  };
  std::map<std::pair<int32_t, std::string>, Group> groups;
  std::set<int32_t> days;
  Totals totals;
  const auto reader =
      orca::scan(ctx, orca::table(ctx, kFlights), {.columns = {"day", "month", "origin", "dep_delay"}}).read();
  for (std::shared_ptr<arrow::RecordBatch> batch;;) {
    check(reader->ReadNext(&batch), kFlights);
    if (!batch) break;
    const auto& day = dynamic_cast<const arrow::Date32Array&>(*batch->column(0));
    const auto& month = dynamic_cast<const arrow::Int32Array&>(*batch->column(1));
    const auto& origin = dynamic_cast<const arrow::StringArray&>(*batch->column(2));
    const auto& delay = dynamic_cast<const arrow::Int32Array&>(*batch->column(3));
    for (int64_t i = 0; i < batch->num_rows(); ++i) {
      Group& group = groups[{month.Value(i), origin.GetString(i)}];
      ++group.flights;
      if (delay.IsNull(i)) ++group.cancelled;
      if (delay.IsValid(i)) group.delay += delay.Value(i);
      days.insert(day.Value(i));
    }
  }
  arrow::Int32Builder month;
  arrow::StringBuilder origin;
  arrow::Int64Builder flights, cancelled;
  arrow::DoubleBuilder mean;
  for (const auto& [key, group] : groups) {
    const int64_t flown = group.flights - group.cancelled;
    check(month.Append(key.first), "a row");
    check(origin.Append(key.second), "a row");
    check(flights.Append(group.flights), "a row");
    check(cancelled.Append(group.cancelled), "a row");
    check(flown > 0 ? mean.Append(static_cast<double>(group.delay) / static_cast<double>(flown)) : mean.AppendNull(),
          "a row");
    totals.flights += group.flights;
    totals.cancelled += group.cancelled;
  }
  totals.days = static_cast<int64_t>(days.size());
  arrow::ArrayVector columns;
  for (arrow::ArrayBuilder* builder :
       std::initializer_list<arrow::ArrayBuilder*>{&month, &origin, &flights, &cancelled, &mean}) {
    columns.push_back(check(builder->Finish(), "rows"));
  }
  Table summary = orca::ensure_table(ctx, kSummary, summary_schema());
  orca::append(ctx, summary,
               {arrow::RecordBatch::Make(iceberg::to_arrow_schema(summary_schema()),
                                         static_cast<int64_t>(groups.size()), columns)});
  return totals;
}

}  // namespace

ORCA_TASK(write_origin);

ORCA_PIPELINE(nyc) {
  describe("flights out of New York, from raw months to a summary");
  schedule("0 6 * * *");
  step("load_raw", load_raw).mapped<std::string>([] { return months(); }).replaces(kRaw);
  step("load_day", load_day)
      .mapped<Day>([] { return days(); })
      .after("load_raw")
      .reads(kRaw)
      .replaces(kFlights)
      .retries(3);
  step("compact", compact).after("load_day").reads(kFlights).writes(kFlights).retries(3);
  step("summary", summarise).after("compact").reads(kFlights).replaces(kSummary).retries(3);
}
