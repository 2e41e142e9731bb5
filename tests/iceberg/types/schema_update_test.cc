// Schema evolution as the specification's "Schema Evolution" and "Default values" have it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "iceberg/schema_update.h"

namespace firn::iceberg {
namespace {

using ::testing::HasSubstr;

// The error that `work` throws, as "kind: message"; empty if none.
std::string refusal(const std::function<void()>& work) {
  try {
    work();
  } catch (const Error& e) {
    return std::string(to_string(e.kind())) + ": " + e.what();
  }
  return "";
}

TypePtr type_of(TypeId id) { return Type::primitive(id); }

Field column(int32_t id, const std::string& name, TypePtr type, bool required = false) {
  Field field;
  field.id = id;
  field.name = name;
  field.required = required;
  field.type = std::move(type);
  return field;
}

NewColumn adding(const std::string& name, TypePtr type, const std::string& parent = "") {
  NewColumn added;
  added.parent = parent;
  added.name = name;
  added.type = std::move(type);
  return added;
}

// id, place {city, code}, tags [{t}], attributes {key: {k} → value: {v}}, score, born
Schema people() {
  const TypePtr place =
      Type::struct_of({column(3, "city", type_of(TypeId::string)), column(4, "code", type_of(TypeId::int_))});
  const TypePtr tag = Type::struct_of({column(7, "t", type_of(TypeId::string))});
  const TypePtr key = Type::struct_of({column(11, "k", type_of(TypeId::int_))});
  const TypePtr value = Type::struct_of({column(12, "v", type_of(TypeId::float_))});
  return Schema(
      {column(1, "id", type_of(TypeId::int_), true), column(2, "place", place),
       column(5, "tags", Type::list_of(6, true, tag)), column(8, "attributes", Type::map_of(9, key, 10, true, value)),
       column(13, "score", Type::decimal(9, 2)), column(14, "born", type_of(TypeId::date))},
      3, {1});
}

SchemaUpdate update(int32_t format_version = 2, SchemaUpdateOptions options = {}) {
  return SchemaUpdate(people(), 20, format_version, options);
}

std::vector<std::string> names(const std::vector<Field>& fields) {
  std::vector<std::string> result;
  for (const Field& field : fields) result.push_back(field.name);
  return result;
}

TEST(AddColumn, NewIdsFollowTheHighestEverGiven) {
  SchemaUpdate change = update();
  const TypePtr nested = Type::struct_of(
      {column(1, "x", type_of(TypeId::long_)), column(1, "y", Type::list_of(1, false, type_of(TypeId::date)))});
  change.add_column(adding("plain", type_of(TypeId::string)));
  change.add_column(adding("nested", nested));
  const EvolvedSchema evolved = change.finish();
  EXPECT_TRUE(evolved.changed);
  EXPECT_EQ(evolved.schema.find_field("plain")->id, 21) << "ids of columns dropped long ago are not used again";
  EXPECT_EQ(evolved.schema.find_field("nested")->id, 22);
  EXPECT_EQ(evolved.schema.find_field("nested.x")->id, 23);
  EXPECT_EQ(evolved.schema.find_field("nested.y")->id, 24);
  EXPECT_EQ(evolved.schema.find_field("nested.y.element")->id, 25);
  EXPECT_EQ(evolved.last_column_id, 25);
  EXPECT_EQ(evolved.schema.identifier_field_ids(), std::vector<int32_t>{1});
}

TEST(AddColumn, GoesIntoStructsListElementsAndMapValues) {
  SchemaUpdate change = update();
  change.add_column(adding("zip", type_of(TypeId::string), "place"));
  change.add_column(adding("u", type_of(TypeId::string), "tags"));
  change.add_column(adding("w", type_of(TypeId::string), "attributes"));
  change.add_column(adding("x", type_of(TypeId::string), "tags.element"));
  EXPECT_EQ(change.schema().find_field("place.zip")->id, 21);
  EXPECT_EQ(change.schema().find_field("tags.element.u")->id, 22);
  EXPECT_EQ(change.schema().find_field("attributes.value.w")->id, 23);
  EXPECT_EQ(change.schema().find_field("tags.element.x")->id, 24);
}

TEST(AddColumn, StandsWhereItIsAskedTo) {
  SchemaUpdate change = update();
  const auto add = [&](const std::string& name, ColumnPlace place, const std::string& parent = "") {
    NewColumn added = adding(name, type_of(TypeId::string), parent);
    added.place = std::move(place);
    change.add_column(added);
  };
  add("first", ColumnPlace::first());
  add("after", ColumnPlace::after("place"));
  add("before", ColumnPlace::before("place"));
  add("end", ColumnPlace::last());
  add("inner", ColumnPlace::before("code"), "place");
  EXPECT_EQ(names(change.schema().fields()), (std::vector<std::string>{"first", "id", "before", "place", "after",
                                                                       "tags", "attributes", "score", "born", "end"}));
  EXPECT_EQ(names(change.schema().find_field("place")->type->fields()),
            (std::vector<std::string>{"city", "inner", "code"}));
  EXPECT_THAT(refusal([&] { add("lost", ColumnPlace::after("city")); }), HasSubstr("not_found")) << "of another struct";
}

TEST(AddColumn, ARequiredOneNeedsADefaultForTheRowsThatAreThere) {
  NewColumn added = adding("n", type_of(TypeId::int_));
  added.required = true;
  SchemaUpdate v3 = update(3);
  EXPECT_THAT(refusal([&] { v3.add_column(added); }), HasSubstr("Column n is required"));
  SchemaUpdate loose = update(2, {.allow_incompatible = true});
  EXPECT_EQ(refusal([&] { loose.add_column(added); }), "");

  added.initial_default = Value(int32_t{7});
  EXPECT_EQ(refusal([&] { v3.add_column(added); }), "");
  EXPECT_EQ(v3.schema().find_field("n")->initial_default, Value(int32_t{7}));
  EXPECT_EQ(v3.schema().find_field("n")->write_default, Value(int32_t{7}))
      << "at first the same (spec, Default values)";
  SchemaUpdate v2 = update(2);
  EXPECT_THAT(refusal([&] { v2.add_column(added); }), HasSubstr("format version 3"));
  EXPECT_EQ(v2.schema().find_field("n"), nullptr) << "what is refused leaves the schema alone";
  EXPECT_EQ(v2.finish().last_column_id, 20);
  EXPECT_FALSE(v2.finish().changed);
}

TEST(AddColumn, DefaultsAreValuesOfTheType) {
  SchemaUpdate change = update(3);
  const auto with_default = [&](TypePtr type, Value value) {
    NewColumn added = adding("n", std::move(type));
    added.initial_default = std::move(value);
    return refusal([&] { change.add_column(added); });
  };
  EXPECT_THAT(with_default(type_of(TypeId::long_), Value(int32_t{1})), HasSubstr("no value of type long"));
  EXPECT_THAT(with_default(type_of(TypeId::unknown), Value(int32_t{1})), HasSubstr("no default but null"));
  EXPECT_THAT(with_default(type_of(TypeId::variant), Value(std::string("x"))), HasSubstr("no default but null"));
  EXPECT_THAT(with_default(Type::geometry("OGC:CRS84"), Value(std::string("x"))), HasSubstr("no default but null"));
  EXPECT_THAT(with_default(Type::fixed(4), Value(std::string("abc"))), HasSubstr("invalid_argument"));
  const TypePtr point = Type::struct_of({column(1, "x", type_of(TypeId::int_))});
  EXPECT_THAT(with_default(point, Value(NestedJson{R"({"1": 5})"})), HasSubstr("defaults of their own"));
  const TypePtr strict = Type::struct_of({column(1, "x", type_of(TypeId::int_), true)});
  EXPECT_THAT(with_default(strict, Value(NestedJson{"{}"})), HasSubstr("required field x"));
  EXPECT_EQ(with_default(point, Value(NestedJson{"{}"})), "");
}

TEST(AddColumn, TypesOfVersion3NeedVersion3) {
  SchemaUpdate v2 = update(2);
  const TypePtr hidden = Type::struct_of({column(1, "deep", Type::list_of(2, false, type_of(TypeId::timestamp_ns)))});
  EXPECT_THAT(refusal([&] { v2.add_column(adding("v", type_of(TypeId::variant))); }), HasSubstr("format version 3"));
  EXPECT_THAT(refusal([&] { v2.add_column(adding("v", hidden)); }), HasSubstr("format version 3"));
  SchemaUpdate v3 = update(3);
  EXPECT_EQ(refusal([&] { v3.add_column(adding("v", hidden)); }), "");
  NewColumn unknown = adding("u", type_of(TypeId::unknown));
  unknown.required = true;
  EXPECT_THAT(refusal([&] { v3.add_column(unknown); }), HasSubstr("optional"));
}

TEST(AddColumn, NamesAreUniqueWithinAStruct) {
  SchemaUpdate change = update();
  EXPECT_THAT(refusal([&] { change.add_column(adding("score", type_of(TypeId::int_))); }),
              HasSubstr("Column score: the name is taken"));
  EXPECT_THAT(refusal([&] { change.add_column(adding("city", type_of(TypeId::int_), "place")); }),
              HasSubstr("place.city"));
  EXPECT_THAT(refusal([&] { change.add_column(adding("place.city", type_of(TypeId::int_))); }), HasSubstr("taken"))
      << "both would be place.city";
  EXPECT_THAT(refusal([&] { change.add_column(adding("", type_of(TypeId::int_))); }), HasSubstr("name"));
  EXPECT_EQ(refusal([&] { change.add_column(adding("city", type_of(TypeId::int_))); }), "") << "of another struct";
  EXPECT_EQ(refusal([&] { change.add_column(adding("Score", type_of(TypeId::int_))); }), "");
  SchemaUpdate blind = update(2, {.case_sensitive = false});
  EXPECT_THAT(refusal([&] { blind.add_column(adding("Score", type_of(TypeId::int_))); }), HasSubstr("taken"));
  EXPECT_EQ(refusal([&] { blind.rename_column("SCORE", "Score"); }), "");
}

TEST(AddColumn, OnlyStructsTakeThem) {
  SchemaUpdate change = update();
  EXPECT_THAT(refusal([&] { change.add_column(adding("x", type_of(TypeId::int_), "score")); }),
              HasSubstr("only a struct"));
  EXPECT_THAT(refusal([&] { change.add_column(adding("x", type_of(TypeId::int_), "nowhere")); }),
              HasSubstr("not_found"));
}

// Cases.md 15
TEST(DropColumn, ANameAddedAgainIsAnotherColumn) {
  SchemaUpdate change = update();
  change.drop_column("score");
  change.drop_column("place.city");
  change.add_column(adding("score", Type::decimal(9, 2)));
  change.add_column(adding("city", type_of(TypeId::string), "place"));
  EXPECT_EQ(change.schema().find_field("score")->id, 21);
  EXPECT_EQ(change.schema().find_field("place.city")->id, 22);
}

TEST(DropColumn, IdentifiersElementsAndKeysStay) {
  SchemaUpdate change = update();
  EXPECT_THAT(refusal([&] { change.drop_column("id"); }), HasSubstr("identifier"));
  EXPECT_THAT(refusal([&] { change.drop_column("tags.element"); }), HasSubstr("part of a list"));
  EXPECT_THAT(refusal([&] { change.drop_column("attributes.value"); }), HasSubstr("part of a map"));
  EXPECT_THAT(refusal([&] { change.drop_column("attributes.key.k"); }), HasSubstr("keys cannot change"));
  EXPECT_THAT(refusal([&] { change.drop_column("nothing"); }), HasSubstr("not_found"));
  change.set_identifier_fields({});
  change.drop_column("id");
  EXPECT_EQ(change.schema().find_field(1), nullptr);
}

TEST(RenameColumn, KeepsTheId) {
  SchemaUpdate change = update();
  change.rename_column("place", "address");
  change.rename_column("address.city", "town");
  change.rename_column("tags.element.t", "text");
  change.rename_column("attributes.value.v", "worth");
  EXPECT_EQ(change.schema().find_field("address.town")->id, 3);
  EXPECT_EQ(change.schema().find_field("tags.element.text")->id, 7);
  EXPECT_EQ(change.schema().find_field("attributes.value.worth")->id, 12);
  EXPECT_EQ(change.finish().last_column_id, 20);
  EXPECT_THAT(refusal([&] { change.rename_column("address.code", "town"); }), HasSubstr("taken"));
  EXPECT_THAT(refusal([&] { change.rename_column("attributes.key", "k"); }), HasSubstr("keys cannot change"));
  EXPECT_THAT(refusal([&] { change.rename_column("attributes.key.k", "l"); }), HasSubstr("keys cannot change"));
  EXPECT_THAT(refusal([&] { change.rename_column("tags.element", "item"); }), HasSubstr("part of a list"));
}

TEST(RenameColumn, TwoColumnsCanSwapNames) {
  SchemaUpdate change = update();
  change.rename_column("score", "x");
  change.rename_column("born", "score");
  change.rename_column("x", "born");
  EXPECT_EQ(change.schema().find_field("born")->id, 13);
  EXPECT_EQ(change.schema().find_field("score")->id, 14);
}

TEST(MoveColumn, StaysWithinItsStruct) {
  SchemaUpdate change = update();
  change.move_column("born", ColumnPlace::first());
  change.move_column("id", ColumnPlace::after("tags"));
  change.move_column("place.code", ColumnPlace::before("city"));
  EXPECT_EQ(names(change.schema().fields()),
            (std::vector<std::string>{"born", "place", "tags", "id", "attributes", "score"}));
  EXPECT_EQ(names(change.schema().find_field("place")->type->fields()), (std::vector<std::string>{"code", "city"}));
  EXPECT_THAT(refusal([&] { change.move_column("id", ColumnPlace::after("id")); }), HasSubstr("not_found"));
  EXPECT_THAT(refusal([&] { change.move_column("id", ColumnPlace::before("city")); }),
              HasSubstr("within their struct"));
  EXPECT_THAT(refusal([&] { change.move_column("tags.element", ColumnPlace::first()); }), HasSubstr("part of a list"));
  SchemaUpdate still = update();
  still.move_column("born", ColumnPlace::last());
  EXPECT_FALSE(still.finish().changed);
}

TEST(PromoteColumn, OnlyAsTheVersionAllows) {
  for (const int32_t version : {1, 2, 3}) {
    SCOPED_TRACE(version);
    SchemaUpdate change = update(version);
    EXPECT_EQ(refusal([&] { change.promote_column("place.code", type_of(TypeId::long_)); }), "");
    EXPECT_EQ(refusal([&] { change.promote_column("attributes.value.v", type_of(TypeId::double_)); }), "");
    EXPECT_EQ(refusal([&] { change.promote_column("score", Type::decimal(18, 2)); }), "");
    EXPECT_THAT(refusal([&] { change.promote_column("score", Type::decimal(18, 3)); }),
                HasSubstr("Column score is decimal(18,2)"));
    EXPECT_THAT(refusal([&] { change.promote_column("score", Type::decimal(10, 2)); }), HasSubstr("cannot become"));
    EXPECT_THAT(refusal([&] { change.promote_column("place.code", type_of(TypeId::int_)); }),
                HasSubstr("cannot become"));
    EXPECT_THAT(refusal([&] { change.promote_column("place.code", type_of(TypeId::double_)); }),
                HasSubstr("cannot become"));
    EXPECT_THAT(refusal([&] { change.promote_column("place", type_of(TypeId::string)); }), HasSubstr("cannot become"));
    EXPECT_THAT(refusal([&] { change.promote_column("attributes.key.k", type_of(TypeId::long_)); }),
                HasSubstr("keys cannot change"));
    EXPECT_THAT(refusal([&] { change.promote_column("born", type_of(TypeId::timestamptz)); }),
                HasSubstr("cannot become"));
    const std::string to_timestamp = refusal([&] { change.promote_column("born", type_of(TypeId::timestamp)); });
    if (version < 3) {
      EXPECT_THAT(to_timestamp, HasSubstr("cannot become"));
    } else {
      EXPECT_EQ(to_timestamp, "");
    }
  }
}

TEST(PromoteColumn, DefaultsFollow) {
  SchemaUpdate change = update(3);
  NewColumn added = adding("n", type_of(TypeId::int_));
  added.initial_default = Value(int32_t{5});
  added.write_default = Value(int32_t{6});
  change.add_column(added);
  change.promote_column("n", type_of(TypeId::long_));
  EXPECT_EQ(change.schema().find_field("n")->initial_default, Value(int64_t{5}));
  EXPECT_EQ(change.schema().find_field("n")->write_default, Value(int64_t{6}));
  change.add_column(adding("u", type_of(TypeId::unknown)));
  change.promote_column("u", Type::list_of(1, false, type_of(TypeId::string)));
  EXPECT_EQ(change.schema().find_field("u.element")->id, 23);
}

TEST(Nullability, OnlyGetsLooserUnlessAsked) {
  SchemaUpdate change = update(3);
  change.make_optional("tags.element");
  EXPECT_FALSE(change.schema().find_field("tags.element")->required);
  EXPECT_THAT(refusal([&] { change.make_optional("id"); }), HasSubstr("identifier"));
  EXPECT_THAT(refusal([&] { change.make_required("score"); }), HasSubstr("may hold null"));
  EXPECT_EQ(refusal([&] { change.make_required("id"); }), "") << "it is";
  NewColumn added = adding("n", type_of(TypeId::int_));
  added.initial_default = Value(int32_t{5});
  change.add_column(added);
  EXPECT_EQ(refusal([&] { change.make_required("n"); }), "") << "no row can lack it";
  SchemaUpdate loose = update(2, {.allow_incompatible = true});
  EXPECT_EQ(refusal([&] { loose.make_required("score"); }), "");
  EXPECT_TRUE(loose.schema().find_field("score")->required);
}

TEST(WriteDefault, ChangesAndTheInitialOneStays) {
  SchemaUpdate change = update(3);
  NewColumn added = adding("n", type_of(TypeId::int_));
  added.initial_default = Value(int32_t{5});
  change.add_column(added);
  change.set_write_default("n", Value(int32_t{9}));
  EXPECT_EQ(change.schema().find_field("n")->initial_default, Value(int32_t{5}));
  EXPECT_EQ(change.schema().find_field("n")->write_default, Value(int32_t{9}));
  change.set_write_default("n", std::nullopt);
  EXPECT_FALSE(change.schema().find_field("n")->write_default);
  EXPECT_THAT(refusal([&] { change.set_write_default("n", Value(std::string("x"))); }),
              HasSubstr("no value of type int"));
  SchemaUpdate v2 = update(2);
  EXPECT_THAT(refusal([&] { v2.set_write_default("score", Value(arrow::Decimal128(1))); }),
              HasSubstr("format version 3"));
}

TEST(IdentifierFields, AreRequiredPrimitivesOutsideListsAndMaps) {
  SchemaUpdate change = update(2, {.allow_incompatible = true});
  EXPECT_THAT(refusal([&] { change.set_identifier_fields({"score"}); }), HasSubstr("optional"));
  EXPECT_THAT(refusal([&] { change.set_identifier_fields({"place"}); }), HasSubstr("cannot identify"));
  EXPECT_THAT(refusal([&] { change.set_identifier_fields({"tags.element.t"}); }), HasSubstr("list or map"));
  change.make_required("place.city");
  EXPECT_THAT(refusal([&] { change.set_identifier_fields({"place.city"}); }), HasSubstr("place is optional"));
  change.make_required("place");
  change.set_identifier_fields({"place.city", "id"});
  EXPECT_EQ(change.schema().identifier_field_ids(), (std::vector<int32_t>{1, 3}));
  EXPECT_THAT(refusal([&] { change.drop_column("place"); }), HasSubstr("holds, an identifier"));
  NewColumn real = adding("real", type_of(TypeId::double_));
  real.required = true;
  change.add_column(real);
  EXPECT_THAT(refusal([&] { change.set_identifier_fields({"real"}); }), HasSubstr("cannot identify"));
}

TEST(UnionByName, GoesOnFromTheChangesBefore) {
  SchemaUpdate change = update();
  change.add_column(adding("a", type_of(TypeId::int_)));
  change.union_by_name(Schema({column(1, "a", type_of(TypeId::long_)), column(2, "b", type_of(TypeId::string))}));
  EXPECT_EQ(change.schema().find_field("a")->type->id(), TypeId::long_);
  EXPECT_EQ(change.schema().find_field("b")->id, 22);
  EXPECT_EQ(change.finish().last_column_id, 22);
}

TEST(KeepsPartitionValue, ADateAsATimestampHasTheSameDayAndAnotherHash) {
  const TypePtr date = type_of(TypeId::date), timestamp = type_of(TypeId::timestamp);
  for (const char* name : {"day", "month", "year", "void"})
    EXPECT_TRUE(keeps_partition_value(Transform::parse(name), *date, *timestamp)) << name;
  for (const char* name : {"bucket[4]", "identity", "unheard[3]"})
    EXPECT_FALSE(keeps_partition_value(Transform::parse(name), *date, *timestamp)) << name;
  EXPECT_TRUE(keeps_partition_value(Transform::parse("bucket[4]"), *type_of(TypeId::int_), *type_of(TypeId::long_)))
      << "34 and 34L hash alike (spec, Schema Evolution)";
  EXPECT_TRUE(keeps_partition_value(Transform::parse("bucket[4]"), *Type::decimal(9, 2), *Type::decimal(18, 2)));
}

TEST(NameMapping, FollowsRenamesAndAdds) {
  const NameMapping mapping = name_mapping_from_json(Json::parse(R"([{"field-id": 1, "names": ["id", "record_id"]},
                      {"field-id": 2, "names": ["place"], "fields": [{"field-id": 3, "names": ["city"]}]},
                      {"field-id": 13, "names": ["score"]}])"),
                                                     "here");
  SchemaUpdate change = update();
  change.rename_column("id", "key");
  change.rename_column("place.city", "town");
  change.add_column(adding("zip", type_of(TypeId::string), "place"));
  change.add_column(adding("fresh", Type::struct_of({column(1, "x", type_of(TypeId::int_))})));
  change.drop_column("score");
  change.add_column(adding("score", type_of(TypeId::int_)));
  change.add_column(adding("id", type_of(TypeId::int_)));
  const Json updated = name_mapping_to_json(update_name_mapping(mapping, people(), change.schema()));
  EXPECT_EQ(updated, Json::parse(R"([
    {"field-id": 1, "names": ["id", "record_id", "key"]},
    {"field-id": 2, "names": ["place"], "fields": [{"field-id": 3, "names": ["city", "town"]}, {"field-id": 21, "names": ["zip"]}]},
    {"field-id": 13, "names": ["score"]},
    {"field-id": 22, "names": ["fresh"], "fields": [{"field-id": 23, "names": ["x"]}]},
    {"field-id": 24, "names": []},
    {"field-id": 25, "names": []}])"))
      << "files that have the old columns keep them (cases.md 15); what was not mapped before stays so";
}

}  // namespace
}  // namespace firn::iceberg
