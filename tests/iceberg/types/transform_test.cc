// Partition transforms, specs and sort orders. Expected values: the specification (Appendix B), Java's transform tests,
// and the conformance set's paths, which Java wrote.
#include "iceberg/transform.h"

#include <limits>

#include <gtest/gtest.h>

#include "base/civil_time.h"
#include "base/error.h"
#include "base/hash.h"

namespace firn::iceberg {
namespace {

using arrow::Decimal128;

TypePtr prim(TypeId id) { return Type::primitive(id); }
Value json_value(const char* text, const TypePtr& type) { return from_json(Json(text), *type, "test"); }

int32_t bucket(int32_t buckets, const Value& value, const TypePtr& type) {
  return std::get<int32_t>(apply(Transform::parse("bucket[" + std::to_string(buckets) + "]"), value, *type));
}

TEST(Bucket, HashesAsTheSpecificationsAppendixB) {
  struct Case {
    TypePtr type;
    Value value;
    int32_t hash;
  };
  const auto uuid = prim(TypeId::uuid);
  const std::vector<Case> cases = {
      {prim(TypeId::int_), int32_t{34}, 2017239379},
      {prim(TypeId::long_), int64_t{34}, 2017239379},
      {Type::decimal(9, 2), Decimal128(1420), -500754589},
      {prim(TypeId::date), json_value("2017-11-16", prim(TypeId::date)), -653330422},
      {prim(TypeId::time), json_value("22:31:08", prim(TypeId::time)), -662762989},
      {prim(TypeId::timestamp), json_value("2017-11-16T22:31:08", prim(TypeId::timestamp)), -2047944441},
      {prim(TypeId::timestamp), json_value("2017-11-16T22:31:08.000001", prim(TypeId::timestamp)), -1207196810},
      {prim(TypeId::timestamptz), json_value("2017-11-16T14:31:08-08:00", prim(TypeId::timestamptz)), -2047944441},
      {prim(TypeId::timestamp_ns), json_value("2017-11-16T22:31:08", prim(TypeId::timestamp_ns)), -2047944441},
      {prim(TypeId::timestamp_ns), json_value("2017-11-16T22:31:08.000001001", prim(TypeId::timestamp_ns)),
       -1207196810},
      {prim(TypeId::timestamptz_ns), json_value("2017-11-16T14:31:08.000001001-08:00", prim(TypeId::timestamptz_ns)),
       -1207196810},
      {prim(TypeId::string), "iceberg", 1210000089},
      {uuid, json_value("f79c3e09-677c-4bbd-a479-3f349cb785e7", uuid), 1488055340},
      {Type::fixed(4), std::string("\0\1\2\3", 4), -188683207},
      {prim(TypeId::binary), std::string("\0\1\2\3", 4), -188683207},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.type->to_string());
    for (const int32_t buckets : {1, 7, 16, 128, std::numeric_limits<int32_t>::max()})
      EXPECT_EQ(bucket(buckets, c.value, c.type), (c.hash & 0x7FFFFFFF) % buckets);
  }
}

TEST(Bucket, OfDecimalsAtTheEdgesOfTheirBytes) {  // cases.md 3
  const auto type = Type::decimal(5, 2);
  EXPECT_EQ(bucket(16, Decimal128(-128), type), 13);
  EXPECT_EQ(bucket(16, Decimal128(-256), type), 12);
  EXPECT_EQ(bucket(16, Decimal128(-32768), type), 3);
}

TEST(TimeTransforms, RoundDownBefore1970) {  // cases.md 4
  const char* kTransforms[] = {"year", "month", "day", "hour"};
  const auto applied = [](const char* transform, const Value& value, const TypePtr& type) {
    return std::get<int32_t>(apply(Transform::parse(transform), value, *type));
  };
  for (const char* transform : kTransforms) {
    SCOPED_TRACE(transform);
    EXPECT_EQ(applied(transform, int64_t{-1'000'000}, prim(TypeId::timestamp)), -1);
    EXPECT_EQ(applied(transform, int64_t{-1}, prim(TypeId::timestamp)), -1);
    EXPECT_EQ(applied(transform, int64_t{-1}, prim(TypeId::timestamptz)), -1);
    EXPECT_EQ(applied(transform, int64_t{-1}, prim(TypeId::timestamp_ns)), -1);
    EXPECT_EQ(applied(transform, int64_t{-1}, prim(TypeId::timestamptz_ns)), -1);
    EXPECT_EQ(applied(transform, int64_t{0}, prim(TypeId::timestamp)), 0);
    if (std::string_view(transform) != "hour") {
      EXPECT_EQ(applied(transform, int32_t{-1}, prim(TypeId::date)), -1);
    }
  }
}

TEST(TimeTransforms, AgreeWithJava) {
  const auto timestamp = prim(TypeId::timestamp), nanos = prim(TypeId::timestamp_ns), date = prim(TypeId::date);
  const Value ts = json_value("2017-12-01T10:12:55.038194", timestamp);
  const Value ns = json_value("2017-12-01T10:12:55.038194789", nanos);
  const Value day = json_value("2017-12-01", date);
  struct Case {
    const char* transform;
    int32_t expected;
    const char* human;
  };
  for (const Case& c : {Case{"year", 47, "2017"}, Case{"month", 575, "2017-12"}, Case{"day", 17501, "2017-12-01"},
                        Case{"hour", 420034, "2017-12-01-10"}}) {
    SCOPED_TRACE(c.transform);
    const Transform transform = Transform::parse(c.transform);
    EXPECT_EQ(apply(transform, ts, *timestamp), Value(c.expected));
    EXPECT_EQ(apply(transform, ns, *nanos), Value(c.expected));
    EXPECT_EQ(to_human_string(transform, c.expected, *timestamp), c.human);
    if (can_transform(transform, *date)) {
      EXPECT_EQ(apply(transform, day, *date), Value(c.expected));
    }
  }
  EXPECT_EQ(to_human_string(Transform::parse("hour"), -14, *timestamp), "1969-12-31-10");
  EXPECT_EQ(to_human_string(Transform::parse("month"), -1, *timestamp), "1969-12");
  EXPECT_EQ(to_human_string(Transform::parse("year"), -1969, *timestamp), "0001");
}

TEST(Truncate, RoundsNumbersDownAndCutsTextByCodePoint) {
  const Transform ten = Transform::parse("truncate[10]");
  for (const auto& [value, expected] :
       {std::pair(0, 0), {1, 0}, {5, 0}, {9, 0}, {10, 10}, {11, 10}, {-1, -10}, {-5, -10}, {-10, -10}, {-11, -20}}) {
    EXPECT_EQ(apply(ten, int32_t{value}, *prim(TypeId::int_)), Value(int32_t{expected}));
    EXPECT_EQ(apply(ten, int64_t{value}, *prim(TypeId::long_)), Value(int64_t{expected}));
  }
  const auto decimal = Type::decimal(9, 2);
  for (const auto& [value, expected] : {std::pair(1234, 1230), {1230, 1230}, {1229, 1220}, {5, 0}, {-5, -10}})
    EXPECT_EQ(apply(ten, Decimal128(value), *decimal), Value(Decimal128(expected)));
  EXPECT_EQ(apply(Transform::parse("truncate[50]"), Decimal128(1065), *decimal), Value(Decimal128(1050)));
  const Transform three = Transform::parse("truncate[3]");
  EXPECT_EQ(apply(three, "iceberg", *prim(TypeId::string)), Value("ice"));
  EXPECT_EQ(apply(three, "日本語テ", *prim(TypeId::string)), Value("日本語"));
  EXPECT_EQ(apply(three, "😀😀😀😀", *prim(TypeId::string)), Value("😀😀😀"));
  EXPECT_EQ(apply(three, "ab", *prim(TypeId::string)), Value("ab"));
  EXPECT_EQ(apply(three, "\1\2\3\4\5", *prim(TypeId::binary)), Value("\1\2\3"));
}

TEST(Transforms, KeepNullAndRefuseTypesTheyDoNotTake) {
  for (const char* name : {"identity", "bucket[4]", "truncate[4]", "void"})
    EXPECT_TRUE(is_null(apply(Transform::parse(name), Value(), *prim(TypeId::string)))) << name;
  EXPECT_TRUE(is_null(apply(Transform::parse("void"), "x", *prim(TypeId::string))));
  EXPECT_FALSE(can_transform(Transform::parse("hour"), *prim(TypeId::date)));
  EXPECT_FALSE(can_transform(Transform::parse("bucket[4]"), *prim(TypeId::double_)));
  EXPECT_FALSE(can_transform(Transform::parse("bucket[4]"), *prim(TypeId::boolean_)));
  EXPECT_FALSE(can_transform(Transform::parse("truncate[4]"), *Type::fixed(4)));
  EXPECT_FALSE(can_transform(Transform::parse("identity"), *Type::geometry("")));
  EXPECT_FALSE(can_transform(Transform::parse("identity"), *Type::list_of(2, false, prim(TypeId::int_))));
  EXPECT_THROW(result_type(Transform::parse("year"), prim(TypeId::string)), Error);
  EXPECT_EQ(result_type(Transform::parse("day"), prim(TypeId::timestamp))->id(), TypeId::date);
  EXPECT_EQ(result_type(Transform::parse("truncate[2]"), prim(TypeId::string))->id(), TypeId::string);
}

TEST(Transforms, UnknownOnesAreKeptByName) {
  for (const char* name :
       {"zorder", "bucket[0]", "bucket[x]", "bucket", "truncate[-1]", "truncate[99999999999]", "day[3]"}) {
    const Transform transform = Transform::parse(name);
    EXPECT_EQ(transform.kind, TransformKind::unknown) << name;
    EXPECT_EQ(transform.name, name);
  }
}

TEST(PartitionPath, IsFormEncodedAsJavaDoes) {  // cases.md 6
  const Schema schema({{.id = 1, .name = "data#1", .type = prim(TypeId::string)}});
  const PartitionSpec spec = make_partition_spec({{.column = "data#1"}}, schema);
  const auto path = [&](const char* value) { return spec.partition_path({Value(value)}, schema); };
  EXPECT_EQ(path("a#b"), "data%231=a%23b");
  EXPECT_EQ(path("a/b"), "data%231=a%2Fb");
  EXPECT_EQ(path("a?b"), "data%231=a%3Fb");
  EXPECT_EQ(path("a b"), "data%231=a+b");
  EXPECT_EQ(path("a%b"), "data%231=a%25b");
  EXPECT_EQ(path(""), "data%231=");
  // part_identity_string of the conformance set
  EXPECT_EQ(path("a/b=c %20 é"), "data%231=a%2Fb%3Dc+%2520+%C3%A9");
  EXPECT_EQ(path("a+b&c?d#e"), "data%231=a%2Bb%26c%3Fd%23e");
  EXPECT_EQ(path("日本"), "data%231=%E6%97%A5%E6%9C%AC");
  EXPECT_EQ(path(".."), "data%231=..");
  EXPECT_EQ(path("a\\b"), "data%231=a%5Cb");
  EXPECT_EQ(spec.partition_path({Value()}, schema), "data%231=null");
}

TEST(PartitionPath, SpellsEachTypeAsJavaDoes) {
  struct Case {
    TypePtr type;
    Value value;
    const char* human;
  };
  const auto time = prim(TypeId::time), nanos = prim(TypeId::timestamp_ns), zoned = prim(TypeId::timestamptz);
  const std::vector<Case> cases = {
      {prim(TypeId::boolean_), true, "true"},
      {prim(TypeId::long_), int64_t{-1234567890000}, "-1234567890000"},
      {prim(TypeId::date), json_value("2017-12-01", prim(TypeId::date)), "2017-12-01"},
      {time, json_value("23:59:59.999999", time), "23:59:59.999999"},
      {time, json_value("10:12:00", time), "10:12"},
      {time, json_value("10:12:55", time), "10:12:55"},
      {time, json_value("10:12:55.120", time), "10:12:55.120"},
      {zoned, json_value("2017-12-01T10:12:55.038194-08:00", zoned), "2017-12-01T18:12:55.038194+00:00"},
      {zoned, json_value("2017-12-01T10:12:00Z", zoned), "2017-12-01T10:12:00+00:00"},
      {nanos, json_value("1969-12-31T23:59:59.999999999", nanos), "1969-12-31T23:59:59.999999999"},
      {nanos, json_value("2024-01-02T03:04:05.120", nanos), "2024-01-02T03:04:05.12"},
      {Type::fixed(3), std::string("\0\xFF\x7F", 3), "AP9/"},
      {prim(TypeId::binary), std::string("\0\xFF", 2), "AP8="},
      {prim(TypeId::binary), std::string("\1\2\3"), "AQID"},
      {Type::decimal(9, 2), Decimal128(-150), "-1.50"},
      {Type::decimal(38, 10), Decimal128(12), "1.2E-9"},
      {Type::decimal(38, 10), Decimal128(0), "0E-10"},
      {Type::decimal(38, 10), Decimal128(12345), "0.0000012345"},
      {prim(TypeId::double_), 1.0, "1.0"},
      {prim(TypeId::double_), 1e7, "1.0E7"},
      {prim(TypeId::double_), -1.25e-5, "-1.25E-5"},
      {prim(TypeId::double_), 123456.5, "123456.5"},
      {prim(TypeId::double_), -0.0, "-0.0"},
      {prim(TypeId::float_), 3.4028235e38F, "3.4028235E38"},
      {prim(TypeId::float_), std::numeric_limits<float>::quiet_NaN(), "NaN"},
      {prim(TypeId::double_), -std::numeric_limits<double>::infinity(), "-Infinity"},
  };
  for (const Case& c : cases)
    EXPECT_EQ(to_human_string(Transform::parse("identity"), c.value, *c.type), c.human) << c.type->to_string();
}

TEST(PartitionSpec, SurvivesJsonWithUnknownAndMultiArgumentTransforms) {
  const char* text = R"({"spec-id":3,"fields":[{"name":"ts_day","transform":"day","source-id":4,"field-id":1000},)"
                     R"({"name":"id_bucket","transform":"bucket[16]","source-id":1,"field-id":1001},)"
                     R"({"name":"z","transform":"zorder","source-ids":[1,2],"field-id":1002}]})";
  const PartitionSpec spec = PartitionSpec::from_json(parse_json(text, "test"), "test");
  EXPECT_EQ(spec.to_json().dump(), text);
  EXPECT_EQ(spec.fields[1].transform.parameter, 16);
  EXPECT_EQ(spec.fields[2].transform.kind, TransformKind::unknown);
  const auto v1 = PartitionSpec::fields_from_v1_json(
      parse_json(R"([{"name":"a","transform":"identity","source-id":1},{"name":"b","transform":"void","source-id":2}])",
                 "test"),
      "test");
  EXPECT_EQ(v1[1].field_id, 1001);
}

TEST(PartitionSpec, TellsItsTupleTypeAlsoOfDroppedColumns) {
  const Schema schema({{.id = 1, .name = "id", .required = true, .type = prim(TypeId::long_)}});
  PartitionSpec spec;
  spec.fields = {{{1}, 1000, "id_bucket", Transform::parse("bucket[16]")},
                 {{9}, 1001, "gone_day", Transform::parse("day")},
                 {{9}, 1002, "gone", Transform::parse("identity")}};
  const TypePtr type = spec.partition_type(schema);
  EXPECT_EQ(type->to_string(),
            "struct<1000: id_bucket: optional int, 1001: gone_day: optional date, 1002: gone: optional unknown>");
  EXPECT_EQ(spec.to_display(schema), "bucket[16](id), day(dropped column 9), dropped column 9");
}

TEST(PartitionSpec, OfVoidFieldsAloneIsUnpartitioned) {
  const Schema schema({{.id = 1, .name = "id", .type = prim(TypeId::long_)}});
  PartitionSpec spec;
  EXPECT_TRUE(spec.is_unpartitioned());
  EXPECT_EQ(spec.to_display(schema), "unpartitioned");
  spec.fields = {{{1}, 1000, "id_null", Transform::parse("void")}};
  EXPECT_TRUE(spec.is_unpartitioned());
  EXPECT_EQ(spec.partition_path({Value()}, schema), "");
}

TEST(PartitionSpec, IsMadeFromDeclarationsWithJavasNames) {
  const Schema schema(
      {{.id = 1, .name = "id", .type = prim(TypeId::long_)},
       {.id = 2, .name = "ts", .type = prim(TypeId::timestamptz)},
       {.id = 3, .name = "s", .type = Type::struct_of({{.id = 4, .name = "in", .type = prim(TypeId::string)}})},
       {.id = 5, .name = "l", .type = Type::list_of(6, false, prim(TypeId::int_))}});
  const PartitionSpec spec =
      make_partition_spec({{"ts", "day"}, {"id", "bucket[16]"}, {"s.in", "truncate[2]"}, {"id", "identity"}}, schema);
  std::vector<std::string> names;
  for (const PartitionField& field : spec.fields) names.push_back(field.name);
  EXPECT_EQ(names, (std::vector<std::string>{"ts_day", "id_bucket_16", "s.in_trunc_2", "id"}));
  EXPECT_EQ(spec.fields[3].field_id, 1003);
  EXPECT_EQ(spec.to_display(schema), "day(ts), bucket[16](id), truncate[2](s.in), id");
  EXPECT_TRUE(spec.compatible_with(spec));
  EXPECT_FALSE(spec.compatible_with(PartitionSpec{}));
  EXPECT_THROW(make_partition_spec({{"nope", "day"}}, schema), Error);
  EXPECT_THROW(make_partition_spec({{"id", "day"}}, schema), Error);
  EXPECT_THROW(make_partition_spec({{"ts", "days"}}, schema), Error);
  EXPECT_THROW(make_partition_spec({{"l.element", "identity"}}, schema), Error);
  EXPECT_THROW(make_partition_spec({{"id", "identity"}, {"id", "identity"}}, schema), Error);
}

TEST(SortOrder, SurvivesJson) {
  const char* text =
      R"({"order-id":3,"fields":[{"transform":"identity","source-id":2,"direction":"asc","null-order":"nulls-first"},)"
      R"({"transform":"bucket[4]","source-id":3,"direction":"desc","null-order":"nulls-last"}]})";
  const SortOrder order = SortOrder::from_json(parse_json(text, "test"), "test");
  EXPECT_EQ(order.to_json().dump(), text);
  EXPECT_FALSE(order.fields[1].ascending);
  EXPECT_FALSE(order.fields[1].nulls_first);
  EXPECT_THROW(SortOrder::from_json(parse_json(R"({"order-id":1,"fields":[{"transform":"identity","source-id":2,)"
                                               R"("direction":"up","null-order":"nulls-first"}]})",
                                               "test"),
                                    "test"),
               Error);
}

}  // namespace
}  // namespace firn::iceberg
