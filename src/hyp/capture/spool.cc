#include "hyp/capture/spool.h"

#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <exception>
#include <set>

#include "base/clock.h"
#include "base/error.h"
#include "base/fault_point.h"
#include "base/log.h"
#include "base/uri.h"
#include "base/uuid.h"
#include "hyp/capture/spool_committed.h"
#include "hyp/capture/spool_format.h"
#include "hyp/capture/spool_sources.h"

namespace firn::hyp {
namespace {

constexpr int64_t kUnsyncedBytesMax = 32 << 20;  // frames held in memory against a failed sync
constexpr int64_t kHeldBytesMax = 128 << 20;     // and for the flush, as much as that works on at once
constexpr int64_t kWritebackBytes = 4 << 20;     // the kernel is asked to begin writing so often
constexpr size_t kWriteBufferBytes = 256 << 10;  // smaller frames are gathered into one write

// What is known of a segment that was written by this process, or found by open().
struct SegmentRecord {
  int64_t number = 0;
  int64_t end = 0;
  SourcePositions sources;  // the last position of each source that has a frame here
};

// A frame to be written, and again if its sync fails.
struct PreparedFrame {
  std::string head;
  const Frame* frame = nullptr;  // owned, or of a call that waits for its sync
  std::unique_ptr<Frame> owned;
  SpoolPosition* end = nullptr;  // where that call wants to know it
  SpoolPosition begin = {};      // once written
  int64_t size_bytes() const { return static_cast<int64_t>(head.size() + frame->text.size()); }
};

// A frame that the flush has not passed.
struct HeldFrame {
  std::optional<FrameAt> frame;  // nullopt: the flush has it
  int64_t bytes = 0;
};

// One call's part in a group commit.
struct Request {
  std::vector<PreparedFrame> frames;
  bool wants_sync = true;
  std::optional<int64_t> epoch;  // of a call that has unsynced frames
  bool is_done = false;
  std::exception_ptr error;
};

// Left by killed processes: temporary files of io/local and segments of AtomicAppend.
void remove_temporary_files(const std::string& folder) {
  std::vector<std::string> names;
  const std::unique_ptr<DIR, int (*)(DIR*)> entries(::opendir(folder.c_str()), ::closedir);
  if (entries == nullptr) fail_errno(errno, "list " + folder);
  while (const dirent* entry = ::readdir(entries.get())) {
    const std::string_view name = entry->d_name;
    if (name.ends_with(".tmp") || (name.starts_with('.') && name.find(".tmp-") != std::string_view::npos))
      names.emplace_back(name);
  }
  for (const std::string& name : names) remove_file(join_path(folder, name));
}

}  // namespace

struct Spool::State {
  State(std::string folder_path, FileLock held, int64_t segment_bytes)
      : folder(std::move(folder_path)),
        id(folder.substr(folder.rfind('/') + 1)),
        lock(std::move(held)),
        segment_bytes_max(segment_bytes) {}

  const std::string folder;
  const std::string id;
  FileLock lock;
  const int64_t segment_bytes_max;
  std::mutex flush_mutex;

  std::mutex claims_mutex;
  std::condition_variable claims_changed;
  std::set<std::string> claims;

  // Taken first: the file that is written, by one call at a time for all that wait behind it.
  std::mutex io_mutex;
  std::optional<AppendFile> current;
  Descriptor writeback_fd;  // of `current`
  int64_t writeback_begun = 0;
  bool has_loose_tail = false;          // an abandoned segment has bytes that only the next one's first frame rules out
  SpoolPosition previous;               // the end of the last segment that counts, for the next one's first frame
  std::vector<PreparedFrame> unsynced;  // written to `current` since its last sync
  int64_t unsynced_bytes = 0;

  mutable std::mutex mutex;  // of everything below
  std::vector<Request*> queue;
  SpoolPosition synced;                // all frames before it are durable
  std::deque<SegmentRecord> segments;  // not deleted; the last one is `current` while that is open
  SpoolPosition progress;
  std::optional<SpoolPosition> committed;   // of the receiver's spool: where its frames end that count
  SourcePositions saved;                    // as sources.json
  bool is_saved = false;                    // that is there
  SourcePositions latest;                   // saved, then what the segments have, unsynced frames included
  SourcePositions foreign;                  // of the cache's other spools, when this one was opened
  std::map<SpoolPosition, HeldFrame> held;  // synced ones, by where they begin
  int64_t held_bytes = 0;
  int64_t next_segment = 1;
  int64_t epoch = 0;

