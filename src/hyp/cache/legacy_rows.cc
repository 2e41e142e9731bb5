#include "hyp/cache/legacy_rows.h"

#include <algorithm>
#include <limits>
#include <tuple>

#include <arrow/compute/api_vector.h>

#include "base/arrow_compute.h"
#include "base/arrow_status.h"
#include "base/fault_point.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/span.h"
#include "base/uuid.h"
#include "hyp/cache/new_table.h"
#include "hyp/cache/row_id.h"
#include "hyp/cache/sequence_bounds.h"
#include "hyp/cache/sequence_plan.h"
#include "hyp/cache/table_opens.h"
#include "hyp/cache/visible_schema.h"
#include "iceberg/commit/commit.h"
#include "iceberg/write/append_writer.h"

namespace firn::hyp {
namespace {

using iceberg::FileScanTask;
using iceberg::Op;
using iceberg::ScanPlan;
using iceberg::TableMetadata;
using BatchPtr = std::shared_ptr<arrow::RecordBatch>;

constexpr int64_t kBatchRows = 4096;
constexpr const char* kLastUpdatedColumn = "_last_updated_sequence_number";
constexpr const char* kLineageRowIdColumn = "_row_id";

// Whether rows without a number may be there, by the files' metadata.
bool may_have_legacy_rows(const HeldTable& held) {
  const TableMetadata& metadata = *held.table.metadata;
  if (!is_adopted(metadata) || !metadata.bool_property(kSequencedProperty, false)) return true;
  iceberg::ScanOptions scan;
  scan.columns = {kIngestSeqColumn};
  SequenceWindow none_but_unnumbered;
  none_but_unnumbered.since_exclusive = std::numeric_limits<int64_t>::max();
  none_but_unnumbered.unnumbered = true;
  return !plan_sequence(metadata, held.operations->io(), scan, none_but_unnumbered).tasks.empty();
}

template <class Visit>
void for_each_batch(const std::shared_ptr<const ScanPlan>& plan, size_t task, const std::shared_ptr<FileIO>& io,
                    const Visit& visit) {
  iceberg::ScanOptions options;
  options.batch_rows_max = kBatchRows;
  const auto rows = iceberg::read_task(plan, task, io, options);
  for (BatchPtr batch;;) {
    check(rows->ReadNext(&batch), "read legacy rows");
    if (!batch) return;
    visit(batch);
  }
}

// When the task's file was added, or somewhat later: the snapshot may be gone.
int64_t added_ms(const TableMetadata& metadata, const FileScanTask& task) {
  const iceberg::Snapshot* found = nullptr;
  for (const iceberg::Snapshot& snapshot : metadata.snapshots) {
    if (snapshot.sequence_number < task.file_sequence_number) continue;
    const auto order = [](const iceberg::Snapshot& s) { return std::pair(s.sequence_number, -s.timestamp_ms); };
    if (found == nullptr || order(snapshot) < order(*found)) found = &snapshot;
  }
  return found != nullptr ? found->timestamp_ms : metadata.last_updated_ms;
}

// A UUIDv7 that copies of the cache make alike.
std::string batch_id_of(int64_t time_ms, std::string_view seed) {
  const Sha256Digest digest = sha256(seed);
  std::string bytes(digest.begin(), digest.begin() + 16);
  for (size_t i = 0; i < 6; ++i) bytes[i] = static_cast<char>(time_ms >> (40 - 8 * static_cast<int>(i)));
  bytes[6] = static_cast<char>((static_cast<uint8_t>(bytes[6]) & 0x0f) | 0x70);
  bytes[8] = static_cast<char>((static_cast<uint8_t>(bytes[8]) & 0x3f) | 0x80);
  return uuid_from_bytes(bytes);
}

// `stored` with `fill(row)` where it is null.
template <class Fill>
std::shared_ptr<arrow::Array> with_missing(const std::shared_ptr<arrow::Array>& stored, const Fill& fill) {
  if (stored->null_count() == 0) return stored;
  const auto& texts = static_cast<const arrow::StringArray&>(*stored);
  arrow::StringBuilder builder;
  for (int64_t row = 0; row < texts.length(); ++row) {
    check(texts.IsNull(row) ? builder.Append(fill(row)) : builder.Append(texts.GetView(row)), "fill in ids");
  }
  return check(builder.Finish(), "fill in ids");
}

BatchPtr visible_columns(const arrow::RecordBatch& batch) {
  std::vector<int> visible;
  for (int i = 0; i < batch.num_columns(); ++i) {
    const std::string& name = batch.schema()->field(i)->name();
    if (!is_hidden_column(name) && name != kLineageRowIdColumn && name != kLastUpdatedColumn) visible.push_back(i);
  }
  return check(batch.SelectColumns(visible), "choose the visible columns");
}

// `batch` of rows without a number, with numbers from `first`.
BatchPtr with_numbers(const BatchPtr& batch, int64_t first, const std::string& batch_id) {
  const int64_t rows = batch->num_rows();
  arrow::ArrayVector columns = batch->columns();
  for (int i = 0; i < batch->num_columns(); ++i) {
    const std::string& name = batch->schema()->field(i)->name();
    auto& column = columns[static_cast<size_t>(i)];
    if (name == kIngestSeqColumn) {
      arrow::Int64Builder numbers;
      check(numbers.Reserve(rows), "sequence numbers");
      for (int64_t row = 0; row < rows; ++row) numbers.UnsafeAppend(first + row);
      column = check(numbers.Finish(), "sequence numbers");
    } else if (name == kRowIdColumn && column->null_count() > 0) {
      const auto made = std::static_pointer_cast<arrow::StringArray>(make_row_ids(*visible_columns(*batch)));
      column = with_missing(column, [&](int64_t row) { return made->GetView(row); });
    } else if (name == kBatchIdColumn) {
      column = with_missing(column, [&](int64_t) { return std::string_view(batch_id); });
    } else if (name == kLastUpdatedColumn) {
      column = check(arrow::MakeArrayOfNull(arrow::int64(), rows), "leave row lineage to the commit");
    }
  }
  return arrow::RecordBatch::Make(batch->schema(), rows, std::move(columns));
}

// Rows of `batch` that lack a number, or those that have one; nullptr: none.
BatchPtr rows_where(const BatchPtr& batch, bool is_numbered) {
  const arrow::Array& numbers = *batch->GetColumnByName(kIngestSeqColumn);
  const int64_t rows = batch->num_rows();
  const int64_t wanted = is_numbered ? rows - numbers.null_count() : numbers.null_count();
  if (wanted == 0 || wanted == rows) return wanted == 0 ? nullptr : batch;
  arrow::BooleanBuilder mask;
  for (int64_t row = 0; row < rows; ++row) check(mask.Append(numbers.IsValid(row) == is_numbered), "choose rows");
  initialize_compute();
  return check(arrow::compute::Filter(batch, check(mask.Finish(), "choose rows")), "choose rows").record_batch();
}

// One table's legacy rows on their way to their numbers. Requires the partition lock.
class Numbering {
 public:
  Numbering(const Cache& cache, const HeldTable& held)
      : cache_(cache),
        held_(held),
        metadata_(*held.table.metadata),
        io_(held.operations->io()),
        seq_id_(hidden_ids(metadata_.schema(), metadata_.location).ingest_seq),
        legacy_until_(metadata_.int_property(kLegacyUntilProperty, 0)),
        is_first_(!metadata_.bool_property(kSequencedProperty, false)) {}

