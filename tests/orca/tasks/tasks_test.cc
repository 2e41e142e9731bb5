// Tasks on threads and in worker processes (protocols P14.4).
#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <thread>

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "orca/tasks/tasks.h"
#include "support/captured_log.h"
#include "support/crash.h"
#include "support/temp_folder.h"

namespace tasks_test {

struct Answer {
  std::string text;
  int64_t pid = 0;
};

Answer greet(const std::string& name, int times) {
  Answer answer{.pid = getpid()};
  for (int i = 0; i < times; ++i) answer.text += "hello " + name + ";";
  return answer;
}
void refuse(const std::string& why) { firn::fail(firn::ErrorKind::schema_mismatch, "refused: {}", why); }
int64_t throw_other() { throw std::runtime_error("another kind of error"); }
std::string blob(int64_t size) { return std::string(static_cast<size_t>(size), 'b'); }
int64_t size_of(const std::string& text) { return static_cast<int64_t>(text.size()); }
int64_t print_a_lot() {
  for (int i = 0; i < 1'000; ++i) printf("task output that is no frame %d\n", i);
  fflush(stdout);
  return 3;
}
// Dies as often as the file has letters, each time leaving one less.
int64_t die_for_a_while(const std::string& path) {
  const auto letters = static_cast<int64_t>(std::filesystem::file_size(path));
  if (letters == 0) return getpid();
  std::filesystem::resize_file(path, letters - 1);
  kill(getpid(), SIGKILL);
  return 0;
}
void hang(const std::string& path) {
  std::ofstream(path) << getpid() << std::endl;
  for (;;) pause();
}
int64_t throw_a_number() { throw 42; }
// Says who it is in the file, and goes on once there is another.
int64_t wait_for_gate(const std::string& path) {
  std::ofstream(path + ".begun", std::ios::app) << getpid() << std::endl;
  while (!std::filesystem::exists(path)) std::this_thread::sleep_for(std::chrono::milliseconds(2));
  return getpid();
}
int64_t nobody_registered_this() { return 0; }

}  // namespace tasks_test

using namespace tasks_test;  // NOLINT
ORCA_TASK(greet);
ORCA_TASK(refuse);
ORCA_TASK(throw_other);
ORCA_TASK(blob);
ORCA_TASK(size_of);
ORCA_TASK(print_a_lot);
ORCA_TASK(die_for_a_while);
ORCA_TASK(tasks_test::hang);
ORCA_TASK(throw_a_number);
ORCA_TASK(wait_for_gate);

namespace firn::orca {
namespace {

// This program, started as a worker, becomes one here: behind its tasks, and before any test.
[[maybe_unused]] const bool is_worker = (run_if_task_worker(), false);

template <class Condition>
bool eventually(Condition holds) {
  for (int i = 0; i < 2'000; ++i) {
    if (holds()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return false;
}

bool is_alive(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string line;
  std::getline(file, line);
  return file && line.find(") Z") == std::string::npos;
}

std::vector<pid_t> begun_at(const std::string& gate) {
  std::vector<pid_t> pids;
  std::ifstream file(gate + ".begun");
  for (pid_t pid = 0; file >> pid;) pids.push_back(pid);
  return pids;
}

int num_threads() {
  std::ifstream file("/proc/self/status");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("Threads:")) return std::stoi(line.substr(8));
  }
  return -1;
}

template <class Call>
void expect_cancelled(Call call) {
  try {
    call();
    ADD_FAILURE() << "nothing was thrown";
  } catch (const Error& e) {
    EXPECT_EQ(to_string(e.kind()), to_string(ErrorKind::cancelled)) << e.what();
  }
}

class TaskEngines : public ::testing::TestWithParam<TaskEngine> {
 protected:
  Tasks tasks_{TaskOptions{.engine = GetParam(), .workers = 2}};
};
INSTANTIATE_TEST_SUITE_P(Threads, TaskEngines, ::testing::Values(TaskEngine::threads));
INSTANTIATE_TEST_SUITE_P(Processes, TaskEngines, ::testing::Values(TaskEngine::processes));

TEST_P(TaskEngines, ArgumentsGoAndResultsComeBack) {
  const Answer answer = tasks_.get(tasks_.remote(greet, "you", 2));
  EXPECT_EQ(answer.text, "hello you;hello you;");
  EXPECT_EQ(answer.pid == getpid(), GetParam() == TaskEngine::threads);
}

TEST_P(TaskEngines, ManyMoreThanTheQueueHoldsComeInOrder) {
  std::vector<TaskRef<Answer>> refs;
  for (int i = 0; i < 200; ++i) refs.push_back(tasks_.remote(greet, std::to_string(i), 1));
  const std::vector<Answer> answers = tasks_.get_all(refs);
  ASSERT_EQ(answers.size(), 200U);
  for (int i = 0; i < 200; ++i) EXPECT_EQ(answers[i].text, "hello " + std::to_string(i) + ";");
}

TEST_P(TaskEngines, ErrorsComeBackWithTheirKind) {
  try {
    tasks_.get(tasks_.remote(refuse, "because"));
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::schema_mismatch);
    EXPECT_STREQ(e.what(), "refused: because");
  }
  try {
    tasks_.get(tasks_.remote(throw_other));
    FAIL();
  } catch (const std::exception& e) {
    EXPECT_NE(std::string(e.what()).find("another kind of error"), std::string::npos);
  }
  EXPECT_EQ(tasks_.get(tasks_.remote(size_of, "still there")), 11);
}

TEST_P(TaskEngines, WhatIsThrownOfUnknownTypeIsToldOnce) {
  try {
    tasks_.get(tasks_.remote(throw_a_number));
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(to_string(e.kind()), to_string(ErrorKind::internal));
    EXPECT_STREQ(e.what(), "task throw_a_number: it threw an exception of unknown type");
  }
}

TEST_P(TaskEngines, WhatWaitsOfACallerThatWasGivenUpIsDropped) {
  const TempFolder folder;
  const std::string gate = folder / "gate";
  const CapturedLog log;
  const std::unique_ptr<Tasks> caller = tasks_.share();
  std::vector<TaskRef<int64_t>> refs;
  for (int i = 0; i < 10; ++i) refs.push_back(caller->remote(wait_for_gate, gate));  // two run, eight wait
  ASSERT_TRUE(eventually([&] { return begun_at(gate).size() == 2; }));
  std::thread one_too_many([&] { expect_cancelled([&] { caller->remote(wait_for_gate, gate); }); });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));  // it waits for room
  caller->cancel();
  one_too_many.join();
  for (size_t i = 2; i < refs.size(); ++i) expect_cancelled([&] { caller->get(refs[i]); });
  expect_cancelled([&] { caller->remote(wait_for_gate, gate); });

