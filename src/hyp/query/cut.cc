#include "hyp/query/cut.h"

#include <algorithm>
#include <set>

#include "base/log.h"
#include "hyp/cache/visible_schema.h"

namespace firn::hyp {
namespace {

std::string lower(std::string text) {
  for (char& c : text) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
  return text;
}

// Whether the dataset's table of `source` has the frame that begins at `begin`.
bool is_flushed(const DatasetCut& dataset, const std::string& source, const std::string& spool_id, SpoolPosition begin) {
  const auto table = dataset.tables.find(source);
  if (table == dataset.tables.end()) return false;
  const auto marker = flushed_until(*table->second.table.metadata, spool_id);
  return marker && begin < *marker;
}

// The lines of `frame` that no table of `dataset` has, as one text.
std::string unflushed_lines(const DatasetCut& dataset, const FrameAt& frame, const std::string& spool_id) {
  std::string text;
  for (const RoutedLines& lines : route_lines(frame.frame, dataset.config).lines) {
    if (is_flushed(dataset, lines.source, spool_id, frame.begin)) continue;
    text.append(frame.frame.text, static_cast<size_t>(lines.begin), static_cast<size_t>(lines.end - lines.begin));
  }
  return text;
}

}  // namespace

Cut::Cut(const Cache& cache) : cache_(cache) {
  for (const std::string& folder : list_spools(cache.config().cache_root)) {
    spools_.push_back(std::make_unique<SpoolReader>(folder, SpoolPosition{}));
  }
}

Cut::~Cut() = default;

std::shared_ptr<const DatasetCut> Cut::dataset(const std::string& name) {
  std::lock_guard guard(mutex_);
  auto& known = datasets_[name];
  if (!known) known = open(name);
  return known;
}

std::string Cut::resolve(const std::string& name) {
  std::set<std::string> names;
  for (const std::string& dataset : cache_.datasets()) names.insert(dataset);
  for (const auto& [dataset, config] : cache_.config().datasets) names.insert(dataset);
  for (const auto& spool : spools_) {
    const auto reader = spool->again();
    while (const auto frame = reader->next()) names.insert(frame->frame.dataset);
  }
  if (names.contains(name)) return name;
  std::string found;
  for (const std::string& one : names) {
    if (lower(one) != lower(name)) continue;
    if (!found.empty()) return "";
    found = one;
  }
  return found;
}

std::shared_ptr<const DatasetCut> Cut::open(const std::string& name) {
  auto dataset = std::make_shared<DatasetCut>();
  dataset->name = name;
  dataset->config = cache_.dataset_config(name);
  for (const PartitionId& partition : cache_.partitions(name)) {
    if (auto held = cache_.hold(partition)) {
      const auto& metadata = *held->table.metadata;
      if (const iceberg::Snapshot* snapshot = metadata.current_snapshot()) {
        const auto total = snapshot->summary.find("total-records");
        if (total != snapshot->summary.end()) dataset->table_rows += std::atoll(total->second.c_str());
      }
      const iceberg::Schema visible = without_hidden(metadata.schema());
      dataset->schema = dataset->tables.empty() ? visible : merge_schemas(dataset->schema, visible, name);
      dataset->tables.emplace(partition.source, std::move(*held));
    }
  }
  if (dataset->config.schema) dataset->schema = merge_schemas(*dataset->config.schema, dataset->schema, name);

  // Spooled rows may bring columns that no table has yet.
  SchemaInference inference(dataset->schema, dataset->config.row_bytes_max, dataset->config.primary_timestamp_column);
  for (const auto& spool : spools_) {
    const auto reader = spool->again();
    while (const auto frame = reader->next()) {
      if (frame->frame.dataset != name) continue;
      const std::string text = unflushed_lines(*dataset, *frame, reader->spool_id());
      dataset->spooled_bytes += static_cast<int64_t>(text.size());
      if (dataset->config.allow_new_columns) inference.observe(text);
    }
  }
  if (dataset->config.allow_new_columns && dataset->spooled_bytes > 0) dataset->schema = inference.schema();
  return dataset;
}

struct Cut::SpoolScan::State {
  std::mutex mutex;
  std::shared_ptr<const DatasetCut> dataset;
  std::vector<std::unique_ptr<SpoolReader>> readers;
  size_t at = 0;
};

Cut::SpoolScan::SpoolScan(const Cut& cut, std::shared_ptr<const DatasetCut> dataset) : state_(std::make_unique<State>()) {
  state_->dataset = std::move(dataset);
  if (state_->dataset->spooled_bytes == 0) return;
  for (const auto& spool : cut.spools_) state_->readers.push_back(spool->again());
}

Cut::SpoolScan::~SpoolScan() = default;

std::optional<SpooledLines> Cut::SpoolScan::next() {
  std::lock_guard guard(state_->mutex);
  for (; state_->at < state_->readers.size(); ++state_->at) {
    SpoolReader& reader = *state_->readers[state_->at];
    while (const auto frame = reader.next()) {
      if (frame->frame.dataset != state_->dataset->name) continue;
      std::string text = unflushed_lines(*state_->dataset, *frame, reader.spool_id());
      if (!text.empty()) return SpooledLines{std::move(text)};
    }
  }
  return std::nullopt;
}

}  // namespace firn::hyp
