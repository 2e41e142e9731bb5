// firn beside its peers: the workloads append, scan, plan and commits on the inputs that all of them read, one JSON
// line a measurement. WORK holds data/events-N.parquet, tables.json and plan_N.meta.
//
//   bench_firn WORK [--only plan,commits,append,scan] [--reps N] [--rows N] [--commits N]
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <sstream>

#include <arrow/table.h>
#include <parquet/arrow/reader.h>
#include <CLI/CLI.hpp>

#include "base/arrow_status.h"
#include "base/json.h"
#include "base/log.h"
#include "base/uuid.h"
#include "firn/iceberg.h"

namespace {

using namespace firn;
using namespace firn::iceberg;

constexpr int64_t kDayUs = 86'400'000'000, kBaseUs = 1'772'323'200'000'000;  // 2026-03-01
constexpr int64_t kDays = 58, kOneDay = 29;
constexpr const char* kLookupSession = "sess-001234";

struct Options {
  std::string work;
  std::vector<std::string> only;
  int reps = 3;
  int64_t rows = 1'000'000;
  int commits = 500;

  bool wants(const std::string& name) const {
    return only.empty() || std::find(only.begin(), only.end(), name) != only.end();
  }
};

void emit(const std::string& workload, const std::string& metric, double value, const std::string& unit, Json params) {
  Json line;
  line["peer"] = "firn";
  line["workload"] = workload;
  line["metric"] = metric;
  line["value"] = value;
  line["unit"] = unit;
  line["params"] = std::move(params);
  std::printf("%s\n", line.dump().c_str());
  std::fflush(stdout);
}

double seconds_of(const std::function<void()>& work) {
  const auto started = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - started).count();
}

double best_of(int reps, const std::function<void()>& work) {
  double best = seconds_of(work);
  for (int i = 1; i < reps; ++i) best = std::min(best, seconds_of(work));
  return best;
}

std::string read_text(const std::string& path) {
  std::ifstream in(path);
  if (!in) fail(ErrorKind::not_found, "{} is not there: prepare the inputs first", path);
  std::ostringstream out;
  out << in.rdbuf();
  std::string text = out.str();
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return text;
}

const std::shared_ptr<FileIO>& disk() {
  static const std::shared_ptr<FileIO> io = make_local_file_io();
  return io;
}

// Load and plan, nothing cached between two calls.
ScanPlan plan(const std::string& metadata_path, const std::string& where) {
  const TableMetadata metadata = parse_table_metadata(disk()->read(metadata_path), metadata_path);
  ScanOptions options;
  if (!where.empty()) options.filter = parse_expression(where);
  return plan_scan(metadata, disk(), options);
}

int64_t scan_rows(const std::string& metadata_path, const std::string& where) {
  const TableMetadata metadata = parse_table_metadata(disk()->read(metadata_path), metadata_path);
  ScanOptions options;
  if (!where.empty()) options.filter = parse_expression(where);
  const auto rows = scan(metadata, disk(), options);
  int64_t count = 0;
  while (true) {
    std::shared_ptr<arrow::RecordBatch> batch;
    check(rows->ReadNext(&batch), "scan");
    if (!batch) return count;
    count += batch->num_rows();
  }
}

std::string iso(int64_t us) { return to_display(Value(us), *Type::primitive(TypeId::timestamp)); }

std::string between(int64_t from_us, int64_t to_us) {
  return fmt::format("ts >= '{}' and ts < '{}'", iso(from_us), iso(to_us));
}

