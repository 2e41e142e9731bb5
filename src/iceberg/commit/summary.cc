#include "iceberg/commit/summary.h"

#include <charconv>
#include <optional>

#include "iceberg/manifest/file_identity.h"

namespace firn::iceberg {
namespace {

using Summary = std::map<std::string, std::string>;

void set_count(Summary& summary, const char* key, int64_t count) {
  if (count > 0) summary[key] = std::to_string(count);
}

std::optional<int64_t> parent_total(const Snapshot* parent, const std::string& key) {
  if (!parent) return 0;
  const auto found = parent->summary.find(key);
  if (found == parent->summary.end()) return std::nullopt;
  int64_t total = 0;
  const std::string& text = found->second;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), total);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return total;
}

void set_total(Summary& summary, const Snapshot* parent, const std::string& key, int64_t added, int64_t removed) {
  const std::optional<int64_t> before = parent_total(parent, key);
  if (!before) return;
  const int64_t total = *before + added - removed;
  if (total >= 0) summary[key] = std::to_string(total);  // below 0: an earlier writer miscounted
}

}  // namespace

void SummaryCounts::count(const DataFile& file, Side& side) {
  partitions_.insert(partition_key(file.partition_spec_id, file.partition));
  side.size_bytes += file.content_size_bytes.value_or(file.file_size_bytes);
  switch (file.content) {
    case FileContent::data:
      side.data_files += 1;
      side.records += file.record_count;
      return;
    case FileContent::position_deletes:
      side.delete_files += 1;
      (is_deletion_vector(file) ? side.vectors : side.position_delete_files) += 1;
      side.position_deletes += file.record_count;
      return;
    case FileContent::equality_deletes:
      side.delete_files += 1;
      side.equality_delete_files += 1;
      side.equality_deletes += file.record_count;
  }
}

void SummaryCounts::write(Summary& summary, const Snapshot* parent) const {
  set_count(summary, "added-data-files", added_.data_files);
  set_count(summary, "added-delete-files", added_.delete_files);
  set_count(summary, "added-position-delete-files", added_.position_delete_files);
  set_count(summary, "added-equality-delete-files", added_.equality_delete_files);
  set_count(summary, "added-dvs", added_.vectors);
  set_count(summary, "added-records", added_.records);
  set_count(summary, "added-position-deletes", added_.position_deletes);
  set_count(summary, "added-equality-deletes", added_.equality_deletes);
  set_count(summary, "added-files-size", added_.size_bytes);
  set_count(summary, "deleted-data-files", removed_.data_files);
  set_count(summary, "removed-delete-files", removed_.delete_files);
  set_count(summary, "removed-position-delete-files", removed_.position_delete_files);
  set_count(summary, "removed-equality-delete-files", removed_.equality_delete_files);
  set_count(summary, "removed-dvs", removed_.vectors);
  set_count(summary, "deleted-records", removed_.records);
  set_count(summary, "removed-position-deletes", removed_.position_deletes);
  set_count(summary, "removed-equality-deletes", removed_.equality_deletes);
  set_count(summary, "removed-files-size", removed_.size_bytes);
  summary["changed-partition-count"] = std::to_string(partitions_.size());
  set_total(summary, parent, "total-records", added_.records, removed_.records);
  set_total(summary, parent, "total-files-size", added_.size_bytes, removed_.size_bytes);
  set_total(summary, parent, "total-data-files", added_.data_files, removed_.data_files);
  set_total(summary, parent, "total-delete-files", added_.delete_files, removed_.delete_files);
  set_total(summary, parent, "total-position-deletes", added_.position_deletes, removed_.position_deletes);
  set_total(summary, parent, "total-equality-deletes", added_.equality_deletes, removed_.equality_deletes);
}

}  // namespace firn::iceberg
