#include "iceberg/inspect/check_snapshot.h"

#include <algorithm>
#include <charconv>
#include <map>

#include "base/error.h"
#include "base/parallel.h"
#include "iceberg/avro/container.h"
#include "iceberg/inspect/check_file.h"
#include "iceberg/manifest/file_identity.h"
#include "iceberg/manifest/snapshot_manifests.h"
#include "iceberg/puffin/puffin.h"
#include "iceberg/scan/scan.h"

#include <arrow/array.h>

namespace firn::iceberg {
namespace {

struct Totals {
  int64_t data_files = 0, records = 0, delete_files = 0, position_deletes = 0, equality_deletes = 0;
};

class SnapshotCheck {
 public:
  SnapshotCheck(const TableMetadata& metadata, const Snapshot& snapshot, const std::shared_ptr<FileIO>& io,
                const VerifyOptions& options, CheckedFiles& checked, Findings& findings)
      : metadata_(metadata),
        snapshot_(snapshot),
        object_(fmt::format("snapshot {}", snapshot.snapshot_id)),
        schema_(schema_of(metadata, snapshot)),
        io_(io),
        options_(options),
        checked_(checked),
        findings_(findings) {}

  void run() {
    say(object_);
    const std::optional<std::vector<ManifestFile>> manifests = read_list();
    if (!manifests) return;
    std::set<std::string> paths;
    for (const ManifestFile& manifest : *manifests)
      if (!paths.insert(manifest.manifest_path).second)
        findings_.error("manifest-duplicate", manifest.manifest_path, object_ + " lists it twice");
    for (const ManifestFile& manifest : *manifests)  // data first: deletes point at them
      if (manifest.content == ManifestContent::data) check_manifest(manifest);
    for (const ManifestFile& manifest : *manifests)
      if (manifest.content == ManifestContent::deletes) check_manifest(manifest);
    check_row_id_ranges();
    if (is_whole_) check_totals();
    if (options_.check_data && snapshot_.first_row_id && is_whole_) check_row_ids();
  }

 private:
  static const Schema& schema_of(const TableMetadata& metadata, const Snapshot& snapshot) {
    for (const Schema& schema : metadata.schemas)
      if (snapshot.schema_id == schema.schema_id()) return schema;
    return metadata.schema();
  }

  template <class... Args>
  void error(std::string_view code, const std::string& object, fmt::format_string<Args...> format, Args&&... args) {
    findings_.error(code, object, fmt::format(format, std::forward<Args>(args)...));
  }
  template <class... Args>
  void warning(std::string_view code, const std::string& object, fmt::format_string<Args...> format, Args&&... args) {
    findings_.warning(code, object, fmt::format(format, std::forward<Args>(args)...));
  }
  void say(const std::string& object) const {
    if (options_.progress) options_.progress(object);
  }

  // The file's bytes; nullopt: reported.
  std::optional<std::string> read(const std::string& path, std::string_view what) {
    std::optional<std::string> bytes = io_->read_if_exists(path);
    if (!bytes) {
      error("file-missing", path, "the {} of {} is not there", what, object_);
      is_whole_ = false;
    }
    return bytes;
  }

  std::optional<std::vector<ManifestFile>> read_list() {
    std::optional<std::string> bytes = std::string();
    if (!snapshot_.manifest_list.empty()) bytes = read(snapshot_.manifest_list, "manifest list");
    if (!bytes) return std::nullopt;
    try {
      return snapshot_manifests(metadata_, snapshot_, [&](const std::string&) { return std::move(*bytes); });
    } catch (const Error& e) {
      error("manifest-list-unreadable", snapshot_.manifest_list, "{}", e.what());
      return std::nullopt;
    }
  }

  const PartitionSpec* find_spec(int32_t id) const {
    for (const PartitionSpec& spec : metadata_.partition_specs)
      if (spec.spec_id == id) return &spec;
    return nullptr;
  }