  void recover(bool is_new);
  void load_foreign(const std::string& cache_root);

  void run(Request& request);
  // Each requires io_mutex.
  void commit(const std::vector<Request*>& batch);
  void write(std::deque<PreparedFrame>& pending, bool wants_sync);
  void flush_buffer(std::string& buffer);
  void begin_segment();
  void sync_current();
  void close_current();
  void abandon_current();
  void settle_tail();
  void rebuild_latest();               // requires mutex
  void hold(PreparedFrame& prepared);  // requires mutex
};

// --- opening ---

void Spool::State::recover(bool is_new) {
  remove_temporary_files(folder);
  committed = committed_end(folder);
  if (committed) cut_uncommitted(folder, *committed);
  saved = load_sources(folder);
  is_saved = has_sources(folder);
  progress = load_progress(folder);
  if (!is_saved && !committed && progress.segment > 1) {  // it is written before the first segment is deleted
    spdlog::warn(
        "{}/sources.json is gone: which sources were captured is not known any more, and a file that is ingested again "
        "or a batch that is sent again is taken whole",
        folder);
  }
  const std::vector<int64_t> numbers = list_segments(folder);
  next_segment = std::max<int64_t>(progress.segment, 1);
  if (!numbers.empty()) next_segment = std::max(next_segment, numbers.back() + 1);
  // Above every number that was ever used here, even if the files that say so are lost or of an older backup: tables
  // may have markers past them (P6.1). Nobody begins a thousand segments a second.
  if (!is_new) next_segment = std::max(next_segment, now_ms());
  // A crash between saving the progress and deleting what is before it (P6.3).
  for (const int64_t number : numbers) {
    if (number < progress.segment) remove_file(segment_path(folder, number));
  }
  std::vector<Segment> counting = open_segments(folder);
  for (const Segment& segment : counting) {
    SegmentRecord record{.number = segment.number};
    if (committed) {
      // Received frames have no sources, and all ends are known: gigabytes that wait for the flush keep no one waiting.
      record.end = segment.end.value_or(segment.size_bytes);
      segments.push_back(std::move(record));
      continue;
    }
    SegmentCursor cursor(segment, 0);
    while (auto frame = cursor.next()) {
      if (frame->kind == FrameKind::rows && !frame->frame.source_id.empty()) {
        record.sources[frame->frame.source_id] = frame->frame.position;
      }
    }
    record.end = cursor.offset();
    if (record.end < segment.size_bytes) {
      spdlog::info("{}: cut {} bytes that were never acknowledged", segment.path, segment.size_bytes - record.end);
    }
    segments.push_back(std::move(record));
  }
  // The frames found are built on from now on, so they must outlast a power cut (AppendFile::open syncs). Segments
  // before the last one that counts were synced before the next was begun.
  if (!segments.empty()) {
    AppendFile::open(segment_path(folder, segments.back().number), segments.back().end);
    previous = {segments.back().number, segments.back().end};
  }
  for (const int64_t number : numbers) {
    const bool is_dropped = number > previous.segment && number >= progress.segment;
    if (is_dropped) AppendFile::open(segment_path(folder, number), 0);
  }
  rebuild_latest();
}

void Spool::State::rebuild_latest() {
  latest = saved;
  for (const SegmentRecord& record : segments) {
    for (const auto& [source, position] : record.sources) latest[source] = position;
  }
}

void Spool::State::load_foreign(const std::string& cache_root) {
  for (const std::string& other : list_folders(join_path(cache_root, "spool"))) {  // received frames have no sources
    if (other == folder) continue;
    try {
      SourcePositions positions;
      // Segments first: one that is deleted meanwhile has its positions in sources.json by then.
      for (const Segment& segment : open_segments(other)) {
        SegmentCursor cursor(segment, 0);
        while (auto frame = cursor.next()) {
          if (!frame->frame.source_id.empty()) positions[frame->frame.source_id] = frame->frame.position;
        }
      }
      positions.merge(load_sources(other));
      for (const auto& [source, position] : positions) {
        SourcePosition& known = foreign[source];
        if (position.updated_ms >= known.updated_ms) known = position;
      }
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::corrupt) throw;
      spdlog::warn("sources last read into another spool may be read again: {}", error.what());
    }
  }
}

