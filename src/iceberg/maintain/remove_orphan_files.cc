#include "iceberg/maintain/remove_orphan_files.h"

#include <algorithm>
#include <limits>
#include <mutex>
#include <set>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

#include "base/clock.h"
#include "base/error.h"
#include "base/fault_point.h"
#include "base/log.h"
#include "base/parallel.h"
#include "base/span.h"
#include "base/uri.h"
#include "iceberg/catalog/head.h"
#include "iceberg/catalog/version_files.h"
#include "iceberg/maintain/reach.h"
#include "iceberg/maintain/remove_files.h"
#include "iceberg/maintain/same_file.h"

namespace firn::iceberg {
namespace {

constexpr int64_t kAgeMs = 3LL * 24 * 60 * 60 * 1000;
constexpr size_t kPairsNamed = 5;  // in an error

// Never after the call began: what is younger may be a writer's that is at work.
int64_t older_than(const std::optional<int64_t>& asked_ms, int64_t now) {
  return std::min(asked_ms.value_or(now - kAgeMs), now);
}

// A path in its parts; local ones have neither scheme nor authority.
struct Location {
  std::string scheme, authority, path;

  bool is_on_disk() const { return scheme.empty() && authority.empty(); }
};

class Locations {
 public:
  explicit Locations(const OrphanOptions& options) : options_(options) {}

  Location parse(const std::string& uri) const {
    Location location;
    std::string_view rest = uri;
    if (is_local(uri)) {
      location.path = path_key(uri);
    } else {
      const size_t colon = rest.find("://");
      location.scheme = mapped(lower(rest.substr(0, colon)), options_.equal_schemes);
      if (location.scheme == "s3a" || location.scheme == "s3n") location.scheme = "s3";
      rest.remove_prefix(colon + 3);
      const size_t slash = std::min(rest.find('/'), rest.size());
      location.authority = mapped(std::string(rest.substr(0, slash)), options_.equal_authorities);
      location.path = rest.substr(slash);
    }
    while (location.path.size() > 1 && location.path.ends_with('/')) location.path.pop_back();
    return location;
  }

  // Whether the prefix of `reached` fits that of `listed`.
  static bool fits(const Location& reached, const Location& listed) {
    return (reached.scheme.empty() || reached.scheme == listed.scheme) &&
           (reached.authority.empty() || reached.authority == listed.authority);
  }

  // What follows `folder` in `path` ("" or "/…"); nullopt: it is not in it.
  std::optional<std::string> rest_below(const std::string& path, const std::string& folder) const {
    const Location inner = parse(path), outer = parse(folder);
    if (inner.scheme != outer.scheme || inner.authority != outer.authority) return std::nullopt;
    if (!inner.path.starts_with(outer.path)) return std::nullopt;
    std::string rest = inner.path.substr(outer.path.size());
    return rest.empty() || rest.starts_with('/') ? std::optional(rest) : std::nullopt;
  }

 private:
  static std::string lower(std::string_view text) {
    std::string result(text);
    for (char& c : result) {
      if (c >= 'A' && c <= 'Z') c = static_cast<char>(c + ('a' - 'A'));
    }
    return result;
  }
  static std::string mapped(const std::string& text, const std::map<std::string, std::string>& equal) {
    const auto found = equal.find(text);
    return found == equal.end() ? text : found->second;
  }

  const OrphanOptions& options_;
};

std::string_view folder_of(std::string_view path) { return path.substr(0, std::min(path.rfind('/'), path.size())); }

// Where a table puts its files.
struct TableFolders {
  std::string location;
  std::string data, metadata;

  explicit TableFolders(const TableMetadata& table)
      : location(table.location),
        data(table.property("write.data.path",
                            table.property("write.object-storage.path",
                                           table.property("write.folder-storage.path", join_path(location, "data"))))),
        metadata(table.property("write.metadata.path", join_path(location, "metadata"))) {}
};

class OrphanSearch {
 public:
  OrphanSearch(TableOperations& table, const OrphanOptions& options)
      : table_(table),
        options_(options),
        older_than_ms_(options.any_age ? std::numeric_limits<int64_t>::max()
                                       : older_than(options.older_than_ms, now_ms())),
        paths_(options) {}

