// Manifests read: the writer's schema is planned once, then every entry is decoded straight into its struct.
#include <algorithm>

#include "base/error.h"
#include "iceberg/avro/container.h"
#include "iceberg/avro/cursor.h"
#include "iceberg/manifest/manifest.h"
#include "iceberg/manifest/partition_value.h"
#include "iceberg/manifest/record_plan.h"

namespace firn::iceberg {

namespace {

using avro::Cursor;
using avro::Node;

enum class EntrySlot : uint8_t { status, snapshot_id, sequence_number, file_sequence_number, data_file };
constexpr FieldRule<EntrySlot> kEntryRules[] = {
    {0, "status", EntrySlot::status, Shape::integer},
    {1, "snapshot_id", EntrySlot::snapshot_id, Shape::integer},
    {3, "sequence_number", EntrySlot::sequence_number, Shape::integer},
    {4, "file_sequence_number", EntrySlot::file_sequence_number, Shape::integer},
    {2, "data_file", EntrySlot::data_file, Shape::record},
};

enum class FileSlot : uint8_t {
  content,
  file_path,
  file_format,
  partition,
  record_count,
  file_size,
  column_sizes,
  value_counts,
  null_value_counts,
  nan_value_counts,
  lower_bounds,
  upper_bounds,
  key_metadata,
  split_offsets,
  equality_ids,
  sort_order_id,
  first_row_id,
  referenced_data_file,
  content_offset,
  content_size,
};
constexpr FieldRule<FileSlot> kFileRules[] = {
    {134, "content", FileSlot::content, Shape::integer},
    {100, "file_path", FileSlot::file_path, Shape::bytes},
    {101, "file_format", FileSlot::file_format, Shape::bytes},
    {102, "partition", FileSlot::partition, Shape::record},
    {103, "record_count", FileSlot::record_count, Shape::integer},
    {104, "file_size_in_bytes", FileSlot::file_size, Shape::integer},
    {108, "column_sizes", FileSlot::column_sizes, Shape::integer_map},
    {109, "value_counts", FileSlot::value_counts, Shape::integer_map},
    {110, "null_value_counts", FileSlot::null_value_counts, Shape::integer_map},
    {137, "nan_value_counts", FileSlot::nan_value_counts, Shape::integer_map},
    {125, "lower_bounds", FileSlot::lower_bounds, Shape::bytes_map},
    {128, "upper_bounds", FileSlot::upper_bounds, Shape::bytes_map},
    {131, "key_metadata", FileSlot::key_metadata, Shape::bytes},
    {132, "split_offsets", FileSlot::split_offsets, Shape::integer_list},
    {135, "equality_ids", FileSlot::equality_ids, Shape::integer_list},
    {140, "sort_order_id", FileSlot::sort_order_id, Shape::integer},
    {142, "first_row_id", FileSlot::first_row_id, Shape::integer},
    {143, "referenced_data_file", FileSlot::referenced_data_file, Shape::bytes},
    {144, "content_offset", FileSlot::content_offset, Shape::integer},
    {145, "content_size_in_bytes", FileSlot::content_size, Shape::integer},
};

// The columns whose statistics are kept.
class ColumnFilter {
 public:
  explicit ColumnFilter(const std::vector<int32_t>* wanted) : keeps_all_(wanted == nullptr) {
    if (wanted != nullptr) wanted_ = *wanted;
    std::sort(wanted_.begin(), wanted_.end());
  }
  bool keeps_none() const { return !keeps_all_ && wanted_.empty(); }
  bool keeps(int32_t id) const { return keeps_all_ || std::binary_search(wanted_.begin(), wanted_.end(), id); }

