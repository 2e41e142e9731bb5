#include "iceberg/commit/removal.h"

#include <algorithm>

#include "base/error.h"
#include "iceberg/manifest/file_identity.h"

namespace firn::iceberg {
namespace {

// Whether a field of some file in the manifest may have `value`.
bool may_hold(const FieldSummary& summary, const Value& value, const Type& type) {
  if (is_null(value)) return summary.contains_null;
  if (is_nan(value)) return summary.contains_nan.value_or(true);
  if (type.is_nested() || type.id() == TypeId::unknown || type.id() == TypeId::uuid) return true;  // no one order
  if (!summary.lower_bound || !summary.upper_bound) return true;
  const std::optional<Value> lower = from_bytes(*summary.lower_bound, type);
  const std::optional<Value> upper = from_bytes(*summary.upper_bound, type);
  if (!lower || !upper || lower->index() != value.index() || upper->index() != value.index()) return true;
  return compare(*lower, value) <= 0 && compare(value, *upper) <= 0;
}

bool may_hold_partition(const ManifestFile& manifest, const Type& partition_type, const PartitionTuple& tuple) {
  if (tuple.spec_id != manifest.partition_spec_id) return false;
  const std::vector<Field>& fields = partition_type.fields();
  if (!manifest.partitions || manifest.partitions->size() != fields.size() || tuple.values.size() != fields.size())
    return true;
  for (size_t i = 0; i < fields.size(); ++i) {
    if (!may_hold((*manifest.partitions)[i], tuple.values[i], *fields[i].type)) return false;
  }
  return true;
}

}  // namespace

Removal::Removal(const SnapshotChange& change) : change_(change) {
  const auto note = [](Tuples& tuples, const PartitionTuple& tuple) {
    tuples.try_emplace(partition_key(tuple.spec_id, tuple.values), tuple);
  };
  for (const DataFile& file : change.removed) {
    const PartitionTuple tuple{file.partition_spec_id, file.partition};
    const bool is_data = file.content == FileContent::data;
    (is_data ? data_keys_ : delete_keys_).insert(file_key(file));
    if (is_data) note(data_tuples_, tuple);
    note(delete_tuples_, tuple);  // deletes of a data file lie where it does
  }
  for (const PartitionTuple& tuple : change.replaced_partitions) {
    replaced_.insert(partition_key(tuple.spec_id, tuple.values));
    note(data_tuples_, tuple);
    note(delete_tuples_, tuple);
  }
  removes_data_ = !data_keys_.empty() || !replaced_.empty();
}

bool Removal::may_take_from(const ManifestFile& manifest, const TableMetadata& base) const {
  const Tuples& tuples = manifest.content == ManifestContent::data ? data_tuples_ : delete_tuples_;
  if (tuples.empty()) return false;
  const TypePtr type = base.spec(manifest.partition_spec_id).partition_type(base.schema());
  return std::any_of(tuples.begin(), tuples.end(),
                     [&](const auto& entry) { return may_hold_partition(manifest, *type, entry.second); });
}

bool Removal::takes(const DataFile& file) const {
  if (!replaced_.empty() && replaced_.contains(partition_key(file.partition_spec_id, file.partition))) return true;
  if (file.content == FileContent::data) return data_keys_.contains(file_key(file));
  if (delete_keys_.contains(file_key(file))) return true;
  // Deletes of a file that goes go with it: nothing is left that they apply to.
  if (file.content != FileContent::position_deletes || data_keys_.empty()) return false;
  const std::string data_file = single_data_file(file);
  return !data_file.empty() && data_keys_.contains(data_file);
}

void Removal::check_found(const std::unordered_set<std::string>& found, const TableMetadata& base) const {
  for (const DataFile& file : change_.removed) {
    if (found.contains(file_key(file))) continue;
    fail(ErrorKind::commit_conflict,
         "table {}: {} was to be replaced or removed and is no longer there; another commit was first. Read the table "
         "again and redo the operation",
         base.location, file.file_path);
  }
}

}  // namespace firn::iceberg
