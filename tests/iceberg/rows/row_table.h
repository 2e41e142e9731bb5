// Tables with real data files in a store in memory, for tests of row-level changes.
#pragma once

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <arrow/api.h>
#include <arrow/json/from_string.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/clock.h"
#include "iceberg/manifest/file_identity.h"
#include "iceberg/metadata/changes.h"
#include "iceberg/parquet/arrow_schema.h"
#include "iceberg/rows/rows.h"
#include "iceberg/scan/row_json.h"
#include "iceberg/scan/scan.h"
#include "iceberg/write/delete_writer.h"
#include "support/fake_store.h"

namespace firn::iceberg {

using Lines = std::vector<std::string>;

inline Field column(int32_t id, std::string name, TypePtr type, bool required = false) {
  return Field{.id = id, .name = std::move(name), .required = required, .type = std::move(type)};
}
inline TypePtr primitive(TypeId id) { return Type::primitive(id); }

// id long, part string, val double.
inline Schema row_schema() {
  return Schema({column(1, "id", primitive(TypeId::long_)), column(2, "part", primitive(TypeId::string)),
                 column(3, "val", primitive(TypeId::double_))});
}

// Adds the optional struct "st" with required members of every shape, and in v3 the variant "v".
inline void add_required_members(TableMetadata& next) {
  update_schema(next, [&](SchemaUpdate& update) {
    std::vector<Field> deep = {
        column(1, "x", primitive(TypeId::long_), true), column(2, "s", primitive(TypeId::string)),
        column(3, "l", Type::list_of(4, true, primitive(TypeId::string)), true),
        column(5, "m", Type::map_of(6, primitive(TypeId::string), 7, true, primitive(TypeId::long_)), true),
        column(8, "f", Type::fixed(2), true)};
    if (next.format_version >= 3) deep.push_back(column(9, "v", primitive(TypeId::variant), true));
    NewColumn added;
    added.name = "st";
    added.type = Type::struct_of(
        {column(10, "r", primitive(TypeId::string), true), column(11, "deep", Type::struct_of(std::move(deep)), true)});
    update.add_column(added);
    if (next.format_version < 3) return;
    added.name = "v";
    added.type = primitive(TypeId::variant);
    update.add_column(added);
  });
}

class RowTable {
 public:
  explicit RowTable(int32_t format_version, const std::vector<PartitionDeclaration>& partitions = {},
                    std::map<std::string, std::string> properties = {}, const Schema& schema = row_schema()) {
    properties["format-version"] = std::to_string(format_version);
    properties.emplace("commit.retry.min-wait-ms", "1");
    properties.emplace("commit.retry.max-wait-ms", "2");
    create_filesystem_table(store, new_table_metadata(kLocation, schema, make_partition_spec(partitions, schema), {},
                                                      std::move(properties), now_ms()));
    table = open_filesystem_table(store, kLocation);
  }

  TableMetadata metadata() { return *table->load().metadata; }

  // `json`: an array of objects of `schema`'s columns.
  std::shared_ptr<arrow::RecordBatch> batch(const std::string& json, const Schema& schema) {
    const auto type = arrow::struct_(to_arrow_schema(schema)->fields());
    const auto array = *arrow::json::ArrayFromJSONString(type, json);
    return arrow::RecordBatch::Make(to_arrow_schema(schema), array->length(),
                                    (*arrow::RecordBatch::FromStructArray(array))->columns());
  }
  std::shared_ptr<arrow::RecordBatchReader> reader(const std::string& json) {
    return reader(json, metadata().schema());
  }
  std::shared_ptr<arrow::RecordBatchReader> reader(const std::string& json, const Schema& schema) {
    return *arrow::RecordBatchReader::Make({batch(json, schema)}, to_arrow_schema(schema));
  }

  std::vector<DataFile> append(const std::string& json, const std::string& branch = "main") {
    const TableMetadata base = metadata();
    AppendWriter writer(store, base);
    writer.write(batch(json, base.schema()));
    return commit(writer.finish(), "append", branch);
  }

  // Rows with these values in the columns `ids`, a JSON array of objects.
  std::vector<DataFile> delete_equal(const std::vector<int32_t>& ids, const std::string& json) {
    const TableMetadata base = metadata();
    AppendWriter writer(store, base, {.equality_ids = ids});
    writer.write(batch(json, equality_delete_schema(base, ids)));
    return commit(writer.finish(), "delete", "main");
  }

  // As firn's writer makes them: position delete files (v2) or deletion vectors (v3; of files that have none yet).
  std::vector<DataFile> delete_positions(const std::map<std::string, std::vector<int64_t>>& positions_by_path) {
    const TableMetadata base = metadata();
    PositionDeleteWriter writer(store, base);
    for (const LiveFile& live : files()) {
      const auto found = positions_by_path.find(live.file.file_path);
      if (live.file.content != FileContent::data || found == positions_by_path.end()) continue;
      PositionSet positions;
      for (const int64_t position : found->second) positions.add(position);
      writer.add(live.file, std::move(positions));
    }
    return commit(writer.finish(), "delete", "main");
  }

