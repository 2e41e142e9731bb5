#include "hyp/maintain/new_generation.h"

#include <algorithm>

#include "base/arrow_status.h"
#include "base/clock.h"
#include "base/fault_point.h"
#include "base/log.h"
#include "base/uri.h"
#include "base/uuid.h"
#include "hyp/cache/layout.h"
#include "hyp/cache/new_table.h"
#include "hyp/cache/sequence_bounds.h"
#include "hyp/cache/sequence_merge.h"
#include "iceberg/parquet/arrow_schema.h"
#include "iceberg/write/append_writer.h"
#include "iceberg/write/array_values.h"
#include "iceberg/write/file_pages.h"
#include "io/links.h"

namespace firn::hyp {
namespace {

constexpr int64_t kDecodedRatio = 8;  // memory of rows against their bytes in a file, at most about
constexpr int64_t kBatchRowsMin = 64, kBatchRowsMax = 16384;

using BatchPtr = std::shared_ptr<arrow::RecordBatch>;

// How many files of the group may be open at once in a merge.
int64_t merge_width(const LiveTable& live, const CompactionGroup& group) {
  int64_t upper = std::numeric_limits<int64_t>::min();
  bool overlaps = false;
  for (size_t i = 0; i < group.files.size(); ++i) {
    const FileShape& shape = live.files[group.files[i]].shape;
    overlaps = overlaps || (i > 0 && shape.lower <= upper);
    upper = std::max(upper, shape.upper);
  }
  return overlaps ? std::min<int64_t>(static_cast<int64_t>(group.files.size()), kMergeOpenMax) : 1;
}

int64_t batch_rows(const LiveTable& live, const CompactionGroup& group, int64_t memory_bytes) {
  int64_t row_bytes = 1;
  for (const size_t i : group.files) {
    const FileShape& shape = live.files[i].shape;
    row_bytes = std::max(row_bytes, shape.bytes * kDecodedRatio / std::max<int64_t>(1, shape.rows));
  }
  return std::clamp(memory_bytes / merge_width(live, group) / row_bytes, kBatchRowsMin, kBatchRowsMax);
}

}  // namespace

iceberg::TableMetadata generation_metadata(const iceberg::TableMetadata& live, const std::string& location) {
  iceberg::TableMetadata next = live;
  next.table_uuid = uuid_v4();
  next.location = location;
  next.last_sequence_number = 0;
  next.last_updated_ms = now_ms();
  next.current_snapshot_id.reset();
  next.snapshots = {};
  next.snapshot_log.clear();
  next.metadata_log.clear();
  next.refs.clear();
  next.statistics.clear();
  next.partition_statistics.clear();
  // Files written elsewhere than below the generation would not live as long as it does. next_row_id goes on: linked
  // files may hold row ids.
  next.properties.erase("write.data.path");
  next.properties.erase("write.metadata.path");
  return next;
}

NewGeneration::NewGeneration(Cache& cache, const PartitionId& partition, const LiveTable& live)
    : cache_(cache),
      live_(live),
      table_dir_(next_table_dir(cache, partition)),
      location_(iceberg::normal_location(generation_folder(cache.folder(partition), table_dir_))),
      metadata_(iceberg::with_pages_for(generation_metadata(*live.metadata, location_),
                                        cache.config().compaction.target_file_bytes)) {}

NewGeneration::~NewGeneration() {
  if (kept_) return;
  try {
    remove_tree(location_);
  } catch (const Error& e) {  // no cursor names it: the next sweep removes it
    spdlog::warn("{}", e.what());
  }
}

void NewGeneration::rewrite(const CompactionPlan& plan, size_t group, const NumberSet& dropped,
                            const std::atomic<bool>* cancelled) {
  const CompactionGroup& chosen = plan.groups[group];
  const CompactionConfig& config = cache_.config().compaction;
  const iceberg::Schema& schema = live_.metadata->schema();
  const auto columns = iceberg::to_arrow_schema(schema);
  const int seq_column = columns->GetFieldIndex(kIngestSeqColumn);
  const int64_t rows_max = batch_rows(live_, chosen, config.memory_bytes_max / 4);
  std::vector<SequencedRun> runs;
  for (const size_t i : chosen.files) {
    const LiveData& data = live_.files[i];
    group_of_[data.file.file_path] = group;
    SequencedRun run{data.shape.lower, data.shape.upper, [&, rows_max] { return live_.read(data, schema, rows_max); },
                     data.file.file_path};
    if (is_in_sequence(data.file, *live_.metadata, live_.seq_id)) {
      runs.push_back(std::move(run));
    } else {
      std::vector<SequencedRun> sorted = sort_into_runs(run, seq_column);
      std::move(sorted.begin(), sorted.end(), std::back_inserter(runs));
    }
  }
  SequenceMerge merge(std::move(runs), columns, seq_column, rows_max);

  iceberg::WriteOptions options;
  options.already_sorted = true;
  options.threads = 1;
  options.memory_bytes_max = config.memory_bytes_max / 2;
  options.target_file_size_bytes = file_share(chosen.bytes, config.target_file_bytes);
  iceberg::AppendWriter writer(cache_.io(), metadata_, options);
  std::optional<int64_t> last;
  std::vector<int64_t> kept;
  while (const BatchPtr batch = merge.next()) {
    check_not_cancelled(cancelled);
    const auto& numbers = static_cast<const arrow::Int64Array&>(*batch->column(seq_column));
    kept.clear();
    for (int64_t row = 0; row < numbers.length(); ++row) {
      const int64_t number = numbers.Value(row);
      if (last == number) equal_numbers_.insert(group);
      last = number;
      if (!dropped.contains(number)) kept.push_back(row);
    }
    if (kept.empty()) continue;
    const bool is_whole = static_cast<int64_t>(kept.size()) == batch->num_rows();
    writer.write(is_whole ? batch : iceberg::take_rows(batch, kept));
  }
  rows_written_ += writer.rows_written();
  for (iceberg::DataFile& file : writer.finish()) files_.push_back({std::move(file), "", group, {}});
}

void NewGeneration::add_rows(size_t group, const std::function<BatchPtr()>& next) {
  iceberg::WriteOptions options;  // sorted by the table's order: that of the numbers
  options.threads = 1;
  options.memory_bytes_max = cache_.config().compaction.memory_bytes_max / 2;
  options.target_file_size_bytes = cache_.config().compaction.target_file_bytes;
  iceberg::AppendWriter writer(cache_.io(), metadata_, options);
  while (const BatchPtr batch = next()) writer.write(batch);
  rows_written_ += writer.rows_written();
  for (iceberg::DataFile& file : writer.finish()) files_.push_back({std::move(file), "", group, {}});
}

void NewGeneration::link(const LiveTable& of, const std::vector<const LiveData*>& files) {
  std::vector<HardLink> links;
  for (const LiveData* data : files) {
    const std::string from = of.path_on_disk(data->file.file_path);
    std::string name = from.substr(from.rfind('/') + 1);
    // Writers never use a name twice; others may.
    for (int copy = 1; !linked_names_.insert(name).second; ++copy) {
      name = fmt::format("{}-{}", copy, from.substr(from.rfind('/') + 1));
    }
    NewFile& file = files_.emplace_back();
    file.file = data->file;
    file.file.file_path = join_path(join_path(location_, "data"), name);
    file.linked_from = data->file.file_path;
    links.push_back({from, file.file.file_path});
  }
  hard_link_all(links);
}

void NewGeneration::remove_file(size_t index) {
  cache_.io()->remove(files_[index].file.file_path);
  files_.erase(files_.begin() + static_cast<ptrdiff_t>(index));
}

size_t NewGeneration::group_of(const std::string& live_path) const {
  const auto found = group_of_.find(live_path);
  return found == group_of_.end() ? kNoGroup : found->second;
}

}  // namespace firn::hyp
