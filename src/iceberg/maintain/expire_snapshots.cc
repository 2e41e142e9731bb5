#include "iceberg/maintain/expire_snapshots.h"

#include <algorithm>
#include <atomic>
#include <limits>
#include <map>
#include <mutex>
#include <set>

#include "base/clock.h"
#include "base/fault_point.h"
#include "base/log.h"
#include "base/parallel.h"
#include "base/span.h"
#include "iceberg/commit/commit.h"
#include "iceberg/maintain/reach.h"
#include "iceberg/maintain/remove_files.h"
#include "iceberg/maintain/same_file.h"
#include "iceberg/metadata/changes.h"

namespace firn::iceberg {
namespace {

constexpr int64_t kMaxSnapshotAgeMs = 5LL * 24 * 60 * 60 * 1000;  // history.expire.max-snapshot-age-ms
constexpr int64_t kEntryBytes = 64;                               // of a manifest whose counts are unknown, at least

void check_may_remove(const TableMetadata& base) {
  if (base.bool_property("gc.enabled", true)) return;
  fail(ErrorKind::invalid_argument,
       "table {}: gc.enabled is false, so its files may be another table's and are not removed; set it to true if they "
       "are not",
       base.location);
}

// main follows current_snapshot_id even where no ref says so.
std::map<std::string, SnapshotRef> refs_of(const TableMetadata& base) {
  std::map<std::string, SnapshotRef> refs = base.refs;
  if (base.current_snapshot_id && !refs.contains("main")) refs["main"].snapshot_id = *base.current_snapshot_id;
  return refs;
}

// What goes from one base (spec, "Snapshot Retention Policy").
class Policy {
 public:
  Policy(const TableMetadata& base, const ExpireOptions& options, int64_t now)
      : base_(base),
        options_(options),
        now_(now),
        older_than_(options.older_than_ms.value_or(
            now - base.int_property("history.expire.max-snapshot-age-ms", kMaxSnapshotAgeMs))),
        keep_min_(options.retain_last.value_or(
            static_cast<int32_t>(base.int_property("history.expire.min-snapshots-to-keep", 1)))),
        named_only_(!options.snapshot_ids.empty() && !options.older_than_ms && !options.retain_last),
        refs_(refs_of(base)) {
    if (keep_min_ < 1) {
      fail(ErrorKind::invalid_argument, "table {}: {} snapshots are to be kept of each branch; at least 1 stays",
           base.location, keep_min_);
    }
    retained_.insert(options.keep.begin(), options.keep.end());
    expire_refs();
    for (const auto& [name, ref] : refs_) retained_.insert(ref.snapshot_id);
    check_named();
    if (!named_only_) retain_by_age();
  }

  const std::vector<std::string>& expired_refs() const { return expired_refs_; }

  std::vector<int64_t> expired_snapshots() const {
    std::vector<int64_t> ids;
    for (const Snapshot& snapshot : base_.snapshots) {
      const bool is_named =
          std::count(options_.snapshot_ids.begin(), options_.snapshot_ids.end(), snapshot.snapshot_id);
      if (is_named || (!named_only_ && !retained_.contains(snapshot.snapshot_id))) ids.push_back(snapshot.snapshot_id);
    }
    return ids;
  }

 private:
  void expire_refs() {
    if (named_only_) return;
    const int64_t age_max = base_.int_property("history.expire.max-ref-age-ms", std::numeric_limits<int64_t>::max());
    for (auto it = refs_.begin(); it != refs_.end();) {
      const Snapshot* snapshot = base_.find_snapshot(it->second.snapshot_id);
      const bool stays = it->first == "main" ||
                         (snapshot && now_ - snapshot->timestamp_ms <= it->second.max_ref_age_ms.value_or(age_max));
      if (!stays) expired_refs_.push_back(it->first);
      it = stays ? std::next(it) : refs_.erase(it);
    }
  }

  void check_named() const {
    for (const int64_t id : options_.snapshot_ids) {
      const auto ref =
          std::find_if(refs_.begin(), refs_.end(), [&](const auto& entry) { return entry.second.snapshot_id == id; });
      if (ref != refs_.end()) {
        fail(ErrorKind::invalid_argument, "table {}: snapshot {} cannot expire, {} '{}' names it", base_.location, id,
             ref->second.is_branch ? "branch" : "tag", ref->first);
      }
      if (std::count(options_.keep.begin(), options_.keep.end(), id)) {
        fail(ErrorKind::invalid_argument, "table {}: snapshot {} cannot expire, it is to be kept", base_.location, id);
      }
    }
  }