  int64_t run() {
    plan();
    count();
    first_ = is_first_ ? 1 - rows_ : rows_ > 0 ? cache_.sequence().reserve(rows_, max_seq()) : 0;
    try {
      if (!files_.empty()) write();
      fault_point("legacy.rows-written");
      commit();
    } catch (const Error& e) {
      if (e.kind() != ErrorKind::commit_unknown) remove_written();
      throw;
    }
    fault_point("legacy.numbered");
    return rows_;
  }

 private:
  // A file that may hold legacy rows.
  struct LegacyFile {
    size_t task = 0;
    int64_t rows = 0;  // that lack a number
    std::string batch_id;
  };

  int64_t max_seq() const { return metadata_.int_property(kMaxSeqProperty, 0); }

  // The files that the legacy open is about, in an order that is the same in every copy of the table.
  void plan() {
    iceberg::ScanOptions scan;
    scan.row_lineage = true;
    scan.filter = iceberg::predicate(Op::is_null, kIngestSeqColumn);
    if (is_first_) {
      scan.filter = iceberg::or_(scan.filter, iceberg::predicate(Op::lt_eq, kIngestSeqColumn, {legacy_until_}));
    }
    ScanPlan plan = iceberg::plan_scan(metadata_, io_, scan);
    std::sort(plan.tasks.begin(), plan.tasks.end(), [](const FileScanTask& a, const FileScanTask& b) {
      return std::tie(a.data_sequence_number, a.file.file_path) < std::tie(b.data_sequence_number, b.file.file_path);
    });
    for (FileScanTask& task : plan.tasks) task.residual = nullptr;  // all rows of the files that are replaced
    plan_ = std::make_shared<const ScanPlan>(std::move(plan));
  }

