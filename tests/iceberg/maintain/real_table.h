// Tables with real data files, changed through firn's own writers: for tests of maintenance. In memory, or on disk.
#pragma once

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include <arrow/api.h>
#include <arrow/json/from_string.h>
#include <gtest/gtest.h>

#include "base/clock.h"
#include "iceberg/commit/commit.h"
#include "iceberg/maintain/maintain.h"
#include "iceberg/manifest/file_identity.h"
#include "iceberg/metadata/changes.h"
#include "iceberg/parquet/arrow_schema.h"
#include "iceberg/scan/row_json.h"
#include "iceberg/scan/scan.h"
#include "iceberg/write/append_writer.h"
#include "iceberg/write/delete_writer.h"
#include "support/fake_store.h"

namespace firn::iceberg {

using Lines = std::vector<std::string>;
using Properties = std::map<std::string, std::string>;

inline Schema real_schema() {
  return Schema({Field{.id = 1, .name = "id", .required = false, .type = Type::primitive(TypeId::long_)},
                 Field{.id = 2, .name = "p", .required = false, .type = Type::primitive(TypeId::string)},
                 Field{.id = 3, .name = "text", .required = false, .type = Type::primitive(TypeId::string)}});
}

struct RealTableOptions {
  int version = 2;
  std::vector<PartitionDeclaration> partition;
  SortOrder order;
  Properties properties;
  std::shared_ptr<FileIO> io;  // nullptr: a store in memory
  std::string location = "mem://w/t";
};

class RealTable {
 public:
  explicit RealTable(const RealTableOptions& options = {})
      : store(std::make_shared<FakeStore>()), io(options.io ? options.io : store), location(options.location) {
    Properties properties = {{"commit.retry.min-wait-ms", "1"},
                             {"commit.retry.max-wait-ms", "5"},
                             {"commit.status-check.min-wait-ms", "1"},
                             {"commit.status-check.max-wait-ms", "2"},
                             {"format-version", std::to_string(options.version)}};
    for (const auto& [key, value] : options.properties) properties[key] = value;
    create_filesystem_table(
        io, new_table_metadata(location, real_schema(), make_partition_spec(options.partition, real_schema()),
                               options.order, properties, now_ms()));
    table_ = open_filesystem_table(io, location);
  }

  TableOperations& ops() { return *table_; }
  std::shared_ptr<const TableMetadata> metadata() { return table_->load().metadata; }
  const Snapshot& head(const std::string& branch = "main") {
    held_ = metadata();
    return *held_->find_snapshot(held_->refs.at(branch).snapshot_id);
  }

  std::shared_ptr<arrow::RecordBatch> batch(const std::string& rows, const Schema& schema) {
    const auto type = arrow::struct_(to_arrow_schema(schema)->fields());
    const auto array = *arrow::json::ArrayFromJSONString(type, rows);
    const auto read = *arrow::RecordBatch::FromStructArray(array);
    return arrow::RecordBatch::Make(to_arrow_schema(schema), read->num_rows(), read->columns());
  }

  std::vector<DataFile> write(const std::string& rows, WriteOptions options = {}) {
    const auto base = metadata();
    const Schema schema =
        options.equality_ids.empty() ? base->schema() : equality_delete_schema(*base, options.equality_ids);
    AppendWriter writer(io, *base, options);
    writer.write(batch(rows, schema));
    return writer.finish();
  }

  int64_t commit(const std::string& operation, std::vector<DataFile> added, std::vector<DataFile> removed = {},
                 const std::string& branch = "main") {
    SnapshotChange change;
    change.operation = operation;
    change.added = std::move(added);
    change.removed = std::move(removed);
    change.branch = branch;
    const auto base = metadata();
    change.written_schema = base->schema();
    const auto ref = base->refs.find(branch);
    change.read_check = ReadCheck{};
    if (ref != base->refs.end()) change.read_check->since_snapshot_id = ref->second.snapshot_id;
    if (ref == base->refs.end() && base->current_snapshot_id)
      change.read_check->since_snapshot_id = base->current_snapshot_id;
    return commit_snapshot(*table_, change).snapshot_id;
  }

  int64_t append(const std::string& rows, const std::string& branch = "main") {
    return commit("append", write(rows), {}, branch);
  }
  // Rows with these ids in a file of their own: {"id": i, "p": p, "text": "r<i>"}.
  int64_t append_ids(const std::vector<int64_t>& ids, const std::string& p = "a", const std::string& branch = "main") {
    return append(rows_of(ids, p), branch);
  }
  static std::string rows_of(const std::vector<int64_t>& ids, const std::string& p = "a") {
    Json rows = Json::array();
    for (const int64_t id : ids) rows.push_back({{"id", id}, {"p", p}, {"text", "r" + std::to_string(id)}});
    return rows.dump();
  }

  // Data files in the head of `branch`, by path.
  std::vector<LiveFile> live(const std::string& branch = "main") {
    const Snapshot snapshot = head(branch);
    return live_files(*metadata(), snapshot, *io);
  }
  std::vector<DataFile> data_files(const std::string& branch = "main") { return live_of(FileContent::data, branch); }
  std::vector<DataFile> delete_files(const std::string& branch = "main") {
    std::vector<DataFile> files = live_of(FileContent::position_deletes, branch);
    for (DataFile& file : live_of(FileContent::equality_deletes, branch)) files.push_back(std::move(file));
    return files;
  }
  std::vector<DataFile> live_of(FileContent content, const std::string& branch) {
    std::vector<DataFile> files;
    for (LiveFile& file : live(branch)) {
      if (file.file.content == content) files.push_back(std::move(file.file));
    }
    std::sort(files.begin(), files.end(), [](const auto& a, const auto& b) { return a.file_path < b.file_path; });
    return files;
  }

