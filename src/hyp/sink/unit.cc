#include "hyp/sink/unit.h"

#include <algorithm>

#include <arrow/util/byte_size.h>

#include "base/arrow_status.h"
#include "base/uri.h"
#include "hyp/cache/table_opens.h"
#include "hyp/cache/visible_schema.h"

namespace firn::hyp {
namespace {

const OpenRange* open_of(const std::vector<OpenRange>& opens, int64_t seq) {
  const auto issued = [&](const OpenRange& open) { return open.since_exclusive < seq && seq <= open.until; };
  const auto found = std::find_if(opens.begin(), opens.end(), issued);
  return found == opens.end() ? nullptr : &*found;
}

std::vector<std::string> names_of(const PendingUnit& range) {
  std::vector<std::string> names;
  for (const UnitColumn& column : range.columns) names.push_back(column.name);
  return names;
}

// Takes rows batch by batch until the open ends or a limit is reached.
class Cutter {
 public:
  explicit Cutter(const UnitLimits& limits) : limits_(limits) {}

  // False: the unit ends within the batch.
  bool take(const SequencedBatch& batch, int64_t open_until) {
    const auto& numbers = batch.after;
    const auto of_open =
        static_cast<size_t>(std::upper_bound(numbers.begin(), numbers.end(), open_until) - numbers.begin());
    const int64_t row_bytes = std::max<int64_t>(1, bytes_of(*batch.rows) / batch.rows->num_rows());
    size_t count = std::min<size_t>(of_open, static_cast<size_t>(room(row_bytes)));
    // A watermark between equal numbers would skip the rest of them.
    while (count < of_open && (count > 0 ? numbers[count] == numbers[count - 1] : rows_ > 0 && numbers[0] == last_))
      ++count;
    if (count > 0) add(first_rows(batch, count));
    return count == numbers.size();
  }

  int64_t rows() const { return rows_; }
  int64_t last() const { return last_; }
  bool is_held() const { return bytes_ <= limits_.held_bytes_max; }
  std::vector<SequencedBatch> held() { return std::move(held_); }

 private:
  static SequencedBatch first_rows(const SequencedBatch& batch, size_t count) {
    const auto end = batch.after.begin() + static_cast<std::ptrdiff_t>(count);
    return {batch.rows->Slice(0, static_cast<int64_t>(count)), {batch.after.begin(), end}};
  }
  static int64_t bytes_of(const arrow::RecordBatch& batch) {
    return check(arrow::util::ReferencedBufferSize(batch), "measure rows");
  }

  // How many more rows of this size fit.
  int64_t room(int64_t row_bytes) const {
    const int64_t by_rows = limits_.rows_max - rows_, by_bytes = (limits_.bytes_max - bytes_) / row_bytes;
    return std::max<int64_t>(std::min(by_rows, by_bytes), rows_ == 0 ? 1 : 0);
  }

  void add(SequencedBatch rows) {
    rows_ += rows.rows->num_rows();
    bytes_ += bytes_of(*rows.rows);
    last_ = rows.after.back();
    if (is_held()) {
      held_.push_back(std::move(rows));
    } else {
      held_ = {};
    }
  }

