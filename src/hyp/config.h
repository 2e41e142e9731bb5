// hyp's configuration: one JSON file, comments and trailing commas allowed.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/cron.h"
#include "iceberg/transform.h"

namespace firn::hyp {

struct RetentionConfig {
  std::optional<int64_t> days;     // "days" ("defaultDays" for all datasets): older rows go; nullopt (null): none does
  bool wait_for_sink_ack = false;  // "waitForSinkAck": a row stays until every sink of its dataset has passed it,
  int64_t grace_days = 7;          // "graceDays": but no longer than so many days more
};

struct CompactionConfig {
  int64_t target_file_bytes = 128 << 20;   // "targetFileBytes"
  int64_t files_min = 16;                  // "minFiles": small files from which a partition needs it
  int64_t metadata_bytes_max = 16 << 20;   // "maxMetadataBytes"
  int64_t memory_bytes_max = 256LL << 20;  // "maxMemoryBytes"
  int64_t tick_budget_ms = 30'000;         // "tickBudgetMs": no further one is begun on a tick after it
};

struct DatasetConfig {
  std::string name;                       // letters, digits, '_', '-', '.'; not starting with '.'; at most 128
  std::optional<iceberg::Schema> schema;  // "columns"; nullopt: inferred from the rows and widened additively
  bool allow_new_columns = true;          // "additionalColumns": with a declared schema false unless set
  std::string primary_timestamp_column;   // "primaryTimestampColumn"; empty: none
  std::vector<iceberg::PartitionDeclaration> cache_partitioning;  // "cachePartitioning": {"iceberg": {"fields": [...]}}
  std::string source_column;        // "sourceColumn": its value chooses the source partition; empty: the
                                    // capture's source name does
  RetentionConfig retention;        // "retention"; what it does not say is as for all datasets
  bool dedupe_content = false;      // "dedupe": "content": compaction drops rows equal to an earlier one (P5.3)
  int64_t row_bytes_max = 8 << 20;  // "maxRowBytes": a longer line is a reject
};

enum class SinkKind : uint8_t { blob, iceberg };
enum class BlobFormat : uint8_t { parquet, jsonl };

struct SinkConfig {
  std::string name;
  SinkKind kind = SinkKind::blob;        // "type": "blob" or "iceberg"
  std::vector<std::string> datasets;     // empty: all
  std::optional<CronSchedule> schedule;  // nullopt: only by `hyp sink run`
  std::string path;  // blob: folder; iceberg: warehouse (tables at <warehouse>/<namespace>/<dataset>)
  std::string iceberg_namespace = "hyp";    // "namespace"
  BlobFormat format = BlobFormat::parquet;  // "format": "parquet" or "jsonl"
  std::string compression = "zstd";         // parquet: any of Parquet's; jsonl: gzip, zstd, none
  int64_t unit_rows_max = 1'000'000;        // "maxRows", "maxBytes": bounds of one unit (object or snapshot)
  int64_t unit_bytes_max = 256 << 20;
};

struct CollectConfig {  // files followed by the daemon; also what `hyp collect` registers
  std::string name;     // also the source name
  std::string dataset;
  std::string glob;  // an absolute path or pattern
};

struct Config {
  std::string path;                               // the file, or empty for the defaults
  std::string digest;                             // of its text
  std::string cache_root;                         // "cacheRoot", absolute; ".hyp/cache" beside the file
  std::string state_dir;                          // "stateDir", absolute; ".hyp/state" beside the file
  std::map<std::string, DatasetConfig> datasets;  // "datasets": {name: {…}}
  bool allow_undeclared_datasets = true;          // "undeclaredDatasets"
  std::vector<SinkConfig> sinks;                  // "sinks": [{"name", "type", …}]
  std::vector<CollectConfig> collect;             // "collect": [{"name", "dataset" (default: the name), "glob"}]
  std::string listen = "127.0.0.1:4747";          // "listen": HTTP of the daemon; "" none
  std::string token;                              // "tokenFile"/"tokenEnv" resolved; empty: no authentication asked
  int64_t flush_interval_ms = 10'000;             // "flushIntervalMs"
  int64_t flush_bytes = 64 << 20;                 // "flushBytes": a flush begins when the spool holds more
  int64_t spool_bytes_max = 8LL << 30;    // "maxSpoolBytes": beyond it capture refuses rows (429) rather than fill
                                          // the disk
  int64_t cache_bytes_max = 0;            // "maxCacheBytes": beyond it capture refuses rows (429) rather than drop
                                          // older ones (P8); 0: no limit
  RetentionConfig retention;              // "retention": of datasets that do not say otherwise
  CompactionConfig compaction;            // "compaction"
  int64_t maintain_interval_ms = 60'000;  // "maintainIntervalMs": between the daemon's ticks of upkeep
  std::string trace_file;                 // "traceFile": spans as OTLP/JSON lines; empty: none

  // The configured dataset, or the defaults for an undeclared one. Throws invalid_argument if the name is not one or if
  // undeclared ones are refused.
  DatasetConfig dataset(const std::string& name) const;
};

// Relative paths in the file are relative to its folder. Throws config naming file, line and key: unknown keys, wrong
// types, names that collide, columns named "_hyp_*" or differing only in case (P4.3).
Config load_config(const std::string& path);
Config parse_config(std::string_view text, const std::string& path);
// --config, else HYP_CONFIG, else ./hyp.json, else ~/.config/hyp/hyp.json, else the defaults under ~/.hyp.
Config find_config(const std::string& option);
// The commented file that `hyp init` writes.
std::string initial_config_text();

// The one of `names` that `name` was most likely meant to be; nullptr: none is near.
const std::string* nearest_name(std::string_view name, const std::vector<std::string>& names);
bool is_valid_dataset_name(std::string_view name);
bool is_hidden_column(std::string_view name);  // "_hyp_*"
std::string fold_name(std::string_view name);  // in ASCII lower case: columns equal in it collide (P4.3)

}  // namespace firn::hyp
