#include "iceberg/write/row_sorter.h"

#include <algorithm>
#include <filesystem>
#include <limits>
#include <random>

#include <arrow/array.h>
#include <arrow/builder.h>
#include <gtest/gtest.h>

#include "../parquet/files.h"
#include "iceberg/write/sort_keys.h"

namespace firn::iceberg {
namespace {

SortField by(int32_t source, bool ascending = true, bool nulls_first = true,
             const std::string& transform = "identity") {
  return {.transform = Transform::parse(transform),
          .source_ids = {source},
          .ascending = ascending,
          .nulls_first = nulls_first};
}

// The rows of `values` in the order of their keys.
std::vector<size_t> order_of(const TypePtr& type, const std::string& values, const SortField& by_field) {
  const Schema schema({field(1, "a", type)});
  const auto batch = batch_of(schema, values);
  const SortKeys keys = SortKeyEncoder(SortOrder{.order_id = 1, .fields = {by_field}}, schema).encode(*batch, nullptr);
  std::vector<size_t> order(keys.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return keys[a] < keys[b]; });
  return order;
}
using Order = std::vector<size_t>;

TEST(SortKeys, NumbersOrderByValueAcrossSigns) {
  EXPECT_EQ(order_of(primitive(TypeId::int_), "[[5], [-1], [-2147483648], [2147483647], [0]]", by(1)),
            (Order{2, 1, 4, 0, 3}));
  EXPECT_EQ(order_of(primitive(TypeId::long_), "[[256], [-1], [255], [-9223372036854775808]]", by(1)),
            (Order{3, 1, 2, 0}));
  EXPECT_EQ(order_of(Type::decimal(38, 2),
                     R"([["1.00"], ["-0.01"], ["99999999999999999999.00"], ["-99999999999999999999.00"]])", by(1)),
            (Order{3, 1, 0, 2}));
  EXPECT_EQ(order_of(primitive(TypeId::boolean_), "[[true], [false]]", by(1)), (Order{1, 0}));
}

TEST(SortKeys, FloatsHaveNegativeZeroBelowZeroAndNaNAboveAll) {
  const Schema schema({field(1, "a", primitive(TypeId::double_))});
  const double nan = std::numeric_limits<double>::quiet_NaN(), infinity = std::numeric_limits<double>::infinity();
  arrow::DoubleBuilder d;
  check(d.AppendValues({-nan, 0.0, -0.0, infinity, -infinity, nan, 1.5, -1.5}), "");
  const auto batch = arrow::RecordBatch::Make(to_arrow_schema(schema), 8, {d.Finish().ValueOrDie()});
  const SortKeys keys = SortKeyEncoder(SortOrder{.order_id = 1, .fields = {by(1)}}, schema).encode(*batch, nullptr);
  Order order = {0, 1, 2, 3, 4, 5, 6, 7};
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return keys[a] < keys[b]; });
  EXPECT_EQ(order, (Order{4, 7, 2, 1, 6, 3, 0, 5}));
  EXPECT_EQ(keys[0], keys[5]);
}

TEST(SortKeys, StringsOrderByByteAndAPrefixComesFirstUnlessDescending) {
  const std::string values = R"([["ab"], ["a"], ["a\u0000"], ["é"], [""], ["a\u0000b"], ["b"]])";
  EXPECT_EQ(order_of(primitive(TypeId::string), values, by(1)), (Order{4, 1, 2, 5, 0, 6, 3}));
  EXPECT_EQ(order_of(primitive(TypeId::string), values, by(1, false)), (Order{3, 6, 0, 5, 2, 1, 4}));
}

TEST(SortKeys, NullsGoWhereTheOrderSaysWhateverTheDirection) {
  const std::string values = "[[1], [null], [2]]";
  EXPECT_EQ(order_of(primitive(TypeId::int_), values, by(1, true, true)), (Order{1, 0, 2}));
  EXPECT_EQ(order_of(primitive(TypeId::int_), values, by(1, true, false)), (Order{0, 2, 1}));
  EXPECT_EQ(order_of(primitive(TypeId::int_), values, by(1, false, true)), (Order{1, 2, 0}));
  EXPECT_EQ(order_of(primitive(TypeId::int_), values, by(1, false, false)), (Order{2, 0, 1}));
}

