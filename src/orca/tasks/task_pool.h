// What the kinds of pools share.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/threads.h"
#include "orca/tasks/tasks.h"

namespace firn::orca {

// Whose tasks are cancelled together.
struct TaskOwner {
  std::atomic<bool> cancelled{false};
};

struct PendingTask {
  std::string name, arguments;
  std::shared_ptr<const TaskOwner> owner;

  std::mutex mutex;
  std::condition_variable ended;
  bool has_ended = false;
  std::string result;
  std::exception_ptr error;

  void succeed(std::string bytes);
  void fail_with(std::exception_ptr e);
  void throw_if_cancelled() const;  // cancelled: its owner is
};

// Runs a registered task here. Throws what it throws (an exception of unknown type as internal), and config where this
// program has no such task.
std::string invoke_by_name(const std::string& name, std::string_view arguments);

// Tasks that wait, first come first served. Thread-safe.
class TaskQueue {
 public:
  explicit TaskQueue(size_t max) : max_(max) {}
  // Waits while it is full; throws cancelled once it is closed or the task's owner cancelled. Whether more tasks wait
  // than workers.
  bool put(std::shared_ptr<PendingTask> task);
  std::shared_ptr<PendingTask> take();  // waits; nullptr: it is closed
  void drop(const TaskOwner& owner);    // what waits of its tasks fails as cancelled
  void close();                         // what waits fails as cancelled

 private:
  size_t max_;
  std::mutex mutex_;
  std::condition_variable has_room_, has_task_;
  std::deque<std::shared_ptr<PendingTask>> tasks_;
  size_t idle_ = 0;  // workers in take()
  bool closed_ = false;
};

// One more of the threads that run tasks, where there are fewer than `max` of them. Where the machine has no thread
// left, those that there are run all tasks; throws busy where there are none.
template <class Work>
void add_task_thread(std::vector<std::jthread>& threads, size_t max, const Work& work) {
  if (threads.empty()) {
    threads.push_back(begin_thread(work));
  } else if (threads.size() < max) {
    begin_helpers(threads, 1, work);
  }
}

std::unique_ptr<TaskPool> make_thread_pool(size_t workers, size_t queue_max);
std::unique_ptr<TaskPool> make_process_pool(size_t workers, size_t queue_max, const TaskOptions& options);

}  // namespace firn::orca
