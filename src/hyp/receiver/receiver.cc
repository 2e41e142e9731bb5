#include "hyp/receiver/receiver.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <filesystem>
#include <mutex>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/error.h"
#include "base/fault_point.h"
#include "base/log.h"
#include "base/threads.h"
#include "base/uri.h"
#include "base/uuid.h"
#include "hyp/capture/json_scanner.h"
#include "hyp/capture/line_blocks.h"
#include "hyp/capture/spool_committed.h"
#include "hyp/receiver/ledger.h"

namespace firn::hyp {
namespace {

using Outcome = ReceiveResult::Outcome;

// One group becomes durable with one sync of the segment and one of the ledger. The spool keeps so much in memory
// against a failed sync.
constexpr int64_t kGroupBytesMax = 32 << 20;
constexpr size_t kGroupBatchesMax = 4096;
// Where a sync costs more than what it writes, a group waits for those who are likely to send at once: as many as the
// last one had, and found waiting behind it. Without that each group would meet one half of them, and the other half
// would wait for two. No longer than a part of what a group takes, and not with so much to write.
constexpr int64_t kGatherBytesMax = 1 << 20;
constexpr int64_t kGatherShare = 2;
constexpr int64_t kForgetEveryMs = 60'000;
constexpr const char* kUnfinishedPrefix = ".new-";

struct Waiting {
  ReceivedBatch batch;        // without its text
  std::vector<Frame> frames;  // of its text
  Receiver::Answered answered;
  int64_t bytes = 0;  // of the frames' texts, as they are held
};

// The spool and its ledger get their name together, so that one without the other is a loss, not a beginning.
std::string make_spool(const std::string& receiver) {
  const std::string id = uuid_v4();
  const std::string unfinished = join_path(receiver, kUnfinishedPrefix + id);
  make_directories(unfinished);
  Ledger::create(ledger_path(unfinished));
  sync_directory(unfinished);
  fault_point("receiver.before_publish");
  std::string folder = join_path(receiver, id);
  rename_file(unfinished, folder);
  return folder;
}

void remove_unfinished(const std::string& receiver) {
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(receiver, ignored)) {
    if (entry.path().filename().string().starts_with(kUnfinishedPrefix)) remove_tree(entry.path().string());
  }
}

std::string find_or_make_spool(const std::string& cache_root) {
  const std::string receiver = receiver_folder(cache_root);
  make_directories(receiver);
  remove_unfinished(receiver);
  const std::vector<std::string> spools = list_receiver_spools(cache_root);
  if (spools.size() > 1) {
    fail(ErrorKind::corrupt,
         "{} and {} both hold a receiver's ledger: keep the one in use and move the other out of {}", spools[0],
         spools[1], receiver);
  }
  return spools.empty() ? make_spool(receiver) : spools[0];
}

// Tables may have markers past all that this folder remembers, if it is of an older backup than they are: frames below
// a marker would be taken for flushed ones (P6.2).
void begin_above_markers(const Cache& cache, Spool& spool) {
  for (const std::string& dataset : cache.datasets()) {
    for (const PartitionId& partition : cache.partitions(dataset)) {
      const auto held = cache.hold(partition);
      if (!held) continue;
      if (const auto marker = flushed_until(*held->table.metadata, spool.id())) spool.begin_above(marker->segment);
    }
  }
}

// The batch's lines, in frames of the usual size, packed. Takes the text.
std::vector<Frame> make_received_frames(ReceivedBatch& batch) {
  constexpr size_t kBytes = LineBlocks::kBlockBytes;
  std::string text = std::move(batch.text);
  std::vector<Frame> frames;
  int64_t line = 1;
  for (size_t begin = 0, end; begin < text.size(); begin = end) {
    end = text.size();
    if (end - begin > kBytes) {
      size_t newline = text.rfind('\n', begin + kBytes - 1);
      if (newline == std::string::npos || newline < begin) newline = text.find('\n', begin + kBytes);
      if (newline != std::string::npos) end = newline + 1;
    }
    const std::string_view part = std::string_view(text).substr(begin, end - begin);
    Frame& frame = frames.emplace_back();
    frame.dataset = batch.dataset;
    frame.source = batch.gateway;
    frame.position.updated_ms = now_ms();
    frame.first_line = line;
    frame.batch_id = uuid_v7(frame.position.updated_ms);
    frame.row_member = batch.row_member;
    if (end < text.size()) line += count_newlines(part);
    if (std::optional<std::string> packed = packed_text(part)) {
      frame.text = std::move(*packed);
      frame.is_packed = true;
    } else if (part.size() == text.size()) {
      frame.text = std::move(text);
      break;
    } else {
      frame.text = part;
    }
  }
  return frames;
}

}  // namespace

struct Receiver::State {
  State(const Config& hyp_config, std::unique_ptr<Spool> received)
      : config(hyp_config),
        spool(std::move(received)),
        reading(ledger_path(spool->folder())),
        ledger(ledger_path(spool->folder()), config.receiver.gateway_streams_max) {}

  const Config& config;
  const std::unique_ptr<Spool> spool;

