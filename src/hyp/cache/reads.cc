#include "hyp/cache/cache.h"
#include "hyp/cache/legacy_rows.h"
#include "hyp/cache/sequence_bounds.h"
#include "hyp/cache/sequence_merge.h"
#include "hyp/cache/sequence_plan.h"
#include "hyp/cache/visible_schema.h"

#include "base/arrow_status.h"
#include "iceberg/parquet/arrow_schema.h"

namespace firn::hyp {
namespace {

// The columns asked for, none of them hidden.
iceberg::Schema choose_columns(const iceberg::Schema& table_schema, const std::vector<std::string>& columns) {
  const iceberg::Schema visible = without_hidden(table_schema);
  return columns.empty() ? visible : visible.select(columns);
}

constexpr const char* kPositionColumn = "_pos";

bool has_numbers(const iceberg::Schema& table_schema) {
  return table_schema.find_field(std::string_view(kIngestSeqColumn)) != nullptr;
}

iceberg::ScanOptions scan_options(const iceberg::Schema& columns, const ReadOptions& options) {
  iceberg::ScanOptions scan;
  for (const iceberg::Field& field : columns.fields()) scan.columns.push_back(field.name);
  scan.batch_rows_max = options.batch_rows_max;
  scan.counters = options.counters;
  return scan;
}

std::shared_ptr<arrow::RecordBatch> without_last_column(const arrow::RecordBatch& batch) {
  return check(batch.RemoveColumn(batch.num_columns() - 1), "leave out what was not asked for");
}

// Holds the generation while its rows are read, and leaves the hidden columns out.
class VisibleRows : public arrow::RecordBatchReader {
 public:
  VisibleRows(HeldTable held, std::shared_ptr<arrow::RecordBatchReader> rows, std::shared_ptr<arrow::Schema> schema)
      : held_(std::move(held)), rows_(std::move(rows)), schema_(std::move(schema)) {}
  std::shared_ptr<arrow::Schema> schema() const override { return schema_; }
  arrow::Status ReadNext(std::shared_ptr<arrow::RecordBatch>* batch) override {
    ARROW_RETURN_NOT_OK(rows_->ReadNext(batch));
    if (*batch) *batch = without_last_column(**batch);
    return arrow::Status::OK();
  }

 private:
  HeldTable held_;
  std::shared_ptr<arrow::RecordBatchReader> rows_;
  std::shared_ptr<arrow::Schema> schema_;
};

}  // namespace

struct SequencedReader::State {
  std::optional<HeldTable> held;
  iceberg::Schema columns;
  std::unique_ptr<SequenceMerge> merge;  // nullptr: the partition has no row to read

  // False: rows without a number are to get one first.
  bool open(const ReadOptions& options) {
    const iceberg::TableMetadata& metadata = *held->table.metadata;
    if (!has_numbers(metadata.schema())) return !options.include_legacy;
    const auto& io = held->operations->io();  // which finds the files of a cache that was moved, too
    const int32_t seq_id = hidden_ids(metadata.schema(), metadata.location).ingest_seq;
    SequenceWindow range{options.since_exclusive, options.until, options.include_legacy};
    if (!range.since_exclusive && !options.include_legacy) range.since_exclusive = 0;  // legacy rows' are not above it
    iceberg::ScanOptions scan = scan_options(columns, options);
    scan.columns.push_back(kIngestSeqColumn);
    const auto plan = std::make_shared<const iceberg::ScanPlan>(plan_sequence(metadata, io, scan, range));
    const auto lacks_numbers = [&](const iceberg::FileScanTask& task) { return may_lack_numbers(task.file, seq_id); };
    if (options.include_legacy && std::any_of(plan->tasks.begin(), plan->tasks.end(), lacks_numbers)) return false;
    const int seq_column = static_cast<int>(columns.fields().size());
    std::vector<SequencedRun> runs;
    for (size_t i = 0; i < plan->tasks.size(); ++i) {
      const iceberg::DataFile& file = plan->tasks[i].file;
      SequencedRun run;
      run.lower = std::max(lowest_number(file, seq_id).value_or(run.lower), range.since_exclusive.value_or(run.lower));
      run.upper = std::min(highest_number(file, seq_id).value_or(run.upper), range.until.value_or(run.upper));
      run.name = file.file_path;
      run.open = [plan, i, io, scan] { return iceberg::read_task(plan, i, io, scan); };
      if (is_in_sequence(file, metadata, seq_id)) {
        runs.push_back(std::move(run));
      } else {  // another engine rewrote it
        std::vector<SequencedRun> sorted = sort_into_runs(run, seq_column);
        std::move(sorted.begin(), sorted.end(), std::back_inserter(runs));
      }
    }
    merge = std::make_unique<SequenceMerge>(std::move(runs), iceberg::to_arrow_schema(plan->projection), seq_column,
                                            options.batch_rows_max);
    return true;
  }
};

SequencedReader::SequencedReader(const Cache& cache, const PartitionId& partition, const ReadOptions& options)
    : state_(std::make_unique<State>()) {
  State& s = *state_;
  constexpr int kTriesMax = 5;
  for (int tries = 0; tries < kTriesMax; ++tries) {
    s.held = cache.hold(partition);
    if (!s.held) return;
    s.columns = choose_columns(s.held->table.metadata->schema(), options.columns);
    if (s.open(options)) return;
    s.held.reset();
    number_legacy_rows(cache, partition);
  }
  fail(ErrorKind::busy, "{}: another program keeps adding rows without _hyp_ingest_seq to it",
       partition.logical_path());
}

SequencedReader::~SequencedReader() = default;

std::optional<SequencedBatch> SequencedReader::next() {
  State& s = *state_;
  const auto batch = s.merge ? s.merge->next() : nullptr;
  if (!batch) return std::nullopt;
  const auto& numbers = static_cast<const arrow::Int64Array&>(*batch->column(batch->num_columns() - 1));
  return SequencedBatch{without_last_column(*batch), {numbers.raw_values(), numbers.raw_values() + numbers.length()}};
}

const iceberg::Schema& SequencedReader::schema() const { return state_->columns; }

int64_t SequencedReader::max_seq() const {
  return state_->held ? state_->held->table.metadata->int_property(kMaxSeqProperty, 0) : 0;
}

std::shared_ptr<arrow::RecordBatchReader> read_rows(const Cache& cache, const PartitionId& partition,
                                                    const ReadOptions& options) {
  std::optional<HeldTable> held = cache.hold(partition);
  if (!held) return check(arrow::RecordBatchReader::Make({}, arrow::schema({})), "read a partition without a table");
  const iceberg::TableMetadata& metadata = *held->table.metadata;
  const iceberg::Schema columns = choose_columns(metadata.schema(), options.columns);
  iceberg::ScanOptions scan = scan_options(columns, options);
  const bool is_numbered = has_numbers(metadata.schema());
  scan.columns.push_back(is_numbered ? kIngestSeqColumn : kPositionColumn);  // rows may have no other column
  if (!is_numbered) {
    if (!options.include_legacy) scan.filter = iceberg::always_false();
  } else if (options.since_exclusive || options.until || !options.include_legacy) {
    scan.filter = sequence_filter({options.since_exclusive, options.until, options.include_legacy});
  }
  auto rows = iceberg::scan(metadata, held->operations->io(), scan);
  return std::make_shared<VisibleRows>(std::move(*held), std::move(rows), iceberg::to_arrow_schema(columns));
}

}  // namespace firn::hyp
