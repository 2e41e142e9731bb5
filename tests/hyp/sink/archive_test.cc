// The archive's layout (spec/iceberg-export-partitioning.md) and how it follows the cache.
#include "base/span.h"
#include "hyp/sink/sink_box.h"
#include "iceberg/commit/commit.h"
#include "iceberg/manifest/manifest.h"
#include "iceberg/schema_update.h"

namespace firn::hyp {
namespace {

class Archive : public testing::Test {
 protected:
  SinkBox box_;
  SinkConfig sink_ = make_sink(SinkKind::iceberg, box_.out());

  PartitionRun ship() const { return box_.ship(sink_).partitions.at(0); }
};

const Lines kDays = {R"({"at":"2024-03-01T00:00:00Z","cwd":"/","session_id":"b"})",
                     R"({"at":"2024-03-02T23:59:59.999999Z","cwd":"/","session_id":"a"})",
                     R"({"at":"1969-12-31T23:59:59Z","cwd":"/","session_id":"c"})",
                     R"({"at":"2024-03-01T12:00:00Z","cwd":"/x","session_id":"a"})", R"({"session_id":"z"})"};

DatasetConfig& declare_sessions(SinkBox& box) {
  DatasetConfig& dataset = box.declare("logs");
  dataset.primary_timestamp_column = "at";
  dataset.cache_partitioning = {{"session_id", "identity"}, {"at", "day"}, {"cwd", "identity"}};
  return dataset;
}

TEST_F(Archive, IsPartitionedByDayAndSortedByTheLookupColumns) {
  declare_sessions(box_);
  box_.ingest_lines("logs", "web", kDays);
  box_.ship_well(sink_);
  const auto table = archive_table(box_.out(), "logs");
  const iceberg::TableMetadata& metadata = *table.metadata;
  EXPECT_EQ(metadata.format_version, 3);
  EXPECT_EQ(metadata.spec().to_display(metadata.schema()), "day(at)");
  ASSERT_EQ(metadata.sort_order().fields.size(), 2u);
  EXPECT_EQ(metadata.schema().full_name(metadata.sort_order().fields[0].source_id()), "session_id");
  EXPECT_EQ(metadata.schema().full_name(metadata.sort_order().fields[1].source_id()), "cwd");
  EXPECT_EQ(metadata.property("write.metadata.previous-versions-max", ""), "100");
  EXPECT_EQ(metadata.property("write.metadata.delete-after-commit.enabled", ""), "true");
  for (const iceberg::Field& field : metadata.schema().fields())
    EXPECT_FALSE(is_hidden_column(field.name)) << field.name;

  std::map<std::string, int64_t> rows_by_day;
  for (const auto& live : iceberg::live_files(metadata, *metadata.current_snapshot(), *make_local_file_io())) {
    rows_by_day[iceberg::to_display(live.file.partition.at(0),
                                    *metadata.spec().partition_type(metadata.schema())->fields()[0].type)] +=
        live.file.record_count;
    EXPECT_EQ(live.file.sort_order_id, metadata.default_sort_order_id);
  }
  EXPECT_EQ(rows_by_day,
            (std::map<std::string, int64_t>{{"1969-12-31", 1}, {"2024-03-01", 2}, {"2024-03-02", 1}, {"null", 1}}));
}

TEST_F(Archive, SaysOfEachUnitWhereItCameFrom) {
  box_.ingest_lines("logs", "web", {R"({"n":1})", R"({"n":2})"});
  box_.ship_well(sink_);
  const auto table = archive_table(box_.out(), "logs");
  const iceberg::Snapshot& snapshot = *table.metadata->current_snapshot();
  Cache cache(box_.config);
  const std::string stream = cache.sequence().cache_id() + "/logs/source=web";
  const Open open = cache.sequence().opens().at(0);
  EXPECT_EQ(snapshot.operation(), "append");
  EXPECT_EQ(snapshot.summary.at("firn.stream"), stream);
  EXPECT_EQ(snapshot.summary.at("firn.open"), open.open_id);
  EXPECT_EQ(snapshot.summary.at("firn.since"), std::to_string(open.from_seq - 1));
  EXPECT_EQ(snapshot.summary.at("firn.until"), std::to_string(open.from_seq + 1));
  const Json offset = Json::parse(table.metadata->property("firn.offset." + stream, ""));
  EXPECT_EQ(offset["opens"], (Json{{open.open_id, std::to_string(open.from_seq + 1)}}));
  EXPECT_EQ(offset["snapshot"], snapshot.snapshot_id);
  EXPECT_EQ(offset["sequence"], snapshot.sequence_number);
}

TEST_F(Archive, TakesAllPartitionsOfADatasetIntoOneTable) {
  box_.ingest_lines("logs", "web", {R"({"n":1})"});
  box_.ingest_lines("logs", "db", {R"({"n":2,"only_db":true})"});
  box_.ship_well(sink_);
  EXPECT_EQ(archive_rows(box_.out(), "logs"), (Lines{R"({"n":1})", R"({"n":2,"only_db":true})"}));
}

TEST_F(Archive, GrowsColumnsInACommitOfItsOwn) {
  box_.ingest_lines("logs", "web", {R"({"n":1})"});
  box_.ship_well(sink_);
  box_.ingest_lines("logs", "web", {R"({"n":2,"nested":{"a":1,"list":[{"b":2}]},"text":"x"})"});
  box_.ship_well(sink_);
  box_.ingest_lines("logs", "web", {R"({"n":3,"nested":{"c":"new"}})"});
  box_.ship_well(sink_);
  const auto table = archive_table(box_.out(), "logs");
  EXPECT_EQ(table.metadata->snapshots.size(), 3u);
  EXPECT_EQ(table.version, 6) << "made, three units, and the columns of two of them";
  EXPECT_EQ(archive_rows(box_.out(), "logs"),
            (Lines{R"({"n":1})", R"({"n":2,"nested":{"a":1,"list":[{"b":2}]},"text":"x"})",
                   R"({"n":3,"nested":{"c":"new"}})"}));
}

TEST_F(Archive, KeepsAWiderColumnThanARowHas) {
  const auto declare = [&](const char* type) {
    box_.declare("logs").schema = iceberg::Schema({{1, "n", false, iceberg::parse_primitive_type(type)}});
  };
  declare("long");
  box_.ingest_lines("logs", "wide", {R"({"n":5000000000})"});
  box_.ship_well(sink_);
  fs::remove_all(box_.config.cache_root);  // another cache, older, exports to the same table
  declare("int");
  box_.ingest_lines("logs", "narrow", {R"({"n":5})"});
  box_.ship_well(sink_);
  EXPECT_EQ(archive_rows(box_.out(), "logs"), (Lines{R"({"n":5000000000})", R"({"n":5})"}));
}

TEST_F(Archive, SaysWhoseColumnIsOfAnotherTypeAndAddsItsOwnOnceThatIsRenamed) {
  const Lines texts = {R"({"n":"one","in":{"list":[1]}})"};
  box_.ingest_lines("logs", "texts", texts);
  box_.ship_well(sink_);
  fs::remove_all(box_.config.cache_root);  // another cache exports to the same table
  const Lines numbers = {R"({"n":1,"later":{"a":1}})"};
  box_.ingest_lines("logs", "numbers", numbers);
  const PartitionRun run = ship();
  EXPECT_EQ(run.error_kind, "schema_mismatch");
  const std::string location = box_.out() + "/hyp/logs";
  for (const std::string& part : {location, std::string("column n is string, dataset logs has it as long"),
                                  "firn alter rename-column " + location + " COLUMN NEW_NAME", std::string("sink out"),
                                  std::string("a reset does not help")})
    EXPECT_NE(run.error.find(part), std::string::npos) << part << " is not in: " << run.error;
  EXPECT_EQ(archive_rows(box_.out(), "logs"), sorted_rows(texts));

  const auto table = iceberg::open_filesystem_table(make_local_file_io(), location);
  iceberg::commit_metadata(*table, [](iceberg::TableMetadata& next) {
    iceberg::SchemaUpdate update(next.schema(), next.last_column_id, next.format_version);
    update.rename_column("n", "text");
    update.add_column({.name = "later", .type = iceberg::parse_primitive_type("unknown")});
    const iceberg::EvolvedSchema changed = update.finish();
    iceberg::set_current_schema(next, changed.schema, changed.last_column_id);
    return true;
  });
  EXPECT_EQ(box_.ship_well(sink_).rows(), 1);
  EXPECT_EQ(archive_rows(box_.out(), "logs"), sorted_rows(numbers + Lines{R"({"text":"one","in":{"list":[1]}})"}));

  fs::remove_all(box_.config.cache_root);
  box_.ingest_lines("logs", "others", {R"({"in":{"list":["x"]}})"});
  EXPECT_NE(ship().error.find("column in.list.element is long, dataset logs has it as string"), std::string::npos)
      << ship().error;
}

TEST_F(Archive, RefusesATimestampThatCameLater) {
  box_.ingest_lines("logs", "web", {kDays[0]});
  box_.ship_well(sink_);
  declare_sessions(box_);
  box_.ingest_lines("logs", "web", {R"({"session_id":"q"})"});
  // The column was inferred as a string before anyone said that it is a time, so it has no days to derive.
  EXPECT_EQ(ship().error, "");

  SinkBox box;
  const SinkConfig sink = make_sink(SinkKind::iceberg, box.out());
  box.declare("logs").schema = iceberg::Schema({{1, "at", false, iceberg::parse_primitive_type("timestamptz")}});
  box.ingest_lines("logs", "web", {R"({"at":"2024-03-01T00:00:00Z"})"});
  box.ship_well(sink);
  box.config.datasets["logs"].primary_timestamp_column = "at";
  box.ingest_lines("logs", "web", {R"({"at":"2024-03-02T00:00:00Z"})"});
  const PartitionRun run = box.ship(sink).partitions.at(0);
  EXPECT_EQ(run.error_kind, "iceberg_partition_spec_drift");
  EXPECT_NE(run.error.find("day(at)"), std::string::npos) << run.error;
  EXPECT_EQ(archive_rows(box.out(), "logs").size(), 1u);
}

TEST_F(Archive, RefusesATimestampThatIsGoneAndSaysSoInItsSpan) {
  DatasetConfig& dataset = declare_sessions(box_);
  box_.ingest_lines("logs", "web", kDays);
  const std::string trace = box_.folder / "trace";
  set_trace_file(trace);
  box_.ship_well(sink_);
  dataset.primary_timestamp_column = "";
  dataset.cache_partitioning = {};  // of the sort order: no drift by itself
  box_.ingest_lines("logs", "web", {R"({"session_id":"q"})"});
  EXPECT_EQ(ship().error_kind, "iceberg_partition_spec_drift");
  EXPECT_EQ(archive_rows(box_.out(), "logs").size(), kDays.size());
  dataset.primary_timestamp_column = "at";
  EXPECT_EQ(ship().error, "") << "a sort order of its own is no drift";
  set_trace_file("");

  const std::string spans = make_local_file_io()->read(trace);
  EXPECT_NE(spans.find("iceberg.table.create"), std::string::npos);
  EXPECT_NE(spans.find("iceberg.snapshot.commit"), std::string::npos);
  const auto has = [&](const std::string& key, const std::string& value) {
    return spans.find(fmt::format("\"key\":\"{}\",\"value\":{{\"stringValue\":\"{}\"}}", key, value)) !=
           std::string::npos;
  };
  EXPECT_TRUE(has("hyp_partition_spec", "day(at)")) << spans;
  EXPECT_TRUE(has("hyp_sort_order", "session_id,cwd"));
  EXPECT_TRUE(has("error_kind", "iceberg_partition_spec_drift"));
}

TEST_F(Archive, NeverGuessesAboutAnOpenThatItForgot) {
  box_.ingest_lines("logs", "web", {R"({"n":1})"});
  box_.ship_well(sink_);
  // As 64 later opens leave the property.
  const auto operations = iceberg::open_filesystem_table(make_local_file_io(), box_.out() + "/hyp/logs");
  iceberg::commit_metadata(*operations, [](iceberg::TableMetadata& next) {
    for (auto& [key, value] : next.properties) {
      if (!key.starts_with("firn.offset.")) continue;
      Json offset = Json::parse(value);
      offset["opens"] = Json::object();
      offset["forgot"] = "1";
      value = offset.dump();
    }
    return true;
  });
  fs::remove_all(box_.config.state_dir);
  EXPECT_EQ(ship().error_kind, "destination_forgot");
  EXPECT_EQ(archive_rows(box_.out(), "logs").size(), 1u);
}

TEST_F(Archive, LeavesNoFileOfAUnitThatAnotherCopyBroughtFirst) {
  box_.ingest_lines("logs", "web", {R"({"n":1})", R"({"n":2})"});
  const std::string state = box_.config.state_dir;
  box_.ship_well(sink_);
  fs::remove_all(state);
  const auto before = files_below(box_.out());
  EXPECT_EQ(box_.ship_well(sink_).rows(), 0);
  EXPECT_EQ(files_below(box_.out()), before);
}

}  // namespace
}  // namespace firn::hyp
