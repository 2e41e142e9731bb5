#include "hyp/cache/generations.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <vector>

#include "base/fault_point.h"
#include "base/log.h"
#include "base/span.h"
#include "base/uri.h"
#include "hyp/cache/layout.h"
#include "iceberg/maintain/expire_snapshots.h"
#include "iceberg/maintain/remove_orphan_files.h"
#include "io/leftovers.h"

namespace firn::hyp {
namespace {

namespace fs = std::filesystem;

constexpr size_t kSnapshotsMax = 32;      // that no reader holds; more make a sweep due
constexpr size_t kExpiredAtOnce = 1'000;  // locked one by one

std::string compactor_lock_path(const Cache& cache, const PartitionId& partition) {
  const std::string folder = cache.folder(partition);
  make_directories(folder);
  return join_path(folder, "compactor.lock");
}

// The generations that have, or had, a lock file.
std::vector<std::string> list_generation_locks(const std::string& partition_folder) {
  constexpr std::string_view kLock = ".lock";
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator it(partition_folder, error), end; !error && it != end; it.increment(error)) {
    std::string name = it->path().filename().string();
    if (!name.ends_with(kLock)) continue;
    name.resize(name.size() - kLock.size());
    if (generation_number(name)) names.push_back(std::move(name));
  }
  if (error && error != std::errc::no_such_file_or_directory) fail_errno(error.value(), "list " + partition_folder);
  return names;
}

// The snapshots that need not stay for the table's own sake.
std::vector<int64_t> older_snapshots(const iceberg::TableMetadata& metadata) {
  std::vector<int64_t> ids;
  for (const iceberg::Snapshot& snapshot : metadata.snapshots) {
    const bool is_named = metadata.current_snapshot_id == snapshot.snapshot_id ||
                          std::any_of(metadata.refs.begin(), metadata.refs.end(),
                                      [&](const auto& ref) { return ref.second.snapshot_id == snapshot.snapshot_id; });
    if (!is_named) ids.push_back(snapshot.snapshot_id);
  }
  return ids;
}

// Whether a sweep would find something to do; what waits for readers is counted in `report` if not. Looks without the
// partition lock: what it misses, it sees the next time.
bool is_due(const Cache& cache, const PartitionId& partition, SweepReport& report) {
  const std::string folder = cache.folder(partition);
  const auto held = cache.hold(partition);
  const std::vector<std::string> generations = list_generations(folder);
  if (!held) return !generations.empty();
  const std::string live = table_dir_of(*held);
  const auto left = cache.swept(held->operations->location());
  if (!left) return true;
  for (const std::string& name : generations) {
    if (name == live) continue;
    if (*generation_number(name) > generation_number(live).value_or(0)) {  // a compactor's, at work or dead
      if (try_lock_compactor(cache, partition)) return true;
    } else {
      if (GenerationLock(generation_lock_path(folder, name)).try_own()) return true;
      ++report.generations_waiting;
    }
  }
  const auto is_free = [&](int64_t id) { return !held->lock.is_snapshot_shared(id); };
  if (std::any_of(left->begin(), left->end(), is_free)) return true;
  report.snapshots_waiting += static_cast<int64_t>(left->size());
  const std::vector<int64_t> older = older_snapshots(*held->table.metadata);
  return older.size() > kSnapshotsMax &&
         static_cast<size_t>(std::count_if(older.begin(), older.end(), is_free)) > kSnapshotsMax;
}

void count_removed(const std::string& folder, SweepReport& report) {
  std::error_code ignored;  // it is only counted
  for (fs::recursive_directory_iterator it(folder, ignored), end; !ignored && it != end; it.increment(ignored)) {
    std::error_code gone;
    if (!it->is_regular_file(gone)) continue;
    ++report.files_removed;
    if (it->hard_link_count(gone) == 1) report.bytes_removed += static_cast<int64_t>(it->file_size(gone));
  }
}

// Folders of partition values whose files are all gone; they name the values. Only who holds the partition lock makes
// folders there.
void remove_empty_folders(const std::string& folder) {
  std::error_code error;
  std::vector<std::string> children;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    std::error_code gone;
    if (it->is_directory(gone) && !it->is_symlink(gone)) children.push_back(it->path().string());
  }
  if (error && error != std::errc::no_such_file_or_directory) fail_errno(error.value(), "list " + folder);
  for (const std::string& child : children) {
    remove_empty_folders(child);
    if (fs::is_empty(child, error) && !error) remove_tree(child);
  }
}

// One sweep. Requires the partition lock.
class Sweeper {
 public:
  Sweeper(Cache& cache, const PartitionId& partition, bool is_compactor)
      : cache_(cache), partition_(partition), folder_(cache.folder(partition)), is_compactor_(is_compactor) {}

  SweepReport run() {
    // What is removed rests on what is seen here, so that must be durable (P10.8). The head is not swept, so it may be
    // held meanwhile.
    const auto held = cache_.hold(partition_, /*acting=*/true);
    remove_generations(held ? std::optional(table_dir_of(*held)) : std::nullopt);
    remove_leftovers(folder_, /*recursive=*/false);
    if (held) sweep_live(*held);
    return report_;
  }

