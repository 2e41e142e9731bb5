#include "hyp/query/cut.h"

#include <algorithm>
#include <set>

#include "base/log.h"
#include "hyp/cache/flush_state.h"
#include "hyp/cache/partition_flush.h"
#include "hyp/cache/visible_schema.h"
#include "hyp/capture/spool_sources.h"

namespace firn::hyp {
namespace {

// Whether the dataset's table of `source` has the frame that begins at `begin`.
bool is_flushed(const DatasetCut& dataset, const std::string& source, const std::string& spool_id,
                SpoolPosition begin) {
  const auto table = dataset.tables.find(source);
  if (table == dataset.tables.end()) return false;
  const auto marker = flushed_until(*table->second.table.metadata, spool_id);
  return marker && begin < *marker;
}

// The lines of `frame` that no table of `dataset` has, as one text.
std::string unflushed_lines(const DatasetCut& dataset, const FrameAt& at, size_t spool, const std::string& spool_id) {
  std::string text;
  for (const RoutedLines& lines : route_lines(at.frame, dataset.config_by_spool[spool]).lines) {
    if (is_flushed(dataset, lines.source, spool_id, at.begin)) continue;
    text.append(at.frame.text, static_cast<size_t>(lines.begin), static_cast<size_t>(lines.end - lines.begin));
  }
  return text;
}

int64_t total_records(const iceberg::TableMetadata& metadata) {
  const iceberg::Snapshot* snapshot = metadata.current_snapshot();
  if (snapshot == nullptr) return 0;
  const auto total = snapshot->summary.find("total-records");
  return total == snapshot->summary.end() ? 0 : std::atoll(total->second.c_str());
}

}  // namespace

Cut::Cut(const Cache& cache, const std::atomic<bool>* cancelled) : cache_(cache), cancelled_(cancelled) {
  for (const std::string& folder : list_spools(cache.config().cache_root)) {
    // Read before the tables: what is before the progress is in every table that is opened later.
    const SpoolPosition progress = load_progress(folder);
    auto routing = load_flush_state(folder).routing;
    spools_.push_back({std::make_unique<SpoolReader>(folder, progress), std::move(routing)});
  }
}

Cut::~Cut() = default;

void Cut::check_cancelled() const {
  if (cancelled_ != nullptr && *cancelled_) fail(ErrorKind::cancelled, "the query was interrupted");
}

std::shared_ptr<const DatasetCut> Cut::dataset(const std::string& name) {
  std::lock_guard guard(mutex_);
  auto& known = datasets_[name];
  if (!known) known = open(name);
  return known;
}

std::vector<std::string> Cut::names() {
  std::lock_guard guard(mutex_);
  if (names_) return *names_;
  std::set<std::string> names;
  for (const std::string& dataset : cache_.datasets()) names.insert(dataset);
  for (const auto& [dataset, config] : cache_.config().datasets) names.insert(dataset);
  for (const OpenSpool& spool : spools_) {
    const auto reader = spool.reader->again();
    while (const auto at = reader->next()) {
      check_cancelled();
      if (!at->frame.text.empty()) names.insert(at->frame.dataset);
    }
  }
  names_ = std::vector<std::string>(names.begin(), names.end());
  return *names_;
}

std::string Cut::resolve(const std::string& name) {
  std::string found;
  for (const std::string& one : names()) {
    if (one == name) return one;
  }
  for (const std::string& one : names()) {
    if (fold_name(one) != fold_name(name)) continue;
    if (!found.empty()) return "";
    found = one;
  }
  return found;
}

std::shared_ptr<const DatasetCut> Cut::open(const std::string& name) const {
  auto dataset = std::make_shared<DatasetCut>();
  dataset->name = name;
  dataset->config = cache_.dataset_config(name);
  for (const OpenSpool& spool : spools_) {
    DatasetConfig& config = dataset->config_by_spool.emplace_back(dataset->config);
    const auto routing = spool.routing.find(name);
    if (routing != spool.routing.end()) config.source_column = routing->second;
  }
  for (const PartitionId& partition : cache_.partitions(name)) {
    auto held = cache_.hold(partition);
    if (!held) continue;
    dataset->table_rows += total_records(*held->table.metadata);
    const iceberg::Schema visible = without_hidden(held->table.metadata->schema());
    dataset->schema = dataset->tables.empty() ? visible : merge_schemas(dataset->schema, visible, name);
    dataset->tables.emplace(partition.source, std::move(*held));
  }
  if (dataset->config.schema) {
    dataset->schema = merge_schemas(*dataset->config.schema, dataset->schema, name, Stands::second);
  }

  // Spooled rows may bring columns that no table has yet.
  SchemaInference inference(dataset->schema, dataset->config.row_bytes_max, timestamp_column(dataset->config));
  for (size_t i = 0; i < spools_.size(); ++i) {
    const auto reader = spools_[i].reader->again();
    while (const auto at = reader->next()) {
      check_cancelled();
      if (at->frame.dataset != name) continue;
      const std::string text = unflushed_lines(*dataset, *at, i, reader->spool_id());
      dataset->spooled_bytes += static_cast<int64_t>(text.size());
      if (dataset->config.allow_new_columns) inference.observe(text);
    }
  }
  if (dataset->config.allow_new_columns && dataset->spooled_bytes > 0) dataset->schema = inference.schema();
  dataset->spooled_schema = dataset->schema;
  if (dataset->config.schema) dataset->spooled_schema = with_required(dataset->schema, *dataset->config.schema);
  return dataset;
}

struct Cut::SpoolScan::State {
  std::mutex mutex;
  const Cut& cut;
  std::shared_ptr<const DatasetCut> dataset;
  std::vector<std::unique_ptr<SpoolReader>> readers;
  size_t at = 0;
};

Cut::SpoolScan::SpoolScan(const Cut& cut, std::shared_ptr<const DatasetCut> dataset)
    : state_(new State{{}, cut, std::move(dataset), {}}) {
  if (state_->dataset->spooled_bytes == 0) return;
  for (const OpenSpool& spool : cut.spools_) state_->readers.push_back(spool.reader->again());
}

Cut::SpoolScan::~SpoolScan() = default;

std::optional<std::string> Cut::SpoolScan::next() {
  State& s = *state_;
  std::lock_guard guard(s.mutex);
  for (; s.at < s.readers.size(); ++s.at) {
    SpoolReader& reader = *s.readers[s.at];
    while (const auto frame = reader.next()) {
      s.cut.check_cancelled();
      if (frame->frame.dataset != s.dataset->name) continue;
      std::string text = unflushed_lines(*s.dataset, *frame, s.at, reader.spool_id());
      if (!text.empty()) return text;
    }
  }
  return std::nullopt;
}

}  // namespace firn::hyp
