#include "flights.h"

#include <chrono>
#include <map>

#include <arrow/io/file.h>
#include <arrow/json/api.h>
#include <firn/iceberg.h>

namespace nyc {
namespace {

using firn::check;

template <class Array>
const Array& column(const arrow::RecordBatch& rows, const std::string& name) {
  return dynamic_cast<const Array&>(*rows.GetColumnByName(name));
}

// The day of each raw row.
std::vector<int32_t> days_of(const arrow::RecordBatch& raw) {
  const auto& year = column<arrow::Int32Array>(raw, "year");
  const auto& month = column<arrow::Int32Array>(raw, "month");
  const auto& day = column<arrow::Int32Array>(raw, "day");
  std::vector<int32_t> days;
  for (int64_t row = 0; row < raw.num_rows(); ++row) {
    const std::chrono::sys_days date = std::chrono::year(year.Value(row)) / static_cast<unsigned>(month.Value(row)) /
                                       static_cast<unsigned>(day.Value(row));
    days.push_back(static_cast<int32_t>(date.time_since_epoch().count()));
  }
  return days;
}

struct Delays {
  int64_t sum = 0, count = 0;
  void add(const arrow::Int32Array& minutes, int64_t row) {
    if (minutes.IsNull(row)) return;
    sum += minutes.Value(row);
    ++count;
  }
  arrow::Status append_mean(arrow::DoubleBuilder& means) const {
    return count == 0 ? means.AppendNull() : means.Append(static_cast<double>(sum) / static_cast<double>(count));
  }
};

struct Group {
  int64_t flights = 0, cancelled = 0;
  Delays departure, arrival;
};

}  // namespace

std::shared_ptr<arrow::Schema> raw_columns() {
  using arrow::field, arrow::int32, arrow::utf8;
  return arrow::schema({field("year", int32(), false),  // required
                        field("month", int32(), false), field("day", int32(), false), field("dep_time", int32()),
                        field("sched_dep_time", int32()), field("dep_delay", int32()), field("arr_time", int32()),
                        field("sched_arr_time", int32()), field("arr_delay", int32()), field("carrier", utf8(), false),
                        field("flight", int32()), field("tailnum", utf8()), field("origin", utf8()),
                        field("dest", utf8()), field("air_time", int32()), field("distance", int32()),
                        field("hour", int32(), false), field("minute", int32()),
                        field("time_hour", arrow::timestamp(arrow::TimeUnit::MICRO))});
}

std::shared_ptr<arrow::Schema> event_columns() {
  using arrow::field, arrow::int32, arrow::utf8;
  return arrow::schema({field("day", arrow::date32(), false), field("carrier", utf8(), false), field("flight", int32()),
                        field("tailnum", utf8()), field("origin", utf8()), field("dest", utf8()),
                        field("sched_dep_time", int32()), field("dep_delay", int32()), field("arr_delay", int32()),
                        field("distance", int32())});
}

std::shared_ptr<arrow::Schema> daily_columns() {
  using arrow::field, arrow::float64, arrow::int64;
  return arrow::schema({field("day", arrow::date32(), false), field("carrier", arrow::utf8(), false),
                        field("flights", int64(), false), field("cancelled", int64(), false),
                        field("mean_dep_delay", float64()), field("mean_arr_delay", float64())});
}

std::vector<std::shared_ptr<arrow::RecordBatch>> read_file(const std::string& path) {
  const auto file = check(arrow::io::ReadableFile::Open(path), path);
  auto options = arrow::json::ParseOptions::Defaults();
  options.explicit_schema = raw_columns();
  options.unexpected_field_behavior = arrow::json::UnexpectedFieldBehavior::Error;
  const auto reader =
      check(arrow::json::StreamingReader::Make(file, arrow::json::ReadOptions::Defaults(), options), path);
  return check(reader->ToRecordBatches(), path);
}

void add_days(const arrow::RecordBatch& raw, std::set<int32_t>& days) {
  const std::vector<int32_t> found = days_of(raw);
  days.insert(found.begin(), found.end());
}

std::shared_ptr<arrow::RecordBatch> to_events(const arrow::RecordBatch& raw) {
  arrow::Date32Builder day;
  check(day.AppendValues(days_of(raw)), "the days of flights");
  const std::shared_ptr<arrow::Schema> schema = event_columns();
  arrow::ArrayVector columns = {check(day.Finish(), "the days of flights")};
  for (int i = 1; i < schema->num_fields(); ++i) columns.push_back(raw.GetColumnByName(schema->field(i)->name()));
  return arrow::RecordBatch::Make(schema, raw.num_rows(), columns);
}

Daily to_daily(arrow::RecordBatchReader& events) {
  std::map<std::pair<int32_t, std::string>, Group> groups;
  for (auto next : events) {
    const std::shared_ptr<arrow::RecordBatch> rows = check(std::move(next), "flights");
    const auto& day = column<arrow::Date32Array>(*rows, "day");
    const auto& carrier = column<arrow::StringArray>(*rows, "carrier");
    const auto& dep_delay = column<arrow::Int32Array>(*rows, "dep_delay");
    const auto& arr_delay = column<arrow::Int32Array>(*rows, "arr_delay");
    for (int64_t row = 0; row < rows->num_rows(); ++row) {
      Group& group = groups[{day.Value(row), carrier.GetString(row)}];
      ++group.flights;
      if (dep_delay.IsNull(row)) ++group.cancelled;  // it never left
      group.departure.add(dep_delay, row);
      group.arrival.add(arr_delay, row);
    }
  }
  arrow::Date32Builder day;
  arrow::StringBuilder carrier;
  arrow::Int64Builder flights, cancelled;
  arrow::DoubleBuilder mean_dep_delay, mean_arr_delay;
  Daily daily;
  for (const auto& [key, group] : groups) {
    check(day.Append(key.first) & carrier.Append(key.second) & flights.Append(group.flights) &
              cancelled.Append(group.cancelled) & group.departure.append_mean(mean_dep_delay) &
              group.arrival.append_mean(mean_arr_delay),
          "daily totals");
    daily.flights += group.flights;
    daily.cancelled += group.cancelled;
  }
  arrow::ArrayVector columns;
  for (arrow::ArrayBuilder* builder : std::initializer_list<arrow::ArrayBuilder*>{&day, &carrier, &flights, &cancelled,
                                                                                  &mean_dep_delay, &mean_arr_delay})
    columns.push_back(check(builder->Finish(), "daily totals"));
  daily.rows = arrow::RecordBatch::Make(daily_columns(), static_cast<int64_t>(groups.size()), columns);
  return daily;
}

}  // namespace nyc
