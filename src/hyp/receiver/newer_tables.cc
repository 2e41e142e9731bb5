#include "hyp/receiver/newer_tables.h"

#include <algorithm>
#include <vector>

#include "base/error.h"
#include "base/log.h"
#include "hyp/capture/spool_committed.h"
#include "io/sqlite.h"

namespace firn::hyp {
namespace {

struct NewerTables {
  std::vector<PartitionId> partitions;
  int64_t commits = 0;  // the most that any of them says
};

NewerTables find_newer_tables(const Cache& cache, const std::string& spool_id, int64_t commits) {
  NewerTables newer;
  for (const std::string& dataset : cache.datasets()) {
    for (const PartitionId& partition : cache.partitions(dataset)) {
      const auto held = cache.hold(partition);
      const int64_t told = held ? held->table.metadata->int_property(kReceivedPrefix + spool_id, 0) : 0;
      if (told <= commits) continue;
      newer.partitions.push_back(partition);
      newer.commits = std::max(newer.commits, told);
    }
  }
  return newer;
}

}  // namespace

void check_ledger_knows_tables(const Cache& cache) {
  constexpr size_t kNamed = 3;
  const std::vector<std::string> spools = list_receiver_spools(cache.config().cache_root);
  if (spools.size() != 1) return;  // none, or more, which Receiver::open refuses
  const std::string& folder = spools[0];
  committed_end(folder);  // whether the ledger is there and is one
  const int64_t commits = ledger_commits(folder);
  const NewerTables newer = find_newer_tables(cache, folder.substr(folder.rfind('/') + 1), commits);
  if (newer.partitions.empty()) return;
  std::string names;
  for (size_t i = 0; i < newer.partitions.size() && i < kNamed; ++i)
    names += (i == 0 ? "" : ", ") + newer.partitions[i].logical_path();
  if (newer.partitions.size() > kNamed) names += fmt::format(" and {} more", newer.partitions.size() - kNamed);
  const std::string found = fmt::format("{} has seen {} commits, and rows of later ones were flushed into {}",
                                        ledger_path(folder), commits, names);
  if (cache.config().receiver.takes_older_ledger) {
    spdlog::warn("{}: of these rows it knows nothing, so what senders send again is there twice", found);
    SqliteFile(ledger_path(folder), SqliteFile::Open::existing)
        .run(fmt::format("update committed set commits = {}", newer.commits).c_str());  // the word is asked for once
    return;
  }
  fail(ErrorKind::corrupt,
       "{}: it is of an older backup than these, or was copied before them or without its -wal file, and senders could "
       "send again what they have. Restore the ledger, the segments beside it and the tables from one backup; or, to "
       "go on with what the ledger knows, start once with `hyp serve --older-ledger`: senders that know better stop "
       "with destination_behind",
       found);
}

}  // namespace firn::hyp
