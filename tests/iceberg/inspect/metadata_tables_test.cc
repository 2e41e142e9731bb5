// Metadata tables: columns as Java Iceberg names and types them, rows as the table's history makes them.
#include <chrono>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "iceberg/conformance_tables.h"
#include "iceberg/inspect/metadata_tables.h"
#include "iceberg/maintain/real_table.h"
#include "iceberg/metadata/changes.h"

namespace firn::iceberg {
namespace {

using ::testing::HasSubstr;

std::vector<Json> rows_of(const TableMetadata& metadata, const std::shared_ptr<FileIO>& io, const std::string& name,
                          const MetadataTableOptions& options = {}) {
  const auto reader = metadata_table(metadata, io, name, options);
  const Schema schema = from_arrow_schema(*reader->schema());
  std::vector<Json> rows;
  std::shared_ptr<arrow::RecordBatch> batch;
  while (reader->ReadNext(&batch).ok() && batch) {
    EXPECT_TRUE(batch->ValidateFull().ok()) << name << ": " << batch->ValidateFull().ToString();
    EXPECT_TRUE(batch->schema()->Equals(*reader->schema()));
    EXPECT_LE(batch->num_rows(), options.batch_rows_max);
    EXPECT_GT(batch->num_rows(), 0);
    for (int64_t row = 0; row < batch->num_rows(); ++row) {
      std::string text;
      append_row_json(*batch, schema, row, text);
      rows.push_back(Json::parse(text));
    }
  }
  return rows;
}

std::vector<Json> rows_of(RealTable& table, const std::string& name, const MetadataTableOptions& options = {}) {
  return rows_of(*table.metadata(), table.io, name, options);
}

std::string columns_of(RealTable& table, const std::string& name) {
  std::string text;
  const auto schema = metadata_table(*table.metadata(), table.io, name)->schema();
  for (const auto& field : schema->fields()) text += (text.empty() ? "" : ", ") + field->name();
  return text;
}

std::string refusal(const std::function<void()>& work) {
  try {
    work();
  } catch (const Error& e) {
    return std::string(to_string(e.kind())) + ": " + e.what();
  }
  return "";
}

TEST(MetadataTables, HaveTheColumnsOfJava) {
  RealTable table({.partition = {{"p"}}});
  EXPECT_EQ(columns_of(table, "snapshots"), "committed_at, snapshot_id, parent_id, operation, manifest_list, summary");
  EXPECT_EQ(columns_of(table, "history"), "made_current_at, snapshot_id, parent_id, is_current_ancestor");
  EXPECT_EQ(columns_of(table, "refs"),
            "name, type, snapshot_id, max_reference_age_in_ms, min_snapshots_to_keep, max_snapshot_age_in_ms");
  EXPECT_EQ(columns_of(table, "metadata_log_entries"),
            "timestamp, file, latest_snapshot_id, latest_schema_id, latest_sequence_number");
  EXPECT_EQ(columns_of(table, "manifests"),
            "content, path, length, partition_spec_id, added_snapshot_id, added_data_files_count, "
            "existing_data_files_count, deleted_data_files_count, added_delete_files_count, "
            "existing_delete_files_count, deleted_delete_files_count, partition_summaries");
  EXPECT_EQ(columns_of(table, "files"),
            "content, file_path, file_format, spec_id, partition, record_count, file_size_in_bytes, column_sizes, "
            "value_counts, null_value_counts, nan_value_counts, lower_bounds, upper_bounds, key_metadata, "
            "split_offsets, equality_ids, sort_order_id, first_row_id, referenced_data_file, content_offset, "
            "content_size_in_bytes, readable_metrics");
  EXPECT_EQ(columns_of(table, "entries"),
            "status, snapshot_id, sequence_number, file_sequence_number, data_file, readable_metrics");
  EXPECT_EQ(columns_of(table, "partitions"),
            "partition, spec_id, record_count, file_count, total_data_file_size_in_bytes, "
            "position_delete_record_count, position_delete_file_count, equality_delete_record_count, "
            "equality_delete_file_count, last_updated_at, last_updated_snapshot_id");
  RealTable flat;
  EXPECT_THAT(columns_of(flat, "files"), ::testing::Not(HasSubstr("partition"))) << "as Java leaves it out";
  EXPECT_THAT(columns_of(flat, "partitions"), ::testing::StartsWith("record_count"));
}

TEST(MetadataTables, OfATableWithoutSnapshotsAreEmpty) {
  RealTable table({.partition = {{"p"}}});
  for (const std::string& name : metadata_table_names()) {
    const size_t rows = rows_of(table, name).size();
    EXPECT_EQ(rows, name == "properties" ? table.metadata()->properties.size() : 0u) << name;
  }
}

TEST(MetadataTables, SnapshotsHistoryAndRefsTellTheHistory) {
  RealTable table;
  const int64_t first = table.append_ids({1, 2});
  const int64_t second = table.append_ids({3});
  table.change([&](TableMetadata& next) {
    set_tag(next, "v1", {.snapshot_id = first, .max_ref_age_ms = 99}, now_ms());
    set_branch(next, "dev", {.snapshot_id = second, .min_snapshots_to_keep = 3, .max_snapshot_age_ms = 7}, now_ms());
    return rollback_to_snapshot(next, first, now_ms());
  });
  const auto snapshots = rows_of(table, "snapshots");
  ASSERT_EQ(snapshots.size(), 2u);
  EXPECT_EQ(snapshots[1]["snapshot_id"], second);
  EXPECT_EQ(snapshots[1]["parent_id"], first);
  EXPECT_EQ(snapshots[1]["operation"], "append");
  EXPECT_EQ(snapshots[0]["parent_id"], nullptr);
  EXPECT_THAT(snapshots[0]["summary"].dump(), HasSubstr(R"(["added-records","2"])"));
  EXPECT_THAT(snapshots[0]["summary"].dump(), ::testing::Not(HasSubstr("operation")));

  const auto history = rows_of(table, "history");
  ASSERT_EQ(history.size(), 3u);
  EXPECT_EQ(history[0]["is_current_ancestor"], true);
  EXPECT_EQ(history[1]["is_current_ancestor"], false) << "rolled back";
  EXPECT_EQ(history[2]["snapshot_id"], first);

  const auto refs = rows_of(table, "refs");
  ASSERT_EQ(refs.size(), 3u);
  EXPECT_EQ(
      refs[0].dump(),
      fmt::format(
          R"({{"name":"dev","type":"BRANCH","snapshot_id":{},"max_reference_age_in_ms":null,"min_snapshots_to_keep":3,"max_snapshot_age_in_ms":7}})",
          second));
  EXPECT_EQ(refs[1]["name"], "main");
  EXPECT_EQ(refs[2]["type"], "TAG");
  EXPECT_EQ(refs[2]["max_reference_age_in_ms"], 99);
}

TEST(MetadataTables, TheMetadataLogEndsWithTheFileItself) {
  RealTable table;
  std::this_thread::sleep_for(std::chrono::milliseconds(2));  // else the table is as old as its snapshot
  const int64_t first = table.append_ids({1});
  const LoadedTable head = table.ops().load();
  const auto rows = rows_of(table, "metadata_log_entries", {.metadata_path = head.metadata_path});
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_THAT(rows[0]["file"].get<std::string>(), HasSubstr("v1.metadata.json"));
  EXPECT_EQ(rows[0]["latest_snapshot_id"], nullptr);
  EXPECT_EQ(rows[1]["file"], head.metadata_path);
  EXPECT_EQ(rows[1]["latest_snapshot_id"], first);
  EXPECT_EQ(rows[1]["latest_schema_id"], 0);
  EXPECT_EQ(rows[1]["latest_sequence_number"], 1);
}

TEST(MetadataTables, ManifestsHaveCountsByContentAndBoundsAsText) {
  RealTable table({.partition = {{"p"}}});
  table.append(R"([{"id": 1, "p": "a"}, {"id": 2, "p": "c"}, {"id": 3, "p": null}])");
  table.delete_ids({1});
  const auto rows = rows_of(table, "manifests");
  ASSERT_EQ(rows.size(), 2u);
  const Json& data = rows[0]["content"] == 0 ? rows[0] : rows[1];
  const Json& deletes = rows[0]["content"] == 0 ? rows[1] : rows[0];
  EXPECT_EQ(data["added_data_files_count"], 3);
  EXPECT_EQ(data["added_delete_files_count"], 0);
  EXPECT_EQ(data["partition_summaries"].dump(),
            R"([{"contains_null":true,"contains_nan":false,"lower_bound":"a","upper_bound":"c"}])");
  EXPECT_EQ(deletes["added_delete_files_count"], 1);
  EXPECT_EQ(deletes["added_data_files_count"], 0);
  EXPECT_EQ(rows_of(table, "all_manifests").size(), 3u) << "a row for each snapshot that lists one";
}

TEST(MetadataTables, FilesHaveReadableMetrics) {
  RealTable table({.partition = {{"p"}}});
  table.append(R"([{"id": 1, "p": "a", "text": null}, {"id": 7, "p": "a", "text": "x"}])");
  const auto rows = rows_of(table, "files");
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0]["file_format"], "PARQUET");
  EXPECT_EQ(rows[0]["partition"].dump(), R"({"p":"a"})");
  EXPECT_EQ(rows[0]["record_count"], 2);
  EXPECT_EQ(rows[0]["null_value_counts"].dump(), "[[1,0],[2,0],[3,1]]");
  const Json& metrics = rows[0]["readable_metrics"];
  EXPECT_EQ(metrics["id"]["lower_bound"], 1);
  EXPECT_EQ(metrics["id"]["upper_bound"], 7);
  EXPECT_EQ(metrics["text"]["null_value_count"], 1);
  EXPECT_EQ(metrics["text"]["value_count"], 2);
  EXPECT_EQ(metrics["text"]["upper_bound"], "x");
}