  OrphanResult run() {
    const LoadedTable before = table_.load();
    check_may_remove(*before.metadata);
    const TableFolders folders(*before.metadata);
    choose_folder(folders);
    list(*before.metadata, folders);
    // Loaded after the listing: a file that was listed and is committed meanwhile is reached.
    const LoadedTable head = table_.load();
    check_may_remove(*head.metadata);
    cross_out_metadata(head);
    cross_out_content(*head.metadata);
    if (!conflicts_.empty()) fail_conflicts();
    settle_names();
    if (!doubts_.empty()) fail_doubts();
    remove();
    return std::move(result_);
  }

 private:
  using Pairs = std::vector<std::pair<std::string, std::string>>;
  struct Listed {
    std::string path;  // as it was listed
    Location location;
    int64_t size_bytes = 0;
    std::string version;  // when it was listed
    bool stays = false;   // reached, young, hidden or another table's
  };

  void check_may_remove(const TableMetadata& metadata) const {
    if (metadata.bool_property("gc.enabled", true)) return;
    fail(ErrorKind::invalid_argument,
         "table {}: gc.enabled is false, so what lies in its folders may be another table's and is not removed",
         metadata.location);
  }

  void choose_folder(const TableFolders& folders) {
    for (const std::string& folder : {folders.data, folders.metadata}) {
      if (!paths_.rest_below(folder, folders.location)) result_.folders_not_listed.push_back(folder);
    }
    if (options_.location.empty()) {
      folder_ = folders.location;
      while (folder_.size() > 1 && folder_.ends_with('/')) folder_.pop_back();
      return;
    }
    folder_ = normal_location(options_.location);
    // A moved table's files are known by the paths it was written with.
    if (const auto rest = paths_.rest_below(folder_, table_.location())) folder_ = folders.location + *rest;
    std::optional<std::string> rest;
    for (const std::string& root : {folders.location, folders.data, folders.metadata}) {
      if (rest) break;
      rest = paths_.rest_below(folder_, root);
      if (rest) check_no_table_above(root, *rest);
    }
    if (!rest) {
      fail(ErrorKind::invalid_argument,
           "{} is no folder of table {}; orphans are looked for in its location, write.data.path and "
           "write.metadata.path, or below",
           options_.location, folders.location);
    }
    std::erase_if(result_.folders_not_listed,
                  [&](const std::string& folder) { return paths_.rest_below(folder, folder_).has_value(); });
  }

  // The folders between `root` and `folder_` may be another table's.
  void check_no_table_above(const std::string& root, const std::string& rest) const {
    for (size_t end = rest.find('/', 1); !rest.empty(); end = rest.find('/', end + 1)) {
      const std::string folder = root + rest.substr(0, end);
      for (const FileInfo& file : table_.io()->list(join_path(folder, "metadata"), false)) {
        if (!parse_metadata_file_name(base_name(file.path))) continue;
        fail(ErrorKind::invalid_argument, "{} belongs to the table at {}; open that one", options_.location, folder);
      }
      if (end == std::string::npos) return;
    }
  }

