// Evolution of metadata: what each change leaves, and what is refused (Iceberg spec, "Table Metadata", "Partition
// Evolution", "Snapshot References").
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "iceberg/metadata/changes.h"

namespace firn::iceberg {
namespace {

using ::testing::HasSubstr;

std::string refusal(const std::function<void()>& work) {
  try {
    work();
  } catch (const Error& e) {
    return std::string(to_string(e.kind())) + ": " + e.what();
  }
  return "";
}

TypePtr type_of(TypeId id) { return Type::primitive(id); }

Field column(int32_t id, const std::string& name, TypePtr type) {
  Field field;
  field.id = id;
  field.name = name;
  field.type = std::move(type);
  return field;
}

// 1 id, 2 day (date), 3 ts, 4 name, 5 s {6 x}
TableMetadata table(int32_t format_version = 2, const std::vector<PartitionDeclaration>& partition = {}) {
  const Schema schema({column(1, "id", type_of(TypeId::long_)), column(2, "day", type_of(TypeId::date)),
                       column(3, "ts", type_of(TypeId::timestamp)), column(4, "name", type_of(TypeId::string)),
                       column(5, "s", Type::struct_of({column(6, "x", type_of(TypeId::int_))}))});
  TableMetadata metadata = new_table_metadata("/t", schema, make_partition_spec(partition, schema), {},
                                              {{"format-version", std::to_string(std::max(2, format_version))}}, 1000);
  metadata.format_version = format_version;
  return metadata;
}

// main: 10 <- 20 <- 30; 25 follows 20 on no branch.
TableMetadata with_history(int32_t format_version = 2) {
  TableMetadata metadata = table(format_version);
  const auto add = [&](int64_t id, std::optional<int64_t> parent, int64_t time_ms, const std::string& branch) {
    Snapshot snapshot;
    snapshot.snapshot_id = id;
    snapshot.parent_snapshot_id = parent;
    snapshot.sequence_number = metadata.last_sequence_number + 1;
    snapshot.timestamp_ms = time_ms;
    snapshot.manifest_list = "/t/metadata/" + std::to_string(id) + ".avro";
    snapshot.summary["operation"] = "append";
    if (format_version >= 3) {
      snapshot.first_row_id = metadata.next_row_id;
      snapshot.added_rows = 1;
    }
    add_snapshot(metadata, snapshot, branch);
  };
  add(10, std::nullopt, 1000, "main");
  add(20, 10, 2000, "main");
  metadata.refs["side"] = metadata.refs["main"];
  add(25, 20, 2500, "side");
  metadata.refs.erase("side");
  add(30, 20, 3000, "main");
  return metadata;
}

// What is written is read back, and as the same text.
void expect_round_trip(const TableMetadata& metadata) {
  const std::string text = serialize_table_metadata(metadata);
  EXPECT_EQ(serialize_table_metadata(parse_table_metadata(text, "again")), text);
}

void add_int_column(TableMetadata& metadata, const std::string& name) {
  update_schema(metadata, [&](SchemaUpdate& update) {
    NewColumn added;
    added.name = name;
    added.type = type_of(TypeId::int_);
    update.add_column(added);
  });
}

TEST(UpdateSchema, IsANewSchemaThatIsCurrent) {
  TableMetadata metadata = table();
  add_int_column(metadata, "n");
  EXPECT_EQ(metadata.current_schema_id, 1);
  EXPECT_EQ(metadata.schemas.size(), 2u);
  EXPECT_EQ(metadata.last_column_id, 7);
  EXPECT_EQ(metadata.schema().find_field("n")->id, 7);
  EXPECT_FALSE(update_schema(metadata, [](SchemaUpdate&) {}));
  EXPECT_TRUE(update_schema(metadata, [](SchemaUpdate& update) { update.drop_column("n"); }));
  EXPECT_EQ(metadata.current_schema_id, 0) << "an equal schema is taken";
  EXPECT_EQ(metadata.last_column_id, 7);
  expect_round_trip(metadata);
}

TEST(UpdateSchema, PropertiesOfAColumnFollowItsNameAndGoWithIt) {
  TableMetadata metadata = table();
  add_int_column(metadata, "n");
  for (const char* prefix : {"write.metadata.metrics.column.", "write.parquet.bloom-filter-enabled.column.",
                             "write.parquet.stats-enabled.column."}) {
    metadata.properties[prefix + std::string("name")] = "of name";
    metadata.properties[prefix + std::string("n")] = "of n";
    metadata.properties[prefix + std::string("other")] = "of no column";
  }
  // Names change hands: what was said of a column stays with the column.
  update_schema(metadata, [](SchemaUpdate& update) { update.rename_column("name", "title"); });
  update_schema(metadata, [](SchemaUpdate& update) { update.rename_column("n", "name"); });
  EXPECT_EQ(metadata.properties["write.metadata.metrics.column.title"], "of name");
  EXPECT_EQ(metadata.properties["write.parquet.bloom-filter-enabled.column.name"], "of n");
  EXPECT_EQ(metadata.properties["write.parquet.stats-enabled.column.other"], "of no column");
  EXPECT_FALSE(metadata.properties.contains("write.metadata.metrics.column.n"));
  update_schema(metadata, [](SchemaUpdate& update) { update.drop_column("name"); });
  EXPECT_FALSE(metadata.properties.contains("write.metadata.metrics.column.name"));
  EXPECT_EQ(metadata.properties["write.metadata.metrics.column.title"], "of name");
}

TEST(UpdateSchema, WhatSpecAndOrderUseStays) {
  TableMetadata metadata = table(2, {{"ts", "day"}});
  set_sort_order(metadata, {{.column = "name"}});
  EXPECT_THAT(refusal([&] { update_schema(metadata, [](SchemaUpdate& u) { u.drop_column("ts"); }); }),
              HasSubstr("partition field ts_day"));
  EXPECT_THAT(refusal([&] { update_schema(metadata, [](SchemaUpdate& u) { u.drop_column("name"); }); }),
              HasSubstr("sort order"));
  EXPECT_EQ(metadata.schemas.size(), 1u);
  update_spec(metadata, {.remove = {"ts_day"}});
  set_sort_order(metadata, {});
  EXPECT_EQ(refusal([&] {
              update_schema(metadata, [](SchemaUpdate& u) {
                u.drop_column("ts");
                u.drop_column("name");
              });
            }),
            "")
      << "older specs and orders may name columns that are gone";
  expect_round_trip(metadata);
}

TEST(UpdateSchema, APromotionThatWouldChangePartitionValuesIsRefused) {
  const auto to_timestamp = [](SchemaUpdate& update) { update.promote_column("day", type_of(TypeId::timestamp)); };
  TableMetadata bucketed = table(3, {{"day", "bucket[4]"}});
  EXPECT_THAT(refusal([&] { update_schema(bucketed, to_timestamp); }), HasSubstr("Column day is the source"));
  update_spec(bucketed, {.remove = {"bucket[4](day)"}});
  EXPECT_THAT(refusal([&] { update_schema(bucketed, to_timestamp); }), HasSubstr("spec 0")) << "files may be of it";
  TableMetadata monthly = table(3, {{"day", "month"}});
  EXPECT_TRUE(update_schema(monthly, to_timestamp));
}

TEST(UpdateSchema, AColumnDoesNotTakeAPartitionFieldsName) {
  TableMetadata metadata = table(2, {{"ts", "day"}, {"name"}});
  EXPECT_THAT(refusal([&] { add_int_column(metadata, "ts_day"); }), HasSubstr("partition field has that name"));
  update_schema(metadata, [](SchemaUpdate& update) { update.rename_column("name", "title"); });
  EXPECT_THAT(refusal([&] { add_int_column(metadata, "name"); }), HasSubstr("partition field has that name"));
  EXPECT_TRUE(update_schema(metadata, [](SchemaUpdate& update) { update.rename_column("title", "name"); }));
}

TEST(UpdateSchema, TheNameMappingFollows) {
  TableMetadata metadata = table();
  metadata.properties["schema.name-mapping.default"] = R"([{"field-id":1,"names":["id"]}])";
  add_int_column(metadata, "n");
  update_schema(metadata, [](SchemaUpdate& update) { update.rename_column("id", "key"); });
  EXPECT_EQ(metadata.properties["schema.name-mapping.default"],
            R"([{"field-id":1,"names":["id","key"]},{"field-id":7,"names":["n"]}])");
}

TEST(UpdateSpec, FieldsAreNamedAsJavaNamesThem) {
  TableMetadata metadata = table();
  update_spec(metadata, {.add = {{.column = "ts", .transform = "day"},
                                 {.column = "id", .transform = "bucket[16]"},
                                 {.column = "name"},
                                 {.column = "name", .transform = "truncate[4]"}}});
  EXPECT_EQ(metadata.default_spec_id, 1);
  const PartitionSpec& spec = metadata.spec();
  ASSERT_EQ(spec.fields.size(), 4u);
  EXPECT_EQ(spec.fields[0].name, "ts_day");
  EXPECT_EQ(spec.fields[1].name, "id_bucket_16");
  EXPECT_EQ(spec.fields[2].name, "name");
  EXPECT_EQ(spec.fields[3].name, "name_trunc_4");
  EXPECT_EQ(spec.fields[0].field_id, 1000);
  EXPECT_EQ(spec.fields[3].field_id, 1003);
  EXPECT_EQ(metadata.last_partition_id, 1003);
  expect_round_trip(metadata);
}

TEST(UpdateSpec, AnEquivalentFieldOfAnOlderSpecLendsItsId) {
  TableMetadata metadata = table(2, {{"ts", "day"}, {"name"}});
  update_spec(metadata, {.remove = {"ts_day"}});
  ASSERT_EQ(metadata.spec().fields.size(), 1u) << "v2 drops the field";
  update_spec(metadata, {.add = {{.column = "ts", .transform = "hour"}}});
  EXPECT_EQ(metadata.spec().fields[1].field_id, 1002);
  update_spec(metadata, {.remove = {"ts_hour"}, .add = {{.column = "ts", .transform = "day"}}});
  EXPECT_EQ(metadata.spec().fields[1].field_id, 1000) << "as in spec 0";
  EXPECT_EQ(metadata.spec().fields[1].name, "ts_day");
  EXPECT_EQ(metadata.last_partition_id, 1002);
  EXPECT_EQ(metadata.default_spec_id, 3);
  update_spec(metadata, {.remove = {"ts_day", "name"}});
  update_spec(metadata, {.add = {{.column = "ts", .transform = "day"}, {.column = "name"}}});
  EXPECT_EQ(metadata.default_spec_id, 0) << "a compatible spec is not made anew";
  expect_round_trip(metadata);
}

TEST(UpdateSpec, InVersion1ARemovedFieldBecomesVoid) {
  TableMetadata metadata = table(1, {{"ts", "day"}, {"name"}});
  update_spec(metadata, {.remove = {"ts_day"}});
  ASSERT_EQ(metadata.spec().fields.size(), 2u);
  EXPECT_EQ(metadata.spec().fields[0].transform.kind, TransformKind::void_);
  EXPECT_EQ(metadata.spec().fields[0].field_id, 1000);
  update_spec(metadata, {.add = {{.column = "ts", .transform = "day"}}});
  EXPECT_EQ(metadata.spec().fields[0].name, "ts_day_1000") << "out of the new one's way";
  EXPECT_EQ(metadata.spec().fields[2].name, "ts_day");
  EXPECT_EQ(metadata.spec().fields[2].field_id, 1002);
}

TEST(UpdateSpec, RenamesAreANewSpecOfTheSameIds) {
  TableMetadata metadata = table(2, {{"ts", "day"}});
  update_spec(metadata, {.rename = {{"ts_day", "when"}}});
  EXPECT_EQ(metadata.default_spec_id, 1);
  EXPECT_EQ(metadata.spec().fields[0].name, "when");
  EXPECT_EQ(metadata.spec().fields[0].field_id, 1000);
  EXPECT_FALSE(update_spec(metadata, {.rename = {{"when", "when"}}}));
}

TEST(UpdateSpec, WhatMakesNoSenseIsRefused) {
  TableMetadata metadata = table(2, {{"ts", "day"}});
  const auto adding = [&](const std::string& column, const std::string& transform, const std::string& name = "") {
    return refusal([&] { update_spec(metadata, {.add = {{.column = column, .transform = transform, .name = name}}}); });
  };
  EXPECT_EQ(adding("ts", "day"), "") << "it holds";
  EXPECT_EQ(metadata.partition_specs.size(), 1u);
  EXPECT_THAT(adding("ts", "day", "other"), HasSubstr("partitioned by"));
  EXPECT_THAT(adding("nothing", "identity"), HasSubstr("not_found"));
  EXPECT_THAT(adding("name", "day"), HasSubstr("does not take column name of type string"));
  EXPECT_THAT(adding("name", "magic"), HasSubstr("no transform"));
  EXPECT_THAT(adding("s", "identity"), HasSubstr("does not take"));
  EXPECT_THAT(adding("name", "truncate[2]", "id"), HasSubstr("a column has that name"));
  EXPECT_THAT(adding("name", "truncate[2]", "ts_day"), HasSubstr("taken"));
  EXPECT_THAT(refusal([&] { update_spec(metadata, {.remove = {"when"}}); }), HasSubstr("it has: ts_day"));
  EXPECT_EQ(adding("s.x", "bucket[2]"), "");
}

TEST(SortOrder, AnEqualOneIsTakenAndUnsortedIsNumberZero) {
  TableMetadata metadata = table();
  EXPECT_TRUE(
      set_sort_order(metadata, {{.column = "ts", .ascending = false}, {.column = "s.x", .nulls_first = false}}));
  EXPECT_EQ(metadata.default_sort_order_id, 1);
  EXPECT_EQ(metadata.sort_order().to_display(metadata.schema()), "ts desc nulls last, s.x asc nulls last");
  EXPECT_TRUE(set_sort_order(metadata, {}));
  EXPECT_EQ(metadata.default_sort_order_id, 0);
  EXPECT_TRUE(set_sort_order(metadata, {{.column = "ts", .transform = "hour"}}));
  EXPECT_EQ(metadata.default_sort_order_id, 2);
  EXPECT_TRUE(
      set_sort_order(metadata, {{.column = "ts", .ascending = false}, {.column = "s.x", .nulls_first = false}}));
  EXPECT_EQ(metadata.default_sort_order_id, 1);
  EXPECT_FALSE(
      set_sort_order(metadata, {{.column = "ts", .ascending = false}, {.column = "s.x", .nulls_first = false}}));
  EXPECT_THAT(refusal([&] { set_sort_order(metadata, {{.column = "s"}}); }), HasSubstr("does not take"));
  EXPECT_THAT(refusal([&] { set_sort_order(metadata, {{.column = "zz"}}); }), HasSubstr("not_found"));
  expect_round_trip(metadata);
}

TEST(Properties, AreSetAndRemovedAndReservedOnesRefused) {
  TableMetadata metadata = table();
  EXPECT_TRUE(update_properties(metadata, {{"a", "1"}, {"b", "2"}}, {}));
  EXPECT_FALSE(update_properties(metadata, {{"a", "1"}}, {"none"}));
  EXPECT_TRUE(update_properties(metadata, {{"a", "3"}}, {"b"}));
  EXPECT_EQ(metadata.properties, (std::map<std::string, std::string>{{"a", "3"}}));
  for (const char* reserved :
       {"format-version", "uuid", "current-schema", "default-sort-order", "current-snapshot-id"}) {
    EXPECT_THAT(refusal([&] { update_properties(metadata, {{reserved, "3"}}, {}); }), HasSubstr("reserved"));
    EXPECT_THAT(refusal([&] { update_properties(metadata, {}, {reserved}); }), HasSubstr("reserved"));
  }
  EXPECT_THAT(refusal([&] {
                update_properties(metadata, {{"schema.name-mapping.default", "{"}}, {});
              }),
              HasSubstr("invalid_argument"));
  EXPECT_THAT(refusal([&] { update_properties(metadata, {{"x", "3"}}, {"x"}); }), HasSubstr("choose one"));
}

TEST(Properties, WhatCouldNotBeUsedLaterIsRefusedWhenItIsSet) {
  const std::vector<std::pair<std::string, std::string>> wrong = {
      {"commit.retry.num-retries", "abc"},
      {"commit.retry.num-retries", "99999999999999999999"},
      {"commit.retry.min-wait-ms", "-1"},
      {"commit.status-check.total-timeout-ms", "1s"},
      {"commit.manifest.target-size-bytes", "8MB"},
      {"history.expire.min-snapshots-to-keep", "0"},
      {"write.metadata.previous-versions-max", ""},
      {"write.target-file-size-bytes", "0"},
      {"write.parquet.page-row-limit", "1e3"},
      {"write.delete.parquet.page-row-limit", "x"},
      {"write.parquet.compression-codec", "zip"},
      {"write.parquet.compression-level", "high"},
      {"write.parquet.bloom-filter-fpp.column.a", "1"},
      {"write.parquet.bloom-filter-ndv.column.a", "0"},
      {"write.metadata.metrics.default", "some"},
      {"write.metadata.metrics.column.a", "truncate(0)"},
      {"write.delete.mode", "merge"},
      {"write.merge.isolation-level", "none"},
      {"write.delete.granularity", "row"},
      {"write.data.path", "data"},
      {"write.metadata.path", "./metadata"},
      {"schema.name-mapping.default", "{"},
  };
  for (const auto& [key, value] : wrong) {
    SCOPED_TRACE(key + "=" + value);
    TableMetadata metadata = table();
    const auto before = metadata.properties;
    EXPECT_THAT(refusal([&] {
                  update_properties(metadata, {{key, value}, {"a", "1"}}, {});
                }),
                ::testing::AllOf(HasSubstr("invalid_argument"), HasSubstr(key)));
    EXPECT_EQ(metadata.properties, before);
    EXPECT_THAT(refusal([&] {
                  new_table_metadata("/t", metadata.schema(), {}, {}, {{key, value}}, 1);
                }),
                HasSubstr(key));
  }
}

TEST(Properties, TakeTheirBoundsAndWhatOthersRead) {
  TableMetadata metadata = table();
  EXPECT_TRUE(update_properties(metadata,
                                {{"commit.retry.num-retries", "0"},
                                 {"commit.retry.total-timeout-ms", "9223372036854775807"},
                                 {"write.parquet.compression-codec", "GZIP"},
                                 {"write.parquet.compression-level", "null"},
                                 {"write.delete.parquet.compression-level", "-3"},
                                 {"write.metadata.metrics.column.a", "truncate(16)"},
                                 {"write.data.path", "s3://bucket/data"},
                                 {"write.metadata.path", "file:/elsewhere"},
                                 {"write.metadata.delete-after-commit.enabled", "perhaps"},
                                 {"commit.retry.of-another-engine", "abc"}},
                                {}));
}

TEST(FormatVersion, GoesUpOnly) {
  TableMetadata metadata = with_history();
  EXPECT_FALSE(upgrade_format_version(metadata, 2));
  EXPECT_TRUE(upgrade_format_version(metadata, 3));
  EXPECT_EQ(metadata.next_row_id, 0);
  EXPECT_FALSE(metadata.snapshots[0].first_row_id) << "snapshots stay as they are (spec, Row Lineage)";
  EXPECT_THAT(refusal([&] { upgrade_format_version(metadata, 2); }), HasSubstr("cannot go down"));
  EXPECT_THAT(refusal([&] { upgrade_format_version(metadata, 4); }), HasSubstr("versions 2 and 3"));
  expect_round_trip(metadata);
  EXPECT_THAT(serialize_table_metadata(metadata), HasSubstr("\"next-row-id\":0"));
}

TEST(FormatVersion, OfVersion1GetsWhatVersion2Requires) {
  TableMetadata metadata = parse_table_metadata(
      R"({"format-version": 1, "location": "/t", "last-updated-ms": 1, "last-column-id": 1,
          "schema": {"type": "struct", "fields": [{"id": 1, "name": "a", "required": false, "type": "int"}]},
          "partition-spec": [{"name": "a", "transform": "identity", "source-id": 1}],
          "current-snapshot-id": 7,
          "snapshots": [{"snapshot-id": 7, "timestamp-ms": 1, "manifests": ["/t/m.avro"]}]})",
      "v1");
  EXPECT_TRUE(upgrade_format_version(metadata, 2));
  const Json json = Json::parse(serialize_table_metadata(metadata));
  for (const char* required : {"table-uuid", "last-sequence-number", "current-schema-id", "schemas", "partition-specs",
                               "default-spec-id", "last-partition-id", "sort-orders", "default-sort-order-id"})
    EXPECT_TRUE(json.contains(required)) << required;
  EXPECT_FALSE(json.contains("schema"));
  EXPECT_FALSE(json.contains("partition-spec"));
  EXPECT_FALSE(json["table-uuid"].get<std::string>().empty());
  EXPECT_EQ(json["last-sequence-number"], 0);
  EXPECT_EQ(json["last-partition-id"], 1000);
  EXPECT_EQ(json["snapshots"][0]["sequence-number"], 0);
  expect_round_trip(metadata);
}

