#include "hyp/capture/row_parser.h"

#include <random>

#include <arrow/api.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/civil_time.h"
#include "base/json.h"
#include "hyp/type_text.h"
#include "support/test_seed.h"

namespace firn::hyp {
namespace {

using iceberg::Field;
using iceberg::Schema;
using ::testing::HasSubstr;

// "name: type", a '!' after the name makes it required.
Schema schema_of(const std::vector<std::pair<std::string, std::string>>& columns) {
  std::vector<Field> fields;
  int32_t next_id = 1;
  for (auto [name, type] : columns) {
    const bool required = name.ends_with('!');
    if (required) name.pop_back();
    const int32_t id = next_id++;
    fields.push_back(Field{.id = id, .name = name, .required = required, .type = parse_type(type, next_id)});
  }
  return Schema(std::move(fields));
}

ParsedRows parse(const std::string& text, const Schema& schema, const RowParserOptions& options = {}) {
  ParsedRows rows = parse_rows(text, schema, options);
  EXPECT_EQ(rows.batch->num_rows(), static_cast<int64_t>(rows.row_offsets.size()));
  const arrow::Status status = rows.batch->ValidateFull();
  EXPECT_TRUE(status.ok()) << status.ToString();
  return rows;
}

std::string cell(const ParsedRows& rows, const std::string& column, int64_t row) {
  const auto array = rows.batch->GetColumnByName(column);
  return array->IsNull(row) ? "null" : array->GetScalar(row).ValueOrDie()->ToString();
}

// The reason for which `line` is rejected, "column: reason" where it names one; "" if it is not.
std::string rejection(const std::string& line, const Schema& schema, const RowParserOptions& options = {}) {
  const ParsedRows rows = parse("{}\n" + line + "\n{}\n", schema, options);
  if (rows.rejected.empty()) return "";
  EXPECT_EQ(rows.batch->num_rows(), 2);
  EXPECT_EQ(rows.rejected.size(), 1U);
  EXPECT_EQ(rows.rejected[0].offset, 3);
  EXPECT_EQ(rows.rejected[0].line_index, 1);
  return rows.rejected[0].column.empty() ? rows.rejected[0].reason
                                         : rows.rejected[0].column + ": " + rows.rejected[0].reason;
}

TEST(RowParser, GoodRowsAreKeptAndBadOnesNamedByLine) {
  const Schema schema = schema_of({{"a", "long"}, {"b", "string"}});
  const ParsedRows rows =
      parse("{\"a\":1,\"b\":\"x\"}\n\n{\"a\":\"no\"}\r\n   \n{\"b\":\"y\",\"a\":2}\r\n{\"a\":3", schema);
  ASSERT_EQ(rows.batch->num_rows(), 2);
  EXPECT_EQ(cell(rows, "a", 1), "2");
  EXPECT_EQ(cell(rows, "b", 1), "y");
  EXPECT_EQ(rows.row_offsets, (std::vector<int64_t>{0, 33}));
  ASSERT_EQ(rows.rejected.size(), 2U);
  EXPECT_EQ(rows.rejected[0].line_index, 2);
  EXPECT_EQ(rows.rejected[0].column, "a");
  EXPECT_EQ(rows.rejected[1].line_index, 5);
  EXPECT_THAT(rows.rejected[1].reason, HasSubstr("malformed JSON at byte 7: the line ends too early"));
}

TEST(RowParser, KeysThatDifferInOneByteAreToldApartWhereverItIs) {
  for (size_t size = 1; size <= 26; ++size) {
    for (size_t at = 0; at < size; ++at) {
      const std::string one(size, 'k');
      std::string other = one;
      other[at] = 'x';
      // The first key of a line is looked for where the line before had it.
      const ParsedRows rows = parse(fmt::format("{{\"{0}\":1,\"{1}\":2}}\n{{\"{1}\":4,\"{0}\" : 3}}\n", one, other),
                                    schema_of({{one, "long"}, {other, "long"}}));
      ASSERT_EQ(rows.batch->num_rows(), 2) << one << " " << other;
      EXPECT_EQ(cell(rows, one, 0) + cell(rows, other, 0) + cell(rows, one, 1) + cell(rows, other, 1), "1234")
          << one << " " << other;
    }
  }
}

TEST(RowParser, NoTextIsNoRows) {
  EXPECT_EQ(parse("", schema_of({{"a", "long"}})).batch->num_rows(), 0);
  EXPECT_EQ(parse("\n\r\n \n", schema_of({{"a", "long"}})).batch->num_rows(), 0);
  EXPECT_EQ(parse("{}\n{}", Schema()).batch->num_rows(), 2);
}

TEST(RowParser, TextThatIsNoJsonObjectIsRejected) {
  const Schema schema = schema_of({{"a", "long"}, {"s", "string"}, {"d", "double"}, {"b", "boolean"}});
  for (const std::string line : {"{",
                                 "{\"a\"",
                                 "{\"a\":",
                                 "{\"a\":1",
                                 "{\"a\":1,",
                                 "{\"a\":1,}",
                                 "{\"a\":1 \"s\":\"\"}",
                                 "{a:1}",
                                 "{'a':1}",
                                 "{\"a\":01}",
                                 "{\"a\":+1}",
                                 "{\"a\":-}",
                                 "{\"d\":.5}",
                                 "{\"d\":5.}",
                                 "{\"d\":1e}",
                                 "{\"d\":1e+}",
                                 "{\"d\":NaN}",
                                 "{\"d\":Infinity}",
                                 "{\"d\":-Infinity}",
                                 "{\"b\":tru}",
                                 "{\"b\":True}",
                                 "{\"b\":truex}",
                                 "{\"a\":nul}",
                                 "{\"s\":\"x}",
                                 "{\"s\":\"\\x\"}",
                                 "{\"s\":\"\\u12\"}",
                                 "{\"s\":\"tab\there\"}",
                                 "{\"s\":\"\\\"}",
                                 "{} {}",
                                 "{}x",
                                 "x",
                                 "{\"new\":[1,]}",
                                 "{\"new\":{\"x\"}}",
                                 "{\"new\":[1 2]}",
                                 "{\"new\":\"\\q\"}",
                                 "{\"a\":1}}",
                                 "]"}) {
    EXPECT_THAT(rejection(line, schema), HasSubstr("malformed JSON at byte ")) << line;
  }
  for (const std::string line : {"[]", "1", "\"x\"", "null", "true", "[{\"a\":1}]"}) {
    EXPECT_THAT(rejection(line, schema), HasSubstr("expected an object")) << line;
  }
}

TEST(RowParser, InvalidUtf8IsRejectedWhereverItStands) {
  const Schema schema = schema_of({{"s", "string"}});
  for (const std::string bytes : {"\xff", "\xc3", "\xc0\xaf", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\x80"}) {
    EXPECT_EQ(rejection("{\"s\":\"" + bytes + "\"}", schema), "invalid UTF-8");
    EXPECT_EQ(rejection("{\"" + bytes + "\":1}", schema), "invalid UTF-8");
  }
  EXPECT_EQ(cell(parse("{\"s\":\"\xf0\x9f\x98\x80 ü\"}", schema), "s", 0), "\xf0\x9f\x98\x80 ü");
}

TEST(RowParser, EscapesAreResolvedAndLoneSurrogatesRejected) {
  const Schema schema = schema_of({{"s", "string"}, {"ke\"y", "long"}});
  EXPECT_EQ(cell(parse(R"({"s":"\"\\\/\b\f\n\r\tA\u00fc\u20ac\ud83d\ude00"})", schema), "s", 0),
            "\"\\/\b\f\n\r\tAü€😀");
  EXPECT_EQ(cell(parse(R"({"s":"\u0000"})", schema), "s", 0), std::string(1, '\0'));
  EXPECT_EQ(cell(parse(R"({"ke\"y":1})", schema), "ke\"y", 0), "1");
  EXPECT_EQ(cell(parse(R"({"\u0073":"x"})", schema), "s", 0), "x");
  for (const std::string text : {"\\ud83d", "\\ude00", "\\ud83dx", "\\ud83d\\n", "\\ud83d\\ud83d", "\\ude00\\ud83d"}) {
    EXPECT_THAT(rejection("{\"s\":\"" + text + "\"}", schema), HasSubstr("surrogate")) << text;
    EXPECT_THAT(rejection("{\"new\":{\"" + text + "\":1}}", schema), HasSubstr("surrogate")) << text;
  }
}

TEST(RowParser, ALongLineIsRejected) {
  const Schema schema = schema_of({{"s", "string"}});
  const std::string ten_megabytes = "{\"s\":\"" + std::string(10 << 20, 'x') + "\"}";
  EXPECT_THAT(rejection(ten_megabytes, schema), HasSubstr("longer than 8388608 bytes"));
  EXPECT_EQ(rejection(ten_megabytes, schema, {.row_bytes_max = 11 << 20}), "");
}

TEST(RowParser, DuplicateKeysAreRejectedAtAnyDepth) {
  const Schema schema =
      schema_of({{"a", "long"}, {"s", "struct<x: long, y: list<struct<z: long>>>"}, {"m", "map<string, long>"}});
  EXPECT_EQ(rejection(R"({"a":1,"a":1})", schema), "a: the key \"a\" occurs twice");
  EXPECT_EQ(rejection(R"({"a":null,"\u0061":1})", schema), "a: the key \"a\" occurs twice");
  EXPECT_EQ(rejection(R"({"s":{"x":1,"x":1}})", schema), "s.x: the key \"x\" occurs twice");
  EXPECT_EQ(rejection(R"({"s":{"y":[{"z":1},{"z":1,"z":2}]}})", schema), "s.y.element.z: the key \"z\" occurs twice");
  EXPECT_EQ(rejection(R"({"m":{"k":1,"l":2,"\u006b":3}})", schema), "m: the key \"k\" occurs twice");
  EXPECT_EQ(rejection(R"({"new":1,"new":2})", schema), "new: the key \"new\" occurs twice");
  EXPECT_EQ(rejection(R"({"new":[{"q":{"r":1,"r":1}}]})", schema), "the key \"r\" occurs twice");
  EXPECT_EQ(rejection(R"({"s":{"y":[{"z":1},{"z":1}]}})", schema), "");
}

TEST(RowParser, ValuesOfAnotherTypeNameColumnExpectedAndFound) {
  const Schema schema = schema_of({{"l", "long"},
                                   {"s", "string"},
                                   {"b", "boolean"},
                                   {"d", "double"},
                                   {"t", "timestamptz"},
                                   {"st", "struct<x: int>"},
                                   {"li", "list<long>"},
                                   {"m", "map<string, long>"}});
  EXPECT_EQ(rejection(R"({"l":"7"})", schema), "l: expected long, found the string \"7\"");
  EXPECT_EQ(rejection(R"({"l":1.5})", schema), "l: expected long, found 1.5");
  EXPECT_EQ(rejection(R"({"l":true})", schema), "l: expected long, found true");
  EXPECT_EQ(rejection(R"({"l":{}})", schema), "l: expected long, found an object");
  EXPECT_EQ(rejection(R"({"l":[1]})", schema), "l: expected long, found an array");
  EXPECT_EQ(rejection(R"({"s":1})", schema), "s: expected string, found 1");
  EXPECT_EQ(rejection(R"({"b":1})", schema), "b: expected boolean, found 1");
  EXPECT_EQ(rejection(R"({"b":"true"})", schema), "b: expected boolean, found the string \"true\"");
  EXPECT_EQ(rejection(R"({"d":"1.0"})", schema), "d: expected double, found the string \"1.0\"");
  EXPECT_THAT(rejection(R"({"t":"yesterday"})", schema), HasSubstr("t: expected timestamptz"));
  EXPECT_THAT(rejection(R"({"t":"2024-02-29T12:00:00.123456789Z"})", schema),
              testing::AllOf(HasSubstr("more than 6 digits of a second"), HasSubstr("timestamptz_ns")));
  EXPECT_THAT(rejection(R"({"st":{"x":"y"}})", schema), HasSubstr("st.x: expected int"));
  EXPECT_THAT(rejection(R"({"st":[]})", schema), HasSubstr("found an array"));
  EXPECT_THAT(rejection(R"({"li":{"0":1}})", schema), HasSubstr("found an object"));
  EXPECT_THAT(rejection(R"({"li":[1,"x"]})", schema), HasSubstr("li.element: expected long"));
  EXPECT_THAT(rejection(R"({"m":{"k":"x"}})", schema), HasSubstr("m.value: expected long"));
  EXPECT_THAT(rejection("{\"l\":\"" + std::string(100, 'x') + "\"}", schema), HasSubstr("xxx…"));
}

TEST(RowParser, IntegersBeyondTheirColumnAreRejected) {
  const Schema schema =
      schema_of({{"i", "int"}, {"l", "long"}, {"d", "double"}, {"f", "float"}, {"n", "decimal(38,0)"}});
  const ParsedRows rows = parse(
      R"({"i":2147483647,"l":9223372036854775807,"d":9223372036854775808,"n":99999999999999999999999999999999999999}
{"i":-2147483648,"l":-9223372036854775808,"d":-123456789012345680000000000000,"n":-9223372036854775809}
{"i":1.0,"l":1e3,"d":5,"f":16777216}
{"i":-0,"l":-0.0,"d":-0.0,"f":1e-400})",
      schema);
  EXPECT_TRUE(rows.rejected.empty());
  EXPECT_EQ(cell(rows, "l", 0), "9223372036854775807");
  EXPECT_EQ(cell(rows, "l", 1), "-9223372036854775808");
  EXPECT_EQ(cell(rows, "n", 0), "99999999999999999999999999999999999999");
  EXPECT_EQ(cell(rows, "n", 1), "-9223372036854775809");
  EXPECT_EQ(cell(rows, "i", 2), "1");
  EXPECT_EQ(cell(rows, "l", 2), "1000");
  EXPECT_EQ(cell(rows, "l", 3), "0");
  const auto doubles = std::static_pointer_cast<arrow::DoubleArray>(rows.batch->GetColumnByName("d"));
  EXPECT_EQ(doubles->Value(0), 9223372036854775808.0);
  EXPECT_EQ(doubles->Value(1), -123456789012345680000000000000.0);
  EXPECT_TRUE(std::signbit(doubles->Value(3)));
  const auto floats = std::static_pointer_cast<arrow::FloatArray>(rows.batch->GetColumnByName("f"));
  EXPECT_EQ(floats->Value(2), 16777216.0F);
  EXPECT_EQ(floats->Value(3), 0.0F);
  EXPECT_THAT(rejection(R"({"l":9223372036854775808})", schema),
              HasSubstr("l: expected long, found 9223372036854775808"));
  EXPECT_THAT(rejection(R"({"l":-9223372036854775809})", schema), HasSubstr("l: expected long"));
  EXPECT_THAT(rejection(R"({"l":18446744073709551616})", schema), HasSubstr("l: expected long"));
  EXPECT_THAT(rejection(R"({"l":1e30})", schema), HasSubstr("l: expected long"));
  EXPECT_THAT(rejection(R"({"l":9007199254740992.5})", schema), HasSubstr("l: expected long"));
  EXPECT_THAT(rejection(R"({"i":2147483648})", schema), HasSubstr("i: expected int"));
  EXPECT_THAT(rejection(R"({"i":-2147483649})", schema), HasSubstr("i: expected int"));
  EXPECT_THAT(rejection(R"({"d":1e400})", schema), HasSubstr("d: expected double"));
  EXPECT_THAT(rejection(R"({"f":1e39})", schema), HasSubstr("f: expected float"));
  EXPECT_THAT(rejection(R"({"n":100000000000000000000000000000000000000})", schema), HasSubstr("n: expected decimal"));
  EXPECT_THAT(rejection(R"({"n":0.5})", schema), HasSubstr("n: expected decimal"));
}

TEST(RowParser, AnIntegerThatADoubleOrFloatWouldChangeIsRejected) {
  const Schema schema = schema_of({{"d", "double"}, {"f", "float"}});
  // Exact, or the digits that such a number is printed with; fractions and exponents are approximations anyway.
  for (const std::string good : {R"("d":9007199254740992)", R"("d":9007199254740994)", R"("d":9223372036854775808)",
                                 R"("d":12345678901234567000)", R"("d":-100000000000000000000000)", R"("d":1e23)",
                                 R"("d":9007199254740993.0)", R"("d":0.1)", R"("d":0)", R"("d":-0)", R"("f":16777216)",
                                 R"("f":123456790)", R"("f":0.1)", R"("f":3.4028235e38)", R"("f":-3.4028235e38)"}) {
    EXPECT_EQ(rejection("{" + good + "}", schema), "") << good;
  }
  for (const std::string bad : {R"("d":9007199254740993)", R"("d":-9007199254740993)", R"("d":9223372036854775809)",
                                R"("d":123456789012345678901234567890)", R"("f":16777217)", R"("f":123456789)"}) {
    EXPECT_THAT(rejection("{" + bad + "}", schema), HasSubstr("decimal(38,0) or string")) << bad;
  }
  EXPECT_THAT(rejection(R"({"f":3.5e38})", schema), HasSubstr("f: expected float"));
}

TEST(RowParser, ANumberInATimestampColumnMustBeOfItsUnit) {
  const Schema schema = schema_of({{"ts", "timestamp"}, {"tz", "timestamptz"}, {"tn", "timestamptz_ns"}});
  EXPECT_EQ(rejection(R"({"ts":1796000000000000,"tz":100000000000000,"tn":1796000000000000000})", schema), "");
  // Seconds, milliseconds, nanoseconds; microseconds; and what no unit makes a time of ours.
  for (const std::string number : {"1796000000", "1796000000000", "1796000000000000000", "0", "-1", "99999999999999"}) {
    for (const std::string column : {"ts", "tz"}) {
      EXPECT_THAT(
          rejection(fmt::format(R"({{"{}":{}}})", column, number), schema),
          testing::AllOf(HasSubstr(column + ": expected timestamp"), HasSubstr("microseconds"), HasSubstr("ISO 8601")))
          << number;
    }
  }
  EXPECT_THAT(rejection(R"({"tn":1796000000000000})", schema), HasSubstr("nanoseconds"));
}

TEST(RowParser, AColumnsNameHasNoNul) {
  const Schema schema = schema_of({{"a", "long"}});
  EXPECT_THAT(rejection(R"({"a\u0000b":2})", schema), HasSubstr("NUL"));
}

TEST(RowParser, ReasonsSpellTypesAsConfigurationsDo) {
  const Schema schema = schema_of({{"s", "struct<host: string, ports: list<int>>"}});
  EXPECT_THAT(rejection(R"({"s":1})", schema),
              HasSubstr("s: expected struct<host: string, ports: list<int>>, found 1"));
}

TEST(RowParser, ValuesSpelledAsStringsBecomeTheirColumnsType) {
  const Schema schema = schema_of({{"da", "date"},
                                   {"ti", "time"},
                                   {"ts", "timestamp"},
                                   {"tz", "timestamptz"},
                                   {"tn", "timestamptz_ns"},
                                   {"de", "decimal(9,2)"},
                                   {"u", "uuid"},
                                   {"bi", "binary"},
                                   {"fi", "fixed[2]"}});
  const ParsedRows rows = parse(
      R"({"da":"1969-12-31","ti":"23:59:59.000001","ts":"1970-01-01T00:00:01Z","tz":"1970-01-01T01:00:00+01:00","tn":"1970-01-01T00:00:00.000000001Z","de":"-1.28","u":"00112233-4455-6677-8899-aabbccddeeff","bi":"AAH/","fi":"AQI="}
{"ts":"1970-01-01 00:00:01","tz":"1970-01-01T00:00:00","ts":null,"de":12})",
      schema);
  EXPECT_EQ(rows.rejected.size(), 1U);  // "ts" twice
  const ParsedRows more = parse(R"({"ts":1709164800000001,"tz":1709164800000000,"de":1.5e1,"bi":""}
{"ts":"1970-01-01T00:00:01.5","de":"12.30"})",
                                schema);
  ASSERT_TRUE(more.rejected.empty());
  const auto value = [](const ParsedRows& parsed, const std::string& column, int64_t row) {
    return std::static_pointer_cast<arrow::Int64Array>(
               parsed.batch->GetColumnByName(column)->View(arrow::int64()).ValueOrDie())
        ->Value(row);
  };
  EXPECT_EQ(std::static_pointer_cast<arrow::Date32Array>(rows.batch->GetColumnByName("da"))->Value(0), -1);
  EXPECT_EQ(value(rows, "ti", 0), 86'399'000'001);
  EXPECT_EQ(value(rows, "ts", 0), 1'000'000);
  EXPECT_EQ(value(rows, "tz", 0), 0);
  EXPECT_EQ(value(rows, "tn", 0), 1);
  EXPECT_EQ(cell(rows, "de", 0), "-1.28");
  EXPECT_EQ(std::static_pointer_cast<arrow::FixedSizeBinaryArray>(rows.batch->GetColumnByName("u"))->GetView(0),
            std::string("\x00\x11\x22\x33\x44\x55\x66\x77\x88\x99\xaa\xbb\xcc\xdd\xee\xff", 16));
  EXPECT_EQ(std::static_pointer_cast<arrow::BinaryArray>(rows.batch->GetColumnByName("bi"))->GetView(0),
            std::string("\x00\x01\xff", 3));
  EXPECT_EQ(std::static_pointer_cast<arrow::FixedSizeBinaryArray>(rows.batch->GetColumnByName("fi"))->GetView(0),
            "\x01\x02");
  EXPECT_EQ(value(more, "ts", 0), 1'709'164'800'000'001);
  EXPECT_EQ(value(more, "tz", 0), 1'709'164'800'000'000);
  EXPECT_EQ(cell(more, "de", 0), "15.00");
  EXPECT_EQ(value(more, "ts", 1), 1'500'000);
  EXPECT_EQ(cell(more, "de", 1), "12.30");
  for (const std::string bad :
       {R"("da":"2023-02-29")", R"("da":5)", R"("ti":"24:00:00")", R"("ts":"1970-01-01T00:00:00+01:00")", R"("tz":1.5)",
        R"("tz":"1970-01-01T00:00:60Z")", R"("de":"1.285")", R"("de":"12345678")", R"("de":"1.")", R"("de":"x")",
        R"("u":"0011")", R"("bi":"AAH")", R"("bi":"A===")", R"("bi":"A?==")", R"("fi":"AQIC")"}) {
    EXPECT_NE(rejection("{" + bad + "}", schema), "") << bad;
  }
  EXPECT_THAT(rejection(R"({"ts":"1970-01-01T00:00:00+00:00"})", schema), HasSubstr("no offset but Z"));
}

TEST(RowParser, NestedColumnsHoldStructsListsAndMapsAtAnyDepth) {
  const Schema schema = schema_of({{"s", "struct<a: long, b: list<map<string, struct<c: string>>>>"}});
  const ParsedRows rows = parse(R"({"s":{"a":1,"b":[{"k":{"c":"x"},"l":null},{},null]}}
{"s":{"b":[]}}
{"s":null}
{}
{"s":{"b":[{"k":{"c":1}}]}}
{"s":{"a":2,"b":[{"m":{}}]}})",
                                schema);
  ASSERT_EQ(rows.rejected.size(), 1U);
  EXPECT_EQ(rows.rejected[0].column, "s.b.element.value.c");
  ASSERT_EQ(rows.batch->num_rows(), 5);
  const auto& s = static_cast<const arrow::StructArray&>(*rows.batch->column(0));
  EXPECT_EQ(s.null_count(), 2);
  const auto& b = static_cast<const arrow::ListArray&>(*s.field(1));
  EXPECT_EQ(b.value_length(0), 3);
  EXPECT_EQ(b.value_length(1), 0);
  EXPECT_FALSE(b.IsNull(1));
  EXPECT_EQ(b.value_length(4), 1);
  const auto& maps = static_cast<const arrow::MapArray&>(*b.values());
  ASSERT_EQ(maps.length(), 4);
  EXPECT_EQ(maps.value_length(0), 2);
  EXPECT_EQ(maps.value_length(1), 0);
  EXPECT_TRUE(maps.IsNull(2));
  EXPECT_EQ(static_cast<const arrow::StringArray&>(*maps.keys()).GetView(2), "m");
  EXPECT_EQ(maps.items()->null_count(), 1);
}

TEST(RowParser, RequiredColumnsMustBeThere) {
  const Schema schema = schema_of({{"a!", "long"}, {"b", "struct<c: long>"}});
  const ParsedRows rows = parse("{\"a\":1}\n{\"a\":null}\n{\"b\":{\"c\":1}}\n{\"a\":2}", schema);
  EXPECT_EQ(rows.batch->num_rows(), 2);
  ASSERT_EQ(rows.rejected.size(), 2U);
  EXPECT_EQ(rows.rejected[0].reason, "the column is required and null");
  EXPECT_EQ(rows.rejected[1].reason, "the column is required and missing");
  EXPECT_EQ(rows.rejected[1].column, "a");
}

TEST(RowParser, NewColumnsAreReportedOnceTheyDecideAType) {
  const Schema schema = schema_of({{"a", "long"}, {"s", "struct<x: long>"}});
  EXPECT_FALSE(parse(R"({"a":1,"new":null,"list":[],"object":{"x":[null]}})", schema).has_new_columns);
  EXPECT_FALSE(parse(R"({"a":"wrong","new":1})", schema).has_new_columns);
  EXPECT_TRUE(parse(R"({"a":1,"new":0})", schema).has_new_columns);
  EXPECT_TRUE(parse(R"({"s":{"y":true}})", schema).has_new_columns);
  EXPECT_TRUE(parse(R"({"new":{"x":["y"]}})", schema).has_new_columns);
  const ParsedRows rows = parse(R"({"new":{"x":1},"a":5})", schema);
  EXPECT_EQ(cell(rows, "a", 0), "5");
  EXPECT_EQ(rows.batch->num_columns(), 2);
  EXPECT_THAT(rejection(R"({"new":0})", schema, {.new_columns_rejected = true}), HasSubstr("new: "));
  EXPECT_THAT(rejection(R"({"new":[]})", schema, {.new_columns_rejected = true}), HasSubstr("new: "));
  EXPECT_THAT(rejection(R"({"s":{"y":1}})", schema, {.new_columns_rejected = true}), HasSubstr("s.y: "));
}

TEST(RowParser, ANullColumnThatIsNotTakenIsAsGoodAsAbsent) {
  const Schema schema = schema_of({{"a", "long"}, {"s", "struct<x: long>"}});
  const RowParserOptions strict = {.new_columns_rejected = true};
  const ParsedRows rows = parse(R"({"new":null,"a":5,"s":{"y":null,"x":1}})", schema, strict);
  EXPECT_EQ(cell(rows, "a", 0), "5");
  EXPECT_FALSE(rows.has_new_columns);
  EXPECT_EQ(rows.rejected.size(), 0u);
  EXPECT_THAT(rejection(R"({"new":nul})", schema, strict), HasSubstr("expected a value"));
  EXPECT_THAT(rejection(R"({"new":null,"new":null})", schema, strict), HasSubstr("twice"));
  EXPECT_THAT(rejection(R"({"_hyp_x":null})", schema, strict), HasSubstr("reserved"));
}

TEST(RowParser, ReservedAndCollidingNamesAreRejected) {
  const Schema schema = schema_of({{"Name", "long"}, {"_hyp_ingest_seq", "long"}});
  EXPECT_THAT(rejection(R"({"_hyp_ingest_seq":1})", schema), HasSubstr("reserved"));
  EXPECT_THAT(rejection(R"({"_hyp_new":1})", schema), HasSubstr("reserved"));
  EXPECT_THAT(rejection(R"({"name":1})", schema), HasSubstr("\"Name\" only in case"));
  EXPECT_THAT(rejection(R"({"Name":1,"NAME":1})", schema), HasSubstr("only in case"));
  EXPECT_THAT(rejection(R"({"x":1,"X":1})", schema), HasSubstr("only in case"));
  EXPECT_THAT(rejection(R"({"":1})", schema), HasSubstr("without a name"));
  EXPECT_EQ(cell(parse("{\"Name\":1}", schema), "_hyp_ingest_seq", 0), "null");
}

TEST(RowParser, DeepNestingIsRejected) {
  const Schema schema = schema_of({{"a", "list<long>"}});
  EXPECT_THAT(rejection("{\"new\":" + std::string(100'000, '[') + std::string(100'000, ']') + "}", schema),
              HasSubstr("too deeply"));
  EXPECT_THAT(rejection("{\"a\":" + std::string(100'000, '['), schema), HasSubstr("too deeply"));
  EXPECT_EQ(rejection("{\"new\":" + std::string(31, '[') + std::string(31, ']') + "}", schema), "");
  EXPECT_THAT(rejection("{\"new\":" + std::string(60, '[') + "1" + std::string(60, ']') + "}", schema),
              HasSubstr("too deeply"));
}

// --- against nlohmann/json ---

class RandomRows {
 public:
  explicit RandomRows(uint64_t seed) : random_(seed) {}

  size_t below(size_t limit) { return random_() % limit; }
  std::string text() {
    static const std::vector<std::string> parts = {
        "a", "Z", " ", "\"", "\\", "/", "\n", "\t", "ü", "€", "😀", "\x01", "0123456789abcdef", "{", "]", ","};
    std::string out;
    for (size_t n = below(12); n > 0; --n) out += parts[below(parts.size())];
    return out;
  }
  Json number(bool fraction) {
    const auto bits = static_cast<int64_t>(random_());
    const int64_t integer = bits >> below(63);
    if (!fraction) return integer;
    // Integers that a double keeps: others are rejected.
    return below(2) == 0 ? Json(static_cast<double>(integer) / static_cast<double>(1 + below(1000)))
                         : Json(integer >> 11);
  }
  Json value(const iceberg::Type& type) {
    if (below(8) == 0) return nullptr;
    switch (type.id()) {
      case iceberg::TypeId::long_:
        return number(false);
      case iceberg::TypeId::double_:
        return number(true);
      case iceberg::TypeId::boolean_:
        return below(2) == 0;
      case iceberg::TypeId::string:
        return text();
      case iceberg::TypeId::struct_:
        return object(type.fields());
      case iceberg::TypeId::list: {
        Json list = Json::array();
        for (size_t n = below(4); n > 0; --n) list.push_back(value(*type.element().type));
        return list;
      }
      default: {
        Json map = Json::object();
        for (size_t n = below(4); n > 0; --n) map[text()] = value(*type.value().type);
        return map;
      }
    }
  }
  Json object(const std::vector<Field>& fields) {
    std::vector<size_t> order(fields.size());
    for (size_t i = 0; i < order.size(); ++i) order[i] = i;
    if (below(3) == 0) std::shuffle(order.begin(), order.end(), random_);
    Json out = Json::object();
    for (const size_t i : order) {
      if (below(10) != 0) out[fields[i].name] = value(*fields[i].type);
    }
    return out;
  }

 private:
  std::mt19937_64 random_;
};

// Value `index` of `array` as JSON, missing struct fields as null.
Json value_of(const arrow::Array& array, int64_t index) {
  if (array.IsNull(index)) return nullptr;
  switch (array.type_id()) {
    case arrow::Type::INT64:
      return static_cast<const arrow::Int64Array&>(array).Value(index);
    case arrow::Type::DOUBLE:
      return static_cast<const arrow::DoubleArray&>(array).Value(index);
    case arrow::Type::BOOL:
      return static_cast<const arrow::BooleanArray&>(array).Value(index);
    case arrow::Type::STRING:
      return std::string(static_cast<const arrow::StringArray&>(array).GetView(index));
    case arrow::Type::STRUCT: {
      const auto& structure = static_cast<const arrow::StructArray&>(array);
      Json out = Json::object();
      for (int i = 0; i < structure.num_fields(); ++i)
        out[structure.type()->field(i)->name()] = value_of(*structure.field(i), index);
      return out;
    }
    case arrow::Type::LIST: {
      const auto& list = static_cast<const arrow::ListArray&>(array);
      Json out = Json::array();
      for (int64_t i = list.value_offset(index); i < list.value_offset(index + 1); ++i)
        out.push_back(value_of(*list.values(), i));
      return out;
    }
    default: {
      const auto& map = static_cast<const arrow::MapArray&>(array);
      Json out = Json::object();
      for (int64_t i = map.value_offset(index); i < map.value_offset(index + 1); ++i) {
        out[std::string(static_cast<const arrow::StringArray&>(*map.keys()).GetView(i))] = value_of(*map.items(), i);
      }
      return out;
    }
  }
}

// `json` with every field of `fields`, in their order, null where it lacks one; doubles as doubles.
Json normalized(const Json& json, const iceberg::Type& type) {
  if (json.is_null()) return nullptr;
  switch (type.id()) {
    case iceberg::TypeId::double_:
      return json.get<double>();
    case iceberg::TypeId::struct_: {
      Json out = Json::object();
      for (const Field& field : type.fields())
        out[field.name] = json.contains(field.name) ? normalized(json[field.name], *field.type) : Json();
      return out;
    }
    case iceberg::TypeId::list: {
      Json out = Json::array();
      for (const Json& item : json) out.push_back(normalized(item, *type.element().type));
      return out;
    }
    case iceberg::TypeId::map: {
      Json out = Json::object();
      for (const auto& [key, item] : json.items()) out[key] = normalized(item, *type.value().type);
      return out;
    }
    default:
      return json;
  }
}

TEST(RowParserProperty, RandomRowsReadAsNlohmannReadsThem) {
  const Schema schema = schema_of({{"a", "long"},
                                   {"b", "double"},
                                   {"c", "string"},
                                   {"d", "boolean"},
                                   {"e", "list<double>"},
                                   {"f", "struct<x: long, y: struct<z: string, w: list<string>>>"},
                                   {"g", "map<string, list<long>>"}});
  RandomRows random(test_seed());
  std::string text;
  std::vector<Json> expected;
  for (int i = 0; i < 2000; ++i) {
    const Json row = random.object(schema.fields());
    std::string line = random.below(2) == 0 ? row.dump() : row.dump(-1, ' ', /*ensure_ascii=*/true);
    if (random.below(5) ==
        0) {  // cut or changed: an object that nlohmann still takes may be another row, or a wrong type
      line[random.below(line.size())] = "{}[]\",:x0-.e\\"[random.below(13)];
      const Json changed = Json::parse(line, nullptr, false);
      const ParsedRows parsed = parse(line, schema);
      if (changed.is_discarded() || !changed.is_object()) {
        EXPECT_EQ(parsed.batch->num_rows(), 0) << line;
      }
      if (parsed.batch->num_rows() == 0) {
        EXPECT_NE(parsed.rejected.at(0).reason, "");
      }
    } else {
      text += line + "\n";
      expected.push_back(normalized(Json::parse(line), *schema.as_struct()));
    }
  }
  const ParsedRows rows = parse(text, schema);
  ASSERT_TRUE(rows.rejected.empty()) << rows.rejected[0].column << ": " << rows.rejected[0].reason << ", seed "
                                     << test_seed();
  ASSERT_EQ(rows.batch->num_rows(), static_cast<int64_t>(expected.size()));
  const auto table = rows.batch->ToStructArray().ValueOrDie();
  for (size_t i = 0; i < expected.size(); ++i)
    ASSERT_EQ(value_of(*table, static_cast<int64_t>(i)), expected[i]) << "seed " << test_seed();
}

}  // namespace
}  // namespace firn::hyp
