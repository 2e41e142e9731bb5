// A pipeline whose steps do as the environment says, and write down what they do, for tests that kill and stop it.
#include <csignal>

#include "orca/commands.h"
#include "orca/pipeline.h"
#include "orca/program/told.h"

using firn::orca::Ctx;
using firn::orca::Day;

namespace {

struct Loaded {
  Day day;
  int64_t rows = 0;
};
ORCA_FIELDS(Loaded, day, rows);

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
  const std::string words = environment("TEST_FAIL_SAYS");
  if (key == environment("TEST_FAIL")) throw std::runtime_error(words.empty() ? "told to fail" : words);
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
  if (!environment("TEST_OTHER_STEPS").empty()) step("more", begin);
}

int main(int argc, char** argv) { return firn::orca::pipeline_main(argc, argv, nullptr); }
