// The commands of pipeline programs, and those that need no pipeline.
#pragma once

#include <atomic>
#include <iosfwd>
#include <string>
#include <vector>

#include "orca/expire.h"
#include "orca/pipeline.h"

namespace firn::orca {

// Exit statuses: 0 done, 1 failed, 2 wrong usage, 3 stopped on request before the end.
inline constexpr int kFailed = 1, kUsage = 2, kStopped = 3;

struct Invocation {
  std::string program;             // as it was called
  std::vector<std::string> words;  // the rest
  std::ostream* out = nullptr;
  std::ostream* err = nullptr;
  bool out_is_terminal = false;
  const std::atomic<bool>* stop = nullptr;
  ExpireTables expire;  // null: there are no tables here
};

// Parses and runs; errors go to `err` as "<program>: …".
int run_pipeline_command(const Invocation& invocation, std::vector<Pipeline>& pipelines);
int run_orca_command(const Invocation& invocation, const std::string& version);  // status, cancel, expire

// The main() of a program with ORCA_PIPELINE: signals, log, worker processes, then run_pipeline_command.
int pipeline_main(int argc, char** argv, ExpireTables expire);
int orca_main(int argc, char** argv, ExpireTables expire, const std::string& version);

// --- one file a group ---

struct RunArguments {
  int64_t run = 0;  // 0: the one that the command means without a number
  std::vector<std::string> keys;
  std::string from, to, step, key;
  bool rerun = false, json = false;
  int parallel = 0;
  std::string tasks;
};
int command_run(const Invocation& invocation, const Pipeline& pipeline, const RunArguments& arguments);
int command_backfill(const Invocation& invocation, const Pipeline& pipeline, const RunArguments& arguments);
int command_resume(const Invocation& invocation, const Pipeline& pipeline, const RunArguments& arguments);
int command_retry(const Invocation& invocation, const Pipeline& pipeline, const RunArguments& arguments);

struct LookArguments {
  std::string pipeline;  // empty: all
  int64_t run = 0;
  int64_t limit = 10;
  bool json = false, once = false;
};
int command_status(const Invocation& invocation, const LookArguments& arguments);
int command_cancel(const Invocation& invocation, const LookArguments& arguments);

struct ExpireArguments {
  std::vector<std::string> datasets;
  bool dry_run = false, json = false;
};
int command_expire(const Invocation& invocation, const ExpireArguments& arguments);
// What an expiry must leave, read from the state where there is one.
ExpireRequest expire_request();

struct ServeArguments {
  int parallel = 0;
  int runs = 4;
};
int command_serve(const Invocation& invocation, const std::vector<Pipeline>& pipelines,
                  const ServeArguments& arguments);

}  // namespace firn::orca
