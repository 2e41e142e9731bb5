#include "hyp/config.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <set>
#include <utility>

#include "base/error.h"
#include "base/hash.h"
#include "base/uri.h"
#include "hyp/config_value.h"
#include "hyp/type_text.h"
#include "iceberg/full_names.h"
#include "io/file_io.h"

namespace firn::hyp {
namespace {

using iceberg::Field;
using iceberg::TypeId;
using iceberg::TypePtr;

constexpr int64_t kRowBytesLimit = 1 << 30;    // frames hold a line whole
constexpr int64_t kDaysLimit = 1'000'000;      // in milliseconds far within 64 bits
constexpr int64_t kMemoryBytesMin = 16 << 20;  // fewer do not hold a row group and what reads it

std::string absolute(const std::string& path, const std::string& folder) {
  return std::filesystem::path(path).is_absolute()
             ? path
             : std::filesystem::path(join_path(folder, path)).lexically_normal().string();
}

std::string home_folder() {
  const char* home = std::getenv("HOME");
  if (home == nullptr || *home == '\0') fail(ErrorKind::config, "HOME is not set: name a configuration with --config");
  return home;
}

bool file_exists(const std::string& path) {
  struct stat info;
  return ::stat(path.c_str(), &info) == 0;
}

// Where its rows arrive, spelled alike for one place; of several datasets each has its own below it.
std::string destination_of(const SinkConfig& sink) {
  if (sink.kind == SinkKind::forward) return sink.forward.url;
  std::filesystem::path path = sink.path;
  if (sink.kind == SinkKind::iceberg) path /= sink.iceberg_namespace;
  std::string place = path.lexically_normal().string();
  while (place.size() > 1 && place.ends_with('/')) place.pop_back();
  return place;
}

bool share_datasets(const SinkConfig& a, const SinkConfig& b) {
  if (a.datasets.empty() || b.datasets.empty()) return true;
  return std::any_of(a.datasets.begin(), a.datasets.end(), [&](const std::string& dataset) {
    return std::find(b.datasets.begin(), b.datasets.end(), dataset) != b.datasets.end();
  });
}

// Reads one file's values; all errors name its path and a line.
class ConfigLoader {
 public:
  ConfigLoader(const std::string& path, std::string folder) : path_(path), folder_(std::move(folder)) {}

  Config load(const ConfigValue& root);

 private:
  DatasetConfig load_dataset(const std::string& name, const ConfigValue& value, const RetentionConfig& retention);
  void load_retention(ConfigReader& owner, const char* days_key, RetentionConfig& config);
  void load_upkeep(ConfigReader& root, Config& config);
  void load_columns(const ConfigReader& dataset, const ConfigValue& columns, DatasetConfig& config);
  Field load_column(const std::string& key, const std::string& name, int line, const ConfigValue& type, bool required,
                    std::set<std::string>& folded, int32_t& next_id);
  void load_partitioning(ConfigReader& dataset, DatasetConfig& config);
  void check_column(const ConfigReader& dataset, const std::string& key, const std::string& column,
                    const DatasetConfig& config);
  SinkConfig load_sink(const ConfigValue& value, size_t index);
  void load_forward(ConfigReader& reader, SinkConfig& sink);
  std::string load_folder(ConfigReader& reader, const char* key, const char* otherwise);
  void check_apart_from_cache(const ConfigReader& at, const char* key, const std::string& path, const Config& config);
  void check_beside(const ConfigReader& at, const SinkConfig& sink, const SinkConfig& other);
  ReceiverConfig load_receiver(const ConfigValue& value);
  void add_gateway_column(int line, Config& config);
  void check_listen(const ConfigReader& reader, const std::string& listen, const char* otherwise);
  CollectConfig load_collect(const ConfigValue& value, size_t index);
  void load_token(ConfigReader& root, Config& config);
  void check_dataset_name(const ConfigReader& reader, const std::string& key, const std::string& name,
                          const Config& config);

