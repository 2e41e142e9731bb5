#include "hyp/cache/cache.h"

#include <charconv>
#include <set>

#include "base/log.h"
#include "base/uri.h"
#include "hyp/cache/layout.h"
#include "hyp/cache/visible_schema.h"
#include "hyp/type_text.h"
#include "io/leftovers.h"

namespace firn::hyp {

std::string PartitionId::logical_path() const { return fmt::format("datasets/{}/{}", encode_segment(dataset), key()); }

std::string PartitionId::key() const { return "source=" + encode_segment(source); }

std::optional<SpoolPosition> flushed_until(const iceberg::TableMetadata& metadata, const std::string& spool_id) {
  const std::string text = metadata.property(kFlushedPrefix + spool_id, "");
  if (text.empty()) return std::nullopt;
  SpoolPosition position;
  const char* const end = text.data() + text.size();
  const auto [comma, error] = std::from_chars(text.data(), end, position.segment);
  if (error == std::errc() && comma != end && *comma == ',') {
    const auto [after, offset_error] = std::from_chars(comma + 1, end, position.offset);
    if (offset_error == std::errc() && after == end) return position;
  }
  fail(ErrorKind::corrupt, "{}: property {}{} is \"{}\", not <segment>,<offset>", metadata.location, kFlushedPrefix,
       spool_id, text);
}

struct Cache::State {
  Config config;
  std::shared_ptr<FileIO> io;
  SequenceAllocator sequence;

  // Kept for what they know of their table (P1.8), one a partition.
  struct Opened {
    std::string location;
    std::shared_ptr<iceberg::TableOperations> operations;
  };
  std::mutex mutex;
  std::map<std::string, Opened> opened;   // by partition folder
  std::set<std::string> swept_locations;  // of tables whose leftovers are removed

  std::shared_ptr<iceberg::TableOperations> operations_of(const std::string& folder, const std::string& location) {
    std::lock_guard guard(mutex);
    Opened& entry = opened[folder];
    if (entry.location != location) entry = {location, iceberg::open_filesystem_table(io, location)};
    return entry.operations;
  }
};

Cache::Cache(const Config& config, std::shared_ptr<FileIO> io)
    : state_(new State{config, std::move(io), SequenceAllocator(config.cache_root, config.state_dir), {}, {}, {}}) {
  make_directories(join_path(config.cache_root, "datasets"));
  make_directories(config.state_dir);
}

Cache::~Cache() = default;

const Config& Cache::config() const { return state_->config; }

const std::shared_ptr<FileIO>& Cache::io() const { return state_->io; }

SequenceAllocator& Cache::sequence() const { return state_->sequence; }

std::vector<std::string> Cache::datasets() const {
  std::vector<std::string> names;
  for (const PartitionId& partition : list_partitions(config().cache_root)) {
    if (names.empty() || names.back() != partition.dataset) names.push_back(partition.dataset);
  }
  return names;
}

std::vector<PartitionId> Cache::partitions(const std::string& dataset) const {
  return list_partitions(config().cache_root, dataset);
}

std::string Cache::folder(const PartitionId& partition) const {
  return join_path(config().cache_root, partition.logical_path());
}

std::optional<HeldTable> Cache::hold(const PartitionId& partition, bool acting) const {
  const std::string path = folder(partition);
  auto generation = hold_generation(path);
  if (!generation) return std::nullopt;
  auto operations = state_->operations_of(path, generation->location);
  HeldTable held{std::move(generation->lock), operations, operations->load()};
  if (acting) {
    // What was just seen may be another process's, visible and not yet durable: the cursor, and the version loaded.
    sync_directory(path);
    io()->sync_folder(join_path(generation->location, "metadata"));
  }
  return held;
}

FileLock Cache::lock(const PartitionId& partition) const {
  make_directories(folder(partition));
  return FileLock::acquire(join_path(folder(partition), "lock"), FileLock::Mode::exclusive);
}

void Cache::remove_leftovers(const PartitionId& partition, const HeldTable& held) const {
  {
    std::lock_guard guard(state_->mutex);
    if (!state_->swept_locations.insert(held.operations->location()).second) return;
  }
  try {
    firn::remove_leftovers(folder(partition), /*recursive=*/false);
    firn::remove_leftovers(held.operations->location(), /*recursive=*/true);
  } catch (const Error& e) {  // nobody reads them
    spdlog::warn("{}", e.what());
  }
}

iceberg::Schema Cache::dataset_schema(const std::string& dataset) const {
  const DatasetConfig declared = dataset_config(dataset);
  iceberg::Schema merged = declared.schema.value_or(iceberg::Schema());
  bool is_first = !declared.schema;
  for (const PartitionId& partition : partitions(dataset)) {
    const auto held = hold(partition);
    if (!held) continue;
    const iceberg::Schema visible = without_hidden(held->table.metadata->schema());
    merged = is_first ? visible : merge_schemas(merged, visible, dataset, Stands::second);
    is_first = false;
  }
  return iceberg::assign_fresh_ids(merged);
}

void check_declared_columns(const Cache& cache, const std::string& dataset) {
  const DatasetConfig declared = cache.dataset_config(dataset);
  if (!declared.schema) return;
  for (const PartitionId& partition : cache.partitions(dataset)) {
    const auto held = cache.hold(partition);
    if (!held) continue;
    const auto conflict = find_conflict(*declared.schema, without_hidden(held->table.metadata->schema()));
    if (!conflict) continue;
    fail(
        ErrorKind::config,
        "{}: \"datasets.{}.columns\": column \"{}\" is declared as {}, but the cache has it as {} ({}). A type can "
        "only "
        "be widened: int to long, float to double, a decimal to more digits. Declare {} again, and give the new values "
        "a column name of their own",
        cache.config().path.empty() ? "the configuration" : cache.config().path, dataset, conflict->column,
        type_text(*conflict->a), type_text(*conflict->b), partition.logical_path(), type_text(*conflict->b));
  }
}

DatasetConfig Cache::dataset_config(const std::string& dataset) const {
  try {
    return config().dataset(dataset);
  } catch (const Error& e) {
    if (e.kind() != ErrorKind::invalid_argument) throw;
    DatasetConfig defaults;
    defaults.name = dataset;
    return defaults;
  }
}

}  // namespace firn::hyp
