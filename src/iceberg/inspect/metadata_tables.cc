#include "iceberg/inspect/metadata_tables.h"

#include <algorithm>
#include <deque>
#include <functional>
#include <set>

#include <fmt/ranges.h>

#include "base/error.h"
#include "iceberg/inspect/file_rows.h"
#include "iceberg/manifest/snapshot_manifests.h"
#include "iceberg/metadata/changes.h"
#include "iceberg/scan/snapshot_choice.h"

namespace firn::iceberg {
namespace {

// Gives the next few rows; none: the table is at its end.
using NextRows = std::function<std::vector<Row>()>;

struct RowSource {
  Schema schema;
  NextRows next;
};

// What every table is made from; kept alive by its reader.
struct Input {
  TableMetadata metadata;
  std::shared_ptr<FileIO> io;
  MetadataTableOptions options;
};
using InputPtr = std::shared_ptr<const Input>;

Cell micros(int64_t millis) { return millis * 1000; }

NextRows all_at_once(std::vector<Row> rows) {
  return [rows = std::move(rows), done = false]() mutable {
    if (done) return std::vector<Row>();
    done = true;
    return std::move(rows);
  };
}

// --- tables of the metadata alone

RowSource snapshots_table(const InputPtr& input) {
  Schema schema({field(1, "committed_at", primitive(TypeId::timestamptz), true),
                 field(2, "snapshot_id", primitive(TypeId::long_), true),
                 field(3, "parent_id", primitive(TypeId::long_)), field(4, "operation", primitive(TypeId::string)),
                 field(5, "manifest_list", primitive(TypeId::string)),
                 field(6, "summary", Type::map_of(7, primitive(TypeId::string), 8, true, primitive(TypeId::string)))});
  std::vector<Row> rows;
  for (const Snapshot& snapshot : input->metadata.snapshots) {
    std::vector<Cell> summary;
    for (const auto& [key, value] : snapshot.summary) {
      if (key == "operation") continue;
      summary.emplace_back(key);
      summary.emplace_back(value);
    }
    rows.push_back({micros(snapshot.timestamp_ms), snapshot.snapshot_id, snapshot.parent_snapshot_id,
                    snapshot.operation().empty() ? Cell() : Cell(snapshot.operation()),
                    snapshot.manifest_list.empty() ? Cell() : Cell(snapshot.manifest_list),
                    snapshot.summary.empty() ? Cell() : Cell::nested(std::move(summary))});
  }
  return {std::move(schema), all_at_once(std::move(rows))};
}

RowSource history_table(const InputPtr& input) {
  const TableMetadata& metadata = input->metadata;
  Schema schema({field(1, "made_current_at", primitive(TypeId::timestamptz), true),
                 field(2, "snapshot_id", primitive(TypeId::long_), true),
                 field(3, "parent_id", primitive(TypeId::long_)),
                 field(4, "is_current_ancestor", primitive(TypeId::boolean_), true)});
  const std::vector<int64_t> ids = ancestor_ids(metadata, metadata.current_snapshot_id);
  const std::set<int64_t> ancestors(ids.begin(), ids.end());
  std::vector<Row> rows;
  for (const SnapshotLogEntry& entry : metadata.snapshot_log) {
    const Snapshot* snapshot = metadata.find_snapshot(entry.snapshot_id);
    rows.push_back({micros(entry.timestamp_ms), entry.snapshot_id,
                    snapshot != nullptr ? Cell(snapshot->parent_snapshot_id) : Cell(),
                    ancestors.contains(entry.snapshot_id)});
  }
  return {std::move(schema), all_at_once(std::move(rows))};
}

RowSource refs_table(const InputPtr& input) {
  Schema schema({field(1, "name", primitive(TypeId::string), true), field(2, "type", primitive(TypeId::string), true),
                 field(3, "snapshot_id", primitive(TypeId::long_), true),
                 field(4, "max_reference_age_in_ms", primitive(TypeId::long_)),
                 field(5, "min_snapshots_to_keep", primitive(TypeId::int_)),
                 field(6, "max_snapshot_age_in_ms", primitive(TypeId::long_))});
  std::vector<Row> rows;
  for (const auto& [name, ref] : input->metadata.refs)
    rows.push_back({name, ref.is_branch ? "BRANCH" : "TAG", ref.snapshot_id, ref.max_ref_age_ms,
                    ref.min_snapshots_to_keep, ref.max_snapshot_age_ms});
  return {std::move(schema), all_at_once(std::move(rows))};
}

RowSource metadata_log_table(const InputPtr& input) {
  const TableMetadata& metadata = input->metadata;
  Schema schema(
      {field(1, "timestamp", primitive(TypeId::timestamptz), true), field(2, "file", primitive(TypeId::string), true),
       field(3, "latest_snapshot_id", primitive(TypeId::long_)), field(4, "latest_schema_id", primitive(TypeId::int_)),
       field(5, "latest_sequence_number", primitive(TypeId::long_))});
  std::vector<Row> rows;
  const auto add = [&](int64_t timestamp_ms, const std::string& file) {
    std::optional<int64_t> id;
    for (const SnapshotLogEntry& entry : metadata.snapshot_log)
      if (entry.timestamp_ms <= timestamp_ms) id = entry.snapshot_id;
    const Snapshot* snapshot = id ? metadata.find_snapshot(*id) : nullptr;
    rows.push_back({micros(timestamp_ms), file, id, snapshot != nullptr ? Cell(snapshot->schema_id) : Cell(),
                    snapshot != nullptr ? Cell(snapshot->sequence_number) : Cell()});
  };
  for (const MetadataLogEntry& entry : metadata.metadata_log) add(entry.timestamp_ms, entry.metadata_file);
  if (!input->options.metadata_path.empty()) add(metadata.last_updated_ms, input->options.metadata_path);
  return {std::move(schema), all_at_once(std::move(rows))};
}

RowSource properties_table(const InputPtr& input) {
  Schema schema({field(1, "key", primitive(TypeId::string), true), field(2, "value", primitive(TypeId::string), true)});
  std::vector<Row> rows;
  for (const auto& [key, value] : input->metadata.properties) rows.push_back({key, value});
  return {std::move(schema), all_at_once(std::move(rows))};
}

// --- tables of manifests

std::vector<ManifestFile> manifests_of(const Input& input, const Snapshot& snapshot) {
  return snapshot_manifests(input.metadata, snapshot, [&](const std::string& path) { return input.io->read(path); });
}

std::vector<const Snapshot*> chosen_snapshot(const InputPtr& input) {
  ScanOptions choice;
  choice.snapshot_id = input->options.snapshot_id;
  choice.ref = input->options.ref;
  choice.as_of_ms = input->options.as_of_ms;
  const Snapshot* snapshot = choose_snapshot(input->metadata, choice).snapshot;
  return snapshot != nullptr ? std::vector<const Snapshot*>{snapshot} : std::vector<const Snapshot*>();
}

std::vector<const Snapshot*> all_snapshots(const InputPtr& input) {
  std::vector<const Snapshot*> snapshots;
  for (const Snapshot& snapshot : input->metadata.snapshots) snapshots.push_back(&snapshot);
  return snapshots;
}

Cell summaries_cell(const TableMetadata& metadata, const ManifestFile& manifest) {
  if (!manifest.partitions) return {};
  const PartitionSpec& spec = metadata.spec(manifest.partition_spec_id);
  const TypePtr type = spec.partition_type(metadata.schema());
  const auto bound_text = [&](const std::optional<std::string>& bytes, size_t i) -> Cell {
    if (!bytes) return {};
    const Field* source = metadata.schema().find_field(spec.fields[i].source_id());
    const std::optional<Value> bound = from_bytes(*bytes, *type->fields()[i].type);
    if (source == nullptr || !bound) return {};  // its type is gone, or the bytes are none of it
    return to_human_string(spec.fields[i].transform, *bound, *source->type);
  };
  std::vector<Cell> summaries;
  for (size_t i = 0; i < std::min(manifest.partitions->size(), spec.fields.size()); ++i) {
    const FieldSummary& summary = (*manifest.partitions)[i];
    summaries.push_back(Cell::nested({summary.contains_null, summary.contains_nan, bound_text(summary.lower_bound, i),
                                      bound_text(summary.upper_bound, i)}));
  }
  return Cell::nested(std::move(summaries));
}

// Counts are optional here, since v1 may not know them.
RowSource manifests_table(const InputPtr& input, std::vector<const Snapshot*> snapshots, bool with_reference) {
  std::vector<Field> fields = {
      field(14, "content", primitive(TypeId::int_), true),
      field(1, "path", primitive(TypeId::string), true),
      field(2, "length", primitive(TypeId::long_), true),
      field(3, "partition_spec_id", primitive(TypeId::int_), true),
      field(4, "added_snapshot_id", primitive(TypeId::long_), true),
      field(5, "added_data_files_count", primitive(TypeId::int_)),
      field(6, "existing_data_files_count", primitive(TypeId::int_)),
      field(7, "deleted_data_files_count", primitive(TypeId::int_)),
      field(15, "added_delete_files_count", primitive(TypeId::int_)),
      field(16, "existing_delete_files_count", primitive(TypeId::int_)),
      field(17, "deleted_delete_files_count", primitive(TypeId::int_)),
      field(8, "partition_summaries",
            Type::list_of(9, true,
                          Type::struct_of({field(10, "contains_null", primitive(TypeId::boolean_), true),
                                           field(11, "contains_nan", primitive(TypeId::boolean_)),
                                           field(12, "lower_bound", primitive(TypeId::string)),
                                           field(13, "upper_bound", primitive(TypeId::string))})))};
  if (with_reference) {
    fields.push_back(field(18, "reference_snapshot_id", primitive(TypeId::long_), true));
    fields.push_back(field(19, "key_metadata", primitive(TypeId::binary)));
  }
  const auto next = [input, snapshots = std::move(snapshots), with_reference, at = size_t{0}]() mutable {
    std::vector<Row> rows;
    while (rows.empty() && at < snapshots.size()) {
      const Snapshot& snapshot = *snapshots[at++];
      for (const ManifestFile& manifest : manifests_of(*input, snapshot)) {
        const bool is_data = manifest.content == ManifestContent::data;
        const auto data = [&](const std::optional<int32_t>& count) { return is_data ? Cell(count) : Cell(int32_t{0}); };
        const auto deletes = [&](const std::optional<int32_t>& count) {
          return is_data ? Cell(int32_t{0}) : Cell(count);
        };
        Row row = {static_cast<int32_t>(manifest.content),
                   manifest.manifest_path,
                   manifest.manifest_length,
                   manifest.partition_spec_id,
                   manifest.added_snapshot_id,
                   data(manifest.added_files_count),
                   data(manifest.existing_files_count),
                   data(manifest.deleted_files_count),
                   deletes(manifest.added_files_count),
                   deletes(manifest.existing_files_count),
                   deletes(manifest.deleted_files_count),
                   summaries_cell(input->metadata, manifest)};
        if (with_reference) {
          row.emplace_back(snapshot.snapshot_id);
          row.push_back(manifest.key_metadata.empty() ? Cell() : Cell(manifest.key_metadata));
        }
        rows.push_back(std::move(row));
      }
    }
    return rows;
  };
  return {Schema(std::move(fields)), next};
}

// --- tables of files

// The entries of one manifest after another, of all snapshots, each manifest once.
class EntryStream {
 public:
  EntryStream(InputPtr input, std::vector<const Snapshot*> snapshots, std::optional<ManifestContent> content,
              bool live_only)
      : input_(std::move(input)), snapshots_(std::move(snapshots)), content_(content), live_only_(live_only) {}

