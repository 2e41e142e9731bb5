// What the kinds of pools share.
#pragma once

#include <condition_variable>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <string>

#include "orca/tasks/tasks.h"

namespace firn::orca {

struct PendingTask {
  std::string name, arguments;

  std::mutex mutex;
  std::condition_variable ended;
  bool has_ended = false;
  std::string result;
  std::exception_ptr error;

  void succeed(std::string bytes);
  void fail_with(std::exception_ptr e);
};

// Runs a registered task here. Throws what it throws, and config where this program has no such task.
std::string invoke_by_name(const std::string& name, std::string_view arguments);

// Tasks that wait, first come first served. Thread-safe.
class TaskQueue {
 public:
  explicit TaskQueue(size_t max) : max_(max) {}
  void put(std::shared_ptr<PendingTask> task);  // waits while it is full; throws cancelled once it is closed
  std::shared_ptr<PendingTask> take();          // waits; nullptr: it is closed
  void close();                                 // what waits fails as cancelled

 private:
  size_t max_;
  std::mutex mutex_;
  std::condition_variable has_room_, has_task_;
  std::deque<std::shared_ptr<PendingTask>> tasks_;
  bool closed_ = false;
};

std::unique_ptr<TaskPool> make_thread_pool(int workers, size_t queue_max);
std::unique_ptr<TaskPool> make_process_pool(int workers, size_t queue_max, const TaskOptions& options);

}  // namespace firn::orca