  const std::string& path_;
  std::string folder_;
};

Field ConfigLoader::load_column(const std::string& key, const std::string& name, int line, const ConfigValue& type,
                                bool required, std::set<std::string>& folded, int32_t& next_id) {
  if (name.empty()) fail_config(path_, line, key, "a column without a name");
  if (name.find('\0') != std::string::npos) fail_config(path_, line, key, "a column's name with a NUL character");
  if (is_hidden_column(name))
    fail_config(path_, line, key, fmt::format("column \"{}\": names that begin with _hyp_ are reserved", name));
  if (!folded.insert(fold_name(name)).second) {
    fail_config(path_, line, key,
                fmt::format("column \"{}\": another has this name or differs from it only in case", name));
  }
  if (!type.scalar.is_string()) fail_config(path_, type.line, key, "a column's type must be a string");
  const int32_t id = next_id++;
  try {
    return Field{
        .id = id, .name = name, .required = required, .type = parse_type(type.scalar.get<std::string>(), next_id)};
  } catch (const Error& error) {
    fail_config(path_, type.line, key, fmt::format("column \"{}\": {}", name, error.what()));
  }
}

void ConfigLoader::load_columns(const ConfigReader& dataset, const ConfigValue& columns, DatasetConfig& config) {
  const std::string key = dataset.full_key("columns");
  std::vector<Field> fields;
  std::set<std::string> folded;
  int32_t next_id = 1;
  if (columns.kind == ConfigValue::Kind::object) {
    for (const auto& [name, line, value] : columns.members) {
      if (value.kind != ConfigValue::Kind::object) {
        fields.push_back(load_column(key, name, line, value, false, folded, next_id));
        continue;
      }
      ConfigReader column(value, fmt::format("{}.{}", key, name), path_);
      if (!column.has("type")) column.fail_at("type", "is missing");
      const bool required = column.boolean("required", false);
      column.finish();
      fields.push_back(load_column(key, name, line, *value.find("type"), required, folded, next_id));
    }
  } else if (columns.kind == ConfigValue::Kind::array) {
    for (const ConfigValue& value : columns.items) {
      ConfigReader column(value, key, path_);
      const std::string name = column.required_text("name");
      if (!column.has("type")) column.fail_at("type", "is missing");
      const bool required = column.boolean("required", false);
      column.finish();
      fields.push_back(load_column(key, name, value.line, *value.find("type"), required, folded, next_id));
    }
  } else {
    dataset.fail_at("columns",
                    "must be an object {\"name\": \"type\", …} or an array of {\"name\", \"type\", \"required\"}");
  }
  if (fields.empty()) dataset.fail_at("columns", "names no column; leave it out to have the columns found in the rows");
  config.schema = iceberg::assign_fresh_ids(iceberg::Schema(std::move(fields)));
  if (const auto name = iceberg::repeated_full_name(*config.schema))
    dataset.fail_at("columns",
                    fmt::format("two columns have the full name \"{}\": one is named so, one is a member of a "
                                "struct; rename one of the two",
                                *name));
}

void ConfigLoader::check_column(const ConfigReader& dataset, const std::string& key, const std::string& column,
                                const DatasetConfig& config) {
  if (is_hidden_column(column)) dataset.fail_at(key, fmt::format("\"{}\" is a hidden column", column));
  if (!config.schema || config.allow_new_columns) return;
  for (const Field& field : config.schema->fields()) {
    if (field.name == column) return;
  }
  dataset.fail_at(key, fmt::format("the dataset has no column \"{}\"", column));
}

void ConfigLoader::load_partitioning(ConfigReader& dataset, DatasetConfig& config) {
  const ConfigValue* declaration = dataset.object("cachePartitioning");
  if (declaration == nullptr) return;
  ConfigReader outer(*declaration, dataset.full_key("cachePartitioning"), path_);
  const ConfigValue* iceberg_value = outer.object("iceberg");
  outer.finish();
  if (iceberg_value == nullptr) return;
  ConfigReader inner(*iceberg_value, outer.full_key("iceberg"), path_);
  const ConfigValue* fields = inner.array("fields");
  inner.finish();
  if (fields == nullptr) return;
  for (const ConfigValue& value : fields->items) {
    ConfigReader field(value, inner.full_key("fields"), path_);
    iceberg::PartitionDeclaration partition;
    partition.column = field.required_text("column");
    partition.transform = field.text("transform", partition.transform);
    // Said by other tools' declarations: a column that must be there. Every partition column is one here.
    field.boolean("required", true);
    field.finish();
    check_column(field, "column", partition.column, config);
    const iceberg::Transform transform = iceberg::Transform::parse(partition.transform);
    if (transform.kind == iceberg::TransformKind::unknown) {
      field.fail_at(
          "transform",
          fmt::format("unknown transform \"{}\"; known are identity, bucket[n], truncate[n], year, month, day "
                      "and hour",
                      partition.transform));
    }
    const Field* column = config.schema ? config.schema->find_field(partition.column) : nullptr;
    if (column != nullptr && !iceberg::can_transform(transform, *column->type)) {
      field.fail_at("transform", fmt::format("{} does not apply to column \"{}\", which is {}", partition.transform,
                                             partition.column, column->type->to_string()));
    }
    config.cache_partitioning.push_back(std::move(partition));
  }
}

// Member by member: what is not said stays as `config` has it.
void ConfigLoader::load_retention(ConfigReader& owner, const char* days_key, RetentionConfig& config) {
  const ConfigValue* value = owner.object("retention");
  if (value == nullptr) return;
  ConfigReader reader(*value, owner.full_key("retention"), path_);
  const auto days = [&](const char* key, int64_t fallback, int64_t min, const char* hint) {
    const int64_t count = reader.integer(key, fallback, INT64_MIN);
    if (count < min) reader.fail_at(key, fmt::format("must be at least {}{}", min, hint));
    if (count > kDaysLimit) reader.fail_at(key, fmt::format("must be at most {}", kDaysLimit));
    return count;
  };
  if (reader.is_null(days_key)) {
    config.days.reset();
  } else if (reader.has(days_key)) {
    // 0 is "at once" to one reader and "never" to the next.
    config.days = days(days_key, 1, 1, "; null keeps rows for ever");
  }
  config.wait_for_sink_ack = reader.boolean("waitForSinkAck", config.wait_for_sink_ack);
  config.grace_days = days("graceDays", config.grace_days, 0, "");
  reader.finish();
}

void ConfigLoader::load_upkeep(ConfigReader& root, Config& config) {
  config.cache_bytes_max = root.integer("maxCacheBytes", config.cache_bytes_max, 0);
  config.maintain_interval_ms = root.integer("maintainIntervalMs", config.maintain_interval_ms, 1);
  const ConfigValue* value = root.object("compaction");
  if (value == nullptr) return;
  CompactionConfig& compaction = config.compaction;
  ConfigReader reader(*value, root.full_key("compaction"), path_);
  compaction.target_file_bytes = reader.integer("targetFileBytes", compaction.target_file_bytes, 1);
  compaction.files_min = reader.integer("minFiles", compaction.files_min, 2);
  compaction.metadata_bytes_max = reader.integer("maxMetadataBytes", compaction.metadata_bytes_max, 1);
  compaction.memory_bytes_max = reader.integer("maxMemoryBytes", compaction.memory_bytes_max, kMemoryBytesMin);
  compaction.tick_budget_ms = reader.integer("tickBudgetMs", compaction.tick_budget_ms, 1);
  reader.finish();
}

DatasetConfig ConfigLoader::load_dataset(const std::string& name, const ConfigValue& value,
                                         const RetentionConfig& retention) {
  ConfigReader reader(value, "datasets." + name, path_);
  DatasetConfig config;
  config.name = name;
  config.retention = retention;
  if (reader.has("columns")) load_columns(reader, *value.find("columns"), config);
  config.allow_new_columns = reader.boolean("additionalColumns", !config.schema.has_value());
  config.primary_timestamp_column = reader.text("primaryTimestampColumn", "");
  if (const std::string& column = config.primary_timestamp_column; !column.empty()) {
    check_column(reader, "primaryTimestampColumn", column, config);
    const Field* field = config.schema ? config.schema->find_field(column) : nullptr;
    const TypeId type = field != nullptr ? field->type->id() : TypeId::timestamptz;
    if (type != TypeId::date && (type < TypeId::timestamp || type > TypeId::timestamptz_ns)) {
      reader.fail_at("primaryTimestampColumn",
                     fmt::format("column \"{}\" is {}, no timestamp", column, field->type->to_string()));
    }
  }
  load_partitioning(reader, config);
  config.source_column = reader.text("sourceColumn", "");
  if (const std::string& column = config.source_column; !column.empty()) {
    check_column(reader, "sourceColumn", column, config);
    const Field* field = config.schema ? config.schema->find_field(column) : nullptr;
    if (field != nullptr && field->type->is_nested())
      reader.fail_at("sourceColumn", fmt::format("column \"{}\" is nested", column));
  }
  load_retention(reader, "days", config.retention);
  const std::string dedupe = reader.text("dedupe", "");
  if (!dedupe.empty() && dedupe != "content") reader.fail_at("dedupe", "must be \"content\", or left out");
  config.dedupe_content = dedupe == "content";
  config.row_bytes_max = reader.integer("maxRowBytes", config.row_bytes_max, 1);
  if (config.row_bytes_max > kRowBytesLimit)
    reader.fail_at("maxRowBytes", fmt::format("must be at most {}", kRowBytesLimit));
  reader.finish();
  return config;
}

void ConfigLoader::check_dataset_name(const ConfigReader& reader, const std::string& key, const std::string& name,
                                      const Config& config) {
  try {
    config.dataset(name);
  } catch (const Error& error) {
    reader.fail_at(key, error.what());
  }
}

SinkConfig ConfigLoader::load_sink(const ConfigValue& value, size_t index) {
  ConfigReader reader(value, fmt::format("sinks[{}]", index), path_);
  SinkConfig sink;
  sink.name = reader.required_text("name");
  if (!is_valid_dataset_name(sink.name)) {
    reader.fail_at(
        "name", fmt::format("\"{}\": a sink's name has letters, digits, '_', '-' and '.', and does not begin with '.'",
                            sink.name));
  }
  const std::string type = reader.required_text("type");
  if (type != "blob" && type != "iceberg" && type != "forward")
    reader.fail_at("type", fmt::format("\"{}\" must be \"blob\", \"iceberg\" or \"forward\"", type));
  sink.kind = type == "blob" ? SinkKind::blob : type == "iceberg" ? SinkKind::iceberg : SinkKind::forward;
  sink.datasets = reader.texts("datasets");
  if (const std::string schedule = reader.text("schedule", ""); !schedule.empty()) {
    try {
      sink.schedule = CronSchedule::parse(schedule);
    } catch (const Error& error) {
      reader.fail_at("schedule", error.what());
    }
  }
  if (sink.kind == SinkKind::forward) {
    load_forward(reader, sink);
  } else {
    sink.path = absolute(reader.required_text("path"), folder_);
  }
  if (sink.kind == SinkKind::iceberg) {
    sink.iceberg_namespace = reader.text("namespace", sink.iceberg_namespace);
    if (!is_valid_dataset_name(sink.iceberg_namespace))
      reader.fail_at("namespace", "must be a name: letters, digits, '_', '-' and '.'");
  } else if (sink.kind == SinkKind::blob) {
    const std::string format = reader.text("format", "parquet");
    if (format != "parquet" && format != "jsonl")
      reader.fail_at("format", fmt::format("\"{}\" must be \"parquet\" or \"jsonl\"", format));
    sink.format = format == "parquet" ? BlobFormat::parquet : BlobFormat::jsonl;
    sink.compression = reader.text("compression", sink.compression);
    const std::vector<std::string> codecs =
        sink.format == BlobFormat::parquet ? std::vector<std::string>{"zstd", "snappy", "gzip", "lz4", "brotli", "none"}
                                           : std::vector<std::string>{"zstd", "gzip", "none"};
    if (std::find(codecs.begin(), codecs.end(), sink.compression) == codecs.end()) {
      reader.fail_at("compression",
                     fmt::format("\"{}\" must be one of {} for {}", sink.compression, fmt::join(codecs, ", "), format));
    }
  }
  sink.unit_rows_max = reader.integer("maxRows", sink.unit_rows_max, 1);
  sink.unit_bytes_max = reader.integer("maxBytes", sink.unit_bytes_max, 1);
  sink.parallel_max = reader.integer("maxParallel", sink.parallel_max, 1);
  sink.queryable = reader.boolean("queryable", false);
  if (sink.queryable &&
      (sink.kind == SinkKind::forward || (sink.kind == SinkKind::blob && sink.format == BlobFormat::jsonl)))
    reader.fail_at("queryable", "only blobs in Parquet and archives can be queried");
  reader.finish();
  return sink;
}

void ConfigLoader::load_forward(ConfigReader& reader, SinkConfig& sink) {
  ForwardConfig& forward = sink.forward;
  forward.url = reader.required_text("url");
  const bool has_scheme = forward.url.starts_with("http://") || forward.url.starts_with("https://");
  if (!has_scheme || forward.url.find_first_of("?# \t\r\n") != std::string::npos)
    reader.fail_at("url", fmt::format("\"{}\" must be http://host:port or https://host:port", forward.url));
  while (forward.url.ends_with('/')) forward.url.pop_back();
  if (const std::string file = reader.text("tokenFile", ""); !file.empty())
    forward.token_file = absolute(file, folder_);
  forward.token_env = reader.text("tokenEnv", "");
  if (!forward.token_file.empty() && !forward.token_env.empty())
    reader.fail_at("tokenEnv", "is given beside \"tokenFile\": one of them decides");
  if (const std::string file = reader.text("caFile", ""); !file.empty()) forward.ca_file = absolute(file, folder_);
  forward.proxy = reader.text("proxy", "");
  sink.compression = reader.text("compression", sink.compression);
  if (sink.compression != "zstd" && sink.compression != "none")
    reader.fail_at("compression", fmt::format("\"{}\" must be one of zstd, none for forward", sink.compression));
  sink.unit_rows_max = 10'000;
  sink.unit_bytes_max = 4 << 20;
}

std::string ConfigLoader::load_folder(ConfigReader& reader, const char* key, const char* otherwise) {
  const std::string path = reader.text(key, otherwise);
  if (path.empty()) reader.fail_at(key, "is empty: it must name a folder");
  return absolute(path, folder_);
}

// What is in the cache's own folders is the cache's, which removes what it does not know.
void ConfigLoader::check_apart_from_cache(const ConfigReader& at, const char* key, const std::string& path,
                                          const Config& config) {
  const std::filesystem::path relative = std::filesystem::path(path).lexically_normal().lexically_relative(
      std::filesystem::path(config.cache_root).lexically_normal());
  const std::string first = relative.empty() ? ".." : relative.begin()->string();
  for (const char* own : {".", "datasets", "spool", "receiver", "rejects"}) {
    if (first == own) {
      at.fail_at(key,
                 fmt::format("{} is in the cache's own folders ({}): name another folder", path, config.cache_root));
    }
  }
}

// A destination keeps one stream of a partition, so what one of two sinks ships looks to the other like a copy of the
// cache (P10.7).
void ConfigLoader::check_beside(const ConfigReader& at, const SinkConfig& sink, const SinkConfig& other) {
  if (fold_name(other.name) == fold_name(sink.name))
    at.fail_at("name", fmt::format("another sink is named \"{}\"", other.name));
  const std::string destination = destination_of(sink);
  if (sink.kind != other.kind || destination != destination_of(other) || !share_datasets(sink, other)) return;
  const char* key = sink.kind == SinkKind::forward ? "url" : "path";
  at.fail_at(key, fmt::format("the sinks \"{}\" and \"{}\" would ship the same rows to {}: give them \"datasets\" that "
                              "have none in common, or one of them another {}",
                              other.name, sink.name, destination, key));
}

void ConfigLoader::check_listen(const ConfigReader& reader, const std::string& listen, const char* otherwise) {
  const size_t colon = listen.rfind(':');
  const std::string port = colon == std::string::npos ? "" : listen.substr(colon + 1);
  const bool is_number = !port.empty() && port.size() <= 5 && port.find_first_not_of("0123456789") == std::string::npos;
  if (!is_number || std::stol(port) > 65535)
    reader.fail_at("listen", fmt::format("must be \"host:port\"{}", otherwise));
}

ReceiverConfig ConfigLoader::load_receiver(const ConfigValue& value) {
  ConfigReader reader(value, "receiver", path_);
  ReceiverConfig receiver;
  receiver.listen = reader.text("listen", receiver.listen);
  check_listen(reader, receiver.listen, "");
  const auto path = [&](const char* key) {
    const std::string text = reader.text(key, "");
    return text.empty() ? "" : absolute(text, folder_);
  };
  receiver.cert_file = path("certFile");
  receiver.key_file = path("keyFile");
  if (receiver.cert_file.empty() != receiver.key_file.empty())
    reader.fail_at(receiver.cert_file.empty() ? "certFile" : "keyFile", "is missing: TLS needs both");
  receiver.gateway_column = reader.text("gatewayColumn", receiver.gateway_column);
  if (receiver.gateway_column.empty() || is_hidden_column(receiver.gateway_column))
    reader.fail_at("gatewayColumn", "must be a column's name, and not begin with \"_hyp_\"");
  receiver.body_bytes_max = reader.integer("maxBodyBytes", receiver.body_bytes_max, 1);
  receiver.bodies_bytes_max = reader.integer("maxQueuedBytes", receiver.bodies_bytes_max, 1);
  receiver.connections_max = reader.integer("maxConnections", receiver.connections_max, 1);
  receiver.gateway_requests_per_s = reader.integer("maxRequestsPerSecond", 0, 0);
  receiver.gateway_bytes_per_s = reader.integer("maxBytesPerSecond", 0, 0);
  receiver.gateway_streams_max = reader.integer("maxStreamsPerGateway", receiver.gateway_streams_max, 1);
  receiver.header_ms_max = reader.integer("headerTimeoutMs", receiver.header_ms_max, 1);
  receiver.request_ms_max = reader.integer("requestTimeoutMs", receiver.request_ms_max, 1);
  receiver.idle_ms_max = reader.integer("idleTimeoutMs", receiver.idle_ms_max, 1);
  receiver.access_log = path("accessLog");
  reader.finish();
  return receiver;
}

// Received rows have it, and every command that may meet them has to know it: a declared dataset that takes no other
// columns gets it, too.
void ConfigLoader::add_gateway_column(int line, Config& config) {
  const std::string& column = config.receiver.gateway_column;
  for (auto& [name, dataset] : config.datasets) {
    if (!dataset.schema) continue;
    std::vector<Field> fields = dataset.schema->fields();
    const auto declared = std::find_if(fields.begin(), fields.end(),
                                       [&](const Field& field) { return fold_name(field.name) == fold_name(column); });
    if (declared == fields.end()) {
      if (dataset.allow_new_columns) continue;
      fields.push_back({.id = 0, .name = column, .required = false, .type = iceberg::parse_primitive_type("string")});
      dataset.schema = iceberg::assign_fresh_ids(iceberg::Schema(std::move(fields)));
    } else if (declared->name != column || declared->type->id() != TypeId::string) {
      fail_config(path_, line, "receiver.gatewayColumn",
                  fmt::format("the dataset {} declares \"{}\" as {}; of received rows \"{}\" is the gateway's name, a "
                              "string: leave it out there, or choose another gatewayColumn",
                              name, declared->name, declared->type->to_string(), column));
    }
  }
}

CollectConfig ConfigLoader::load_collect(const ConfigValue& value, size_t index) {
  ConfigReader reader(value, fmt::format("collect[{}]", index), path_);
  CollectConfig collect;
  collect.name = reader.required_text("name");
  collect.dataset = reader.text("dataset", collect.name);
  collect.glob = absolute(reader.required_text("glob"), folder_);
  reader.finish();
  return collect;
}

void ConfigLoader::load_token(ConfigReader& root, Config& config) {
  const std::string token_file = root.text("tokenFile", "");
  const std::string token_env = root.text("tokenEnv", "");
  if (!token_file.empty() && !token_env.empty())
    root.fail_at("tokenEnv", "is given beside \"tokenFile\": one of them decides");
  if (!token_file.empty()) {
    const std::string path = absolute(token_file, folder_);
    try {
      config.token = make_local_file_io()->read(path);
    } catch (const Error& error) {
      root.fail_at("tokenFile", error.what());
    }
    config.token.erase(config.token.find_last_not_of(" \t\r\n") + 1);
    if (config.token.empty()) root.fail_at("tokenFile", path + " is empty: no request could be told from another");
  }
  if (!token_env.empty()) {
    const char* token = std::getenv(token_env.c_str());
    if (token == nullptr || *token == '\0')
      root.fail_at("tokenEnv", fmt::format("the variable {} is not set", token_env));
    config.token = token;
  }
}

Config ConfigLoader::load(const ConfigValue& root) {
  Config config;
  config.path = path_;
  ConfigReader reader(root, "", path_);
  config.cache_root = load_folder(reader, "cacheRoot", ".hyp/cache");
  config.state_dir = load_folder(reader, "stateDir", ".hyp/state");
  check_apart_from_cache(reader, "stateDir", config.state_dir, config);
  config.allow_undeclared_datasets = reader.boolean("undeclaredDatasets", config.allow_undeclared_datasets);
  load_retention(reader, "defaultDays", config.retention);
  if (const ConfigValue* datasets = reader.object("datasets")) {
    std::set<std::string> folded;
    for (const auto& [name, line, value] : datasets->members) {
      if (!is_valid_dataset_name(name)) {
        fail_config(path_, line, "datasets." + name,
                    "a dataset's name has at most 128 letters, digits, '_', '-' and '.', and does not begin with '.'");
      }
      if (!folded.insert(fold_name(name)).second) {
        fail_config(path_, line, "datasets." + name, "another dataset's name differs from it only in case");
      }
      config.datasets.emplace(name, load_dataset(name, value, config.retention));
    }
  }
  if (const ConfigValue* sinks = reader.array("sinks")) {
    for (const ConfigValue& value : sinks->items) {
      SinkConfig sink = load_sink(value, config.sinks.size());
      const ConfigReader at(value, fmt::format("sinks[{}]", config.sinks.size()), path_);
      if (!sink.path.empty()) check_apart_from_cache(at, "path", sink.path, config);
      for (const SinkConfig& other : config.sinks) check_beside(at, sink, other);
      for (const std::string& dataset : sink.datasets) check_dataset_name(at, "datasets", dataset, config);
      config.sinks.push_back(std::move(sink));
    }
  }
  if (const ConfigValue* collect = reader.array("collect")) {
    for (const ConfigValue& value : collect->items) {
      CollectConfig entry = load_collect(value, config.collect.size());
      const ConfigReader at(value, fmt::format("collect[{}]", config.collect.size()), path_);
      for (const CollectConfig& other : config.collect) {
        if (other.name == entry.name) at.fail_at("name", fmt::format("another entry is named \"{}\"", other.name));
      }
      check_dataset_name(at, "dataset", entry.dataset, config);
      config.collect.push_back(std::move(entry));
    }
  }
  config.listen = reader.text("listen", config.listen);
  if (!config.listen.empty()) check_listen(reader, config.listen, ", or \"\" for none");
  if (const ConfigValue* receiver = reader.object("receiver")) {
    config.receiver = load_receiver(*receiver);
    add_gateway_column(reader.line_of("receiver"), config);
  }
  load_token(reader, config);
  config.flush_interval_ms = reader.integer("flushIntervalMs", config.flush_interval_ms, 1);
  config.flush_bytes = reader.integer("flushBytes", config.flush_bytes, 1);
  config.spool_bytes_max = reader.integer("maxSpoolBytes", config.spool_bytes_max, 1);
  load_upkeep(reader, config);
  if (const std::string trace = reader.text("traceFile", ""); !trace.empty())
    config.trace_file = absolute(trace, folder_);
  reader.finish();
  return config;
}

}  // namespace

DatasetConfig Config::dataset(const std::string& name) const {
  const auto found = datasets.find(name);
  if (found != datasets.end()) return found->second;
  if (!is_valid_dataset_name(name)) {
    fail(ErrorKind::invalid_argument,
         "{} is no dataset's name: that has at most 128 letters, digits, '_', '-' and '.', and does not begin with '.'",
         Json(name).dump(-1, ' ', false, Json::error_handler_t::replace));  // a NUL would end the message
  }
  std::vector<std::string> known;
  for (const auto& [other, config] : datasets) {
    if (fold_name(other) == fold_name(name)) {
      fail(ErrorKind::invalid_argument, "dataset \"{}\" differs from the configured \"{}\" only in case", name, other);
    }
    known.push_back(other);
  }
  if (!allow_undeclared_datasets) {
    fail(ErrorKind::invalid_argument,
         "dataset \"{}\" is not declared in {}, which says \"undeclaredDatasets\": false; declared are: {}", name,
         path.empty() ? "the configuration" : path, known.empty() ? "none" : fmt::format("{}", fmt::join(known, ", ")));
  }
  DatasetConfig config;
  config.name = name;
  config.retention = retention;
  return config;
}

Config parse_config(std::string_view text, const std::string& path) {
  const std::string absolute_path =
      std::filesystem::absolute(path.empty() ? "hyp.json" : path).lexically_normal().string();
  Config config = ConfigLoader(path, std::filesystem::path(absolute_path).parent_path().string())
                      .load(parse_config_text(text, path));
  config.digest = to_hex(sha256(text));
  return config;
}

Config load_config(const std::string& path) { return parse_config(make_local_file_io()->read(path), path); }

Config find_config(const std::string& option) {
  if (!option.empty()) return load_config(option);
  if (const char* variable = std::getenv("HYP_CONFIG"); variable != nullptr && *variable != '\0')
    return load_config(variable);
  if (file_exists("hyp.json")) return load_config(std::filesystem::absolute("hyp.json").string());
  const std::string home = home_folder();
  if (const std::string path = join_path(home, ".config/hyp/hyp.json"); file_exists(path)) return load_config(path);
  Config config;
  config.cache_root = join_path(home, ".hyp/cache");
  config.state_dir = join_path(home, ".hyp/state");
  return config;
}

bool is_valid_dataset_name(std::string_view name) {
  constexpr size_t kNameBytesMax = 128;
  return !name.empty() && name.size() <= kNameBytesMax && name.front() != '.' &&
         name.find("..") == std::string_view::npos && std::all_of(name.begin(), name.end(), [](char c) {
           return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-' ||
                  c == '.';
         });
}

bool is_hidden_column(std::string_view name) { return name.starts_with("_hyp_"); }

std::string fold_name(std::string_view name) {
  std::string folded(name);
  for (char& c : folded) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return folded;
}

}  // namespace firn::hyp