  const TaskRef<int64_t> of_another = tasks_.remote(size_of, std::string("abc"));
  if (GetParam() == TaskEngine::threads) {  // which cannot be ended: their places are free once they return
    caller->cancel();
    const std::string warning = log.text();
    EXPECT_NE(warning.find("task wait_for_gate"), std::string::npos) << warning;
    EXPECT_NE(warning.find("--tasks processes"), std::string::npos) << warning;
    EXPECT_EQ(std::count(warning.begin(), warning.end(), '\n'), 1) << warning;
    std::ofstream(gate) << "open";
    for (size_t i = 0; i < 2; ++i) EXPECT_EQ(caller->get(refs[i]), getpid());
  } else {
    for (size_t i = 0; i < 2; ++i) expect_cancelled([&] { caller->get(refs[i]); });
    for (const pid_t pid : begun_at(gate)) EXPECT_FALSE(is_alive(pid));
  }
  EXPECT_EQ(tasks_.get(of_another), 3);
  EXPECT_EQ(begun_at(gate).size(), 2U) << "a task that was dropped, or whose worker was killed for it, ran";
}

TEST_P(TaskEngines, ThreadsBeginAsTasksNeedThem) {
  const int before = num_threads();
  Tasks tasks({.engine = GetParam(), .workers = 1'000});
  for (int i = 0; i < 3; ++i) EXPECT_EQ(tasks.get(tasks.remote(size_of, std::string("abc"))), 3);
  EXPECT_LE(num_threads(), before + 3);
}

TEST_P(TaskEngines, AsManyTasksRunAtOnceAsThereAreWorkers) {
  const TempFolder folder;
  const std::string gate = folder / "gate";
  Tasks tasks({.engine = GetParam(), .workers = 5});
  std::vector<TaskRef<int64_t>> refs;
  for (int i = 0; i < 6; ++i) refs.push_back(tasks.remote(wait_for_gate, gate));
  EXPECT_TRUE(eventually([&] { return begun_at(gate).size() == 5; }));
  std::ofstream(gate) << "open";
  tasks.get_all(refs);
}

TEST_P(TaskEngines, LargeValuesCross) {
  const int64_t size = 40 << 20;
  const std::string big = tasks_.get(tasks_.remote(blob, size));
  EXPECT_EQ(static_cast<int64_t>(big.size()), size);
  EXPECT_EQ(tasks_.get(tasks_.remote(size_of, big)), size);
}

TEST_P(TaskEngines, WhatATaskPrintsIsNoFrame) {
  // Into nothing, in this process and in the workers that it starts from now on.
  fflush(stdout);
  const int out = dup(1), null = open("/dev/null", O_WRONLY);
  dup2(null, 1);
  const int64_t result = tasks_.get(tasks_.remote(print_a_lot));
  dup2(out, 1);
  close(out);
  close(null);
  EXPECT_EQ(result, 3);
}

TEST_P(TaskEngines, AFunctionThatIsNoTaskIsRefused) {
  try {
    tasks_.remote(nobody_registered_this);
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::config);
  }
}

TEST(Workers, AWorkerThatDiesFailsItsTaskWhichRunsAgain) {
  const TempFolder folder;
  const std::string path = folder / "deaths";
  std::ofstream(path) << "xx";
  Tasks tasks({.engine = TaskEngine::processes, .workers = 1, .tries = 3});
  EXPECT_GT(tasks.get(tasks.remote(die_for_a_while, path)), 0);
  EXPECT_EQ(std::filesystem::file_size(path), 0U);
}

TEST(Workers, ATaskThatKeepsKillingItsWorkersFailsAndOthersGoOn) {
  const TempFolder folder;
  const std::string path = folder / "deaths";
  std::ofstream(path) << "xxxxx";
  Tasks tasks({.engine = TaskEngine::processes, .workers = 1, .tries = 3});
  const auto deadly = tasks.remote(die_for_a_while, path);
  const auto harmless = tasks.remote(size_of, std::string("abc"));
  try {
    tasks.get(deadly);
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::io);
    EXPECT_NE(std::string(e.what()).find("signal 9"), std::string::npos) << e.what();
    EXPECT_NE(std::string(e.what()).find("die_for_a_while"), std::string::npos) << e.what();
  }
  EXPECT_EQ(std::filesystem::file_size(path), 2U) << "three tries";
  EXPECT_EQ(tasks.get(harmless), 3);
}