  void retain_by_age() {
    std::set<int64_t> of_refs;
    for (const auto& [name, ref] : refs_) {
      of_refs.insert(ref.snapshot_id);
      if (!ref.is_branch) continue;
      const int64_t older_than = ref.max_snapshot_age_ms ? now_ - *ref.max_snapshot_age_ms : older_than_;
      const int32_t keep_min = ref.min_snapshots_to_keep.value_or(keep_min_);
      int32_t num_kept = 0;
      bool keeps = true;
      for (const int64_t id : ancestor_ids(base_, ref.snapshot_id)) {
        of_refs.insert(id);
        keeps = keeps && (num_kept < keep_min || base_.find_snapshot(id)->timestamp_ms >= older_than);
        if (keeps) retained_.insert(id);
        num_kept += keeps;
      }
    }
    // Staged ones, and what is left of a branch above a gap.
    for (const Snapshot& snapshot : base_.snapshots) {
      if (!of_refs.contains(snapshot.snapshot_id) && snapshot.timestamp_ms >= older_than_)
        retained_.insert(snapshot.snapshot_id);
    }
  }

  const TableMetadata& base_;
  const ExpireOptions& options_;
  const int64_t now_;
  const int64_t older_than_;
  const int32_t keep_min_;
  const bool named_only_;
  std::map<std::string, SnapshotRef> refs_;  // those that stay
  std::vector<std::string> expired_refs_;
  std::set<int64_t> retained_;
};

std::vector<const Snapshot*> snapshots_of(const TableMetadata& metadata) {
  std::vector<const Snapshot*> snapshots;
  for (auto it = metadata.snapshots.rbegin(); it != metadata.snapshots.rend(); ++it) snapshots.push_back(&*it);
  return snapshots;
}

// Whether every column of `schema` is in one of `others`.
bool is_covered(const Schema& schema, const std::vector<const Schema*>& others) {
  const std::function<bool(const Type&)> covered = [&](const Type& type) {
    if (!type.is_nested()) return true;
    return std::all_of(type.fields().begin(), type.fields().end(), [&](const Field& field) {
      const bool found = std::any_of(others.begin(), others.end(),
                                     [&](const Schema* other) { return other->find_field(field.id) != nullptr; });
      return found && covered(*field.type);
    });
  };
  return covered(*schema.as_struct());
}

void clean_schemas(TableMetadata& next, std::vector<int32_t>& removed) {
  std::set<int32_t> used = {next.current_schema_id};
  for (const Snapshot& snapshot : next.snapshots) {
    if (snapshot.schema_id) used.insert(*snapshot.schema_id);
  }
  std::vector<const Schema*> staying;
  for (const Schema& schema : next.schemas) {
    if (used.contains(schema.schema_id())) staying.push_back(&schema);
  }
  std::vector<Schema> kept;
  // Newest first: of several that have a dropped column, the one that readers would take for it stays.
  for (auto schema = next.schemas.rbegin(); schema != next.schemas.rend(); ++schema) {
    if (used.contains(schema->schema_id()) || !is_covered(*schema, staying)) {
      if (!used.contains(schema->schema_id())) staying.push_back(&*schema);
      kept.push_back(*schema);
    } else {
      removed.push_back(schema->schema_id());
    }
  }
  if (removed.empty()) return;
  std::reverse(kept.begin(), kept.end());
  next.schemas = std::move(kept);
}

// The snapshots that main's history has, and where it is cut, the sequence number there.
struct MainHistory {
  std::set<int64_t> ids;
  std::optional<int64_t> cut_at;
};

MainHistory main_history(const TableMetadata& base) {
  MainHistory history;
  const std::vector<int64_t> ids = ancestor_ids(base, base.current_snapshot_id);
  history.ids.insert(ids.begin(), ids.end());
  const Snapshot* last = ids.empty() ? nullptr : base.find_snapshot(ids.back());
  if (last != nullptr && last->parent_snapshot_id) history.cut_at = last->sequence_number;
  return history;
}

// An exporter takes rows as there where the history is cut above the snapshot that it named (hyp/sink/offsets.h).
void note_rollbacks(TableMetadata& next) {
  std::optional<MainHistory> main;
  for (auto& [name, text] : next.properties) {
    if (!name.starts_with("firn.offset.")) continue;
    Json offset = Json::parse(text, nullptr, /*allow_exceptions=*/false);
    const auto id = offset.is_object() ? offset.find("snapshot") : offset.end();
    if (id == offset.end() || !id->is_number_integer()) continue;  // no rows yet, or not to be read: its owner says so
    const Snapshot* named = next.find_snapshot(id->get<int64_t>());
    if (named == nullptr) continue;
    if (!main) main = main_history(next);
    const bool is_there = main->ids.contains(named->snapshot_id);
    if (!is_there && main->cut_at && *main->cut_at > named->sequence_number) continue;  // nobody can tell
    const auto noted = offset.find("rolledBack");
    if ((noted != offset.end() && *noted == true) == !is_there) continue;
    if (is_there) {  // main was moved forward again
      offset.erase("rolledBack");
    } else {
      offset["rolledBack"] = true;
    }
    text = offset.dump();
  }
}

void clean_specs(TableMetadata& next, FileIO& io, int threads, std::vector<int32_t>& removed) {
  if (next.partition_specs.size() < 2) return;
  std::set<int32_t> used = {next.default_spec_id};
  for (const ManifestFile& manifest : reach_manifests(next, snapshots_of(next), io, threads, Missing::fail).manifests)
    used.insert(manifest.partition_spec_id);
  std::erase_if(next.partition_specs, [&](const PartitionSpec& spec) {
    if (used.contains(spec.spec_id)) return false;
    removed.push_back(spec.spec_id);
    return true;
  });
}

// One expiry: judged anew on each try's base, then its files.
class Expiry {
 public:
  Expiry(TableOperations& table, const ExpireOptions& options) : table_(table), options_(options), now_(now_ms()) {}

