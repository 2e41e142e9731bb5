// A cache whose rows age, at times that a test says.
#pragma once

#include <fstream>
#include <string>
#include <vector>

#include "base/civil_time.h"
#include "base/uuid.h"
#include "hyp/maintain/retention.h"
#include "hyp/maintain/retention_state.h"
#include "hyp/sink/sink_box.h"
#include "iceberg/parquet/file_reader.h"

namespace firn::hyp {

constexpr int64_t kHour = 3'600'000, kDay = 24 * kHour;

inline int64_t at(const std::string& timestamp) { return parse_timestamp_us(timestamp)->value / 1000; }

// What upkeep is told to be the time; rows are 30 days old before the cutoff.
inline const int64_t kNow = at("2024-06-15T12:30:00Z");
inline const int64_t kCutoff = at("2024-05-16T12:00:00Z");

struct RetentionBox : SinkBox {
  PartitionId partition = {"logs", "web"};

  // "logs" keeps its rows 30 days by "at", a column of `type`.
  explicit RetentionBox(const std::string& type = "timestamptz") {
    DatasetConfig& logs = declare("logs");
    logs.primary_timestamp_column = "at";
    logs.retention.days = 30;
    declare_type(type);
  }
  DatasetConfig& logs() { return config.datasets.at("logs"); }
  void declare_type(const std::string& type) {
    logs().schema = iceberg::Schema({{1, "n", false, iceberg::parse_primitive_type("long")},
                                     {2, "at", false, iceberg::parse_primitive_type(type)}});
  }
  SinkConfig& add_sink(const std::string& name = "out") {
    SinkConfig& sink = config.sinks.emplace_back(make_sink(SinkKind::blob, out() + "/" + name));
    sink.name = name;
    return sink;
  }

  // One data file of rows {"n": …, "at": …}, ingested at `ingested_ms`.
  void add(const Lines& rows, int64_t ingested_ms = kNow) const {
    Cache cache(config);
    Frame frame = make_frame(partition.dataset, partition.source, rows);
    frame.batch_id = uuid_v7(ingested_ms);
    const FlushReport report = ingest(cache, {frame});
    if (report.rows != static_cast<int64_t>(rows.size()))
      fail(ErrorKind::internal, "{} rows were flushed", report.rows);
  }
  RetentionReport apply(int64_t now_ms = kNow, bool dry_run = false) const {
    Cache cache(config);
    return apply_retention(cache, partition, now_ms, dry_run);
  }
  // The n of the rows in sequence order.
  std::vector<int64_t> numbers() const {
    const Cache cache(config);
    std::vector<int64_t> numbers;
    for (const std::string& row : read_sequenced(cache, partition).rows) numbers.push_back(Json::parse(row)["n"]);
    return numbers;
  }
  iceberg::LoadedTable table() const { return Cache(config).hold(partition)->table; }
  std::vector<std::string> data_files() const {  // of the head
    const Cache cache(config);
    const auto held = cache.hold(partition);
    std::vector<std::string> paths;
    for (const auto& live : iceberg::live_files(*held->table.metadata, *held->table.metadata->current_snapshot(),
                                                *held->operations->io())) {
      if (live.file.content == iceberg::FileContent::data) paths.push_back(local_path(live.file.file_path));
    }
    return paths;
  }
  RowsBySink forced_out() const { return rows_forced_out(*table().metadata); }
};

inline std::string row(int n, const std::string& time) { return fmt::format(R"({{"n":{},"at":"{}"}})", n, time); }
inline std::string row(int n, int64_t time_ms) { return row(n, format_timestamp_ms_utc(time_ms)); }
inline std::string row(int n) { return fmt::format(R"({{"n":{}}})", n); }

// No reader gets anything out of it then.
inline void spoil(const std::string& path) {
  std::ofstream file(path, std::ios::trunc);
  file << "spoilt";
}

}  // namespace firn::hyp
