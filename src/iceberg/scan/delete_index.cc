#include "iceberg/scan/delete_index.h"

#include <bit>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "iceberg/schema.h"

namespace firn::iceberg {

namespace {

// One value, with integers and floats widened: manifests written before and after a promotion say the same partition.
struct AppendKey {
  std::string& out;

  void bytes(char tag, const void* data, size_t size) {
    out.push_back(tag);
    out.append(static_cast<const char*>(data), size);
  }
  void operator()(std::monostate) { out.push_back('n'); }
  void operator()(bool value) { out += value ? "bt" : "bf"; }
  void operator()(int32_t value) { (*this)(static_cast<int64_t>(value)); }
  void operator()(int64_t value) { bytes('i', &value, sizeof(value)); }
  void operator()(float value) { (*this)(static_cast<double>(value)); }
  void operator()(double value) {
    if (std::isnan(value)) value = std::numeric_limits<double>::quiet_NaN();  // one NaN for all
    bytes('f', &value, sizeof(value));
  }
  void operator()(const arrow::Decimal128& value) {
    const auto little_endian = value.ToBytes();
    bytes('d', little_endian.data(), little_endian.size());
  }
  void operator()(const std::string& value) {
    const uint64_t size = value.size();
    bytes('s', &size, sizeof(size));
    out += value;
  }
  void operator()(const NestedJson& value) { (*this)(value.text); }
};

// Whether paths of the data files in a position delete file may include `path`. Bounds may be truncated.
bool paths_might_include(const DataFile& deletes, const std::string& path) {
  const auto lower = deletes.lower_bounds.find(kDeleteFilePathFieldId);
  const auto upper = deletes.upper_bounds.find(kDeleteFilePathFieldId);
  return (lower == deletes.lower_bounds.end() || lower->second <= path) &&
         (upper == deletes.upper_bounds.end() || path <= upper->second);
}

}  // namespace

std::string partition_key(int32_t spec_id, const std::vector<Value>& partition) {
  std::string key;
  AppendKey append{key};
  append(spec_id);
  for (const Value& value : partition) std::visit(append, value);
  return key;
}

bool is_deletion_vector(const DataFile& file) {
  return file.content == FileContent::position_deletes && file.file_format == "PUFFIN";
}

std::string single_data_file(const DataFile& position_deletes) {
  if (!position_deletes.referenced_data_file.empty()) return position_deletes.referenced_data_file;
  const auto lower = position_deletes.lower_bounds.find(kDeleteFilePathFieldId);
  const auto upper = position_deletes.upper_bounds.find(kDeleteFilePathFieldId);
  if (lower == position_deletes.lower_bounds.end() || upper == position_deletes.upper_bounds.end()) return "";
  return lower->second == upper->second ? lower->second : "";  // a truncated upper bound is raised, so it differs
}

void DeleteIndex::add(DataFile file, int64_t data_sequence_number, bool is_global) {
  empty_ = false;
  const std::string partition = partition_key(file.partition_spec_id, file.partition);
  if (file.content == FileContent::equality_deletes) {
    std::vector<Entry>& entries = is_global ? equality_global_ : equality_by_partition_[partition];
    entries.push_back({std::make_shared<const DataFile>(std::move(file)), data_sequence_number});
    return;
  }
  const std::string path = single_data_file(file);
  if (is_deletion_vector(file) && path.empty()) {
    fail(ErrorKind::corrupt, "deletion vector in {} does not say which data file it is for", file.file_path);
  }
  // A file that names one data file is found by that name whatever its partition: some writers give it the table's
  // newest spec and not the data file's, and a delete overlooked is a row too many.
  std::vector<Entry>& entries = is_deletion_vector(file) ? vectors_by_path_[path]
                                : path.empty()           ? positions_by_partition_[partition]
                                                         : positions_by_path_[path];
  entries.push_back({std::make_shared<const DataFile>(std::move(file)), data_sequence_number});
}

std::vector<std::shared_ptr<const DataFile>> DeleteIndex::applicable(const DataFile& data_file,
                                                                     int64_t data_sequence_number) const {
  std::vector<std::shared_ptr<const DataFile>> result;
  if (empty_) return result;
  const auto entries_of = [](const Entries& map, const std::string& key) -> const std::vector<Entry>& {
    static const std::vector<Entry> kNone;
    const auto found = map.find(key);
    return found == map.end() ? kNone : found->second;
  };
  for (const Entry& entry : entries_of(vectors_by_path_, data_file.file_path)) {
    if (entry.data_sequence_number < data_sequence_number) continue;
    if (!result.empty()) {
      fail(ErrorKind::corrupt, "two deletion vectors apply to {}: {} and {}", data_file.file_path,
           result.front()->file_path, entry.file->file_path);
    }
    result.push_back(entry.file);
  }
  const std::string partition = partition_key(data_file.partition_spec_id, data_file.partition);
  if (result.empty()) {  // a deletion vector holds the older position deletes too
    for (const Entry& entry : entries_of(positions_by_path_, data_file.file_path)) {
      if (entry.data_sequence_number >= data_sequence_number) result.push_back(entry.file);
    }
    for (const Entry& entry : entries_of(positions_by_partition_, partition)) {
      if (entry.data_sequence_number >= data_sequence_number && paths_might_include(*entry.file, data_file.file_path)) {
        result.push_back(entry.file);
      }
    }
  }
  for (const std::vector<Entry>* entries : {&equality_global_, &entries_of(equality_by_partition_, partition)}) {
    for (const Entry& entry : *entries) {
      if (entry.data_sequence_number > data_sequence_number) result.push_back(entry.file);
    }
  }
  return result;
}

}  // namespace firn::iceberg
