// A cache with one queryable sink, whose rows leave it once they are old.
#pragma once

#include "base/civil_time.h"
#include "base/fault_point.h"
#include "hyp/maintain/retention.h"
#include "hyp/query/query_box.h"
#include "hyp/sink/sink_box.h"

namespace firn::hyp {

struct ExportsBox : SinkBox {
  explicit ExportsBox(SinkKind kind) {
    SinkConfig& sink = config.sinks.emplace_back(make_sink(kind, out()));
    sink.queryable = true;
    DatasetConfig& logs = declare("logs");
    logs.primary_timestamp_column = "at";
    logs.retention.days = 30;
    logs.schema = iceberg::Schema({{1, "n", false, iceberg::parse_primitive_type("long")},
                                   {2, "at", false, iceberg::parse_primitive_type("timestamptz")}});
  }

  SinkConfig& sink() { return config.sinks.at(0); }
  const SinkConfig& sink() const { return config.sinks.at(0); }

  // Rows with n in [begin, end), of a time that is past retention.
  static Lines numbered(int64_t begin, int64_t end) {
    Lines lines;
    for (int64_t n = begin; n < end; ++n) lines.push_back(fmt::format(R"({{"n":{},"at":"2020-01-05T00:00:00Z"}})", n));
    return lines;
  }
  void add(const std::string& source, int64_t begin, int64_t end) const {
    ingest_lines("logs", source, numbered(begin, end));
  }
  void spool(const std::string& source, int64_t begin, int64_t end) const {
    Spool::open(config.cache_root)->append({make_frame("logs", source, numbered(begin, end))});
  }
  void flush_spools() const {
    Cache cache(config);
    flush(cache, *Spool::open(config.cache_root));
  }
  SinkRunReport ship() const { return ship_well(sink()); }
  // All rows past retention leave the cache; returns how many.
  int64_t evict(const std::string& dataset = "logs") const {
    Cache cache(config);
    int64_t rows = 0;
    for (const PartitionId& partition : cache.partitions(dataset)) {
      rows += apply_retention(cache, partition, parse_timestamp_us("2024-06-15T12:30:00Z")->value / 1000).rows_removed;
    }
    return rows;
  }

  // The n of all rows that a query sees, in order.
  std::vector<int64_t> seen(const std::string& where = "", const QueryOptions& options = {}) const {
    const Cache cache(config);
    std::vector<int64_t> numbers;
    for (const std::string& row : json_rows(cache, "select n from logs " + where + " order by n", options)) {
      numbers.push_back(Json::parse(row)["n"].get<int64_t>());
    }
    return numbers;
  }
};

inline std::vector<int64_t> from_to(int64_t begin, int64_t end) {
  std::vector<int64_t> numbers;
  for (int64_t n = begin; n < end; ++n) numbers.push_back(n);
  return numbers;
}

// Runs what a test says at the first pass of each of the points that it names.
class AtPoints {
 public:
  explicit AtPoints(std::map<std::string, std::function<void()>> actions) {
    set_fault_handler([actions = std::move(actions)](const char* name) mutable {
      const auto found = actions.find(name);
      if (found == actions.end()) return;
      const auto action = found->second;
      actions.erase(found);
      action();
    });
  }
  ~AtPoints() { set_fault_handler(nullptr); }
};

}  // namespace firn::hyp