TEST(Workers, EndWithTheirParentWhateverTheyAreDoing) {
  const TempFolder folder;
  const std::string path = folder / "pid";
  const pid_t parent = fork_child();
  if (parent == 0) {
    Tasks tasks({.engine = TaskEngine::processes, .workers = 1});
    tasks.remote(tasks_test::hang, path);
    for (;;) pause();
  }
  pid_t worker = 0;
  ASSERT_TRUE(eventually([&] { return bool(std::ifstream(path) >> worker); }));
  EXPECT_TRUE(is_alive(worker));
  kill(parent, SIGKILL);
  waitpid(parent, nullptr, 0);
  EXPECT_TRUE(eventually([&] { return !is_alive(worker); }));
}

TEST(Workers, GoOnWhereTheWholeGroupIsToldToEnd) {
  const TempFolder folder;
  const std::string gate = folder / "gate";
  Tasks tasks({.engine = TaskEngine::processes, .workers = 1});
  const auto runs = tasks.remote(wait_for_gate, gate);
  ASSERT_TRUE(eventually([&] { return begun_at(gate).size() == 1; }));
  const pid_t worker = begun_at(gate).front();
  for (const int number : {SIGTERM, SIGINT}) kill(worker, number);
  std::ofstream(gate) << "open";
  EXPECT_EQ(tasks.get(runs), worker);
}

TEST(Workers, AreKilledWithThePoolAndWhatWaitsIsToldSo) {
  const TempFolder folder;
  const std::string path = folder / "pid";
  pid_t worker = 0;
  TaskRef<int64_t> waits;
  auto tasks = std::make_unique<Tasks>(TaskOptions{.engine = TaskEngine::processes, .workers = 1});
  const auto hangs = tasks->remote(tasks_test::hang, path);
  waits = tasks->remote(size_of, std::string("x"));
  ASSERT_TRUE(eventually([&] { return bool(std::ifstream(path) >> worker); }));
  std::thread ends([&] { tasks.reset(); });
  ends.join();
  EXPECT_FALSE(is_alive(worker));
  Tasks other({.engine = TaskEngine::threads, .workers = 1});
  try {
    other.get(waits);
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::cancelled);
  }
  try {
    other.get(hangs);
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::cancelled);
  }
}

}  // namespace
}  // namespace firn::orca