  void check_manifest(const ManifestFile& manifest) {
    const std::string& path = manifest.manifest_path;
    say(path);
    const PartitionSpec* spec = find_spec(manifest.partition_spec_id);
    if (spec == nullptr) {
      error("manifest-spec-invalid", path, "it is of partition spec {}, which is not among the table's",
            manifest.partition_spec_id);
      is_whole_ = false;
      return;
    }
    const std::optional<std::string> bytes = read(path, "manifest");
    if (!bytes) return;
    // Old v1 snapshots know no lengths.
    if (!snapshot_.manifest_list.empty() && manifest.manifest_length != static_cast<int64_t>(bytes->size()))
      error("file-size-mismatch", path, "it has {} bytes, the manifest list says {}", bytes->size(),
            manifest.manifest_length);
    std::vector<ManifestEntry> entries;
    try {
      entries = read_manifest(*bytes, manifest, *spec, metadata_.schema(), /*live_only=*/false);
      check_header(manifest, *spec, *bytes);
    } catch (const Error& e) {
      error("manifest-unreadable", path, "{}", e.what());
      is_whole_ = false;
      return;
    }
    for (ManifestEntry& entry : entries) entry.file.partition_spec_id = manifest.partition_spec_id;
    check_numbers(manifest);
    check_counts(manifest, entries);
    check_summaries(manifest, *spec, entries);
    for (const ManifestEntry& entry : entries) check_entry(manifest, *spec, entry);
    check_files(entries);
  }

  // The Avro header against the list (spec, "Manifests").
  void check_header(const ManifestFile& manifest, const PartitionSpec& spec, const std::string& bytes) {
    const std::string& path = manifest.manifest_path;
    const avro::ContainerReader reader(bytes, path);
    const auto header = [&](const char* key) -> std::optional<std::string> {
      const auto found = reader.metadata().find(key);
      return found == reader.metadata().end() ? std::nullopt : std::optional<std::string>(found->second);
    };
    if (const auto content = header("content"); content && (*content == "deletes") != is_deletes(manifest))
      error("manifest-content-mismatch", path, "its header says '{}', the manifest list something else", *content);
    if (const auto id = header("partition-spec-id"); id && *id != std::to_string(manifest.partition_spec_id))
      error("manifest-spec-invalid", path, "its header says partition spec {}, the manifest list {}", *id,
            manifest.partition_spec_id);
    if (!findings_.strict()) return;
    const bool is_v1 = manifest.sequence_number.value_or(0) == 0;
    for (const char* key :
         {"schema", "partition-spec", "schema-id", "partition-spec-id", "format-version", "content"}) {
      const bool v1_requires = std::string_view(key) == "schema" || std::string_view(key) == "partition-spec";
      if (!header(key) && (!is_v1 || v1_requires))
        warning("manifest-header-invalid", path, "its header has no {}", key);
    }
    if (const auto text = header("partition-spec")) {
      const auto fields = PartitionSpec::fields_from_v1_json(parse_json(*text, path), path);
      bool same = fields.size() == spec.fields.size();
      for (size_t i = 0; same && i < fields.size(); ++i)
        same = fields[i].field_id == spec.fields[i].field_id && fields[i].transform == spec.fields[i].transform &&
               fields[i].source_ids == spec.fields[i].source_ids;
      if (!same)
        warning("manifest-header-invalid", path, "the partition spec in its header is not the table's spec {}",
                spec.spec_id);
    }
    const int32_t version = header("format-version").value_or("1") == "3" ? 3 : 2;
    is_v3_manifest_ = version == 3;
  }

  static bool is_deletes(const ManifestFile& manifest) { return manifest.content == ManifestContent::deletes; }

  void check_numbers(const ManifestFile& manifest) {
    const std::string& path = manifest.manifest_path;
    if (manifest.sequence_number.value_or(0) > snapshot_.sequence_number)
      error("manifest-sequence-number", path, "its sequence number {} is above that of {}, {}",
            *manifest.sequence_number, object_, snapshot_.sequence_number);
    if (!snapshot_.first_row_id) return;
    if (!is_deletes(manifest) && !manifest.first_row_id && may_hold_live_files(manifest))
      error("row-ids-missing", path, "it has no first_row_id, though {} is one of version 3", object_);
    if (is_deletes(manifest) && manifest.first_row_id)
      warning("row-ids-invalid", path, "it is of deletes and has a first_row_id");
  }