void run_plan(const Options& options) {
  for (const int64_t files : {10'000, 100'000}) {
    const std::string metadata = read_text(fmt::format("{}/plan_{}.meta", options.work, files));
    const int64_t middle = files / 2, day = middle * kDays / files;
    const int64_t span = kDayUs / (files / kDays + 1), day_us = kBaseUs + day * kDayUs;
    const std::vector<std::pair<std::string, std::string>> predicates = {
        {"ten_by_id", fmt::format("id >= {} and id < {}", middle * 1000, middle * 1000 + 10'000)},
        {"ten_by_ts", between(day_us + 20 * span, day_us + 30 * span)},
        {"all", ""}};
    for (const auto& [name, where] : predicates) {
      size_t selected = 0;
      const double seconds = best_of(options.reps, [&] { selected = plan(metadata, where).tasks.size(); });
      emit("plan", "seconds", seconds, "s", {{"files", files}, {"predicate", name}, {"selected", selected}});
    }
  }
}

void run_scan(const Options& options) {
  const Json tables = parse_json(read_text(options.work + "/tables.json"), "tables.json");
  const auto metadata_of = [&](const char* name) { return tables.at(name).at("metadata").get<std::string>(); };
  const auto timed = [&](const char* workload, const char* table, const std::string& where) {
    int64_t rows = 0;
    const double seconds = best_of(options.reps, [&] { rows = scan_rows(metadata_of(table), where); });
    emit(workload, "seconds", seconds, "s", {{"table", table}, {"rows", rows}});
  };
  timed("scan_full", "events_flat", "");
  timed("scan_full", "events_day", "");
  timed("scan_one_day", "events_day", between(kBaseUs + kOneDay * kDayUs, kBaseUs + (kOneDay + 1) * kDayUs));
  timed("scan_lookup", "events_day", fmt::format("session = '{}'", kLookupSession));
}

Schema events_schema() {
  const auto column = [](int32_t id, const char* name, TypeId type) {
    return Field{.id = id, .name = name, .required = false, .type = Type::primitive(type)};
  };
  return Schema({column(1, "id", TypeId::long_), column(2, "ts", TypeId::timestamp),
                 column(3, "session", TypeId::string), column(4, "body", TypeId::string),
                 column(5, "cost", TypeId::double_)});
}

std::vector<std::shared_ptr<arrow::RecordBatch>> read_events(const Options& options) {
  const std::string path = fmt::format("{}/data/events-{}.parquet", options.work, options.rows);
  auto builder = parquet::arrow::FileReaderBuilder();
  check(builder.Open(disk()->open(path)), path);
  std::unique_ptr<parquet::arrow::FileReader> reader;
  check(builder.Build(&reader), path);
  std::shared_ptr<arrow::Table> table = check(reader->ReadTable(), path);
  return check(arrow::TableBatchReader(*table).ToRecordBatches(), path);
}

std::shared_ptr<TableOperations> make_table(const std::string& folder, const PartitionSpec& spec,
                                            std::map<std::string, std::string> properties) {
  create_filesystem_table(disk(), new_table_metadata(folder, events_schema(), spec, {}, std::move(properties), 0));
  return open_filesystem_table(disk(), folder);
}

void append(TableOperations& table, const std::vector<std::shared_ptr<arrow::RecordBatch>>& rows) {
  const LoadedTable base = table.load();
  AppendWriter writer(table.io(), *base.metadata);
  for (const auto& batch : rows) writer.write(batch);
  SnapshotChange change;
  change.added = writer.finish();
  change.written_schema = base.metadata->schema();
  change.required_spec = base.metadata->spec();
  commit_snapshot(table, change);
}

void run_append(const Options& options, const std::string& folder) {
  const auto rows = read_events(options);
  const std::vector<std::pair<std::string, PartitionSpec>> layouts = {
      {"append_flat", PartitionSpec()}, {"append_day", make_partition_spec({{"ts", "day"}}, events_schema())}};
  for (const auto& [workload, spec] : layouts) {
    for (const char* level : {"1", "3"}) {
      double best = 0;
      std::string last;
      for (int i = 0; i < options.reps; ++i) {
        last = fmt::format("{}/{}-{}-{}", folder, workload, level, i);
        const auto table = make_table(last, spec, {{"write.parquet.compression-level", level}});
        const double seconds = seconds_of([&] { append(*table, rows); });
        best = i == 0 ? seconds : std::min(best, seconds);
      }
      int64_t files = 0, bytes = 0;
      for (const FileInfo& file : disk()->list(last + "/data", true)) {
        files += 1;
        bytes += file.size_bytes;
      }
      emit(workload, "seconds", best, "s",
           {{"rows", options.rows}, {"files", files}, {"bytes", bytes}, {"how", fmt::format("zstd level {}", level)}});
    }
  }
}

void run_commits(const Options& options, const std::string& folder) {
  const auto table = make_table(folder + "/commits", {}, {});
  const std::vector<std::shared_ptr<arrow::RecordBatch>> ten = {read_events(options).front()->Slice(0, 10)};
  std::vector<double> seconds;
  for (int i = 0; i < options.commits; ++i) seconds.push_back(seconds_of([&] { append(*table, ten); }));
  const auto rate = [&](size_t first) {
    double sum = 0;
    for (size_t i = first; i < first + 50; ++i) sum += seconds.at(i);
    return 50 / sum;
  };
  const Json params = {{"commits", options.commits}, {"rows_each", 10}, {"catalog", "file system, everything synced"}};
  emit("commits", "first50_rate", rate(0), "commits/s", params);
  emit("commits", "last50_rate", rate(seconds.size() - 50), "commits/s", params);
}

}  // namespace

int main(int argc, char** argv) {
  init_log(spdlog::level::warn);
  CLI::App app("firn beside its peers", "bench_firn");
  Options options;
  app.add_option("WORK", options.work)->required();
  app.add_option("--only", options.only)->delimiter(',');
  app.add_option("--reps", options.reps)->capture_default_str();
  app.add_option("--rows", options.rows)->capture_default_str();
  app.add_option("--commits", options.commits)->capture_default_str()->check(CLI::Range(50, 1'000'000));
  CLI11_PARSE(app, argc, argv);
  const std::string folder = options.work + "/firn-" + uuid_v4();
  try {
    if (options.wants("plan")) run_plan(options);
    if (options.wants("scan")) run_scan(options);
    if (options.wants("append")) run_append(options, folder);
    if (options.wants("commits")) run_commits(options, folder);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "bench_firn: %s\n", e.what());
    return 1;
  }
  std::filesystem::remove_all(folder);
  return 0;
}
