#include <arrow/array.h>
#include <arrow/array/concatenate.h>
#include <arrow/extension/uuid.h>
#include <arrow/util/key_value_metadata.h>

#include "files.h"

namespace firn::iceberg {
namespace {

Schema every_type() {
  return Schema({field(1, "b", primitive(TypeId::boolean_)), field(2, "i", primitive(TypeId::int_), true),
                 field(3, "l", primitive(TypeId::long_)), field(4, "f", primitive(TypeId::float_)),
                 field(5, "d", primitive(TypeId::double_)), field(6, "dec", Type::decimal(21, 4)),
                 field(7, "date", primitive(TypeId::date)), field(8, "time", primitive(TypeId::time)),
                 field(9, "ts", primitive(TypeId::timestamp)), field(10, "tstz", primitive(TypeId::timestamptz)),
                 field(11, "ts_ns", primitive(TypeId::timestamp_ns)),
                 field(12, "tstz_ns", primitive(TypeId::timestamptz_ns)), field(13, "s", primitive(TypeId::string)),
                 field(14, "fix", Type::fixed(3)), field(15, "bin", primitive(TypeId::binary)),
                 field(16, "st", Type::struct_of({field(17, "x", primitive(TypeId::int_), true)})),
                 field(18, "li", Type::list_of(19, true, primitive(TypeId::string))),
                 field(20, "m", Type::map_of(21, primitive(TypeId::string), 22, false, primitive(TypeId::long_)))});
}

TEST(ArrowSchema, EveryTypeComesBackFromArrowWithItsIds) {
  const Schema schema = every_type();
  EXPECT_TRUE(from_arrow_schema(*to_arrow_schema(schema)).same_fields(schema));
}

TEST(ArrowSchema, TheListElementAndMapKeyCarryTheirFieldIds) {
  const auto schema = to_arrow_schema(every_type());
  EXPECT_EQ(field_id_of(*schema->GetFieldByName("li")->type()->field(0)), 19);
  const auto& map = static_cast<const arrow::MapType&>(*schema->GetFieldByName("m")->type());
  EXPECT_EQ(field_id_of(*map.key_field()), 21);
  EXPECT_EQ(field_id_of(*map.item_field()), 22);
}

TEST(ArrowSchema, SmallIntegersWidenAndUnitsBecomeMicroseconds) {
  const Schema schema = from_arrow_schema(*arrow::schema({
      arrow::field("u8", arrow::uint8()),
      arrow::field("u32", arrow::uint32()),
      arrow::field("ms", arrow::timestamp(arrow::TimeUnit::MILLI)),
      arrow::field("s_utc", arrow::timestamp(arrow::TimeUnit::SECOND, "Europe/Paris")),
      arrow::field("dict", arrow::dictionary(arrow::int8(), arrow::utf8())),
      arrow::field("large", arrow::large_utf8(), false),
      arrow::field("uuid", arrow::extension::uuid()),
  }));
  ASSERT_EQ(schema.fields().size(), 7U);
  std::vector<std::string> types;
  for (const Field& f : schema.fields()) types.push_back(f.type->to_string());
  EXPECT_EQ(types, (std::vector<std::string>{"int", "long", "timestamp", "timestamptz", "string", "string", "uuid"}));
  EXPECT_TRUE(schema.fields()[5].required);
  EXPECT_EQ(schema.fields()[0].id, 1);
}

TEST(ArrowSchema, ATypeIcebergLacksIsRefusedByName) {
  std::string message;
  EXPECT_EQ(kind_of(
                [] {
                  from_arrow_schema(*arrow::schema({arrow::field(
                      "st", arrow::struct_({arrow::field("dur", arrow::duration(arrow::TimeUnit::SECOND))}))}));
                },
                &message),
            ErrorKind::unsupported);
  EXPECT_NE(message.find("st.dur"), std::string::npos) << message;
}

TEST(Conform, ColumnsGoByIdWhereTheyHaveOneWhateverTheirNames) {
  const Schema table({field(1, "a", primitive(TypeId::long_)), field(2, "b", primitive(TypeId::string))});
  const auto id = [](int i) { return arrow::key_value_metadata({{"PARQUET:field_id", std::to_string(i)}}); };
  const auto rows = batch_of(
      arrow::schema({arrow::field("a", arrow::utf8(), true, id(2)), arrow::field("z", arrow::int32(), true, id(1))}),
      R"([["x", 1], [null, 2]])");
  expect_equal(*conform(rows, table), *batch_of(table, R"([[1, "x"], [2, null]])"));
}

TEST(Conform, ColumnsWithoutIdsGoByNameAndMissingOptionalOnesAreNull) {
  const Schema table(
      {field(1, "a", primitive(TypeId::long_)),
       field(2, "st",
             Type::struct_of({field(3, "x", primitive(TypeId::double_)), field(4, "y", primitive(TypeId::int_))}))});
  const auto rows = batch_of(arrow::schema({arrow::field("st", arrow::struct_({arrow::field("x", arrow::float32())}))}),
                             R"([[[1.5]], [null]])");
  expect_equal(*conform(rows, table), *batch_of(table, "[[null, [1.5, null]], [null, null]]"));
}

TEST(Conform, ASlicedStructKeepsItsNulls) {
  const Schema table({field(2, "st", Type::struct_of({field(3, "x", primitive(TypeId::double_))}))});
  const auto rows = batch_of(arrow::schema({arrow::field("st", arrow::struct_({arrow::field("x", arrow::float32())}))}),
                             R"([[[1]], [null], [[3]], [[null]], [null], [[6]]])");
  expect_equal(*conform(rows->Slice(1, 4), table), *batch_of(table, "[[null], [[3]], [[null]], [null]]"));
}

// Arrow's own nulls of a struct have null members; its Parquet writer refuses those where they are required.
TEST(Conform, ANullStructHasNoNullInItsRequiredMembers) {
  const auto deep = Type::struct_of(
      {field(3, "x", primitive(TypeId::long_), true),
       field(4, "l", Type::list_of(5, true, primitive(TypeId::string)), true),
       field(6, "m", Type::map_of(7, primitive(TypeId::string), 8, true, primitive(TypeId::long_)), true),
       field(9, "o", primitive(TypeId::string))});
  const auto inner = Type::struct_of({field(13, "y", primitive(TypeId::string), true)});
  const Schema table({field(1, "st", Type::struct_of({field(2, "deep", deep, true)})),
                      field(10, "v", primitive(TypeId::variant)), field(11, "more", Type::list_of(12, true, inner))});
  const auto expect_well = [&](const arrow::RecordBatch& rows) {
    ASSERT_TRUE(rows.ValidateFull().ok());
    const auto walk = [](const arrow::Array& array, const arrow::Field& of, const auto& again) -> void {
      if (!of.nullable()) {
        EXPECT_EQ(array.null_count(), 0) << of.ToString();
      }
      for (int i = 0; i < of.type()->num_fields(); ++i)
        again(*arrow::MakeArray(array.data()->child_data[static_cast<size_t>(i)]), *of.type()->field(i), again);
    };
    for (int i = 0; i < rows.num_columns(); ++i) walk(*rows.column(i), *rows.schema()->field(i), walk);
  };
  const auto lacking = batch_of(arrow::schema({arrow::field("v", arrow::null())}), "[[null], [null]]");
  const auto conformed = conform(lacking, table);
  EXPECT_EQ(conformed->column(0)->null_count(), 2);
  EXPECT_EQ(conformed->column(1)->null_count(), 2);
  expect_well(*conformed);

  arrow::ArrayVector nulls;
  const auto columns = to_arrow_schema(table);
  for (const auto& column : columns->fields()) nulls.push_back(*arrow::MakeArrayOfNull(column->type(), 3));
  const auto again = conform(arrow::RecordBatch::Make(columns, 3, nulls)->Slice(1, 2), table);
  EXPECT_EQ(again->column(0)->null_count(), 2);
  expect_well(*again);
}

TEST(Conform, UnitsAndEncodingsThatLoseNothingAreCast) {
  const Schema table({field(1, "ts", primitive(TypeId::timestamptz)), field(2, "s", primitive(TypeId::string)),
                      field(3, "d", primitive(TypeId::date)), field(4, "dec", Type::decimal(9, 2)),
                      field(5, "l", Type::list_of(6, false, primitive(TypeId::string)))});
  const auto rows = batch_of(arrow::schema({arrow::field("ts", arrow::timestamp(arrow::TimeUnit::MILLI, "Asia/Tokyo")),
                                            arrow::field("s", arrow::large_utf8()), arrow::field("d", arrow::date64()),
                                            arrow::field("dec", arrow::decimal128(4, 2)),
                                            arrow::field("l", arrow::large_list(arrow::large_utf8()))}),
                             R"([[-1, "é", 86400000, "12.34", ["p", null]]])");
  expect_equal(*conform(rows, table), *batch_of(table, R"([[-1000, "é", 1, "12.34", ["p", null]]])"));
}

TEST(Conform, WhatWouldLoseSomethingIsRefused) {
  const auto refused = [](std::shared_ptr<arrow::DataType> type, const std::string& rows, TypePtr target,
                          bool required = false) {
    const Schema table({field(1, "a", std::move(target), required)});
    return kind_of([&] { conform(batch_of(arrow::schema({arrow::field("a", type)}), rows), table); });
  };
  EXPECT_EQ(refused(arrow::int64(), "[[1]]", primitive(TypeId::int_)), ErrorKind::schema_mismatch);
  EXPECT_EQ(refused(arrow::float64(), "[[1]]", primitive(TypeId::float_)), ErrorKind::schema_mismatch);
  EXPECT_EQ(refused(arrow::timestamp(arrow::TimeUnit::NANO), "[[1]]", primitive(TypeId::timestamp)),
            ErrorKind::schema_mismatch);
  EXPECT_EQ(refused(arrow::timestamp(arrow::TimeUnit::MICRO), "[[1]]", primitive(TypeId::timestamptz)),
            ErrorKind::schema_mismatch);
  EXPECT_EQ(refused(arrow::timestamp(arrow::TimeUnit::SECOND), "[[9223372036855]]", primitive(TypeId::timestamp)),
            ErrorKind::schema_mismatch);
  EXPECT_EQ(refused(arrow::decimal128(5, 3), R"([["1.234"]])", Type::decimal(9, 2)), ErrorKind::schema_mismatch);
  EXPECT_EQ(refused(arrow::binary(), R"([["x"]])", primitive(TypeId::string)), ErrorKind::schema_mismatch);
  EXPECT_EQ(refused(arrow::int64(), "[[null]]", primitive(TypeId::long_), true), ErrorKind::schema_mismatch);
  EXPECT_EQ(refused(arrow::int64(), "[[1]]", primitive(TypeId::string)), ErrorKind::schema_mismatch);
  EXPECT_EQ(refused(arrow::list(arrow::int64()), "[[[1]]]", primitive(TypeId::string)), ErrorKind::schema_mismatch);
  EXPECT_EQ(refused(arrow::list(arrow::int64()), "[[[null]]]", Type::list_of(2, true, primitive(TypeId::long_))),
            ErrorKind::schema_mismatch);
}

TEST(Conform, AnUnknownColumnAndAMissingRequiredOneAreNamed) {
  const Schema table({field(1, "a", primitive(TypeId::long_), true)});
  std::string message;
  EXPECT_EQ(
      kind_of(
          [&] {
            conform(batch_of(arrow::schema({arrow::field("a", arrow::int64()), arrow::field("extra", arrow::int64())}),
                             "[[1, 2]]"),
                    table);
          },
          &message),
      ErrorKind::schema_mismatch);
  EXPECT_NE(message.find("extra"), std::string::npos) << message;
  EXPECT_EQ(
      kind_of([&] { conform(batch_of(arrow::schema({arrow::field("b", arrow::int64())}), "[[1]]"), table); }, &message),
      ErrorKind::schema_mismatch);
}

TEST(Conform, ABatchThatFitsIsTakenAsItIs) {
  const Schema table({field(1, "a", primitive(TypeId::long_), true)});
  const auto rows = batch_of(table, "[[1], [2]]");
  EXPECT_EQ(conform(rows, table).get(), rows.get());
}

}  // namespace
}  // namespace firn::iceberg
