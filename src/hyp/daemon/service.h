// A cache owned by this process: the one that may capture, flush and run sinks. Others talk to it (control.h) or wait.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "hyp/cache/cache.h"
#include "hyp/capture/follow.h"
#include "hyp/capture/registrations.h"
#include "hyp/daemon/disk_use.h"
#include "hyp/receiver/receiver.h"
#include "hyp/sink/driver.h"

namespace firn::hyp {

// Thread-safe.
class Service {
 public:
  // Takes the lock on the cache root, <cacheRoot>/_hyp_owner.lock; nullptr if another process holds it.
  static std::unique_ptr<Service> try_own(const Config& config);

  Cache& cache() { return cache_; }
  Spool& spool() { return *spool_; }
  // Opens the receiver's ledger and spool, which flush() and the limits then count too; once, before other threads
  // call. Throws corrupt (also where tables are newer than the ledger: receiver/newer_tables.h), io.
  Receiver& open_receiver();
  int64_t unflushed_bytes() const;  // of all that flush() would take
  const Config& config() const { return cache_.config(); }

  // Throws busy if the spool holds more than config().spool_bytes_max, and what check_disk throws; invalid_argument if
  // a name cannot be one, config if the dataset's declared columns cannot be those of its cache tables. Call before
  // each capture.
  void check_capture(const std::string& dataset, const std::string& source);
  // Throws busy if all below the cache root takes more than config().cache_bytes_max: rows are refused rather than
  // others dropped (P8). Cheap: call while capturing, too.
  void check_disk();
  void check_declaration(const std::string& dataset);  // the config part of it
  // Flushes all that is spooled now, one flush at a time; what other processes left behind, too, which the report
  // leaves out. `give_way`: FlushOptions.
  FlushReport flush(const std::function<void()>& give_way = [] {});
  // Batches that the receiver has not answered yet.
  int64_t waiting_batches() const { return receiver_ ? receiver_->waiting() : 0; }
  // Rejects that flushes of this service found so far, by dataset: what a capture reports is the difference.
  int64_t rejected(const std::string& dataset) const;
  // Picks up what was appended to every collected file, of the configuration and registered ones.
  FollowReport follow(const std::atomic<bool>* cancelled = nullptr);
  // The sink of that name; throws not_found naming those that there are.
  const SinkConfig& sink(const std::string& name) const;

 private:
  Service(FileLock owner, const Config& config);
  void flush_left_behind(const std::function<void()>& give_way);
  Follower& follower(const CollectConfig& collect);

  FileLock owner_;
  Cache cache_;
  std::unique_ptr<Spool> spool_;
  std::vector<std::unique_ptr<Spool>> left_behind_;  // by processes that ended; nothing is added to them
  std::unique_ptr<Receiver> receiver_;               // nullptr: this process receives nothing
  DiskUse disk_use_;
  std::mutex flush_, follow_;
  std::map<std::string, Follower> followers_;  // of follow_; by name
  mutable std::mutex counts_;
  std::map<std::string, int64_t> rejected_;
  std::map<std::string, std::optional<Error>> declarations_;  // by dataset: whether its declared columns fit
};

std::string owner_lock_path(const std::string& cache_root);

}  // namespace firn::hyp