TEST(SortKeys, TransformsOrderByTheirResult) {
  EXPECT_EQ(order_of(primitive(TypeId::int_), "[[19], [10], [-1], [11]]", by(1, true, true, "truncate[10]")),
            (Order{2, 0, 1, 3}));
  EXPECT_EQ(order_of(primitive(TypeId::date), "[[59], [0], [-1], [31]]", by(1, true, true, "month")),
            (Order{2, 1, 3, 0}));
}

std::vector<int64_t> sorted_ids(RowSorter& sorter) {
  std::vector<int64_t> ids;
  sorter.finish([&](const std::shared_ptr<arrow::RecordBatch>& rows) {
    EXPECT_TRUE(rows->ValidateFull().ok());
    for (int64_t i = 0; i < rows->num_rows(); ++i)
      ids.push_back(static_cast<const arrow::Int64Array&>(*rows->column(1)).Value(i));
  });
  return ids;
}

TEST(RowSorter, ManyRunsAreMergedInPassesAndEqualRowsKeepTheirOrder) {
  const Schema schema({field(1, "k", primitive(TypeId::long_)), field(2, "id", primitive(TypeId::long_)),
                       field(3, "li", Type::list_of(4, false, primitive(TypeId::string)))});
  const SortKeyEncoder encoder(SortOrder{.order_id = 1, .fields = {by(1)}}, schema);
  const TempFolder folder;
  RowSorter sorter(
      to_arrow_schema(schema), [&](const arrow::RecordBatch& batch) { return encoder.encode(batch, nullptr); }, 1,
      folder.path());
  std::mt19937_64 random(5);
  std::vector<std::pair<int64_t, int64_t>> rows;
  for (int b = 0; b < 200; ++b) {  // each its own run: more than two full merges of 64
    std::string text = "[";
    for (int i = 0; i < 5; ++i) {
      rows.emplace_back(random() % 20, static_cast<int64_t>(rows.size()));
      text += (i > 0 ? ",[" : "[") + std::to_string(rows.back().first) + "," + std::to_string(rows.back().second) +
              ",[\"x\",null]]";
    }
    sorter.add(batch_of(schema, text + "]"));
  }
  EXPECT_EQ(sorter.runs_spilled(), 200);
  EXPECT_TRUE(std::filesystem::is_empty(folder.path())) << "spill files have no name";
  const std::vector<int64_t> ids = sorted_ids(sorter);
  std::stable_sort(rows.begin(), rows.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<int64_t> expected;
  for (const auto& [key, id] : rows) expected.push_back(id);
  EXPECT_EQ(ids, expected);
}

TEST(RowSorter, RowsThatComeSortedPassThroughWithoutACopy) {
  const Schema schema({field(1, "k", primitive(TypeId::long_)), field(2, "id", primitive(TypeId::long_))});
  const SortKeyEncoder encoder(SortOrder{.order_id = 1, .fields = {by(1)}}, schema);
  RowSorter sorter(
      to_arrow_schema(schema), [&](const arrow::RecordBatch& batch) { return encoder.encode(batch, nullptr); }, 1 << 20,
      "");
  const auto batch = batch_of(schema, "[[1, 1], [1, 2], [2, 3]]");
  sorter.add(batch);
  std::vector<const void*> buffers;
  sorter.finish([&](const std::shared_ptr<arrow::RecordBatch>& rows) {
    buffers.push_back(rows->column_data(0)->buffers[1]->data());
  });
  EXPECT_EQ(buffers, (std::vector<const void*>{batch->column_data(0)->buffers[1]->data()}));
}

}  // namespace
}  // namespace firn::iceberg
