// How a unit's rows are cut into bodies (P9.1, P11.1).
#include "hyp/sink/bodies.h"

#include "hyp/cache/cache_box.h"
#include "iceberg/parquet/arrow_schema.h"

namespace firn::hyp {
namespace {

iceberg::Schema text_schema() {
  return iceberg::Schema(
      {{.id = 1, .name = "t", .required = false, .type = iceberg::Type::primitive(iceberg::TypeId::string)}});
}

// Rows {"t":"…"} of `sizes` bytes as lines, with their numbers, in batches of `batch_rows`.
UnitRows make_rows(const std::vector<int64_t>& numbers, const std::vector<size_t>& sizes, size_t batch_rows) {
  std::vector<SequencedBatch> batches;
  for (size_t begin = 0; begin < numbers.size(); begin += batch_rows) {
    const size_t end = std::min(begin + batch_rows, numbers.size());
    arrow::StringBuilder builder;
    for (size_t i = begin; i < end; ++i) check(builder.Append(std::string(sizes[i] - 9, 'x')), "build");
    const auto array = check(builder.Finish(), "build");
    batches.push_back(
        {arrow::RecordBatch::Make(iceberg::to_arrow_schema(text_schema()), static_cast<int64_t>(end - begin), {array}),
         {numbers.begin() + static_cast<std::ptrdiff_t>(begin), numbers.begin() + static_cast<std::ptrdiff_t>(end)}});
  }
  return UnitRows(text_schema(), batches);
}

std::vector<std::vector<int64_t>> cut(const std::vector<int64_t>& numbers, const std::vector<size_t>& sizes,
                                      int64_t rows_max, int64_t bytes_max, size_t batch_rows = 3) {
  UnitRows rows = make_rows(numbers, sizes, batch_rows);
  BodyCutter cutter(rows, rows_max, bytes_max, [](int64_t, std::string_view) { return true; });
  std::vector<std::vector<int64_t>> bodies;
  while (const auto body = cutter.next()) {
    auto& some = bodies.emplace_back();
    size_t at = 0;
    for (const BodyRow& row : body->rows) {
      some.push_back(row.number);
      EXPECT_EQ(row.begin, at);
      at = row.end;
      EXPECT_EQ(body->text[at - 1], '\n');
    }
    EXPECT_EQ(body->text.size(), at);
  }
  return bodies;
}

using Bodies = std::vector<std::vector<int64_t>>;

TEST(Bodies, AreBoundedByRowsAndByBytesOfText) {
  const std::vector<int64_t> numbers = {1, 2, 3, 4, 5, 6, 7};
  const std::vector<size_t> sizes(7, 20);
  EXPECT_EQ(cut(numbers, sizes, 3, 1000), (Bodies{{1, 2, 3}, {4, 5, 6}, {7}}));
  EXPECT_EQ(cut(numbers, sizes, 100, 40), (Bodies{{1, 2}, {3, 4}, {5, 6}, {7}}));
  EXPECT_EQ(cut(numbers, sizes, 100, 39), (Bodies{{1}, {2}, {3}, {4}, {5}, {6}, {7}}));
  EXPECT_EQ(cut(numbers, {20, 50, 20, 20, 50, 20, 20}, 100, 60), (Bodies{{1}, {2}, {3, 4}, {5}, {6, 7}}));
}

TEST(Bodies, AreNeverCutBetweenEqualNumbers) {
  for (const size_t batch_rows : {1, 2, 3, 7}) {
    SCOPED_TRACE(batch_rows);
    const std::vector<size_t> sizes(7, 20);
    EXPECT_EQ(cut({1, 2, 3, 3, 3, 4, 5}, sizes, 3, 1000, batch_rows), (Bodies{{1, 2}, {3, 3, 3}, {4, 5}}));
    EXPECT_EQ(cut({1, 3, 3, 3, 3, 4, 5}, sizes, 3, 1000, batch_rows), (Bodies{{1}, {3, 3, 3, 3}, {4, 5}}))
        << "rows of one number go together, however many";
    EXPECT_EQ(cut({3, 3, 3, 3, 3, 3, 3}, sizes, 2, 1, batch_rows), (Bodies{{3, 3, 3, 3, 3, 3, 3}}));
  }
}

TEST(Bodies, LeaveOutWhatIsNotToBeSent) {
  UnitRows rows = make_rows({1, 2, 3, 4}, {20, 20, 20, 20}, 2);
  BodyCutter cutter(rows, 2, 1000, [](int64_t number, std::string_view line) {
    EXPECT_EQ(line.back(), '}');
    return number % 2 == 0;
  });
  const auto body = cutter.next();
  ASSERT_TRUE(body);
  EXPECT_EQ(body->rows.size(), 2u);
  EXPECT_EQ(body->rows[1].number, 4);
  EXPECT_FALSE(cutter.next());
}

}  // namespace
}  // namespace firn::hyp
