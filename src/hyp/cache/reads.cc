#include "hyp/cache/cache.h"
#include "hyp/cache/sequence_merge.h"
#include "hyp/cache/visible_schema.h"

#include "base/arrow_status.h"
#include "iceberg/parquet/arrow_schema.h"

namespace firn::hyp {
namespace {

using iceberg::ExpressionPtr;
using iceberg::Op;

// The columns asked for, none of them hidden.
iceberg::Schema choose_columns(const iceberg::Schema& table_schema, const std::vector<std::string>& columns) {
  const iceberg::Schema visible = without_hidden(table_schema);
  return columns.empty() ? visible : visible.select(columns);
}

// _hyp_ingest_seq in (since, until] and not null. Always a filter, so that the plan keeps the column's bounds.
ExpressionPtr sequence_filter(const ReadOptions& options) {
  ExpressionPtr filter = iceberg::predicate(Op::not_null, kIngestSeqColumn);
  if (options.since_exclusive) {
    filter = iceberg::predicate(Op::gt, kIngestSeqColumn, {*options.since_exclusive});
  }
  if (options.until) {
    filter = iceberg::and_(filter, iceberg::predicate(Op::lt_eq, kIngestSeqColumn, {*options.until}));
  }
  return filter;
}

bool may_have_legacy_rows(const iceberg::TableMetadata& metadata) {
  return !metadata.bool_property(kSequencedProperty, false);
}

iceberg::ScanOptions scan_options(const iceberg::Schema& columns, const ReadOptions& options) {
  iceberg::ScanOptions scan;
  for (const iceberg::Field& field : columns.fields()) scan.columns.push_back(field.name);
  scan.columns.push_back(kIngestSeqColumn);
  scan.batch_rows_max = options.batch_rows_max;
  scan.counters = options.counters;
  return scan;
}

std::optional<int64_t> bound_of(const std::map<int32_t, std::string>& bounds, int32_t field_id) {
  const auto found = bounds.find(field_id);
  if (found == bounds.end()) return std::nullopt;
  const auto value = iceberg::from_bytes(found->second, *iceberg::Type::primitive(iceberg::TypeId::long_));
  return value ? std::optional(std::get<int64_t>(*value)) : std::nullopt;
}

// Whether the table's sort order says that its files are in sequence order.
bool is_sequence_order(const iceberg::SortOrder& order, int32_t seq_id) {
  return order.order_id != 0 && !order.fields.empty() && order.fields[0].source_id() == seq_id &&
         order.fields[0].ascending && order.fields[0].transform.kind == iceberg::TransformKind::identity;
}

std::shared_ptr<arrow::RecordBatch> without_last_column(const arrow::RecordBatch& batch) {
  return check(batch.RemoveColumn(batch.num_columns() - 1), "leave out _hyp_ingest_seq");
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
  std::shared_ptr<arrow::RecordBatchReader> legacy;  // nullptr: none, or read
  std::unique_ptr<SequenceMerge> merge;              // nullptr: the partition has no table

  void plan(const ReadOptions& options) {
    const iceberg::TableMetadata& metadata = *held->table.metadata;
    const auto& io = held->operations->io();  // which finds the files of a cache that was moved, too
    const int32_t seq_id = hidden_ids(metadata.schema(), metadata.location).ingest_seq;
    iceberg::ScanOptions scan = scan_options(columns, options);
    if (options.include_legacy && may_have_legacy_rows(metadata)) {
      iceberg::ScanOptions legacy_scan = scan;
      legacy_scan.filter = iceberg::predicate(Op::is_null, kIngestSeqColumn);
      legacy = iceberg::scan(metadata, io, legacy_scan);
    }
    scan.filter = sequence_filter(options);
    const auto plan = std::make_shared<const iceberg::ScanPlan>(iceberg::plan_scan(metadata, io, scan));
    const int seq_column = static_cast<int>(columns.fields().size());
    std::vector<SequencedRun> runs;
    for (size_t i = 0; i < plan->tasks.size(); ++i) {
      const iceberg::DataFile& file = plan->tasks[i].file;
      SequencedRun run;
      run.lower = std::max(bound_of(file.lower_bounds, seq_id).value_or(run.lower),
                           options.since_exclusive.value_or(run.lower));
      run.upper = std::min(bound_of(file.upper_bounds, seq_id).value_or(run.upper), options.until.value_or(run.upper));
      run.name = file.file_path;
      run.open = [plan, i, io, scan] { return iceberg::read_task(plan, i, io, scan); };
      const bool is_sorted = file.sort_order_id && *file.sort_order_id == metadata.default_sort_order_id &&
                             is_sequence_order(metadata.sort_order(), seq_id);
      if (is_sorted) {
        runs.push_back(std::move(run));
      } else {  // another engine rewrote it
        std::vector<SequencedRun> sorted = sort_into_runs(run, seq_column);
        std::move(sorted.begin(), sorted.end(), std::back_inserter(runs));
      }
    }
    merge = std::make_unique<SequenceMerge>(std::move(runs), iceberg::to_arrow_schema(plan->projection), seq_column,
                                            options.batch_rows_max);
  }
};

SequencedReader::SequencedReader(const Cache& cache, const PartitionId& partition, const ReadOptions& options)
    : state_(std::make_unique<State>()) {
  state_->held = cache.hold(partition);
  if (!state_->held) return;
  state_->columns = choose_columns(state_->held->table.metadata->schema(), options.columns);
  state_->plan(options);
}

SequencedReader::~SequencedReader() = default;

std::optional<SequencedBatch> SequencedReader::next() {
  State& s = *state_;
  if (s.legacy) {
    std::shared_ptr<arrow::RecordBatch> batch;
    check(s.legacy->ReadNext(&batch), "read legacy rows");
    if (batch)
      return SequencedBatch{without_last_column(*batch),
                            std::vector<int64_t>(static_cast<size_t>(batch->num_rows()), 0)};
    s.legacy = nullptr;
  }
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
  const bool has_range = options.since_exclusive || options.until;
  if (has_range || (!options.include_legacy && may_have_legacy_rows(metadata))) {
    scan.filter = sequence_filter(options);
    if (options.include_legacy && may_have_legacy_rows(metadata)) {
      scan.filter = iceberg::or_(scan.filter, iceberg::predicate(Op::is_null, kIngestSeqColumn));
    }
  }
  auto rows = iceberg::scan(metadata, held->operations->io(), scan);
  return std::make_shared<VisibleRows>(std::move(*held), std::move(rows), iceberg::to_arrow_schema(columns));
}

}  // namespace firn::hyp
