// Tables made and brought up to a step's schema (orca-tables.md, "ensure_table", "table_defaults").
#include "orca/tables/world.h"

namespace firn::orca {
namespace {

using ::testing::HasSubstr;
using ::testing::Pair;

const iceberg::TypePtr kLong = primitive(TypeId::long_);
const iceberg::TypePtr kString = primitive(TypeId::string);

class EnsureTable : public ::testing::Test {
 protected:
  Table ensure(std::vector<Field> fields, const Properties& properties = {}) {
    return ensure_table(step_, "nyc.events", Schema(std::move(fields)), {}, properties);
  }
  static int64_t version(const Table& table) { return table.operations()->load().version; }

  World world_;
  Attempt step_ = world_.attempt({});
};

TEST_F(EnsureTable, CreatesAnEmptyTableWithSchemaAndSpec) {
  const Table made = ensure_table(step_, "nyc.events", event_schema(), by_day());
  EXPECT_EQ(made.location(), "mem://w/nyc/events");
  EXPECT_FALSE(made.metadata().current_snapshot_id);
  EXPECT_TRUE(made.metadata().schema().same_fields(event_schema()));
  EXPECT_EQ(made.metadata().spec().to_display(event_schema()), "day");
  EXPECT_EQ(version(made), 1);
  EXPECT_EQ(version(ensure_table(step_, "nyc.events", event_schema(), by_day())), 1);  // as given: no commit
}

TEST_F(EnsureTable, KeepsTheFieldIdsOfTheSchemaThatItCreatesWith) {
  const auto point = Type::struct_of({column(7, "x", kLong), column(8, "y", kLong)});
  const Schema schema({column(5, "at", point), column(9, "day", kString), column(3, "id", kLong)});
  const auto spec = iceberg::make_partition_spec({{.column = "day"}}, schema);
  Table made = ensure_table(step_, "nyc.events", schema, spec);
  EXPECT_TRUE(made.metadata().schema().same_fields(schema));
  EXPECT_EQ(made.metadata().last_column_id, 9);
  append(step_, made, batches_of(R"([{"at": {"x": 1, "y": 2}, "day": "d", "id": 4}])", schema));
  EXPECT_EQ(rows(made), Lines{R"({"at":{"x":1,"y":2},"day":"d","id":4})"});
  EXPECT_EQ(version(ensure_table(step_, "nyc.events", schema)), version(made));
}

TEST_F(EnsureTable, AddsMissingColumnsAtAnyDepthInOneCommitAndRowsThereReadNull) {
  const auto point = [](std::vector<Field> fields) { return Type::struct_of(std::move(fields)); };
  Table events = ensure({column(1, "id", kLong), column(2, "at", point({column(3, "x", kLong)})),
                         column(4, "tags", Type::list_of(5, false, point({column(6, "k", kString)}))),
                         column(7, "m", Type::map_of(8, kString, 9, false, point({column(10, "v", kLong)})))});
  append(step_, events,
         batches_of(R"([{"id": 1, "at": {"x": 2}, "tags": [{"k": "a"}], "m": []}])", events.metadata().schema()));
  const int64_t before = version(events);
  events = ensure(
      {column(1, "id", kLong), column(2, "at", point({column(3, "x", kLong), column(11, "y", kLong)})),
       column(4, "tags", Type::list_of(5, false, point({column(6, "k", kString), column(12, "w", kLong)}))),
       column(7, "m", Type::map_of(8, kString, 9, false, point({column(10, "v", kLong), column(13, "u", kLong)}))),
       column(14, "s", point({column(15, "a", kLong), column(16, "b", kLong)})), column(17, "t", kString)});
  EXPECT_EQ(version(events), before + 1);
  EXPECT_EQ(events.metadata().last_column_id, 17);
  EXPECT_EQ(rows(events),
            Lines{R"({"id":1,"at":{"x":2,"y":null},"tags":[{"k":"a","w":null}],"m":[],"s":null,"t":null})"});
}

TEST_F(EnsureTable, AColumnThatTheSchemaMakesOptionalBecomesOptional) {
  ensure({column(1, "id", kLong, true), column(2, "s", Type::struct_of({column(3, "x", kLong, true)}))});
  const Table events = ensure({column(1, "id", kLong), column(2, "s", Type::struct_of({column(3, "x", kLong)}))});
  EXPECT_FALSE(events.metadata().schema().find_field("id")->required);
  EXPECT_FALSE(events.metadata().schema().find_field("s.x")->required);
  EXPECT_EQ(version(events), 2);
}

TEST_F(EnsureTable, ColumnsThatTheSchemaLacksAreKeptAndWrittenAsNull) {
  ensure({column(1, "id", kLong), column(2, "day", kString), column(3, "note", kString)});
  Table events = ensure({column(1, "id", kLong), column(2, "day", kString)});
  EXPECT_EQ(version(events), 1);
  append(step_, events, day_rows("d1", {1}));
  EXPECT_EQ(rows(events), Lines{R"({"id":1,"day":"d1","note":null})"});
}

TEST_F(EnsureTable, RefusesAColumnOfAnotherType) {
  ensure({column(1, "n", primitive(TypeId::int_)), column(2, "s", Type::struct_of({column(3, "x", kLong)}))});
  const auto dataset = HasSubstr("dataset nyc.events");
  const Field s = column(2, "s", Type::struct_of({column(3, "x", kLong)}));
  EXPECT_REFUSED(ensure({column(1, "n", kString), s}), ErrorKind::schema_mismatch, dataset, HasSubstr("column n"));
  EXPECT_REFUSED(ensure({column(1, "n", kLong), s}), ErrorKind::schema_mismatch, dataset, HasSubstr("column n"));
  EXPECT_REFUSED(
      ensure({column(1, "n", primitive(TypeId::int_)), column(2, "s", Type::struct_of({column(3, "x", kString)}))}),
      ErrorKind::schema_mismatch, dataset, HasSubstr("column s.x"));
  EXPECT_REFUSED(ensure({column(1, "n", primitive(TypeId::int_)), column(2, "s", kLong)}), ErrorKind::schema_mismatch,
                 dataset, HasSubstr("column s "));
  EXPECT_EQ(version(load_dataset("nyc.events")), 1);
}

TEST_F(EnsureTable, RefusesANewColumnMarkedRequired) {
  ensure({column(1, "id", kLong), column(2, "s", Type::struct_of({column(3, "x", kLong)}))});
  const Field s = column(2, "s", Type::struct_of({column(3, "x", kLong)}));
  EXPECT_REFUSED(ensure({column(1, "id", kLong), s, column(4, "n", kLong, true)}), ErrorKind::schema_mismatch,
                 HasSubstr("dataset nyc.events"), HasSubstr("column n"), HasSubstr("required"));
  EXPECT_REFUSED(ensure({column(1, "id", kLong),
                         column(2, "s", Type::struct_of({column(3, "x", kLong), column(4, "y", kLong, true)}))}),
                 ErrorKind::schema_mismatch, HasSubstr("dataset nyc.events"), HasSubstr("column s.y"));
}

TEST_F(EnsureTable, RefusesToLeaveOutARequiredColumn) {
  ensure({column(1, "id", kLong, true),
          column(2, "s", Type::struct_of({column(3, "x", kLong, true), column(4, "y", kLong)}))});
  const auto dataset = HasSubstr("dataset nyc.events");
  const Field s = column(2, "s", Type::struct_of({column(3, "x", kLong, true), column(4, "y", kLong)}));
  EXPECT_REFUSED(ensure({s}), ErrorKind::schema_mismatch, dataset, HasSubstr("column id"), HasSubstr("leaves it out"));
  EXPECT_REFUSED(ensure({column(1, "id", kLong, true), column(2, "s", Type::struct_of({column(4, "y", kLong)}))}),
                 ErrorKind::schema_mismatch, dataset, HasSubstr("column s.x"));
}

TEST_F(EnsureTable, RefusesAFieldIdThatIsNotTheTables) {
  ensure({column(1, "id", kLong), column(2, "l", Type::list_of(3, false, kLong))});
  const auto dataset = HasSubstr("dataset nyc.events");
  const Field l = column(2, "l", Type::list_of(3, false, kLong));
  EXPECT_REFUSED(ensure({column(9, "id", kLong), l}), ErrorKind::schema_mismatch, dataset,
                 HasSubstr("column id has field id 9"), HasSubstr("gave it 1"));
  EXPECT_REFUSED(ensure({column(1, "id", kLong), column(2, "l", Type::list_of(7, false, kLong))}),
                 ErrorKind::schema_mismatch, dataset, HasSubstr("column l.element"));
  // The next one up, in the schema's order, a struct's fields after the struct.
  const auto pair = [](int32_t a, int32_t b) {
    return Type::struct_of({column(a, "a", kLong), column(b, "b", kLong)});
  };
  EXPECT_REFUSED(ensure({column(1, "id", kLong), l, column(5, "n", kLong)}), ErrorKind::schema_mismatch, dataset,
                 HasSubstr("column n has field id 5"), HasSubstr("will give it 4"));
  EXPECT_REFUSED(ensure({column(1, "id", kLong), l, column(4, "s", pair(6, 7)), column(5, "t", kLong)}),
                 ErrorKind::schema_mismatch, dataset, HasSubstr("column s.a has field id 6"));
  EXPECT_EQ(version(load_dataset("nyc.events")), 1);
  ensure({column(1, "id", kLong), l, column(4, "s", pair(5, 6)), column(7, "t", kLong)});
  EXPECT_EQ(version(load_dataset("nyc.events")), 2);
}

TEST_F(EnsureTable, KeysOfMapsDoNotChange) {
  const auto map = [](std::vector<Field> key) {
    return Type::map_of(2, Type::struct_of(std::move(key)), 3, false, kLong);
  };
  ensure({column(1, "m", map({column(4, "x", kLong, true)}))});
  EXPECT_REFUSED(ensure({column(1, "m", map({column(4, "x", kLong, true), column(5, "y", kLong)}))}),
                 ErrorKind::schema_mismatch, HasSubstr("dataset nyc.events"), HasSubstr("m.key.y"));
  EXPECT_REFUSED(ensure({column(1, "m", map({column(4, "x", kLong)}))}), ErrorKind::schema_mismatch,
                 HasSubstr("m.key.x"));
}

TEST_F(EnsureTable, SpecIsOnlyUsedToCreateTheTable) {
  ensure_table(step_, "nyc.events", event_schema(), by_day());
  const Table again = ensure_table(step_, "nyc.events", event_schema());
  EXPECT_EQ(again.metadata().spec().to_display(event_schema()), "day");
  EXPECT_EQ(version(again), 1);
}

TEST_F(EnsureTable, DefaultsKeepAHundredMetadataFilesAndThirtyDays) {
  const Properties properties = ensure({column(1, "id", kLong)}).metadata().properties;
  EXPECT_EQ(properties.at("write.metadata.delete-after-commit.enabled"), "true");
  EXPECT_EQ(properties.at("write.metadata.previous-versions-max"), "100");
  EXPECT_EQ(properties.at("history.expire.max-snapshot-age-ms"), "2592000000");
  EXPECT_EQ(properties.at("history.expire.max-snapshot-age-ms"), std::to_string(30 * DAY_MS));
  EXPECT_EQ(DEFAULT_HISTORY_DAYS, 30);
  EXPECT_EQ(DAY_MS, 86400000);
  EXPECT_EQ(properties, table_defaults());
}

TEST_F(EnsureTable, MetadataFilesStopGrowingAtAHundredEarlierOnes) {
  Table events = ensure({column(1, "id", kLong)});
  const auto metadata_files = [&] {
    size_t count = 0;
    for (const std::string& path : world_.store->paths()) count += path.ends_with(".metadata.json");
    return count;
  };
  for (int i = 1; i <= 110; ++i) {
    append(step_, events, {});
    if (i == 100) {
      EXPECT_EQ(metadata_files(), 101u);
    }
  }
  EXPECT_EQ(metadata_files(), 101u);  // the current one, and a hundred
}

TEST_F(EnsureTable, DefaultsAreAddedToATableThatLacksThem) {
  iceberg::create_filesystem_table(
      world_.store, iceberg::new_table_metadata("mem://w/nyc/events", event_schema(), {}, {},
                                                {{"write.metadata.previous-versions-max", "7"}}, now_ms()));
  const Table events = ensure_table(step_, "nyc.events", event_schema());
  EXPECT_EQ(version(events), 2);
  EXPECT_EQ(events.metadata().properties.at("write.metadata.previous-versions-max"), "7");  // what it has stands
  EXPECT_EQ(events.metadata().properties.at("history.expire.max-snapshot-age-ms"), "2592000000");
}

TEST_F(EnsureTable, PropertiesGoOnTopOfTheDefaultsAndChangeInOneCommit) {
  const std::vector<Field> fields = {column(1, "id", kLong)};
  Table events = ensure(fields, {{"history.expire.max-snapshot-age-ms", "5"}, {"a", "1"}});
  EXPECT_THAT(events.metadata().properties, ::testing::Contains(Pair("history.expire.max-snapshot-age-ms", "5")));
  EXPECT_EQ(version(events), 1);
  events = ensure(fields, {{"a", "2"}, {"b", "3"}});
  EXPECT_EQ(version(events), 2);
  EXPECT_THAT(events.metadata().properties, ::testing::IsSupersetOf({Pair("a", "2"), Pair("b", "3")}));
  EXPECT_EQ(events.metadata().properties.at("history.expire.max-snapshot-age-ms"), "5");
  EXPECT_EQ(version(ensure(fields, {{"a", "2"}, {"b", "3"}})), 2);  // none where all are as given
}

TEST_F(EnsureTable, TheFormatVersionIsRaisedAndNeverLowered) {
  Table events = ensure({column(1, "id", kLong)}, {{"format-version", "2"}});
  EXPECT_EQ(events.metadata().format_version, 2);
  EXPECT_EQ(ensure({column(1, "id", kLong)}, {{"format-version", "3"}}).metadata().format_version, 3);
  EXPECT_REFUSED(ensure({column(1, "id", kLong)}, {{"format-version", "2"}}), ErrorKind::invalid_argument,
                 HasSubstr("dataset nyc.events"));
}

TEST_F(EnsureTable, TwoStepsThatCreateItAtOnceUseOneTable) {
  bool created = false;
  world_.store->before_put([&](const std::string& path) {
    if (created || !path.ends_with("v1.metadata.json")) return;
    created = true;  // just before ours
    iceberg::create_filesystem_table(world_.store, iceberg::new_table_metadata("mem://w/nyc/events", event_schema(), {},
                                                                               {}, table_defaults(), now_ms()));
  });
  const Schema wider({column(1, "id", kLong), column(2, "day", kString), column(3, "note", kString)});
  const Table events = ensure_table(step_, "nyc.events", wider);
  EXPECT_TRUE(created);
  EXPECT_EQ(events.metadata().schema().fields().size(), 3u);  // brought up to the schema
}

TEST_F(EnsureTable, NeedsAWarehouse) {
  ::unsetenv("ORCA_WAREHOUSE");
  EXPECT_REFUSED(ensure({column(1, "id", kLong)}), ErrorKind::config, HasSubstr("ORCA_WAREHOUSE"));
}

}  // namespace
}  // namespace firn::orca