 private:
  void remove_generations(const std::optional<std::string>& live) {
    std::optional<FileLock> compactor;
    if (!is_compactor_) compactor = try_lock_compactor(cache_, partition_);
    const int64_t newest = live ? generation_number(*live).value_or(0) : 0;
    std::set<std::string> names;
    for (std::string& name : list_generations(folder_)) names.insert(std::move(name));
    for (std::string& name : list_generation_locks(folder_)) names.insert(std::move(name));
    for (const std::string& name : names) {
      // What is above the live one is a compactor's, at work or dead.
      const bool may_go = is_compactor_ || compactor || *generation_number(name) < newest;
      if (may_go && name != live) remove_generation(name);
    }
  }

  void remove_generation(const std::string& name) {
    const std::string lock_path = generation_lock_path(folder_, name);
    GenerationLock lock(lock_path);
    if (!lock.try_own()) {
      ++report_.generations_waiting;
      return;
    }
    const std::string location = generation_folder(folder_, name);
    if (fs::exists(location)) {
      count_removed(location, report_);
      fault_point("sweep.remove-generation");
      remove_tree(location);
      fault_point("sweep.generation-removed");
      ++report_.generations_removed;
      cache_.note_swept(location, std::nullopt);
    }
    // Who waits for this very lock will see that the cursor has moved: it names no generation twice.
    if (::unlink(lock_path.c_str()) != 0 && errno != ENOENT) fail_errno(errno, "remove " + lock_path);
  }

  void sweep_live(const HeldTable& held) {
    const std::string& location = held.operations->location();
    cache_.note_swept(location, std::nullopt);
    const std::vector<int64_t> older = older_snapshots(*held.table.metadata);
    std::set<int64_t> left;
    for (size_t begin = 0; begin < older.size(); begin += kExpiredAtOnce) {
      const auto first = older.begin() + static_cast<ptrdiff_t>(begin);
      expire(held, {first, first + static_cast<ptrdiff_t>(std::min(kExpiredAtOnce, older.size() - begin))}, left);
    }
    report_.snapshots_waiting += static_cast<int64_t>(left.size());

    // What dead writers left, and a sweep that died between its commit and its removals. Whoever writes here holds the
    // partition lock, and what a reader holds the head lists.
    remove_leftovers(location, /*recursive=*/true);
    iceberg::OrphanOptions options;
    options.any_age = true;
    fault_point("sweep.remove-unnamed");
    const iceberg::FileCounts unnamed = iceberg::remove_orphan_files(*held.operations, options).files;
    count(unnamed);
    remove_empty_folders(join_path(location, "data"));
    if (report_.files_failed == 0) cache_.note_swept(location, std::move(left));
  }

  // Those of `ids` that no reader holds: nobody can come to hold one until its files are gone, and then the head that
  // is looked at again does not list it (Cache::hold).
  void expire(const HeldTable& held, const std::vector<int64_t>& ids, std::set<int64_t>& left) {
    GenerationLock owned(generation_lock_path(folder_, table_dir_of(held)));
    iceberg::ExpireOptions options;
    for (const int64_t id : ids) {
      if (owned.try_own_snapshot(id)) {
        options.snapshot_ids.push_back(id);
      } else {
        left.insert(id);
      }
    }
    if (options.snapshot_ids.empty()) return;
    fault_point("sweep.expire");
    const iceberg::ExpireResult result = iceberg::expire_snapshots(*held.operations, options);
    fault_point("sweep.expired");
    report_.snapshots_expired += static_cast<int64_t>(result.expired_snapshots.size());
    count(result.files);
  }

  void count(const iceberg::FileCounts& files) {
    const auto failed = static_cast<int64_t>(files.failed.size());
    report_.files_removed += files.total() - failed;
    report_.files_failed += failed;
    report_.bytes_removed += files.bytes;
  }

  Cache& cache_;
  const PartitionId& partition_;
  const std::string folder_;
  const bool is_compactor_;
  SweepReport report_;
};

}  // namespace

SweepReport& SweepReport::operator+=(const SweepReport& other) {
  generations_removed += other.generations_removed;
  generations_waiting += other.generations_waiting;
  snapshots_expired += other.snapshots_expired;
  snapshots_waiting += other.snapshots_waiting;
  files_removed += other.files_removed;
  bytes_removed += other.bytes_removed;
  files_failed += other.files_failed;
  return *this;
}

SweepReport sweep_partition(Cache& cache, const PartitionId& partition, Sweep sweep) {
  if (SweepReport waiting; sweep == Sweep::when_due && !is_due(cache, partition, waiting)) return waiting;
  Span span("hyp.sweep");
  span.set("partition", partition.logical_path());
  const FileLock partition_lock = cache.lock(partition);
  return Sweeper(cache, partition, /*is_compactor=*/false).run();
}

SweepReport sweep_locked_partition(Cache& cache, const PartitionId& partition) {
  return Sweeper(cache, partition, /*is_compactor=*/true).run();
}

std::optional<FileLock> try_lock_compactor(const Cache& cache, const PartitionId& partition) {
  return FileLock::try_acquire(compactor_lock_path(cache, partition), FileLock::Mode::exclusive);
}

FileLock lock_compactor(const Cache& cache, const PartitionId& partition) {
  return FileLock::acquire(compactor_lock_path(cache, partition), FileLock::Mode::exclusive);
}

}  // namespace firn::hyp