TEST(Location, IsKeptWithoutASlash) {
  TableMetadata metadata = table();
  EXPECT_TRUE(set_location(metadata, "s3://b/t/"));
  EXPECT_EQ(metadata.location, "s3://b/t");
  EXPECT_FALSE(set_location(metadata, "s3://b/t"));
  EXPECT_THAT(refusal([&] { set_location(metadata, ""); }), HasSubstr("location"));
}

TEST(Refs, BranchesAndTagsAreMadeOnce) {
  TableMetadata metadata = with_history();
  EXPECT_TRUE(
      set_branch(metadata, "dev", {.snapshot_id = 20, .min_snapshots_to_keep = 2, .max_snapshot_age_ms = 5}, 9));
  EXPECT_FALSE(
      set_branch(metadata, "dev", {.snapshot_id = 20, .min_snapshots_to_keep = 2, .max_snapshot_age_ms = 5}, 9));
  EXPECT_THAT(refusal([&] { set_branch(metadata, "dev", {.snapshot_id = 30}, 9); }), HasSubstr("already_exists"));
  EXPECT_TRUE(set_branch(metadata, "dev", {.snapshot_id = 25, .replace = true}, 9));
  EXPECT_EQ(metadata.refs["dev"].snapshot_id, 25);
  EXPECT_FALSE(metadata.refs["dev"].min_snapshots_to_keep);
  EXPECT_TRUE(set_tag(metadata, "v1", {.max_ref_age_ms = 7}, 9));
  EXPECT_EQ(metadata.refs["v1"].snapshot_id, 30);
  EXPECT_FALSE(metadata.refs["v1"].is_branch);
  EXPECT_THAT(refusal([&] { set_branch(metadata, "v1", {.replace = true}, 9); }), HasSubstr("v1 is a tag"));
  EXPECT_THAT(refusal([&] { set_tag(metadata, "v2", {.snapshot_id = 99}, 9); }), HasSubstr("not_found"));
  EXPECT_EQ(metadata.snapshot_log.size(), 3u) << "main did not move";
  expect_round_trip(metadata);
  EXPECT_TRUE(remove_ref(metadata, "v1"));
  EXPECT_FALSE(remove_ref(metadata, "v1"));
}