 private:
  bool keeps_all_;
  std::vector<int32_t> wanted_;
};

// A field of the writer's partition record.
struct PartitionStep {
  std::optional<size_t> index;  // in the spec's fields; nullopt: not of this spec
  avro::Nullable value;
  TypePtr type = Type::primitive(TypeId::unknown);
};

class EntryDecoder {
 public:
  EntryDecoder(const Node& root, const PartitionSpec& spec, const Schema& schema,
               const std::vector<int32_t>* columns_wanted, FixedEncoding fixed_encoding, std::string_view where)
      : columns_(columns_wanted), partition_size_(spec.fields.size()), fixed_encoding_(fixed_encoding) {
    entry_steps_ = plan_record<EntrySlot>(root, kEntryRules, where);
    const Node* file = nullptr;
    bool has_status = false;
    for (const auto& step : entry_steps_) {
      if (!step.wanted) continue;
      if (step.slot == EntrySlot::data_file) file = step.value.value;
      has_status |= step.slot == EntrySlot::status;
      has_sequence_numbers_ |= step.slot == EntrySlot::sequence_number;
    }
    if (file == nullptr || !has_status) fail(ErrorKind::corrupt, "{}: its entries lack status or data_file", where);
    file_steps_ = plan_record<FileSlot>(*file, kFileRules, where);
    for (auto& step : file_steps_) {
      if (!step.wanted || step.value.value == nullptr) continue;
      if (step.slot == FileSlot::partition) plan_partition(*step.value.value, spec, schema, where);
      // Nothing of a map would be kept: read over it whole.
      if (columns_.keeps_none() && is_statistics(step.slot)) step.wanted = false;
    }
  }

  // False if the entry is deleted and `live_only`; the rest of it is read over then.
  bool decode(Cursor& cursor, ManifestEntry& entry, bool live_only) const {
    bool is_kept = true;
    for (const auto& step : entry_steps_) {
      if (!is_kept || !step.wanted) {
        cursor.skip(*step.node);
        continue;
      }
      if (!cursor.enter(step.value)) continue;
      switch (step.slot) {
        case EntrySlot::status: {
          const int64_t status = cursor.read_long();
          if (status < 0 || status > 2) cursor.fail_corrupt("an unknown entry status");
          entry.status = static_cast<EntryStatus>(status);
          is_kept = !live_only || entry.status != EntryStatus::deleted;
          break;
        }
        case EntrySlot::snapshot_id:
          entry.snapshot_id = cursor.read_long();
          break;
        case EntrySlot::sequence_number:
          entry.sequence_number = cursor.read_long();
          break;
        case EntrySlot::file_sequence_number:
          entry.file_sequence_number = cursor.read_long();
          break;
        case EntrySlot::data_file:
          decode_file(cursor, entry.file);
          break;
      }
    }
    if (is_kept && entry.file.file_path.empty()) cursor.fail_corrupt("an entry without a file path");
    return is_kept;
  }

  bool has_sequence_numbers() const { return has_sequence_numbers_; }
  bool has_ambiguous_partition() const { return has_ambiguous_partition_; }

 private:
  static bool is_statistics(FileSlot slot) { return slot >= FileSlot::column_sizes && slot <= FileSlot::upper_bounds; }

  void plan_partition(const Node& record, const PartitionSpec& spec, const Schema& schema, std::string_view where) {
    const TypePtr type = spec.partition_type(schema);
    for (const avro::RecordField& field : record.fields) {
      PartitionStep step;
      step.value = avro::as_nullable(*field.type, where);
      has_ambiguous_partition_ |= step.value.value != nullptr && is_ambiguous(*step.value.value);
      for (size_t i = 0; i < type->fields().size(); ++i) {
        const Field& target = type->fields()[i];
        if (field.field_id ? *field.field_id != target.id : field.name != target.name) continue;
        step.index = i;
        step.type = target.type;
      }
      partition_steps_.push_back(std::move(step));
    }
  }

  void decode_file(Cursor& cursor, DataFile& file) const {
    file.partition.resize(partition_size_);
    for (const auto& step : file_steps_) {
      if (!step.wanted) {
        cursor.skip(*step.node);
      } else if (cursor.enter(step.value)) {
        decode_file_field(cursor, step, file);
      }
    }
  }

