// Schemas: JSON, lookup, and evolution that keeps field ids.
#include "iceberg/schema.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "iceberg/full_names.h"

namespace firn::iceberg {
namespace {

TypePtr prim(TypeId id) { return Type::primitive(id); }

Schema nested_schema() {
  return Schema({{.id = 1, .name = "id", .required = true, .type = prim(TypeId::long_)},
                 {.id = 2,
                  .name = "place",
                  .type = Type::struct_of({{.id = 5, .name = "Lat", .required = true, .type = prim(TypeId::double_)},
                                           {.id = 6, .name = "tag", .type = prim(TypeId::string)}})},
                 {.id = 3, .name = "tags", .type = Type::list_of(7, true, prim(TypeId::string))},
                 {.id = 4,
                  .name = "m",
                  .type = Type::map_of(8, prim(TypeId::string), 9, false,
                                       Type::struct_of({{.id = 10, .name = "x", .type = prim(TypeId::int_)}}))}},
                7, {1});
}

TEST(Type, IsSpelledAndParsedAsTheSpecificationHasIt) {
  for (const char* name : {"boolean",
                           "int",
                           "long",
                           "float",
                           "double",
                           "date",
                           "time",
                           "timestamp",
                           "timestamptz",
                           "timestamp_ns",
                           "timestamptz_ns",
                           "string",
                           "uuid",
                           "binary",
                           "unknown",
                           "variant",
                           "decimal(9,2)",
                           "fixed[16]",
                           "geometry",
                           "geometry(srid:4326)",
                           "geography",
                           "geography(srid:4326)",
                           "geography(srid:4326, karney)"}) {
    const TypePtr type = type_from_json(Json(name), "test");
    EXPECT_EQ(type->to_string(), name);
    EXPECT_EQ(type_to_json(*type), Json(name));
  }
  EXPECT_EQ(type_from_json(Json("decimal( 9 , 2 )"), "test")->to_string(), "decimal(9,2)");
  EXPECT_EQ(type_from_json(Json("geometry(OGC:CRS84)"), "test")->to_string(), "geometry");
  EXPECT_EQ(type_from_json(Json("geography(OGC:CRS84, spherical)"), "test")->to_string(), "geography");
  for (const char* name :
       {"int32", "decimal(39,2)", "decimal(9,10)", "decimal(9)", "fixed[-1]", "fixed[x]", "", "struct"})
    EXPECT_THROW(type_from_json(Json(name), "test"), Error) << name;
}

TEST(Type, NestedBeyondReasonIsRefused) {
  Json json = "int";
  for (int i = 0; i < 2000; ++i)
    json = Json{{"type", "list"}, {"element-id", i + 1}, {"element-required", true}, {"element", std::move(json)}};
  EXPECT_THROW(type_from_json(json, "test"), Error);
}

TEST(Type, PromotesAsTheSpecificationAllows) {
  const auto ok = [](const TypePtr& from, const TypePtr& to, int32_t version) {
    return can_promote(*from, *to, version);
  };
  EXPECT_TRUE(ok(prim(TypeId::int_), prim(TypeId::long_), 1));
  EXPECT_TRUE(ok(prim(TypeId::float_), prim(TypeId::double_), 1));
  EXPECT_TRUE(ok(Type::decimal(9, 2), Type::decimal(18, 2), 1));
  EXPECT_FALSE(ok(Type::decimal(9, 2), Type::decimal(18, 3), 3));
  EXPECT_FALSE(ok(Type::decimal(18, 2), Type::decimal(9, 2), 3));
  EXPECT_FALSE(ok(prim(TypeId::long_), prim(TypeId::int_), 3));
  EXPECT_FALSE(ok(prim(TypeId::date), prim(TypeId::timestamp), 2));
  EXPECT_TRUE(ok(prim(TypeId::date), prim(TypeId::timestamp_ns), 3));
  EXPECT_FALSE(ok(prim(TypeId::date), prim(TypeId::timestamptz), 3));
  EXPECT_TRUE(ok(prim(TypeId::unknown), prim(TypeId::string), 3));
  EXPECT_FALSE(ok(prim(TypeId::unknown), prim(TypeId::string), 2));
  EXPECT_FALSE(ok(Type::fixed(4), Type::fixed(8), 3));
}

TEST(Schema, SurvivesJson) {
  const char* text =
      R"({"type":"struct","schema-id":2,"identifier-field-ids":[1],"fields":[)"
      R"({"id":1,"name":"id","required":true,"type":"int"},)"
      R"json({"id":2,"name":"d","required":false,"type":"decimal(9,2)","doc":"money",)json"
      R"json("initial-default":"-12.50","write-default":"1.00"},)json"
      R"({"id":3,"name":"l","required":false,"type":{"type":"list","element-id":5,"element-required":false,"element":)"
      R"({"type":"struct","fields":[{"id":6,"name":"x","required":false,"type":"string"}]}}},)"
      R"({"id":4,"name":"m","required":false,"type":{"type":"map","key-id":7,"key":"string","value-id":8,)"
      R"("value-required":true,"value":"double"}}]})";
  const Schema schema = Schema::from_json(parse_json(text, "test"), "test");
  EXPECT_EQ(schema.to_json().dump(), text);
  EXPECT_TRUE(schema.same_fields(Schema::from_json(schema.to_json(), "test")));
  EXPECT_EQ(schema.find_field("d")->initial_default, Value(arrow::Decimal128(-1250)));
  EXPECT_EQ(Schema::from_json(parse_json(R"({"type":"struct","fields":[]})", "test"), "test").schema_id(), 0) << "v1";
}

TEST(Schema, RefusesRepeatedIdsAndNames) {
  EXPECT_THROW(
      Schema({{.id = 1, .name = "a", .type = prim(TypeId::int_)}, {.id = 1, .name = "b", .type = prim(TypeId::int_)}}),
      Error);
  EXPECT_THROW(
      Schema({{.id = 1, .name = "a", .type = prim(TypeId::int_)}, {.id = 2, .name = "a", .type = prim(TypeId::int_)}}),
      Error);
  EXPECT_THROW(Schema({{.id = 1, .name = "a", .type = Type::list_of(1, false, prim(TypeId::int_))}}), Error);
}

TEST(Schema, FindsFieldsAtAnyDepth) {
  const Schema schema = nested_schema();
  EXPECT_EQ(schema.find_field(10)->name, "x");
  EXPECT_EQ(schema.find_field("place.Lat")->id, 5);
  EXPECT_EQ(schema.find_field("place.lat"), nullptr);
  EXPECT_EQ(schema.find_field_ci("PLACE.lat")->id, 5);
  EXPECT_EQ(schema.find_field("tags.element")->id, 7);
  EXPECT_EQ(schema.find_field("m.value.x")->id, 10);
  EXPECT_EQ(schema.find_field("m.key")->id, 8);
  EXPECT_EQ(schema.full_name(10), "m.value.x");
  EXPECT_THROW(schema.full_name(99), Error);
  EXPECT_EQ(schema.path_to(10), (std::vector<int32_t>{4, 9, 10}));
  EXPECT_TRUE(schema.path_to(99).empty());
  EXPECT_TRUE(schema.is_nested_below_list_or_map(10));
  EXPECT_TRUE(schema.is_nested_below_list_or_map(7));
  EXPECT_FALSE(schema.is_nested_below_list_or_map(6));
  EXPECT_FALSE(schema.is_nested_below_list_or_map(3));
  EXPECT_EQ(schema.highest_field_id(), 10);
  EXPECT_EQ(Schema().find_field("a"), nullptr);
}

TEST(Schema, CaseInsensitiveLookupFindsNothingWhereItIsAmbiguous) {
  const Schema schema(
      {{.id = 1, .name = "a", .type = prim(TypeId::int_)}, {.id = 2, .name = "A", .type = prim(TypeId::int_)}});
  EXPECT_EQ(schema.find_field_ci("a"), nullptr);
  EXPECT_EQ(schema.find_field("A")->id, 2);
}

TEST(Schema, SelectKeepsIdsInTheOrderAsked) {
  const Schema selected = nested_schema().select({"m", "id"});
  EXPECT_EQ(selected.fields()[0].id, 4);
  EXPECT_EQ(selected.fields()[1].id, 1);
  EXPECT_EQ(selected.identifier_field_ids(), (std::vector<int32_t>{1}));
  try {
    nested_schema().select({"nope"});
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::not_found);
    EXPECT_NE(std::string(e.what()).find("nope"), std::string::npos);
    EXPECT_NE(std::string(e.what()).find("id, place, tags, m"), std::string::npos);
  }
}

TEST(Schema, FreshIdsGoToAStructsFieldsBeforeTheirChildren) {
  Schema schema(
      {{.id = 11,
        .name = "s",
        .type = Type::struct_of({{.id = 12, .name = "a", .type = prim(TypeId::int_)},
                                 {.id = 13, .name = "l", .type = Type::list_of(14, false, prim(TypeId::int_))}})},
       {.id = 20, .name = "id", .required = true, .type = prim(TypeId::int_)}},
      0, {20});
  const Schema fresh = assign_fresh_ids(schema);
  EXPECT_EQ(fresh.as_struct()->to_string(),
            "struct<1: s: optional struct<3: a: optional int, 4: l: optional list<int>>, 2: id: required int>");
  EXPECT_EQ(fresh.find_field("s.l.element")->id, 5);
  EXPECT_EQ(fresh.identifier_field_ids(), (std::vector<int32_t>{2}));
}

TEST(UnionByName, AddsPromotesAndLoosens) {
  const Schema wanted(
      {{.id = 1, .name = "extra", .type = Type::struct_of({{.id = 2, .name = "y", .type = prim(TypeId::int_)}})},
       {.id = 3, .name = "id", .type = prim(TypeId::int_)},
       {.id = 4,
        .name = "place",
        .type = Type::struct_of({{.id = 5, .name = "Lat", .type = prim(TypeId::float_)},
                                 {.id = 6, .name = "alt", .type = prim(TypeId::long_)}})},
       {.id = 7, .name = "tags", .type = Type::list_of(8, false, prim(TypeId::string))},
       {.id = 9,
        .name = "m",
        .type = Type::map_of(10, prim(TypeId::string), 11, false,
                             Type::struct_of({{.id = 12, .name = "x", .type = prim(TypeId::long_)}}))}});
  const EvolvedSchema evolved = union_by_name(nested_schema(), wanted, 10, 2);
  EXPECT_TRUE(evolved.changed);
  EXPECT_EQ(evolved.schema.find_field("extra")->id, 11);
  EXPECT_EQ(evolved.schema.find_field("extra.y")->id, 12);
  EXPECT_EQ(evolved.schema.find_field("place.alt")->id, 13);
  EXPECT_EQ(evolved.last_column_id, 13);
  EXPECT_FALSE(evolved.schema.find_field("extra")->required);
  EXPECT_EQ(evolved.schema.find_field("m.value.x")->type->id(), TypeId::long_) << "promoted";
  EXPECT_EQ(evolved.schema.find_field("id")->type->id(), TypeId::long_) << "wider than wanted: kept";
  EXPECT_TRUE(evolved.schema.find_field("id")->required) << "an identifier";
  EXPECT_FALSE(evolved.schema.find_field("place.Lat")->required);
  EXPECT_FALSE(evolved.schema.find_field("tags.element")->required);
  EXPECT_EQ(evolved.schema.find_field(6)->name, "tag") << "kept, though not wanted";
  const EvolvedSchema again = union_by_name(evolved.schema, wanted, evolved.last_column_id, 2);
  EXPECT_FALSE(again.changed);
  EXPECT_EQ(again.last_column_id, 13);
}

TEST(UnionByName, AColumnDroppedAndAddedAgainHasANewId) {  // cases.md 15
  const Schema dropped(
      {{.id = 1, .name = "id", .type = prim(TypeId::long_)},
       {.id = 2, .name = "a", .type = Type::struct_of({{.id = 4, .name = "other", .type = prim(TypeId::int_)}})}});
  const Schema wanted(
      {{.id = 1, .name = "value", .type = prim(TypeId::string)},
       {.id = 2, .name = "a", .type = Type::struct_of({{.id = 3, .name = "inner", .type = prim(TypeId::int_)}})}});
  const EvolvedSchema evolved = union_by_name(dropped, wanted, 6, 2);
  EXPECT_EQ(evolved.schema.find_field("value")->id, 7);
  EXPECT_EQ(evolved.schema.find_field("a.inner")->id, 8);
}

TEST(UnionByName, RefusesWhatTheOldRowsCannotBecome) {
  const Schema current({{.id = 1, .name = "a", .type = prim(TypeId::string)}});
  const auto refused = [&](std::vector<Field> fields, int32_t version) {
    try {
      union_by_name(current, Schema(std::move(fields)), 1, version);
      return std::string();
    } catch (const Error& e) {
      EXPECT_EQ(e.kind(), ErrorKind::schema_mismatch);
      return std::string(e.what());
    }
  };
  EXPECT_NE(refused({{.id = 1, .name = "a", .type = prim(TypeId::int_)}}, 3).find("Column a"), std::string::npos);
  EXPECT_NE(refused({{.id = 1, .name = "b", .required = true, .type = prim(TypeId::int_)}}, 3).find("Column b"),
            std::string::npos);
  EXPECT_EQ(
      refused({{.id = 1, .name = "b", .required = true, .type = prim(TypeId::int_), .initial_default = Value(7)}}, 3),
      "");
  EXPECT_NE(
      refused({{.id = 1, .name = "b", .required = true, .type = prim(TypeId::int_), .initial_default = Value(7)}}, 2),
      "");
  EXPECT_NE(refused({{.id = 1, .name = "a", .type = Type::list_of(2, false, prim(TypeId::string))}}, 3), "");
}

TEST(NameMapping, SurvivesJson) {
  const char* text = R"([{"field-id":1,"names":["id","record_id"]},{"names":["extra"]},)"
                     R"({"field-id":3,"names":["location"],"fields":[{"field-id":4,"names":["latitude","lat"]}]}])";
  const NameMapping mapping = name_mapping_from_json(parse_json(text, "test"), "test");
  EXPECT_EQ(name_mapping_to_json(mapping).dump(), text);
  EXPECT_FALSE(mapping[1].field_id);
  EXPECT_EQ(mapping[2].fields[0].names[1], "lat");
}

TEST(FullNames, OfAColumnAndAStructsMemberMustDiffer) {
  const auto text = Type::primitive(TypeId::string);
  const auto schema = [&](const std::string& outer, const std::string& parent, const std::string& member) {
    return Schema(
        {Field{.id = 1, .name = outer, .type = text},
         Field{.id = 2, .name = parent, .type = Type::struct_of({Field{.id = 3, .name = member, .type = text}})}});
  };
  EXPECT_EQ(repeated_full_name(schema("a.b", "a", "b")), "a.b");
  EXPECT_EQ(repeated_full_name(schema("a.b.c", "a", "b.c")), "a.b.c");
  EXPECT_EQ(repeated_full_name(schema("a.c", "a", "b")), std::nullopt);
  EXPECT_EQ(repeated_full_name(schema("b", "a", "b")), std::nullopt);
  EXPECT_EQ(repeated_full_name(Schema()), std::nullopt);
  EXPECT_NO_THROW(check_full_names(schema("b", "a", "b")));
  EXPECT_THROW(check_full_names(schema("a.b", "a", "b")), Error);
}

}  // namespace
}  // namespace firn::iceberg