TEST(Refs, MainIsABranchForGood) {
  TableMetadata metadata = with_history();
  EXPECT_THAT(refusal([&] { set_tag(metadata, "main", {.snapshot_id = 20, .replace = true}, 9); }),
              HasSubstr("main is a branch"));
  EXPECT_THAT(refusal([&] { remove_ref(metadata, "main"); }), HasSubstr("cannot be removed"));
  EXPECT_THAT(refusal([&] { set_ref_retention(metadata, "main", {.max_ref_age_ms = 5}); }), HasSubstr("never expires"));
  EXPECT_TRUE(set_ref_retention(metadata, "main", {.min_snapshots_to_keep = 5}));
  EXPECT_EQ(metadata.refs["main"].min_snapshots_to_keep, 5);
  TableMetadata empty = table();
  EXPECT_THAT(refusal([&] { set_tag(empty, "v1", {}, 9); }), HasSubstr("no snapshot"));
}

TEST(Refs, RetentionIsPositiveAndATagKeepsNoHistory) {
  TableMetadata metadata = with_history();
  EXPECT_THAT(refusal([&] { set_branch(metadata, "b", {.min_snapshots_to_keep = 0}, 9); }), HasSubstr("positive"));
  EXPECT_THAT(refusal([&] { set_branch(metadata, "b", {.max_snapshot_age_ms = -1}, 9); }), HasSubstr("positive"));
  EXPECT_THAT(refusal([&] { set_tag(metadata, "b", {.min_snapshots_to_keep = 1}, 9); }), HasSubstr("only a branch"));
  EXPECT_THAT(refusal([&] { set_ref_retention(metadata, "b", {}); }), HasSubstr("not_found"));
  set_branch(metadata, "b", {.min_snapshots_to_keep = 1, .max_ref_age_ms = 3}, 9);
  EXPECT_TRUE(set_ref_retention(metadata, "b", {.max_ref_age_ms = 4}));
  EXPECT_EQ(metadata.refs["b"].min_snapshots_to_keep, 1);
  EXPECT_EQ(metadata.refs["b"].max_ref_age_ms, 4);
}