TEST(MetadataTables, FilesAreOfTheSnapshotAskedFor) {
  RealTable table({.version = 3});
  const int64_t first = table.append_ids({1, 2});
  table.append_ids({3});
  table.delete_positions({{table.data_files()[0].file_path, {0}}});
  EXPECT_EQ(rows_of(table, "files").size(), 3u);
  EXPECT_EQ(rows_of(table, "data_files").size(), 2u);
  const auto deletes = rows_of(table, "delete_files");
  ASSERT_EQ(deletes.size(), 1u);
  EXPECT_EQ(deletes[0]["content"], 1);
  EXPECT_EQ(deletes[0]["file_format"], "PUFFIN");
  EXPECT_EQ(deletes[0]["referenced_data_file"], table.data_files()[0].file_path);
  EXPECT_EQ(rows_of(table, "files", {.snapshot_id = first}).size(), 1u);
  EXPECT_EQ(rows_of(table, "files", {.ref = "main"}).size(), 3u);
  EXPECT_THAT(refusal([&] { rows_of(table, "files", {.snapshot_id = 1}); }), HasSubstr("not_found"));
  EXPECT_THAT(refusal([&] { rows_of(table, "snapshots", {.snapshot_id = first}); }), HasSubstr("invalid_argument"));
  EXPECT_THAT(refusal([&] { rows_of(table, "nothing"); }), HasSubstr("there are: snapshots, history"));
}

