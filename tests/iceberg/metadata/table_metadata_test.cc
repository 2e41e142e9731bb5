#include "iceberg/metadata/table_metadata.h"

#include <gtest/gtest.h>
#include <zlib.h>

#include <regex>

#include "base/error.h"
#include "iceberg/conformance_tables.h"

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

std::string gzipped(const std::string& text) {
  z_stream stream{};
  deflateInit2(&stream, 6, Z_DEFLATED, MAX_WBITS + 16, 8, Z_DEFAULT_STRATEGY);
  std::string out(text.size() + 100, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  EXPECT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

// A v1 table as the first writers made it: none of the members that came later.
constexpr const char* kOldV1 = R"({"format-version": 1, "location": "/t/", "last-updated-ms": 5, "last-column-id": 2,
  "schema": {"type": "struct", "fields": [{"id": 1, "name": "x", "required": true, "type": "long"},
                                          {"id": 2, "name": "y", "required": false, "type": "date"}]},
  "partition-spec": [{"name": "y_month", "transform": "month", "source-id": 2},
                     {"name": "x_bucket", "transform": "bucket[8]", "source-id": 1}],
  "properties": {"owner": "me"}, "current-snapshot-id": 9,
  "snapshots": [{"snapshot-id": 9, "timestamp-ms": 5, "manifests": ["/t/m.avro"]}], "unheard-of": {"a": [1]}})";

Json v2_json() {
  return parse_json(R"({"format-version": 2, "table-uuid": "u", "location": "/t", "last-sequence-number": 3,
    "last-updated-ms": 7, "last-column-id": 1, "current-schema-id": 0,
    "schemas": [{"type": "struct", "schema-id": 0, "fields": [{"id": 1, "name": "x", "required": false, "type": "int"}]}],
    "default-spec-id": 0, "partition-specs": [{"spec-id": 0, "fields": []}], "last-partition-id": 999,
    "default-sort-order-id": 0, "sort-orders": [{"order-id": 0, "fields": []}], "current-snapshot-id": 4,
    "snapshots": [{"snapshot-id": 4, "sequence-number": 3, "timestamp-ms": 7, "manifest-list": "/l",
                   "summary": {"operation": "append"}}]})",
                    "test");
}

TableMetadata parse(const Json& json) { return parse_table_metadata(json.dump(), "test"); }

TEST(ParseMetadata, OldV1TablesGetWhatTheyLack) {
  const TableMetadata metadata = parse_table_metadata(kOldV1, "test");
  EXPECT_EQ(metadata.format_version, 1);
  EXPECT_EQ(metadata.table_uuid, "");
  EXPECT_EQ(metadata.location, "/t");
  EXPECT_EQ(metadata.last_sequence_number, 0);
  EXPECT_EQ(metadata.schema().find_field("y")->type->id(), TypeId::date);
  ASSERT_EQ(metadata.spec().fields.size(), 2u);
  // Appendix E: partition field ids of v1 count up from 1000.
  EXPECT_EQ(metadata.spec().fields[0].field_id, 1000);
  EXPECT_EQ(metadata.spec().fields[1].field_id, 1001);
  EXPECT_EQ(metadata.last_partition_id, 1001);
  EXPECT_TRUE(metadata.sort_order().fields.empty());
  ASSERT_NE(metadata.current_snapshot(), nullptr);
  EXPECT_EQ(metadata.current_snapshot()->sequence_number, 0);
  EXPECT_EQ(metadata.current_snapshot()->manifests, std::vector<std::string>{"/t/m.avro"});
  EXPECT_EQ(metadata.current_snapshot()->operation(), "");
  EXPECT_EQ(metadata.refs.at("main").snapshot_id, 9);
  EXPECT_EQ(metadata.property("owner", ""), "me");
  EXPECT_EQ(kind_of([&] { serialize_table_metadata(metadata); }), ErrorKind::unsupported);
}

TEST(ParseMetadata, GzipIsToldByItsBytes) {
  const std::string text = v2_json().dump();
  EXPECT_EQ(parse_table_metadata(gzipped(text), "plain.metadata.json").last_sequence_number, 3);
  const std::string cut = gzipped(text).substr(0, 60);
  EXPECT_EQ(kind_of([&] { parse_table_metadata(cut, "test"); }), ErrorKind::corrupt);
}

TEST(ParseMetadata, MinusOneNullAndAbsenceAllMeanNoSnapshot) {
  Json minus_one = v2_json(), null = v2_json(), absent = v2_json();
  minus_one["current-snapshot-id"] = -1;
  null["current-snapshot-id"] = nullptr;
  absent.erase("current-snapshot-id");
  for (const Json& json : {minus_one, null, absent}) {
    const TableMetadata metadata = parse(json);
    EXPECT_FALSE(metadata.current_snapshot_id.has_value());
    EXPECT_EQ(metadata.current_snapshot(), nullptr);
    EXPECT_TRUE(metadata.refs.empty());
  }
}

TEST(ParseMetadata, MainIsTheCurrentSnapshot) {
  EXPECT_EQ(parse(v2_json()).refs.at("main").snapshot_id, 4);
  Json json = v2_json();
  json["refs"] = {{"main", {{"snapshot-id", 5}, {"type", "branch"}}}};
  EXPECT_EQ(kind_of([&] { parse(json); }), ErrorKind::corrupt);
  json["refs"] = {{"old", {{"snapshot-id", 4}, {"type", "tag"}, {"max-ref-age-ms", 10}}}};
  const TableMetadata metadata = parse(json);
  EXPECT_EQ(metadata.refs.at("main").snapshot_id, 4);
  EXPECT_FALSE(metadata.refs.at("old").is_branch);
  EXPECT_EQ(metadata.refs.at("old").max_ref_age_ms, 10);
}

