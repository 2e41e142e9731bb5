#include "orca/tasks/tasks.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <thread>

#include "base/log.h"
#include "base/parallel.h"
#include "orca/tasks/task_pool.h"

namespace firn::orca {
namespace {

struct RegisteredTask {
  void (*function)();
  internal::TaskInvoke invoke;
};

// Filled before main().
std::map<std::string, RegisteredTask>& registered_tasks() {
  static std::map<std::string, RegisteredTask> tasks;
  return tasks;
}
std::string& doubled_name() {
  static std::string name;
  return name;
}

class ThreadPool final : public TaskPool {
 public:
  ThreadPool(size_t workers, size_t queue_max) : workers_(workers), queue_(queue_max), running_(workers) {}
  ~ThreadPool() override { queue_.close(); }
  void submit(std::shared_ptr<PendingTask> task) override {
    if (!queue_.put(std::move(task))) return;
    const std::lock_guard lock(mutex_);
    add_task_thread(threads_, workers_, [this, index = threads_.size()] { work(index); });
  }
  void cancel(const TaskOwner& owner) override {
    queue_.drop(owner);
    const std::lock_guard lock(mutex_);
    const auto runs = std::find_if(running_.begin(), running_.end(),
                                   [&](const auto& task) { return task && task->owner.get() == &owner; });
    if (runs == running_.end() || has_warned_) return;
    has_warned_ = true;
    spdlog::warn(
        "task {} of an attempt that was given up still runs: a thread cannot be ended, so this one of {} threads takes "
        "no other task until it returns; with --tasks processes its worker would be killed",
        (*runs)->name, workers_);
  }

 private:
  void work(size_t index) {
    while (const std::shared_ptr<PendingTask> task = queue_.take()) {
      set_running(index, task);
      try {
        task->throw_if_cancelled();
        task->succeed(invoke_by_name(task->name, task->arguments));
      } catch (...) {  // get() rethrows it
        task->fail_with(std::current_exception());
      }
      set_running(index, nullptr);
    }
  }
  void set_running(size_t index, std::shared_ptr<PendingTask> task) {
    const std::lock_guard lock(mutex_);
    running_[index].swap(task);
  }