TEST(MetadataTables, AllTablesHaveEachManifestOnceEntriesHaveTheDeletedToo) {
  RealTable table;
  table.append_ids({1});
  table.append_ids({2});
  table.commit("delete", {}, {table.data_files()[0]});
  EXPECT_EQ(rows_of(table, "files").size(), 1u);
  EXPECT_EQ(rows_of(table, "all_data_files").size(), 2u);
  EXPECT_EQ(rows_of(table, "all_delete_files").size(), 0u);
  const auto entries = rows_of(table, "entries");
  std::multiset<int> statuses;
  for (const Json& entry : entries) statuses.insert(entry["status"].get<int>());
  EXPECT_EQ(statuses.count(2), 1u);
  EXPECT_EQ(statuses.size(), 2u);
  for (const Json& entry : entries) EXPECT_EQ(entry["data_file"]["record_count"], 1);
  EXPECT_EQ(rows_of(table, "all_entries").size(), 3u);
}

TEST(MetadataTables, PartitionsAddUp) {
  RealTable table({.partition = {{"p"}}});
  table.append_ids({1, 2}, "a");
  table.append_ids({3}, "b");
  const int64_t third = table.append_ids({4, 5, 6}, "a");
  const int64_t deleted = table.delete_ids({3}, "b");
  const auto rows = rows_of(table, "partitions");
  ASSERT_EQ(rows.size(), 2u);
  const Json& a = rows[0]["partition"]["p"] == "a" ? rows[0] : rows[1];
  const Json& b = rows[0]["partition"]["p"] == "a" ? rows[1] : rows[0];
  EXPECT_EQ(a["record_count"], 5);
  EXPECT_EQ(a["file_count"], 2);
  EXPECT_EQ(a["last_updated_snapshot_id"], third);
  EXPECT_EQ(b["record_count"], 1);
  EXPECT_EQ(b["equality_delete_file_count"], 1);
  EXPECT_EQ(b["equality_delete_record_count"], 1);
  EXPECT_EQ(b["position_delete_file_count"], 0);
  EXPECT_EQ(b["last_updated_snapshot_id"], deleted);
}