  std::vector<ManifestEntry> next_manifest() {  // empty: the end
    while (true) {
      while (manifests_.empty()) {
        if (at_ == snapshots_.size()) return {};
        for (ManifestFile& manifest : manifests_of(*input_, *snapshots_[at_])) {
          if (content_ && manifest.content != *content_) continue;
          if (live_only_ && !may_hold_live_files(manifest)) continue;
          if (snapshots_.size() > 1 && !seen_.insert(manifest.manifest_path).second) continue;
          manifests_.push_back(std::move(manifest));
        }
        ++at_;
      }
      const ManifestFile manifest = std::move(manifests_.front());
      manifests_.pop_front();
      const TableMetadata& metadata = input_->metadata;
      std::vector<ManifestEntry> entries =
          read_manifest(input_->io->read(manifest.manifest_path), manifest, metadata.spec(manifest.partition_spec_id),
                        metadata.schema(), live_only_);
      for (ManifestEntry& entry : entries) entry.file.partition_spec_id = manifest.partition_spec_id;
      if (!entries.empty()) return entries;
    }
  }

 private:
  InputPtr input_;
  std::vector<const Snapshot*> snapshots_;
  std::optional<ManifestContent> content_;
  bool live_only_;
  size_t at_ = 0;
  std::deque<ManifestFile> manifests_;  // of the snapshot before `at_`, not shown yet
  std::set<std::string> seen_;
};

// Rows of one manifest's entries, a few at a time: rows are many times the size of entries.
template <class ToRow>
NextRows rows_of_entries(const InputPtr& input, EntryStream stream, ToRow to_row) {
  return [batch = static_cast<size_t>(std::max<int64_t>(1, input->options.batch_rows_max)), stream = std::move(stream),
          to_row = std::move(to_row), entries = std::vector<ManifestEntry>(), at = size_t{0}]() mutable {
    if (at == entries.size()) {
      entries = stream.next_manifest();
      at = 0;
    }
    std::vector<Row> rows;
    for (; at < entries.size() && rows.size() < batch; ++at) rows.push_back(to_row(entries[at]));
    return rows;
  };
}

RowSource files_table(const InputPtr& input, std::vector<const Snapshot*> snapshots,
                      std::optional<ManifestContent> content) {
  const auto columns = std::make_shared<const FileColumns>(input->metadata);
  return {columns->files_schema(),
          rows_of_entries(input, EntryStream(input, std::move(snapshots), content, /*live_only=*/true),
                          [columns](const ManifestEntry& entry) { return columns->file_row(entry.file); })};
}

RowSource entries_table(const InputPtr& input, std::vector<const Snapshot*> snapshots) {
  const auto columns = std::make_shared<const FileColumns>(input->metadata);
  return {columns->entries_schema(),
          rows_of_entries(input, EntryStream(input, std::move(snapshots), std::nullopt, /*live_only=*/false),
                          [columns](const ManifestEntry& entry) { return columns->entry_row(entry); })};
}

RowSource partitions_table(const InputPtr& input, std::vector<const Snapshot*> snapshots) {
  auto sums = std::make_shared<PartitionRows>(input->metadata);
  EntryStream stream(input, std::move(snapshots), std::nullopt, /*live_only=*/true);
  return {sums->schema(), [sums, stream = std::move(stream), done = false]() mutable {
            if (done) return std::vector<Row>();
            done = true;
            for (auto entries = stream.next_manifest(); !entries.empty(); entries = stream.next_manifest())
              for (const ManifestEntry& entry : entries) sums->add(entry);
            return sums->rows();
          }};
}

struct NamedTable {
  const char* name;
  bool of_one_snapshot;
  RowSource (*make)(const InputPtr& input);
};

constexpr auto kData = ManifestContent::data;
constexpr auto kDeletes = ManifestContent::deletes;

const NamedTable kTables[] = {
    {"snapshots", false, snapshots_table},
    {"history", false, history_table},
    {"refs", false, refs_table},
    {"metadata_log_entries", false, metadata_log_table},
    {"properties", false, properties_table},
    {"manifests", true, [](const InputPtr& input) { return manifests_table(input, chosen_snapshot(input), false); }},
    {"all_manifests", false, [](const InputPtr& input) { return manifests_table(input, all_snapshots(input), true); }},
    {"entries", true, [](const InputPtr& input) { return entries_table(input, chosen_snapshot(input)); }},
    {"all_entries", false, [](const InputPtr& input) { return entries_table(input, all_snapshots(input)); }},
    {"files", true, [](const InputPtr& input) { return files_table(input, chosen_snapshot(input), std::nullopt); }},
    {"data_files", true, [](const InputPtr& input) { return files_table(input, chosen_snapshot(input), kData); }},
    {"delete_files", true, [](const InputPtr& input) { return files_table(input, chosen_snapshot(input), kDeletes); }},
    {"all_files", false, [](const InputPtr& input) { return files_table(input, all_snapshots(input), std::nullopt); }},
    {"all_data_files", false, [](const InputPtr& input) { return files_table(input, all_snapshots(input), kData); }},
    {"all_delete_files", false,
     [](const InputPtr& input) { return files_table(input, all_snapshots(input), kDeletes); }},
    {"partitions", true, [](const InputPtr& input) { return partitions_table(input, chosen_snapshot(input)); }},
};

class TableReader : public arrow::RecordBatchReader {
 public:
  TableReader(InputPtr input, RowSource source)
      : input_(std::move(input)), next_(std::move(source.next)), builder_(source.schema) {}

