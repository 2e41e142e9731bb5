#include "iceberg/catalog/head.h"

#include <algorithm>
#include <set>

#include <fmt/ranges.h>

#include "base/uri.h"
#include "iceberg/catalog/version_files.h"

namespace firn::iceberg {
namespace {

struct VersionFile {
  int64_t version = 0;
  bool is_numbered = false;
  FileInfo info;
};

std::vector<VersionFile> metadata_files_in(FileIO& io, const std::string& folder, bool recursive) {
  std::vector<VersionFile> files;
  for (FileInfo& info : io.list(folder, recursive)) {
    if (const auto name = parse_metadata_file_name(base_name(info.path))) {
      files.push_back({name->version, name->is_numbered, std::move(info)});
    }
  }
  return files;
}

// Metadata that another catalog's table keeps elsewhere below its folder (write.metadata.path), or that of this one if
// another writer made it since its own folder was listed. Throws invalid_argument if it is that of other tables, which
// lie there.
std::vector<VersionFile> metadata_files_below(const TableFolder& folder) {
  constexpr size_t kNamedMax = 20;
  std::vector<VersionFile> files = metadata_files_in(*folder.io, folder.location, true);
  std::set<std::string> folders, tables;
  for (const VersionFile& file : files) {
    const std::string_view found = std::string_view(file.info.path).substr(0, file.info.path.rfind('/'));
    if (found == folder.metadata_folder()) return metadata_files_in(*folder.io, folder.metadata_folder(), false);
    folders.emplace(found);
    // <table>/metadata: a table of its own. Elsewhere one folder is taken for this table's, but not two.
    if (base_name(found) == "metadata") tables.emplace(found.substr(0, found.rfind('/')));
  }
  if (tables.empty() && folders.size() > 1) tables = folders;
  if (tables.empty()) return files;
  const size_t num_more = tables.size() > kNamedMax ? tables.size() - kNamedMax : 0;
  if (num_more > 0) tables.erase(std::next(tables.begin(), kNamedMax), tables.end());
  fail(ErrorKind::invalid_argument, "{} is no table, but holds tables: name one of {}{}", folder.location,
       fmt::join(tables, ", "), num_more > 0 ? fmt::format(" and {} more", num_more) : "");
}

// Oldest first; of one version, a numbered file last: its name is what writers contend for.
std::vector<VersionFile> list_versions(const TableFolder& folder) {
  std::vector<VersionFile> files = metadata_files_in(*folder.io, folder.metadata_folder(), false);
  if (files.empty()) files = metadata_files_below(folder);
  std::stable_sort(files.begin(), files.end(), [](const VersionFile& a, const VersionFile& b) {
    return a.version != b.version ? a.version < b.version : a.is_numbered < b.is_numbered;
  });
  return files;
}

// nullopt: the file is gone, or is not the one `info` describes any more.
std::optional<LoadedTable> read_version(const TableFolder& folder, const VersionFile& file) {
  const std::optional<std::string> bytes = folder.io->read_if_exists(file.info.path);
  if (!bytes) return std::nullopt;
  const std::optional<FileInfo> after = folder.io->stat(file.info.path);
  if (!after || after->version != file.info.version) return std::nullopt;
  return LoadedTable{std::make_shared<TableMetadata>(parse_table_metadata(*bytes, file.info.path)), file.info.path,
                     file.version, file.info.version};
}

// Of several files of the newest version that other catalogs wrote (one of them a commit that failed), the youngest.
std::optional<VersionFile> pick_newest(const TableFolder& folder, const std::vector<VersionFile>& files) {
  const bool is_one = files.size() == 1 || files[files.size() - 2].version != files.back().version;
  if (is_one || files.back().is_numbered) return files.back();
  std::optional<VersionFile> youngest;
  int64_t youngest_ms = 0;
  for (const VersionFile& file : files) {
    if (file.version != files.back().version) continue;
    const std::optional<LoadedTable> table = read_version(folder, file);
    if (!table) return std::nullopt;
    if (!youngest || table->metadata->last_updated_ms > youngest_ms) {
      youngest_ms = table->metadata->last_updated_ms;
      youngest = file;
    }
  }
  return youngest;
}

// The highest of `files` whose table is not `head`'s: the one below the head, those below a gap, and the oldest are
// looked at.
void look_for_strays(const TableFolder& folder, const std::vector<VersionFile>& files, Head& head) {
  for (size_t i = files.size(); i-- > 0 && head.stray_path.empty();) {
    const int64_t above = i + 1 < files.size() ? files[i + 1].version : head.table.version;
    const bool is_below_head = above >= head.table.version;
    if (files[i].version >= head.table.version || (i != 0 && !is_below_head && above <= files[i].version + 1)) continue;
    const std::optional<LoadedTable> table = read_version(folder, files[i]);
    if (table && table->metadata->table_uuid != head.table.metadata->table_uuid) {
      head.stray_path = files[i].info.path;
      head.stray_uuid = table->metadata->table_uuid;
    }
  }
}

[[noreturn]] void fail_hinted_lost(const TableFolder& folder, int64_t hint, const VersionFile& newest) {
  fail(ErrorKind::corrupt,
       "table {}: {} names version {}, but {} is not there, and the newest that is, is {}: the newest versions are "
       "lost, "
       "and what they committed. Restore them; or, to go on without them, write {} into {}",
       folder.location, folder.hint_path(), hint, folder.version_path(hint), newest.info.path, newest.version,
       folder.hint_path());
}

// One look; nullopt if the table moved meanwhile. `is_absent` is set where there is no table.
std::optional<Head> look_once(const TableFolder& folder, const LoadedTable* known, bool& is_absent) {
  const std::optional<int64_t> hint = read_hint(folder);
  std::optional<VersionFile> start;
  if (hint) {
    const int64_t version = known ? std::max(*hint, known->version) : *hint;
    if (auto info = find_version(folder, version)) start = VersionFile{version, true, std::move(*info)};
  }
  std::vector<VersionFile> listed;
  if (!start) {
    listed = list_versions(folder);
    if (listed.empty()) {
      is_absent = true;
      return std::nullopt;
    }
    start = pick_newest(folder, listed);
    if (!start) return std::nullopt;
  }

  VersionFile top = *start;
  while (auto above = find_version(folder, top.version + 1)) top = {top.version + 1, true, std::move(*above)};

  if (hint && top.version < *hint) {
    // A hint follows its version, and only versions below it are pruned: unless the hint moved, its version is lost.
    if (read_hint(folder) != hint) return std::nullopt;
    fail_hinted_lost(folder, *hint, top);
  }

  Head head;
  if (known && known->metadata_path == top.info.path && known->file_version == top.info.version) {
    const std::optional<FileInfo> after = folder.io->stat(top.info.path);
    if (!after || after->version != known->file_version) return std::nullopt;
    head.table = *known;
  } else {
    std::optional<LoadedTable> table = read_version(folder, top);
    if (!table) return std::nullopt;
    head.table = std::move(*table);
  }
  // Versions between the hint and a crash's leftovers may have been pruned while we looked; the hint went first.
  if (read_hint(folder) != hint) return std::nullopt;

  const bool is_start_known = known && known->metadata_path == start->info.path &&
                              known->metadata->table_uuid == head.table.metadata->table_uuid;
  if (listed.empty() && start->version != top.version && !is_start_known) listed.push_back(*start);
  look_for_strays(folder, listed, head);
  return head;
}

}  // namespace

std::string TableFolder::metadata_folder() const { return join_path(location, "metadata"); }
std::string TableFolder::version_path(int64_t version) const {
  return join_path(metadata_folder(), version_file_name(version));
}
std::string TableFolder::hint_path() const { return join_path(metadata_folder(), "version-hint.text"); }

std::optional<FileInfo> find_version(const TableFolder& folder, int64_t version) {
  for (const std::string& name : version_file_names(version)) {
    if (auto info = folder.io->stat(join_path(folder.metadata_folder(), name))) return info;
  }
  return std::nullopt;
}

std::optional<int64_t> read_hint(const TableFolder& folder) {
  const std::optional<std::string> text = folder.io->read_if_exists(folder.hint_path());
  if (!text) return std::nullopt;
  const std::optional<VersionHint> hint = parse_version_hint(*text);
  return hint ? std::optional(hint->version) : std::nullopt;
}

std::optional<int64_t> newest_listed_version(const TableFolder& folder) {
  const std::vector<VersionFile> files = metadata_files_in(*folder.io, folder.metadata_folder(), false);
  std::optional<int64_t> newest;
  for (const VersionFile& file : files) newest = std::max(newest.value_or(file.version), file.version);
  return newest;
}

bool leads_back(const TableMetadata& head, const std::string& branch, std::optional<int64_t> snapshot_id) {
  const auto ref = head.refs.find(branch);
  if (ref == head.refs.end() && branch != "main") return false;  // removed; what it held is not known
  std::optional<int64_t> id =
      ref == head.refs.end() ? head.current_snapshot_id : std::optional(ref->second.snapshot_id);
  while (id && id != snapshot_id) {
    const Snapshot* step = head.find_snapshot(*id);
    if (!step) return false;
    id = step->parent_snapshot_id;
  }
  return id == snapshot_id;
}

std::optional<Head> find_head(const TableFolder& folder, const LoadedTable* known) {
  constexpr int kLooksMax = 100;
  for (int look = 0; look < kLooksMax; ++look) {
    bool is_absent = false;
    if (auto head = look_once(folder, known, is_absent)) return head;
    if (is_absent) return std::nullopt;
  }
  fail(ErrorKind::busy, "table {}: it changed {} times while its newest version was looked for; try again later",
       folder.location, kLooksMax);
}

}  // namespace firn::iceberg