  void check_counts(const ManifestFile& manifest, const std::vector<ManifestEntry>& entries) {
    ManifestFile counted = manifest;
    set_counts(counted, entries);
    const auto compare = [&](const char* name, const auto& recorded, const auto& found) {
      if (!recorded) {
        if (snapshot_.sequence_number > 0)
          warning("manifest-counts-mismatch", manifest.manifest_path, "the manifest list has no {} of it", name);
      } else if (*recorded != *found) {
        error("manifest-counts-mismatch", manifest.manifest_path, "it has {} {}, the manifest list says {}", *found,
              name, *recorded);
      }
    };
    compare("added files", manifest.added_files_count, counted.added_files_count);
    compare("existing files", manifest.existing_files_count, counted.existing_files_count);
    compare("deleted files", manifest.deleted_files_count, counted.deleted_files_count);
    compare("added rows", manifest.added_rows_count, counted.added_rows_count);
    compare("existing rows", manifest.existing_rows_count, counted.existing_rows_count);
    compare("deleted rows", manifest.deleted_rows_count, counted.deleted_rows_count);
  }

  // What planning would skip the manifest by must not exclude a live file.
  void check_summaries(const ManifestFile& manifest, const PartitionSpec& spec,
                       const std::vector<ManifestEntry>& entries) {
    if (!manifest.partitions) return;
    const std::string& path = manifest.manifest_path;
    if (manifest.partitions->size() != spec.fields.size()) {
      error("manifest-summary-mismatch", path, "it has {} partition summaries for {} fields",
            manifest.partitions->size(), spec.fields.size());
      return;
    }
    const TypePtr type = spec.partition_type(metadata_.schema());
    std::set<size_t> reported;
    for (const ManifestEntry& entry : entries) {
      if (entry.status == EntryStatus::deleted) continue;
      for (size_t i = 0; i < std::min(spec.fields.size(), entry.file.partition.size()); ++i) {
        const Value& value = entry.file.partition[i];
        if (reported.contains(i) || covers((*manifest.partitions)[i], value, *type->fields()[i].type)) continue;
        reported.insert(i);
        error("manifest-summary-mismatch", path, "the summary of partition field {} excludes {}, which {} has",
              spec.fields[i].name, is_null(value) ? "null" : to_display(value, *type->fields()[i].type),
              entry.file.file_path);
      }
    }
  }

  static bool covers(const FieldSummary& summary, const Value& value, const Type& type) {
    if (is_null(value)) return summary.contains_null;
    if (is_nan(value)) return summary.contains_nan.value_or(true);
    if (type.id() == TypeId::unknown || type.id() == TypeId::uuid) return true;  // no type, or two orders
    const auto outside = [&](const std::optional<std::string>& bytes, bool is_lower) {
      const std::optional<Value> bound = bytes ? from_bytes(*bytes, type) : std::nullopt;
      if (!bound || bound->index() != value.index() || is_nan(*bound)) return false;
      return is_lower ? compare(value, *bound) < 0 : compare(value, *bound) > 0;
    };
    return !outside(summary.lower_bound, true) && !outside(summary.upper_bound, false);
  }

  void check_entry(const ManifestFile& manifest, const PartitionSpec& spec, const ManifestEntry& entry) {
    const DataFile& file = entry.file;
    const bool is_live = entry.status != EntryStatus::deleted;
    if ((file.content != FileContent::data) != is_deletes(manifest))
      error("manifest-content-mismatch", manifest.manifest_path, "{} is {} in a manifest of {}", file.file_path,
            file.content == FileContent::data ? "a data file" : "a delete file",
            is_deletes(manifest) ? "deletes" : "data");
    check_entry_numbers(manifest, entry);
    check_tuple(spec, file);
    if (!is_live) return;

    check_file_entry(file, metadata_, schema_, findings_);
    const std::string key = file_key(file);
    if (!live_.insert(key).second) error("file-duplicate", key, "it is live twice in {}", object_);
    if (file.content == FileContent::data) {
      data_files_[file.file_path] = file.record_count;
      ++totals_.data_files;
      totals_.records += file.record_count;
      check_row_id(file);
    } else {
      ++totals_.delete_files;
      const bool by_position = file.content == FileContent::position_deletes;
      (by_position ? totals_.position_deletes : totals_.equality_deletes) += file.record_count;
      check_delete(manifest, entry);
    }
  }

