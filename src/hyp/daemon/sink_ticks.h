// Sinks on their schedules.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <list>
#include <thread>
#include <vector>

#include "hyp/config.h"

namespace firn::hyp {

// Runs each scheduled sink on a thread of its own when its time has come. A sink never runs twice at once; times that
// pass while it runs are made up for by one run, after it. One thread calls.
class SinkTicks {
 public:
  // A clock that is set back is taken as a new start. `sinks` must outlive it. `ship` must not throw.
  SinkTicks(const std::vector<SinkConfig>& sinks, int64_t now_ms, std::function<void(const SinkConfig&)> ship);
  ~SinkTicks();  // waits for what runs
  void run(int64_t now_ms);

 private:
  struct Slot {
    Slot(const SinkConfig& config, int64_t next) : sink(config), next_ms(next) {}
    const SinkConfig& sink;
    int64_t next_ms;
    std::atomic<bool> is_running{false};
    std::thread thread;
  };
  std::function<void(const SinkConfig&)> ship_;
  std::list<Slot> slots_;
  int64_t last_ms_ = 0;
};

}  // namespace firn::hyp
