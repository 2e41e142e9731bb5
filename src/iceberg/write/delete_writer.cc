#include "iceberg/write/delete_writer.h"

#include <algorithm>
#include <limits>
#include <set>

#include <arrow/array.h>

#include "base/arrow_status.h"
#include "base/error.h"
#include "base/fault_point.h"
#include "base/log.h"
#include "base/uri.h"
#include "base/uuid.h"
#include "iceberg/manifest/file_identity.h"
#include "iceberg/parquet/array_adapter.h"
#include "iceberg/parquet/arrow_schema.h"
#include "iceberg/write/partitioner.h"

namespace firn::iceberg {

namespace {

constexpr int64_t kBatchRows = 8192;

Schema position_delete_schema() {
  return Schema({Field{kDeleteFilePathFieldId, "file_path", true, Type::primitive(TypeId::string)},
                 Field{kDeletePosFieldId, "pos", true, Type::primitive(TypeId::long_)}});
}

// `field` with only the fields of `ids` and the structs around them; nullopt: none is there.
std::optional<Field> pruned(const Field& field, const std::set<int32_t>& ids) {
  if (ids.contains(field.id)) return field;
  if (field.type->id() != TypeId::struct_) return std::nullopt;
  std::vector<Field> kept;
  for (const Field& member : field.type->fields()) {
    if (std::optional<Field> inner = pruned(member, ids)) kept.push_back(std::move(*inner));
  }
  if (kept.empty()) return std::nullopt;
  Field result = field;
  result.type = Type::struct_of(std::move(kept));
  return result;
}

}  // namespace

DeleteGranularity delete_granularity(const TableMetadata& metadata) {
  const std::string text = metadata.property("write.delete.granularity", "file");
  if (text == "file") return DeleteGranularity::file;
  if (text == "partition") return DeleteGranularity::partition;
  fail(ErrorKind::invalid_argument, "write.delete.granularity = {}: give file or partition", text);
}

struct PositionDeleteWriter::State {
  struct Deletes {  // of one data file
    int32_t spec_id = 0;
    std::vector<Value> partition;
    PositionSet positions;
  };
  using ByPath = std::map<std::string, Deletes>;

  std::shared_ptr<FileIO> io;
  bool writes_vectors;
  DeleteGranularity granularity;
  ParquetWriteOptions parquet_options;
  std::string data_folder;
  std::vector<PartitionSpec> specs;
  Schema schema;  // the table's, for the names of partitions
  std::string file_prefix = uuid_v4();
  int64_t next_file = 0;
  ByPath by_path;
  std::vector<DataFile> files;
  bool finished = false;

  State(std::shared_ptr<FileIO> file_io, const TableMetadata& metadata)
      : io(std::move(file_io)),
        writes_vectors(metadata.format_version >= 3),
        granularity(delete_granularity(metadata)),
        parquet_options(ParquetWriteOptions::from_properties(metadata, FileContent::position_deletes)),
        data_folder(metadata.property("write.data.path", join_path(metadata.location, "data"))),
        specs(metadata.partition_specs),
        schema(metadata.schema()) {
    if (metadata.format_version < 2)
      fail(ErrorKind::unsupported, "table {}: format version 1 has no delete files; upgrade it to version 2",
           metadata.location);
    // Readers prune by whole paths, and find a file's only data file by equal bounds.
    parquet_options.metrics_modes.clear();
    parquet_options.default_metrics_mode = "full";
  }

  ~State() {
    if (finished) return;
    std::set<std::string> paths;
    for (const DataFile& file : files) paths.insert(file.file_path);
    for (const std::string& path : paths) {
      try {
        io->remove(path);
      } catch (const Error& error) {
        // No snapshot names it: orphan removal finds it.
        spdlog::debug("remove {}: {}", path, error.what());
      }
    }
  }

  const PartitionSpec& spec(int32_t id) const {
    const auto found =
        std::find_if(specs.begin(), specs.end(), [&](const PartitionSpec& spec) { return spec.spec_id == id; });
    if (found == specs.end()) fail(ErrorKind::corrupt, "partition spec {} is not one of the table's", id);
    return *found;
  }

  static DataFile file_of(const Deletes& deletes) {
    DataFile file;
    file.content = FileContent::position_deletes;
    file.partition_spec_id = deletes.spec_id;
    file.partition = deletes.partition;
    return file;
  }

  void write_vectors() {
    const std::string path = join_path(data_folder, file_prefix + "-deletes.puffin");
    const std::unique_ptr<OutputFile> output = io->create(path);
    PuffinWriter writer(output->stream(), path);
    for (auto& [data_path, deletes] : by_path) {
      DataFile file = file_of(deletes);
      file.file_path = path;
      file.file_format = "PUFFIN";
      file.record_count = deletes.positions.size();
      file.referenced_data_file = data_path;
      PuffinBlob blob;
      blob.type = kDeletionVectorBlobType;
      blob.fields = {kPosFieldId};
      blob.properties = {{"referenced-data-file", data_path}, {"cardinality", std::to_string(file.record_count)}};
      blob = writer.add(std::move(blob), deletes.positions.to_blob());
      file.content_offset = blob.offset;
      file.content_size_bytes = blob.length;
      files.push_back(std::move(file));
      deletes.positions = PositionSet();
    }
    const int64_t size_bytes = writer.finish({{"created-by", "firn"}});
    for (DataFile& file : files) file.file_size_bytes = size_bytes;
    fault_point("write.deletion_vectors");
    output->close();
  }

