#include "hyp/sink/outbox.h"

#include <algorithm>
#include <array>

#include "base/civil_time.h"
#include "base/clock.h"
#include "base/fault_point.h"
#include "base/json.h"
#include "base/log.h"
#include "base/uri.h"
#include "hyp/sink/watermark.h"
#include "io/local.h"

namespace firn::hyp {
namespace {

constexpr std::array<int64_t, 4> kLadderMs = {30'000, 60'000, 120'000, 300'000};

std::string outbox_folder(const std::string& state_dir, const std::string& sink) {
  return join_path(sink_folder(state_dir, sink), "outbox");
}

int64_t get_time_ms(const Json& json, const char* key, const std::string& path) {
  const std::string text = get_string(json, key, path);
  const auto time = parse_timestamp_us(text);
  if (!time) fail(ErrorKind::corrupt, "{}: {} is \"{}\", not a time", path, key, text);
  return floor_div(time->value, 1000);
}

OutboxEntry parse_entry(const std::string& text, const std::string& path) {
  const Json json = parse_json(text, path);
  if (const int64_t version = get_int64(json, "v", path); version != 1) {
    fail(ErrorKind::unsupported, "{}: version {} is of a later firn", path, version);
  }
  OutboxEntry entry;
  entry.partition = {get_string(json, "dataset", path), get_string(json, "source", path)};
  entry.attempts = get_int64(json, "attempts", path);
  entry.first_failure_ms = get_time_ms(json, "firstFailureAt", path);
  entry.last_failure_ms = get_time_ms(json, "lastFailureAt", path);
  entry.error_kind = get_string(json, "errorKind", path);
  entry.error = get_string(json, "error", path);
  if (find_string(json, "nextTryAt", path)) entry.next_try_ms = get_time_ms(json, "nextTryAt", path);
  return entry;
}

std::string to_text(const OutboxEntry& entry) {
  Json json = {{"v", 1},
               {"dataset", entry.partition.dataset},
               {"source", entry.partition.source},
               {"attempts", entry.attempts},
               {"firstFailureAt", format_timestamp_ms_utc(entry.first_failure_ms)},
               {"lastFailureAt", format_timestamp_ms_utc(entry.last_failure_ms)},
               {"errorKind", entry.error_kind},
               {"error", entry.error}};
  json["nextTryAt"] = entry.next_try_ms ? Json(format_timestamp_ms_utc(*entry.next_try_ms)) : Json(nullptr);
  return json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";  // a message may repeat bytes of a server
}

}  // namespace

int64_t retry_delay_ms(int64_t attempts) {
  const auto last = static_cast<int64_t>(kLadderMs.size());
  return kLadderMs[static_cast<size_t>(std::clamp<int64_t>(attempts, 1, last) - 1)];
}

bool waits_for_operator(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::config:
    case ErrorKind::partition_spec_drift:
    case ErrorKind::destination_behind:
    case ErrorKind::destination_forgot:
    case ErrorKind::already_exists:  // a copy of this running process sends to the same place
    case ErrorKind::unsupported:
      return true;
    default:
      return false;
  }
}

std::string outbox_path(const std::string& state_dir, const std::string& sink, const PartitionId& partition) {
  return fmt::format("{}/{}/{}.json", outbox_folder(state_dir, sink), encode_segment(partition.dataset),
                     partition.key());
}

std::optional<OutboxEntry> load_outbox_entry(const std::string& path) {
  const auto text = make_local_file_io()->read_if_exists(path);
  return text ? std::optional(parse_entry(*text, path)) : std::nullopt;
}

std::vector<OutboxEntry> list_outbox(const std::string& state_dir, const std::string& sink) {
  std::vector<OutboxEntry> entries;
  for (const FileInfo& file : make_local_file_io()->list(outbox_folder(state_dir, sink), true)) {
    try {
      if (auto entry = load_outbox_entry(file.path)) entries.push_back(std::move(*entry));
    } catch (const Error& e) {
      spdlog::debug("{}", e.what());  // asked every few seconds
    }
  }
  return entries;
}

bool is_due(const OutboxEntry& entry, int64_t now_ms) {
  if (!entry.next_try_ms) return false;
  return *entry.next_try_ms <= now_ms || *entry.next_try_ms - now_ms > kLadderMs.back();
}

OutboxEntry note_failure(const std::string& state_dir, const std::string& sink, const PartitionId& partition,
                         ErrorKind kind, const std::string& message) {
  const std::string path = outbox_path(state_dir, sink, partition);
  OutboxEntry entry;
  try {
    if (const auto before = load_outbox_entry(path)) entry = *before;
  } catch (const Error& e) {
    spdlog::warn("{}: it is written anew", e.what());
  }
  const int64_t now = now_ms();
  entry.partition = partition;
  if (entry.attempts == 0) entry.first_failure_ms = now;
  entry.attempts += 1;
  entry.last_failure_ms = now;
  entry.error_kind = to_string(kind);
  entry.error = message;
  entry.next_try_ms = waits_for_operator(kind) ? std::nullopt : std::optional(now + retry_delay_ms(entry.attempts));
  fault_point("sink.before-outbox");
  replace_file(path, to_text(entry));
  return entry;
}

void note_success(const std::string& state_dir, const std::string& sink, const PartitionId& partition) {
  const std::string path = outbox_path(state_dir, sink, partition);
  if (make_local_file_io()->stat(path)) remove_file(path);
}

}  // namespace firn::hyp