TEST(Refs, FastForwardOnlyFollowsDescent) {
  TableMetadata metadata = with_history();
  set_branch(metadata, "dev", {.snapshot_id = 20}, 9);
  set_tag(metadata, "side", {.snapshot_id = 25}, 9);
  EXPECT_TRUE(fast_forward(metadata, "dev", "main", 9));
  EXPECT_EQ(metadata.refs["dev"].snapshot_id, 30);
  EXPECT_FALSE(fast_forward(metadata, "dev", "main", 9));
  EXPECT_THAT(refusal([&] { fast_forward(metadata, "dev", "side", 9); }), HasSubstr("does not descend"));
  EXPECT_THAT(refusal([&] { fast_forward(metadata, "side", "main", 9); }), HasSubstr("is a tag"));
  EXPECT_TRUE(fast_forward(metadata, "new", "side", 9));
  EXPECT_EQ(metadata.refs["new"].snapshot_id, 25);
  EXPECT_TRUE(metadata.refs["new"].is_branch);
}

TEST(Rollback, GoesToAncestorsAloneAndTheLogSaysSo) {
  TableMetadata metadata = with_history();
  EXPECT_THAT(refusal([&] { rollback_to_snapshot(metadata, 25, 9000); }), HasSubstr("no ancestor"));
  EXPECT_THAT(refusal([&] { rollback_to_snapshot(metadata, 99, 9000); }), HasSubstr("not_found"));
  EXPECT_TRUE(rollback_to_snapshot(metadata, 10, 9000));
  EXPECT_FALSE(rollback_to_snapshot(metadata, 10, 9500));
  EXPECT_EQ(metadata.current_snapshot_id, 10);
  EXPECT_EQ(metadata.refs["main"].snapshot_id, 10);
  ASSERT_EQ(metadata.snapshot_log.size(), 4u);
  EXPECT_EQ(metadata.snapshot_log.back().snapshot_id, 10);
  EXPECT_EQ(metadata.snapshot_log.back().timestamp_ms, 9000);
  EXPECT_EQ(metadata.last_updated_ms, 9000);
  EXPECT_TRUE(set_current_snapshot(metadata, 25, 8000)) << "any snapshot, if it is asked for";
  EXPECT_EQ(metadata.snapshot_log.back().timestamp_ms, 9000) << "a clock that runs back does not take the log back";
  expect_round_trip(metadata);
}

