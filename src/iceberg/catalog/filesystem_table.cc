// A table directory: loading its head, and publishing the version after it (protocols P1.2–P1.6).
#include <algorithm>
#include <filesystem>
#include <mutex>

#include "base/backoff.h"
#include "base/clock.h"
#include "base/fault_point.h"
#include "base/log.h"
#include "base/uri.h"
#include "iceberg/catalog/catalog.h"
#include "iceberg/catalog/head.h"
#include "iceberg/catalog/version_files.h"
#include "iceberg/metadata/properties.h"
#include "io/not_put.h"

namespace firn::iceberg {
namespace {

[[noreturn]] void fail_mixed(const TableFolder& folder, const Head& head) {
  fail(ErrorKind::corrupt,
       "table {}: {} has table-uuid {}, but {} has {}: a writer of a table that was dropped died here. Remove the "
       "version that "
       "{} does not lead to",
       folder.location, head.table.metadata_path, head.table.metadata->table_uuid, head.stray_path, head.stray_uuid,
       folder.hint_path());
}

[[noreturn]] void fail_replaced(const TableFolder& folder, const std::string& wanted_uuid) {
  fail(ErrorKind::not_found,
       "table {}: the one with table-uuid {} was dropped and another made in its place; open it anew", folder.location,
       wanted_uuid);
}

BackoffOptions status_check_options(const TableMetadata& metadata) {
  BackoffOptions options;
  options.num_retries = wait_property(metadata, "commit.status-check.num-retries", 3);
  options.min_wait_ms = wait_property(metadata, "commit.status-check.min-wait-ms", 1000);
  options.max_wait_ms = wait_property(metadata, "commit.status-check.max-wait-ms", 60'000);
  options.total_ms = wait_property(metadata, "commit.status-check.total-timeout-ms", 1'800'000);
  return options;
}

// Whether `head` proves that the snapshot staged in `next` on `base` is not in its history (P1.6): the branch that it
// was added to leads back to where the base had it. False for a snapshot that no branch names.
bool leads_back_without(const TableMetadata& head, const TableMetadata& base, const TableMetadata& next,
                        int64_t snapshot_id) {
  for (const auto& [name, ref] : next.refs) {
    if (ref.snapshot_id != snapshot_id) continue;
    const auto base_ref = base.refs.find(name);
    if (base_ref != base.refs.end()) return leads_back(head, name, base_ref->second.snapshot_id);
    return leads_back(head, name, base.current_snapshot_id);
  }
  return false;
}

// "v7.metadata.json" in the log of `head`, however its folder is spelled.
bool log_names_version(const TableMetadata& head, int64_t version) {
  const std::string suffix = "/" + version_file_name(version);
  return std::any_of(head.metadata_log.begin(), head.metadata_log.end(),
                     [&](const MetadataLogEntry& entry) { return entry.metadata_file.ends_with(suffix); });
}

// Raises the hint to `version` unless it names a higher one that is there (P1.4). False: it could not be written.
bool raise_hint(const TableFolder& folder, int64_t version) {
  constexpr int kTriesMax = 50;
  try {
    for (int i = 0; i < kTriesMax; ++i) {
      const std::optional<FileInfo> info = folder.io->stat(folder.hint_path());
      const std::optional<int64_t> hint = read_hint(folder);
      if (hint && (*hint == version || (*hint > version && find_version(folder, *hint)))) return true;
      fault_point("commit.hint");
      const auto expected = info ? std::optional(info->version) : std::nullopt;
      if (folder.io->replace_if(folder.hint_path(), expected, std::to_string(version))) return true;
    }
  } catch (const Error& e) {
    // The version is published; the hint is only a hint.
    spdlog::warn("table {}: version-hint.text not raised to {}: {}", folder.location, version, e.what());
  }
  return false;
}

// A commit about to be published, and what is known of it.
struct Attempt {
  const LoadedTable& base;
  TableMetadata& next;
  int64_t snapshot_id;
  std::string bytes;
  int64_t version;
  std::string path;
};

class FilesystemTable final : public TableOperations {
 public:
  FilesystemTable(std::shared_ptr<FileIO> io, const std::string& location)
      : folder_{std::move(io), normal_location(location)} {
    const std::optional<Head> head = find_head(folder_, nullptr);
    if (!head) {
      fail(ErrorKind::not_found, "table {}: there is no metadata file (v<N>.metadata.json in {})", folder_.location,
           folder_.metadata_folder());
    }
    if (!head->stray_path.empty()) fail_mixed(folder_, *head);
    known_ = head->table;
    table_uuid_ = known_.metadata->table_uuid;
    table_io_ = relocated_io(folder_.io, folder_.location, *known_.metadata);
  }

  const std::string& location() const override { return folder_.location; }
  const std::shared_ptr<FileIO>& io() const override { return table_io_; }

  LoadedTable load() override {
    const Head head = look();
    if (!head.stray_path.empty()) fail_mixed(folder_, head);
    if (head.table.metadata->table_uuid != table_uuid_) fail_replaced(folder_, table_uuid_);
    return head.table;
  }

  Published publish(const LoadedTable& base, TableMetadata next, int64_t snapshot_id) override {
    check_may_publish(folder_.location, base.metadata_path);
    const std::vector<std::string> pruned = extend_log(base, next);
    Attempt attempt{base,
                    next,
                    snapshot_id,
                    serialize_table_metadata(next),
                    base.version + 1,
                    folder_.version_path(base.version + 1)};
    return put_until_settled(attempt, pruned);
  }

 private:
  enum class Verdict : uint8_t { landed, lost, replaced, free, unknown };

  LoadedTable known() const {
    const std::lock_guard lock(mutex_);
    return known_;
  }

  void remember(const LoadedTable& table) {
    const std::lock_guard lock(mutex_);
    if (table.metadata->table_uuid == table_uuid_) known_ = table;
  }

  Head look() {
    const LoadedTable start = known();
    std::optional<Head> head = find_head(folder_, &start);
    if (!head)
      fail(ErrorKind::not_found, "table {}: it is gone; it was there as {}", folder_.location, start.metadata_path);
    if (head->stray_path.empty()) remember(head->table);
    return std::move(*head);
  }

  // Sets last-updated-ms and metadata-log; returns the log's files that fall out of it, oldest first.
  std::vector<std::string> extend_log(const LoadedTable& base, TableMetadata& next) const {
    next.last_updated_ms = std::max({now_ms(), base.metadata->last_updated_ms, next.last_updated_ms});
    next.metadata_log = base.metadata->metadata_log;
    // The base as the table's own location spells it, which other readers of a moved table map as they do all its
    // paths.
    const std::string suffix = base.metadata_path.substr(folder_.location.size());
    next.metadata_log.push_back({base.metadata->last_updated_ms, base.metadata->location + suffix});
    const int64_t entries_max = std::max<int64_t>(1, next.int_property("write.metadata.previous-versions-max", 100));
    std::vector<std::string> dropped;
    while (static_cast<int64_t>(next.metadata_log.size()) > entries_max) {
      dropped.push_back(next.metadata_log.front().metadata_file);
      next.metadata_log.erase(next.metadata_log.begin());
    }
    return next.bool_property("write.metadata.delete-after-commit.enabled", false) ? dropped
                                                                                   : std::vector<std::string>();
  }

  Published put_until_settled(const Attempt& attempt, const std::vector<std::string>& pruned) {
    bool may_have_put = false;
    for (Backoff backoff(status_check_options(*attempt.base.metadata));; backoff.wait()) {
      if (backoff.exhausted()) return {PublishOutcome::unknown, attempt.base};
      Verdict verdict = Verdict::unknown;
      std::optional<Head> head;
      try {
        const std::optional<bool> put = try_put(attempt, may_have_put);
        may_have_put = true;  // a refusal too may be our own put arriving twice (P1.6)
        if (put && *put) {
          if (const auto info = confirm_head(attempt)) {
            // Large tables are not copied; nothing looks at attempt.next from here on.
            LoadedTable table{std::make_shared<TableMetadata>(std::move(attempt.next)), attempt.path, attempt.version,
                              info->version};
            return finish(attempt, table, pruned);
          }
        }
        head = look();
        verdict = judge(attempt, *head);
        // Seen by loading, its name may not be durable yet (P15).
        if (verdict == Verdict::landed) folder_.io->sync_folder(folder_.metadata_folder());
      } catch (const Error& e) {
        if (!may_have_put) throw;
        spdlog::warn("table {}: the outcome of version {} is not known yet: {}", folder_.location, attempt.version,
                     e.what());
        if (e.kind() != ErrorKind::io && e.kind() != ErrorKind::busy) return {PublishOutcome::unknown, attempt.base};
        continue;
      }
      switch (verdict) {
        case Verdict::landed:
          return finish(attempt, head->table, pruned);
        case Verdict::lost:
          return {PublishOutcome::lost, head->table};
        case Verdict::replaced:
          fail_replaced(folder_, attempt.base.metadata->table_uuid);
        case Verdict::unknown:
          return {PublishOutcome::unknown, head->table};
        case Verdict::free:
          break;
      }
    }
  }

  // nullopt: no answer. Throws what proves that nothing was put, unless an earlier put may have been.
  std::optional<bool> try_put(const Attempt& attempt, bool may_have_put) {
    try {
      fault_point("commit.publish");
      const bool is_put = !has_other_spelling(attempt) && folder_.io->put_if_absent(attempt.path, attempt.bytes);
      fault_point("commit.published");
      return is_put;
    } catch (const NotPut& e) {
      if (!may_have_put) throw;
      spdlog::warn("table {}: version {} could not be put again: {}", folder_.location, attempt.version, e.what());
      return std::nullopt;
    } catch (const Error& e) {
      if (e.kind() != ErrorKind::io && e.kind() != ErrorKind::busy && !may_have_put) throw;
      spdlog::warn("table {}: no answer to the put of version {}: {}", folder_.location, attempt.version, e.what());
      return std::nullopt;
    }
  }

  // Hadoop's writers publish v<N>.gz.metadata.json where the table says so: the same version under another name.
  bool has_other_spelling(const Attempt& attempt) {
    const bool may_have = attempt.base.metadata_path.find(".gz") != std::string::npos ||
                          attempt.base.metadata->property("write.metadata.compression-codec", "none") != "none";
    const std::optional<FileInfo> info = may_have ? find_version(folder_, attempt.version) : std::nullopt;
    return info && info->path != attempt.path;
  }

  // A free name does not prove the head (P1.3): our file's info if v<N> is still what was read, v<N+2> is absent and
  // the hint is at most N+1.
  std::optional<FileInfo> confirm_head(const Attempt& attempt) {
    const std::optional<FileInfo> base = folder_.io->stat(attempt.base.metadata_path);
    if (!base || base->version != attempt.base.file_version) return std::nullopt;
    if (find_version(folder_, attempt.version + 1)) return std::nullopt;
    const std::optional<int64_t> hint = read_hint(folder_);
    const std::optional<int64_t> newest = hint ? hint : newest_listed_version(folder_);
    if (!newest || *newest > attempt.version) return std::nullopt;
    return folder_.io->stat(attempt.path);
  }

  // What became of `attempt`, given a head seen after it (P1.6).
  Verdict judge(const Attempt& attempt, const Head& head) {
    const TableMetadata& now = *head.table.metadata;
    const std::string& base_uuid = attempt.base.metadata->table_uuid;
    if (now.table_uuid != base_uuid || !head.stray_path.empty()) {
      // Two tables' versions lie here. The one with the hint is the table (P1.5); without a hint nothing is proven.
      const std::optional<std::string> hinted_uuid = uuid_at_hint();
      if (!hinted_uuid || *hinted_uuid == base_uuid) return Verdict::unknown;
      remove_if_ours(attempt);
      return Verdict::replaced;
    }
    if (attempt.snapshot_id != 0 && now.find_snapshot(attempt.snapshot_id)) return Verdict::landed;
    if (head.table.version < attempt.version) {
      // While the name is free and the base stands, the same may be put again; a late put of it is then ours too.
      const bool is_base =
          head.table.version == attempt.base.version && head.table.file_version == attempt.base.file_version;
      return is_base ? Verdict::free : Verdict::unknown;
    }
    const std::optional<std::string> there = folder_.io->read_if_exists(attempt.path);
    const bool is_ours = there && *there == attempt.bytes;
    if (attempt.snapshot_id == 0) {
      if (!is_ours)
        return Verdict::lost;  // it is asked again whether the change holds; so nothing is lost by this answer
      if (head.table.version == attempt.version || log_names_version(now, attempt.version)) return Verdict::landed;
      remove_if_ours(attempt);
      return Verdict::lost;
    }
    if (head.table.version == attempt.version) return Verdict::lost;
    if (there && !is_ours && !parse_table_metadata(*there, attempt.path).find_snapshot(attempt.snapshot_id)) {
      return Verdict::lost;
    }
    if (!leads_back_without(now, *attempt.base.metadata, attempt.next, attempt.snapshot_id)) return Verdict::unknown;
    if (!log_names_version(now, attempt.version)) remove_if_ours(attempt);
    return Verdict::lost;
  }

  std::optional<std::string> uuid_at_hint() {
    const std::optional<int64_t> hint = read_hint(folder_);
    const std::optional<FileInfo> info = hint ? find_version(folder_, *hint) : std::nullopt;
    const std::optional<std::string> bytes = info ? folder_.io->read_if_exists(info->path) : std::nullopt;
    return bytes ? std::optional(parse_table_metadata(*bytes, info->path).table_uuid) : std::nullopt;
  }

  // Takes back a version that is not in the head's history. Only its writer may (P1.3).
  void remove_if_ours(const Attempt& attempt) {
    const std::optional<std::string> there = folder_.io->read_if_exists(attempt.path);
    if (!there || *there != attempt.bytes) return;
    fault_point("commit.remove_stray");
    folder_.io->remove(attempt.path);
  }

  // After the commit: the hint, then old versions, oldest first (P1.4). Nothing here can undo it.
  Published finish(const Attempt& attempt, const LoadedTable& head, const std::vector<std::string>& pruned) {
    remember(head);
    if (head.version == attempt.version && raise_hint(folder_, attempt.version)) prune(pruned);
    fault_point("commit.done");
    return {PublishOutcome::landed, head};
  }

  void prune(const std::vector<std::string>& pruned) {
    for (const std::string& path : pruned) {
      try {
        fault_point("commit.prune");
        table_io_->remove(path);
      } catch (const Error& e) {
        // Left for orphan removal; younger ones must not go before it.
        spdlog::warn("table {}: old metadata {} not removed: {}", folder_.location, path, e.what());
        return;
      }
    }
  }

  TableFolder folder_;
  std::shared_ptr<FileIO> table_io_;
  std::string table_uuid_;
  mutable std::mutex mutex_;
  LoadedTable known_;  // guarded by mutex_
};

}  // namespace

std::shared_ptr<TableOperations> open_filesystem_table(std::shared_ptr<FileIO> io, const std::string& location) {
  return std::make_shared<FilesystemTable>(std::move(io), location);
}

LoadedTable create_filesystem_table(std::shared_ptr<FileIO> io, const TableMetadata& metadata) {
  const TableFolder folder{std::move(io), normal_location(metadata.location)};
  const auto fail_exists = [&] {
    fail(ErrorKind::already_exists, "table {}: a table is there already", folder.location);
  };
  const bool has_hint = folder.io->stat(folder.hint_path()).has_value();
  if (newest_listed_version(folder)) fail_exists();
  // Left by a drop that died: beside our first version it would name a lost one. Should it be another creator's by now,
  // no harm is done: without a hint versions are listed.
  if (has_hint) folder.io->remove(folder.hint_path());

  const std::string path = folder.version_path(1);
  const std::string bytes = serialize_table_metadata(metadata);
  bool may_have_put = false;
  for (Backoff backoff(status_check_options(metadata));; backoff.wait()) {
    if (backoff.exhausted()) {
      fail(ErrorKind::commit_unknown, "table {}: no answer to its creation; look whether it is there", folder.location);
    }
    try {
      fault_point("commit.create");
      folder.io->put_if_absent(path, bytes);
      fault_point("commit.created");
    } catch (const NotPut&) {
      if (!may_have_put) throw;
    } catch (const Error& e) {
      if (e.kind() != ErrorKind::io && e.kind() != ErrorKind::busy) throw;
      spdlog::warn("table {}: no answer to the put of version 1: {}", folder.location, e.what());
    }
    may_have_put = true;
    try {
      // A put that found the name taken may have met an earlier arrival of itself: the bytes tell (the uuid is in
      // them).
      const std::optional<FileInfo> info = folder.io->stat(path);
      const std::optional<std::string> there = folder.io->read_if_exists(path);
      if (!info || !there) continue;
      if (*there != bytes) fail_exists();
      // A version above ours that is not built on it: a table whose first versions were pruned (P1.3).
      const std::optional<int64_t> newest = newest_listed_version(folder);
      if (newest && *newest > 1) {
        const std::optional<Head> head = find_head(folder, nullptr);
        if (head && (head->table.metadata->table_uuid != metadata.table_uuid || !head->stray_path.empty())) {
          folder.io->remove(path);
          fail_exists();
        }
      }
      folder.io->sync_folder(folder.metadata_folder());
      raise_hint(folder, 1);
      return {std::make_shared<TableMetadata>(metadata), path, 1, info->version};
    } catch (const Error& e) {
      if (e.kind() != ErrorKind::io && e.kind() != ErrorKind::busy) throw;
      spdlog::warn("table {}: the outcome of its creation is not known yet: {}", folder.location, e.what());
    }
  }
}

bool filesystem_table_exists(FileIO& io, const std::string& location) {
  // The folder does not outlive the call, so it need not own the FileIO.
  const TableFolder folder{std::shared_ptr<FileIO>(std::shared_ptr<FileIO>(), &io), normal_location(location)};
  const std::optional<int64_t> hint = read_hint(folder);
  return (hint && find_version(folder, *hint)) || newest_listed_version(folder);
}

std::shared_ptr<FileIO> relocated_io(std::shared_ptr<FileIO> io, const std::string& folder,
                                     const TableMetadata& metadata) {
  const std::string recorded = normal_location(metadata.location);
  const std::string actual = normal_location(folder);
  if (recorded == actual) return io;
  return make_relocated_file_io(std::move(io), recorded, actual);
}

std::string normal_location(const std::string& location) {
  std::string text =
      is_local(location) ? std::filesystem::absolute(local_path(location)).lexically_normal().string() : location;
  while (text.size() > 1 && text.ends_with('/')) text.pop_back();
  return text;
}

}  // namespace firn::iceberg
