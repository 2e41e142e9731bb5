#include "iceberg/catalog/drop_table.h"

#include <filesystem>
#include <map>

#include "base/fault_point.h"
#include "base/uri.h"
#include "iceberg/catalog/head.h"
#include "iceberg/catalog/version_files.h"

namespace firn::iceberg {
namespace {

constexpr size_t kKeptPathsMax = 100;

// Oldest first.
std::vector<std::string> version_paths(const TableFolder& folder) {
  std::multimap<int64_t, std::string> paths;
  for (const FileInfo& info : folder.io->list(folder.metadata_folder(), false)) {
    if (const auto name = parse_metadata_file_name(base_name(info.path))) paths.emplace(name->version, info.path);
  }
  std::vector<std::string> ordered;
  for (auto& [version, path] : paths) ordered.push_back(std::move(path));
  return ordered;
}

void remove_versions(const TableFolder& folder) {
  for (const std::string& path : version_paths(folder)) {
    fault_point("drop.version");
    folder.io->remove(path);
  }
  const std::vector<std::string> left = version_paths(folder);
  if (!left.empty()) {
    fail(ErrorKind::commit_conflict, "table {}: {} was published while it was dropped; drop it again", folder.location,
         left.back());
  }
  fault_point("drop.hint");
  folder.io->remove(folder.hint_path());
}

// Best effort, and only on a local disk: other stores have no folders, and an empty one that stays does no harm.
void remove_empty_folders(const std::string& location) {
  if (!is_local(location)) return;
  std::error_code ignored;
  std::vector<std::filesystem::path> folders = {local_path(location)};
  for (auto it = std::filesystem::recursive_directory_iterator(folders.front(), ignored);
       it != std::filesystem::recursive_directory_iterator(); it.increment(ignored)) {
    if (ignored) return;
    if (it->is_directory(ignored) && !it->is_symlink(ignored)) folders.push_back(it->path());
  }
  for (size_t i = folders.size(); i-- > 0;) std::filesystem::remove(folders[i], ignored);  // not where files are
}

}  // namespace

DroppedTable drop_filesystem_table(const std::shared_ptr<FileIO>& io, const std::string& location,
                                   const DropOptions& options) {
  const TableFolder folder{io, normal_location(location)};
  const std::optional<Head> head = find_head(folder, nullptr);
  if (!head) fail(ErrorKind::not_found, "table {}: there is no table", folder.location);
  const auto name = parse_metadata_file_name(base_name(head->table.metadata_path));
  if (!name || !name->is_numbered) {
    fail(ErrorKind::unsupported,
         "table {}: {} was written by another catalog, which would go on naming it; drop it there", folder.location,
         head->table.metadata_path);
  }
  if (!head->table.metadata->bool_property("gc.enabled", true)) {
    fail(ErrorKind::invalid_argument,
         "table {}: gc.enabled is false, so its files may be another table's; set it to true if they are not",
         folder.location);
  }

  DroppedTable dropped;
  std::vector<std::string> paths;
  const std::string metadata = folder.metadata_folder() + "/", data = join_path(folder.location, "data") + "/";
  std::vector<FileInfo> infos = io->list(folder.location, true);
  for (FileInfo& info : io->list_leftovers(folder.location)) infos.push_back(std::move(info));
  for (FileInfo& info : infos) {
    if (info.path.starts_with(metadata) || info.path.starts_with(data)) {
      ++dropped.files;
      dropped.bytes += info.size_bytes;
      paths.push_back(std::move(info.path));
    } else {
      ++dropped.kept_files;
      if (dropped.kept.size() < kKeptPathsMax) dropped.kept.push_back(std::move(info.path));
    }
  }
  if (options.dry_run) return dropped;
  remove_versions(folder);
  for (const std::string& path : paths) {
    fault_point("drop.file");
    io->remove(path);
  }
  remove_empty_folders(folder.location);
  return dropped;
}

}  // namespace firn::iceberg
