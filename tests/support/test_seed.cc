#include "support/test_seed.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>

#include "base/uuid.h"

namespace firn {
namespace {

class SeedPrinter : public testing::EmptyTestEventListener {
 public:
  explicit SeedPrinter(uint64_t seed) : seed_(seed) {}
  void OnTestEnd(const testing::TestInfo& info) override {
    if (!info.result()->Failed()) return;
    std::fprintf(stderr, "FIRN_TEST_SEED=%llu replays %s.%s\n", static_cast<unsigned long long>(seed_),
                 info.test_suite_name(), info.name());
  }

 private:
  uint64_t seed_;
};

}  // namespace

uint64_t test_seed() {
  static const uint64_t seed = [] {
    const char* text = std::getenv("FIRN_TEST_SEED");
    const uint64_t value = text != nullptr ? std::strtoull(text, nullptr, 10) : static_cast<uint64_t>(random_id());
    testing::UnitTest::GetInstance()->listeners().Append(new SeedPrinter(value));  // owned by the list
    return value;
  }();
  return seed;
}

}  // namespace firn
