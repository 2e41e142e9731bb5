// Manifest lists read.
#include "base/error.h"
#include "iceberg/avro/container.h"
#include "iceberg/avro/cursor.h"
#include "iceberg/manifest/manifest.h"
#include "iceberg/manifest/record_plan.h"

namespace firn::iceberg {

namespace {

using avro::Cursor;
using avro::Node;

enum class ListSlot : uint8_t {
  manifest_path,
  manifest_length,
  partition_spec_id,
  content,
  sequence_number,
  min_sequence_number,
  added_snapshot_id,
  added_files_count,
  existing_files_count,
  deleted_files_count,
  added_rows_count,
  existing_rows_count,
  deleted_rows_count,
  partitions,
  key_metadata,
  first_row_id,
};
constexpr FieldRule<ListSlot> kListRules[] = {
    {500, "manifest_path", ListSlot::manifest_path, Shape::bytes},
    {501, "manifest_length", ListSlot::manifest_length, Shape::integer},
    {502, "partition_spec_id", ListSlot::partition_spec_id, Shape::integer},
    {517, "content", ListSlot::content, Shape::integer},
    {515, "sequence_number", ListSlot::sequence_number, Shape::integer},
    {516, "min_sequence_number", ListSlot::min_sequence_number, Shape::integer},
    {503, "added_snapshot_id", ListSlot::added_snapshot_id, Shape::integer},
    {504, "added_files_count", ListSlot::added_files_count, Shape::integer, "added_data_files_count"},
    {505, "existing_files_count", ListSlot::existing_files_count, Shape::integer, "existing_data_files_count"},
    {506, "deleted_files_count", ListSlot::deleted_files_count, Shape::integer, "deleted_data_files_count"},
    {512, "added_rows_count", ListSlot::added_rows_count, Shape::integer},
    {513, "existing_rows_count", ListSlot::existing_rows_count, Shape::integer},
    {514, "deleted_rows_count", ListSlot::deleted_rows_count, Shape::integer},
    {507, "partitions", ListSlot::partitions, Shape::record_list},
    {519, "key_metadata", ListSlot::key_metadata, Shape::bytes},
    {520, "first_row_id", ListSlot::first_row_id, Shape::integer},
};

enum class SummarySlot : uint8_t { contains_null, contains_nan, lower_bound, upper_bound };
constexpr FieldRule<SummarySlot> kSummaryRules[] = {
    {509, "contains_null", SummarySlot::contains_null, Shape::boolean},
    {518, "contains_nan", SummarySlot::contains_nan, Shape::boolean},
    {510, "lower_bound", SummarySlot::lower_bound, Shape::bytes},
    {511, "upper_bound", SummarySlot::upper_bound, Shape::bytes},
};

class ListDecoder {
 public:
  ListDecoder(const Node& root, std::string_view where) {
    steps_ = plan_record<ListSlot>(root, kListRules, where);
    for (const auto& step : steps_)
      if (step.wanted && step.slot == ListSlot::partitions && step.value.value != nullptr)
        summary_steps_ = plan_record<SummarySlot>(*step.value.value->items, kSummaryRules, where);
  }

  ManifestFile decode(Cursor& cursor) const {
    ManifestFile manifest;
    // What v1 lists lack (spec, "Manifest Lists").
    manifest.sequence_number = 0;
    manifest.min_sequence_number = 0;
    for (const auto& step : steps_) {
      if (!step.wanted) {
        cursor.skip(*step.node);
      } else if (cursor.enter(step.value)) {
        decode_field(cursor, step, manifest);
      }
    }
    if (manifest.manifest_path.empty()) cursor.fail_corrupt("a manifest without a path");
    return manifest;
  }