  // Changes a try's base in place; false: nothing goes.
  bool apply(TableMetadata& next) {
    check_may_remove(next);
    base_ = next;
    const Policy policy(next, options_, now_);
    result_.removed_refs = policy.expired_refs();
    result_.removed_specs.clear();
    result_.removed_schemas.clear();
    const std::vector<int64_t> ids = policy.expired_snapshots();
    // A try whose answer was lost may have landed, so that the next one finds nothing: what any of them took counts.
    for (const int64_t id : ids) taken_.emplace(id, *next.find_snapshot(id));
    note_statistics(next, ids);
    if (!ids.empty()) note_rollbacks(next);
    for (const std::string& name : policy.expired_refs()) remove_ref(next, name);
    remove_snapshots(next, ids);
    if (options_.clean_expired_metadata) {
      clean_schemas(next, result_.removed_schemas);
      clean_specs(next, *table_.io(), options_.threads, result_.removed_specs);
    }
    return !ids.empty() || !policy.expired_refs().empty() || !result_.removed_schemas.empty() ||
           !result_.removed_specs.empty();
  }

  // Removes what only the snapshots taken reach. `head`: loaded after they were.
  ExpireResult remove_unreached(const TableMetadata& head) {
    std::vector<const Snapshot*> expired;
    for (const auto& [id, snapshot] : taken_) {
      if (head.find_snapshot(id) != nullptr) continue;
      expired.push_back(&snapshot);
      result_.expired_snapshots.push_back(id);
    }
    if (expired.empty()) return std::move(result_);
    FileIO& io = *table_.io();
    const ReachedManifests kept = reach_manifests(head, snapshots_of(head), io, options_.threads, Missing::fail);
    ReachedManifests gone = reach_manifests(base_, expired, io, options_.threads, Missing::pass_over);
    DoomedFiles manifests(io);
    for (const ManifestFile& manifest : gone.manifests)
      manifests.add(manifest.manifest_path, FileKind::manifest, manifest.manifest_length);
    for (const std::string& path : kept.paths) manifests.keep(path);
    std::erase_if(gone.manifests,
                  [&](const ManifestFile& manifest) { return !manifests.contains(manifest.manifest_path); });
    remove_content(head, gone.manifests, kept.manifests);
    remove(manifests);
    remove_lists_and_statistics(head, expired);
    return std::move(result_);
  }

 private:
  void note_statistics(const TableMetadata& base, const std::vector<int64_t>& ids) {
    for (const std::vector<Json>* files : {&base.statistics, &base.partition_statistics}) {
      for (const Json& file : *files) {
        const std::optional<int64_t> id = find_int64(file, "snapshot-id", "statistics");
        const std::optional<std::string> path = find_string(file, "statistics-path", "statistics");
        if (!id || !path || !std::count(ids.begin(), ids.end(), *id)) continue;
        statistics_[*path] = find_int64(file, "file-size-in-bytes", "statistics").value_or(0);
      }
    }
  }