  const size_t workers_;
  TaskQueue queue_;
  std::mutex mutex_;
  std::vector<std::shared_ptr<PendingTask>> running_;  // by worker
  bool has_warned_ = false;
  std::vector<std::jthread> threads_;  // begun as tasks need them
};

}  // namespace

void PendingTask::succeed(std::string bytes) {
  const std::lock_guard lock(mutex);
  result = std::move(bytes);
  has_ended = true;
  ended.notify_all();
}

void PendingTask::fail_with(std::exception_ptr e) {
  const std::lock_guard lock(mutex);
  error = std::move(e);
  has_ended = true;
  ended.notify_all();
}

void PendingTask::throw_if_cancelled() const {
  if (owner->cancelled) fail(ErrorKind::cancelled, "task {}: the attempt that began it was given up", name);
}

bool TaskQueue::put(std::shared_ptr<PendingTask> task) {
  std::unique_lock lock(mutex_);
  has_room_.wait(lock, [&] { return closed_ || task->owner->cancelled || tasks_.size() < max_; });
  if (closed_) fail(ErrorKind::cancelled, "task {}: the workers are stopped", task->name);
  task->throw_if_cancelled();
  tasks_.push_back(std::move(task));
  has_task_.notify_one();
  return tasks_.size() > idle_;
}

std::shared_ptr<PendingTask> TaskQueue::take() {
  std::unique_lock lock(mutex_);
  ++idle_;
  has_task_.wait(lock, [&] { return closed_ || !tasks_.empty(); });
  --idle_;
  if (tasks_.empty()) return nullptr;
  std::shared_ptr<PendingTask> task = std::move(tasks_.front());
  tasks_.pop_front();
  has_room_.notify_one();
  return task;
}

void TaskQueue::drop(const TaskOwner& owner) {
  std::vector<std::shared_ptr<PendingTask>> dropped;
  {
    const std::lock_guard lock(mutex_);
    const auto others = std::stable_partition(tasks_.begin(), tasks_.end(),
                                              [&](const auto& task) { return task->owner.get() == &owner; });
    dropped.assign(std::make_move_iterator(tasks_.begin()), std::make_move_iterator(others));
    tasks_.erase(tasks_.begin(), others);
  }
  has_room_.notify_all();
  for (const auto& task : dropped) {
    try {
      task->throw_if_cancelled();
    } catch (...) {  // get() rethrows it
      task->fail_with(std::current_exception());
    }
  }
}

void TaskQueue::close() {
  std::deque<std::shared_ptr<PendingTask>> dropped;
  {
    const std::lock_guard lock(mutex_);
    closed_ = true;
    dropped.swap(tasks_);
  }
  has_room_.notify_all();
  has_task_.notify_all();
  for (const auto& task : dropped) {
    task->fail_with(std::make_exception_ptr(
        Error(ErrorKind::cancelled, "task " + task->name + ": the workers were stopped before it ran")));
  }
}

std::string invoke_by_name(const std::string& name, std::string_view arguments) {
  const auto found = registered_tasks().find(name);
  if (found == registered_tasks().end())
    fail(ErrorKind::config, "this program has no task {}: ORCA_TASK({}) is missing", name, name);
  try {
    return found->second.invoke(found->second.function, arguments);
  } catch (const std::exception&) {
    throw;
  } catch (...) {  // the task ends here; it cannot be told what was thrown, here no more than across processes
    fail(ErrorKind::internal, "task {}: it threw an exception of unknown type", name);
  }
}

std::unique_ptr<TaskPool> make_thread_pool(size_t workers, size_t queue_max) {
  return std::make_unique<ThreadPool>(workers, queue_max);
}

Tasks::Tasks(const TaskOptions& options) : Tasks(std::shared_ptr<TaskPool>()) {
  const size_t workers = static_cast<size_t>(thread_count(options.workers));
  const size_t queue_max = options.queue_max > 0 ? options.queue_max : 4 * workers;
  pool_ = options.engine == TaskEngine::threads ? make_thread_pool(workers, queue_max)
                                                : make_process_pool(workers, queue_max, options);
}

Tasks::Tasks(std::shared_ptr<TaskPool> pool) : pool_(std::move(pool)), owner_(std::make_shared<TaskOwner>()) {}

Tasks::~Tasks() = default;

std::unique_ptr<Tasks> Tasks::share() const { return std::unique_ptr<Tasks>(new Tasks(pool_)); }

void Tasks::cancel() {
  owner_->cancelled = true;
  pool_->cancel(*owner_);
}

std::shared_ptr<PendingTask> Tasks::submit(void (*function)(), std::string arguments) {
  if (!doubled_name().empty()) {
    fail(ErrorKind::config, "two functions are ORCA_TASK({}); name them with their namespaces", doubled_name());
  }
  for (const auto& [name, task] : registered_tasks()) {
    if (task.function != function) continue;
    auto pending = std::make_shared<PendingTask>();
    pending->name = name;
    pending->arguments = std::move(arguments);
    pending->owner = owner_;
    pool_->submit(pending);
    return pending;
  }
  fail(ErrorKind::config, "remote() was given a function that is no task: write ORCA_TASK(its name) beside it");
}

void Tasks::wait_until_ended(PendingTask& task) {
  std::unique_lock lock(task.mutex);
  task.ended.wait(lock, [&] { return task.has_ended; });
}

std::string Tasks::wait_for(PendingTask& task) {
  std::unique_lock lock(task.mutex);
  task.ended.wait(lock, [&] { return task.has_ended; });
  if (task.error) std::rethrow_exception(task.error);
  return task.result;
}

namespace internal {

bool register_task(const char* name, void (*function)(), TaskInvoke invoke) {
  const auto [at, is_new] = registered_tasks().emplace(name, RegisteredTask{function, invoke});
  if (!is_new && at->second.function != function) doubled_name() = name;
  return true;
}

}  // namespace internal

}  // namespace firn::orca
