#include "hyp/daemon/service.h"

#include <algorithm>

#include "base/log.h"
#include "base/uri.h"
#include "hyp/capture/json_scanner.h"
#include "hyp/capture/spool_committed.h"
#include "hyp/receiver/newer_tables.h"

namespace firn::hyp {
namespace {

void add(FlushReport& all, const FlushReport& one) {
  all.rows += one.rows;
  all.rejected += one.rejected;
  all.partitions += one.partitions;
  all.commits += one.commits;
  all.bytes += one.bytes;
  for (const auto& [dataset, rows] : one.rows_by_dataset) all.rows_by_dataset[dataset] += rows;
  for (const auto& [dataset, rows] : one.rejected_by_dataset) all.rejected_by_dataset[dataset] += rows;
  all.first_rejected.insert(all.first_rejected.end(), one.first_rejected.begin(), one.first_rejected.end());
  all.problems.insert(all.problems.end(), one.problems.begin(), one.problems.end());
}

}  // namespace

std::string owner_lock_path(const std::string& cache_root) { return join_path(cache_root, "_hyp_owner.lock"); }

std::unique_ptr<Service> Service::try_own(const Config& config) {
  make_directories(config.cache_root);
  auto owner = FileLock::try_acquire(owner_lock_path(config.cache_root), FileLock::Mode::exclusive);
  if (!owner) return nullptr;
  return std::unique_ptr<Service>(new Service(std::move(*owner), config));
}

Service::Service(FileLock owner, const Config& config)
    : owner_(std::move(owner)),
      cache_(config),
      spool_(Spool::open(config.cache_root)),
      left_behind_(Spool::open_abandoned(config.cache_root)),
      disk_use_(config.cache_root) {
  take_configured_routing(cache_, *spool_);
}

// With the first flush, not before: a receiver that starts again may have much to flush, and its senders wait.
void Service::flush_left_behind(const std::function<void()>& give_way) {
  for (const auto& spool : left_behind_) {
    if (spool->unflushed_bytes() == 0) continue;
    spdlog::info("flushing the spool {}, which its process left", spool->id());
    for (const std::string& problem : hyp::flush(cache_, *spool, {.give_way = give_way}).problems)
      spdlog::error("{}", problem);
  }
}

// Once a dataset: a declaration lasts as long as this does, and tables made meanwhile follow it.
void Service::check_declaration(const std::string& dataset) {
  std::lock_guard guard(counts_);
  auto [known, is_new] = declarations_.try_emplace(dataset);
  if (is_new) {
    try {
      check_declared_columns(cache_, dataset);
    } catch (const Error& e) {
      if (e.kind() != ErrorKind::config) {
        declarations_.erase(known);
        throw;
      }
      known->second = e;
    }
  }
  if (known->second) throw Error(*known->second);
}

void Service::check_capture(const std::string& dataset, const std::string& source) {
  config().dataset(dataset);
  check_declaration(dataset);
  constexpr size_t kSourceBytesMax = 200;  // encoded: it names a folder
  if (source.empty() || !is_valid_utf8(source) || encode_segment(source).size() > kSourceBytesMax) {
    fail(ErrorKind::invalid_argument, "the source's name is empty, no UTF-8, or longer than {} bytes", kSourceBytesMax);
  }
  if (const int64_t spooled = unflushed_bytes(); spooled > config().spool_bytes_max) {
    fail(ErrorKind::busy,
         "the spool of {} holds {} bytes that could not be flushed yet, more than maxSpoolBytes ({}): nothing more is "
         "taken until a flush succeeds; see the log or `hyp status`",
         config().cache_root, spooled, config().spool_bytes_max);
  }
  check_disk();
}

void Service::check_disk() {
  const int64_t limit = config().cache_bytes_max;
  if (limit == 0) return;
  const int64_t used = disk_use_.bytes(unflushed_bytes(), limit);
  if (used <= limit) return;
  fail(ErrorKind::busy,
       "{} takes {} bytes, more than maxCacheBytes ({}): nothing more is taken, since no row is dropped to make room. "
       "Let rows go (`hyp sink run` and a shorter retention, then `hyp maintain`; or `hyp purge`), or raise "
       "maxCacheBytes",
       config().cache_root, used, limit);
}

Receiver& Service::open_receiver() {
  if (receiver_) return *receiver_;
  std::erase_if(left_behind_, [&](const auto& spool) { return is_receiver_spool(spool->folder()); });
  check_ledger_knows_tables(cache_);
  receiver_ = Receiver::open(cache_);
  take_configured_routing(cache_, receiver_->spool());
  return *receiver_;
}

int64_t Service::unflushed_bytes() const {
  int64_t bytes = spool_->unflushed_bytes() + (receiver_ ? receiver_->spool().unflushed_bytes() : 0);
  for (const auto& spool : left_behind_) bytes += spool->unflushed_bytes();
  return bytes;
}

FlushReport Service::flush(const std::function<void()>& give_way) {
  std::lock_guard guard(flush_);
  flush_left_behind(give_way);
  std::vector<Spool*> spools = {spool_.get()};
  if (receiver_) spools.push_back(&receiver_->spool());
  FlushReport report;
  std::optional<Error> failure;  // one spool's trouble keeps no other from its flush
  for (Spool* spool : spools) {
    try {
      add(report, hyp::flush(cache_, *spool, {.give_way = give_way}));
    } catch (const Error& e) {
      failure = e;
    }
  }
  {
    std::lock_guard counts(counts_);
    for (const auto& [dataset, count] : report.rejected_by_dataset) rejected_[dataset] += count;
  }
  if (failure) throw Error(*failure);
  return report;
}

int64_t Service::rejected(const std::string& dataset) const {
  std::lock_guard guard(counts_);
  const auto found = rejected_.find(dataset);
  return found == rejected_.end() ? 0 : found->second;
}

Follower& Service::follower(const CollectConfig& collect) {
  const auto known = followers_.find(collect.name);
  if (known != followers_.end()) {
    const CollectConfig& followed = known->second.config();
    if (followed.dataset == collect.dataset && followed.glob == collect.glob) return known->second;
    followers_.erase(known);
  }
  return followers_.emplace(collect.name, Follower(config().cache_root, collect)).first->second;
}

FollowReport Service::follow(const std::atomic<bool>* cancelled) {
  std::lock_guard guard(follow_);
  FollowReport all;
  std::vector<CollectConfig> followed = config().collect;
  for (CollectConfig& registered : load_registrations(config().cache_root)) followed.push_back(std::move(registered));
  std::erase_if(followers_, [&](const auto& one) {
    return std::none_of(followed.begin(), followed.end(), [&](const auto& other) { return other.name == one.first; });
  });
  for (const CollectConfig& collect : followed) {
    if (cancelled != nullptr && *cancelled) break;
    try {
      check_capture(collect.dataset, collect.name);
      CaptureOptions options;
      options.dataset = collect.dataset;
      options.source = collect.name;
      options.row_bytes_max = config().dataset(collect.dataset).row_bytes_max;
      options.cancelled = cancelled;
      options.progress = [&](const CaptureReport&) { check_disk(); };
      const FollowReport one = follower(collect).poll(*spool_, options);
      all.total.lines += one.total.lines;
      all.total.bytes += one.total.bytes;
      all.problems.insert(all.problems.end(), one.problems.begin(), one.problems.end());
      all.missed.insert(all.missed.end(), one.missed.begin(), one.missed.end());
    } catch (const Error& e) {  // one registration does not stop the others
      all.problems.push_back(fmt::format("{}: {}", collect.name, e.what()));
    }
  }
  return all;
}

const SinkConfig& Service::sink(const std::string& name) const {
  std::string names;
  for (const SinkConfig& sink : config().sinks) {
    if (sink.name == name) return sink;
    names += names.empty() ? sink.name : ", " + sink.name;
  }
  fail(ErrorKind::not_found, "there is no sink \"{}\" in {}; there are: {}", name,
       config().path.empty() ? "the configuration" : config().path, names.empty() ? "none" : names);
}

}  // namespace firn::hyp
