#include <random>

#include <gtest/gtest.h>

#include "base/json.h"
#include "hyp/capture/row_parser.h"
#include "hyp/type_text.h"
#include "support/test_seed.h"

namespace firn::hyp {
namespace {

using iceberg::Field;
using iceberg::Schema;
using iceberg::Type;
using iceberg::TypeId;

std::string spell(const Type& type) {
  const auto fields = [](const std::vector<Field>& all) {
    std::string out;
    for (const Field& field : all)
      out += (out.empty() ? "" : ", ") + field.name + ": " + spell(*field.type) + (field.required ? "!" : "");
    return out;
  };
  switch (type.id()) {
    case TypeId::struct_:
      return "struct<" + fields(type.fields()) + ">";
    case TypeId::list:
      return "list<" + spell(*type.element().type) + ">";
    case TypeId::map:
      return "map<" + spell(*type.key().type) + ", " + spell(*type.value().type) + ">";
    default:
      return type.to_string();
  }
}

std::string infer(const std::string& text, const Schema& known = {}, const std::string& timestamp_column = "") {
  SchemaInference inference(known, 8 << 20, timestamp_column);
  inference.observe(text);
  return spell(*inference.schema().as_struct());
}

Schema one_column(const std::string& name, const std::string& type) {
  int32_t next_id = 2;
  return Schema({Field{.id = 1, .name = name, .required = false, .type = parse_type(type, next_id)}});
}

TEST(SchemaInference, ColumnsComeInFirstSeenOrderWithTheirTypes) {
  EXPECT_EQ(infer(R"({"b":true,"i":1,"s":"x","n":null}
{"d":1.5,"i":null,"o":{"x":1,"y":"z"},"l":[{"k":1},{"m":2.0}],"n":7})"),
            "struct<b: boolean, i: long, s: string, n: long, d: double, o: struct<x: long, y: string>, l: "
            "list<struct<k: long, m: double>>>");
}

TEST(SchemaInference, IntegersAndFractionsMixToDouble) {
  EXPECT_EQ(infer("{\"a\":1}\n{\"a\":2.5}"), "struct<a: double>");
  EXPECT_EQ(infer("{\"a\":2.5}\n{\"a\":1}"), "struct<a: double>");
  EXPECT_EQ(infer("{\"a\":[1,2]}\n{\"a\":[1e1]}"), "struct<a: list<double>>");
  EXPECT_EQ(infer("{\"a\":123456789012345678901234567890}"),
            "struct<a: long>");  // a reject, not a reason for a wider column
}

TEST(SchemaInference, WhereLinesDisagreeTheFirstDecides) {
  EXPECT_EQ(infer("{\"a\":1}\n{\"a\":\"x\"}\n{\"a\":[1]}"), "struct<a: long>");
  EXPECT_EQ(infer("{\"a\":\"x\"}\n{\"a\":1.5}"), "struct<a: string>");
  EXPECT_EQ(infer("{\"a\":{}}\n{\"a\":\"x\"}"), "struct<a: string>");
}

TEST(SchemaInference, NullAndEmptyValuesDecideNothing) {
  EXPECT_EQ(infer("{\"a\":null,\"b\":[],\"c\":{},\"d\":[null],\"e\":{\"x\":null},\"f\":[[]]}"), "struct<>");
}

TEST(SchemaInference, BadLinesAreNotSeen) {
  EXPECT_EQ(infer("{\"a\":1}\n{\"b\":1,\"a\":2.5\n{\"c\":1,\"c\":1}\n{\"d\":\"\xff\"}\n[1]\n{\"e\":1}x\n{\"f\":{\"g\":"
                  "1,\"h\":[1.5,]}}\n{\"z\":1}"),
            "struct<a: long, z: long>");
  EXPECT_EQ(infer("{\"o\":{\"x\":1}}\n{\"o\":{\"y\":{\"z\":1.5}},\"l\":[[1]],}\n{\"o\":{\"x\":2}}"),
            "struct<o: struct<x: long>>");
  EXPECT_EQ(infer("{\"" + std::string(9 << 20, 'x') + "\":1}"), "struct<>");
}

TEST(SchemaInference, ReservedAndCollidingNamesAreLeftOut) {
  EXPECT_EQ(infer("{\"Name\":1,\"_hyp_x\":1,\"\":1}\n{\"name\":2}"), "struct<Name: long>");
}

// Java's Iceberg opens no table where two columns have one full name.
TEST(SchemaInference, OfTwoColumnsWithOneFullNameTheFirstIsTaken) {
  EXPECT_EQ(infer("{\"a\":{\"b\":1}}\n{\"a.b\":2,\"c\":3}"), "struct<a: struct<b: long>, c: long>");
  EXPECT_EQ(infer("{\"a.b\":2}\n{\"a\":{\"b\":1,\"c\":1}}"), "struct<a.b: long>");
  EXPECT_EQ(infer("{\"a\":{\"b\":1,\"c\":1}}", one_column("a.b", "long")), "struct<a.b: long>");
  EXPECT_EQ(infer("{\"a.b\":1}", one_column("a", "struct<b: long>")), "struct<a: struct<b: long>>");
  EXPECT_EQ(infer("{\"a.c\":1}\n{\"a\":{\"c\":1,\"d\":1}}", one_column("a", "struct<b: long>")),
            "struct<a: struct<b: long, c: long, d: long>>");
  EXPECT_EQ(infer("{\"a\":[1],\"a.element\":1}"), "struct<a: list<long>>");
}

TEST(SchemaInference, KnownColumnsKeepTheirTypesAndStructsGrow) {
  EXPECT_EQ(infer("{\"a\":1.5,\"b\":2}", one_column("a", "int")), "struct<a: int, b: long>");
  EXPECT_EQ(infer("{}", one_column("a", "timestamptz")), "struct<a: timestamptz>");
  EXPECT_EQ(infer("{\"a\":{\"y\":1}}", one_column("a", "struct<x: string>")), "struct<a: struct<x: string, y: long>>");
  EXPECT_EQ(infer("{\"a\":[{\"y\":1}]}", one_column("a", "list<struct<x: string>>")),
            "struct<a: list<struct<x: string, y: long>>>");
  EXPECT_EQ(infer("{\"a\":{\"k1\":{\"y\":1},\"k2\":{}}}", one_column("a", "map<string, struct<x: string>>")),
            "struct<a: map<string, struct<x: string, y: long>>>");
  EXPECT_EQ(infer("{\"a\":{\"y\":1}}", one_column("a", "string")), "struct<a: string>");
}

TEST(SchemaInference, TimestampsAreFoundInTheirColumnAlone) {
  EXPECT_EQ(infer("{\"t\":\"2013-01-01T10:00:00Z\",\"u\":\"2013-01-01T10:00:00Z\"}\n{\"t\":\"later\"}", {}, "t"),
            "struct<t: timestamptz, u: string>");
  EXPECT_EQ(infer("{\"t\":\"soon\"}\n{\"t\":\"2013-01-01T10:00:00Z\"}", {}, "t"), "struct<t: string>");
  EXPECT_EQ(infer("{\"o\":{\"t\":\"2013-01-01T10:00:00Z\"}}", {}, "t"), "struct<o: struct<t: string>>");
}

TEST(SchemaInference, WhatIsInferredFitsTheRows) {
  const std::string text = R"({"a":1,"o":{"x":[1.5,2]},"l":[{"k":"v"},null]}
{"o":null,"l":[],"a":null,"b":false})";
  SchemaInference inference((Schema()));
  inference.observe(text);
  const ParsedRows rows = parse_rows(text, inference.schema(), {.new_columns_rejected = true});
  EXPECT_TRUE(rows.rejected.empty());
  EXPECT_TRUE(rows.batch->ValidateFull().ok());
}

TEST(SchemaInference, HoweverTheLinesAreCutAndMergedTheSchemaIsTheSame) {
  std::mt19937_64 random(test_seed());
  const auto value = [&]() -> std::string {
    static const std::vector<std::string> values = {"null",
                                                    "1",
                                                    "1.5",
                                                    "\"x\"",
                                                    "\"2020-01-01T00:00:00Z\"",
                                                    "true",
                                                    "[]",
                                                    "[1]",
                                                    "[\"x\",1]",
                                                    "{}",
                                                    "{\"p\":1}",
                                                    "{\"q\":[{\"r\":1.5}]}",
                                                    "{\"q\":\"x\",\"p\":null}",
                                                    "[{\"p\":[]}]",
                                                    "{\"p\":1,\"p\":2}",
                                                    "[1",
                                                    "tru"};
    return values[random() % values.size()];
  };
  for (int round = 0; round < 300; ++round) {
    std::vector<std::string> lines;
    for (size_t n = 1 + random() % 8; n > 0; --n) {
      std::string line = "{";
      for (const char* name : {"a", "b", "c"}) {
        if (random() % 2 == 0) line += std::string(line == "{" ? "" : ",") + "\"" + name + "\":" + value();
      }
      lines.push_back(line + "}\n");
    }
    const Schema known = round % 2 == 0 ? Schema() : one_column("b", "struct<q: list<struct<s: int>>>");
    SchemaInference whole(known, 8 << 20, "a");
    SchemaInference merged(known, 8 << 20, "a");
    auto part = std::make_unique<SchemaInference>(known, 8 << 20, "a");
    std::string all;
    for (const std::string& line : lines) {
      whole.observe(line);
      part->observe(line);
      all += line;
      if (random() % 3 == 0) {
        merged.merge(std::move(*part));
        part = std::make_unique<SchemaInference>(known, 8 << 20, "a");
      }
    }
    merged.merge(std::move(*part));
    const std::string expected = spell(*whole.schema().as_struct());
    ASSERT_EQ(spell(*merged.schema().as_struct()), expected) << all << "seed " << test_seed();
    ASSERT_EQ(infer(all, known, "a"), expected) << all << "seed " << test_seed();
  }
}

}  // namespace
}  // namespace firn::hyp
