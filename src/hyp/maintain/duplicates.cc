#include "hyp/maintain/duplicates.h"

#include "base/arrow_status.h"
#include "iceberg/parquet/arrow_schema.h"
#include "iceberg/write/row_sorter.h"

namespace firn::hyp {
namespace {

constexpr int64_t kReadBatchRows = 16384;

// What is sorted: a row's id and number, and the file that it is in.
iceberg::Schema sorted_columns() {
  using iceberg::Type;
  using iceberg::TypeId;
  return iceberg::Schema({{1, "row_id", false, Type::primitive(TypeId::string)},
                          {2, "number", false, Type::primitive(TypeId::long_)},
                          {3, "file", false, Type::primitive(TypeId::long_)}});
}

iceberg::SortOrder by_row_id_and_number() {
  iceberg::SortOrder order;
  order.order_id = 1;
  for (const int32_t source : {1, 2}) {
    iceberg::SortField& field = order.fields.emplace_back();
    field.transform = iceberg::Transform::parse("identity");
    field.source_ids = {source};
  }
  return order;
}

std::shared_ptr<arrow::Array> repeated(int64_t value, int64_t count) {
  return check(arrow::MakeArrayFromScalar(arrow::Int64Scalar(value), count), "name a row's file");
}

}  // namespace

void check_not_cancelled(const std::atomic<bool>* cancelled) {
  if (cancelled != nullptr && *cancelled) fail(ErrorKind::cancelled, "stopped on request; nothing was changed");
}

Duplicates find_duplicates(const LiveTable& live, const std::vector<SequenceRange>& kept, int64_t memory_bytes_max,
                           const std::atomic<bool>* cancelled) {
  Duplicates duplicates;
  duplicates.rows_by_file.resize(live.files.size());
  const iceberg::Schema& table_schema = live.metadata->schema();
  const iceberg::Schema columns = table_schema.select({kRowIdColumn, kIngestSeqColumn});
  const iceberg::Schema sorted = sorted_columns();
  const auto arrow_schema = iceberg::to_arrow_schema(sorted);
  const iceberg::SortKeyEncoder keys(by_row_id_and_number(), sorted);
  iceberg::RowSorter sorter(
      arrow_schema, [&](const arrow::RecordBatch& batch) { return keys.encode(batch, nullptr); }, memory_bytes_max, "");
  for (size_t i = 0; i < live.files.size(); ++i) {
    const auto rows = live.read(live.files[i], columns, kReadBatchRows);
    for (std::shared_ptr<arrow::RecordBatch> batch;;) {
      check_not_cancelled(cancelled);
      check(rows->ReadNext(&batch), "read " + live.files[i].file.file_path);
      if (!batch) break;
      const int64_t count = batch->num_rows();
      sorter.add(arrow::RecordBatch::Make(
          arrow_schema, count, {batch->column(0), batch->column(1), repeated(static_cast<int64_t>(i), count)}));
    }
  }
  std::optional<std::string> last;
  sorter.finish([&](const std::shared_ptr<arrow::RecordBatch>& batch) {
    check_not_cancelled(cancelled);
    const auto& ids = static_cast<const arrow::StringArray&>(*batch->column(0));
    const auto& numbers = static_cast<const arrow::Int64Array&>(*batch->column(1));
    const auto& files = static_cast<const arrow::Int64Array&>(*batch->column(2));
    for (int64_t row = 0; row < batch->num_rows(); ++row) {
      if (ids.IsNull(row)) continue;
      const std::string_view id = ids.GetView(row);
      if (!last || *last != id) {
        last = id;
      } else if (!is_in(kept, numbers.Value(row))) {
        duplicates.numbers.add(numbers.Value(row));
        ++duplicates.rows_by_file[static_cast<size_t>(files.Value(row))];
      }
    }
  });
  return duplicates;
}

}  // namespace firn::hyp