  std::mutex reading_mutex;
  Ledger reading;  // of stream(), which waits for no group

  mutable std::mutex mutex;  // of what follows
  std::condition_variable changed;
  std::deque<Waiting> queue;
  int64_t queued_bytes = 0;   // of the queue's texts
  int64_t waiting = 0;        // batches that are not answered
  int64_t waiting_bytes = 0;  // of their texts
  CommitCounts commits;
  int64_t expected_batches = 1;  // that are likely to come after the last group was answered
  int64_t gather_until_us = 0;   // and until when they are waited for
  bool is_gathering = false;     // the committer waits for them
  bool is_ending = false;

  // Of the committer's thread.
  Ledger ledger;
  bool is_unsettled = false;  // a group failed, and the ledger was not opened anew since
  int64_t forgot_old_ms = 0;
  std::jthread committer;

  std::string reason_to_refuse(int64_t bytes) const;  // empty: none. Requires mutex
  bool has_gathered() const;                          // requires mutex
  void run();
  std::vector<Waiting> next_group();  // empty: no more come
  std::vector<ReceiveResult> commit_group(std::vector<Waiting>& group);
  bool settle();
  void count(const std::vector<Waiting>& group, int64_t micros);
  void answer(std::vector<Waiting>& group, const std::vector<ReceiveResult>& results);
};

std::string Receiver::State::reason_to_refuse(int64_t bytes) const {
  if (is_ending) return "the receiver is ending";
  if (waiting > 0 && waiting_bytes + bytes > config.receiver.bodies_bytes_max) {
    return fmt::format("batches of {} bytes wait for the disk: maxQueuedBytes is {}", waiting_bytes,
                       config.receiver.bodies_bytes_max);
  }
  if (const int64_t spooled = spool->unflushed_bytes() + waiting_bytes; spooled > config.spool_bytes_max) {
    return fmt::format(
        "the spool {} holds {} bytes that could not be flushed yet, more than maxSpoolBytes ({}): nothing more is "
        "taken "
        "until a flush succeeds; see the log or `hyp status`",
        spool->folder(), spooled, config.spool_bytes_max);
  }
  return "";
}

bool Receiver::State::has_gathered() const {
  return is_ending || static_cast<int64_t>(queue.size()) >= expected_batches || queued_bytes >= kGatherBytesMax;
}

std::vector<Waiting> Receiver::State::next_group() {
  std::vector<Waiting> group;
  std::unique_lock guard(mutex);
  changed.wait(guard, [&] { return is_ending || !queue.empty(); });
  is_gathering = true;
  for (int64_t left_us; !has_gathered() && (left_us = gather_until_us - steady_us()) > 0;)
    changed.wait_for(guard, std::chrono::microseconds(left_us));
  is_gathering = false;
  int64_t bytes = 0;
  while (!queue.empty() && group.size() < kGroupBatchesMax &&
         (group.empty() || bytes + queue.front().bytes <= kGroupBytesMax)) {
    bytes += queue.front().bytes;
    queued_bytes -= queue.front().bytes;
    group.push_back(std::move(queue.front()));
    queue.pop_front();
  }
  return group;
}

// Whether the commit that failed stands all the same. Until this has succeeded nothing is appended.
bool Receiver::State::settle() {
  const bool stands = ledger.settle();
  spool->note_committed(ledger.committed());
  spool->abandon_uncommitted();
  is_unsettled = false;
  return stands;
}

// P11.4: append, sync, commit, and only then answer. What is decided here sees the group's earlier batches, so if the
// group fails, none of its outcomes counts.
std::vector<ReceiveResult> Receiver::State::commit_group(std::vector<Waiting>& group) {
  std::vector<ReceiveResult> results;
  const auto fail_all = [&](const std::exception& e) {
    spdlog::error("{}: {} batches failed: {}", spool->folder(), group.size(), e.what());
    return std::vector<ReceiveResult>(group.size(), {Outcome::failed, {}, e.what()});
  };
  try {
    if (is_unsettled) settle();
  } catch (const std::exception& e) {
    return fail_all(e);
  }
  try {
    ledger.begin();
    std::vector<Frame> frames;
    bool has_landed = false;
    for (Waiting& one : group) {
      const ReceiveResult& result = results.emplace_back(ledger.decide(one.batch));
      if (result.outcome != Outcome::landed) continue;
      has_landed = true;
      std::move(one.frames.begin(), one.frames.end(), std::back_inserter(frames));
    }
    if (!has_landed) {
      ledger.roll_back();
      return results;
    }
    if (now_ms() - forgot_old_ms >= kForgetEveryMs) {
      ledger.forget_old_batches();
      forgot_old_ms = now_ms();
    }
    const SpoolPosition end = frames.empty() ? ledger.committed() : spool->append(frames);
    fault_point("receiver.appended");
    ledger.commit(end);
    spool->note_committed(end);
    return results;
  } catch (const std::exception& e) {
    is_unsettled = true;
    ledger.roll_back();
    try {
      if (settle()) return results;
    } catch (const std::exception& unsettled) {
      spdlog::error("{}: the ledger is not usable, and tried again with the next batch: {}", spool->folder(),
                    unsettled.what());
    }
    return fail_all(e);
  }
}

