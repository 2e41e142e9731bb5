#include <limits>
#include <random>
#include <set>

#include <arrow/array.h>
#include <arrow/builder.h>
#include <arrow/compute/api_vector.h>

#include "files.h"
#include "iceberg/expr/row_filter.h"
#include "support/test_seed.h"

namespace firn::iceberg {
namespace {

Schema table_schema() {
  Field absent = field(20, "absent", primitive(TypeId::long_));
  Field constant = field(21, "constant", primitive(TypeId::long_));
  constant.initial_default = Value(int64_t{7});
  return Schema({field(1, "seq", primitive(TypeId::long_), true), field(2, "i", primitive(TypeId::int_)),
                 field(3, "d", primitive(TypeId::double_)), field(4, "s", primitive(TypeId::string)),
                 field(5, "b", primitive(TypeId::boolean_)), field(6, "dec", Type::decimal(20, 2)),
                 field(7, "ts", primitive(TypeId::timestamp)), absent, constant});
}

constexpr int kStoredColumns = 7;

// Rows of which runs resemble each other, so that pages differ and filters prune.
std::shared_ptr<arrow::RecordBatch> random_rows(std::mt19937_64& random, int64_t rows, int64_t first_seq) {
  arrow::Int64Builder seq;
  arrow::Int32Builder i;
  arrow::DoubleBuilder d;
  arrow::StringBuilder s;
  arrow::BooleanBuilder b;
  arrow::Decimal128Builder dec(arrow::decimal128(20, 2));
  arrow::TimestampBuilder ts(arrow::timestamp(arrow::TimeUnit::MICRO), arrow::default_memory_pool());
  int64_t base = 0;
  int nulls = 0;
  for (int64_t row = 0; row < rows; ++row) {
    if (row % 50 == 0) {
      base = static_cast<int64_t>(random() % 2000) - 1000;
      nulls = std::array{0, 3, 100}[random() % 3];  // percent
    }
    const auto is_null = [&] { return static_cast<int>(random() % 100) < nulls; };
    const int64_t value = base + static_cast<int64_t>(random() % 10);
    check(seq.Append(first_seq + row), "");
    check(is_null() ? i.AppendNull() : i.Append(static_cast<int32_t>(value)), "");
    const double number = random() % 10 == 0   ? std::numeric_limits<double>::quiet_NaN()
                          : random() % 10 == 0 ? -0.0
                                               : static_cast<double>(value) / 4;
    check(is_null() ? d.AppendNull() : d.Append(number), "");
    check(is_null() ? s.AppendNull() : s.Append("k" + std::to_string(value) + std::string(random() % 30, 'z')), "");
    check(is_null() ? b.AppendNull() : b.Append(value % 2 == 0 || base > 0), "");
    check(is_null() ? dec.AppendNull() : dec.Append(arrow::Decimal128(value * 100 + 25)), "");
    check(is_null() ? ts.AppendNull() : ts.Append(value * 86'400'000'000), "");
  }
  std::vector<std::shared_ptr<arrow::Array>> arrays(kStoredColumns);
  check(seq.Finish(&arrays[0]), "");
  check(i.Finish(&arrays[1]), "");
  check(d.Finish(&arrays[2]), "");
  check(s.Finish(&arrays[3]), "");
  check(b.Finish(&arrays[4]), "");
  check(dec.Finish(&arrays[5]), "");
  check(ts.Finish(&arrays[6]), "");
  const auto schema = to_arrow_schema(table_schema().select({"seq", "i", "d", "s", "b", "dec", "ts"}));
  return arrow::RecordBatch::Make(schema, rows, arrays);
}

ExpressionPtr random_predicate(std::mt19937_64& random) {
  static const std::vector<std::string> kColumns = {"seq", "i", "d", "s", "dec", "ts", "absent", "constant"};
  const std::string column = kColumns[random() % kColumns.size()];
  const int64_t number = static_cast<int64_t>(random() % 2400) - 1200;
  const auto literal = [&](int64_t n) -> Value {
    if (column == "d") return static_cast<double>(n) / 4;
    if (column == "s") return "k" + std::to_string(n);
    if (column == "dec") return std::to_string(n) + ".25";
    if (column == "ts") return n * 86'400'000'000;
    if (column == "seq") return n + 1200;
    return column == "i" ? Value(static_cast<int32_t>(n)) : Value(n);
  };
  switch (random() % 11) {
    case 0:
      return predicate(Op::is_null, column);
    case 1:
      return predicate(Op::not_null, column);
    case 2:
      return predicate(Op::lt, column, {literal(number)});
    case 3:
      return predicate(Op::lt_eq, column, {literal(number)});
    case 4:
      return predicate(Op::gt, column, {literal(number)});
    case 5:
      return predicate(Op::gt_eq, column, {literal(number)});
    case 6:
      return predicate(Op::eq, column, {literal(column == "constant" ? 7 : number)});
    case 7:
      return predicate(Op::not_eq_, column, {literal(number)});
    case 8:
      return predicate(Op::in, column, {literal(number), literal(number + 1), literal(number / 2)});
    case 9:
      if (column == "d") return predicate(random() % 2 == 0 ? Op::is_nan : Op::not_nan, column);
      return predicate(Op::not_in, column, {literal(number), literal(number + 2)});
    default:
      if (column == "s")
        return predicate(random() % 2 == 0 ? Op::starts_with : Op::not_starts_with, column,
                         {"k" + std::to_string(number / 10)});
      return predicate(Op::eq, column, {literal(number)});
  }
}

ExpressionPtr random_filter(std::mt19937_64& random, int depth) {
  if (depth == 0 || random() % 3 == 0) return random_predicate(random);
  switch (random() % 3) {
    case 0:
      return and_(random_filter(random, depth - 1), random_filter(random, depth - 1));
    case 1:
      return or_(random_filter(random, depth - 1), random_filter(random, depth - 1));
    default:
      return not_(random_filter(random, depth - 1));
  }
}

// Positions of the rows that match. The batches are checked to be those rows of `whole`.
std::set<int64_t> matching_positions(const std::vector<PositionedBatch>& batches, const arrow::RecordBatch& whole,
                                     const Expression& filter) {
  std::set<int64_t> positions;
  const auto options = arrow::EqualOptions::Defaults().nans_equal(true).signed_zeros_equal(false);
  for (const PositionedBatch& positioned : batches) {
    const arrow::RecordBatch& batch = *positioned.batch;
    EXPECT_TRUE(batch.Equals(*whole.Slice(positioned.first_position, batch.num_rows()), false, options));
    const auto mask = evaluate(filter, batch);
    for (int64_t i = 0; i < mask->length(); ++i) {
      if (mask->Value(i)) positions.insert(positioned.first_position + i);
    }
  }
  return positions;
}

TEST(PagePruning, APrunedReadHasExactlyTheMatchingRowsOfAWholeOne) {
  const uint64_t seed = test_seed();
  SCOPED_TRACE("FIRN_TEST_SEED=" + std::to_string(seed));
  std::mt19937_64 random(seed);
  const TempFolder folder;
  int64_t pages_pruned = 0;
  for (int round = 0; round < 6; ++round) {
    const std::string path = folder / ("a" + std::to_string(round) + ".parquet");
    ParquetWriteOptions options;
    options.page_row_limit = std::array{20, 64, 1000}[random() % 3];
    options.page_size_bytes = std::array{200, 1 << 20}[random() % 2];
    options.dict_size_bytes = std::array{100, 1 << 20}[random() % 2];
    ParquetFileWriter writer(*make_local_file_io(), path,
                             table_schema().select({"seq", "i", "d", "s", "b", "dec", "ts"}), options);
    for (int group = 0; group < 2; ++group) {
      writer.write(*random_rows(random, 700, group * 700));
      writer.end_row_group();
    }
    writer.close();
    const auto whole = read_all(path, {.projection = table_schema()});
    for (int trial = 0; trial < 60; ++trial) {
      const ExpressionPtr filter = bind(*random_filter(random, 2), table_schema());
      SCOPED_TRACE(to_string(*filter));
      ReadCounters counters;
      ParquetReadRequest request{.projection = table_schema(),
                                 .filter = filter,
                                 .batch_rows_max = static_cast<int64_t>(random() % 200) + 1,
                                 .counters = &counters};
      const auto pruned = read_batches(path, request);
      pages_pruned += counters.pages_pruned;
      ASSERT_EQ(matching_positions(pruned, *whole, *filter), matching_positions({{whole, 0}}, *whole, *filter));
    }
  }
  EXPECT_GT(pages_pruned, 0);
}

TEST(PagePruning, ReadingTheLastThousandRowsDecodesThemAndLessThanAPageMore) {
  std::mt19937_64 random(1);
  const TempFolder folder;
  const std::string path = folder / "a.parquet";
  const Schema schema = table_schema().select({"seq", "i", "d", "s", "b", "dec", "ts"});
  ParquetWriteOptions options;
  options.page_row_limit = 2000;
  options.page_size_bytes = 30000;  // strings are cut at other rows than numbers
  ParquetFileWriter writer(*make_local_file_io(), path, schema, options);
  for (int64_t first = 0; first < 25000; first += 5000) writer.write(*random_rows(random, 5000, first));
  writer.close();
  ReadCounters counters;
  ParquetReadRequest request{
      .projection = schema, .filter = bind(*parse_expression("seq >= 24000"), schema), .counters = &counters};
  int64_t rows = 0;
  for (const auto& batch : read_batches(path, request)) rows += batch.batch->num_rows();
  EXPECT_EQ(rows, 1000);
  EXPECT_GE(counters.rows_decoded, 1000);
  EXPECT_LE(counters.rows_decoded, 1000 + 2000);
  EXPECT_LE(counters.values_decoded, 7 * (1000 + 2000));
  EXPECT_GT(counters.pages_pruned, 7 * 10);
}

TEST(PagePruning, ColumnsBesideTheFilterAreNotReadWhereNoRowMatches) {
  const TempFolder folder;
  const std::string path = folder / "a.parquet";
  const Schema schema({field(1, "k", primitive(TypeId::long_)), field(2, "payload", primitive(TypeId::string))});
  ParquetFileWriter writer(*make_local_file_io(), path, schema, {});
  arrow::Int64Builder k;
  arrow::StringBuilder payload;
  for (int i = 0; i < 1000; ++i) {
    check(k.Append(i % 2 == 0 ? i : -i), "");  // bounds say nothing of 3
    check(payload.Append("row " + std::to_string(i)), "");
  }
  writer.write(*arrow::RecordBatch::Make(to_arrow_schema(schema), 1000,
                                         {k.Finish().ValueOrDie(), payload.Finish().ValueOrDie()}));
  writer.close();
  ReadCounters counters;
  ParquetReadRequest request{
      .projection = schema, .filter = bind(*parse_expression("k = 3"), schema), .counters = &counters};
  EXPECT_TRUE(read_batches(path, request).empty());
  EXPECT_EQ(counters.values_decoded, 1000);  // of k alone
  // One match: its row alone comes.
  request.filter = bind(*parse_expression("k = 500"), schema);
  const auto batches = read_batches(path, request);
  ASSERT_EQ(batches.size(), 1U);
  EXPECT_EQ(batches[0].first_position, 500);
  EXPECT_EQ(batches[0].batch->num_rows(), 1);
}

TEST(PagePruning, AColumnOfNaNsIsNotPrunedByItsBounds) {
  const TempFolder folder;
  const std::string path = folder / "a.parquet";
  const Schema schema({field(1, "d", primitive(TypeId::double_))});
  ParquetFileWriter writer(*make_local_file_io(), path, schema, {});
  arrow::DoubleBuilder d;
  check(d.AppendValues({5.0, std::numeric_limits<double>::quiet_NaN()}), "");
  writer.write(*arrow::RecordBatch::Make(to_arrow_schema(schema), 2, {d.Finish().ValueOrDie()}));
  writer.close();
  // Bounds 5..5 (cases.md 1): the NaN is not 5 and must come.
  const auto read = [&](const std::string& filter) {
    int64_t rows = 0;
    for (const auto& batch :
         read_batches(path, {.projection = schema, .filter = bind(*parse_expression(filter), schema)}))
      rows += batch.batch->num_rows();
    return rows;
  };
  EXPECT_EQ(read("d != 5"), 2);
  EXPECT_EQ(read("isnan(d)"), 2);
  EXPECT_EQ(read("d > 5"), 0);
}

}  // namespace
}  // namespace firn::iceberg
