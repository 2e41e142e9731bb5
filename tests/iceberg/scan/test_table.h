// Tables for scan tests, file by file and commit by commit: Parquet files written by Arrow (not by firn's writer),
// deletes of every kind, manifests with inherited sequence numbers.
#pragma once

#include <map>
#include <string>
#include <vector>

#include <arrow/api.h>
#include <arrow/json/from_string.h>
#include <gtest/gtest.h>
#include <parquet/arrow/writer.h>

#include "iceberg/parquet/arrow_schema.h"
#include "iceberg/puffin/puffin.h"
#include "iceberg/scan/row_json.h"
#include "iceberg/scan/scan.h"
#include "support/temp_folder.h"

namespace firn::iceberg {

inline Field optional(int32_t id, std::string name, TypePtr type) {
  return Field{id, std::move(name), false, std::move(type)};
}
inline TypePtr long_type() { return Type::primitive(TypeId::long_); }
inline TypePtr int_type() { return Type::primitive(TypeId::int_); }
inline TypePtr string_type() { return Type::primitive(TypeId::string); }

class TestTable {
 public:
  explicit TestTable(const Schema& schema, int32_t format_version = 2, const PartitionSpec& spec = {})
      : metadata_(new_table_metadata(folder_.path(), schema, spec, {},
                                     {{"format-version", std::to_string(format_version)}}, 1)) {}

  TableMetadata& metadata() { return metadata_; }
  const std::shared_ptr<FileIO>& io() const { return io_; }
  std::string path(const std::string& name) const { return folder_.path() + "/" + name; }

  // Files are written with these columns and ids; `rows` is a JSON array of objects.
  DataFile data_file(const std::string& name, const Schema& columns, const std::string& rows,
                     int64_t row_group_rows = 1 << 20) {
    const auto type = arrow::struct_(to_arrow_schema(columns)->fields());
    const auto array = *arrow::json::ArrayFromJSONString(type, rows);
    return data_file(name, *arrow::RecordBatch::FromStructArray(array), columns, row_group_rows);
  }
  DataFile data_file(const std::string& name, const std::shared_ptr<arrow::RecordBatch>& batch, const Schema& columns,
                     int64_t row_group_rows = 1 << 20) {
    const auto table = *arrow::Table::FromRecordBatches(
        to_arrow_schema(columns), {batch->columns().empty() ? batch : with_schema(batch, columns)});
    auto out = io_->create(path(name));
    EXPECT_TRUE(
        parquet::arrow::WriteTable(*table, arrow::default_memory_pool(), unowned(out->stream()), row_group_rows).ok());
    out->close();
    DataFile file;
    file.file_path = path(name);
    file.record_count = batch->num_rows();
    file.file_size_bytes = io_->stat(file.file_path)->size_bytes;
    return file;
  }

  // `rows`: {data file path: positions}.
  DataFile position_deletes(const std::string& name, const std::map<std::string, std::vector<int64_t>>& rows,
                            int64_t row_group_rows = 1 << 20) {
    Json json = Json::array();
    for (const auto& [path, positions] : rows) {
      for (const int64_t position : positions) json.push_back({{"file_path", path}, {"pos", position}});
    }
    const Schema columns({Field{kDeleteFilePathFieldId, "file_path", true, string_type()},
                          Field{kDeletePosFieldId, "pos", true, long_type()}});
    DataFile file = data_file(name, columns, json.dump(), row_group_rows);
    file.content = FileContent::position_deletes;
    return file;
  }

  DataFile equality_deletes(const std::string& name, const Schema& columns, const std::string& rows,
                            std::vector<int32_t> ids) {
    DataFile file = data_file(name, columns, rows);
    file.content = FileContent::equality_deletes;
    file.equality_ids = std::move(ids);
    return file;
  }

  // A deletion vector after four bytes of magic; no footer, which readers of vectors do not need.
  DataFile deletion_vector(const std::string& name, const std::string& data_path,
                           const std::vector<int64_t>& positions) {
    PositionSet set;
    for (const int64_t position : positions) set.add(position);
    const std::string blob = set.to_blob();
    io_->replace(path(name), "PFA1" + blob);
    DataFile file;
    file.content = FileContent::position_deletes;
    file.file_path = path(name);
    file.file_format = "PUFFIN";
    file.record_count = static_cast<int64_t>(positions.size());
    file.file_size_bytes = static_cast<int64_t>(blob.size()) + 4;
    file.referenced_data_file = data_path;
    file.content_offset = 4;
    file.content_size_bytes = static_cast<int64_t>(blob.size());
    return file;
  }

