// What partitions and metrics prove, on the small inputs where other systems went wrong.
#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include "base/error.h"
#include "iceberg/expr/expression.h"

namespace firn::iceberg {
namespace {

TypePtr prim(TypeId id) { return Type::primitive(id); }

Schema one_column(TypePtr type, std::optional<Value> initial_default = std::nullopt) {
  return Schema({{.id = 1, .name = "x", .type = std::move(type), .initial_default = std::move(initial_default)}});
}

ExpressionPtr filter(const char* text, const Schema& schema) { return bind(*parse_expression(text), schema); }

DataFile file_of(int64_t rows, int64_t nulls, std::optional<int64_t> nans, const std::optional<Value>& low,
                 const std::optional<Value>& high, const Type& type) {
  DataFile file;
  file.record_count = rows;
  file.value_counts = {{1, rows}};
  file.null_value_counts = {{1, nulls}};
  if (nans) file.nan_value_counts = {{1, *nans}};
  if (low) file.lower_bounds[1] = to_bytes(*low, type);
  if (high) file.upper_bounds[1] = to_bytes(*high, type);
  return file;
}

TEST(Metrics, NotEqualIsNotProvenByNullsOrNans) {  // cases.md 1
  const Schema ints = one_column(prim(TypeId::int_)), doubles = one_column(prim(TypeId::double_));
  const DataFile with_null = file_of(2, 1, std::nullopt, Value(5), Value(5), *prim(TypeId::int_));
  const DataFile with_nan = file_of(2, 0, 1, Value(5.0), Value(5.0), *prim(TypeId::double_));
  for (const char* text : {"x != 5", "x not in (5, 6)"}) {
    EXPECT_FALSE(file_must_match(*filter(text, ints), with_null)) << text;
    EXPECT_FALSE(file_must_match(*filter(text, doubles), with_nan)) << text;
    EXPECT_FALSE(file_might_match(*filter(text, ints), with_null)) << "null is not unequal: no row matches";
    EXPECT_TRUE(file_might_match(*filter(text, doubles), with_nan)) << "NaN is unequal to 5";
  }
  EXPECT_TRUE(file_might_match(*filter("x = 5", ints), with_null)) << "the 5 is there";
  EXPECT_FALSE(file_must_match(*filter("x = 5", ints), with_null));
  EXPECT_FALSE(file_must_match(*filter("x = 5", doubles), with_nan));
  EXPECT_TRUE(file_must_match(*filter("x != 7", doubles), with_nan));
  EXPECT_FALSE(file_must_match(*filter("x < 7", doubles), with_nan)) << "NaN is not below 7";
}

TEST(Metrics, NanBoundsAreNoBounds) {
  const Schema schema = one_column(prim(TypeId::double_));
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const DataFile lower = file_of(2, 0, std::nullopt, Value(nan), Value(5.0), *prim(TypeId::double_));
  EXPECT_TRUE(file_might_match(*filter("x < -100", schema), lower));
  EXPECT_FALSE(file_might_match(*filter("x > 5", schema), lower));
  const DataFile both = file_of(2, 0, std::nullopt, Value(nan), Value(nan), *prim(TypeId::double_));
  for (const char* text : {"x = 1", "x < 1", "x > 1", "isnan(x)", "x is not nan"})
    EXPECT_TRUE(file_might_match(*filter(text, schema), both)) << text;
}

TEST(Metrics, MissingCountsAreUnknown) {
  const Schema schema = one_column(prim(TypeId::int_));
  DataFile file;
  file.record_count = 3;
  for (const char* text : {"x is null", "x is not null", "x = 1", "x != 1", "x > 1"}) {
    EXPECT_TRUE(file_might_match(*filter(text, schema), file)) << text;
    EXPECT_FALSE(file_must_match(*filter(text, schema), file)) << text;
  }
  file.null_value_counts = {{1, 3}};
  EXPECT_FALSE(file_might_match(*filter("x is not null", schema), file));
  EXPECT_TRUE(file_must_match(*filter("x is null", schema), file));
  file.value_counts = {{1, 7}};  // not one a row: the counts are of something else
  EXPECT_TRUE(file_might_match(*filter("x is not null", schema), file));
}

TEST(Metrics, TruncatedStringBoundsStillBound) {  // cases.md 2
  const Schema schema = one_column(prim(TypeId::string));
  const DataFile file = file_of(2, 0, std::nullopt, Value("John O’"), Value("John O‚"), *prim(TypeId::string));
  EXPECT_TRUE(file_might_match(*filter("x = 'John O’Brien'", schema), file));
  EXPECT_TRUE(file_might_match(*filter("x like 'John O’Br%'", schema), file));
  EXPECT_TRUE(file_might_match(*filter("x like 'Jo%'", schema), file));
  EXPECT_TRUE(file_must_match(*filter("x like 'John O%'", schema), file));
  EXPECT_FALSE(file_must_match(*filter("x like 'John O’%'", schema), file));
  EXPECT_FALSE(file_might_match(*filter("x like 'Jim%'", schema), file));
  EXPECT_FALSE(file_might_match(*filter("x not like 'John O%'", schema), file));
}

TEST(Metrics, IllFormedBoundsDoNotPrune) {  // cases.md 2
  const Schema schema = one_column(prim(TypeId::string));
  DataFile file = file_of(2, 0, std::nullopt, std::nullopt, std::nullopt, *prim(TypeId::string));
  file.lower_bounds[1] = "z\xE2\x80";  // cut inside a character
  EXPECT_TRUE(file_might_match(*filter("x = 'a'", schema), file));
  file.lower_bounds[1] = "z";
  EXPECT_FALSE(file_might_match(*filter("x = 'a'", schema), file));
  file.upper_bounds[1] = "b";  // below the lower one
  EXPECT_TRUE(file_might_match(*filter("x = 'a'", schema), file));
  const Schema ints = one_column(prim(TypeId::int_));
  file.lower_bounds[1] = "abc";  // three bytes
  file.upper_bounds.clear();
  EXPECT_TRUE(file_might_match(*filter("x = 1", ints), file));
}

TEST(Metrics, BoundsFromBeforeAPromotionPrune) {
  const Schema schema = one_column(prim(TypeId::long_));
  const DataFile file = file_of(2, 0, std::nullopt, Value(3), Value(7), *prim(TypeId::int_));
  EXPECT_FALSE(file_might_match(*filter("x > 3000000000", schema), file));
  EXPECT_TRUE(file_might_match(*filter("x = 5", schema), file));
}

TEST(Metrics, AnEmptyFileMatchesNothingAndEverything) {
  const Schema schema = one_column(prim(TypeId::int_));
  EXPECT_FALSE(file_might_match(*filter("x = 1", schema), DataFile{}));
  EXPECT_TRUE(file_must_match(*filter("x = 1", schema), DataFile{}));
}

TEST(Metrics, OnlyNullTestsPruneVariantAndGeometryColumns) {
  for (const TypePtr& type : {prim(TypeId::variant), Type::geometry(""), Type::geography("", "")}) {
    const Schema schema = one_column(type);
    DataFile file = file_of(2, 0, std::nullopt, std::nullopt, std::nullopt, *type);
    file.lower_bounds[1] = file.upper_bounds[1] = std::string(16, '\0');
    EXPECT_FALSE(file_might_match(*filter("x is null", schema), file)) << type->to_string();
    EXPECT_TRUE(file_might_match(*filter("x is not null", schema), file)) << type->to_string();
    EXPECT_THROW(filter("x = 'a'", schema), Error) << type->to_string();
  }
}

bool might(const char* text, const Schema& schema, const char* transform, const Value& partition) {
  PartitionSpec spec;
  spec.fields = {{{1}, 1000, "p", Transform::parse(transform)}};
  return partition_might_match(*filter(text, schema), spec, schema, {partition});
}

std::string rest(const char* text, const Schema& schema, const char* transform, const Value& partition) {
  PartitionSpec spec;
  spec.fields = {{{1}, 1000, "p", Transform::parse(transform)}};
  return to_string(*residual(filter(text, schema), spec, schema, {partition}));
}

TEST(Partition, NotStartsWithOverTruncateKeepsWhatMatches) {  // cases.md 5
  const Schema schema = one_column(prim(TypeId::string));
  EXPECT_TRUE(might("x not like 'abc%'", schema, "truncate[2]", "ab")) << "longer than the width: says nothing";
  EXPECT_FALSE(might("x not like 'ab%'", schema, "truncate[2]", "ab")) << "as long: all rows start so";
  EXPECT_TRUE(might("x not like 'ab%'", schema, "truncate[2]", "ac"));
  EXPECT_TRUE(might("x not like 'ab%'", schema, "truncate[2]", "a")) << "a value shorter than the width is whole";
  EXPECT_FALSE(might("x not like 'a%'", schema, "truncate[2]", "ab")) << "shorter: also decided";
  EXPECT_TRUE(might("x not like 'b%'", schema, "truncate[2]", "ab"));
  EXPECT_FALSE(might("x like 'abc%'", schema, "truncate[2]", "ac"));
  EXPECT_TRUE(might("x like 'abc%'", schema, "truncate[2]", "ab"));
  EXPECT_FALSE(might("x like 'abc%'", schema, "truncate[2]", "a"));
  EXPECT_EQ(rest("x not like 'a%'", schema, "truncate[2]", "bc"), "true");
}

TEST(Partition, OldJavaTuplesBefore1970StillFindTheirRows) {  // cases.md 4
  const Schema schema = one_column(prim(TypeId::timestamp));
  for (const char* transform : {"hour", "day", "month", "year"}) {
    // 1969-12-31T23:59:59 is in unit -1; old Java wrote 0.
    EXPECT_TRUE(might("x = '1969-12-31T23:59:59'", schema, transform, Value(-1))) << transform;
    EXPECT_TRUE(might("x = '1969-12-31T23:59:59'", schema, transform, Value(0))) << transform;
    EXPECT_TRUE(might("x < '1970-01-01'", schema, transform, Value(0))) << transform;
    EXPECT_NE(rest("x >= '1970-01-01'", schema, transform, Value(0)), "true") << transform;
    EXPECT_FALSE(might("x = '1969-12-31T23:59:59'", schema, transform, Value(1))) << transform;
    EXPECT_FALSE(might("x = '1971-06-01T00:00:00'", schema, transform, Value(-1))) << transform;
  }
  EXPECT_EQ(rest("x >= '1970-01-02'", schema, "day", Value(1)), "true");
  const Schema dates = one_column(prim(TypeId::date));
  EXPECT_FALSE(might("x = '1969-12-31'", dates, "day", Value(0))) << "days of dates were always right";
  EXPECT_TRUE(might("x = '1969-12-31'", dates, "month", Value(0)));
}

TEST(Partition, IdentityDecidesEveryPredicate) {
  const Schema schema = one_column(prim(TypeId::string));
  EXPECT_EQ(rest("x = 'East' and x like 'E%' and x in ('West', 'East')", schema, "identity", "East"), "true");
  EXPECT_EQ(rest("x > 'East' or x is null", schema, "identity", "East"), "false");
  EXPECT_EQ(rest("x is null", schema, "identity", Value()), "true");
  EXPECT_EQ(rest("x != 'a' or not (x = 'a')", schema, "identity", Value()), "false");
  const Schema doubles = one_column(prim(TypeId::double_));
  EXPECT_EQ(rest("isnan(x) and x != 1.0", doubles, "identity", Value(std::nan(""))), "true");
  EXPECT_EQ(rest("x > 1.0 or x = 1.0", doubles, "identity", Value(std::nan(""))), "false");
  EXPECT_EQ(rest("x = 0.0", doubles, "identity", Value(-0.0)), "true");
}

TEST(Partition, UuidsCompareAsUnsignedBytes) {  // where PyIceberg prunes the matching partition
  const Schema schema = one_column(prim(TypeId::uuid));
  EXPECT_TRUE(might("x = '00000000-0000-0000-0000-000000000000'", schema, "identity", std::string(16, '\0')));
  EXPECT_TRUE(might("x > '7fffffff-ffff-ffff-ffff-ffffffffffff'", schema, "identity", std::string(16, '\xFF')));
}

TEST(Partition, ANullOfTheTupleMayBeTheColumnsDefault) {  // cases.md 16
  const Schema schema = one_column(prim(TypeId::int_), Value(7));
  EXPECT_TRUE(might("x = 7", schema, "identity", Value()));
  EXPECT_EQ(rest("x is null", schema, "identity", Value()), "x is null");
}

TEST(Partition, TuplesFromBeforeAPromotionAreCompared) {
  EXPECT_FALSE(might("x = 3000000000", one_column(prim(TypeId::long_)), "identity", Value(5)));
  EXPECT_TRUE(might("x = 5", one_column(prim(TypeId::long_)), "truncate[10]", Value(0)));
  EXPECT_FALSE(might("x = 2.5", one_column(prim(TypeId::double_)), "identity", Value(1.5F)));
}

TEST(Partition, BucketsDecideEquality) {
  const Schema schema = one_column(prim(TypeId::int_));
  const Transform bucket = Transform::parse("bucket[16]");
  const int32_t hit = std::get<int32_t>(apply(bucket, Value(34), *prim(TypeId::int_)));  // 2017239379 & … % 16 = 3
  EXPECT_EQ(hit, 3);
  EXPECT_TRUE(might("x = 34", schema, "bucket[16]", Value(3)));
  EXPECT_FALSE(might("x = 34", schema, "bucket[16]", Value(4)));
  EXPECT_FALSE(might("x in (34)", schema, "bucket[16]", Value(4)));
  EXPECT_TRUE(might("x > 34", schema, "bucket[16]", Value(4)));
  EXPECT_EQ(rest("x != 34", schema, "bucket[16]", Value(4)), "true");
  EXPECT_EQ(rest("bucket(16, x) = 4", schema, "bucket[16]", Value(4)), "true");
  EXPECT_EQ(rest("bucket(16, x) = 4", schema, "bucket[8]", Value(4)), "bucket(16, x) = 4");
}

TEST(Partition, VoidAndUnknownTransformsSayNothing) {
  const Schema schema = one_column(prim(TypeId::int_));
  for (const char* text : {"x = 1", "x is null", "x is not null"}) {
    EXPECT_TRUE(might(text, schema, "void", Value())) << text;
    EXPECT_TRUE(might(text, schema, "zorder", Value("?"))) << text;
    EXPECT_TRUE(might(text, schema, "zorder", Value())) << text;
  }
}

TEST(Partition, TruncateThatWrappedAroundSaysNothing) {
  const Schema schema = one_column(prim(TypeId::int_));
  const Transform truncate = Transform::parse("truncate[10]");
  const Value least = std::numeric_limits<int32_t>::min();
  EXPECT_TRUE(might("x = -2147483648", schema, "truncate[10]", apply(truncate, least, *prim(TypeId::int_))));
}

}  // namespace
}  // namespace firn::iceberg
