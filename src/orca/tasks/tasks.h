// Functions run elsewhere: on threads of this process, or in worker processes that run this program (protocols P14.4).
//
//   orca::DataFiles write_hour(const std::string& day, int hour);
//   ORCA_TASK(write_hour);
//
//   auto files = ctx.tasks().get(ctx.tasks().remote(write_hour, day, 5));
//
// A task gets its arguments and gives its result by value, as bytes (orca/tasks/codec.h), on threads as well, so that
// both behave alike. It has no Ctx: nothing it does is checked or recorded.
#pragma once

#include <memory>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "orca/tasks/codec.h"

namespace firn::orca {

enum class TaskEngine : uint8_t { threads, processes };

struct TaskOptions {
  TaskEngine engine = TaskEngine::threads;
  int workers = 0;                          // 0: as many as the machine has processors
  size_t queue_max = 0;                     // tasks that wait for a worker before remote() waits; 0: four a worker
  int tries = 3;                            // of a task whose worker dies
  std::vector<std::string> worker_command;  // processes: empty: this program
};

struct PendingTask;  // tasks.cc
struct TaskOwner;

// What get() takes. Copies are the same task.
template <class R>
class TaskRef {
 private:
  friend class Tasks;
  std::shared_ptr<PendingTask> task_;
};

class TaskPool {
 public:
  virtual ~TaskPool() = default;
  virtual void submit(std::shared_ptr<PendingTask> task) = 0;  // waits where the queue is full
  virtual void cancel(const TaskOwner& owner) = 0;             // which says so already
};

// Thread-safe. On destruction of the last that shares the workers tasks that wait are dropped; a task that runs is
// waited for on threads, and killed with its process.
class Tasks {
 public:
  explicit Tasks(const TaskOptions& options);
  ~Tasks();

  // The same workers, for tasks that can be cancelled apart from these.
  std::unique_ptr<Tasks> share() const;
  // For good: what waits of the tasks begun here is dropped, and remote() refused, both as cancelled. What runs is
  // killed with its worker, which another takes the place of; on a thread it goes on, and has the thread until it
  // returns.
  void cancel();

  // Throws config where ORCA_TASK does not name the function.
  template <class R, class... P, class... A>
  TaskRef<R> remote(R (*function)(P...), A&&... arguments) {
    static_assert(sizeof...(P) == sizeof...(A), "as many arguments as the function has parameters");
    std::string bytes;
    (encode_value<std::remove_cvref_t<P>>(bytes, std::forward<A>(arguments)), ...);
    TaskRef<R> ref;
    ref.task_ = submit(reinterpret_cast<void (*)()>(function), std::move(bytes));
    return ref;
  }

  // Waits for the result. Throws what the task threw, with its kind, and io where its workers died.
  template <class R>
  R get(const TaskRef<R>& ref) {
    const std::string bytes = wait_for(*ref.task_);
    if constexpr (!std::is_void_v<R>) return decode_whole<R>(bytes);
  }
  // In the order of `refs`. Every task has ended before this throws.
  template <class R>
  std::vector<R> get_all(const std::vector<TaskRef<R>>& refs) {
    for (const TaskRef<R>& ref : refs) wait_until_ended(*ref.task_);
    std::vector<R> results;
    results.reserve(refs.size());
    for (const TaskRef<R>& ref : refs) results.push_back(get(ref));
    return results;
  }

 private:
  explicit Tasks(std::shared_ptr<TaskPool> pool);
  std::shared_ptr<PendingTask> submit(void (*function)(), std::string arguments);
  static std::string wait_for(PendingTask& task);
  static void wait_until_ended(PendingTask& task);
  std::shared_ptr<TaskPool> pool_;
  std::shared_ptr<TaskOwner> owner_;
};

// Where this process was started as a worker: runs tasks until its parent ends, and then the process. To be called
// first in main(); pipeline_main() does.
void run_if_task_worker();

namespace internal {

using TaskInvoke = std::string (*)(void (*function)(), std::string_view arguments);
bool register_task(const char* name, void (*function)(), TaskInvoke invoke);

template <class R, class... P>
std::string invoke_task(void (*function)(), [[maybe_unused]] std::string_view arguments) {
  const auto typed = reinterpret_cast<R (*)(P...)>(function);
  [[maybe_unused]] size_t position = 0;
  std::tuple<std::remove_cvref_t<P>...> values{decode_value<std::remove_cvref_t<P>>(arguments, position)...};
  std::string result;
  if constexpr (std::is_void_v<R>) {
    std::apply(typed, values);
  } else {
    encode_value<std::remove_cvref_t<R>>(result, std::apply(typed, values));
  }
  return result;
}

template <class R, class... P>
bool register_task(const char* name, R (*function)(P...)) {
  return register_task(name, reinterpret_cast<void (*)()>(function), &invoke_task<R, P...>);
}

}  // namespace internal

#define ORCA_TASK(FUNCTION) ORCA_INTERNAL_TASK(FUNCTION, __COUNTER__)
#define ORCA_INTERNAL_TASK(FUNCTION, NUMBER) ORCA_INTERNAL_TASK_NAMED(FUNCTION, NUMBER)
#define ORCA_INTERNAL_TASK_NAMED(FUNCTION, NUMBER)                                                             \
  namespace {                                                                                                  \
  [[maybe_unused]] const bool orca_task_##NUMBER = ::firn::orca::internal::register_task(#FUNCTION, FUNCTION); \
  }                                                                                                            \
  static_assert(true, "")

}  // namespace firn::orca
