#include <gtest/gtest.h>

#include "base/error.h"
#include "iceberg/metadata/table_metadata.h"

namespace firn::iceberg {
namespace {

ErrorKind kind_of(const std::function<void()>& work) {
  try {
    work();
  } catch (const Error& e) {
    return e.kind();
  }
  ADD_FAILURE() << "nothing was thrown";
  return ErrorKind::internal;
}

Field column(int32_t id, const std::string& name, TypePtr type) {
  return {.id = id, .name = name, .type = std::move(type)};
}

// Column ids far from 1, as a caller's own schema may have them.
Schema events() {
  return Schema({column(70, "ts", Type::primitive(TypeId::timestamptz)),
                 column(10, "place", Type::struct_of({column(11, "city", Type::primitive(TypeId::string))})),
                 column(5, "n", Type::primitive(TypeId::long_))});
}

PartitionSpec day_and_city() {
  PartitionSpec spec;
  spec.fields.push_back({.source_ids = {70}, .field_id = 7, .name = "ts_day", .transform = Transform::parse("day")});
  spec.fields.push_back({.source_ids = {11}, .field_id = 8, .name = "city", .transform = Transform::parse("identity")});
  return spec;
}

SortOrder by_n() {
  SortOrder order;
  order.fields.push_back({.transform = Transform::parse("identity"), .source_ids = {5}});
  return order;
}

TableMetadata new_table(std::map<std::string, std::string> properties = {}) {
  return new_table_metadata("/t/", events(), day_and_city(), by_n(), std::move(properties), 1000);
}

Snapshot snapshot(int64_t id, std::optional<int64_t> parent, int64_t sequence_number) {
  Snapshot result;
  result.snapshot_id = id;
  result.parent_snapshot_id = parent;
  result.sequence_number = sequence_number;
  result.timestamp_ms = 2000 + sequence_number;
  result.manifest_list = "/t/metadata/snap.avro";
  result.summary = {{"operation", "append"}};
  return result;
}

TEST(NewTable, ColumnsGetFreshIdsAndSpecAndOrderFollowByName) {
  const TableMetadata metadata = new_table();
  EXPECT_EQ(metadata.format_version, 2);
  EXPECT_EQ(metadata.location, "/t");
  EXPECT_EQ(metadata.table_uuid.size(), 36u);
  // Java's order: the root's columns first, then what lies within them.
  EXPECT_EQ(metadata.schema().find_field("ts")->id, 1);
  EXPECT_EQ(metadata.schema().find_field("n")->id, 3);
  EXPECT_EQ(metadata.schema().find_field("place.city")->id, 4);
  EXPECT_EQ(metadata.last_column_id, 4);
  ASSERT_EQ(metadata.spec().fields.size(), 2u);
  EXPECT_EQ(metadata.spec().fields[0].source_id(), 1);
  EXPECT_EQ(metadata.spec().fields[0].field_id, 1000);
  EXPECT_EQ(metadata.spec().fields[1].source_id(), 4);
  EXPECT_EQ(metadata.spec().fields[1].field_id, 1001);
  EXPECT_EQ(metadata.last_partition_id, 1001);
  EXPECT_EQ(metadata.default_sort_order_id, 1);
  EXPECT_EQ(metadata.sort_order().fields.at(0).source_id(), 3);
  EXPECT_EQ(metadata.current_snapshot(), nullptr);
  const TableMetadata again = parse_table_metadata(serialize_table_metadata(metadata), "again");
  EXPECT_TRUE(again.schema().same_fields(metadata.schema()));
  EXPECT_TRUE(again.spec().compatible_with(metadata.spec()));
}

TEST(NewTable, AnUnsortedUnpartitionedTableHasOrderZero) {
  const TableMetadata metadata = new_table_metadata("/t", events(), {}, {}, {}, 1000);
  EXPECT_EQ(metadata.default_sort_order_id, 0);
  EXPECT_EQ(metadata.last_partition_id, 999);
}

TEST(NewTable, FormatVersionIsTakenFromThePropertiesAndNotStored) {
  const TableMetadata metadata = new_table({{"format-version", "3"}, {"a", "b"}});
  EXPECT_EQ(metadata.format_version, 3);
  EXPECT_EQ(metadata.properties, (std::map<std::string, std::string>{{"a", "b"}}));
  for (const char* version : {"1", "4", "", "two"})
    EXPECT_EQ(kind_of([&] { new_table({{"format-version", version}}); }), ErrorKind::invalid_argument) << version;
}

TEST(NewTable, TypesAndDefaultsOfV3NeedV3) {
  for (const TypeId id : {TypeId::timestamp_ns, TypeId::timestamptz_ns, TypeId::unknown, TypeId::variant}) {
    const Schema schema({column(1, "a", Type::struct_of({column(2, "b", Type::primitive(id))}))});
    EXPECT_EQ(kind_of([&] { new_table_metadata("/t", schema, {}, {}, {}, 1); }), ErrorKind::invalid_argument);
    EXPECT_NO_THROW(new_table_metadata("/t", schema, {}, {}, {{"format-version", "3"}}, 1));
  }
  Field with_default = column(1, "a", Type::primitive(TypeId::int_));
  with_default.initial_default = Value(int32_t{7});
  EXPECT_EQ(kind_of([&] { new_table_metadata("/t", Schema({with_default}), {}, {}, {}, 1); }),
            ErrorKind::invalid_argument);
}

// A Parquet schema of 100 levels is read again, and no deeper one: its root is one, a list or map two, a struct or a
// value one.
TEST(NewTable, TypesTooDeepForAFileAreRefused) {
  const auto nested = [](int depth, const std::function<TypePtr(int32_t id, TypePtr inner)>& around) {
    TypePtr type = Type::primitive(TypeId::int_);
    for (int i = 0; i < depth; ++i) type = around(1000 + 2 * i, std::move(type));
    return Schema({column(1, "flat", Type::primitive(TypeId::int_)), column(2, "deep", std::move(type))});
  };
  const auto in_list = [](int32_t id, TypePtr inner) { return Type::list_of(id, false, std::move(inner)); };
  const auto in_map = [](int32_t id, TypePtr inner) {
    return Type::map_of(id, Type::primitive(TypeId::int_), id + 1, false, std::move(inner));
  };
  const auto in_struct = [](int32_t id, TypePtr inner) { return Type::struct_of({column(id, "x", std::move(inner))}); };
  const auto create = [](const Schema& schema) { new_table_metadata("/t", schema, {}, {}, {}, 1); };
  EXPECT_NO_THROW(create(nested(49, in_list)));
  EXPECT_NO_THROW(create(nested(49, in_map)));
  EXPECT_NO_THROW(create(nested(98, in_struct)));
  for (const Schema& schema : {nested(50, in_list), nested(50, in_map), nested(99, in_struct)}) {
    EXPECT_EQ(kind_of([&] { create(schema); }), ErrorKind::invalid_argument);
    // As a change too, and a column of another writer's that is there already does not stand against later ones.
    TableMetadata metadata = new_table();
    EXPECT_EQ(kind_of([&] { set_current_schema(metadata, schema, 5000); }), ErrorKind::invalid_argument);
    metadata.partition_specs = {PartitionSpec()};
    metadata.sort_orders = {SortOrder()};
    metadata.default_sort_order_id = 0;
    metadata.schemas = {schema};
    std::vector<Field> more = schema.fields();
    more.push_back(column(3000, "more", Type::primitive(TypeId::int_)));
    EXPECT_NO_THROW(set_current_schema(metadata, Schema(more), 5000));
  }
}

TEST(NewTable, ColumnsWithoutANameOrBytesAreRefused) {
  for (const Field& field : {column(1, "", Type::primitive(TypeId::int_)), column(1, "a", Type::fixed(0)),
                             column(1, "a", Type::struct_of({column(2, "", Type::primitive(TypeId::int_))}))}) {
    EXPECT_EQ(kind_of([&] { new_table_metadata("/t", Schema({field}), {}, {}, {}, 1); }), ErrorKind::invalid_argument);
  }
}

TEST(NewTable, SpecsThatCannotBeAreRefused) {
  const auto with_field = [](int32_t source, const char* name, const char* transform) {
    PartitionSpec spec;
    spec.fields.push_back(
        {.source_ids = {source}, .field_id = 1000, .name = name, .transform = Transform::parse(transform)});
    return new_table_metadata("/t", events(), spec, {}, {}, 1);
  };
  EXPECT_NO_THROW(with_field(5, "n", "identity"));
  EXPECT_EQ(kind_of([&] { with_field(99, "a", "identity"); }), ErrorKind::invalid_argument) << "no such column";
  EXPECT_EQ(kind_of([&] { with_field(5, "a", "day"); }), ErrorKind::invalid_argument) << "a day of a number";
  EXPECT_EQ(kind_of([&] { with_field(10, "a", "identity"); }), ErrorKind::invalid_argument) << "a struct";
  EXPECT_EQ(kind_of([&] { with_field(5, "a", "magic[3]"); }), ErrorKind::invalid_argument) << "no such transform";
  EXPECT_EQ(kind_of([&] { with_field(5, "ts", "identity"); }), ErrorKind::invalid_argument) << "another column's name";
  EXPECT_EQ(kind_of([&] { with_field(5, "n", "bucket[4]"); }), ErrorKind::invalid_argument)
      << "a column's name, transformed";
}

TEST(SetCurrentSchema, AnEqualSchemaIsTakenAndANewOneAdded) {
  TableMetadata metadata = new_table();
  std::vector<Field> fields = metadata.schema().fields();
  fields.push_back(column(5, "more", Type::primitive(TypeId::date)));
  set_current_schema(metadata, Schema(fields), 5);
  EXPECT_EQ(metadata.current_schema_id, 1);
  EXPECT_EQ(metadata.last_column_id, 5);
  set_current_schema(metadata, metadata.schema(0), 0);
  EXPECT_EQ(metadata.current_schema_id, 0);
  EXPECT_EQ(metadata.last_column_id, 5) << "ids are never used again";
  EXPECT_EQ(metadata.schemas.size(), 2u);
}

TEST(SetCurrentSchema, WhatTheTableNeedsMustStay) {
  TableMetadata metadata = new_table();
  EXPECT_EQ(kind_of([&] {
              set_current_schema(metadata, metadata.schema().select({"place", "n"}), 4);
            }),
            ErrorKind::invalid_argument)
      << "ts is partitioned by";
  EXPECT_EQ(kind_of([&] {
              set_current_schema(metadata, metadata.schema().select({"place", "ts"}), 4);
            }),
            ErrorKind::invalid_argument)
      << "n is sorted by";
  EXPECT_EQ(metadata.schemas.size(), 1u);
}

TEST(AddSnapshot, MainCurrentSnapshotLogAndSequenceFollow) {
  TableMetadata metadata = new_table();
  add_snapshot(metadata, snapshot(50, std::nullopt, 1), "main");
  add_snapshot(metadata, snapshot(60, 50, 2), "main");
  EXPECT_EQ(metadata.current_snapshot_id, 60);
  EXPECT_EQ(metadata.refs.at("main").snapshot_id, 60);
  EXPECT_EQ(metadata.last_sequence_number, 2);
  EXPECT_EQ(metadata.last_updated_ms, 2002);
  ASSERT_EQ(metadata.snapshot_log.size(), 2u);
  EXPECT_EQ(metadata.snapshot_log[1].snapshot_id, 60);
  EXPECT_NO_THROW(parse_table_metadata(serialize_table_metadata(metadata), "again"));
}

TEST(AddSnapshot, AnotherBranchLeavesMainAlone) {
  TableMetadata metadata = new_table();
  add_snapshot(metadata, snapshot(50, std::nullopt, 1), "main");
  metadata.refs["audit"] = {.snapshot_id = 50, .min_snapshots_to_keep = 3};
  add_snapshot(metadata, snapshot(60, 50, 2), "audit");
  EXPECT_EQ(metadata.current_snapshot_id, 50);
  EXPECT_EQ(metadata.refs.at("audit").snapshot_id, 60);
  EXPECT_EQ(metadata.refs.at("audit").min_snapshots_to_keep, 3);
  EXPECT_EQ(metadata.snapshot_log.size(), 1u);
}

TEST(AddSnapshot, WhatDoesNotFollowTheHeadIsRefused) {
  TableMetadata metadata = new_table();
  add_snapshot(metadata, snapshot(50, std::nullopt, 1), "main");
  metadata.refs["v1"] = {.snapshot_id = 50, .is_branch = false};
  EXPECT_EQ(kind_of([&] { add_snapshot(metadata, snapshot(50, 50, 2), "main"); }), ErrorKind::invalid_argument);
  EXPECT_EQ(kind_of([&] { add_snapshot(metadata, snapshot(60, 40, 2), "main"); }), ErrorKind::invalid_argument);
  EXPECT_EQ(kind_of([&] { add_snapshot(metadata, snapshot(60, 50, 1), "main"); }), ErrorKind::invalid_argument);
  EXPECT_EQ(kind_of([&] { add_snapshot(metadata, snapshot(60, 50, 2), "v1"); }), ErrorKind::invalid_argument);
  EXPECT_EQ(metadata.snapshots.size(), 1u);
  EXPECT_EQ(metadata.last_sequence_number, 1);
}

TEST(AddSnapshot, TimeDoesNotRunBackWhereAClockDoes) {
  TableMetadata metadata = new_table();
  Snapshot late = snapshot(50, std::nullopt, 1);
  late.timestamp_ms = 500'000;
  add_snapshot(metadata, late, "main");
  add_snapshot(metadata, snapshot(60, 50, 2), "main");
  EXPECT_EQ(metadata.current_snapshot()->timestamp_ms, 500'000);
  EXPECT_EQ(metadata.snapshot_log.back().timestamp_ms, 500'000);
}

TEST(AddSnapshot, RowIdsOfV3CountUp) {
  TableMetadata metadata = new_table({{"format-version", "3"}});
  EXPECT_EQ(kind_of([&] { add_snapshot(metadata, snapshot(50, std::nullopt, 1), "main"); }),
            ErrorKind::invalid_argument);
  metadata = new_table({{"format-version", "3"}});
  Snapshot first = snapshot(50, std::nullopt, 1);
  first.first_row_id = 0;
  first.added_rows = 100;
  add_snapshot(metadata, first, "main");
  EXPECT_EQ(metadata.next_row_id, 100);
  Snapshot second = snapshot(60, 50, 2);
  second.first_row_id = 50;
  second.added_rows = 1;
  EXPECT_EQ(kind_of([&] { add_snapshot(metadata, second, "main"); }), ErrorKind::invalid_argument);
}

}  // namespace
}  // namespace firn::iceberg
