// A pipeline's program as users run it, for tests that kill and stop it.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/error.h"
#include "base/json.h"
#include "orca/state_box.h"
#include "support/run_program.h"

namespace firn::orca {

using Environment = std::map<std::string, std::string>;
using Words = std::vector<std::string>;

// `more` goes before `all`.
inline Environment operator+(Environment all, const Environment& more) {
  for (const auto& [name, value] : more) all[name] = value;
  return all;
}
inline Words operator+(Words all, const Words& more) {
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

// A program while it runs; killed at the end where it still does.
class Running {
 public:
  Running(Words argv, const Environment& environment, const std::string& output) {
    pid_ = fork();
    if (pid_ < 0) fail_errno(errno, "fork for " + argv[0]);
    if (pid_ != 0) return;
    for (const auto& [name, value] : environment) setenv(name.c_str(), value.c_str(), 1);
    const int out = open(output.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0666);
    dup2(out, 1);
    dup2(out, 2);
    std::vector<char*> pointers;
    for (std::string& word : argv) pointers.push_back(word.data());
    pointers.push_back(nullptr);
    execv(pointers[0], pointers.data());
    _exit(127);
  }
  ~Running() {
    if (pid_ < 0) return;
    signal(SIGKILL);
    wait();
  }
  Running(const Running&) = delete;
  Running& operator=(const Running&) = delete;

  void signal(int number) const { kill(pid_, number); }
  int wait() {  // its exit status, or 128 + the signal
    int status = 0;
    waitpid(pid_, &status, 0);
    pid_ = -1;
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  }
  pid_t pid() const { return pid_; }

 private:
  pid_t pid_ = -1;
};

// Two minutes: what ends a hang, and not a slow machine.
inline bool eventually(const std::function<bool()>& holds) {
  for (int i = 0; i < 24'000; ++i) {
    if (holds()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return false;
}

// What a step of a test's program wrote down (program/told.h).
struct Effect {
  std::string what, step, key;
  int64_t attempt = 0;
  int64_t pid = 0;
  std::string detail;
};

// Tests of one program, on each database.
class ProgramTest : public OnBothDatabases {
 protected:
  explicit ProgramTest(std::string program) : program_(std::move(program)) {}

  Environment environment(const Environment& more = {}) {
    return box().environment() +
           Environment{{"TEST_EFFECTS", box().folder() / "effects"},
                       {"TEST_GATE", box().folder() / "gate"},
                       {"FIRN_CLOCK_OFFSET_MS", std::to_string(clock_offset_ms_)},
                       {"FIRN_LOG", "error"}} +
           more;
  }
  // Leases that nobody renews are over for the programs that start from now on, without a wait.
  void pass_a_minute() {
    if (box().is_postgres()) {
      box().pass_ms(60'000);
    } else {
      clock_offset_ms_ += 60'000;
    }
  }
  void open_gate() { std::ofstream(box().folder() / "gate") << "open"; }

  ProgramResult run(const Words& words, const Environment& more = {}) {
    return run_program(argv_of(words), environment(more));
  }
  std::unique_ptr<Running> start(const Words& words, const Environment& more = {}) {
    const std::string output = box().folder() / ("output-" + std::to_string(++started_));
    return std::make_unique<Running>(argv_of(words), environment(more), output);
  }
  Json status(const std::string& number = "1", const Words& pipeline = {}) {
    const ProgramResult result = run(pipeline + Words{"status", number, "--json"});
    EXPECT_EQ(result.status, 0) << result.err;
    return Json::parse(result.out)["runs"][0];
  }

  std::vector<Effect> effects() {
    std::vector<Effect> all;
    std::ifstream file(box().folder() / "effects");
    for (std::string line; std::getline(file, line);) {
      Words words;
      for (size_t at = 0; at <= line.size();) {
        const size_t end = std::min(line.find(' ', at), line.size());
        words.push_back(line.substr(at, end - at));
        at = end + 1;
      }
      words.resize(6);
      all.push_back({words[0], words[1], words[2], std::stoll(words[3]), std::stoll(words[4]), words[5]});
    }
    return all;
  }
  bool has_told(const std::string& what, const std::string& step, const std::string& key, int64_t attempt) {
    for (const Effect& effect : effects()) {
      if (effect.what == what && effect.step == step && effect.key == key && effect.attempt == attempt) return true;
    }
    return false;
  }
  bool has_begun(const std::string& step, const std::string& key, int64_t attempt) {
    return has_told("begin", step, key, attempt);
  }

  // SIGSTOP where no transaction of the program is open: a stopped process would keep its locks, SQLite's for as long
  // as it is stopped.
  void stop_between_transactions(const Running& program) {
    const auto database = box().open();
    for (;;) {
      program.signal(SIGSTOP);
      waitpid(program.pid(), nullptr, WUNTRACED);
      if (!has_transaction(*database)) return;
      program.signal(SIGCONT);
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }
  // Each partition's attempts are numbered 1, 2, … in the order in which they began: no number was given twice.
  void expect_no_attempt_ran_twice() {
    std::map<std::pair<std::string, std::string>, std::vector<int64_t>> attempts;
    for (const Effect& effect : effects()) {
      if (effect.what == "begin") attempts[{effect.step, effect.key}].push_back(effect.attempt);
    }
    for (auto& [partition, numbers] : attempts) {
      EXPECT_EQ(std::set(numbers.begin(), numbers.end()).size(), numbers.size())
          << partition.first << " " << partition.second;
    }
  }

  Words argv_of(const Words& words) const { return Words{program_} + words; }

 private:
  // Whether anyone else is within one.
  bool has_transaction(Database& database) {
    if (box().is_postgres()) {
      return database
                 .run(
                     "select count(*) from pg_stat_activity where datname = current_database() and xact_start is not "
                     "null and pid <> pg_backend_pid() and backend_type = 'client backend'")
                 .rows.at(0)
                 .integer(0) > 0;
    }
    database.run("pragma busy_timeout = 0");
    try {
      database.begin();
      database.rollback();
      return false;
    } catch (const Error&) {
      return true;
    }
  }

  std::string program_;
  int started_ = 0;
  int64_t clock_offset_ms_ = 0;
};

}  // namespace firn::orca
