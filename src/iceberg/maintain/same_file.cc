#include "iceberg/maintain/same_file.h"

#include <algorithm>
#include <filesystem>

#include "base/error.h"
#include "base/log.h"
#include "base/uri.h"
#include "iceberg/catalog/version_files.h"

namespace firn::iceberg {

std::string path_key(const std::string& path) {
  if (!is_local(path)) {
    const bool is_s3 = path.starts_with("s3a://") || path.starts_with("s3n://");
    return is_s3 ? "s3" + path.substr(3) : path;
  }
  std::string local = local_path(path);
  const bool is_normal = local.starts_with('/') && !local.ends_with('/') && local.find("//") == std::string::npos &&
                         local.find("/.") == std::string::npos;
  if (is_normal) return local;
  local = std::filesystem::absolute(local).lexically_normal().string();
  while (local.size() > 1 && local.ends_with('/')) local.pop_back();
  return local;
}

std::string version_there(FileIO& io, const std::string& path) {
  try {
    const std::optional<FileInfo> info = io.stat(path);
    return info ? info->version : "";
  } catch (const Error& e) {
    if (e.kind() != ErrorKind::unsupported) throw;
    return "";
  }
}

void DoomedFiles::add(const std::string& path, FileKind kind, int64_t size_bytes) {
  std::string key = path_key(path);
  Entry entry{.file = {key == path ? "" : path, kind, size_bytes}, .version = {}};
  const auto [added, is_new] = entries_.emplace(std::move(key), std::move(entry));
  if (!is_new) return;
  by_name_.emplace(base_name(added->first), &*added);
  ++num_doomed_;
}

void DoomedFiles::keep(const std::string& path) {
  const std::string key = path_key(path);
  if (const auto found = entries_.find(key); found != entries_.end()) return keep(found->second);
  const auto [begin, end] = by_name_.equal_range(base_name(key));
  if (std::all_of(begin, end, [](const auto& named) { return named.second->second.stays; })) return;
  const std::string version = version_there(io_, path);
  for (auto named = begin; named != end; ++named) {
    auto& [other_key, other] = *named->second;
    if (other.stays) continue;
    if (!other.is_looked_up) other.version = version_there(io_, other.file.path.empty() ? other_key : other.file.path);
    other.is_looked_up = true;
    if (other.version.empty() || (!version.empty() && other.version != version)) continue;
    if (version.empty()) {
      spdlog::warn("{} stays: {}, which a snapshot names, has its name and is not there, and may be another spelling",
                   other_key, path);
    }
    keep(other);
  }
}

void DoomedFiles::keep(Entry& entry) {
  num_doomed_ -= entry.stays ? 0 : 1;
  entry.stays = true;
}

bool DoomedFiles::contains(const std::string& path) const {
  const auto found = entries_.find(path_key(path));
  return found != entries_.end() && !found->second.stays;
}

std::vector<DoomedFile> DoomedFiles::files() const {
  std::vector<DoomedFile> files;
  for (const auto& [key, entry] : entries_) {
    if (entry.stays) continue;
    files.push_back(entry.file);
    if (files.back().path.empty()) files.back().path = key;
  }
  std::sort(files.begin(), files.end(), [](const auto& a, const auto& b) { return a.path < b.path; });
  return files;
}

}  // namespace firn::iceberg