TEST(Rollback, ToATimeIsTheNewestFromBefore) {
  TableMetadata metadata = with_history();
  EXPECT_FALSE(rollback_to_time(metadata, 3001, 9000));
  EXPECT_TRUE(rollback_to_time(metadata, 3000, 9000));
  EXPECT_EQ(metadata.current_snapshot_id, 20);
  EXPECT_TRUE(rollback_to_time(metadata, 1500, 9000));
  EXPECT_EQ(metadata.current_snapshot_id, 10);
  EXPECT_THAT(refusal([&] { rollback_to_time(metadata, 1000, 9000); }), HasSubstr("from before 1970-01-01T00:00:01"));
}

TEST(Rollback, OfABranchLeavesMainAlone) {
  TableMetadata metadata = with_history();
  set_branch(metadata, "dev", {}, 9);
  EXPECT_TRUE(rollback_to_snapshot(metadata, 10, 9000, "dev"));
  EXPECT_EQ(metadata.refs["dev"].snapshot_id, 10);
  EXPECT_EQ(metadata.current_snapshot_id, 30);
  EXPECT_EQ(metadata.snapshot_log.size(), 3u);
}

Json statistics_of(int64_t snapshot_id, const std::string& path) {
  return Json{{"snapshot-id", snapshot_id},
              {"statistics-path", path},
              {"file-size-in-bytes", 100},
              {"file-footer-size-in-bytes", 40},
              {"blob-metadata", Json::array()}};
}

