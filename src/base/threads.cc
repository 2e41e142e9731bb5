#include "base/threads.h"

#include <condition_variable>
#include <memory>
#include <mutex>

#include <arrow/util/thread_pool.h>

#include "base/error.h"
#include "base/log.h"

namespace firn {

void fail_thread(const std::system_error& e) {
  fail(ErrorKind::busy,
       "a thread cannot be begun ({}): end other programs, or raise the limit on processes, which counts threads, too "
       "(ulimit -u, systemd's TasksMax, a container's pids limit)",
       e.what());
}

namespace {

bool begin_arrow_threads() {
  // Each task holds its thread until the last is there, so that the next one needs another.
  struct Gate {
    std::mutex mutex;
    std::condition_variable opened;
    bool is_open = false;
  };
  const auto gate = std::make_shared<Gate>();
  arrow::internal::ThreadPool& pool = *arrow::internal::GetCpuThreadPool();
  const int wanted = pool.GetCapacity();
  int begun = 0;
  try {
    while (begun < wanted) {
      const arrow::Status status = pool.Spawn([gate] {
        std::unique_lock lock(gate->mutex);
        gate->opened.wait(lock, [&] { return gate->is_open; });
      });
      if (!status.ok()) break;
      ++begun;
    }
  } catch (const std::system_error&) {  // told below
  }
  {
    const std::lock_guard lock(gate->mutex);
    gate->is_open = true;
  }
  gate->opened.notify_all();
  if (begun < wanted) spdlog::warn("{} of {} threads could be begun, so columns are written one by one", begun, wanted);
  return begun == wanted;
}

}  // namespace

bool has_arrow_threads() {
  static const bool has_threads = begin_arrow_threads();
  return has_threads;
}

}  // namespace firn
