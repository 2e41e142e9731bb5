// Sinks on their schedules, and what failed in them again in between.
//
//   <stateDir>/<sink>/last-run.json    {v, at}: when the last scheduled run that came to its end began
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <list>
#include <string>
#include <thread>
#include <vector>

#include "hyp/config.h"

namespace firn::hyp {

enum class SinkPass : uint8_t {
  scheduled,    // all partitions
  due_retries,  // those that failed and whose next try is due (sink/outbox.h)
};

// Runs each scheduled sink on a thread of its own when its time has come. A sink never runs twice at once; times that
// pass while it runs, or while no daemon does, are made up for by one run. One thread calls.
class SinkTicks {
 public:
  using Ship = std::function<bool(const SinkConfig&, SinkPass)>;  // false: it was cut short, and is made up for later
  // A clock that is set back is taken as a new start. `sinks` must outlive it. `ship` must not throw.
  SinkTicks(const std::vector<SinkConfig>& sinks, std::string state_dir, int64_t now_ms, Ship ship);
  ~SinkTicks();  // waits for what runs
  void run(int64_t now_ms);

 private:
  struct Slot {
    Slot(const SinkConfig& config, int64_t next) : sink(config), next_ms(next) {}
    const SinkConfig& sink;
    int64_t next_ms;
    int64_t next_look_ms = 0;  // into the outbox
    std::atomic<bool> is_running{false};
    std::jthread thread;
  };
  bool has_due_retries(Slot& slot, int64_t now_ms) const;
  void begin(Slot& slot, SinkPass pass, int64_t now_ms);

  std::string state_dir_;
  Ship ship_;
  std::list<Slot> slots_;
  int64_t last_ms_ = 0;
};

}  // namespace firn::hyp
