#include "iceberg/metadata/table_metadata.h"

#include <charconv>

#include "base/error.h"

namespace firn::iceberg {

const std::string& Snapshot::operation() const {
  static const std::string kNone;
  const auto found = summary.find("operation");
  return found == summary.end() ? kNone : found->second;
}

const Snapshot* SnapshotList::find(int64_t snapshot_id) const {
  // From the end: nearly always it is a recent one that is asked for.
  for (auto slot = slots_.rbegin(); slot != slots_.rend(); ++slot)
    if (slot->snapshot_id == snapshot_id) return &slot->kept->snapshot;
  return nullptr;
}

void SnapshotList::push_back(Snapshot snapshot) {
  const int64_t id = snapshot.snapshot_id;
  slots_.push_back({id, std::make_shared<const Kept>(std::move(snapshot))});
}

void SnapshotList::replace(size_t index, Snapshot snapshot) {
  const int64_t id = snapshot.snapshot_id;
  slots_[index] = {id, std::make_shared<const Kept>(std::move(snapshot))};
}

const Schema& TableMetadata::schema() const { return schema(current_schema_id); }

const Schema& TableMetadata::schema(int32_t id) const {
  for (const Schema& schema : schemas)
    if (schema.schema_id() == id) return schema;
  fail(ErrorKind::corrupt, "table {}: its metadata name schema {}, which is not among them", location, id);
}

const PartitionSpec& TableMetadata::spec() const { return spec(default_spec_id); }

const PartitionSpec& TableMetadata::spec(int32_t id) const {
  for (const PartitionSpec& spec : partition_specs)
    if (spec.spec_id == id) return spec;
  fail(ErrorKind::corrupt, "table {}: its metadata name partition spec {}, which is not among them", location, id);
}

const SortOrder& TableMetadata::sort_order() const {
  for (const SortOrder& order : sort_orders)
    if (order.order_id == default_sort_order_id) return order;
  fail(ErrorKind::corrupt, "table {}: its metadata name sort order {}, which is not among them", location,
       default_sort_order_id);
}

const Snapshot* TableMetadata::current_snapshot() const {
  return current_snapshot_id ? find_snapshot(*current_snapshot_id) : nullptr;
}

const Snapshot* TableMetadata::find_snapshot(int64_t id) const { return snapshots.find(id); }

std::string TableMetadata::property(std::string_view key, std::string_view fallback) const {
  const auto found = properties.find(std::string(key));
  return found == properties.end() ? std::string(fallback) : found->second;
}

int64_t TableMetadata::int_property(std::string_view key, int64_t fallback) const {
  const auto found = properties.find(std::string(key));
  if (found == properties.end()) return fallback;
  const std::string& text = found->second;
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size())
    fail(ErrorKind::invalid_argument, "table {}: property {} is '{}', which is no integer; set another value", location,
         key, text);
  return value;
}

bool TableMetadata::bool_property(std::string_view key, bool fallback) const {
  const auto found = properties.find(std::string(key));
  if (found == properties.end()) return fallback;
  // As Java's Boolean.parseBoolean: what is not "true" in any case is false.
  const std::string& text = found->second;
  return text.size() == 4 && (text[0] | 0x20) == 't' && (text[1] | 0x20) == 'r' && (text[2] | 0x20) == 'u' &&
         (text[3] | 0x20) == 'e';
}

}  // namespace firn::iceberg