  // Deletes rows by position: v2 position delete files, v3 vectors merged with those that are there.
  int64_t delete_positions(const std::map<std::string, std::vector<int64_t>>& positions,
                           const std::string& branch = "main") {
    const auto base = metadata();
    PositionDeleteWriter writer(io, *base);
    std::vector<DataFile> replaced;
    for (const DataFile& file : data_files(branch)) {
      const auto found = positions.find(file.file_path);
      if (found == positions.end()) continue;
      PositionSet set;
      for (const int64_t position : found->second) set.add(position);
      for (const DataFile& vector : delete_files(branch)) {
        if (!is_deletion_vector(vector) || vector.referenced_data_file != file.file_path) continue;
        const auto input = io->open(vector.file_path);
        const auto bytes = *input->ReadAt(*vector.content_offset, *vector.content_size_bytes);
        set.add_all(PositionSet::from_blob(bytes->ToString(), vector.file_path));
        replaced.push_back(vector);
      }
      writer.add(file, std::move(set));
    }
    return commit("delete", writer.finish(), replaced, branch);
  }
  // Deletes rows by id: equality deletes in partition `p`.
  int64_t delete_ids(const std::vector<int64_t>& ids, const std::string& p = "a", const std::string& branch = "main") {
    Json rows = Json::array();
    const bool is_partitioned = !metadata()->spec().is_unpartitioned();
    for (const int64_t id : ids) rows.push_back(is_partitioned ? Json{{"id", id}, {"p", p}} : Json{{"id", id}});
    WriteOptions options;
    options.equality_ids = {1};
    return commit("delete", write(rows.dump(), options), {}, branch);
  }

  // Rows as sorted JSON lines.
  Lines rows(ScanOptions options = {}) {
    const auto base = metadata();
    const auto plan = std::make_shared<const ScanPlan>(plan_scan(*base, io, options));
    const auto reader = read_tasks(plan, io, options);
    Lines lines;
    std::shared_ptr<arrow::RecordBatch> read;
    while (reader->ReadNext(&read).ok() && read) {
      for (int64_t row = 0; row < read->num_rows(); ++row)
        append_row_json(*read, plan->projection, row, lines.emplace_back());
    }
    std::sort(lines.begin(), lines.end());
    return lines;
  }
  Lines rows_at(int64_t snapshot_id, bool lineage = false) {
    ScanOptions options;
    options.snapshot_id = snapshot_id;
    options.row_lineage = lineage;
    return rows(options);
  }
  Lines lineage() {
    ScanOptions options;
    options.row_lineage = true;
    return rows(options);
  }
  std::vector<int64_t> ids(ScanOptions options = {}) {
    options.columns = {"id"};
    std::vector<int64_t> ids;
    for (const std::string& line : rows(options)) ids.push_back(get_int64(parse_json(line, "row"), "id", "row"));
    std::sort(ids.begin(), ids.end());
    return ids;
  }

  bool exists(const std::string& path) { return io->stat(path).has_value(); }
  std::set<std::string> files() {
    std::set<std::string> paths;
    for (const FileInfo& file : io->list(location, true)) paths.insert(file.path);
    return paths;
  }
  std::vector<int64_t> snapshot_ids() {
    std::vector<int64_t> ids;
    for (const Snapshot& snapshot : metadata()->snapshots) ids.push_back(snapshot.snapshot_id);
    return ids;
  }
  // Makes snapshots look as old as that.
  void set_age(const std::vector<int64_t>& snapshot_ids, int64_t age_ms) {
    commit_metadata(*table_, [&](TableMetadata& next) {
      for (size_t i = 0; i < next.snapshots.size(); ++i) {
        Snapshot aged = next.snapshots[i];
        if (!std::count(snapshot_ids.begin(), snapshot_ids.end(), aged.snapshot_id)) continue;
        aged.timestamp_ms = now_ms() - age_ms;
        next.snapshots.replace(i, aged);
      }
      return true;
    });
  }
  void change(const MetadataChange& change) { commit_metadata(*table_, change); }
  void set_properties(const Properties& properties) {
    change([&](TableMetadata& next) {
      for (const auto& [key, value] : properties) next.properties[key] = value;
      return true;
    });
  }

  // Every path that some snapshot or the metadata name.
  std::set<std::string> named_paths() {
    const LoadedTable head = table_->load();
    std::set<std::string> paths = {head.metadata_path, location + "/metadata/version-hint.text"};
    for (const MetadataLogEntry& entry : head.metadata->metadata_log) paths.insert(entry.metadata_file);
    for (const Snapshot& snapshot : head.metadata->snapshots) {
      paths.insert(snapshot.manifest_list);
      for (const ManifestFile& manifest : read_manifest_list(io->read(snapshot.manifest_list), "list"))
        paths.insert(manifest.manifest_path);
      for (const LiveFile& file : live_files(*head.metadata, snapshot, *io)) paths.insert(file.file.file_path);
    }
    return paths;
  }

  const std::shared_ptr<FakeStore> store;
  const std::shared_ptr<FileIO> io;
  const std::string location;

 private:
  std::shared_ptr<TableOperations> table_;
  std::shared_ptr<const TableMetadata> held_;
};

constexpr int64_t kDayMs = 24LL * 60 * 60 * 1000;

}  // namespace firn::iceberg