  // One position delete file, its rows sorted by path and position (spec, "Position Delete Files").
  void write_positions(const std::vector<ByPath::iterator>& group) {
    DataFile described = file_of(group.front()->second);
    const std::string folder =
        partition_folder(data_folder, spec(described.partition_spec_id), described.partition, schema);
    const Schema columns = position_delete_schema();
    ParquetFileWriter writer(*io, join_path(folder, fmt::format("{}-{:05}-deletes.parquet", file_prefix, next_file++)),
                             columns, parquet_options);
    for (const auto& entry : group) write_rows(writer, entry->first, entry->second.positions);
    fault_point("write.position_deletes");
    DataFile file = writer.close();
    file.content = described.content;
    file.partition_spec_id = described.partition_spec_id;
    file.partition = std::move(described.partition);
    if (group.size() == 1) file.referenced_data_file = group.front()->first;
    files.push_back(std::move(file));
    for (const auto& entry : group) entry->second.positions = PositionSet();
  }

  static void write_rows(ParquetFileWriter& writer, const std::string& data_path, const PositionSet& positions) {
    const Type& path_type = *Type::primitive(TypeId::string);
    const auto arrow_schema = to_arrow_schema(position_delete_schema());
    std::vector<int64_t> rows;
    const auto flush = [&] {
      const auto count = static_cast<int64_t>(rows.size());
      const auto column = std::make_shared<arrow::Int64Array>(count, arrow::Buffer::Wrap(rows));
      writer.write(*arrow::RecordBatch::Make(arrow_schema, count,
                                             arrow::ArrayVector{constant_array(data_path, path_type, count), column}));
      rows.clear();
    };
    positions.for_each_in(0, std::numeric_limits<int64_t>::max(), [&](int64_t position) {
      rows.push_back(position);
      if (static_cast<int64_t>(rows.size()) == kBatchRows) flush();
    });
    if (!rows.empty()) flush();
  }

  void write_all_positions() {
    std::map<std::string, std::vector<ByPath::iterator>> by_partition;
    for (auto entry = by_path.begin(); entry != by_path.end(); ++entry) {
      if (granularity == DeleteGranularity::file) {
        write_positions({entry});
      } else {
        by_partition[partition_key(entry->second.spec_id, entry->second.partition)].push_back(entry);
      }
    }
    std::vector<std::vector<ByPath::iterator>> groups;
    for (auto& [key, group] : by_partition) groups.push_back(std::move(group));
    std::sort(groups.begin(), groups.end(),
              [](const auto& a, const auto& b) { return a.front()->first < b.front()->first; });
    for (const auto& group : groups) write_positions(group);
  }
};

PositionDeleteWriter::PositionDeleteWriter(std::shared_ptr<FileIO> io, const TableMetadata& metadata)
    : state_(std::make_unique<State>(std::move(io), metadata)) {}

PositionDeleteWriter::~PositionDeleteWriter() = default;

void PositionDeleteWriter::add(const DataFile& data_file, PositionSet positions) {
  if (positions.empty()) return;
  State::Deletes deletes{data_file.partition_spec_id, data_file.partition, std::move(positions)};
  if (!state_->by_path.try_emplace(data_file.file_path, std::move(deletes)).second)
    fail(ErrorKind::invalid_argument, "{}: its deleted positions were given twice", data_file.file_path);
}

std::vector<DataFile> PositionDeleteWriter::finish() {
  State& state = *state_;
  if (state.by_path.empty()) {
    // Nothing to write.
  } else if (state.writes_vectors) {
    state.write_vectors();
  } else {
    state.write_all_positions();
  }
  state.finished = true;
  return std::move(state.files);
}

Schema equality_delete_schema(const TableMetadata& metadata, const std::vector<int32_t>& equality_ids) {
  const Schema& schema = metadata.schema();
  std::set<int32_t> ids;
  for (const int32_t id : equality_ids) {
    const Field* field = schema.find_field(id);
    if (field == nullptr || field->type->is_nested() || field->type->id() == TypeId::variant ||
        schema.is_nested_below_list_or_map(id))
      fail(ErrorKind::invalid_argument,
           "table {}: field id {} is no column of a primitive type outside of lists and maps; rows cannot be deleted "
           "by it",
           metadata.location, id);
    ids.insert(id);
  }
  for (const PartitionField& field : metadata.spec().fields) {
    if (field.transform.kind != TransformKind::void_) ids.insert(field.source_ids.begin(), field.source_ids.end());
  }
  std::vector<Field> fields;
  for (const Field& field : schema.fields()) {
    if (std::optional<Field> kept = pruned(field, ids)) fields.push_back(std::move(*kept));
  }
  return Schema(std::move(fields), schema.schema_id());
}

}  // namespace firn::iceberg
