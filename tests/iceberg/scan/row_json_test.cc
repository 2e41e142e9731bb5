// Rows as JSON, spelled as the conformance collection's `encoding` says.
#include "iceberg/scan/json_text.h"
#include "iceberg/scan/test_table.h"
#include "iceberg/scan/variant_json.h"

namespace firn::iceberg {
namespace {

std::string spelled(const TypePtr& type, const std::string& arrow_json) {
  const Schema schema({optional(1, "c", type)});
  const auto array = *arrow::json::ArrayFromJSONString(to_arrow_type(*type), "[" + arrow_json + "]");
  std::string out;
  append_row_json(*arrow::RecordBatch::Make(to_arrow_schema(schema), 1, {array}), schema, 0, out);
  return out.substr(5, out.size() - 6);
}

TEST(RowJson, SpellsEachTypeAsTheEncodingSays) {
  const auto of = [](TypeId id) { return Type::primitive(id); };
  EXPECT_EQ(spelled(of(TypeId::boolean_), "true"), "true");
  EXPECT_EQ(spelled(of(TypeId::long_), "-9223372036854775808"), "-9223372036854775808");
  EXPECT_EQ(spelled(of(TypeId::double_), "-0.0"), R"("-0.0")");
  EXPECT_EQ(spelled(of(TypeId::double_), "NaN"), R"("NaN")");
  EXPECT_EQ(spelled(of(TypeId::double_), "-Inf"), R"("-Infinity")");
  EXPECT_EQ(spelled(of(TypeId::float_), "0.1"), R"("0.1")");
  EXPECT_EQ(spelled(Type::decimal(5, 2), R"("-0.07")"), R"("-0.07")");
  EXPECT_EQ(spelled(Type::decimal(38, 20), R"("0.00000000000000000001")"), R"("0.00000000000000000001")");
  EXPECT_EQ(spelled(Type::decimal(9, 0), R"("120")"), R"("120")");
  EXPECT_EQ(spelled(of(TypeId::date), "-719162"), R"("0001-01-01")");
  EXPECT_EQ(spelled(of(TypeId::time), "86399999999"), R"("23:59:59.999999")");
  EXPECT_EQ(spelled(of(TypeId::timestamp), "-1"), R"("1969-12-31T23:59:59.999999")");
  EXPECT_EQ(spelled(of(TypeId::timestamptz), "0"), R"("1970-01-01T00:00:00.000000+00:00")");
  EXPECT_EQ(spelled(of(TypeId::timestamp_ns), "-1"), R"("1969-12-31T23:59:59.999999999")");
  EXPECT_EQ(spelled(of(TypeId::timestamptz_ns), "1"), R"("1970-01-01T00:00:00.000000001+00:00")");
  EXPECT_EQ(spelled(of(TypeId::string), R"("a\"b\\c\u0001\né")"), R"("a\"b\\c\u0001\né")");
  EXPECT_EQ(spelled(of(TypeId::binary), R"("AZ")"), R"("415a")");
  EXPECT_EQ(spelled(Type::fixed(2), R"("AZ")"), R"("415a")");
  EXPECT_EQ(spelled(of(TypeId::uuid), R"("0123456789abcdef")"), R"("30313233-3435-3637-3839-616263646566")");
  EXPECT_EQ(spelled(of(TypeId::unknown), "null"), "null");
  EXPECT_EQ(spelled(of(TypeId::string), "null"), "null");
}

TEST(RowJson, NestsStructsListsAndMapsSortedByTheirText) {
  const TypePtr list = Type::list_of(2, false, int_type());
  const TypePtr map = Type::map_of(3, string_type(), 4, false, int_type());
  EXPECT_EQ(spelled(list, "[1,null,3]"), "[1,null,3]");
  EXPECT_EQ(spelled(list, "[]"), "[]");
  EXPECT_EQ(spelled(map, R"([["b",1],["a",null],["B",2]])"), R"([["B",2],["a",null],["b",1]])");
  EXPECT_EQ(spelled(Type::struct_of({optional(5, "x", list), optional(6, "y", map)}), R"({"x":[7],"y":null})"),
            R"({"x":[7],"y":null})");
}

// Bytes by hand from Parquet's VariantEncoding.md.
TEST(VariantJson, ReadsTheBinaryEncoding) {
  const auto json = [](std::initializer_list<int> metadata, std::initializer_list<int> value) {
    std::string out;
    append_variant_json(std::string(metadata.begin(), metadata.end()), std::string(value.begin(), value.end()), out);
    return out;
  };
  EXPECT_EQ(json({1, 0, 0}, {0x00}), R"({"t":"null"})");
  EXPECT_EQ(json({1, 0, 0}, {0x0c, 0xff}), R"({"t":"int8","v":-1})");
  EXPECT_EQ(json({1, 0, 0}, {0x20, 2, 0x39, 0x30, 0, 0}), R"({"t":"decimal4","v":"123.45"})");
  EXPECT_EQ(json({1, 0, 0}, {0x09, 'h', 'i'}), R"({"t":"string","v":"hi"})");
  EXPECT_EQ(json({1, 0, 0}, {0x03, 2, 0, 1, 2, 0x04, 0x08}),
            R"({"t":"array","v":[{"t":"boolean_true","v":true},{"t":"boolean_false","v":false}]})");
  EXPECT_EQ(json({1, 2, 0, 1, 2, 'a', 'b'}, {0x02, 2, 0, 1, 1, 0, 2, 0x04, 0x00}),
            R"({"t":"object","v":{"a":{"t":"null"},"b":{"t":"boolean_true","v":true}}})");
}

TEST(VariantJson, RefusesBytesThatBreakTheEncoding) {
  const std::string metadata(
      "\x01\x01\x00\x01"
      "a",
      5);
  for (const std::string& value :
       {std::string(), std::string("\x02\x01\x00\x00\x01", 5), std::string("\x02\x01\x05\x00\x01\x00", 6),
        std::string("\x40\xff\xff\xff\xff", 5), std::string("\x03\xff", 2), std::string("\x09h", 2)}) {
    std::string out;
    EXPECT_THROW(append_variant_json(metadata, value, out), Error);
  }
  // Children that all lie at the same bytes, level by level, would have 2^30 values in 151 bytes.
  std::string bomb(1, '\0');
  for (int level = 0; level < 30; ++level) bomb = std::string("\x03\x02\x00\x00\x01", 5) + bomb;
  std::string out;
  EXPECT_THROW(append_variant_json(metadata, bomb, out), Error);
}

}  // namespace
}  // namespace firn::iceberg
