// Rows as JSON lines, and back through `hyp ingest`'s parser.
#include "hyp/sink/json_lines.h"

#include <gtest/gtest.h>

#include "base/json.h"
#include "hyp/capture/row_parser.h"

namespace firn::hyp {
namespace {

using iceberg::Field;
using iceberg::parse_primitive_type;
using iceberg::Type;

const iceberg::Schema kSchema(
    {{1, "boolean", false, parse_primitive_type("boolean")},
     {2, "int", false, parse_primitive_type("int")},
     {3, "long", false, parse_primitive_type("long")},
     {4, "float", false, parse_primitive_type("float")},
     {5, "double", false, parse_primitive_type("double")},
     {6, "decimal", false, parse_primitive_type("decimal(20, 3)")},
     {7, "date", false, parse_primitive_type("date")},
     {8, "time", false, parse_primitive_type("time")},
     {9, "timestamp", false, parse_primitive_type("timestamp")},
     {10, "timestamptz", false, parse_primitive_type("timestamptz")},
     {11, "nanos", false, parse_primitive_type("timestamp_ns")},
     {12, "tznanos", false, parse_primitive_type("timestamptz_ns")},
     {13, "string", false, parse_primitive_type("string")},
     {14, "uuid", false, parse_primitive_type("uuid")},
     {15, "fixed", false, parse_primitive_type("fixed[3]")},
     {16, "binary", false, parse_primitive_type("binary")},
     {17, "list", false, Type::list_of(18, false, parse_primitive_type("long"))},
     {19, "map", false, Type::map_of(20, parse_primitive_type("string"), 21, false, parse_primitive_type("double"))},
     {22, "struct", false,
      Type::struct_of({{23, "a", false, parse_primitive_type("long")},
                       {24, "b \"q\"", false, parse_primitive_type("string")}})}});

constexpr const char* kRow =
    R"({"boolean":true,"int":-2147483648,"long":9223372036854775807,"float":0.1,"double":1e+300,"decimal":"-12345678901234567.890",)"
    R"("date":"0001-01-01","time":"23:59:59.999999","timestamp":"1969-12-31T23:59:59.999999","timestamptz":"2024-02-29T00:00:00.000000Z",)"
    R"("nanos":"2024-02-29T00:00:00.000000001","tznanos":"1969-12-31T23:59:59.999999999Z","string":"tab\t \"quote\" ü\u0001",)"
    R"("uuid":"00112233-4455-6677-8899-aabbccddeeff","fixed":"AAEC","binary":"","list":[1,null,-3],"map":{"k":2.0,"l":null},)"
    R"("struct":{"a":1,"b \"q\"":"x"}})";

std::string to_lines(const arrow::RecordBatch& batch, const iceberg::Schema& schema) {
  std::string out;
  append_json_lines(batch, schema, NullColumns::written, out);
  return out;
}

TEST(JsonLines, AreWhatTheParserReads) {
  const ParsedRows parsed = parse_rows(std::string(kRow) + "\n{}\n", kSchema, {});
  ASSERT_EQ(parsed.rejected.size(), 0u) << parsed.rejected[0].column << ": " << parsed.rejected[0].reason;
  const std::string text = to_lines(*parsed.batch, kSchema);
  const size_t end = text.find('\n');
  EXPECT_EQ(text.substr(0, end), kRow);
  const Json empty = Json::parse(text.substr(end + 1));
  for (const auto& [key, value] : empty.items()) EXPECT_TRUE(value.is_null()) << key;

  const ParsedRows again = parse_rows(text, kSchema, {});
  ASSERT_EQ(again.rejected.size(), 0u) << again.rejected[0].column << ": " << again.rejected[0].reason;
  EXPECT_TRUE(again.batch->Equals(*parsed.batch));
}

TEST(JsonLines, LeaveOutNullColumnsWhereToldToAndNoFieldOfAStruct) {
  const ParsedRows parsed = parse_rows(R"({"int":null,"long":1,"struct":{"a":null}})"
                                       "\n{}\n"
                                       R"({"struct":null,"list":[null]})"
                                       "\n",
                                       kSchema, {});
  std::string out;
  append_json_lines(*parsed.batch, kSchema, NullColumns::left_out, out);
  EXPECT_EQ(out, R"({"long":1,"struct":{"a":null,"b \"q\"":null}})"
                 "\n{}\n"
                 R"({"list":[null]})"
                 "\n");
}

TEST(JsonLines, SpellNumbersThatJsonLacks) {
  arrow::DoubleBuilder builder;
  for (const double value :
       {std::numeric_limits<double>::quiet_NaN(), -std::numeric_limits<double>::infinity(), -0.0, 5e-324, 100.0}) {
    ASSERT_TRUE(builder.Append(value).ok());
  }
  const iceberg::Schema schema({{1, "x", false, parse_primitive_type("double")}});
  const auto array = builder.Finish().ValueOrDie();
  const auto batch =
      arrow::RecordBatch::Make(arrow::schema({arrow::field("x", arrow::float64())}), array->length(), {array});
  EXPECT_EQ(to_lines(*batch, schema),
            "{\"x\":\"NaN\"}\n{\"x\":\"-Infinity\"}\n{\"x\":-0.0}\n{\"x\":5e-324}\n{\"x\":100.0}\n");
}

TEST(JsonLines, GiveMapsOfOtherKeysAsPairs) {
  const iceberg::TypePtr type = Type::map_of(2, parse_primitive_type("int"), 3, false, parse_primitive_type("string"));
  const iceberg::Schema schema({{1, "m", false, type}});
  auto keys = std::make_shared<arrow::Int32Builder>();
  auto values = std::make_shared<arrow::StringBuilder>();
  arrow::MapBuilder builder(arrow::default_memory_pool(), keys, values);
  ASSERT_TRUE(builder.Append().ok() && keys->AppendValues({7, 8}).ok() && values->AppendValues({"a", "b"}).ok());
  const auto array = builder.Finish().ValueOrDie();
  const auto batch = arrow::RecordBatch::Make(arrow::schema({arrow::field("m", array->type())}), 1, {array});
  EXPECT_EQ(to_lines(*batch, schema), "{\"m\":[[7,\"a\"],[8,\"b\"]]}\n");
}

}  // namespace
}  // namespace firn::hyp