  std::vector<DataFile> commit(const std::vector<DataFile>& files, const std::string& operation,
                               const std::string& branch) {
    const TableMetadata base = metadata();
    SnapshotChange change;
    change.operation = operation;
    change.added = files;
    change.branch = branch;
    change.written_schema = base.schema();
    if (operation == "delete") {
      change.read_check = ReadCheck{.since_snapshot_id = base.current_snapshot_id};
    }
    commit_snapshot(*table, change);
    return files;
  }

  void change_metadata(const std::function<void(TableMetadata&)>& change) {
    commit_metadata(*table, [&](TableMetadata& next) {
      change(next);
      return true;
    });
  }
  // A spec of one field for rows to come.
  void evolve_spec(const std::string& column, const std::string& transform) {
    change_metadata([&](TableMetadata& next) {
      PartitionSpec spec = make_partition_spec({{column, transform}}, next.schema());
      spec.spec_id = static_cast<int32_t>(next.partition_specs.size());
      spec.fields[0].field_id = ++next.last_partition_id;
      next.partition_specs.push_back(spec);
      next.default_spec_id = spec.spec_id;
    });
  }

  // Sorted.
  Lines rows(ScanOptions options = {}) {
    const TableMetadata base = metadata();
    const auto plan = std::make_shared<const ScanPlan>(plan_scan(base, store, options));
    const auto reader = read_tasks(plan, store, options);
    Lines lines;
    std::shared_ptr<arrow::RecordBatch> batch;
    while (reader->ReadNext(&batch).ok() && batch) {
      EXPECT_TRUE(batch->ValidateFull().ok());
      for (int64_t row = 0; row < batch->num_rows(); ++row)
        append_row_json(*batch, plan->projection, row, lines.emplace_back());
    }
    std::sort(lines.begin(), lines.end());
    return lines;
  }
  // The values of `id`, sorted.
  std::vector<int64_t> ids(const std::string& branch = "") {
    std::vector<int64_t> ids;
    for (const std::string& line : rows({.ref = branch, .columns = {"id"}})) {
      const Json json = parse_json(line, "row");
      ids.push_back(json["id"].is_null()
                        ? -1
                        : std::stoll(json["id"].is_string() ? json["id"].get<std::string>() : json["id"].dump()));
    }
    std::sort(ids.begin(), ids.end());
    return ids;
  }
  // _row_id by id.
  std::map<std::string, std::string> lineage(const std::string& of) {
    std::map<std::string, std::string> values;
    for (const std::string& line : rows({.columns = {"id", of}})) {
      const Json json = parse_json(line, "row");
      values[json["id"].dump()] = json[of].dump();
    }
    return values;
  }

  std::vector<LiveFile> files() {
    const TableMetadata base = metadata();
    if (base.current_snapshot() == nullptr) return {};
    return live_files(base, *base.current_snapshot(), *store);
  }
  std::vector<DataFile> files_of(FileContent content) {
    std::vector<DataFile> result;
    for (const LiveFile& live : files()) {
      if (live.file.content == content) result.push_back(live.file);
    }
    return result;
  }
  std::vector<std::string> data_paths() {
    std::vector<std::string> paths;
    for (const DataFile& file : files_of(FileContent::data)) paths.push_back(file.file_path);
    std::sort(paths.begin(), paths.end());
    return paths;
  }
  size_t num_snapshots() { return metadata().snapshots.size(); }
  const std::map<std::string, std::string> summary() { return metadata().current_snapshot()->summary; }

  // Paths of files below the table's data folder that no live file is.
  std::vector<std::string> orphans() {
    std::set<std::string> known;
    const TableMetadata base = metadata();
    for (const Snapshot& snapshot : base.snapshots) {
      for (const LiveFile& live : live_files(base, snapshot, *store)) known.insert(live.file.file_path);
    }
    std::vector<std::string> result;
    for (const std::string& path : store->paths()) {
      if (path.find("/data/") != std::string::npos && !known.contains(path)) result.push_back(path);
    }
    return result;
  }

  static constexpr const char* kLocation = "mem://w/t";
  std::shared_ptr<FakeStore> store = std::make_shared<FakeStore>();
  std::shared_ptr<TableOperations> table;
};

template <class Call>
void expect_error(ErrorKind kind, const std::string& text, const Call& call) {
  try {
    call();
    ADD_FAILURE() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), kind) << error.what();
    EXPECT_NE(std::string(error.what()).find(text), std::string::npos) << error.what();
  }
}

}  // namespace firn::iceberg
