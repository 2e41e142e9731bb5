#include "hyp/daemon/sink_ticks.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/civil_time.h"
#include "base/json.h"
#include "base/log.h"
#include "base/threads.h"
#include "base/uri.h"
#include "hyp/sink/outbox.h"
#include "hyp/sink/watermark.h"
#include "io/local.h"

namespace firn::hyp {
namespace {

constexpr int64_t kSetBackMs = 1'000;
constexpr int64_t kOutboxLookMs = 5'000;  // between looks into an outbox
constexpr int64_t kAfterTryMs = 30'000;   // after one that led to a run: it may have failed as a whole

std::string last_run_path(const std::string& state_dir, const std::string& sink) {
  return join_path(sink_folder(state_dir, sink), "last-run.json");
}

// nullopt: it never ran here, or that cannot be told; then its next time is the next one of its schedule.
std::optional<int64_t> load_last_run_ms(const std::string& path) {
  try {
    const auto text = make_local_file_io()->read_if_exists(path);
    if (!text) return std::nullopt;
    const auto at = parse_timestamp_us(get_string(parse_json(*text, path), "at", path));
    if (at) return floor_div(at->value, 1000);
    fail(ErrorKind::corrupt, "{}: \"at\" is not a time", path);
  } catch (const Error& e) {
    spdlog::warn("{}", e.what());
    return std::nullopt;
  }
}

void save_last_run(const std::string& path, int64_t began_ms) {
  try {
    replace_file(path, Json{{"v", 1}, {"at", format_timestamp_ms_utc(began_ms)}}.dump(1) + "\n");
  } catch (const Error& e) {  // a restart then makes up for a run too many
    spdlog::warn("{}", e.what());
  }
}

int64_t first_ms(const SinkConfig& sink, const std::string& state_dir, int64_t now_ms) {
  const int64_t last_ms = load_last_run_ms(last_run_path(state_dir, sink.name)).value_or(now_ms);
  return sink.schedule->next_after_ms(std::min(last_ms, now_ms));  // later than now: the clock was set back
}

}  // namespace

SinkTicks::SinkTicks(const std::vector<SinkConfig>& sinks, std::string state_dir, int64_t now_ms, Ship ship)
    : state_dir_(std::move(state_dir)), ship_(std::move(ship)) {
  for (const SinkConfig& sink : sinks) {
    if (sink.schedule) slots_.emplace_back(sink, first_ms(sink, state_dir_, now_ms));
  }
}

SinkTicks::~SinkTicks() {
  for (Slot& slot : slots_) {
    if (slot.thread.joinable()) slot.thread.join();
  }
}

void SinkTicks::run(int64_t now_ms) {
  if (now_ms < last_ms_ - kSetBackMs) {
    for (Slot& slot : slots_) {
      slot.next_ms = slot.sink.schedule->next_after_ms(now_ms);
      slot.next_look_ms = 0;
    }
  }
  last_ms_ = now_ms;
  for (Slot& slot : slots_) {
    if (slot.is_running) continue;
    if (now_ms >= slot.next_ms) {
      slot.next_ms = slot.sink.schedule->next_after_ms(now_ms);
      begin(slot, SinkPass::scheduled, now_ms);
    } else if (has_due_retries(slot, now_ms)) {
      slot.next_look_ms = now_ms + kAfterTryMs;
      begin(slot, SinkPass::due_retries, now_ms);
    }
  }
}

bool SinkTicks::has_due_retries(Slot& slot, int64_t now_ms) const {
  if (now_ms < slot.next_look_ms) return false;
  slot.next_look_ms = now_ms + kOutboxLookMs;
  try {
    const std::vector<OutboxEntry> entries = list_outbox(state_dir_, slot.sink.name);
    return std::any_of(entries.begin(), entries.end(), [&](const OutboxEntry& entry) { return is_due(entry, now_ms); });
  } catch (const Error& e) {
    spdlog::warn("{}", e.what());
    return false;
  }
}

void SinkTicks::begin(Slot& slot, SinkPass pass, int64_t now_ms) {
  if (slot.thread.joinable()) slot.thread.join();
  slot.is_running = true;
  try {
    slot.thread = begin_thread([this, &slot, pass, now_ms] {
      const bool is_done = ship_(slot.sink, pass);
      if (is_done && pass == SinkPass::scheduled) save_last_run(last_run_path(state_dir_, slot.sink.name), now_ms);
      slot.is_running = false;
    });
  } catch (const Error& e) {
    slot.is_running = false;
    if (pass == SinkPass::scheduled) slot.next_ms = now_ms + kAfterTryMs;
    spdlog::error("sink {}: {}", slot.sink.name, e.what());
  }
}

}  // namespace firn::hyp
