// A warehouse, steps with attempts, and what their attempts keep: for tests of orca's tables.
#pragma once

#include <algorithm>
#include <cstdlib>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include <arrow/api.h>
#include <arrow/json/from_string.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/test_world.h"
#include "iceberg/commit/commit.h"
#include "iceberg/maintain/maintain.h"
#include "iceberg/metadata/changes.h"
#include "iceberg/parquet/arrow_schema.h"
#include "iceberg/rows/rows.h"
#include "iceberg/scan/row_json.h"
#include "io/local.h"
#include "orca/tables/tables.h"
#include "support/fake_store.h"
#include "support/temp_folder.h"

namespace firn::orca {

using iceberg::Field;
using iceberg::Schema;
using iceberg::Type;
using iceberg::TypeId;
using Lines = std::vector<std::string>;
using Properties = std::map<std::string, std::string>;

inline Field column(int32_t id, std::string name, iceberg::TypePtr type, bool required = false) {
  return Field{.id = id, .name = std::move(name), .required = required, .type = std::move(type)};
}
inline iceberg::TypePtr primitive(TypeId id) { return Type::primitive(id); }

// Rows of days: id long, day string; partitioned by day.
inline Schema event_schema() {
  return Schema({column(1, "id", primitive(TypeId::long_)), column(2, "day", primitive(TypeId::string))});
}
inline iceberg::PartitionSpec by_day() { return iceberg::make_partition_spec({{.column = "day"}}, event_schema()); }

inline Batches batches_of(const std::string& json, const Schema& schema = event_schema()) {
  const auto type = arrow::struct_(iceberg::to_arrow_schema(schema)->fields());
  const auto array = *arrow::json::ArrayFromJSONString(type, json);
  const auto read = *arrow::RecordBatch::FromStructArray(array);
  return {arrow::RecordBatch::Make(iceberg::to_arrow_schema(schema), read->num_rows(), read->columns())};
}
inline std::string rows_of(const std::string& day, const std::vector<int64_t>& ids) {
  Json rows = Json::array();
  for (const int64_t id : ids) rows.push_back({{"id", id}, {"day", day}});
  return rows.dump();
}
inline Batches day_rows(const std::string& day, const std::vector<int64_t>& ids) {
  return batches_of(rows_of(day, ids));
}

// What the attempts of one partition of a step keep. `current_attempt` holds the lease.
class MemoryRecord final : public AttemptRecord {
 public:
  struct Kept {
    std::mutex mutex;
    std::vector<Pin> pins;
    std::vector<Floor> floors;
    int64_t current_attempt = 1;
    int64_t num_lease_checks = 0;
  };
  MemoryRecord(std::shared_ptr<Kept> kept, int64_t attempt) : kept_(std::move(kept)), attempt_(attempt) {
    kept_->current_attempt = std::max(kept_->current_attempt, attempt);
  }
  Pin pin(const Pin& proposed) override { return first_of(kept_->pins, proposed); }
  Floor floor(const Floor& proposed) override { return first_of(kept_->floors, proposed); }
  std::vector<Pin> pins() const override {
    const std::lock_guard lock(kept_->mutex);
    return kept_->pins;
  }
  void check_lease() override {
    const std::lock_guard lock(kept_->mutex);
    ++kept_->num_lease_checks;
    if (!always_leased && kept_->current_attempt != attempt_)
      fail(ErrorKind::lease_lost, "attempt {} has taken over", kept_->current_attempt);
  }
  bool always_leased = false;  // a lease that was lost just after it was looked at

 private:
  template <class T>
  T first_of(std::vector<T>& all, const T& proposed) {
    const std::lock_guard lock(kept_->mutex);
    for (const T& known : all) {
      if (known.location == proposed.location) return known;
    }
    all.push_back(proposed);
    return proposed;
  }

