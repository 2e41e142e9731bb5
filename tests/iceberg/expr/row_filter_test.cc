// Filters on Arrow batches, beyond what the random ones cover.
#include "iceberg/expr/row_filter.h"

#include <gtest/gtest.h>

#include <arrow/api.h>
#include <arrow/compute/cast.h>

#include "base/arrow_status.h"
#include "base/error.h"
#include "iceberg/expr/rows.h"

namespace firn::iceberg {
namespace {

TypePtr prim(TypeId id) { return Type::primitive(id); }

std::vector<bool> matches(const char* text, const Schema& schema, const arrow::RecordBatch& batch) {
  const auto array = evaluate(*bind(*parse_expression(text), schema), batch);
  std::vector<bool> out;
  for (int64_t i = 0; i < array->length(); ++i) out.push_back(array->Value(i));
  return out;
}

TEST(RowFilter, AMemberOfANullStructIsNull) {
  const Schema schema(
      {{.id = 1, .name = "st", .type = Type::struct_of({{.id = 2, .name = "x", .type = prim(TypeId::int_)}})}});
  // The null struct hides a 5, as a file may.
  const std::vector<Row> rows = {
      {{false, {}, {Cell::of(5)}}}, {{true, {}, {Cell::of(5)}}}, {{false, {}, {Cell::of({})}}}};
  const auto batch = to_batch(schema, rows);
  EXPECT_EQ(matches("st.x = 5", schema, *batch), (std::vector<bool>{true, false, false}));
  EXPECT_EQ(matches("st.x is null", schema, *batch), (std::vector<bool>{false, true, true}));
  EXPECT_EQ(matches("st is null", schema, *batch), (std::vector<bool>{false, true, false}));
  EXPECT_EQ(matches("st.x = 5", schema, *batch->Slice(1)), (std::vector<bool>{false, false}));
}

TEST(RowFilter, FindsColumnsByIdNotByName) {  // cases.md 15
  const Schema old_file({{.id = 1, .name = "value", .type = prim(TypeId::string)},
                         {.id = 2, .name = "other", .type = prim(TypeId::string)}});
  const Schema now({{.id = 2, .name = "value", .type = prim(TypeId::string)}});
  const auto batch = to_batch(old_file, {{Cell::of("a"), Cell::of("b")}});
  EXPECT_EQ(matches("value = 'b'", now, *batch), (std::vector<bool>{true}));
  const Schema again({{.id = 3, .name = "value", .type = prim(TypeId::string)}});
  try {
    matches("value = 'a'", again, *batch);
    FAIL() << "a column of another id is not taken for it";
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::internal);
    EXPECT_NE(std::string(e.what()).find("value"), std::string::npos);
  }
}

TEST(RowFilter, ReadsColumnsOfOtherArrowTypesThroughACast) {
  const Schema ints({{.id = 1, .name = "x", .type = prim(TypeId::int_)}});
  const Schema longs({{.id = 1, .name = "x", .type = prim(TypeId::long_)}});
  EXPECT_EQ(matches("x > 3000000000 or x = 2", longs, *to_batch(ints, {{Cell::of(1)}, {Cell::of(2)}, {Cell::of({})}})),
            (std::vector<bool>{false, true, false}));

  const Schema strings({{.id = 1, .name = "x", .type = prim(TypeId::string)}});
  const auto plain = to_batch(strings, {{Cell::of("a")}, {Cell::of({})}, {Cell::of("b")}});
  const auto dictionary =
      check(arrow::compute::Cast(*plain->column(0), arrow::dictionary(arrow::int32(), arrow::utf8())), "cast");
  const auto field = plain->schema()->field(0)->WithType(dictionary->type());
  const auto batch = arrow::RecordBatch::Make(arrow::schema({field}), 3, {dictionary});
  EXPECT_EQ(matches("x = 'b'", strings, *batch), (std::vector<bool>{false, false, true}));

  const Schema nanos({{.id = 1, .name = "x", .type = prim(TypeId::timestamptz_ns)}});
  const Schema micros({{.id = 1, .name = "x", .type = prim(TypeId::timestamptz)}});
  EXPECT_EQ(matches("x >= '1970-01-02'", nanos,
                    *to_batch(micros, {{Cell::of(int64_t{86'400'000'000})}, {Cell::of(int64_t{1})}})),
            (std::vector<bool>{true, false}));
}

TEST(RowFilter, ListsMapsAndUnknownColumnsCanBeTestedForNull) {
  const Schema schema({{.id = 1, .name = "l", .type = Type::list_of(2, false, prim(TypeId::int_))},
                       {.id = 3, .name = "unk", .type = prim(TypeId::unknown)}});
  const auto batch = to_batch(schema, {{{false, {}, {}}, Cell()}, {Cell(), Cell()}});
  EXPECT_EQ(matches("l is null", schema, *batch), (std::vector<bool>{false, true}));
  EXPECT_EQ(matches("unk is null", schema, *batch), (std::vector<bool>{true, true}));
  EXPECT_EQ(matches("unk = 5 or l is not null", schema, *batch), (std::vector<bool>{true, false}));
}

TEST(RowFilter, EmptyAndAllNullBatchesAreFine) {
  const Schema schema({{.id = 1, .name = "s", .type = prim(TypeId::string)}});
  EXPECT_TRUE(matches("s = 'a'", schema, *to_batch(schema, {})).empty());
  EXPECT_EQ(matches("s != 'a'", schema, *to_batch(schema, {{Cell()}, {Cell()}})), (std::vector<bool>{false, false}));
  const auto nulls =
      arrow::RecordBatch::Make(to_batch(schema, {})->schema(), 2, {std::make_shared<arrow::NullArray>(2)});
  EXPECT_EQ(matches("s != 'a'", schema, *nulls), (std::vector<bool>{false, false}));
}

}  // namespace
}  // namespace firn::iceberg
