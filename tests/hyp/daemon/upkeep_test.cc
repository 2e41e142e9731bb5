// The daemon's tick of upkeep.
#include <chrono>
#include <thread>

#include <gmock/gmock.h>

#include "hyp/cache/cache_box.h"
#include "hyp/cache/layout.h"
#include "hyp/daemon/daemon.h"

namespace firn::hyp {
namespace {

TEST(DaemonUpkeep, CompactsWhatNeedsItBesideItsOtherWorkAndStopsWhenAsked) {
  CacheBox box;
  box.config.listen = "";
  box.config.compaction.files_min = 4;
  box.config.maintain_interval_ms = 50;
  const PartitionId partition{"logs", "s"};
  const auto service = Service::try_own(box.config);
  Cache& cache = service->cache();
  std::atomic<bool> stop{false};
  DaemonOptions options;
  options.run_command = [](RemoteCommand&) { return 0; };
  options.announce = [](const std::string&) {};
  std::thread daemon([&] { run_daemon(*service, options, stop); });
  for (int i = 0; i < 6; ++i) {
    service->spool().append({make_frame("logs", "s", {fmt::format(R"({{"id":{}}})", i)})});
    service->flush();
  }
  const int64_t give_up = now_ms() + 120'000;
  const auto generation = [&] { return read_cursor(cache.folder(partition)).value().table_dir; };
  // Compacted, and the old table removed.
  while (now_ms() < give_up && (generation() == "table-1" || list_generations(cache.folder(partition)).size() > 1))
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  stop = true;
  daemon.join();
  EXPECT_NE(generation(), "table-1");
  EXPECT_EQ(list_generations(cache.folder(partition)), Lines{generation()});
  EXPECT_EQ(cached_rows(cache, partition).size(), 6u);
}

}  // namespace
}  // namespace firn::hyp