  void decode_file_field(Cursor& cursor, const Step<FileSlot>& step, DataFile& file) const {
    const Node& node = *step.value.value;
    switch (step.slot) {
      case FileSlot::content: {
        const int64_t content = cursor.read_long();
        if (content < 0 || content > 2) cursor.fail_corrupt("an unknown file content");
        file.content = static_cast<FileContent>(content);
        return;
      }
      case FileSlot::file_path:
        file.file_path = read_bytes(cursor, node);
        return;
      case FileSlot::file_format:
        file.file_format = read_bytes(cursor, node);
        for (char& c : file.file_format)
          if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
        return;
      case FileSlot::partition:
        return decode_partition(cursor, file.partition);
      case FileSlot::record_count:
        file.record_count = read_count(cursor);
        return;
      case FileSlot::file_size:
        file.file_size_bytes = read_count(cursor);
        return;
      case FileSlot::column_sizes:
        return decode_map(cursor, step, file.column_sizes);
      case FileSlot::value_counts:
        return decode_map(cursor, step, file.value_counts);
      case FileSlot::null_value_counts:
        return decode_map(cursor, step, file.null_value_counts);
      case FileSlot::nan_value_counts:
        return decode_map(cursor, step, file.nan_value_counts);
      case FileSlot::lower_bounds:
        return decode_map(cursor, step, file.lower_bounds);
      case FileSlot::upper_bounds:
        return decode_map(cursor, step, file.upper_bounds);
      case FileSlot::key_metadata:
        file.key_metadata = read_bytes(cursor, node);
        return;
      case FileSlot::split_offsets:
        while (const int64_t count = cursor.next_item_count(*node.items))
          for (int64_t i = 0; i < count; ++i) file.split_offsets.push_back(cursor.read_long());
        return;
      case FileSlot::equality_ids:
        while (const int64_t count = cursor.next_item_count(*node.items))
          for (int64_t i = 0; i < count; ++i) file.equality_ids.push_back(cursor.read_int());
        return;
      case FileSlot::sort_order_id:
        file.sort_order_id = cursor.read_int();
        return;
      case FileSlot::first_row_id:
        file.first_row_id = read_count(cursor);
        return;
      case FileSlot::referenced_data_file:
        file.referenced_data_file = read_bytes(cursor, node);
        return;
      case FileSlot::content_offset:
        file.content_offset = read_count(cursor);
        return;
      case FileSlot::content_size:
        file.content_size_bytes = read_count(cursor);
        return;
    }
  }

  template <class T>
  void decode_map(Cursor& cursor, const Step<FileSlot>& step, std::map<int32_t, T>& map) const {
    const Node& pair = *step.value.value->items;
    const Node& value_node = *pair.fields[1].type;
    while (const int64_t count = cursor.next_item_count(pair)) {
      for (int64_t i = 0; i < count; ++i) {
        const int32_t key = cursor.read_int();
        if (!columns_.keeps(key)) {
          cursor.skip(value_node);
        } else if (cursor.enter(step.map_value)) {
          // Writers go through columns in order, so the end is nearly always the place.
          if constexpr (std::is_same_v<T, std::string>) {
            map.emplace_hint(map.end(), key, read_bytes(cursor, *step.map_value.value));
          } else {
            map.emplace_hint(map.end(), key, cursor.read_long());
          }
        }
      }
    }
  }

  void decode_partition(Cursor& cursor, std::vector<Value>& partition) const {
    for (const PartitionStep& step : partition_steps_) {
      if (!cursor.enter(step.value)) continue;
      Value value = read_partition_value(cursor, *step.value.value, *step.type, fixed_encoding_);
      if (step.index) partition[*step.index] = std::move(value);
    }
  }

  ColumnFilter columns_;
  size_t partition_size_;
  FixedEncoding fixed_encoding_;
  bool has_ambiguous_partition_ = false;
  bool has_sequence_numbers_ = false;
  std::vector<Step<EntrySlot>> entry_steps_;
  std::vector<Step<FileSlot>> file_steps_;
  std::vector<PartitionStep> partition_steps_;
};

// Fills in what entries take from their manifest, in the manifest's order.
class Inheritance {
 public:
  Inheritance(const ManifestFile& manifest, bool has_sequence_numbers)
      : manifest_(manifest), has_sequence_numbers_(has_sequence_numbers), next_row_id_(manifest.first_row_id) {}

  void apply(ManifestEntry& entry) {
    entry.file.partition_spec_id = manifest_.partition_spec_id;
    if (!entry.snapshot_id) entry.snapshot_id = manifest_.added_snapshot_id;
    inherit_sequence_number(entry, entry.sequence_number);
    inherit_sequence_number(entry, entry.file_sequence_number);
    if (entry.file.content == FileContent::data) {
      inherit_row_ids(entry);
    } else {
      entry.file.first_row_id.reset();  // always null for delete files (spec, "First Row ID Inheritance")
    }
  }