TEST(Statistics, AreOneASnapshotAndGoWithIt) {
  TableMetadata metadata = with_history();
  EXPECT_TRUE(set_statistics(metadata, statistics_of(10, "/a")));
  EXPECT_TRUE(set_statistics(metadata, statistics_of(30, "/b")));
  EXPECT_TRUE(set_statistics(metadata, statistics_of(10, "/c")));
  EXPECT_FALSE(set_statistics(metadata, statistics_of(10, "/c")));
  EXPECT_TRUE(set_partition_statistics(
      metadata, Json{{"snapshot-id", 10}, {"statistics-path", "/p"}, {"file-size-in-bytes", 5}}));
  EXPECT_THAT(refusal([&] { set_statistics(metadata, statistics_of(99, "/x")); }), HasSubstr("snapshot 99"));
  EXPECT_THAT(refusal([&] { set_statistics(metadata, Json{{"snapshot-id", 10}}); }), HasSubstr("statistics-path"));
  ASSERT_EQ(metadata.statistics.size(), 2u);
  EXPECT_EQ(metadata.statistics[0]["statistics-path"], "/c");
  expect_round_trip(metadata);
  EXPECT_TRUE(remove_snapshots(metadata, {10}));
  EXPECT_EQ(metadata.statistics.size(), 1u);
  EXPECT_TRUE(metadata.partition_statistics.empty());
  EXPECT_TRUE(remove_statistics(metadata, 30));
  EXPECT_FALSE(remove_statistics(metadata, 30));
}

