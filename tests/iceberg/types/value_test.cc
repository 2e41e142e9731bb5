// Single values: the binary and JSON forms of the specification's Appendix D, order, promotion.
#include "iceberg/value.h"

#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include "base/error.h"
#include "iceberg/type.h"

namespace firn::iceberg {
namespace {

using arrow::Decimal128;

std::string bytes(std::initializer_list<int> values) {
  std::string out;
  for (const int value : values) out.push_back(static_cast<char>(value));
  return out;
}

TypePtr prim(TypeId id) { return Type::primitive(id); }

struct Case {
  TypePtr type;
  Value value;
  std::string bytes;
};

// The values of Java's TestConversions.
std::vector<Case> known_bytes() {
  return {
      {prim(TypeId::boolean_), false, bytes({0})},
      {prim(TypeId::boolean_), true, bytes({1})},
      {prim(TypeId::int_), int32_t{84202}, bytes({-22, 72, 1, 0})},
      {prim(TypeId::long_), int64_t{200}, bytes({-56, 0, 0, 0, 0, 0, 0, 0})},
      {prim(TypeId::float_), -4.5F, bytes({0, 0, -112, -64})},
      {prim(TypeId::double_), 6.0, bytes({0, 0, 0, 0, 0, 0, 24, 64})},
      {prim(TypeId::date), int32_t{1000}, bytes({-24, 3, 0, 0})},
      {prim(TypeId::time), int64_t{10000}, bytes({16, 39, 0, 0, 0, 0, 0, 0})},
      {prim(TypeId::timestamp), int64_t{400000}, bytes({-128, 26, 6, 0, 0, 0, 0, 0})},
      {prim(TypeId::timestamptz), int64_t{400000}, bytes({-128, 26, 6, 0, 0, 0, 0, 0})},
      {prim(TypeId::timestamp_ns), int64_t{400000000}, bytes({0, -124, -41, 23, 0, 0, 0, 0})},
      {prim(TypeId::timestamptz_ns), int64_t{400000000}, bytes({0, -124, -41, 23, 0, 0, 0, 0})},
      {prim(TypeId::string), "ABC", "ABC"},
      {prim(TypeId::uuid),
       bytes({0xF7, 0x9C, 0x3E, 0x09, 0x67, 0x7C, 0x4B, 0xBD, 0xA4, 0x79, 0x3F, 0x34, 0x9C, 0xB7, 0x85, 0xE7}),
       bytes({0xF7, 0x9C, 0x3E, 0x09, 0x67, 0x7C, 0x4B, 0xBD, 0xA4, 0x79, 0x3F, 0x34, 0x9C, 0xB7, 0x85, 0xE7})},
      {Type::fixed(2), "ab", "ab"},
      {prim(TypeId::binary), "Z", "Z"},
      {Type::decimal(3, 2), Decimal128(345), bytes({1, 89})},
      {Type::decimal(7, 4), Decimal128(1234567), bytes({18, -42, -121})},
      {Type::decimal(7, 4), Decimal128(-1234567), bytes({-19, 41, 121})},
      {Type::decimal(10, 3), Decimal128(11), bytes({11})},
  };
}

TEST(Value, HasTheBinaryFormOfTheSpecificationAndComesBackFromIt) {
  for (const Case& c : known_bytes()) {
    SCOPED_TRACE(c.type->to_string());
    EXPECT_EQ(to_bytes(c.value, *c.type), c.bytes);
    const auto back = from_bytes(c.bytes, *c.type);
    ASSERT_TRUE(back);
    EXPECT_EQ(*back, c.value);
  }
}

TEST(Value, DecimalBytesAreMinimalAtTheEdgesOfEachLength) {  // cases.md 3
  const auto type = Type::decimal(38, 2);
  EXPECT_EQ(to_bytes(Decimal128(-128), *type), bytes({0x80}));
  EXPECT_EQ(to_bytes(Decimal128(-256), *type), bytes({0xFF, 0x00}));
  EXPECT_EQ(to_bytes(Decimal128(-32768), *type), bytes({0x80, 0x00}));
  EXPECT_EQ(to_bytes(Decimal128(0), *type), bytes({0}));
  EXPECT_EQ(to_bytes(Decimal128(-1), *type), bytes({0xFF}));
  EXPECT_EQ(to_bytes(Decimal128(127), *type), bytes({0x7F}));
  EXPECT_EQ(to_bytes(Decimal128(128), *type), bytes({0x00, 0x80}));
  for (int k = 1; k <= 15; ++k) {
    const Decimal128 edge = Decimal128(Decimal128(1) << (8 * k - 1));
    EXPECT_EQ(to_bytes(edge, *type).size(), static_cast<size_t>(k + 1)) << k;
    EXPECT_EQ(to_bytes(Decimal128(edge - Decimal128(1)), *type).size(), static_cast<size_t>(k)) << k;
    EXPECT_EQ(to_bytes(Decimal128(-edge), *type).size(), static_cast<size_t>(k)) << k;
    EXPECT_EQ(to_bytes(Decimal128(-edge - Decimal128(1)), *type).size(), static_cast<size_t>(k + 1)) << k;
    for (const Decimal128& value : {edge, Decimal128(-edge), Decimal128(-edge - Decimal128(1))})
      EXPECT_EQ(from_bytes(to_bytes(value, *type), *type), Value(value)) << k;
  }
}

TEST(Value, DecimalBytesMayBeLongerThanTheyNeed) {
  const auto type = Type::decimal(9, 2);
  EXPECT_EQ(from_bytes(bytes({0, 0, 0, 5}), *type), Value(Decimal128(5)));
  std::string minus_two(20, '\xFF');
  minus_two.back() = '\xFE';
  EXPECT_EQ(from_bytes(minus_two, *type), Value(Decimal128(-2)));
  EXPECT_FALSE(from_bytes(std::string(17, '\x01'), *type));
  EXPECT_FALSE(from_bytes("", *type));
}

TEST(Value, BytesFromBeforeAPromotionAreRead) {  // spec, "Schema Evolution": bounds by their length
  EXPECT_EQ(from_bytes(bytes({-22, 72, 1, 0}), *prim(TypeId::long_)), Value(int64_t{84202}));
  EXPECT_EQ(from_bytes(bytes({0, 0, -112, -64}), *prim(TypeId::double_)), Value(-4.5));
  EXPECT_EQ(from_bytes(bytes({1, 0, 0, 0}), *prim(TypeId::timestamp)), Value(int64_t{86'400'000'000}));
  EXPECT_EQ(from_bytes(bytes({-1, -1, -1, -1}), *prim(TypeId::timestamp_ns)), Value(int64_t{-86'400'000'000'000}));
  EXPECT_FALSE(from_bytes(bytes({-1, -1, -1, 127}), *prim(TypeId::timestamp_ns))) << "a date beyond int64 nanoseconds";
  EXPECT_FALSE(from_bytes(bytes({1, 0, 0, 0}), *prim(TypeId::timestamptz))) << "no promotion";
}

TEST(Value, IllFormedBytesAreUnknown) {
  EXPECT_FALSE(from_bytes("abc", *prim(TypeId::int_)));
  EXPECT_FALSE(from_bytes("", *prim(TypeId::boolean_)));
  EXPECT_FALSE(from_bytes("John O\xE2\x80", *prim(TypeId::string))) << "cut inside a character (cases.md 2)";
  EXPECT_FALSE(from_bytes("short", *prim(TypeId::uuid)));
  EXPECT_FALSE(from_bytes("too long", *Type::fixed(4)));
  EXPECT_EQ(from_bytes("cut", *Type::fixed(4)), Value("cut")) << "bounds of fixed columns are cut too";
  EXPECT_FALSE(from_bytes("12345678", *prim(TypeId::variant)));
  EXPECT_FALSE(from_bytes("1234567812345678", *Type::geometry("")));
}

TEST(Value, HasTheJsonFormOfTheSpecificationAndComesBackFromIt) {
  struct JsonCase {
    TypePtr type;
    const char* json;
  };
  const std::vector<JsonCase> cases = {
      {prim(TypeId::boolean_), "true"},
      {prim(TypeId::int_), "34"},
      {prim(TypeId::long_), "-9223372036854775808"},
      {prim(TypeId::float_), "0.1"},
      {prim(TypeId::double_), "0.1"},
      {Type::decimal(9, 2), "\"14.20\""},
      {Type::decimal(9, 0), "\"-7\""},
      {Type::decimal(38, 10), "\"0.0000000001\""},
      {prim(TypeId::date), "\"2017-11-16\""},
      {prim(TypeId::date), "\"+10000-01-01\""},
      {prim(TypeId::timestamp), "\"-290308-12-21T19:59:05.224192\""},
      {prim(TypeId::time), "\"22:31:08.123456\""},
      {prim(TypeId::timestamp), "\"2017-11-16T22:31:08.123456\""},
      {prim(TypeId::timestamptz), "\"2017-11-16T22:31:08.123456+00:00\""},
      {prim(TypeId::timestamp_ns), "\"2017-11-16T22:31:08.123456789\""},
      {prim(TypeId::timestamptz_ns), "\"1969-12-31T23:59:59.999999999+00:00\""},
      {prim(TypeId::string), "\"iceberg\""},
      {prim(TypeId::uuid), "\"f79c3e09-677c-4bbd-a479-3f349cb785e7\""},
      {Type::fixed(4), "\"000102ff\""},
      {prim(TypeId::binary), "\"000102ff\""},
      {Type::struct_of({{.id = 1, .name = "a", .type = prim(TypeId::int_)}}), "{\"1\":1}"},
      {Type::list_of(3, false, prim(TypeId::int_)), "[1,2,3]"},
      {Type::map_of(4, prim(TypeId::string), 5, false, prim(TypeId::int_)),
       "{\"keys\":[\"a\",\"b\"],\"values\":[1,2]}"},
  };
  for (const JsonCase& c : cases) {
    SCOPED_TRACE(c.type->to_string());
    const Value value = from_json(parse_json(c.json, "test"), *c.type, "test");
    EXPECT_EQ(to_json(value, *c.type).dump(), c.json);
  }
  EXPECT_EQ(from_json(Json("00FF7F"), *Type::fixed(3), "test"), Value(bytes({0, 255, 127}))) << "Java writes capitals";
  EXPECT_EQ(from_json(Json("2E+2"), *Type::decimal(9, 2), "test"), Value(Decimal128(20000)));
  EXPECT_EQ(to_json(std::numeric_limits<double>::quiet_NaN(), *prim(TypeId::double_)), Json("NaN"));
}

TEST(Value, JsonOfAnotherTypeOrOutOfRangeIsRefused) {
  const auto refused = [](const char* json, const TypePtr& type) {
    EXPECT_THROW(from_json(parse_json(json, "test"), *type, "test"), Error) << json << " as " << type->to_string();
  };
  refused("1.5", prim(TypeId::int_));
  refused("2147483648", prim(TypeId::int_));
  refused("9223372036854775808", prim(TypeId::long_));
  refused("\"1\"", prim(TypeId::long_));
  refused("1e300", prim(TypeId::float_));
  refused("\"1.234\"", Type::decimal(9, 2));
  refused("\"12345678.00\"", Type::decimal(9, 2));
  refused("\"340282366920938463463374607431768211457\"", Type::decimal(9, 2));  // 2^128 + 1
  refused("\"34028236692093847e22\"", Type::decimal(38, 2));
  refused("\"1e-400\"", Type::decimal(9, 2));
  refused("\".\"", Type::decimal(9, 2));
  refused("\"1e\"", Type::decimal(9, 2));
  refused("\"2017-02-29\"", prim(TypeId::date));
  refused("\"2017-11-16T22:31:08+00:00\"", prim(TypeId::timestamp));
  refused("\"2017-11-16T22:31:08\"", prim(TypeId::timestamptz));
  refused("\"000102\"", Type::fixed(4));
  refused("\"0g\"", prim(TypeId::binary));
  refused("\"x\"", prim(TypeId::variant));
  refused("[\"x\"]", Type::list_of(3, false, prim(TypeId::int_)));
}

TEST(Value, OrderIsNumericWithNanAboveAllAndBytesUnsigned) {
  const double nan = std::numeric_limits<double>::quiet_NaN(), inf = std::numeric_limits<double>::infinity();
  EXPECT_TRUE(compare(Value(-1), Value(1)) < 0);
  EXPECT_TRUE(compare(Value(nan), Value(inf)) > 0);
  EXPECT_TRUE(compare(Value(nan), Value(nan)) == 0);
  EXPECT_TRUE(compare(Value(-0.0), Value(0.0)) == 0);
  EXPECT_TRUE(compare(Value(-0.0), Value(0.0), true) < 0);
  EXPECT_TRUE(compare(Value(0.0F), Value(-0.0F), true) > 0);
  EXPECT_TRUE(compare(Value("\x7F"), Value("\x80")) < 0);
  EXPECT_TRUE(compare(Value("a"), Value("aa")) < 0);
  EXPECT_TRUE(compare(Value(Decimal128(-5)), Value(Decimal128(3))) < 0);
  EXPECT_TRUE(compare(Value(false), Value(true)) < 0);
}

TEST(Value, PromotionKeepsTheValue) {
  EXPECT_EQ(promote(Value(7), *prim(TypeId::int_), *prim(TypeId::long_)), Value(int64_t{7}));
  EXPECT_EQ(promote(Value(1.5F), *prim(TypeId::float_), *prim(TypeId::double_)), Value(1.5));
  EXPECT_EQ(promote(Value(-1), *prim(TypeId::date), *prim(TypeId::timestamp)), Value(int64_t{-86'400'000'000}));
  EXPECT_EQ(promote(Value(), *prim(TypeId::int_), *prim(TypeId::long_)), Value());
  EXPECT_FALSE(promote(Value(int64_t{7}), *prim(TypeId::long_), *prim(TypeId::int_)));
  EXPECT_FALSE(promote(Value(200'000), *prim(TypeId::date), *prim(TypeId::timestamp_ns)));
}

TEST(Value, IsDisplayedWithoutQuotes) {
  EXPECT_EQ(to_display(Value(1.0), *prim(TypeId::double_)), "1.0");
  EXPECT_EQ(to_display(Value(-0.0), *prim(TypeId::double_)), "-0.0");
  EXPECT_EQ(to_display(Value(0.1F), *prim(TypeId::float_)), "0.1");
  EXPECT_EQ(to_display(Value(Decimal128(-5)), *Type::decimal(9, 2)), "-0.05");
  EXPECT_EQ(to_display(Value(Decimal128(12345)), *Type::decimal(9, 2)), "123.45");
  EXPECT_EQ(to_display(Value(bytes({0, 255})), *prim(TypeId::binary)), "00ff");
  EXPECT_EQ(to_display(Value(), *prim(TypeId::int_)), "null");
}

}  // namespace
}  // namespace firn::iceberg
