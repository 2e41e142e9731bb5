// Filters: their text, their JSON, and what binding makes of them.
#include "iceberg/expr/expression.h"

#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "iceberg/expr/parse.h"

namespace firn::iceberg {
namespace {

TypePtr prim(TypeId id) { return Type::primitive(id); }

const Schema& schema() {
  static const Schema kSchema({
      {.id = 1, .name = "i", .type = prim(TypeId::int_)},
      {.id = 2, .name = "l", .type = prim(TypeId::long_)},
      {.id = 3, .name = "f", .type = prim(TypeId::float_)},
      {.id = 4, .name = "d", .type = prim(TypeId::double_)},
      {.id = 5, .name = "dec", .type = Type::decimal(9, 2)},
      {.id = 6, .name = "dt", .type = prim(TypeId::date)},
      {.id = 7, .name = "ts", .type = prim(TypeId::timestamp)},
      {.id = 8, .name = "tz", .type = prim(TypeId::timestamptz)},
      {.id = 9, .name = "tn", .type = prim(TypeId::timestamp_ns)},
      {.id = 10, .name = "s", .type = prim(TypeId::string)},
      {.id = 11, .name = "u", .type = prim(TypeId::uuid)},
      {.id = 12, .name = "bin", .type = prim(TypeId::binary)},
      {.id = 13, .name = "req", .required = true, .type = prim(TypeId::int_)},
      {.id = 14,
       .name = "St",
       .type = Type::struct_of({{.id = 15, .name = "x", .required = true, .type = prim(TypeId::int_)}})},
      {.id = 16, .name = "list", .type = Type::list_of(17, false, prim(TypeId::int_))},
      {.id = 18, .name = "v", .type = prim(TypeId::variant)},
      {.id = 19, .name = "unk", .type = prim(TypeId::unknown)},
      {.id = 20, .name = "b", .type = prim(TypeId::boolean_)},
      {.id = 21, .name = "odd \"name", .type = prim(TypeId::int_)},
      {.id = 22, .name = "g", .type = Type::geometry("")},
      {.id = 23, .name = "tm", .type = prim(TypeId::time)},
  });
  return kSchema;
}

std::string bound(std::string_view text) { return to_string(*bind(*parse_expression(text), schema())); }

std::string refusal(std::string_view text) {
  try {
    return "bound: " + bound(text);
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::invalid_argument) << e.what();
    return e.what();
  }
}

TEST(FilterText, IsReadAsSqlHasIt) {
  EXPECT_EQ(bound("ts >= '2024-01-01' and (s = 'x' or i in (2, 1)) and not (l is null) and s like 'pre%' and isnan(d)"),
            "((ts >= '2024-01-01T00:00:00.000000' and (s = 'x' or i in (1, 2))) and (l is not null and (s like 'pre%' "
            "and d is nan)))");
  EXPECT_EQ(bound("i between 1 and 3 or 5 < l"), "((i >= 1 and i <= 3) or l > 5)");
  EXPECT_EQ(bound("i <> 1 AND NOT i == 2"), "(i != 1 and i != 2)");
  EXPECT_EQ(bound("s not like 'a\\_b\\%%' or s like 'exact'"), "(s not like 'a\\_b\\%%' or s = 'exact')");
  EXPECT_EQ(bound("s = 'it''s'"), "s = 'it''s'");
  EXPECT_EQ(bound("bin = x'0aFF' or bin > 'z'"), "(bin = x'0aff' or bin > x'7a')");
  EXPECT_EQ(bound("dt = date '2024-02-29'"), "dt = '2024-02-29'");
  EXPECT_EQ(bound("b and not b"), "(b = true and b != true)");
  EXPECT_EQ(bound("\"odd \"\"name\" = 1 and St.x = 2 and \"St\".\"x\" = 3"),
            "(\"odd \"\"name\" = 1 and (St.x = 2 and St.x = 3))");
  EXPECT_EQ(bound("true"), "true");
  EXPECT_EQ(bound("i = 1 or true"), "true");
  EXPECT_EQ(bound("d > -1.5e3 and l < 9223372036854775807"), "(d > -1500.0 and l < 9223372036854775807)");
  EXPECT_EQ(bound("d = 'NaN' or d = 'Infinity'"), "d = 'Infinity'");
}

TEST(FilterText, MistakesAreNamedWithTheirPosition) {
  EXPECT_NE(refusal("i = ").find("byte 5"), std::string::npos);
  EXPECT_NE(refusal("i = 1 and (l = 2").find("expected )"), std::string::npos);
  EXPECT_NE(refusal("i = 1 l = 2").find("byte 7"), std::string::npos);
  EXPECT_NE(refusal("s = 'open").find("closing"), std::string::npos);
  EXPECT_NE(refusal("s like 'a_b%'").find("prefix"), std::string::npos);
  EXPECT_NE(refusal("s like '%a'").find("prefix"), std::string::npos);
  EXPECT_NE(refusal("i in ()").find("byte 7"), std::string::npos);
  EXPECT_NE(refusal("i = 1.2.3").find("a number"), std::string::npos);
  EXPECT_NE(refusal("frob(i) = 1").find("transform"), std::string::npos);
  EXPECT_NE(refusal("").find("the end"), std::string::npos);
  EXPECT_NE(refusal(std::string(5000, '(')).find("levels"), std::string::npos);
  EXPECT_NE(refusal("bin = x'0'").find("hexadecimal"), std::string::npos);
}

TEST(FilterText, ALongListOfAlternativesIsNotDeep) {
  std::string text = "i = 0";
  for (int i = 1; i < 50000; ++i) text += " or i = " + std::to_string(i);
  EXPECT_FALSE(bound(text).empty());
}

TEST(Binding, ResolvesColumnsAndNamesThoseThatAreNotThere) {
  const auto e = bind(*parse_expression("St.x = 1"), schema());
  EXPECT_EQ(e->field_id, 15);
  EXPECT_EQ(referenced_field_ids(*bind(*parse_expression("i = 1 or (l = 2 and i > 3)"), schema())),
            (std::vector<int32_t>{1, 2}));
  EXPECT_NE(refusal("nope = 1").find("nope"), std::string::npos);
  EXPECT_NE(refusal("I = 1").find("in that case"), std::string::npos);
  EXPECT_EQ(bind(*parse_expression("ST.X = 1"), schema(), false)->field_id, 15);
  EXPECT_NE(refusal("list.element = 1").find("list or map"), std::string::npos);
}

TEST(Binding, ComparesAnIntegerColumnWithWhatIsNoneOfItsValues) {
  EXPECT_EQ(bound("i < 2.5 and i <= 2.5"), "(i <= 2 and i <= 2)");
  EXPECT_EQ(bound("i > -2.5 and i >= -2.5"), "(i > -3 and i > -3)");
  EXPECT_EQ(bound("i = 2.5"), "false");
  EXPECT_EQ(bound("i != 2.5"), "i is not null");
  EXPECT_EQ(bound("i < 3000000000"), "i is not null");
  EXPECT_EQ(bound("i >= 3000000000"), "false");
  EXPECT_EQ(bound("i > -3000000000"), "i is not null");
  EXPECT_EQ(bound("i in (1, 2.5, 3000000000)"), "i = 1");
  EXPECT_EQ(bound("i not in (2.5)"), "i is not null");
  EXPECT_EQ(bound("l < 99999999999999999999"), "l is not null");
  EXPECT_EQ(bound("l = 2.0"), "l = 2");
  EXPECT_EQ(bound("l < 1e300"), "l is not null");
}

TEST(Binding, ComparesOtherNumbersWithoutLoss) {
  EXPECT_EQ(bound("dec = 1.1"), "dec = 1.10");
  EXPECT_EQ(bound("dec = '1.10'"), "dec = 1.10");
  EXPECT_EQ(bound("dec < 1.105"), "dec <= 1.10");
  EXPECT_EQ(bound("dec > -1.105"), "dec > -1.11");
  EXPECT_EQ(bound("dec = 7"), "dec = 7.00");
  EXPECT_EQ(bound("dec < 10000000"), "dec is not null");
  EXPECT_EQ(bound("dec > 1e-60"), "dec > 0.00");
  EXPECT_EQ(bound("dec > -1e60"), "dec is not null");
  EXPECT_EQ(bound("f = 0.1"), "f = 0.1") << "the float nearest to it";
  EXPECT_EQ(bound("f < 1e300"), "f <= 3.4028235e+38") << "infinity is not below it";
  EXPECT_EQ(bound("d = 9007199254740993"), "false") << "between two doubles";
  EXPECT_EQ(bound("d < 9007199254740993"), "d <= 9007199254740992.0");
  EXPECT_EQ(to_string(*bind(*predicate(Op::eq, "l", {int32_t{5}}), schema())), "l = 5");
  EXPECT_EQ(to_string(*bind(*predicate(Op::eq, "dec", {arrow::Decimal128(110)}), schema())), "dec = 1.10");
}

TEST(Binding, ComparesADecimalWithMoreDigitsThanAnyDecimalHas) {
  const Schema wide({{.id = 1, .name = "d", .type = Type::decimal(38, 10)}});
  const auto bound_wide = [&](std::string_view text) { return to_string(*bind(*parse_expression(text), wide)); };
  for (const std::string& huge :
       {std::string(41, '9'), "340282366920938463463374607431768211457" + std::string(20, '0'),
        std::string("1e99999999999"), std::string(29, '9'), std::string(41, '9') + ".5e-3"}) {
    SCOPED_TRACE(huge);
    for (const std::string& literal : {huge, "'" + huge + "'"}) {
      EXPECT_EQ(bound_wide("d > " + literal), "false");
      EXPECT_EQ(bound_wide("d >= " + literal), "false");
      EXPECT_EQ(bound_wide("d = " + literal), "false");
      EXPECT_EQ(bound_wide("d in (1, " + literal + ")"), "d = 1.0000000000");
      EXPECT_EQ(bound_wide("d < " + literal), "d is not null");
      EXPECT_EQ(bound_wide("d <= " + literal), "d is not null");
      EXPECT_EQ(bound_wide("d != " + literal), "d is not null");
      EXPECT_EQ(bound_wide("d not between 1 and " + literal), "d < 1.0000000000");
    }
    EXPECT_EQ(bound_wide("d > -" + huge), "d is not null");
    EXPECT_EQ(bound_wide("d < '-" + huge + "'"), "false");
  }
  const std::string largest = std::string(28, '9') + ".9999999999", beyond = largest + "1";
  EXPECT_EQ(bound_wide("d < " + beyond), "d <= " + largest);
  EXPECT_EQ(bound_wide("d > " + std::string(28, '9') + ".99999999989"), "d > " + std::string(28, '9') + ".9999999998");
  EXPECT_EQ(bound_wide("d > -" + beyond), "d is not null");
  EXPECT_EQ(bound_wide("d >= " + largest + std::string(60, '0')), "d >= " + largest);
  EXPECT_EQ(bound_wide("d > -" + ("0." + std::string(70, '0')) + "1"), "d > -0.0000000001");
}

TEST(Binding, ComparesAnIntegerWithMoreDigitsThanItHas) {
  EXPECT_EQ(bound("l >= -9223372036854775807.5"), "l > -9223372036854775808");
  EXPECT_EQ(bound("l = 9223372036854775807.0"), "l = 9223372036854775807");
  EXPECT_EQ(bound("l < 9223372036854775807.5"), "l <= 9223372036854775807");
  EXPECT_EQ(bound("l < 1." + std::string(60, '0') + "1"), "l <= 1");
  EXPECT_EQ(bound("i > " + std::string(60, '9')), "false");
}

TEST(Binding, ComparesWithWhatLiesBesideZero) {
  for (const std::string column : {"d", "f"}) {
    EXPECT_EQ(bound(column + " < 1e-400"), column + " <= 0.0");
    EXPECT_EQ(bound(column + " = 1e-400"), "false");
    EXPECT_EQ(bound(column + " != -1e-400"), column + " is not null");
    EXPECT_EQ(bound(column + " >= '1e-400'"), column + " > 0.0");
    EXPECT_EQ(bound(column + " = 0e-400"), column + " = 0.0");
  }
  EXPECT_EQ(bound("d > -1e-400"), "d > -5e-324");
  EXPECT_EQ(bound("f > -1e-60"), "f > -1e-45");
  EXPECT_EQ(bound("f < 1e-60"), "f <= 0.0");
  EXPECT_EQ(to_string(*bind(*predicate(Op::lt, "f", {1e-60}), schema())), "f <= 0.0");
}

TEST(Binding, ComparesTimesByTheirText) {
  EXPECT_EQ(bound("dt < '2024-01-01T12:00:00'"), "dt <= '2024-01-01'");
  EXPECT_EQ(bound("ts > '2024-01-01T00:00:00.0000005'"), "ts > '2024-01-01T00:00:00.000000'");
  EXPECT_EQ(bound("tz = '2024-01-01T01:00:00+01:00'"), "tz = '2024-01-01T00:00:00.000000+00:00'");
  EXPECT_EQ(bound("tz >= '2024-01-01'"), "tz >= '2024-01-01T00:00:00.000000+00:00'");
  EXPECT_EQ(bound("tn < '3000-01-01'"), "tn is not null") << "beyond int64 nanoseconds";
  EXPECT_EQ(bound("tn > '0001-01-01'"), "tn is not null");
  EXPECT_EQ(bound("tm = '12:00'"), "tm = '12:00:00.000000'");
  for (const char* text : {"dt = '+10000-01-01'", "dt = '0000-12-31'", "ts = '+294247-01-10T04:00:54.775807'",
                           "tz > '-290308-12-21T19:59:05.224192+00:00'"}) {
    EXPECT_EQ(bound(text), text) << "as scan prints it";
  }
  EXPECT_EQ(bound("tn < '+10000-01-01'"), "tn is not null");
  EXPECT_NE(refusal("ts = '2024-01-01T00:00:00Z'").find("offset"), std::string::npos);
  EXPECT_NE(refusal("dt = '2023-02-29'").find("dt"), std::string::npos);
}

TEST(Binding, NullAndNanLiteralsFollowThreeValuedLogic) {
  EXPECT_EQ(bound("i = null"), "false");
  EXPECT_EQ(bound("not (i = null)"), "false");
  EXPECT_EQ(bound("i in (1, null)"), "i = 1");
  EXPECT_EQ(bound("i not in (1, null)"), "false");
  EXPECT_EQ(bound("d < 'NaN'"), "false");
  EXPECT_EQ(bound("not (d < 'NaN')"), "d is not null");
  EXPECT_EQ(bound("d != 'NaN'"), "d is not null");
  EXPECT_EQ(bound("d in ('NaN', 1)"), "d = 1.0");
}

TEST(Binding, PushesNotDownWithoutLosingNan) {
  EXPECT_EQ(bound("not (i < 5 and (s = 'x' or i is null))"), "(i >= 5 or (s != 'x' and i is not null))");
  EXPECT_EQ(bound("not (d < 5)"), "(d >= 5.0 or d is nan)");
  EXPECT_EQ(bound("not (d = 5)"), "d != 5.0");
  EXPECT_EQ(bound("not (s like 'a%')"), "s not like 'a%'");
  EXPECT_EQ(bound("not (not (i = 1))"), "i = 1");
}

TEST(Binding, NullTestsOfRequiredColumnsAreDecided) {
  EXPECT_EQ(bound("req is null"), "false");
  EXPECT_EQ(bound("req is not null"), "true");
  EXPECT_EQ(bound("St.x is null"), "St.x is null") << "its struct may be null";
  EXPECT_EQ(bound("list is null and St is not null and v is null and g is null"),
            "((list is null and St is not null) and (v is null and g is null))");
}

TEST(Binding, RefusesWhatTheTypeDoesNotHave) {
  EXPECT_NE(refusal("v = 1").find("null"), std::string::npos);
  EXPECT_NE(refusal("g = 'POINT (1 2)'").find("null"), std::string::npos);
  EXPECT_NE(refusal("St = 1").find("null"), std::string::npos);
  EXPECT_NE(refusal("i like 'a%'").find("prefix"), std::string::npos);
  EXPECT_NE(refusal("isnan(i)").find("NaN"), std::string::npos);
  EXPECT_NE(refusal("i = 'x'").find("Column i"), std::string::npos);
  EXPECT_NE(refusal("u = 'not a uuid'").find("Column u"), std::string::npos);
  EXPECT_NE(refusal("b = 1").find("Column b"), std::string::npos);
  EXPECT_EQ(bound("unk = 1 or unk > 'x'"), "false") << "all its values are null";
}

TEST(Binding, TurnsTermsOfTransformsIntoRanges) {
  EXPECT_EQ(bound("year(dt) = -1"), "(dt >= '1969-01-01' and dt < '1970-01-01')");
  EXPECT_EQ(bound("hour(tz) = -2"),
            "(tz >= '1969-12-31T22:00:00.000000+00:00' and tz < '1969-12-31T23:00:00.000000+00:00')");
  EXPECT_EQ(bound("day(ts) >= '2024-02-29'"), "ts >= '2024-02-29T00:00:00.000000'");
  EXPECT_EQ(bound("month(ts) < 1"), "ts < '1970-02-01T00:00:00.000000'");
  EXPECT_EQ(bound("truncate(10, i) = 20"), "(i >= 20 and i < 30)");
  EXPECT_EQ(bound("truncate(10, i) = 25"), "(i >= 30 and i < 30)");
  EXPECT_EQ(bound("truncate(s, 2) = 'ab'"), "(s >= 'ab' and (s < 'ab' or s like 'ab%'))");
  EXPECT_EQ(bound("truncate(2, s) = 'a'"), "(s >= 'a' and s <= 'a')");
  EXPECT_EQ(bound("bucket(16, i) = 3"), "bucket(16, i) = 3");
  EXPECT_EQ(bound("bucket(16, i) is null"), "i is null");
  EXPECT_EQ(
      bound("not (year(dt) in (0, 1))"),
      "((dt is not null and (dt < '1970-01-01' or dt >= '1971-01-01')) and (dt < '1971-01-01' or dt >= '1972-01-01'))");
  EXPECT_NE(refusal("hour(dt) = 1").find("hour"), std::string::npos);
}

TEST(FilterText, OfBytesIsHexadecimalWhereTheColumnsAreKnown) {
  const Schema columns({{.id = 1, .name = "bin", .type = prim(TypeId::binary)},
                        {.id = 2, .name = "fx", .type = Type::fixed(3)},
                        {.id = 3, .name = "s", .type = prim(TypeId::string)}});
  const auto refused = [&](std::string_view text) {
    try {
      return to_string(*parse_expression_on(columns, text));
    } catch (const Error& e) {
      return std::string(e.what());
    }
  };
  for (const char* text :
       {"bin = '0102AA'", "bin in (x'00', '0102AA')", "'0102AA' < bin", "bin between x'' and '0102AA'",
        "starts_with(bin, '0102AA')", "truncate(2, bin) = '0102AA'", "bin != '0102AA'"})
    EXPECT_THAT(refused(text), ::testing::HasSubstr("bytes are written as x'0102aa'")) << text;
  EXPECT_THAT(refused("bin like 'a%'"), ::testing::HasSubstr("x'0aff'"));
  EXPECT_THAT(refused("fx = x'0102'"), ::testing::HasSubstr("fx of type fixed[3] is compared with 2 bytes"));
  EXPECT_THAT(refused("fx in (x'010203', x'')"), ::testing::HasSubstr("0 bytes"));
  EXPECT_EQ(
      to_string(*bind(*parse_expression_on(columns, "fx > x'01' and fx = x'010203' and bin = x'0102AA' and s = 'a'"),
                      columns)),
      "((fx > x'01' and fx = x'010203') and (bin = x'0102aa' and s = 'a'))");
}

TEST(FilterJson, IsThatOfTheRestCatalogSpecification) {
  const auto from = [](const char* json) {
    return to_string(*bind(*expression_from_json(parse_json(json, "test"), "test"), schema()));
  };
  EXPECT_EQ(from("true"), "true");
  EXPECT_EQ(from(R"({"type":"eq","term":"i","value":5})"), "i = 5");
  EXPECT_EQ(from(R"({"type":"not","child":{"type":"is-null","term":"s"}})"), "s is not null");
  EXPECT_EQ(
      from(
          R"({"type":"or","left":{"type":"lt-eq","term":"d","value":"Infinity"},"right":{"type":"not-nan","term":"d"}})"),
      "(d <= 'Infinity' or d is not nan)");
  EXPECT_EQ(from(R"({"type":"in","term":"dec","values":["1.00","2.5"]})"), "dec in (1.00, 2.50)");
  EXPECT_EQ(from(R"({"type":"eq","term":"bin","value":"00FF"})"), "bin = x'00ff'") << "bytes are hexadecimal here";
  EXPECT_EQ(from(R"({"type":"not-starts-with","term":{"type":"reference","term":"s"},"value":"a"})"),
            "s not like 'a%'");
  EXPECT_EQ(from(R"({"type":"eq","term":{"type":"transform","transform":"hour","term":"tz"},"value":-2})"),
            "(tz >= '1969-12-31T22:00:00.000000+00:00' and tz < '1969-12-31T23:00:00.000000+00:00')");
  for (const char* bad :
       {"5", "{}", R"({"type":"frob"})", R"({"type":"eq","term":"i"})", R"({"type":"eq","term":5,"value":1})",
        R"({"type":"eq","term":"i","value":[1]})", R"({"type":"not"})"})
    EXPECT_THROW(expression_from_json(parse_json(bad, "test"), "test"), Error) << bad;
}

}  // namespace
}  // namespace firn::iceberg
