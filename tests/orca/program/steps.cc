// A pipeline whose steps do as the environment says, and write down what they do, for tests that kill and stop it.
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <thread>

#include <fcntl.h>
#include <unistd.h>

#include "orca/commands.h"
#include "orca/pipeline.h"

using firn::orca::Ctx;
using firn::orca::Day;

namespace {

struct Loaded {
  Day day;
  int64_t rows = 0;
};
ORCA_FIELDS(Loaded, day, rows);

std::string environment(const char* name) {
  const char* text = std::getenv(name);
  return text == nullptr ? "" : text;
}

// A line of TEST_EFFECTS: "<what> <step> <key> <attempt> <pid>".
void tell(const char* what, const Ctx& ctx) {
  const std::string line =
      fmt::format("{} {} {} {} {}\n", what, ctx.id().step, ctx.id().partition, ctx.id().attempt, getpid());
  const int file = open(environment("TEST_EFFECTS").c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  if (write(file, line.data(), line.size()) < 0) std::abort();
  close(file);
}

// Until the file is there. TEST_OBEY: a cancelled attempt gives up.
void wait_for_gate(const Ctx& ctx) {
  while (!std::filesystem::exists(environment("TEST_GATE"))) {
    if (!environment("TEST_OBEY").empty()) ctx.throw_if_cancelled();
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

int64_t begin(Ctx& ctx) {
  tell("begin", ctx);
  return 100;
}

Loaded load(Ctx& ctx, const Day& day) {
  tell("begin", ctx);
  const std::string key = day.str();
  if (key == environment("TEST_HOLD")) {
    wait_for_gate(ctx);
    ctx.record().check_lease();  // as each commit does
  }
  if (key == environment("TEST_FAIL")) throw std::runtime_error("told to fail");
  if (key == environment("TEST_DIE") && ctx.id().attempt == 1) kill(getpid(), SIGKILL);
  ctx.record().pin({.location = "table", .table_uuid = "u", .snapshot_id = ctx.id().attempt});
  tell("end", ctx);
  return {.day = day, .rows = day.days % 10};
}

int64_t check(Ctx& ctx, const Day&, const Loaded& loaded, const int64_t& base) {
  tell("begin", ctx);
  return base + loaded.rows;
}

int64_t sum(Ctx& ctx, const std::vector<int64_t>& rows) {
  tell("begin", ctx);
  int64_t total = 0;
  for (const int64_t one : rows) total += one;
  return total;
}

}  // namespace

ORCA_PIPELINE(days) {
  describe("days for tests");
  const auto first = step("begin", begin);
  const auto loads = step("load", load).mapped<Day>().after(first).reads("ns.table").retries(1, 10, 10);
  const auto checks = step("check", check).mapped<Day>().from(loads, first).at_most(8);
  step("sum", sum).from(checks);
}

int main(int argc, char** argv) { return firn::orca::pipeline_main(argc, argv, nullptr); }