 private:
  void inherit_sequence_number(const ManifestEntry& entry, std::optional<int64_t>& number) const {
    if (number) return;
    if (!has_sequence_numbers_) {  // v1: 0 for all files (spec, "Sequence Number Inheritance")
      number = 0;
    } else if (entry.status == EntryStatus::added || manifest_.sequence_number == 0) {
      number = manifest_.sequence_number;
    } else if (entry.status == EntryStatus::existing) {
      // A guess would apply deletes to the wrong rows.
      fail(ErrorKind::corrupt, "{}: the existing file {} has no sequence number", manifest_.manifest_path,
           entry.file.file_path);
    }
  }

  // Deleted files take no part, as in Java: the ids reserved for a manifest are those of its added and existing rows.
  void inherit_row_ids(ManifestEntry& entry) {
    if (!next_row_id_ || entry.file.first_row_id || entry.status == EntryStatus::deleted) return;
    entry.file.first_row_id = next_row_id_;
    int64_t next = 0;
    if (__builtin_add_overflow(*next_row_id_, entry.file.record_count, &next))
      fail(ErrorKind::corrupt, "{}: row ids beyond 64 bits", manifest_.manifest_path);
    next_row_id_ = next;
  }

  const ManifestFile& manifest_;
  bool has_sequence_numbers_;
  std::optional<int64_t> next_row_id_;
};

struct ReadOptions {
  const PartitionSpec& spec;
  const Schema& schema;
  bool live_only = false;
  const std::vector<int32_t>* columns_wanted = nullptr;
};

// Reads all entries under one reading of fixed partition values; sets `is_ambiguous_manifest` where there are such
// values.
std::vector<ManifestEntry> read_entries(std::string_view bytes, const ManifestFile& manifest,
                                        const ReadOptions& options, FixedEncoding fixed_encoding,
                                        bool& is_ambiguous_manifest) {
  const std::string_view where = manifest.manifest_path;
  avro::ContainerReader reader(bytes, where);
  const EntryDecoder decoder(reader.schema().root(), options.spec, options.schema, options.columns_wanted,
                             fixed_encoding, where);
  is_ambiguous_manifest = decoder.has_ambiguous_partition();
  Inheritance inheritance(manifest, decoder.has_sequence_numbers());

  std::vector<ManifestEntry> entries;
  while (const auto block = reader.next_block()) {
    Cursor cursor(block->data, where);
    constexpr size_t kEntryBytesMin = 40;  // a path and a few numbers: keeps a false count from reserving much
    const size_t expected = std::min(static_cast<size_t>(block->record_count), block->data.size() / kEntryBytesMin);
    if (entries.capacity() - entries.size() < expected)
      entries.reserve(std::max(entries.size() + expected, entries.size() * 2));
    for (int64_t i = 0; i < block->record_count; ++i) {
      ManifestEntry& entry = entries.emplace_back();
      if (decoder.decode(cursor, entry, options.live_only)) {
        inheritance.apply(entry);
      } else {
        entries.pop_back();
      }
    }
    if (cursor.remaining() != 0) cursor.fail_corrupt("bytes after a block's last entry");
  }
  return entries;
}

}  // namespace

std::vector<ManifestEntry> read_manifest(std::string_view bytes, const ManifestFile& manifest,
                                         const PartitionSpec& spec, const Schema& schema, bool live_only,
                                         const std::vector<int32_t>* columns_wanted) {
  const ReadOptions options{.spec = spec, .schema = schema, .live_only = live_only, .columns_wanted = columns_wanted};
  bool is_ambiguous_manifest = false;
  // With lengths first: each must be the type's, so a file without them is told at its first value or soon after.
  try {
    return read_entries(bytes, manifest, options, FixedEncoding::with_length, is_ambiguous_manifest);
  } catch (const Error& e) {
    if (e.kind() != ErrorKind::corrupt || !is_ambiguous_manifest) throw;
  }
  return read_entries(bytes, manifest, options, FixedEncoding::plain, is_ambiguous_manifest);
}

}  // namespace firn::iceberg