Spool::Spool(std::unique_ptr<State> state) : state_(std::move(state)) {}

Spool::~Spool() {
  State& state = *state_;
  if (!state.current || state.unsynced_bytes > 0 || state.committed || is_program_stopped()) return;
  try {
    // Lets a later open() tell damage to the last frames from a torn tail. Nothing rests on it, so it is not synced.
    state.current->append(encode_end(state.synced));
  } catch (const std::exception& error) {
    spdlog::debug("{}: the closing frame was not written: {}", state.folder, error.what());
  }
}

std::unique_ptr<Spool> Spool::open(const std::string& cache_root, int64_t segment_bytes_max) {
  const auto open_in = [&](const std::string& folder, bool is_new) -> std::unique_ptr<Spool> {
    std::optional<FileLock> lock = FileLock::try_acquire(join_path(folder, "lock"), FileLock::Mode::exclusive);
    if (!lock) return nullptr;
    auto state = std::make_unique<State>(folder, std::move(*lock), segment_bytes_max);
    state->recover(is_new);
    state->load_foreign(cache_root);
    return std::unique_ptr<Spool>(new Spool(std::move(state)));
  };
  for (const std::string& folder : list_folders(join_path(cache_root, "spool"))) {
    if (auto spool = open_in(folder, false)) return spool;
  }
  for (;;) {
    const std::string folder = join_path(join_path(cache_root, "spool"), uuid_v4());
    make_directories(folder);
    // Another process may take the folder between the two steps; then it is that one's.
    if (auto spool = open_in(folder, true)) return spool;
  }
}

std::vector<std::unique_ptr<Spool>> Spool::open_abandoned(const std::string& cache_root) {
  std::vector<std::unique_ptr<Spool>> spools;
  for (const std::string& folder : list_spools(cache_root)) {
    std::optional<FileLock> lock = FileLock::try_acquire(join_path(folder, "lock"), FileLock::Mode::exclusive);
    if (!lock) continue;
    auto state = std::make_unique<State>(folder, std::move(*lock), 64 << 20);
    state->recover(false);
    if (state->segments.empty()) continue;
    spools.push_back(std::unique_ptr<Spool>(new Spool(std::move(state))));
  }
  return spools;
}

std::unique_ptr<Spool> Spool::open_received(const std::string& folder, int64_t segment_bytes_max) {
  std::optional<FileLock> lock = FileLock::try_acquire(join_path(folder, "lock"), FileLock::Mode::exclusive);
  if (!lock) fail(ErrorKind::busy, "{} is in use by another process: one receiver a cache", folder);
  auto state = std::make_unique<State>(folder, std::move(*lock), segment_bytes_max);
  state->recover(false);
  return std::unique_ptr<Spool>(new Spool(std::move(state)));
}

const std::string& Spool::id() const { return state_->id; }
const std::string& Spool::folder() const { return state_->folder; }

// --- appending ---