 private:
  void decode_field(Cursor& cursor, const Step<ListSlot>& step, ManifestFile& manifest) const {
    const Node& node = *step.value.value;
    switch (step.slot) {
      case ListSlot::manifest_path:
        manifest.manifest_path = read_bytes(cursor, node);
        return;
      case ListSlot::manifest_length:
        manifest.manifest_length = read_count(cursor);
        return;
      case ListSlot::partition_spec_id:
        manifest.partition_spec_id = cursor.read_int();
        return;
      case ListSlot::content: {
        const int64_t content = cursor.read_long();
        if (content < 0 || content > 1) cursor.fail_corrupt("an unknown manifest content");
        manifest.content = static_cast<ManifestContent>(content);
        return;
      }
      case ListSlot::sequence_number:
        manifest.sequence_number = cursor.read_long();
        return;
      case ListSlot::min_sequence_number:
        manifest.min_sequence_number = cursor.read_long();
        return;
      case ListSlot::added_snapshot_id:
        manifest.added_snapshot_id = cursor.read_long();
        return;
      case ListSlot::added_files_count:
        manifest.added_files_count = decode_files_count(cursor);
        return;
      case ListSlot::existing_files_count:
        manifest.existing_files_count = decode_files_count(cursor);
        return;
      case ListSlot::deleted_files_count:
        manifest.deleted_files_count = decode_files_count(cursor);
        return;
      case ListSlot::added_rows_count:
        manifest.added_rows_count = decode_rows_count(cursor);
        return;
      case ListSlot::existing_rows_count:
        manifest.existing_rows_count = decode_rows_count(cursor);
        return;
      case ListSlot::deleted_rows_count:
        manifest.deleted_rows_count = decode_rows_count(cursor);
        return;
      case ListSlot::partitions:
        manifest.partitions = decode_summaries(cursor, *node.items);
        return;
      case ListSlot::key_metadata:
        manifest.key_metadata = read_bytes(cursor, node);
        return;
      case ListSlot::first_row_id:
        manifest.first_row_id = read_count(cursor);
        return;
    }
  }

  // Negative counts are how some old writers spell an unknown one.
  static std::optional<int32_t> decode_files_count(Cursor& cursor) {
    const int32_t count = cursor.read_int();
    return count < 0 ? std::nullopt : std::optional(count);
  }
  static std::optional<int64_t> decode_rows_count(Cursor& cursor) {
    const int64_t count = cursor.read_long();
    return count < 0 ? std::nullopt : std::optional(count);
  }

  std::vector<FieldSummary> decode_summaries(Cursor& cursor, const Node& item) const {
    std::vector<FieldSummary> summaries;
    if (item.is_empty) cursor.fail_corrupt("empty field summaries");
    while (const int64_t count = cursor.next_item_count(item)) {
      for (int64_t i = 0; i < count; ++i) {
        FieldSummary& summary = summaries.emplace_back();
        for (const auto& step : summary_steps_) {
          if (!step.wanted) {
            cursor.skip(*step.node);
          } else if (cursor.enter(step.value)) {
            decode_summary_field(cursor, step, summary);
          }
        }
      }
    }
    return summaries;
  }

  static void decode_summary_field(Cursor& cursor, const Step<SummarySlot>& step, FieldSummary& summary) {
    switch (step.slot) {
      case SummarySlot::contains_null:
        summary.contains_null = cursor.read_boolean();
        return;
      case SummarySlot::contains_nan:
        summary.contains_nan = cursor.read_boolean();
        return;
      case SummarySlot::lower_bound:
        summary.lower_bound = read_bytes(cursor, *step.value.value);
        return;
      case SummarySlot::upper_bound:
        summary.upper_bound = read_bytes(cursor, *step.value.value);
        return;
    }
  }

  std::vector<Step<ListSlot>> steps_;
  std::vector<Step<SummarySlot>> summary_steps_;
};

}  // namespace

std::vector<ManifestFile> read_manifest_list(std::string_view bytes, std::string_view where) {
  avro::ContainerReader reader(bytes, where);
  const ListDecoder decoder(reader.schema().root(), where);
  std::vector<ManifestFile> manifests;
  while (const auto block = reader.next_block()) {
    Cursor cursor(block->data, where);
    // An entry of an empty schema fails for its missing path, so a false count makes for no work.
    for (int64_t i = 0; i < block->record_count; ++i) manifests.push_back(decoder.decode(cursor));
    if (cursor.remaining() != 0) cursor.fail_corrupt("bytes after a block's last manifest");
  }
  return manifests;
}

}  // namespace firn::iceberg