TEST(ParseMetadata, WhatDanglesOrIsMissingIsCorrupt) {
  for (const auto& [key, value] : std::vector<std::pair<std::string, Json>>{{"current-schema-id", 7},
                                                                            {"default-spec-id", 7},
                                                                            {"default-sort-order-id", 7},
                                                                            {"current-snapshot-id", 7},
                                                                            {"table-uuid", nullptr},
                                                                            {"location", 3},
                                                                            {"last-sequence-number", "x"},
                                                                            {"schemas", nullptr},
                                                                            {"snapshots", Json::object()},
                                                                            {"format-version", 0}}) {
    Json json = v2_json();
    json[key] = value;
    EXPECT_EQ(kind_of([&] { parse(json); }), ErrorKind::corrupt) << key;
  }
  Json json = v2_json();
  json["format-version"] = 4;
  EXPECT_EQ(kind_of([&] { parse(json); }), ErrorKind::unsupported);
  EXPECT_EQ(kind_of([&] { parse_table_metadata("", "test"); }), ErrorKind::corrupt);
}

TEST(ParseMetadata, V3WithoutNextRowIdTakesItFromItsSnapshots) {
  Json json = v2_json();
  json["format-version"] = 3;
  EXPECT_EQ(parse(json).next_row_id, 0);
  json["snapshots"][0]["first-row-id"] = 10;
  json["snapshots"][0]["added-rows"] = 5;
  EXPECT_EQ(parse(json).next_row_id, 15);
  json["next-row-id"] = 20;
  EXPECT_EQ(parse(json).next_row_id, 20);
}

TEST(Properties, AreTypedOrRefused) {
  Json json = v2_json();
  json["properties"] = {{"n", "12"}, {"bad", "12x"}, {"yes", "TRUE"}, {"no", "1"}};
  const TableMetadata metadata = parse(json);
  EXPECT_EQ(metadata.int_property("n", 1), 12);
  EXPECT_EQ(metadata.int_property("other", 1), 1);
  EXPECT_EQ(kind_of([&] { metadata.int_property("bad", 1); }), ErrorKind::invalid_argument);
  EXPECT_TRUE(metadata.bool_property("yes", false));
  EXPECT_FALSE(metadata.bool_property("no", true));
  EXPECT_TRUE(metadata.bool_property("other", true));
}

void lower_defaults(nlohmann::json& json) {
  if (json.is_object()) {
    for (const char* key : {"initial-default", "write-default"}) {
      if (json.contains(key) && json[key].is_string()) {
        std::string text = json[key];
        for (char& c : text) c = static_cast<char>(std::tolower(c));
        json[key] = text;
      }
    }
  }
  if (json.is_structured())
    for (auto& child : json) lower_defaults(child);
}

// Metadata without what may differ: the order of members, the space in Java's decimals, its upper-case hex in defaults,
// and the sequence number 0 of snapshots from v1, which Java leaves out and the specification requires.
nlohmann::json comparable(const std::string& text) {
  auto json =
      nlohmann::json::parse(std::regex_replace(text, std::regex(R"(decimal\((\d+), (\d+)\))"), "decimal($1,$2)"));
  lower_defaults(json);
  for (auto& snapshot : json["snapshots"])
    if (snapshot.value("sequence-number", 0) == 0) snapshot.erase("sequence-number");
  return json;
}

TEST(SerializeMetadata, WhatJavaWroteComesBackAsTheSameJson) {
  int files = 0;
  for (const auto& table : table_folders()) {
    for (const auto& path : metadata_files(table)) {
      SCOPED_TRACE(path.string());
      const std::string bytes = read_whole(path);
      const TableMetadata metadata = parse_table_metadata(bytes, path.string());
      ++files;
      if (metadata.format_version == 1) continue;
      const std::string written = serialize_table_metadata(metadata);
      const TableMetadata again = parse_table_metadata(written, "again");
      EXPECT_EQ(serialize_table_metadata(again), written);
      if (bytes[0] != '{') continue;
      EXPECT_EQ(nlohmann::json::diff(comparable(bytes), comparable(written)).dump(), "[]");
    }
  }
  EXPECT_GE(files, 8);
}

TEST(ParseMetadata, ConformanceTablesHaveTheCountersThatJavaReports) {
  int tables = 0;
  for (const auto& table : table_folders()) {
    SCOPED_TRACE(table.string());
    const Json expected = parse_json(read_whole(table / "expected.json"), "expected.json");
    const TableMetadata metadata =
        parse_table_metadata(read_whole(table / expected.at("metadata_file").get<std::string>()), "metadata");
    ++tables;
    EXPECT_EQ(metadata.format_version, expected.at("format_version"));
    EXPECT_EQ(metadata.table_uuid, expected.at("table_uuid").get<std::string>());
    EXPECT_EQ(metadata.last_sequence_number, expected.at("last_sequence_number"));
    if (expected.at("current_snapshot_id").is_null()) {
      EXPECT_EQ(metadata.current_snapshot(), nullptr);
    } else {
      EXPECT_EQ(metadata.current_snapshot_id, expected.at("current_snapshot_id").get<int64_t>());
    }
    const Json* next = find_member(expected, "next_row_id");
    EXPECT_EQ(metadata.next_row_id, next == nullptr ? 0 : next->get<int64_t>());
  }
  EXPECT_GE(tables, 40);
}

}  // namespace
}  // namespace firn::iceberg