TEST(MetadataTables, PartitionsOfSeveralSpecsHaveAllTheirFields) {
  RealTable table({.partition = {{"p"}}});
  table.append_ids({1}, "a");
  table.change([](TableMetadata& next) {
    return update_spec(next, {.remove = {"p"}, .add = {{.column = "id", .transform = "bucket[4]"}}});
  });
  table.append_ids({2}, "a");
  const auto rows = rows_of(table, "partitions");
  ASSERT_EQ(rows.size(), 2u);
  std::map<int, std::string> by_spec;
  for (const Json& row : rows) by_spec[row["spec_id"].get<int>()] = row["partition"].dump();
  EXPECT_EQ(by_spec[0], R"({"p":"a","id_bucket_4":null})");
  EXPECT_THAT(by_spec[1], HasSubstr(R"({"p":null,"id_bucket_4":)"));
}

TEST(MetadataTables, ComeInBatchesOfTheSizeAskedFor) {
  RealTable table;
  for (int i = 0; i < 7; ++i) table.append_ids({i});
  EXPECT_EQ(rows_of(table, "files", {.batch_rows_max = 2}).size(), 7u);
  EXPECT_EQ(rows_of(table, "snapshots", {.batch_rows_max = 3}).size(), 7u);
}

// Every metadata table of every table of other engines can be read whole; they have as many live data files as
// expected.
TEST(MetadataTables, OfOtherEnginesTables) {
  const Json manifest = Json::parse(read_whole(conformance_root() / "manifest.json"));
  int num_tables = 0;
  for (const Json& entry : manifest["tables"]) {
    const auto folder = conformance_root() / entry["table"].get<std::string>();
    const auto path = folder / entry["metadata_file"].get<std::string>();
    SCOPED_TRACE(path.string());
    const TableMetadata metadata = parse_table_metadata(read_whole(path), path.string());
    const auto io =
        make_relocated_file_io(make_local_file_io(), "/warehouse/" + folder.filename().string(), folder.string());
    for (const std::string& name : metadata_table_names()) EXPECT_NO_THROW(rows_of(metadata, io, name)) << name;
    EXPECT_EQ(rows_of(metadata, io, "snapshots").size(), metadata.snapshots.size());
    EXPECT_EQ(rows_of(metadata, io, "data_files").size(), entry["data_files"].get<size_t>());
    ++num_tables;
  }
  EXPECT_GT(num_tables, 40);
}

}  // namespace
}  // namespace firn::iceberg