  void count() {
    ScanPlan numbers = *plan_;
    numbers.projection = plan_->projection.select({kIngestSeqColumn});
    const auto plan = std::make_shared<const ScanPlan>(std::move(numbers));
    std::string identity = fmt::format("{} {}\n", metadata_.table_uuid, legacy_until_);
    for (size_t i = 0; i < plan->tasks.size(); ++i) {
      const FileScanTask& task = plan->tasks[i];
      identity += task.file.file_path + "\n";
      if (!may_lack_numbers(task.file, seq_id_)) continue;
      LegacyFile& file = files_.emplace_back();
      file.task = i;
      file.batch_id = batch_id_of(added_ms(metadata_, task), metadata_.table_uuid + task.file.file_path);
      for_each_batch(plan, i, io_, [&](const BatchPtr& batch) { file.rows += batch->column(0)->null_count(); });
      rows_ += file.rows;
      identity += fmt::format("{}", file.rows);
      for (const auto& deletes : task.deletes) {
        identity += fmt::format(" {}@{}", deletes->file_path, deletes->content_offset.value_or(0));
      }
      identity += "\n";
    }
    const Sha256Digest digest = sha256(identity);
    open_id_ = uuid_from_bytes({reinterpret_cast<const char*>(digest.data()), 16});
  }

  void write() {
    iceberg::WriteOptions options;
    options.row_lineage = true;
    options.memory_bytes_max = cache_.config().compaction.memory_bytes_max / 2;
    options.target_file_size_bytes = cache_.config().compaction.target_file_bytes;
    iceberg::WriteOptions in_order = options;
    in_order.already_sorted = true;
    iceberg::AppendWriter legacy(io_, metadata_, in_order), others(io_, metadata_, options);
    int64_t next = first_;
    for (const LegacyFile& file : files_) {
      for_each_batch(plan_, file.task, io_, [&](const BatchPtr& batch) {
        if (const BatchPtr rows = rows_where(batch, /*is_numbered=*/false)) {
          legacy.write(with_numbers(rows, next, file.batch_id));
          next += rows->num_rows();
        }
        if (const BatchPtr rows = rows_where(batch, /*is_numbered=*/true)) others.write(rows);
      });
    }
    if (next != first_ + rows_) {
      fail(ErrorKind::internal, "{}: {} legacy rows were counted and {} read", metadata_.location, rows_,
           next - first_);
    }
    written_ = legacy.finish();
    for (iceberg::DataFile& file : others.finish()) written_.push_back(std::move(file));
  }