  void list(const TableMetadata& metadata, const TableFolders& folders) {
    const std::vector<FileInfo> files = table_.io()->list(folder_, /*recursive=*/true);
    const std::vector<std::string> others = find_other_tables(files, folders);
    const size_t prefix_size = folder_.size();
    const auto is_others = [&](const FileInfo& file) {
      return std::any_of(others.begin(), others.end(),
                         [&](const std::string& other) { return file.path.starts_with(other + "/"); });
    };
    for (const FileInfo& file : files) {
      const bool stays = file.modified_ms >= older_than_ms_ || is_others(file) ||
                         is_hidden(metadata, std::string_view(file.path).substr(prefix_size));
      Location location = paths_.parse(file.path);
      std::string key = location.path;
      listed_.emplace(std::move(key), Listed{file.path, std::move(location), file.size_bytes, file.version, stays});
    }
    for (auto& [key, file] : listed_) {
      if (file.stays) continue;
      by_name_.emplace(base_name(key), &file);
      if (file.location.is_on_disk()) by_version_.emplace(file.version, &file);
    }
    for (const FileInfo& file : table_.io()->list_leftovers(folder_)) {
      if (is_others(file)) continue;
      const std::string_view below = std::string_view(file.path).substr(prefix_size);
      if (file.modified_ms >= older_than_ms_ || is_hidden(metadata, folder_of(below))) continue;
      // Nothing names it, and the file that it may be a second name of does without it: neither is looked for.
      Location location = paths_.parse(file.path);
      std::string key = location.path;
      listed_.emplace(std::move(key), Listed{file.path, std::move(location), file.size_bytes, file.version, false});
    }
    result_.other_tables = others;
  }

  std::vector<std::string> find_other_tables(const std::vector<FileInfo>& files, const TableFolders& folders) const {
    std::set<std::string> others;
    for (const FileInfo& file : files) {
      const std::string folder(folder_of(file.path));
      if (base_name(folder) != "metadata" || !parse_metadata_file_name(base_name(file.path))) continue;
      if (is_same(folder, folders.metadata) || is_same(folder, join_path(folders.location, "metadata"))) continue;
      std::string table(folder_of(folder));
      if (table.size() > folder_.size()) others.insert(std::move(table));
    }
    return {others.begin(), others.end()};
  }

  bool is_same(const std::string& a, const std::string& b) const {
    const auto rest = paths_.rest_below(a, b);
    return rest && rest->empty();
  }

  // Below the folder that is listed.
  static bool is_hidden(const TableMetadata& metadata, std::string_view path) {
    while (!path.empty()) {
      path.remove_prefix(path.starts_with('/') ? 1 : 0);
      const std::string_view name = path.substr(0, std::min(path.find('/'), path.size()));
      if ((name.starts_with('_') || name.starts_with('.')) && !names_partition_field(metadata, name)) return true;
      path.remove_prefix(name.size());
    }
    return false;
  }

  static bool names_partition_field(const TableMetadata& metadata, std::string_view name) {
    for (const PartitionSpec& spec : metadata.partition_specs) {
      for (const PartitionField& field : spec.fields) {
        if (name.starts_with(form_encode(field.name) + "=") || name.starts_with(field.name + "=")) return true;
      }
    }
    return false;
  }

  // Takes out what `reached` means: the file listed under that path, and on a disk the same file under any other. Many
  // threads may call it.
  void cross_out(const std::string& reached) {
    if (reached.empty()) return;
    const Location location = paths_.parse(reached);
    const auto found = listed_.find(location.path);
    const bool is_listed = found != listed_.end();
    std::string version;
    if (is_listed && found->second.path == reached) {
      version = found->second.version;
    } else if (location.is_on_disk()) {
      version = version_there(*table_.io(), reached);
    }
    const std::lock_guard lock(mutex_);
    if (is_listed) {
      Listed& file = found->second;
      if (!Locations::fits(location, file.location) && !file.stays) {
        if (options_.prefix_mismatch == PrefixMismatch::remove) return;
        if (options_.prefix_mismatch == PrefixMismatch::error) conflicts_.emplace_back(file.path, reached);
      }
      file.stays = true;
    } else if (by_name_.contains(base_name(location.path))) {
      unlisted_.insert(reached);
    }
    if (version.empty()) return;
    const auto [begin, end] = by_version_.equal_range(version);
    for (auto same = begin; same != end; ++same) same->second->stays = true;
  }

