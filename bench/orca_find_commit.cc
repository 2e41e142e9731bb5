// What find_commit costs on a loaded table whose history is long, with a floor near the head: metadata of so many
// snapshots are made up, and the commit is looked for where it is and where it is not.
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <vector>

#include <CLI/CLI.hpp>

#include "base/clock.h"
#include "base/error.h"
#include "base/json.h"
#include "base/log.h"
#include "orca/tables/tables.h"

namespace {

using namespace firn;

struct Options {
  std::string work;
  std::vector<int64_t> snapshots = {50, 5000};
  int64_t above_floor = 10;
  int reps = 2000;
};

class BenchRecord final : public orca::AttemptRecord {
 public:
  explicit BenchRecord(int64_t floor) : floor_(floor) {}
  orca::Pin pin(const orca::Pin& proposed) override { return proposed; }
  orca::Floor floor(const orca::Floor& proposed) override {
    orca::Floor known = proposed;
    known.sequence = floor_;
    return known;
  }
  std::vector<orca::Pin> pins() const override { return {}; }
  void check_lease() override {}

 private:
  int64_t floor_;
};

// Every tenth snapshot is of the run that is asked for, a commit of another partition each.
iceberg::TableMetadata history(const std::string& location, int64_t num_snapshots) {
  const iceberg::Schema schema({{.id = 1, .name = "id", .type = iceberg::Type::primitive(iceberg::TypeId::long_)}});
  iceberg::TableMetadata metadata =
      iceberg::new_table_metadata(location, schema, {}, {}, orca::table_defaults(), now_ms());
  for (int64_t i = 1; i <= num_snapshots; ++i) {
    iceberg::Snapshot snapshot;
    snapshot.snapshot_id = 7'000'000'000 + i;
    if (i > 1) snapshot.parent_snapshot_id = snapshot.snapshot_id - 1;
    snapshot.sequence_number = i;
    snapshot.timestamp_ms = metadata.last_updated_ms + i;
    snapshot.manifest_list = fmt::format("{}/metadata/snap-{}.avro", location, snapshot.snapshot_id);
    snapshot.summary = {{"operation", "append"},
                        {"added-data-files", "1"},
                        {"added-records", "1000"},
                        {"total-records", std::to_string(1000 * i)},
                        {"orca.pipeline", "nyc"},
                        {"orca.run", i % 10 == 0 ? "asked-for" : "another"},
                        {"orca.run-number", "1"},
                        {"orca.step", "load"},
                        {"orca.partition", std::to_string(i)},
                        {"orca.attempt", "1"},
                        {"orca.commit", "1"},
                        {"orca.label", "append"},
                        {"orca.code", "1"},
                        {"orca.reads", "{}"}};
    iceberg::add_snapshot(metadata, snapshot, "main");
  }
  return metadata;
}

// Median of one call, in seconds.
double measure(const orca::Table& table, const Options& options, int64_t num_snapshots, bool is_there) {
  BenchRecord record(num_snapshots - options.above_floor);
  const std::string partition = is_there ? std::to_string(num_snapshots) : "none";
  std::vector<int64_t> times;
  for (int i = 0; i < options.reps; ++i) {
    orca::Ctx ctx({"nyc", "asked-for", 1, "load", partition, 1, "1"}, {}, record);
    const int64_t started = steady_us();
    constexpr int kCalls = 10;  // a call is near the clock's resolution
    for (int call = 0; call < kCalls; ++call) {
      if (orca::find_commit(ctx, table).has_value() != is_there) fail(ErrorKind::internal, "a wrong answer");
    }
    times.push_back((steady_us() - started) / kCalls);
  }
  std::nth_element(times.begin(), times.begin() + static_cast<ptrdiff_t>(times.size() / 2), times.end());
  return static_cast<double>(times[times.size() / 2]) / 1e6;
}

void emit(const char* metric, double value, const char* unit, const Json& params) {
  const Json line = {{"peer", "firn"},   {"workload", "orca_find_commit"},
                     {"metric", metric}, {"value", value},
                     {"unit", unit},     {"params", params}};
  std::printf("%s\n", line.dump().c_str());
}

void run(const Options& options) {
  std::filesystem::remove_all(options.work);
  for (const bool is_there : {true, false}) {
    std::vector<double> seconds;
    for (const int64_t count : options.snapshots) {
      const std::string location = fmt::format("{}/{}-{}", options.work, is_there, count);
      iceberg::create_filesystem_table(make_local_file_io(), history(location, count));
      const orca::Table table = orca::load_table(location);
      seconds.push_back(measure(table, options, count, is_there));
      emit("seconds", seconds.back(), "s", {{"snapshots", count}, {"found", is_there}});
    }
    emit("growth", seconds.back() / seconds.front(), "ratio",
         {{"snapshots", fmt::format("{} to {}", options.snapshots.front(), options.snapshots.back())},
          {"found", is_there}});
  }
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  CLI::App app("find_commit on tables with long histories");
  app.add_option("work", options.work, "a folder that is made anew")->required();
  app.add_option("--snapshots", options.snapshots, "of each table")->delimiter(',');
  app.add_option("--above-floor", options.above_floor, "snapshots above the floor");
  app.add_option("--reps", options.reps, "of ten calls, of which the median counts");
  CLI11_PARSE(app, argc, argv);
  spdlog::set_level(spdlog::level::err);
  try {
    run(options);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "bench_orca_find_commit: %s\n", e.what());
    return 1;
  }
}