  // One snapshot that adds these files, each with its spec id and partition.
  int64_t commit(const std::vector<DataFile>& files) {
    const int64_t id = static_cast<int64_t>(metadata_.snapshots.size()) + 1;
    Snapshot snapshot;
    snapshot.snapshot_id = id;
    if (const Snapshot* parent = metadata_.current_snapshot()) snapshot.parent_snapshot_id = parent->snapshot_id;
    snapshot.sequence_number = metadata_.last_sequence_number + 1;
    snapshot.timestamp_ms = 1000 * id;
    snapshot.summary["operation"] = "append";
    snapshot.schema_id = metadata_.current_schema_id;
    std::map<std::pair<int32_t, bool>, std::vector<ManifestEntry>> entries;
    int64_t added_rows = 0;
    for (const DataFile& file : files) {
      ManifestEntry entry;
      entry.snapshot_id = id;
      entry.file = file;
      const bool is_data = file.content == FileContent::data;
      if (is_data) added_rows += file.record_count;
      entries[{file.partition_spec_id, is_data}].push_back(entry);
    }
    for (const auto& [key, list] : entries) {
      const std::string manifest_path = path("m" + std::to_string(manifests_.size()) + ".avro");
      WrittenManifest written =
          write_manifest(list, manifest_path, id, metadata_.spec(key.first), metadata_.schema(),
                         key.second ? ManifestContent::data : ManifestContent::deletes, metadata_.format_version);
      written.file.manifest_path = manifest_path;
      written.file.manifest_length = static_cast<int64_t>(written.bytes.size());
      written.file.sequence_number = snapshot.sequence_number;
      if (!written.file.min_sequence_number) written.file.min_sequence_number = snapshot.sequence_number;
      io_->replace(manifest_path, written.bytes);
      manifests_.push_back(written.file);
    }
    if (metadata_.format_version >= 3) {
      snapshot.first_row_id = metadata_.next_row_id;
      snapshot.added_rows = added_rows;
    }
    snapshot.manifest_list = path("snap-" + std::to_string(id) + ".avro");
    io_->replace(snapshot.manifest_list,
                 write_manifest_list(manifests_, snapshot, metadata_.format_version, metadata_.next_row_id));
    add_snapshot(metadata_, snapshot, "main");
    return id;
  }

  // Rows as JSON lines, in the scan's order.
  std::vector<std::string> rows(const ScanOptions& options = {}) {
    const auto plan = std::make_shared<const ScanPlan>(plan_scan(metadata_, io_, options));
    return drain(*read_tasks(plan, io_, options), plan->projection);
  }

  static std::vector<std::string> drain(arrow::RecordBatchReader& reader, const Schema& schema) {
    std::vector<std::string> lines;
    std::shared_ptr<arrow::RecordBatch> batch;
    while (reader.ReadNext(&batch).ok() && batch) {
      EXPECT_TRUE(batch->ValidateFull().ok());
      EXPECT_TRUE(batch->schema()->Equals(*reader.schema()));
      EXPECT_GT(batch->num_rows(), 0);
      for (int64_t row = 0; row < batch->num_rows(); ++row) append_row_json(*batch, schema, row, lines.emplace_back());
    }
    return lines;
  }

 private:
  static std::shared_ptr<arrow::RecordBatch> with_schema(const std::shared_ptr<arrow::RecordBatch>& batch,
                                                         const Schema& columns) {
    return arrow::RecordBatch::Make(to_arrow_schema(columns), batch->num_rows(), batch->columns());
  }
  static std::shared_ptr<arrow::io::OutputStream> unowned(arrow::io::OutputStream& stream) {
    return {&stream, [](arrow::io::OutputStream*) {}};
  }

  TempFolder folder_;
  std::shared_ptr<FileIO> io_ = make_local_file_io();
  TableMetadata metadata_;
  std::vector<ManifestFile> manifests_;
};

using Lines = std::vector<std::string>;

}  // namespace firn::iceberg