  // A file that is reached under a path that was not listed may still be one of those listed, in a spelling that
  // nothing above knows. Where the store has both, it tells.
  void settle_names() {
    std::unordered_map<const Listed*, std::string> versions;
    for (const std::string& reached : unlisted_) {
      const std::string key = paths_.parse(reached).path;
      const auto [begin, end] = by_name_.equal_range(base_name(key));
      if (std::all_of(begin, end, [](const auto& named) { return named.second->stays; })) continue;
      const std::string version = version_there(*table_.io(), reached);
      for (auto named = begin; named != end; ++named) {
        Listed& file = *named->second;
        if (file.stays) continue;
        const auto [there, is_new] = versions.try_emplace(&file);
        if (is_new) there->second = version_there(*table_.io(), file.path);
        if (!version.empty() && version != there->second) continue;
        file.stays = true;
        // The log's files are not needed to read the table, and every table's have the same names.
        if (version.empty() && !parse_metadata_file_name(base_name(key))) doubts_.emplace_back(file.path, reached);
      }
    }
  }

  void cross_out_metadata(const LoadedTable& head) {
    const TableMetadata& metadata = *head.metadata;
    cross_out(head.metadata_path);
    if (head.metadata_path.starts_with(table_.location()))
      cross_out(metadata.location + head.metadata_path.substr(table_.location().size()));
    for (const MetadataLogEntry& entry : metadata.metadata_log) cross_out(entry.metadata_file);
    for (const std::vector<Json>* files : {&metadata.statistics, &metadata.partition_statistics}) {
      for (const Json& file : *files) cross_out(find_string(file, "statistics-path", "statistics").value_or(""));
    }
    const std::string folder = paths_.parse(join_path(metadata.location, "metadata")).path;
    for (auto& [path, file] : listed_) {
      if (file.stays || folder_of(path) != folder) continue;
      const std::string_view file_name = base_name(path);
      const auto name = parse_metadata_file_name(file_name);
      // Versions above the head are being published.
      file.stays = name ? name->version >= head.version
                        : file_name == "version-hint.text" || file_name == "version-hint.text.lock";
    }
  }

  void cross_out_content(const TableMetadata& metadata) {
    std::vector<const Snapshot*> snapshots;
    for (const Snapshot& snapshot : metadata.snapshots) {
      snapshots.push_back(&snapshot);
      cross_out(snapshot.manifest_list);
    }
    const ReachedManifests reached =
        reach_manifests(metadata, snapshots, *table_.io(), options_.threads, Missing::fail);
    for (const ManifestFile& manifest : reached.manifests) cross_out(manifest.manifest_path);
    parallel_for(reached.manifests.size(), options_.threads, [&](size_t i) {
      for_each_live(metadata, reached.manifests[i], *table_.io(), Missing::fail, {},
                    [&](ManifestEntry& entry) { cross_out(entry.file.file_path); });
    });
  }

  [[noreturn]] void fail_conflicts() const {
    fail(ErrorKind::invalid_argument,
         "table {}: {} files differ from files of the table in scheme or authority alone ({}). Say which schemes and "
         "authorities are equal, or whether such files are to be ignored or removed; nothing was removed",
         table_.location(), conflicts_.size(), named(conflicts_));
  }

  [[noreturn]] void fail_doubts() const {
    fail(ErrorKind::invalid_argument,
         "table {}: {} files that nothing seems to reach have the names of files that the table names elsewhere, where "
         "nothing is ({}). They may be the same ones, spelled otherwise: put the files where the table says, or move "
         "those listed away by hand; nothing was removed",
         table_.location(), doubts_.size(), named(doubts_));
  }

  static std::string named(const Pairs& pairs) {
    std::string text;
    for (size_t i = 0; i < std::min(pairs.size(), kPairsNamed); ++i)
      text += fmt::format("{}{} and {}", i == 0 ? "" : "; ", pairs[i].first, pairs[i].second);
    return text;
  }