  std::map<std::string, std::string> properties_on(const TableMetadata& base) const {
    std::map<std::string, std::string> properties = {{kSequencedProperty, "true"}};
    if (is_first_ && rows_ + legacy_until_ > 0) {
      properties[kLegacyRowsProperty] = std::to_string(rows_);
      properties[kLegacyOpenProperty] = open_id_;
    }
    if (!is_first_ && rows_ > 0) {
      properties[kMaxSeqProperty] = std::to_string(first_ + rows_ - 1);
      properties[kOpensProperty] = opens_property(base, cache_.sequence().opens(), first_);
    }
    return properties;
  }

  void check_unchanged(const TableMetadata& base) const {
    const bool is_sequenced = base.bool_property(kSequencedProperty, false);
    if (is_sequenced != is_first_ && base.property(kMaxSeqProperty, "") == metadata_.property(kMaxSeqProperty, "")) {
      return;
    }
    fail(ErrorKind::commit_conflict, "table {}: another writer stamped rows without the partition lock", base.location);
  }

  void commit() {
    if (files_.empty()) {
      iceberg::commit_metadata(*held_.operations, [&](TableMetadata& next) {
        if (next.bool_property(kSequencedProperty, false)) return false;
        for (const auto& [key, value] : properties_on(next)) next.properties[key] = value;
        return true;
      });
      return;
    }
    iceberg::SnapshotChange change;
    change.operation = "overwrite";
    change.added = written_;
    for (const LegacyFile& file : files_) change.removed.push_back(plan_->tasks[file.task].file);
    change.written_schema = metadata_.schema();
    change.required_spec = metadata_.spec();
    change.read_check = iceberg::ReadCheck();
    change.read_check->since_snapshot_id = plan_->snapshot_id;
    change.read_check->no_added_deletes = true;
    change.read_check->no_removed_data = true;
    change.summary = {{kLegacyRowsProperty, std::to_string(rows_)}, {"firn.first-seq", std::to_string(first_)}};
    change.plan_try = [&](const TableMetadata& base, int64_t, int64_t) {
      check_unchanged(base);
      iceberg::TryPlan plan;
      plan.set_properties = properties_on(base);
      return plan;
    };
    iceberg::commit_snapshot(*held_.operations, change);
  }

  // After a failure whose outcome is known: no snapshot names them, unless it landed and what came after it failed.
  void remove_written() {
    try {
      const auto head = held_.operations->load();
      if (head.metadata->current_snapshot_id != metadata_.current_snapshot_id) return;
      for (const iceberg::DataFile& file : written_) io_->remove(file.file_path);
    } catch (const Error& e) {  // what stays is named by no snapshot
      spdlog::warn("{}", e.what());
    }
  }

  const Cache& cache_;
  const HeldTable& held_;
  const TableMetadata& metadata_;
  const std::shared_ptr<FileIO>& io_;
  const int32_t seq_id_;
  const int64_t legacy_until_;
  const bool is_first_;
  std::shared_ptr<const ScanPlan> plan_;
  std::vector<LegacyFile> files_;
  int64_t rows_ = 0;  // that lack a number
  int64_t first_ = 0;
  std::string open_id_;
  std::vector<iceberg::DataFile> written_;
};

}  // namespace

int64_t number_legacy_rows(const Cache& cache, const PartitionId& partition) {
  {
    const auto held = cache.hold(partition);
    if (!held || !may_have_legacy_rows(*held)) return 0;
  }
  Span span("hyp.number-legacy-rows");
  const FileLock partition_lock = cache.lock(partition);
  auto held = cache.hold(partition, /*acting=*/true);
  if (!held || !may_have_legacy_rows(*held)) return 0;  // another process was first
  adopt_table(cache, partition, *held);
  const int64_t rows = Numbering(cache, *held).run();
  if (rows > 0) spdlog::info("{}: {} rows had no sequence number and got one", partition.logical_path(), rows);
  span.set("rows", rows);
  return rows;
}

}  // namespace firn::hyp
