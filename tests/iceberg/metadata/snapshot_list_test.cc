// Versions of a table's metadata share the snapshots they have in common, and the text made of them.
#include <future>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/json.h"
#include "iceberg/metadata/table_metadata.h"

namespace firn::iceberg {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

Snapshot snapshot_numbered(int64_t id) {
  Snapshot result;
  result.snapshot_id = id;
  if (id > 1) result.parent_snapshot_id = id - 1;
  result.sequence_number = id;
  result.timestamp_ms = 1000 * id;
  result.manifest_list = "/t/metadata/snap-" + std::to_string(id) + ".avro";
  result.summary = {{"operation", "append"}, {"said", "\"été\"\n"}};
  result.schema_id = 0;
  result.unknown_members = {{"of-another-writer", {1, nullptr, "x"}}};
  return result;
}

TableMetadata table_of(int64_t num_snapshots) {
  const Schema schema({{.id = 1, .name = "id", .type = Type::primitive(TypeId::long_)}});
  TableMetadata metadata = new_table_metadata("/t", schema, {}, {}, {{"owner", "a \"b\""}}, 0);
  metadata.unknown_members = {{"later", {{"deep", true}}}, {"location", "not ours to say"}};
  for (int64_t id = 1; id <= num_snapshots; ++id) {
    add_snapshot(metadata, snapshot_numbered(id), "main");
    metadata.metadata_log.push_back({1000 * id, "/t/metadata/\"v\\" + std::to_string(id)});
  }
  return metadata;
}

std::vector<int64_t> ids(const SnapshotList& snapshots) {
  std::vector<int64_t> result;
  for (const Snapshot& snapshot : snapshots) result.push_back(snapshot.snapshot_id);
  return result;
}

TEST(SnapshotsOfAVersion, AreSharedWithTheVersionMadeFromIt) {
  const TableMetadata base = table_of(3);
  const std::string before = serialize_table_metadata(base);
  TableMetadata next = base;
  add_snapshot(next, snapshot_numbered(4), "main");
  EXPECT_THAT(ids(base.snapshots), ElementsAre(1, 2, 3));
  EXPECT_THAT(ids(next.snapshots), ElementsAre(1, 2, 3, 4));
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(&next.snapshots[i], &base.snapshots[i]);
    EXPECT_EQ(&next.snapshots.json(i), &base.snapshots.json(i)) << "its text is made once";
  }
  EXPECT_EQ(serialize_table_metadata(base), before);
}

TEST(SnapshotsOfAVersion, AreWrittenAsTheyWouldBeAfresh) {
  TableMetadata metadata = table_of(2);
  serialize_table_metadata(metadata);
  add_snapshot(metadata, snapshot_numbered(3), "main");
  const std::string text = serialize_table_metadata(metadata);  // two texts kept, one made now
  EXPECT_EQ(serialize_table_metadata(parse_table_metadata(text, "again")), text);
  EXPECT_EQ(Json::parse(text).dump(), text) << "escapes and spaces as of any JSON written here";
  const Json third = Json::parse(text)["snapshots"][2];
  EXPECT_EQ(third.dump(), metadata.snapshots.json(2));
  EXPECT_EQ(third["summary"]["said"], "\"été\"\n");
  EXPECT_EQ(third["of-another-writer"], Json::parse(R"([1,null,"x"])"));
}

TEST(SnapshotsOfAVersion, LeaveTheOrderOfTheMembersAsJavaHasIt) {
  std::vector<std::string> members;
  const Json json = Json::parse(serialize_table_metadata(table_of(1)));
  for (const auto& member : json.items()) members.push_back(member.key());
  EXPECT_THAT(members, ElementsAre("format-version", "table-uuid", "location", "last-sequence-number",
                                   "last-updated-ms", "last-column-id", "current-schema-id", "schemas",
                                   "default-spec-id", "partition-specs", "last-partition-id", "default-sort-order-id",
                                   "sort-orders", "properties", "current-snapshot-id", "refs", "snapshots",
                                   "statistics", "partition-statistics", "snapshot-log", "metadata-log", "later"));
  EXPECT_EQ(json["location"], "/t") << "an unknown member does not stand in for one that is known";
  EXPECT_EQ(json["snapshot-log"].dump(), R"([{"timestamp-ms":1000,"snapshot-id":1}])");
  EXPECT_EQ(json["metadata-log"].dump(), R"([{"timestamp-ms":1000,"metadata-file":"/t/metadata/\"v\\1"}])");
}

TEST(SnapshotsOfAVersion, AreReplacedInThatVersionAlone) {
  const TableMetadata base = table_of(2);
  const std::string before = serialize_table_metadata(base);
  TableMetadata next = base;
  Snapshot edited = next.snapshots[0];
  edited.summary["operation"] = "replace";
  next.snapshots.replace(0, edited);
  EXPECT_THAT(serialize_table_metadata(next), HasSubstr("replace"));
  EXPECT_EQ(next.find_snapshot(1)->operation(), "replace");
  EXPECT_EQ(base.find_snapshot(1)->operation(), "append");
  EXPECT_EQ(serialize_table_metadata(base), before);
}

TEST(SnapshotsOfAVersion, AreErasedFromThatVersionAlone) {
  TableMetadata next;
  const Snapshot* second = nullptr;
  {
    const TableMetadata base = table_of(4);
    second = &base.snapshots[1];
    next = base;
    EXPECT_EQ(next.snapshots.erase_if([](const Snapshot& s) { return s.snapshot_id % 2 == 1; }), 2u);
    EXPECT_EQ(next.snapshots.erase_if([](const Snapshot&) { return false; }), 0u);
    EXPECT_THAT(ids(base.snapshots), ElementsAre(1, 2, 3, 4));
  }
  EXPECT_THAT(ids(next.snapshots), ElementsAre(2, 4));
  EXPECT_EQ(next.find_snapshot(2), second) << "it outlives the version it came from";
  EXPECT_EQ(next.find_snapshot(3), nullptr);
  EXPECT_EQ(next.snapshots.back().snapshot_id, 4);
  EXPECT_EQ(next.snapshots.rbegin()->snapshot_id, 4);
  EXPECT_THAT(serialize_table_metadata(next), Not(HasSubstr("snap-3.avro")));
}

TEST(SnapshotsOfAVersion, MayBeWrittenByManyThreadsAtOnce) {
  const TableMetadata base = table_of(50);
  const auto write = [&base] {
    TableMetadata next = base;
    return serialize_table_metadata(next);
  };
  std::vector<std::future<std::string>> texts;
  for (int i = 0; i < 4; ++i) texts.push_back(std::async(std::launch::async, write));
  const std::string expected = serialize_table_metadata(base);
  for (std::future<std::string>& text : texts) EXPECT_EQ(text.get(), expected);
}

}  // namespace
}  // namespace firn::iceberg