  std::shared_ptr<Kept> kept_;
  int64_t attempt_;
};

// The same in a file, for attempts that die: what was recorded is durable.
class FileRecord final : public AttemptRecord {
 public:
  explicit FileRecord(std::string path) : path_(std::move(path)) {}
  Pin pin(const Pin& proposed) override {
    const FileLock lock = FileLock::acquire(path_ + ".lock", FileLock::Mode::exclusive);
    Json kept = read();
    for (const Pin& known : pins_of(kept)) {
      if (known.location == proposed.location) return known;
    }
    kept["pins"].push_back({{"location", proposed.location},
                            {"uuid", proposed.table_uuid},
                            {"snapshot", proposed.snapshot_id ? Json(*proposed.snapshot_id) : Json()}});
    replace_file(path_, kept.dump());
    return proposed;
  }
  Floor floor(const Floor& proposed) override {
    const FileLock lock = FileLock::acquire(path_ + ".lock", FileLock::Mode::exclusive);
    Json kept = read();
    for (const Json& known : kept["floors"]) {
      if (known["location"] == proposed.location) return {known["location"], known["uuid"], known["sequence"]};
    }
    kept["floors"].push_back(
        {{"location", proposed.location}, {"uuid", proposed.table_uuid}, {"sequence", proposed.sequence}});
    replace_file(path_, kept.dump());
    return proposed;
  }
  std::vector<Pin> pins() const override { return pins_of(read()); }
  void check_lease() override {}

 private:
  Json read() const {
    const auto bytes = make_local_file_io()->read_if_exists(path_);
    return bytes ? parse_json(*bytes, path_) : Json{{"pins", Json::array()}, {"floors", Json::array()}};
  }
  static std::vector<Pin> pins_of(const Json& kept) {
    std::vector<Pin> pins;
    for (const Json& pin : kept["pins"]) {
      pins.push_back({pin["location"], pin["uuid"],
                      pin["snapshot"].is_null() ? std::nullopt : std::optional<int64_t>(pin["snapshot"])});
    }
    return pins;
  }

  std::string path_;
};

// One attempt of a step: its record and its context.
struct Attempt {
  std::unique_ptr<MemoryRecord> record;
  std::unique_ptr<Ctx> ctx;
  operator Ctx&() { return *ctx; }  // NOLINT: it is given to orca's functions
};

struct StepNames {
  std::string run = "run-a";
  int64_t number = 1;
  std::string step = "load";
  std::string partition;
  StepDatasets datasets = {.reads = {}, .writes = {"nyc.events"}, .replaces = {}};
  std::string pipeline = "nyc";
};

// A warehouse in memory: nothing here assumes a disk.
class World {
 public:
  explicit World(std::string root = "mem://w") : store(std::make_shared<FakeStore>()), root_(std::move(root)) {
    if (root_.starts_with("mem:")) set_file_io([store = store](const std::string&) { return store; });
    ::setenv("ORCA_WAREHOUSE", root_.c_str(), 1);
  }
  ~World() {
    set_file_io(nullptr);
    ::unsetenv("ORCA_WAREHOUSE");
    set_clock_ms(std::nullopt);
  }

  std::string location(const std::string& dataset) const {
    const size_t dot = dataset.find('.');
    return root_ + "/" + dataset.substr(0, dot) + "/" + dataset.substr(dot + 1);
  }

  // An attempt of a step; those of equal run, step and partition share what they keep.
  Attempt attempt(const StepNames& names, int64_t number = 1) {
    auto& kept = kept_[names.run + "/" + names.step + "/" + names.partition];
    if (!kept) kept = std::make_shared<MemoryRecord::Kept>();
    AttemptId id{names.pipeline, names.run, names.number, names.step, names.partition, number, "code-1"};
    const auto started = run_started_ms.find(names.run);
    id.run_started_ms = started != run_started_ms.end() ? started->second : started_ms;
    Attempt made;
    made.record = std::make_unique<MemoryRecord>(kept, number);
    made.ctx = std::make_unique<Ctx>(id, names.datasets, *made.record);
    return made;
  }
  MemoryRecord::Kept& kept(const StepNames& names) {
    return *kept_.at(names.run + "/" + names.step + "/" + names.partition);
  }

  // nyc.events by day (or as told), with short waits.
  Table make_table(const std::string& dataset = "nyc.events", const iceberg::PartitionSpec& spec = by_day(),
                   Properties properties = {}) {
    StepNames names;
    names.run = "setup";
    names.datasets.writes = {dataset};
    for (const char* key : {"commit.retry.min-wait-ms", "commit.status-check.min-wait-ms"})
      properties.emplace(key, "1");
    for (const char* key : {"commit.retry.max-wait-ms", "commit.status-check.max-wait-ms"})
      properties.emplace(key, "2");
    return ensure_table(attempt(names), dataset, event_schema(), spec, properties);
  }

