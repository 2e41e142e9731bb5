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

namespace {

// Locks the snapshot that the head has, then looks whether the head still lists it: a sweep may have expired it in
// between (P7), and then the head has another.
void hold_snapshot(HeldTable& held) {
  while (const iceberg::Snapshot* snapshot = held.table.metadata->current_snapshot()) {
    const int64_t id = snapshot->snapshot_id;
    held.lock.share_snapshot(id);
    iceberg::LoadedTable again = held.operations->load();
    const bool is_listed = again.metadata->find_snapshot(id) != nullptr;
    // The same snapshot under newer metadata is taken; a newer snapshot is not ours to read without its lock.
    if (!is_listed || again.metadata->current_snapshot_id == id) held.table = std::move(again);
    if (is_listed) return;
    held.lock.release_snapshot(id);
  }
}

}  // namespace

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
  std::map<std::string, Opened> opened;                     // by partition folder
  std::set<std::string> swept_locations;                    // of tables whose leftovers are removed
  std::map<std::string, std::set<int64_t>> left_by_sweeps;  // by location

  std::shared_ptr<iceberg::TableOperations> operations_of(const std::string& folder, const std::string& location) {
    std::lock_guard guard(mutex);
    Opened& entry = opened[folder];
    if (entry.location != location) entry = {location, iceberg::open_filesystem_table(io, location)};
    return entry.operations;
  }
};

Cache::Cache(const Config& config, std::shared_ptr<FileIO> io)
    : state_(new State{config, std::move(io), SequenceAllocator(config.cache_root, config.state_dir), {}, {}, {}, {}}) {
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
  hold_snapshot(held);
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

std::optional<std::set<int64_t>> Cache::swept(const std::string& location) const {
  std::lock_guard guard(state_->mutex);
  const auto found = state_->left_by_sweeps.find(location);
  return found == state_->left_by_sweeps.end() ? std::nullopt : std::optional(found->second);
}

void Cache::note_swept(const std::string& location, std::optional<std::set<int64_t>> left_to_readers) const {
  std::lock_guard guard(state_->mutex);
  if (left_to_readers) {
    state_->left_by_sweeps[location] = std::move(*left_to_readers);
  } else {
    state_->left_by_sweeps.erase(location);
  }
}

iceberg::Schema Cache::dataset_schema(const std::string& dataset) const {
  const DatasetConfig declared = dataset_config(dataset);
  iceberg::Schema merged;
  bool is_first = true;
  for (const PartitionId& partition : partitions(dataset)) {
    const auto held = hold(partition);
    if (!held) continue;
    const iceberg::Schema visible = without_hidden(held->table.metadata->schema());
    merged = is_first ? visible : merge_schemas(merged, visible, dataset, Stands::second);
    is_first = false;
  }
  if (declared.schema) {
    merged = is_first ? *declared.schema
                      : merge_schemas(without_other_case(*declared.schema, merged), merged, dataset, Stands::second);
  }
  return iceberg::assign_fresh_ids(merged);
}

void check_declared_columns(const Cache& cache, const std::string& dataset) {
  const DatasetConfig declared = cache.dataset_config(dataset);
  if (!declared.schema) return;
  for (const PartitionId& partition : cache.partitions(dataset)) {
    const auto held = cache.hold(partition);
    if (!held) continue;
    const auto refused = find_refused(*declared.schema, without_hidden(held->table.metadata->schema()));
    if (!refused) continue;
    const std::string key =
        fmt::format("{}: \"datasets.{}.columns\"",
                    cache.config().path.empty() ? "the configuration" : cache.config().path, dataset);
    if (!refused->spelled.empty()) {
      fail(ErrorKind::config,
           "{}: column \"{}\" is declared, but the cache has it as \"{}\" ({}). Names that differ only in case are one "
           "column to SQL: write it as the cache has it, or give the new values a column name of their own",
           key, refused->column, refused->spelled, partition.logical_path());
    }
    if (refused->is_required) {
      fail(ErrorKind::config,
           "{}: column \"{}\" is declared as required, but the cache has rows that may lack it ({}). A column that is "
           "required must be so from the first row on: declare it without \"required\"",
           key, refused->column, partition.logical_path());
    }
    fail(ErrorKind::config,
         "{}: column \"{}\" is declared as {}, but the cache has it as {} ({}). A type can only be widened: int to "
         "long, float to double, a decimal to more digits. Declare {} again, and give the new values a column name of "
         "their own",
         key, refused->column, type_text(*refused->declared), type_text(*refused->cached), partition.logical_path(),
         type_text(*refused->cached));
  }
}

DatasetConfig Cache::dataset_config(const std::string& dataset) const {
  try {
    return config().dataset(dataset);
  } catch (const Error& e) {
    if (e.kind() != ErrorKind::invalid_argument) throw;
    DatasetConfig defaults;
    defaults.name = dataset;
    defaults.retention = config().retention;
    return defaults;
  }
}

}  // namespace firn::hyp