  void check_entry_numbers(const ManifestFile& manifest, const ManifestEntry& entry) {
    const std::string& path = entry.file.file_path;
    const int64_t of_manifest = manifest.sequence_number.value_or(0);
    const int64_t data = entry.sequence_number.value_or(0), file = entry.file_sequence_number.value_or(0);
    if (data > of_manifest || file > of_manifest || data > file)
      error("entry-sequence-number", path,
            "its data sequence number is {}, its file sequence number {}, its manifest's {}", data, file, of_manifest);
    if (entry.status == EntryStatus::added && file != of_manifest)
      error("entry-sequence-number", path, "it was added with file sequence number {} in a manifest of {}", file,
            of_manifest);
    if (entry.status != EntryStatus::deleted && data < manifest.min_sequence_number.value_or(0))
      error("manifest-min-sequence-number", manifest.manifest_path,
            "{} has data sequence number {}, below the manifest's least, {}", path, data,
            *manifest.min_sequence_number);
    if (entry.status == EntryStatus::added && entry.snapshot_id != manifest.added_snapshot_id)
      warning("entry-snapshot-mismatch", path, "it was added by snapshot {} in a manifest of snapshot {}",
              entry.snapshot_id.value_or(0), manifest.added_snapshot_id);
  }

  void check_tuple(const PartitionSpec& spec, const DataFile& file) {
    if (file.partition.size() != spec.fields.size()) {
      error("partition-tuple-invalid", file.file_path, "it has {} partition values for {} fields",
            file.partition.size(), spec.fields.size());
      return;
    }
    for (size_t i = 0; i < spec.fields.size(); ++i)
      if (spec.fields[i].transform.kind == TransformKind::bucket)
        if (const auto* bucket = std::get_if<int32_t>(&file.partition[i]);
            bucket != nullptr && (*bucket < 0 || *bucket >= spec.fields[i].transform.parameter))
          error("partition-tuple-invalid", file.file_path, "partition field {} is bucket {} of {}", spec.fields[i].name,
                *bucket, spec.fields[i].transform.parameter);
  }

  void check_row_id(const DataFile& file) {
    if (!snapshot_.first_row_id) return;
    if (!file.first_row_id) {
      error("row-ids-missing", file.file_path, "it has no first_row_id in {}, one of version 3", object_);
      return;
    }
    row_ids_.emplace_back(*file.first_row_id, file.record_count, file.file_path);
    if (*file.first_row_id + file.record_count > metadata_.next_row_id)
      error("next-row-id-too-low", file.file_path, "its row ids end at {}, the table's next is {}",
            *file.first_row_id + file.record_count, metadata_.next_row_id);
  }

  void check_delete(const ManifestFile& manifest, const ManifestEntry& entry) {
    const DataFile& file = entry.file;
    if (!is_deletion_vector(file)) {
      if (file.content == FileContent::position_deletes && entry.status == EntryStatus::added && is_v3_manifest_ &&
          manifest.sequence_number.value_or(0) > 0)
        warning("position-deletes-in-v3", file.file_path,
                "it was added in version 3, which takes deletion vectors alone");
      return;
    }
    const std::string& target = file.referenced_data_file;
    if (target.empty()) return;  // reported with the entry
    if (!vector_targets_.insert(target).second)
      error("deletion-vector-duplicate", target, "it has two deletion vectors in {}", object_);
    if (!data_files_.contains(target)) {
      const bool is_new = entry.snapshot_id == snapshot_.snapshot_id && entry.status == EntryStatus::added;
      const std::string message = fmt::format("its deletion vector is of {}, which {} does not have", target, object_);
      if (is_new) {
        findings_.error("delete-target-missing", file.file_path, message);
      } else {
        findings_.warning("delete-target-missing", file.file_path, message);
      }
    }
  }

