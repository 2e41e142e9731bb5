#include "orca/state/group_commit.h"

#include <chrono>

#include "base/clock.h"
#include "base/error.h"
#include "base/fault_point.h"
#include "base/log.h"

namespace firn::orca {
namespace {

// More only makes one wait for the others.
constexpr size_t kGroupMax = 64;

bool is_outage(const Error& error) { return error.kind() == ErrorKind::io || error.kind() == ErrorKind::busy; }

}  // namespace

GroupCommit::GroupCommit(Open open, int64_t outage_ms_max) : open_(std::move(open)), outage_ms_max_(outage_ms_max) {
  database_ = open_();
  title_ = database_->title();
  thread_ = std::jthread([this] { serve(); });
}

GroupCommit::~GroupCommit() {
  const std::lock_guard lock(mutex_);
  ending_ = true;
  asked_.notify_all();
}

void GroupCommit::run(const char* name, const Work& work) {
  Request request{.name = name, .work = &work};
  std::unique_lock lock(mutex_);
  if (ending_) fail(ErrorKind::cancelled, "{}: this process is ending", title_);
  requests_.push_back(&request);
  asked_.notify_one();
  answered_.wait(lock, [&] { return request.done; });
  if (request.error) std::rethrow_exception(request.error);
}

void GroupCommit::serve() {
  for (;;) {
    std::vector<Request*> group;
    {
      std::unique_lock lock(mutex_);
      asked_.wait(lock, [&] { return ending_ || !requests_.empty(); });
      if (requests_.empty()) return;
      while (!requests_.empty() && group.size() < kGroupMax) {
        group.push_back(requests_.front());
        requests_.pop_front();
      }
    }
    run_together(group);
    {
      const std::lock_guard lock(mutex_);
      for (Request* request : group) request->done = true;
    }
    answered_.notify_all();
  }
}

Database& GroupCommit::database() {
  if (!database_) database_ = open_();
  return *database_;
}

void GroupCommit::commit(const std::vector<Request*>& requests) {
  for (const Request* request : requests) fault_point((std::string(request->name) + ".commit").c_str());
  database().commit();
  for (const Request* request : requests) fault_point((std::string(request->name) + ".committed").c_str());
}

void GroupCommit::run_together(const std::vector<Request*>& requests) {
  if (requests.size() > 1) {
    try {
      database().begin();
      for (const Request* request : requests) (*request->work)(*database_);
      commit(requests);
      return;
    } catch (...) {  // whose it was shows below, where each runs alone
      if (database_) database_->rollback();
    }
  }
  for (Request* request : requests) run_alone(*request);
}

void GroupCommit::run_alone(Request& request) {
  const int64_t start_us = steady_us();
  for (int64_t wait_ms = 50;; wait_ms = std::min<int64_t>(2'000, wait_ms * 2)) {
    try {
      database().begin();
      (*request.work)(*database_);
      commit({&request});
      return;
    } catch (const Error& error) {
      if (database_) database_->rollback();
      const int64_t waited_ms = (steady_us() - start_us) / 1'000;
      if (!is_outage(error) || waited_ms + wait_ms > outage_ms_max_) {
        request.error = std::current_exception();
        return;
      }
      spdlog::warn("{}; trying again in {} ms", error.what(), wait_ms);
      database_.reset();  // whatever state the connection is in
    } catch (...) {       // the asking thread gets it
      if (database_) database_->rollback();
      request.error = std::current_exception();
      return;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(wait_ms));
  }
}

}  // namespace firn::orca
