// Row lineage columns, orders other than the table's, and memory whatever the number of partitions.
#include <atomic>

#include <arrow/memory_pool.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "../parquet/files.h"
#include "base/clock.h"
#include "iceberg/write/append_writer.h"
#include "support/fake_store.h"

namespace firn::iceberg {
namespace {

using ::testing::ElementsAre;
using ::testing::SizeIs;

Schema events() {
  return Schema({field(1, "id", primitive(TypeId::long_)), field(2, "kind", primitive(TypeId::string))});
}

TableMetadata table(int32_t version, const std::vector<PartitionDeclaration>& partitions = {}) {
  return new_table_metadata("mem://t", events(), make_partition_spec(partitions, events()), {},
                            {{"format-version", std::to_string(version)}}, now_ms());
}

SortOrder by_id(int32_t order_id) {
  return {.order_id = order_id, .fields = {{.transform = Transform::parse("identity"), .source_ids = {1}}}};
}

std::vector<int64_t> column_of(FileIO& io, const DataFile& file, const Field& column) {
  ParquetFileReader reader(io, file.file_path, {.projection = Schema({column})});
  std::vector<int64_t> values;
  while (auto read = reader.next()) {
    const auto& array = static_cast<const arrow::Int64Array&>(*read->batch->column(0));
    for (int64_t row = 0; row < array.length(); ++row) values.push_back(array.IsNull(row) ? -1 : array.Value(row));
  }
  return values;
}

const Field kRowId = field(kRowIdFieldId, "_row_id", primitive(TypeId::long_));
const Field kUpdated =
    field(kLastUpdatedSequenceNumberFieldId, "_last_updated_sequence_number", primitive(TypeId::long_));

TEST(RowLineage, IsStoredUnderItsReservedIds) {
  const auto store = std::make_shared<FakeStore>();
  const Schema with_lineage({events().fields()[0], events().fields()[1], kRowId, kUpdated});
  AppendWriter writer(store, table(3), {.row_lineage = true});
  writer.write(batch_of(with_lineage, R"([[1, "a", 10, 3], [2, "b", null, null], [3, "c", 12, null]])"));
  writer.write(batch_of(events(), R"([[4, "d"]])"));  // without them: inherited
  EXPECT_EQ(writer.rows_written(), 4);
  const auto files = writer.finish();
  ASSERT_THAT(files, SizeIs(1));
  EXPECT_THAT(column_of(*store, files[0], kRowId), ElementsAre(10, -1, 12, -1));
  EXPECT_THAT(column_of(*store, files[0], kUpdated), ElementsAre(3, -1, -1, -1));
  EXPECT_EQ(files[0].null_value_counts.at(kRowIdFieldId), 2);
  EXPECT_THROW(AppendWriter(store, table(2), {.row_lineage = true}), Error);
  AppendWriter without(store, table(3));
  EXPECT_THROW(without.write(batch_of(with_lineage, R"([[1, "a", 10, 3]])")), Error);
}

TEST(SortOrderOfAWrite, ReplacesTheTablesAndIsNamedOnlyIfTheTableHasIt) {
  const auto store = std::make_shared<FakeStore>();
  TableMetadata metadata = table(2);
  metadata.sort_orders.push_back(by_id(1));
  const auto write = [&](const SortOrder& order) {
    AppendWriter writer(store, metadata, {.sort_order = order});
    writer.write(batch_of(events(), R"([[2, "a"], [1, "b"], [3, "c"]])"));
    return writer.finish().at(0);
  };
  const DataFile known = write(by_id(1));
  EXPECT_THAT(column_of(*store, known, events().fields()[0]), ElementsAre(1, 2, 3));
  EXPECT_EQ(known.sort_order_id, 1);
  const DataFile unknown = write(by_id(7));
  EXPECT_THAT(column_of(*store, unknown, events().fields()[0]), ElementsAre(1, 2, 3));
  EXPECT_EQ(unknown.sort_order_id, 0);
  metadata.default_sort_order_id = 1;
  const DataFile none = write(SortOrder{});
  EXPECT_THAT(column_of(*store, none, events().fields()[0]), ElementsAre(2, 1, 3));
  EXPECT_EQ(none.sort_order_id, 0);
}

// Notes what Arrow's pool holds whenever a file is published.
class MeasuredStore : public FakeStore {
 public:
  MeasuredStore() {
    before_put(
        [this](const std::string&) { peak_ = std::max(peak_, arrow::default_memory_pool()->bytes_allocated()); });
  }
  int64_t peak() const { return peak_; }

 private:
  int64_t peak_ = 0;
};

TEST(FanOut, TenThousandPartitionsFitIntoTheBudget) {
  constexpr int64_t kPartitions = 10'000, kRowsEach = 8, kBudget = 8 << 20;
  const auto store = std::make_shared<MeasuredStore>();
  const int64_t before = arrow::default_memory_pool()->bytes_allocated();
  AppendWriter writer(store, table(2, {{"id"}}), {.memory_bytes_max = kBudget});
  // 200 bytes a row: 16 MB in all, each batch with rows of many partitions.
  for (int64_t round = 0; round < kRowsEach; ++round) {
    for (int64_t first = 0; first < kPartitions; first += 1000) {
      arrow::Int64Builder ids;
      arrow::StringBuilder kinds;
      for (int64_t i = first; i < first + 1000; ++i) {
        ASSERT_TRUE(ids.Append(i * 7919 % kPartitions).ok());
        ASSERT_TRUE(kinds.Append(fmt::format("{:0200}", round)).ok());
      }
      writer.write(arrow::RecordBatch::Make(to_arrow_schema(events()), 1000,
                                            arrow::ArrayVector{*ids.Finish(), *kinds.Finish()}));
    }
  }
  const auto files = writer.finish();
  ASSERT_THAT(files, SizeIs(kPartitions));
  for (const DataFile& file : files) ASSERT_EQ(file.record_count, kRowsEach);
  EXPECT_LT(store->peak() - before, 3 * kBudget);
}

}  // namespace
}  // namespace firn::iceberg