  // Live files of `gone` that no manifest of `kept` has live. What is more than files_held_max is compared in
  // several passes, each over its share of all paths.
  void remove_content(const TableMetadata& head, const std::vector<ManifestFile>& gone,
                      const std::vector<ManifestFile>& kept) {
    int64_t num_entries = 0;
    for (const ManifestFile& manifest : gone) {
      num_entries += manifest.added_files_count && manifest.existing_files_count
                         ? int64_t{*manifest.added_files_count} + *manifest.existing_files_count
                         : std::max<int64_t>(manifest.manifest_length / kEntryBytes, 1000);
    }
    const auto num_passes = static_cast<size_t>(1 + num_entries / std::max<int64_t>(1, options_.files_held_max));
    for (size_t pass = 0; pass < num_passes; ++pass) {
      DoomedFiles doomed = collect(gone, pass, num_passes);
      keep_reached(head, kept, doomed);
      remove(doomed);
    }
  }

  DoomedFiles collect(const std::vector<ManifestFile>& gone, size_t pass, size_t num_passes) {
    DoomedFiles doomed(*table_.io());
    std::mutex mutex;
    parallel_for(gone.size(), options_.threads, [&](size_t i) {
      for_each_live(base_, gone[i], *table_.io(), Missing::pass_over, {}, [&](ManifestEntry& entry) {
        const std::string& path = entry.file.file_path;
        if (num_passes > 1 && std::hash<std::string>()(path_key(path)) % num_passes != pass) return;
        const std::lock_guard lock(mutex);
        doomed.add(path, kind_of(entry.file), entry.file.file_size_bytes);
      });
    });
    return doomed;
  }

  void keep_reached(const TableMetadata& head, const std::vector<ManifestFile>& kept, DoomedFiles& doomed) {
    std::mutex mutex;
    std::atomic<bool> is_done = doomed.empty();
    parallel_for(kept.size(), options_.threads, [&](size_t i) {
      if (is_done) return;
      for_each_live(head, kept[i], *table_.io(), Missing::fail, {}, [&](ManifestEntry& entry) {
        const std::lock_guard lock(mutex);
        doomed.keep(entry.file.file_path);
        if (doomed.empty()) is_done = true;
      });
    });
  }

  void remove_lists_and_statistics(const TableMetadata& head, const std::vector<const Snapshot*>& expired) {
    DoomedFiles doomed(*table_.io());
    for (const Snapshot* snapshot : expired) {
      if (!snapshot->manifest_list.empty()) doomed.add(snapshot->manifest_list, FileKind::manifest_list, 0);
    }
    for (const auto& [path, size_bytes] : statistics_) doomed.add(path, FileKind::statistics, size_bytes);
    for (const Snapshot& snapshot : head.snapshots) {
      if (!snapshot.manifest_list.empty()) doomed.keep(snapshot.manifest_list);
    }
    for (const std::vector<Json>* files : {&head.statistics, &head.partition_statistics}) {
      for (const Json& file : *files) {
        if (const auto path = find_string(file, "statistics-path", "statistics")) doomed.keep(*path);
      }
    }
    remove(doomed);
  }

  void remove(const DoomedFiles& doomed) {
    std::vector<DoomedFile> files = doomed.files();
    for (DoomedFile& file : files) {
      if (file.kind != FileKind::manifest_list) continue;  // nothing records its size
      const std::optional<FileInfo> info = table_.io()->stat(file.path);
      file.size_bytes = info ? info->size_bytes : 0;
    }
    remove_files(files, *table_.io(), options_.threads, options_.dry_run, result_.files);
  }

  TableOperations& table_;
  const ExpireOptions& options_;
  const int64_t now_;
  TableMetadata base_;  // of the last try: it has the specs of what goes
  std::map<int64_t, Snapshot> taken_;
  std::map<std::string, int64_t> statistics_;  // size by path, of snapshots taken
  ExpireResult result_;
};

}  // namespace

ExpireResult expire_snapshots(TableOperations& table, const ExpireOptions& options) {
  Span span("iceberg.expire_snapshots");
  span.set("table", table.location());
  const LoadedTable base = table.load();
  for (const int64_t id : options.snapshot_ids) {
    if (base.metadata->find_snapshot(id) == nullptr)
      fail(ErrorKind::not_found, "table {}: there is no snapshot {} to expire", table.location(), id);
  }
  Expiry expiry(table, options);
  if (options.dry_run) {
    TableMetadata next = *base.metadata;
    expiry.apply(next);
    return expiry.remove_unreached(next);
  }
  commit_metadata(table, [&](TableMetadata& next) { return expiry.apply(next); });
  fault_point("expire.committed");
  return expiry.remove_unreached(*table.load().metadata);
}

}  // namespace firn::iceberg