  // Another writer's append.
  static int64_t append_by_other(const Table& table, const Batches& batches) {
    const Table now(table.operations());
    iceberg::SnapshotChange change;
    change.added = write_files(now, batches).files;
    return iceberg::commit_snapshot(*now.operations(), change).snapshot_id;
  }

  const std::shared_ptr<FakeStore> store;
  int64_t started_ms = 1;                         // of runs that are not in run_started_ms
  std::map<std::string, int64_t> run_started_ms;  // by run

 private:
  std::string root_;
  std::map<std::string, std::shared_ptr<MemoryRecord::Kept>> kept_;
};

inline Lines lines_of(const TableScan& scan) {
  Lines lines;
  const Schema schema = scan.plan().projection;
  for (const auto& batch : scan.to_batches()) {
    for (int64_t row = 0; row < batch->num_rows(); ++row)
      iceberg::append_row_json(*batch, schema, row, lines.emplace_back());
  }
  std::sort(lines.begin(), lines.end());
  return lines;
}

// The rows of the head, as JSON, sorted.
inline Lines rows(const Table& table) {
  const iceberg::LoadedTable head = table.operations()->load();
  return lines_of(TableScan(head.metadata, table.io(), {}, head.metadata->current_snapshot_id));
}
// The ids of the head's rows of a day, sorted.
inline std::vector<int64_t> ids(const Table& table, const std::string& day = "") {
  std::vector<int64_t> found;
  for (const std::string& line : rows(table)) {
    const Json row = parse_json(line, "row");
    if (day.empty() || row["day"] == day) found.push_back(row["id"]);
  }
  std::sort(found.begin(), found.end());
  return found;
}
using Ids = std::vector<int64_t>;

inline size_t num_snapshots(const Table& table) { return table.operations()->load().metadata->snapshots.size(); }
inline iceberg::Snapshot snapshot(const Table& table, int64_t id) {
  const iceberg::LoadedTable head = table.operations()->load();
  const iceberg::Snapshot* found = head.metadata->find_snapshot(id);
  EXPECT_NE(found, nullptr) << id;
  return found ? *found : iceberg::Snapshot();
}
inline std::map<std::string, std::string> summary(const Table& table, int64_t id) {
  return snapshot(table, id).summary;
}
inline std::vector<iceberg::LiveFile> live(const Table& table) {
  const iceberg::LoadedTable head = table.operations()->load();
  const iceberg::Snapshot* current = head.metadata->current_snapshot();
  return current ? iceberg::live_files(*head.metadata, *current, *table.io()) : std::vector<iceberg::LiveFile>();
}
// Data files below the table that no snapshot names.
inline size_t num_unnamed_files(const Table& table) {
  std::set<std::string> named;
  const iceberg::LoadedTable head = table.operations()->load();
  for (const iceberg::Snapshot& snapshot : head.metadata->snapshots) {
    for (const auto& file : iceberg::live_files(*head.metadata, snapshot, *table.io()))
      named.insert(file.file.file_path);
  }
  size_t count = 0;
  for (const FileInfo& info : table.io()->list(table.location() + "/data", true)) count += !named.contains(info.path);
  return count;
}

// What the call throws.
template <class Call>
Error error_of(const Call& call) {
  try {
    call();
  } catch (const Error& e) {
    return e;
  }
  ADD_FAILURE() << "nothing was thrown";
  return Error(ErrorKind::internal, "nothing was thrown");
}
#define EXPECT_REFUSED(call, error_kind, ...)                            \
  do {                                                                   \
    const ::firn::Error refusal = ::firn::orca::error_of([&] { call; }); \
    EXPECT_EQ(to_string(refusal.kind()), to_string(error_kind));         \
    EXPECT_THAT(refusal.what(), ::testing::AllOf(__VA_ARGS__));          \
  } while (false)

// Takes a snapshot out of the history, as a foreign expiry does.
inline void forget_snapshots(const Table& table, const std::vector<int64_t>& snapshot_ids) {
  iceberg::commit_metadata(*table.operations(),
                           [&](iceberg::TableMetadata& next) { return iceberg::remove_snapshots(next, snapshot_ids); });
}

}  // namespace firn::orca