  UnitLimits limits_;
  std::vector<SequencedBatch> held_;
  int64_t rows_ = 0, bytes_ = 0, last_ = 0;
};

}  // namespace

std::string stream_of(const std::string& cache_id, const PartitionId& partition) {
  return fmt::format("{}/{}/{}", encode_segment(cache_id), encode_segment(partition.dataset), partition.key());
}

UnitRows::UnitRows(iceberg::Schema schema, std::vector<SequencedBatch> batches)
    : schema_(std::move(schema)), batches_(std::move(batches)) {}

UnitRows::UnitRows(const Cache& cache, const PartitionId& partition, const PendingUnit& range,
                   iceberg::ReadCounters* counters) {
  ReadOptions options;
  options.since_exclusive = range.since;
  options.until = range.until;
  options.include_legacy = false;
  options.counters = counters;
  if (const auto held = cache.hold(partition)) {
    const iceberg::Schema visible = without_hidden(held->table.metadata->schema());
    for (const std::string& name : names_of(range)) {
      if (visible.find_field(std::string_view(name)) != nullptr) options.columns.push_back(name);
    }
  }
  reader_ = std::make_unique<SequencedReader>(cache, partition, options);
  schema_ = reader_->schema();
}

std::shared_ptr<arrow::RecordBatch> UnitRows::next() {
  const auto batch = next_numbered();
  return batch ? batch->rows : nullptr;
}

std::optional<SequencedBatch> UnitRows::next_numbered() {
  std::optional<SequencedBatch> batch;
  if (reader_) {
    batch = reader_->next();
  } else if (next_batch_ < batches_.size()) {
    batch = std::move(batches_[next_batch_++]);
  }
  if (batch) rows_read_ += batch->rows->num_rows();
  return batch;
}

std::optional<CutUnit> cut_unit(Cache& cache, const PartitionId& partition, const Watermark& watermark,
                                const UnitLimits& limits, iceberg::ReadCounters* counters) {
  ReadOptions options;
  options.since_exclusive = watermark.seq;  // legacy rows are at or below 0, below any other watermark (P9.3)
  options.counters = counters;
  SequencedReader reader(cache, partition, options);
  if (reader.schema().fields().empty()) return std::nullopt;
  std::optional<SequencedBatch> batch = reader.next();
  if (!batch) return std::nullopt;
  // What the reader sees may be another process's, and not durable yet (P10.8).
  const auto held = cache.hold(partition, /*acting=*/true);
  if (!held) return std::nullopt;  // it was removed

  // Asked after the reader saw its rows: their open was listed before they were.
  const std::vector<OpenRange> opens = table_opens(*held->table.metadata, cache.sequence().opens());
  const int64_t first = batch->after.front();
  const OpenRange* open = open_of(opens, first);
  if (!open) {
    fail(ErrorKind::corrupt,
         "{}: row {} has a sequence number that no open in {}/_hyp_ingest_seq.json issued; restore that file from a "
         "backup",
         partition.logical_path(), first, cache.config().cache_root);
  }
  const int64_t until = std::min(open->until, limits.until.value_or(open->until));
  if (first > until) return std::nullopt;
  Cutter cutter(limits);
  while (batch && cutter.take(*batch, until)) batch = reader.next();

  Unit unit{
      partition, stream_of(cache.sequence().cache_id(), partition), {}, open->since_exclusive, watermark.last_unit};
  unit.range.open_id = open->open_id;
  unit.range.start = !watermark.seq || *watermark.seq <= open->since_exclusive;
  unit.range.since = unit.range.start ? open->since_exclusive : *watermark.seq;
  unit.range.until = cutter.last();
  unit.range.rows = cutter.rows();
  unit.range.rows_max = limits.rows_max;
  unit.range.bytes_max = limits.bytes_max;
  for (const iceberg::Field& field : reader.schema().fields()) unit.range.columns.push_back({field.name, field.type});
  UnitRows rows =
      cutter.is_held() ? UnitRows(reader.schema(), cutter.held()) : UnitRows(cache, partition, unit.range, counters);
  return CutUnit{std::move(unit), std::move(rows), first};
}

Unit pending_unit(Cache& cache, const PartitionId& partition, const Watermark& watermark) {
  Unit unit{partition, stream_of(cache.sequence().cache_id(), partition), *watermark.pending, std::nullopt,
            watermark.last_unit};
  for (const OpenRange& open : partition_opens(cache, partition)) {
    if (open.open_id == unit.range.open_id) unit.open_since = open.since_exclusive;
  }
  if (unit.range.start) unit.open_since = unit.range.since;
  unit.is_resumed = true;
  cache.hold(partition, /*acting=*/true);
  return unit;
}

RowCount count_rows(const Cache& cache, const PartitionId& partition, std::optional<int64_t> since,
                    std::optional<int64_t> until) {
  RowCount count;
  const auto held = cache.hold(partition);
  if (!held) return count;
  iceberg::ScanOptions scan;
  scan.columns = {kIngestSeqColumn};
  if (since) scan.filter = iceberg::predicate(iceberg::Op::gt, kIngestSeqColumn, {*since});
  if (until) {
    const auto below = iceberg::predicate(iceberg::Op::lt_eq, kIngestSeqColumn, {*until});
    scan.filter = scan.filter ? iceberg::and_(scan.filter, below) : below;
  }
  const auto rows = iceberg::scan(*held->table.metadata, held->operations->io(), scan);
  for (std::shared_ptr<arrow::RecordBatch> batch;;) {
    check(rows->ReadNext(&batch), "count rows");
    if (!batch) return count;
    count.rows += batch->num_rows();
    const auto& numbers = static_cast<const arrow::Int64Array&>(*batch->column(0));
    for (int64_t i = 0; i < numbers.length(); ++i) {
      if (!numbers.IsValid(i)) continue;
      count.highest = std::max(count.highest.value_or(numbers.Value(i)), numbers.Value(i));
      count.lowest = std::min(count.lowest.value_or(numbers.Value(i)), numbers.Value(i));
    }
  }
}

}  // namespace firn::hyp
