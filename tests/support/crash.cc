#include "support/crash.h"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <thread>

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/fault_point.h"
#include "io/unsynced.h"
#include "support/temp_folder.h"

namespace firn {
namespace {

constexpr int kKilled = 137;

#ifdef __has_feature
#if __has_feature(thread_sanitizer)
#define FIRN_FINDS_RACES 1
#elif __has_feature(address_sanitizer)
#define FIRN_ALLOCATES_UNDER_LOCKS 1
#endif
#endif

// The state of each thread of this process, a letter each: R is running, S asleep.
[[maybe_unused]] std::string thread_states() {
  std::string states;
  for (const auto& thread : std::filesystem::directory_iterator("/proc/self/task")) {
    std::string line;
    std::getline(std::ifstream(thread.path() / "stat") >> std::ws, line);
    const size_t name_end = line.rfind(')');
    if (name_end != std::string::npos && name_end + 2 < line.size()) states += line[name_end + 2];
  }
  return states;
}

pid_t start_child(const std::function<void()>& work) {
  const pid_t pid = fork_child();
  if (pid > 0) return pid;
  int status = 0;
  try {
    work();
  } catch (const std::exception& e) {
    std::fprintf(stderr, "in the child: %s\n", e.what());
    status = 1;
  }
  ::_exit(status);
}

int wait_for_child(pid_t pid) {
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0) {
    if (errno != EINTR) fail_errno(errno, "waitpid");
  }
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

}  // namespace

pid_t fork_child() {
#ifdef FIRN_FINDS_RACES
  if (thread_states().size() > 2) {  // ours, and the detector's own
    [] { GTEST_SKIP() << "a child of a process with threads"; }();
    throw testing::AssertionException({testing::TestPartResult::kSkip, __FILE__, __LINE__, "told already"});
  }
#endif
#ifdef FIRN_ALLOCATES_UNDER_LOCKS
  // The child inherits the sanitizer's allocator locked if a thread is in it: not once all others have been asleep.
  for (int asleep = 0, looks = 0; asleep < 3 && looks < 2000; ++looks) {
    const std::string states = thread_states();
    asleep = std::count(states.begin(), states.end(), 'R') <= 1 ? asleep + 1 : 0;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
#endif
  const pid_t pid = ::fork();
  if (pid < 0) fail_errno(errno, "fork");
  return pid;
}

int run_in_child(const std::function<void()>& work) { return wait_for_child(start_child(work)); }

int run_in_children(int count, const std::function<void(int index)>& work) {
  std::vector<pid_t> children;
  children.reserve(static_cast<size_t>(count));
  for (int i = 0; i < count; ++i) children.push_back(start_child([&] { work(i); }));
  int num_failed = 0;
  for (const pid_t pid : children) num_failed += wait_for_child(pid) != 0 ? 1 : 0;
  return num_failed;
}

std::vector<std::string> fault_points_of(const std::function<void()>& work) {
  const TempFolder folder;
  const std::string log = folder / "points";
  const int status = run_in_child([&] {
    std::ofstream file(log);
    std::mutex mutex;  // threads that remove files pass points, too
    set_fault_handler([&](const char* name) {
      const std::lock_guard lock(mutex);
      file << name << std::endl;
    });
    work();
  });
  if (status != 0) fail(ErrorKind::internal, "the work ended with status {}", status);
  std::vector<std::string> names;
  std::ifstream file(log);
  for (std::string name; std::getline(file, name);) names.push_back(name);
  return names;
}

std::string to_text(Crash crash) {
  switch (crash) {
    case Crash::process:
      return "killed";
    case Crash::power:
      return "power cut";
    case Crash::power_later:
      return "killed, and a power cut after the next run,";
  }
  return "";
}

bool leaves_undurable(const std::string& point) { return point.find("directory_sync") != std::string::npos; }

void run_killed_at(size_t index, Crash crash, const std::function<void()>& work) {
  const int status = run_in_child([&] {
    if (crash != Crash::process) unsynced::enable();
    std::atomic<size_t> passes = 0;
    set_fault_handler([&](const char*) {
      if (passes++ != index) return;
      if (crash == Crash::power_later) return stop_program();
      if (crash == Crash::power) unsynced::forget_now();
      ::_exit(kKilled);
    });
    try {
      work();
    } catch (const Stopped&) {  // all that it had is destroyed
      restart_program();
      work();
      unsynced::forget_now();
      ::_exit(kKilled);
    }
  });
  if (status != kKilled) fail(ErrorKind::internal, "the work ended with status {} before pass {}", status, index);
}

}  // namespace firn