  void remove() {
    std::vector<DoomedFile> content;
    std::vector<std::pair<int64_t, DoomedFile>> versions;
    for (const auto& [path, file] : listed_) {
      if (file.stays) continue;
      DoomedFile doomed{file.path, FileKind::other, file.size_bytes};
      if (const auto name = parse_metadata_file_name(base_name(path)))
        versions.emplace_back(name->version, std::move(doomed));
      else
        content.push_back(std::move(doomed));
    }
    std::sort(content.begin(), content.end(), [](const auto& a, const auto& b) { return a.path < b.path; });
    std::sort(versions.begin(), versions.end(), [](const auto& a, const auto& b) {
      return a.first != b.first ? a.first < b.first : a.second.path < b.second.path;
    });
    std::vector<DoomedFile> metadata;
    for (auto& [version, file] : versions) metadata.push_back(std::move(file));
    fault_point("orphans.found");
    remove_files(content, *table_.io(), options_.threads, options_.dry_run, result_.files);
    // Old versions go oldest first, so that those left have no gap (P1.4).
    remove_files(metadata, *table_.io(), 1, options_.dry_run, result_.files);
  }

  TableOperations& table_;
  const OrphanOptions& options_;
  const int64_t older_than_ms_;
  const Locations paths_;
  std::string folder_;                              // listed, as the table spells it
  std::unordered_map<std::string, Listed> listed_;  // by path without prefix; what does not stay is orphaned
  // Of those that did not stay when they were listed.
  std::unordered_multimap<std::string_view, Listed*> by_name_;
  std::unordered_multimap<std::string, Listed*> by_version_;  // on a disk

  std::mutex mutex_;  // guards what follows, and `stays`
  std::unordered_set<std::string> unlisted_;
  Pairs conflicts_, doubts_;  // listed, reached
  OrphanResult result_;
};

}  // namespace

OrphanResult remove_orphan_files(TableOperations& table, const OrphanOptions& options) {
  Span span("iceberg.remove_orphan_files");
  span.set("table", table.location());
  return OrphanSearch(table, options).run();
}

FileCounts remove_stray_versions(const std::shared_ptr<FileIO>& io, const std::string& location,
                                 const StrayOptions& options) {
  const int64_t older_than_ms = older_than(options.older_than_ms, now_ms());
  const TableFolder folder{io, normal_location(location)};
  if (!newest_listed_version(folder))
    fail(ErrorKind::not_found, "table {}: there is no metadata file in {}", location, folder.metadata_folder());
  const std::optional<int64_t> hint = read_hint(folder);
  const std::optional<FileInfo> hinted = hint ? find_version(folder, *hint) : std::nullopt;
  if (!hinted) {
    fail(ErrorKind::corrupt,
         "table {}: {} names no version that is there, so nothing tells which table is meant; remove the versions of "
         "the other one by hand",
         location, folder.hint_path());
  }
  const std::string uuid = parse_table_metadata(io->read(hinted->path), hinted->path).table_uuid;
  std::vector<DoomedFile> strays;
  for (const FileInfo& file : io->list(folder.metadata_folder(), /*recursive=*/false)) {
    if (!parse_metadata_file_name(base_name(file.path)) || file.modified_ms >= older_than_ms) continue;
    const std::optional<std::string> bytes = io->read_if_exists(file.path);
    if (!bytes) continue;
    try {
      if (parse_table_metadata(*bytes, file.path).table_uuid != uuid)
        strays.push_back({file.path, FileKind::other, file.size_bytes});
    } catch (const Error& e) {
      if (e.kind() != ErrorKind::corrupt && e.kind() != ErrorKind::unsupported) throw;
      spdlog::warn("{} passed over: {}", file.path, e.what());  // whose it is cannot be told
    }
  }
  FileCounts counts;
  remove_files(strays, *io, 1, options.dry_run, counts);
  return counts;
}

}  // namespace firn::iceberg
