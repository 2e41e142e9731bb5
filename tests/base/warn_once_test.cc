#include "base/warn_once.h"

#include <gtest/gtest.h>

#include "support/captured_log.h"

namespace firn {
namespace {

TEST(WarnOnce, AMessageIsLoggedTheFirstTimeAlone) {
  const CapturedLog log;
  for (int i = 0; i < 3; ++i) {
    warn_once("column {t} is string");
    warn_once("column u is long");
  }
  EXPECT_EQ(log.text(), "column {t} is string\ncolumn u is long\n");
}

}  // namespace
}  // namespace firn
