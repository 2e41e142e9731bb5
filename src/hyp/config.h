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
  int64_t grace_days = 7;          // "graceDays": but no longer than so many days more,
                                   // of a row that was old when it came from then on
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

enum class SinkKind : uint8_t { blob, iceberg, forward };
enum class BlobFormat : uint8_t { parquet, jsonl };

// Where a forward sink sends, and how it gets there.
struct ForwardConfig {
  std::string url;  // "url": of the receiver, "https://host:port"; rows go to <url>/v1/ingest/<dataset>
  std::string token_file, token_env;  // "tokenFile", "tokenEnv": read when a run begins, and again after a 401
  std::string ca_file;                // "caFile": PEM; empty: the system's
  std::string proxy;                  // "proxy"; empty: as https_proxy, http_proxy and no_proxy say
};

struct SinkConfig {
  std::string name;
  SinkKind kind = SinkKind::blob;        // "type": "blob", "iceberg" or "forward"
  std::vector<std::string> datasets;     // empty: all
  std::optional<CronSchedule> schedule;  // nullopt: only by `hyp sink run`
  std::string path;  // blob: folder; iceberg: warehouse (tables at <warehouse>/<namespace>/<dataset>)
  std::string iceberg_namespace = "hyp";    // "namespace"
  BlobFormat format = BlobFormat::parquet;  // "format": "parquet" or "jsonl"
  std::string compression = "zstd";         // parquet: any of Parquet's; jsonl: gzip, zstd, none; forward: zstd, none
  ForwardConfig forward;
  int64_t unit_rows_max = 1'000'000;   // "maxRows", "maxBytes": bounds of one unit (object or snapshot); of a forward
  int64_t unit_bytes_max = 256 << 20;  // sink 10,000 and 4 MiB, bounds of one request's body before compression
  int64_t parallel_max = 4;            // "maxParallel": partitions shipped at once
  bool queryable = false;  // "queryable": a query of its datasets takes what it shipped from there (P13.1). Parquet
                           // blobs and archives only
};

// `hyp serve`.
struct ReceiverConfig {
  std::string listen = "127.0.0.1:4748";       // "listen"
  std::string cert_file, key_file;             // "certFile", "keyFile": PEM; both or none
  std::string gateway_column = "hyp_gateway";  // "gatewayColumn": string, the name of the gateway that sent the row
  int64_t body_bytes_max = 16 << 20;     // "maxBodyBytes": of one request, compressed and decompressed; longer: 413
  int64_t bodies_bytes_max = 256 << 20;  // "maxQueuedBytes": of all requests at once; more: 503
  int64_t connections_max = 1024;        // "maxConnections": more: 503
  int64_t gateway_requests_per_s = 0;    // "maxRequestsPerSecond", of one gateway; more: 429. 0: no limit
  int64_t gateway_bytes_per_s = 0;       // "maxBytesPerSecond", of one gateway's bodies as sent. 0: no limit
  int64_t gateway_streams_max = 10'000;  // "maxStreamsPerGateway": more: 409
  int64_t header_ms_max = 10'000;        // "headerTimeoutMs"
  int64_t request_ms_max = 120'000;      // "requestTimeoutMs": to the end of its body; longer: 408
  int64_t idle_ms_max = 60'000;          // "idleTimeoutMs": a connection that sends nothing is closed
  std::string access_log;                // "accessLog": one JSON line a request; empty: none
  bool takes_older_ledger = false;       // not of the file: `hyp serve --older-ledger`
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
  ReceiverConfig receiver;                // "receiver"
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
