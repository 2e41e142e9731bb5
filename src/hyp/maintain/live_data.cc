#include "hyp/maintain/live_data.h"

#include <unordered_map>

#include "base/arrow_status.h"
#include "base/uri.h"
#include "hyp/maintain/head_size.h"
#include "iceberg/manifest/file_identity.h"
#include "iceberg/scan/plan.h"

namespace firn::hyp {
namespace {

constexpr int64_t kNumberBatchRows = 65536;
constexpr const char* kPositionColumn = "_pos";

FileShape shape_of(const iceberg::FileScanTask& task, const iceberg::DataFile& file,
                   const iceberg::TableMetadata& metadata, int32_t seq_id) {
  FileShape shape = shape_without_deletes(file, metadata, seq_id);
  for (const auto& deletes : task.deletes) {
    const bool is_of_this_file = deletes->content == iceberg::FileContent::position_deletes &&
                                 iceberg::single_data_file(*deletes) == file.file_path;
    if (is_of_this_file) {
      shape.rows_hidden += deletes->record_count;
    } else {
      shape.must_rewrite = true;
    }
  }
  shape.rows_hidden = std::min(shape.rows_hidden, shape.rows);
  return shape;
}

}  // namespace

std::string LiveTable::path_on_disk(const std::string& path) const {
  std::string local = local_path(path);
  const std::string recorded = iceberg::normal_location(metadata->location);
  if (recorded == location || !local.starts_with(recorded + "/")) return local;
  return location + local.substr(recorded.size());
}

std::shared_ptr<arrow::RecordBatchReader> LiveTable::read(const LiveData& data, const iceberg::Schema& columns,
                                                          int64_t batch_rows_max) const {
  iceberg::ScanPlan one = iceberg::one_task_plan(*plan, data.task);
  one.projection = columns;
  iceberg::ScanOptions options;
  options.batch_rows_max = batch_rows_max;
  return iceberg::read_task(std::make_shared<const iceberg::ScanPlan>(std::move(one)), 0, io, options);
}

LiveTable load_live(const HeldTable& held) {
  LiveTable live;
  live.metadata = held.table.metadata;
  live.io = held.operations->io();
  live.location = iceberg::normal_location(held.operations->location());
  live.seq_id = hidden_ids(live.metadata->schema(), live.metadata->location).ingest_seq;
  live.plan = std::make_shared<const iceberg::ScanPlan>(iceberg::plan_scan(*live.metadata, live.io, {}));
  const iceberg::Snapshot* head = live.metadata->current_snapshot();
  if (head == nullptr) return live;
  std::unordered_map<std::string, iceberg::DataFile> whole;  // the plan has files without their metrics
  for (iceberg::LiveFile& entry : iceberg::live_files(*live.metadata, *head, *live.io)) {
    if (entry.file.content != iceberg::FileContent::data) continue;
    std::string path = entry.file.file_path;
    whole.emplace(std::move(path), std::move(entry.file));
  }
  live.files.reserve(live.plan->tasks.size());
  for (size_t i = 0; i < live.plan->tasks.size(); ++i) {
    const iceberg::FileScanTask& task = live.plan->tasks[i];
    const auto found = whole.find(task.file.file_path);
    if (found == whole.end()) {
      fail(ErrorKind::corrupt, "{}: its head names {} twice, or not at all", live.metadata->location,
           task.file.file_path);
    }
    LiveData& data = live.files.emplace_back();
    data.task = i;
    data.shape = shape_of(task, found->second, *live.metadata, live.seq_id);
    data.file = std::move(found->second);
    whole.erase(found);
  }
  return live;
}

iceberg::Schema number_and_position(const iceberg::TableMetadata& metadata, int32_t seq_id) {
  return iceberg::Schema(
      {*metadata.schema().find_field(seq_id),
       iceberg::Field{iceberg::kPosFieldId, kPositionColumn, true, iceberg::Type::primitive(iceberg::TypeId::long_)}});
}

std::shared_ptr<arrow::RecordBatchReader> read_new_file(const iceberg::TableMetadata& metadata,
                                                        const iceberg::DataFile& file, const iceberg::Schema& columns,
                                                        int64_t lower, int64_t upper,
                                                        const std::shared_ptr<FileIO>& io) {
  const auto one = std::make_shared<iceberg::ScanPlan>();
  one->table_schema = metadata.schema();
  one->projection = columns;
  one->filter = iceberg::bind(*iceberg::and_(iceberg::predicate(iceberg::Op::gt_eq, kIngestSeqColumn, {lower}),
                                             iceberg::predicate(iceberg::Op::lt_eq, kIngestSeqColumn, {upper})),
                              metadata.schema());
  iceberg::FileScanTask& task = one->tasks.emplace_back();
  task.file = file;
  task.residual = one->filter;
  iceberg::ScanOptions options;
  options.batch_rows_max = kNumberBatchRows;
  return iceberg::read_task(one, 0, io, options);
}

void for_each_number(arrow::RecordBatchReader& rows, const std::string& path,
                     const std::function<void(int64_t number, int64_t position)>& visit) {
  for (std::shared_ptr<arrow::RecordBatch> batch;;) {
    check(rows.ReadNext(&batch), "read " + path);
    if (!batch) return;
    const auto& numbers = static_cast<const arrow::Int64Array&>(*batch->column(0));
    const auto& positions = static_cast<const arrow::Int64Array&>(*batch->column(1));
    if (numbers.null_count() > 0) {
      fail(ErrorKind::commit_conflict, "{}: it has rows without {}, which another program added just now", path,
           kIngestSeqColumn);
    }
    for (int64_t i = 0; i < numbers.length(); ++i) visit(numbers.Value(i), positions.Value(i));
  }
}

}  // namespace firn::hyp
