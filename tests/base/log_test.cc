#include "base/log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/run_program.h"

namespace firn {
namespace {

// What the tests below run in a process of its own, whose standard error they read.
TEST(LogPayload, DISABLED_LogsAtEveryLevel) {
  init_log(spdlog::level::warn);
  spdlog::debug("fine");
  spdlog::info("note");
  spdlog::warn("row \"a\nb\x1b[1m\" is odd");
  spdlog::error("gone");
}

ProgramResult run_payload(std::map<std::string, std::string> env) {
  return run_program({"/proc/self/exe", "--gtest_also_run_disabled_tests", "--gtest_filter=LogPayload.*"}, env);
}

TEST(Log, WritesOneLineAnEventToStandardError) {
  const std::string err = run_payload({{"FIRN_LOG", ""}}).err;
  EXPECT_THAT(err, testing::MatchesRegex(
                       "20[0-9T:.-]+Z warning row \"a\\\\nb\\\\x1b\\[1m\" is odd\n20[0-9T:.-]+Z error gone\n"));
}

TEST(Log, TakesItsLevelFromTheEnvironment) {
  EXPECT_THAT(run_payload({{"FIRN_LOG", "debug"}}).err, testing::HasSubstr("debug fine\n"));
  EXPECT_THAT(run_payload({{"FIRN_LOG", "error"}}).err, testing::Not(testing::HasSubstr("warning")));
  EXPECT_THAT(run_payload({{"FIRN_LOG", "loud"}}).out, testing::HasSubstr("FIRN_LOG is \"loud\""));
}

}  // namespace
}  // namespace firn