void Receiver::State::count(const std::vector<Waiting>& group, int64_t micros) {
  std::lock_guard guard(mutex);
  expected_batches = static_cast<int64_t>(group.size() + queue.size());
  gather_until_us = steady_us() + micros / kGatherShare;
  commits.groups += 1;
  commits.batches += static_cast<int64_t>(group.size());
  commits.micros += micros;
}

void Receiver::State::answer(std::vector<Waiting>& group, const std::vector<ReceiveResult>& results) {
  for (size_t i = 0; i < group.size(); ++i) {
    const ReceivedBatch& batch = group[i].batch;
    if (results[i].outcome == Outcome::landed && batch.range.reset) {
      spdlog::warn("stream {}: the gateway {} reset open {} from {} to {}", batch.stream, batch.gateway, batch.open_id,
                   *batch.range.reset, batch.range.until);
    }
    try {
      group[i].answered(results[i]);
    } catch (const std::exception& e) {  // the other batches are answered all the same
      spdlog::error("batch {} could not be answered: {}", batch.batch_id, e.what());
    }
    std::lock_guard guard(mutex);
    waiting -= 1;
    waiting_bytes -= group[i].bytes;
  }
}

void Receiver::State::run() {
  const auto answer_failed = [&](std::vector<Waiting>& group) {
    answer(group, std::vector<ReceiveResult>(group.size(), {Outcome::failed, {}, "the receiver ended"}));
  };
  std::vector<Waiting> group;
  try {
    while (!(group = next_group()).empty()) {
      const int64_t begun_us = steady_us();
      const std::vector<ReceiveResult> results = commit_group(group);
      count(group, steady_us() - begun_us);
      answer(group, results);
      group.clear();
      fault_point("receiver.answered");
    }
    return;
  } catch (const std::exception& e) {
    spdlog::error("{}: {}", spool->folder(), e.what());
  } catch (const Stopped&) {  // a test stopped the program
  }
  {
    std::lock_guard guard(mutex);
    is_ending = true;
  }
  answer_failed(group);
  while (!(group = next_group()).empty()) answer_failed(group);
}

std::unique_ptr<Receiver> Receiver::open(Cache& cache, int64_t segment_bytes_max) {
  const std::string folder = find_or_make_spool(cache.config().cache_root);
  std::unique_ptr<Receiver> receiver(new Receiver());
  receiver->state_ = std::make_unique<State>(cache.config(), Spool::open_received(folder, segment_bytes_max));
  State& state = *receiver->state_;
  begin_above_markers(cache, *state.spool);
  state.ledger.make_log_ready();
  state.committer = begin_thread([&state] { state.run(); });
  return receiver;
}

Receiver::~Receiver() {
  if (state_ == nullptr) return;
  {
    std::lock_guard guard(state_->mutex);
    state_->is_ending = true;
  }
  state_->changed.notify_all();
  if (state_->committer.joinable()) state_->committer.join();
}

void Receiver::take(ReceivedBatch batch, Answered answered) {
  State& state = *state_;
  const auto bytes = static_cast<int64_t>(batch.text.size());
  if (batch.range.reset && bytes > 0) fail(ErrorKind::invalid_argument, "a reset carries no rows");
  if (bytes > 0 && batch.text.back() != '\n') fail(ErrorKind::invalid_argument, "the last row has no newline");
  std::string reason;
  {
    std::lock_guard guard(state.mutex);
    reason = state.reason_to_refuse(bytes);
  }
  if (reason.empty()) {
    Waiting one{.batch = std::move(batch), .frames = {}, .answered = std::move(answered)};
    one.frames = make_received_frames(one.batch);  // here, where several threads do so at once
    for (const Frame& frame : one.frames) one.bytes += static_cast<int64_t>(frame.text.size());
    std::lock_guard guard(state.mutex);
    reason = state.reason_to_refuse(one.bytes);
    if (reason.empty()) {
      state.waiting += 1;
      state.waiting_bytes += one.bytes;
      state.queued_bytes += one.bytes;
      state.queue.push_back(std::move(one));
      if (!state.is_gathering || state.has_gathered()) state.changed.notify_one();
      return;
    }
    answered = std::move(one.answered);
  }
  answered({Outcome::busy, {}, reason});
}

std::optional<StreamState> Receiver::stream(const std::string& gateway, const std::string& stream) const {
  std::lock_guard guard(state_->reading_mutex);
  return state_->reading.stream(gateway, stream);
}

std::optional<std::string> Receiver::gateway_of(const std::string& stream) const {
  std::lock_guard guard(state_->reading_mutex);
  return state_->reading.gateway_of(stream);
}

Spool& Receiver::spool() { return *state_->spool; }

CommitCounts Receiver::commits() const {
  std::lock_guard guard(state_->mutex);
  return state_->commits;
}

int64_t Receiver::waiting() const {
  std::lock_guard guard(state_->mutex);
  return state_->waiting;
}

}  // namespace firn::hyp
