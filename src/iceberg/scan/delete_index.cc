#include "iceberg/scan/delete_index.h"

#include "base/error.h"

namespace firn::iceberg {

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
      if (entry.data_sequence_number >= data_sequence_number && may_name(*entry.file, data_file.file_path)) {
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