  std::shared_ptr<arrow::Schema> schema() const override { return builder_.arrow_schema(); }

  arrow::Status ReadNext(std::shared_ptr<arrow::RecordBatch>* batch) override {
    while (next_ && builder_.num_rows() < std::max<int64_t>(1, input_->options.batch_rows_max)) {
      if (at_ == rows_.size()) {
        at_ = 0;
        rows_ = next_();
        if (rows_.empty()) next_ = nullptr;
      } else {
        builder_.add(rows_[at_++]);
      }
    }
    *batch = builder_.num_rows() > 0 ? builder_.finish() : nullptr;
    return arrow::Status::OK();
  }

 private:
  InputPtr input_;
  NextRows next_;  // empty: at its end
  std::vector<Row> rows_;
  size_t at_ = 0;  // of rows_, the next to be shown
  BatchBuilder builder_;
};

}  // namespace

const std::vector<std::string>& metadata_table_names() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> result;
    for (const NamedTable& table : kTables) result.emplace_back(table.name);
    return result;
  }();
  return names;
}

std::shared_ptr<arrow::RecordBatchReader> metadata_table(const TableMetadata& metadata, std::shared_ptr<FileIO> io,
                                                         const std::string& name, const MetadataTableOptions& options) {
  const auto* table =
      std::find_if(std::begin(kTables), std::end(kTables), [&](const NamedTable& known) { return name == known.name; });
  if (table == std::end(kTables))
    fail(ErrorKind::not_found, "There is no metadata table {}; there are: {}", name,
         fmt::join(metadata_table_names(), ", "));
  if (!table->of_one_snapshot && (options.snapshot_id || !options.ref.empty() || options.as_of_ms))
    fail(ErrorKind::invalid_argument, "The metadata table {} is of the whole table: it takes no snapshot, ref or time",
         name);
  const auto input = std::make_shared<const Input>(Input{metadata, std::move(io), options});
  return std::make_shared<TableReader>(input, table->make(input));
}

}  // namespace firn::iceberg
