#include "hyp/daemon/sink_ticks.h"

namespace firn::hyp {

SinkTicks::SinkTicks(const std::vector<SinkConfig>& sinks, int64_t now_ms, std::function<void(const SinkConfig&)> ship)
    : ship_(std::move(ship)) {
  for (const SinkConfig& sink : sinks) {
    if (sink.schedule) slots_.emplace_back(sink, sink.schedule->next_after_ms(now_ms));
  }
}

SinkTicks::~SinkTicks() {
  for (Slot& slot : slots_) {
    if (slot.thread.joinable()) slot.thread.join();
  }
}

void SinkTicks::run(int64_t now_ms) {
  constexpr int64_t kSetBackMs = 1'000;
  if (now_ms < last_ms_ - kSetBackMs) {
    for (Slot& slot : slots_) slot.next_ms = slot.sink.schedule->next_after_ms(now_ms);
  }
  last_ms_ = now_ms;
  for (Slot& slot : slots_) {
    if (now_ms < slot.next_ms || slot.is_running) continue;
    if (slot.thread.joinable()) slot.thread.join();
    slot.next_ms = slot.sink.schedule->next_after_ms(now_ms);
    slot.is_running = true;
    slot.thread = std::thread([this, &slot] {
      ship_(slot.sink);
      slot.is_running = false;
    });
  }
}

}  // namespace firn::hyp
