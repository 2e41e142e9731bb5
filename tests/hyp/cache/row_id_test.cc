#include "hyp/cache/row_id.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/hash.h"
#include "hyp/capture/row_parser.h"
#include "iceberg/type.h"

namespace firn::hyp {
namespace {

using iceberg::Field;
using iceberg::Type;
using iceberg::TypeId;

iceberg::TypePtr of(TypeId id) { return Type::primitive(id); }

std::string row_id(const std::string& line, const iceberg::Schema& schema) {
  const ParsedRows rows = parse_rows(line + "\n", schema, {});
  EXPECT_TRUE(rows.rejected.empty()) << rows.rejected[0].reason;
  return static_cast<const arrow::StringArray&>(*make_row_ids(*rows.batch)).GetString(0);
}

const iceberg::Schema kFlat({{1, "b", false, of(TypeId::string)}, {2, "a", false, of(TypeId::long_)}});

// Expected values: SHA-256 of the encoding written out by hand, from Python's hashlib.
TEST(RowId, IsTheSha256OfTheNamedValuesInOrderOfName) {
  EXPECT_EQ(row_id(R"({"b":"x","a":1})", kFlat), "0ac37505277935ffab0dcdeaf50de4364f41dc4ff3c0f008b44e0809b26c2609");
  EXPECT_EQ(row_id("{}", kFlat), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
}

TEST(RowId, CoversNestedValues) {
  const iceberg::Schema schema(
      {{1, "s", false, Type::struct_of({{3, "q", false, of(TypeId::double_)}, {4, "p", false, of(TypeId::long_)}})},
       {2, "l", false, Type::list_of(5, false, of(TypeId::long_))}});
  EXPECT_EQ(row_id(R"({"s":{"q":0.5,"p":5},"l":[1,null]})", schema),
            "d094a018652924db145a3a95ec2fce42c2ac39b168c335de510539453ec776bf");
}

TEST(RowId, CoversLongNamesAndTextsAndValuesOfEachKind) {
  const iceberg::Schema schema({{1, "yes", false, of(TypeId::boolean_)},
                                {2, "t", false, of(TypeId::timestamptz)},
                                {3, "sixteen_____", false, of(TypeId::string)},
                                {4, "a_name_of_more_than_a_word_or_two", false, of(TypeId::double_)}});
  const std::string line = fmt::format(
      R"({{"yes":true,"t":"2013-01-01T00:00:00Z","sixteen_____":"{}","a_name_of_more_than_a_word_or_two":-0.5}})",
      std::string(3000, 'x'));
  EXPECT_EQ(row_id(line, schema), "7d863354bc5273bf75d3eb3784d75e1e9bd3d2a6bbdfdcfd3144609e01b143b3");
}

TEST(RowId, StaysWhenColumnsAreReorderedAddedOrPromoted) {
  const iceberg::Schema later({{9, "c", false, of(TypeId::boolean_)},
                               {2, "a", false, of(TypeId::int_)},
                               {1, "b", false, of(TypeId::string)},
                               {3, "u", false, of(TypeId::unknown)}});
  EXPECT_EQ(row_id(R"({"a":1,"b":"x"})", kFlat), row_id(R"({"b":"x","a":1,"c":null})", later));
}

TEST(RowId, AMapHasNoOrder) {
  const iceberg::Schema schema({{1, "m", false, Type::map_of(2, of(TypeId::string), 3, false, of(TypeId::long_))}});
  EXPECT_EQ(row_id(R"({"m":{"x":1,"y":2}})", schema), row_id(R"({"m":{"y":2,"x":1}})", schema));
  EXPECT_NE(row_id(R"({"m":{"x":1,"y":2}})", schema), row_id(R"({"m":{"x":2,"y":1}})", schema));
}

TEST(RowId, TellsRowsApartThatJoinAlike) {
  const iceberg::Schema schema({{1, "a", false, of(TypeId::string)}, {2, "b", false, of(TypeId::string)}});
  EXPECT_NE(row_id(R"({"a":"xy","b":"z"})", schema), row_id(R"({"a":"x","b":"yz"})", schema));
  EXPECT_NE(row_id(R"({"a":"x"})", schema), row_id(R"({"b":"x"})", schema));
  EXPECT_NE(row_id(R"({"a":""})", schema), row_id("{}", schema));
}

TEST(RowId, EachRowOfABatchHasItsOwn) {
  const ParsedRows rows = parse_rows("{\"a\":1}\n{\"a\":2}\n{\"a\":1}\n", kFlat, {});
  const auto ids = std::static_pointer_cast<arrow::StringArray>(make_row_ids(*rows.batch->Slice(1)));
  ASSERT_EQ(ids->length(), 2);
  EXPECT_EQ(ids->GetString(1), row_id(R"({"a":1})", kFlat));
  EXPECT_NE(ids->GetString(0), ids->GetString(1));
}

}  // namespace
}  // namespace firn::hyp