TEST(RemoveSnapshots, TheLogBeginsAfterTheLastOneRemoved) {
  TableMetadata metadata = with_history();
  EXPECT_THAT(refusal([&] { remove_snapshots(metadata, {30}); }), HasSubstr("head of main"));
  EXPECT_TRUE(remove_snapshots(metadata, {20, 25, 77}));
  EXPECT_EQ(metadata.snapshots.size(), 2u);
  ASSERT_EQ(metadata.snapshot_log.size(), 1u);
  EXPECT_EQ(metadata.snapshot_log[0].snapshot_id, 30);
  EXPECT_FALSE(remove_snapshots(metadata, {20}));
  EXPECT_EQ(ancestor_ids(metadata, 30), std::vector<int64_t>{30}) << "as far as they are there";
  expect_round_trip(metadata);
}

TEST(UnknownMembers, AreWrittenBack) {
  TableMetadata metadata = with_history(3);
  Json json = Json::parse(serialize_table_metadata(metadata));
  json["later-feature"] = {{"a", {1, 2}}};
  json["flag"] = true;
  json["snapshots"][1]["engine-note"] = "kept";
  json["refs"]["main"]["owner"] = "me";
  const TableMetadata parsed = parse_table_metadata(json.dump(), "here");
  TableMetadata next = parsed;
  EXPECT_TRUE(update_properties(next, {{"a", "b"}}, {}));
  EXPECT_TRUE(rollback_to_snapshot(next, 10, 9000));
  const Json again = Json::parse(serialize_table_metadata(next));
  EXPECT_EQ(again["later-feature"], json["later-feature"]);
  EXPECT_EQ(again["flag"], true);
  EXPECT_EQ(again["snapshots"][1]["engine-note"], "kept");
  EXPECT_EQ(again["refs"]["main"]["owner"], "me");
  EXPECT_EQ(again["snapshots"][0], json["snapshots"][0]);
}

TEST(UpdateSchema, RefusesTwoColumnsOfOneFullName) {
  TableMetadata metadata = table();
  const auto text = type_of(TypeId::string);
  const Schema wanted({column(1, "s.x", text)});
  EXPECT_THAT(refusal([&] { update_schema(metadata, [&](SchemaUpdate& update) { update.union_by_name(wanted); }); }),
              HasSubstr("s.x"));
  EXPECT_EQ(metadata.schemas.size(), 1u);
  // A table that has them already can be mended.
  std::vector<Field> fields = metadata.schema().fields();
  fields.push_back(column(7, "s.x", text));
  set_current_schema(metadata, Schema(fields), 7);
  EXPECT_TRUE(update_schema(metadata, [](SchemaUpdate& update) { update.rename_column("s.x", "sx"); }));
  EXPECT_EQ(metadata.schema().find_field("s.x")->id, 6);
}

}  // namespace
}  // namespace firn::iceberg
