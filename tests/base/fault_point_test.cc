#include "base/fault_point.h"

#include <gtest/gtest.h>

#include <fstream>

#include "base/error.h"
#include "support/run_program.h"
#include "support/temp_folder.h"

namespace firn {
namespace {

// What the tests below run in a process of its own, where the environment is read anew.
TEST(FaultPointPayload, DISABLED_PassesThreePoints) {
  for (const char* name : {"test.one", "test.two", "test.three"}) fault_point(name);
}

ProgramResult run_payload(std::map<std::string, std::string> env) {
  return run_program({"/proc/self/exe", "--gtest_also_run_disabled_tests", "--gtest_filter=FaultPointPayload.*"}, env);
}

std::string read_text(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST(FaultPoint, KillsAtTheNumberedPassAndLogsEach) {
  const TempFolder folder;
  EXPECT_EQ(run_payload({{"FIRN_FAULT_LOG", folder / "all"}}).status, 0);
  EXPECT_EQ(read_text(folder / "all"), "test.one\ntest.two\ntest.three\n");
  EXPECT_EQ(run_payload({{"FIRN_FAULT_LOG", folder / "two"}, {"FIRN_FAULT_KILL_AT", "2"}}).status, 137);
  EXPECT_EQ(read_text(folder / "two"), "test.one\ntest.two\n");
  EXPECT_EQ(run_payload({{"FIRN_FAULT_KILL_AT", "4"}}).status, 0);
}

TEST(FaultPoint, RefusesANumberThatIsNone) {
  const ProgramResult result = run_payload({{"FIRN_FAULT_KILL_AT", "first"}});
  EXPECT_EQ(result.status, 1);
  EXPECT_NE((result.out + result.err).find("FIRN_FAULT_KILL_AT is \"first\""), std::string::npos);
}

TEST(FaultPoint, ThrowsWhatItsHandlerThrows) {
  set_fault_handler([](const char* name) { fail(ErrorKind::io, "no space at {}", name); });
  EXPECT_THROW(fault_point("test.one"), Error);
  set_fault_handler(nullptr);
  EXPECT_NO_THROW(fault_point("test.one"));
}

}  // namespace
}  // namespace firn