  // Live files that no earlier snapshot had looked at.
  void check_files(const std::vector<ManifestEntry>& entries) {
    std::vector<const ManifestEntry*> files;
    for (const ManifestEntry& entry : entries)
      if (entry.status != EntryStatus::deleted && checked_.insert(file_key(entry.file)).second) files.push_back(&entry);
    parallel_for(files.size(), options_.threads, [&](size_t i) {
      const ManifestEntry& entry = *files[i];
      say(entry.file.file_path);
      FileCheck check{.metadata = metadata_, .schema = schema_, .io = *io_, .data_files = data_files_};
      check.is_new = entry.status == EntryStatus::added && entry.snapshot_id == snapshot_.snapshot_id;
      check.check_data = options_.check_data;
      check_file(entry.file, check, findings_);
    });
  }

  void check_row_id_ranges() {
    std::sort(row_ids_.begin(), row_ids_.end());
    int64_t end = 0;
    for (const auto& [first, count, path] : row_ids_) {
      if (count > 0 && first < end)
        error("row-id-ranges-overlap", path, "its row ids start at {}, within those of another file of {}", first,
              object_);
      end = std::max(end, first + count);
    }
  }

  void check_totals() {
    const auto compare = [&](const char* key, int64_t found) {
      const auto text = snapshot_.summary.find(key);
      if (text == snapshot_.summary.end()) return;
      int64_t recorded = 0;
      const auto [end, code] =
          std::from_chars(text->second.data(), text->second.data() + text->second.size(), recorded);
      if (code != std::errc() || end != text->second.data() + text->second.size() || recorded != found)
        warning("summary-mismatch", object_, "its summary says {} = {}, its manifests have {}", key, text->second,
                found);
    };
    compare("total-data-files", totals_.data_files);
    compare("total-records", totals_.records);
    compare("total-delete-files", totals_.delete_files);
    compare("total-position-deletes", totals_.position_deletes);
    compare("total-equality-deletes", totals_.equality_deletes);
  }

  // Each live row has its own id. A bit a row is held.
  void check_row_ids() {
    ScanOptions scan_options;
    scan_options.snapshot_id = snapshot_.snapshot_id;
    scan_options.columns = {"_row_id"};
    scan_options.threads = options_.threads;
    PositionSet seen;
    try {
      const auto reader = scan(metadata_, io_, scan_options);
      std::shared_ptr<arrow::RecordBatch> batch;
      while (reader->ReadNext(&batch).ok() && batch) {
        const auto& ids = static_cast<const arrow::Int64Array&>(*batch->column(0));
        for (int64_t row = 0; row < ids.length(); ++row) {
          if (ids.IsNull(row)) continue;
          if (ids.Value(row) < 0 || seen.contains(ids.Value(row))) {
            error("row-id-duplicate", object_, "row id {} is not one row's alone", ids.Value(row));
            return;
          }
          seen.add(ids.Value(row));
        }
      }
    } catch (const Error& e) {
      error("snapshot-unreadable", object_, "{}", e.what());
    }
  }

  const TableMetadata& metadata_;
  const Snapshot& snapshot_;
  const std::string object_;
  const Schema& schema_;
  const std::shared_ptr<FileIO>& io_;
  const VerifyOptions& options_;
  CheckedFiles& checked_;
  Findings& findings_;
  bool is_whole_ = true;         // every manifest could be read
  bool is_v3_manifest_ = false;  // the one being looked at; known if strict
  std::set<std::string> live_;   // file keys
  RecordCounts data_files_;
  std::vector<std::tuple<int64_t, int64_t, std::string>> row_ids_;  // first, count, path
  std::set<std::string> vector_targets_;
  Totals totals_;
};

}  // namespace

void check_snapshot(const TableMetadata& metadata, const Snapshot& snapshot, const std::shared_ptr<FileIO>& io,
                    const VerifyOptions& options, CheckedFiles& checked, Findings& findings) {
  SnapshotCheck(metadata, snapshot, io, options, checked, findings).run();
}

}  // namespace firn::iceberg
