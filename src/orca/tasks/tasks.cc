#include "orca/tasks/tasks.h"

#include <map>
#include <thread>

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
  ThreadPool(int workers, size_t queue_max) : queue_(queue_max) {
    for (int i = 0; i < workers; ++i) threads_.emplace_back([this] { work(); });
  }
  ~ThreadPool() override { queue_.close(); }
  void submit(std::shared_ptr<PendingTask> task) override { queue_.put(std::move(task)); }

 private:
  void work() {
    while (const std::shared_ptr<PendingTask> task = queue_.take()) {
      try {
        task->succeed(invoke_by_name(task->name, task->arguments));
      } catch (...) {  // get() rethrows it
        task->fail_with(std::current_exception());
      }
    }
  }

  TaskQueue queue_;
  std::vector<std::jthread> threads_;
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

void TaskQueue::put(std::shared_ptr<PendingTask> task) {
  std::unique_lock lock(mutex_);
  has_room_.wait(lock, [&] { return closed_ || tasks_.size() < max_; });
  if (closed_) fail(ErrorKind::cancelled, "task {}: the workers are stopped", task->name);
  tasks_.push_back(std::move(task));
  has_task_.notify_one();
}

std::shared_ptr<PendingTask> TaskQueue::take() {
  std::unique_lock lock(mutex_);
  has_task_.wait(lock, [&] { return closed_ || !tasks_.empty(); });
  if (tasks_.empty()) return nullptr;
  std::shared_ptr<PendingTask> task = std::move(tasks_.front());
  tasks_.pop_front();
  has_room_.notify_one();
  return task;
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
  return found->second.invoke(found->second.function, arguments);
}

std::unique_ptr<TaskPool> make_thread_pool(int workers, size_t queue_max) {
  return std::make_unique<ThreadPool>(workers, queue_max);
}

Tasks::Tasks(const TaskOptions& options) {
  const int workers = thread_count(options.workers);
  const size_t queue_max = options.queue_max > 0 ? options.queue_max : 4 * static_cast<size_t>(workers);
  pool_ = options.engine == TaskEngine::threads ? make_thread_pool(workers, queue_max)
                                                : make_process_pool(workers, queue_max, options);
}

Tasks::~Tasks() = default;

std::shared_ptr<PendingTask> Tasks::submit(void (*function)(), std::string arguments) {
  if (!doubled_name().empty()) {
    fail(ErrorKind::config, "two functions are ORCA_TASK({}); name them with their namespaces", doubled_name());
  }
  for (const auto& [name, task] : registered_tasks()) {
    if (task.function != function) continue;
    auto pending = std::make_shared<PendingTask>();
    pending->name = name;
    pending->arguments = std::move(arguments);
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