void Spool::State::begin_segment() {
  int64_t number = 0;
  {
    std::lock_guard guard(mutex);
    number = next_segment++;
    segments.push_back({.number = number});
  }
  const std::string path = segment_path(folder, number);
  fault_point("spool.segment.before_create");
  current = AppendFile::open(path);
  writeback_fd = Descriptor(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  writeback_begun = 0;
  current->append(encode_start({.previous_segment = previous.segment, .previous_end = previous.offset}, previous));
  std::lock_guard guard(mutex);
  segments.back().end = current->size_bytes();
}

// Before segments are read that a failed write may have left with a tail, or a whole one is put after them.
void Spool::State::settle_tail() {
  if (!has_loose_tail) return;
  if (!current) begin_segment();
  sync_current();
}

void Spool::State::sync_current() {
  if (!current) return;
  current->sync();
  fault_point("spool.append.after_sync");
  has_loose_tail = false;
  std::lock_guard guard(mutex);
  SegmentRecord& record = segments.back();
  record.end = current->size_bytes();
  synced = {record.number, record.end};
  for (PreparedFrame& prepared : unsynced) {
    if (!prepared.frame->source_id.empty()) record.sources[prepared.frame->source_id] = prepared.frame->position;
    hold(prepared);
  }
  unsynced.clear();
  unsynced_bytes = 0;
}

// Spares the flush to read it: it is synced, and not changed any more.
void Spool::State::hold(PreparedFrame& prepared) {
  if (!prepared.owned) return;
  const Frame& frame = *prepared.owned;
  const auto bytes = static_cast<int64_t>(frame.text.size());
  const bool is_as_read = !frame.is_packed && frame.row_member.empty();
  if (bytes == 0 || !is_as_read || held_bytes + bytes > kHeldBytesMax) return;
  const SpoolPosition end{prepared.begin.segment, prepared.begin.offset + prepared.size_bytes()};
  held_bytes += bytes;
  held.emplace(prepared.begin, HeldFrame{FrameAt{prepared.begin, end, std::move(*prepared.owned)}, bytes});
}

void Spool::State::close_current() {
  sync_current();
  std::lock_guard guard(mutex);
  previous = {segments.back().number, segments.back().end};
  current.reset();
  writeback_fd = Descriptor();
}

// What was not synced is given up where it stands: the next segment's first frame will say so (P15).
void Spool::State::abandon_current() {
  std::lock_guard guard(mutex);
  current.reset();
  writeback_fd = Descriptor();
  if (segments.empty() || segments.back().number <= previous.segment) return;  // none was begun
  const int64_t number = segments.back().number;
  const int64_t end = synced.segment == number ? synced.offset : 0;
  if (end == 0) {
    segments.pop_back();
  } else {
    segments.back().end = end;
    previous = {number, end};
  }
  // Until that frame is there, readers and a restart would take the tail for good. Only a help: the cut is not synced.
  const std::string path = segment_path(folder, number);
  if (is_program_stopped()) return;
  has_loose_tail = ::truncate(path.c_str(), static_cast<off_t>(end)) != 0 && errno != ENOENT;
}

void Spool::State::flush_buffer(std::string& buffer) {
  if (buffer.empty()) return;
  fault_point("spool.append.before_write");
  current->append(buffer);
  buffer.clear();
}

void Spool::State::write(std::deque<PreparedFrame>& pending, bool wants_sync) {
  std::string buffer;  // small frames, gathered
  while (!pending.empty()) {
    if (current && current->size_bytes() + static_cast<int64_t>(buffer.size()) >= segment_bytes_max) {
      flush_buffer(buffer);
      close_current();
    }
    if (!current) begin_segment();
    PreparedFrame& prepared = unsynced.emplace_back(std::move(pending.front()));
    pending.pop_front();
    const std::string& text = prepared.frame->text;
    unsynced_bytes += prepared.size_bytes();
    buffer += prepared.head;
    if (text.size() < kWriteBufferBytes) {
      buffer += text;
      if (buffer.size() >= kWriteBufferBytes) flush_buffer(buffer);
    } else {
      flush_buffer(buffer);
      current->append(text);
    }
    const int64_t end = current->size_bytes() + static_cast<int64_t>(buffer.size());
    std::lock_guard guard(mutex);
    segments.back().end = end;
    prepared.begin = {segments.back().number, end - prepared.size_bytes()};
    if (prepared.end != nullptr) *prepared.end = {segments.back().number, end};
    if (!prepared.frame->source_id.empty()) latest[prepared.frame->source_id] = prepared.frame->position;
  }
  flush_buffer(buffer);
  if (!current) return;
  if (wants_sync || unsynced_bytes >= kUnsyncedBytesMax) {
    sync_current();
  } else if (current->size_bytes() - writeback_begun >= kWritebackBytes) {
    // A hint to the kernel to begin writing, so that the sync to come finds little left to do.
    ::sync_file_range(writeback_fd.get(), writeback_begun, current->size_bytes() - writeback_begun,
                      SYNC_FILE_RANGE_WRITE);
    writeback_begun = current->size_bytes();
  }
}

void Spool::State::commit(const std::vector<Request*>& batch) {
  std::deque<PreparedFrame> pending;
  bool wants_sync = false;
  for (Request* request : batch) {
    if (request->epoch && *request->epoch != epoch) {
      request->error = std::make_exception_ptr(
          Error(ErrorKind::io,
                fmt::format("{}: rows that were not yet synced are lost: a write failed, and failed again; take the "
                            "source again from its last position",
                            folder)));
      continue;
    }
    wants_sync |= request->wants_sync;
    for (PreparedFrame& prepared : request->frames) pending.push_back(std::move(prepared));
  }
  std::exception_ptr failure;
  try {
    try {
      write(pending, wants_sync);
    } catch (const Error& error) {
      spdlog::warn("{}: the segment is abandoned and what was not acknowledged is written anew: {}", folder,
                   error.what());
      abandon_current();
      pending.insert(pending.begin(), std::make_move_iterator(unsynced.begin()),
                     std::make_move_iterator(unsynced.end()));
      unsynced.clear();
      unsynced_bytes = 0;
      write(pending, /*wants_sync=*/true);
    }
  } catch (...) {  // reported to every call that waits for these frames
    failure = std::current_exception();
    abandon_current();
    unsynced.clear();
    unsynced_bytes = 0;
  }
  std::lock_guard guard(mutex);
  if (failure) {
    ++epoch;
    rebuild_latest();
  }
  for (Request* request : batch) {
    if (failure && !request->error) request->error = failure;
    request->is_done = true;
  }
}

// Whoever gets the file first writes for all that wait behind it, with one sync.
void Spool::State::run(Request& request) {
  {
    std::lock_guard guard(mutex);
    queue.push_back(&request);
  }
  {
    std::lock_guard io_guard(io_mutex);
    std::vector<Request*> batch;
    {
      std::lock_guard guard(mutex);
      if (!request.is_done) batch.swap(queue);
    }
    if (!batch.empty()) commit(batch);
  }
  if (request.error) std::rethrow_exception(request.error);
}

SpoolPosition Spool::append(const std::vector<Frame>& frames) {
  SpoolPosition synced;
  {
    std::lock_guard guard(state_->mutex);
    synced = state_->synced;
  }
  Request request;
  SpoolPosition end;
  for (const Frame& frame : frames) {
    request.frames.push_back({.head = encode_rows_head(frame, synced), .frame = &frame, .owned = nullptr, .end = &end});
  }
  state_->run(request);
  return end;
}

void Spool::append_unsynced(Frame frame, int64_t epoch) {
  SpoolPosition synced;
  {
    std::lock_guard guard(state_->mutex);
    synced = state_->synced;
  }
  Request request;
  request.wants_sync = false;
  request.epoch = epoch;
  auto owned = std::make_unique<Frame>(std::move(frame));
  std::string head = encode_rows_head(*owned, synced);
  request.frames.push_back({.head = std::move(head), .frame = owned.get(), .owned = nullptr, .end = nullptr});
  request.frames.back().owned = std::move(owned);
  state_->run(request);
}

void Spool::sync(int64_t epoch) {
  Request request;
  request.epoch = epoch;
  state_->run(request);
}

int64_t Spool::epoch() const {
  std::lock_guard guard(state_->mutex);
  return state_->epoch;
}

std::optional<SourcePosition> Spool::source_position(const std::string& source_id) const {
  const State& state = *state_;
  std::lock_guard guard(state.mutex);
  const auto ours = state.latest.find(source_id);
  const auto theirs = state.foreign.find(source_id);
  if (theirs != state.foreign.end() &&
      (ours == state.latest.end() || theirs->second.updated_ms > ours->second.updated_ms)) {
    return theirs->second;
  }
  return ours == state.latest.end() ? std::nullopt : std::optional(ours->second);
}

std::vector<std::pair<std::string, SourcePosition>> Spool::source_positions(const std::string& id_prefix) const {
  const State& state = *state_;
  SourcePositions found;
  std::lock_guard guard(state.mutex);
  for (const SourcePositions* positions : {&state.latest, &state.foreign}) {
    for (auto it = positions->lower_bound(id_prefix); it != positions->end() && it->first.starts_with(id_prefix);
         ++it) {
      const auto [known, is_new] = found.emplace(*it);
      if (!is_new && it->second.updated_ms > known->second.updated_ms) known->second = it->second;
    }
  }
  return {found.begin(), found.end()};
}

std::shared_ptr<void> Spool::claim_source(const std::string& source_id, const std::atomic<bool>* cancelled) {
  constexpr auto kLookAgain = std::chrono::milliseconds(100);
  State& state = *state_;
  std::unique_lock guard(state.claims_mutex);
  while (state.claims.contains(source_id)) {
    if (cancelled != nullptr && *cancelled) {
      fail(ErrorKind::cancelled, "interrupted while another command read the source {}", source_id);
    }
    state.claims_changed.wait_for(guard, kLookAgain);
  }
  state.claims.insert(source_id);
  return {nullptr, [&state, source_id](void*) {
            std::lock_guard release(state.claims_mutex);
            state.claims.erase(source_id);
            state.claims_changed.notify_all();
          }};
}

int64_t Spool::unflushed_bytes() const {
  const State& state = *state_;
  std::lock_guard guard(state.mutex);
  int64_t bytes = 0;
  for (const SegmentRecord& record : state.segments) {
    if (record.number < state.progress.segment) continue;
    bytes += record.end - (record.number == state.progress.segment ? state.progress.offset : 0);
  }
  return bytes;
}

// --- the receiver's side ---

void Spool::note_committed(SpoolPosition end) {
  std::lock_guard guard(state_->mutex);
  state_->committed = end;
}

void Spool::abandon_uncommitted() {
  State& state = *state_;
  std::lock_guard io_guard(state.io_mutex);
  state.current.reset();
  state.writeback_fd = Descriptor();
  state.has_loose_tail = false;  // readers know the committed end
  state.unsynced.clear();
  state.unsynced_bytes = 0;
  std::lock_guard guard(state.mutex);
  const SpoolPosition end = state.committed.value();
  std::vector<int64_t> abandoned;
  for (; !state.segments.empty() && state.segments.back().number > end.segment; state.segments.pop_back()) {
    abandoned.push_back(state.segments.back().number);
  }
  if (!state.segments.empty() && state.segments.back().number == end.segment) state.segments.back().end = end.offset;
  state.previous = state.synced = end;
  // Nobody reads them. Only for the room, so neither is synced.
  if (is_program_stopped()) return;
  for (const int64_t number : abandoned) ::unlink(segment_path(state.folder, number).c_str());
  if (::truncate(segment_path(state.folder, end.segment).c_str(), static_cast<off_t>(end.offset)) != 0 &&
      errno != ENOENT)
    spdlog::debug("{}: {}", segment_path(state.folder, end.segment), std::strerror(errno));
}

// --- the flush's side ---

SpoolPosition Spool::progress() const {
  std::lock_guard guard(state_->mutex);
  return state_->progress;
}

SpoolPosition Spool::end() {
  State& state = *state_;
  std::lock_guard io_guard(state.io_mutex);
  {
    std::lock_guard guard(state.mutex);
    const bool is_settled = !state.committed || state.segments.empty() ||
                            *state.committed >= SpoolPosition{state.segments.back().number, state.segments.back().end};
    if (!is_settled) return *state.committed;
  }
  if (state.current) {
    Request request;  // through commit(), so that a failed sync is met as it is there
    state.commit({&request});
    if (request.error) std::rethrow_exception(request.error);
  }
  state.settle_tail();
  if (state.current) state.close_current();
  std::lock_guard guard(state.mutex);
  return {state.next_segment, 0};
}

std::optional<FrameAt> Spool::take_held(SpoolPosition begin) {
  std::lock_guard guard(state_->mutex);
  const auto found = state_->held.find(begin);
  return found == state_->held.end() ? std::nullopt : std::exchange(found->second.frame, std::nullopt);
}

void Spool::advance(SpoolPosition progress) {
  State& state = *state_;
  SourcePositions saved;
  std::vector<int64_t> deleted;
  bool has_sources = false, is_saved = false;
  {
    std::lock_guard guard(state.mutex);
    saved = state.saved;
    is_saved = state.is_saved || state.committed;
    for (const SegmentRecord& record : state.segments) {
      if (record.number >= progress.segment) break;
      deleted.push_back(record.number);
      for (const auto& [source, position] : record.sources) saved[source] = position;
      has_sources |= !record.sources.empty();
    }
  }
  SourcePositions pruned;
  if (has_sources || !is_saved) {
    is_saved = true;
    pruned = prune_sources(saved, now_ms());
    fault_point("spool.advance.before_sources");
    save_sources(state.folder, saved);
  }
  fault_point("spool.advance.before_progress");
  save_progress(state.folder, progress, state.committed ? std::optional(ledger_commits(state.folder)) : std::nullopt);
  {
    std::lock_guard guard(state.mutex);
    state.progress = progress;
    state.saved = std::move(saved);
    state.is_saved = is_saved;
    while (!state.segments.empty() && state.segments.front().number < progress.segment) state.segments.pop_front();
    while (!state.held.empty() && state.held.begin()->first < progress) {
      state.held_bytes -= state.held.begin()->second.bytes;
      state.held.erase(state.held.begin());
    }
    for (const auto& [source, position] : pruned) {
      const auto known = state.latest.find(source);
      if (known != state.latest.end() && known->second.updated_ms == position.updated_ms) state.latest.erase(known);
    }
  }
  for (const int64_t number : deleted) {
    fault_point("spool.advance.before_delete");
    remove_file(segment_path(state.folder, number));
  }
}

void Spool::begin_above(int64_t segment) {
  std::lock_guard guard(state_->mutex);
  state_->next_segment = std::max(state_->next_segment, segment + 1);
}

std::mutex& Spool::flush_mutex() { return state_->flush_mutex; }

// --- all or nothing ---

struct AtomicAppend::State {
  Spool::State& spool;
  std::string path;
  std::optional<AppendFile> file;
  SourcePositions sources;
  int64_t end = 0;
  bool is_committed = false;
};

AtomicAppend::AtomicAppend(Spool& spool)
    : state_(new State{
          .spool = *spool.state_, .path = join_path(spool.folder(), uuid_v4() + ".tmp"), .file = {}, .sources = {}}) {
  state_->file = AppendFile::open(state_->path);
  state_->file->append(encode_start({.previous_segment = 0, .previous_end = 0, .is_whole = true}, {}));
}

AtomicAppend::~AtomicAppend() {
  if (state_->is_committed || is_program_stopped()) return;
  // Best effort: the next open() removes what stays.
  if (::unlink(state_->path.c_str()) != 0) spdlog::debug("remove {}: {}", state_->path, std::strerror(errno));
}

void AtomicAppend::append(const Frame& frame) {
  AppendFile& file = *state_->file;
  file.append(encode_rows_head(frame, {}));
  file.append(frame.text);
  state_->end = file.size_bytes();
  if (!frame.source_id.empty()) state_->sources[frame.source_id] = frame.position;
}

SpoolPosition AtomicAppend::commit() {
  State& state = *state_;
  Spool::State& spool = state.spool;
  state.file->sync();
  const int64_t end = state.file->size_bytes();
  state.file.reset();

  std::lock_guard io_guard(spool.io_mutex);
  // A whole segment does not say where the one before it ends, so that one must end where its file does.
  Request request;
  spool.commit({&request});
  if (request.error) std::rethrow_exception(request.error);
  spool.settle_tail();
  if (spool.current) spool.close_current();
  int64_t number = 0;
  {
    std::lock_guard guard(spool.mutex);
    number = spool.next_segment++;
  }
  fault_point("spool.atomic.before_publish");
  rename_file(state.path, segment_path(spool.folder, number));
  state.is_committed = true;
  fault_point("spool.atomic.after_publish");
  std::lock_guard guard(spool.mutex);
  spool.previous = spool.synced = {number, end};
  for (const auto& [source, position] : state.sources) spool.latest[source] = position;
  spool.segments.push_back({.number = number, .end = end, .sources = std::move(state.sources)});
  return {number, state.end};
}

}  // namespace firn::hyp
