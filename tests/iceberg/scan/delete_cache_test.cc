// Delete files shared by tasks: loaded once, kept within a bound.
#include <atomic>
#include <thread>

#include <gtest/gtest.h>

#include "base/error.h"
#include "iceberg/scan/delete_cache.h"

namespace firn::iceberg {
namespace {

LoadedDeletes of_bytes(int64_t bytes) {
  LoadedDeletes loaded;
  loaded.memory_bytes = bytes;
  return loaded;
}

TEST(DeleteCache, LoadsAFileOnceForAllThreadsThatAskForIt) {
  DeleteCache cache(1000);
  std::atomic<int> loads{0};
  std::vector<std::shared_ptr<const LoadedDeletes>> got(8);
  {
    std::vector<std::jthread> threads;
    for (auto& slot : got) {
      threads.emplace_back([&] {
        slot = cache.get("a", [&] {
          ++loads;
          std::this_thread::sleep_for(std::chrono::milliseconds(5));
          return of_bytes(10);
        });
      });
    }
  }
  EXPECT_EQ(loads, 1);
  for (const auto& value : got) EXPECT_EQ(value, got.front());
}

TEST(DeleteCache, ForgetsWhatWasUsedLongestAgoAndWhatIsTooLarge) {
  DeleteCache cache(100);
  int loads = 0;
  const auto load = [&](int64_t bytes) {
    return [&loads, bytes] {
      ++loads;
      return of_bytes(bytes);
    };
  };
  cache.get("a", load(40));
  cache.get("b", load(40));
  cache.get("a", load(40));
  cache.get("c", load(40));  // b goes
  EXPECT_EQ(loads, 3);
  cache.get("a", load(40));
  cache.get("c", load(40));
  EXPECT_EQ(loads, 3);
  cache.get("b", load(40));
  EXPECT_EQ(loads, 4);
  EXPECT_EQ(cache.get("large", load(1000))->memory_bytes, 1000);
  cache.get("large", load(1000));
  EXPECT_EQ(loads, 6);
}

TEST(DeleteCache, TriesAgainAfterAnError) {
  DeleteCache cache(100);
  EXPECT_THROW(cache.get("a", []() -> LoadedDeletes { fail(ErrorKind::io, "no"); }), Error);
  EXPECT_EQ(cache.get("a", [] { return of_bytes(7); })->memory_bytes, 7);
}

}  // namespace
}  // namespace firn::iceberg
