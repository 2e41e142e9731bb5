#include "hyp/capture/spool_format.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <memory>
#include <utility>

#include <arrow/util/compression.h>

#include "base/arrow_status.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/uri.h"
#include "hyp/capture/json_scanner.h"
#include "hyp/capture/spool_committed.h"
#include "hyp/capture/spool_sources.h"

namespace firn::hyp {
namespace {

constexpr uint8_t kFrameVersion = 1;
constexpr int64_t kFrameHeadBytes = 8;
constexpr int64_t kPayloadBytesMin = 18;
// One read brings the head of any frame, and small frames whole.
constexpr int64_t kReadBytes = 8192;
constexpr uint64_t kFrameTextBytesMax = 1U << 31;

template <class T>
void put(std::string& out, T value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof value);
}

void put_text(std::string& out, std::string_view text) {
  put(out, static_cast<uint32_t>(text.size()));
  out += text;
}

// Takes values from the front; after a failure everything is zero.
struct Taker {
  std::string_view rest;
  bool is_good = true;

  template <class T>
  T take() {
    T value{};
    if (rest.size() < sizeof value) {
      is_good = false;
      return value;
    }
    std::memcpy(&value, rest.data(), sizeof value);
    rest.remove_prefix(sizeof value);
    return value;
  }
  std::string take_text() {
    const auto size = take<uint32_t>();
    if (!is_good || rest.size() < size) {
      is_good = false;
      return {};
    }
    std::string text(rest.substr(0, size));
    rest.remove_prefix(size);
    return text;
  }
};

std::string begin_payload(FrameKind kind, SpoolPosition synced) {
  std::string out(kFrameHeadBytes, '\0');
  put(out, kFrameVersion);
  put(out, static_cast<uint8_t>(kind));
  put(out, synced.segment);
  put(out, synced.offset);
  return out;
}

void set_head(std::string& out, std::string_view text) {
  const auto size = static_cast<uint32_t>(out.size() - kFrameHeadBytes + text.size());
  const uint32_t crc = crc32c(text, crc32c(std::string_view(out).substr(kFrameHeadBytes)));
  std::memcpy(out.data(), &size, sizeof size);
  std::memcpy(out.data() + sizeof size, &crc, sizeof crc);
}

// Bytes of the file from `offset`, at most `count`: fewer at its end.
std::string read_at(const Segment& segment, int64_t offset, int64_t count) {
  std::string bytes(static_cast<size_t>(count), '\0');
  size_t filled = 0;
  while (filled < bytes.size()) {
    const ssize_t got =
        ::pread(segment.fd.get(), bytes.data() + filled, bytes.size() - filled, offset + static_cast<int64_t>(filled));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail_errno(errno, "read " + segment.path);
    if (got == 0) break;
    filled += static_cast<size_t>(got);
  }
  bytes.resize(filled);
  return bytes;
}

// Everything of a payload before the text. False: it is not whole or not one.
bool decode_payload_head(Taker& taker, DecodedFrame& out) {
  taker.take<uint8_t>();  // the version, checked by the caller
  out.kind = static_cast<FrameKind>(taker.take<uint8_t>());
  out.synced.segment = taker.take<int64_t>();
  out.synced.offset = taker.take<int64_t>();
  switch (out.kind) {
    case FrameKind::start:
      out.start.previous_segment = taker.take<int64_t>();
      out.start.previous_end = taker.take<int64_t>();
      out.start.is_whole = taker.take<uint8_t>() != 0;
      break;
    case FrameKind::rows:
    case FrameKind::packed:
    case FrameKind::marked: {
      Frame& frame = out.frame;
      frame.dataset = taker.take_text();
      frame.source = taker.take_text();
      frame.source_id = taker.take_text();
      frame.batch_id = taker.take_text();
      frame.position.bytes = taker.take<int64_t>();
      frame.position.lines = taker.take<int64_t>();
      frame.position.done = taker.take<uint8_t>() != 0;
      frame.position.updated_ms = taker.take<int64_t>();
      frame.first_line = taker.take<int64_t>();
      frame.is_packed = out.kind == FrameKind::packed;
      if (out.kind == FrameKind::marked) {
        frame.row_member = taker.take_text();
        frame.is_packed = taker.take<uint8_t>() != 0;
      }
      break;
    }
    case FrameKind::end:
      break;
    default:
      return false;
  }
  return taker.is_good;
}

[[noreturn]] void fail_damaged(const Segment& segment, int64_t offset) {
  fail(ErrorKind::corrupt,
       "{} is damaged at offset {}, where bytes had been synced: rows after it are not read. Restore the file, or move "
       "it out of "
       "the spool to give up its rows",
       segment.path, offset);
}

// A block of LZ4: four tenths of the text's size for a quarter of what zstd's fastest costs, and the text waits for it.
arrow::util::Codec& codec() {
  static const std::unique_ptr<arrow::util::Codec> lz4 =
      check(arrow::util::Codec::Create(arrow::Compression::LZ4), "make a codec");
  return *lz4;
}

std::string unpacked(std::string_view packed, const Segment& segment, int64_t offset) {
  Taker taker{packed};
  const auto size = taker.take<uint32_t>();
  std::string text;
  bool is_whole = taker.is_good && size <= kFrameTextBytesMax;
  if (is_whole) {
    text.resize(size);
    const auto written =
        codec().Decompress(static_cast<int64_t>(taker.rest.size()), reinterpret_cast<const uint8_t*>(taker.rest.data()),
                           size, reinterpret_cast<uint8_t*>(text.data()));
    is_whole = written.ok() && *written == size;
  }
  if (!is_whole)
    fail(ErrorKind::corrupt, "{}: the rows of the frame at offset {} cannot be unpacked", segment.path, offset);
  return text;
}

// Whether some whole frame after `offset` says that bytes past `offset` had been synced before it was made.
bool was_synced(const Segment& segment, int64_t offset) {
  const std::string bytes = read_at(segment, offset, segment.size_bytes - offset);
  // A start frame, too, is only made once all before it is synced; but it stands at offset 0.
  for (int64_t at = 1; at + kFrameHeadBytes + kPayloadBytesMin <= static_cast<int64_t>(bytes.size()); ++at) {
    const char* head = bytes.data() + at;
    if (head[kFrameHeadBytes] != static_cast<char>(kFrameVersion) || head[kFrameHeadBytes + 1] < 1 ||
        head[kFrameHeadBytes + 1] > static_cast<char>(FrameKind::marked)) {
      continue;
    }
    uint32_t size = 0;
    uint32_t crc = 0;
    std::memcpy(&size, head, sizeof size);
    std::memcpy(&crc, head + sizeof size, sizeof crc);
    if (size < kPayloadBytesMin || at + kFrameHeadBytes + size > static_cast<int64_t>(bytes.size())) continue;
    const std::string_view payload(head + kFrameHeadBytes, size);
    DecodedFrame frame;
    Taker taker{payload};
    if (!decode_payload_head(taker, frame) || crc32c(payload) != crc) continue;
    if (frame.synced > SpoolPosition{segment.number, offset}) return true;
  }
  return false;
}

// Throws corrupt unless `number`, which the segment after it names, was flushed and deleted: the progress is saved
// before.
void check_deleted(const std::string& folder, int64_t number, int64_t offset, int64_t next) {
  if (number == 0 || number < load_progress(folder).segment) return;
  fail(
      ErrorKind::corrupt,
      "{} is missing: {} follows it, and it held captured rows, up to offset {}, that are in no table yet. Restore it; "
      "or, to go on without those rows, put an empty file in its place",
      segment_path(folder, number), segment_path(folder, next), offset);
}

// The same for the last segment of a receiver's spool, which its ledger names.
void check_committed_deleted(const std::string& folder, SpoolPosition committed) {
  if (committed <= load_progress(folder)) return;
  fail(ErrorKind::corrupt,
       "{} is missing: {} names it, and it held received rows, up to offset {}, that are in no table yet. Restore both "
       "from one backup; or, to go on without those rows, put an empty file in its place",
       segment_path(folder, committed.segment), ledger_path(folder), committed.offset);
}

}  // namespace

std::string encode_start(const SegmentStart& start, SpoolPosition synced) {
  std::string out = begin_payload(FrameKind::start, synced);
  put(out, start.previous_segment);
  put(out, start.previous_end);
  put(out, static_cast<uint8_t>(start.is_whole));
  set_head(out, "");
  return out;
}

std::string encode_end(SpoolPosition synced) {
  std::string out = begin_payload(FrameKind::end, synced);
  set_head(out, "");
  return out;
}

std::string encode_rows_head(const Frame& frame, SpoolPosition synced) {
  const bool is_marked = !frame.row_member.empty();
  std::string out = begin_payload(is_marked         ? FrameKind::marked
                                  : frame.is_packed ? FrameKind::packed
                                                    : FrameKind::rows,
                                  synced);
  put_text(out, frame.dataset);
  put_text(out, frame.source);
  put_text(out, frame.source_id);
  put_text(out, frame.batch_id);
  put(out, frame.position.bytes);
  put(out, frame.position.lines);
  put(out, static_cast<uint8_t>(frame.position.done));
  put(out, frame.position.updated_ms);
  put(out, frame.first_line);
  if (is_marked) {
    put_text(out, frame.row_member);
    put(out, static_cast<uint8_t>(frame.is_packed));
  }
  if (out.size() + frame.text.size() > kFrameTextBytesMax) {
    fail(ErrorKind::invalid_argument, "a frame of {} bytes for dataset {}: cut it", frame.text.size(), frame.dataset);
  }
  set_head(out, frame.text);
  return out;
}

std::string with_row_member(std::string_view text, std::string_view member) {
  constexpr std::string_view kSpace = " \t\r";
  std::string out;
  const auto lines = static_cast<size_t>(count_newlines(text));
  out.reserve(text.size() + lines * (member.size() + 1));
  while (!text.empty()) {
    const size_t size = std::min(text.find('\n'), text.size() - 1) + 1;
    const std::string_view line = text.substr(0, size);
    text.remove_prefix(size);
    const size_t brace = line.find_first_not_of(kSpace);
    if (brace == std::string_view::npos || line[brace] != '{') {  // a blank line
      out += line;
      continue;
    }
    const size_t first = std::min(line.find_first_not_of(kSpace, brace + 1), line.size());
    out += '{';
    out += member;
    if (first < line.size() && line[first] != '}') out += ',';
    out += line.substr(first);
  }
  return out;
}

std::optional<std::string> packed_text(std::string_view text) {
  constexpr int64_t kKeptBytesMax = 2 << 20;
  thread_local std::string kept;  // of texts of the usual size, since new memory costs as much as a copy
  if (text.size() > kFrameTextBytesMax) return std::nullopt;
  const auto* const bytes = reinterpret_cast<const uint8_t*>(text.data());
  const int64_t bound = codec().MaxCompressedLen(static_cast<int64_t>(text.size()), bytes);
  std::string once;
  std::string& out = bound <= kKeptBytesMax ? kept : once;
  const auto text_bytes = static_cast<uint32_t>(text.size());
  const size_t needed = sizeof text_bytes + static_cast<size_t>(bound);
  if (out.size() < needed) out.resize(needed);
  std::memcpy(out.data(), &text_bytes, sizeof text_bytes);
  const auto size = codec().Compress(static_cast<int64_t>(text.size()), bytes, bound,
                                     reinterpret_cast<uint8_t*>(out.data()) + sizeof text_bytes);
  if (!size.ok() || sizeof text_bytes + static_cast<size_t>(*size) >= text.size()) return std::nullopt;
  return out.substr(0, sizeof text_bytes + static_cast<size_t>(*size));
}

std::string segment_path(const std::string& folder, int64_t number) {
  return join_path(folder, fmt::format("{:012}.seg", number));
}

std::vector<int64_t> list_segments(const std::string& folder) {
  std::vector<int64_t> numbers;
  const std::unique_ptr<DIR, int (*)(DIR*)> entries(::opendir(folder.c_str()), ::closedir);
  if (entries == nullptr) {
    if (errno == ENOENT) return numbers;
    fail_errno(errno, "list " + folder);
  }
  while (const dirent* entry = ::readdir(entries.get())) {
    const std::string_view name = entry->d_name;
    if (name.size() < 12 + 4 || !name.ends_with(".seg")) continue;
    int64_t number = 0;
    const char* end = name.data() + name.size() - 4;
    const auto [stop, error] = std::from_chars(name.data(), end, number);
    if (error == std::errc() && stop == end && number > 0) numbers.push_back(number);
  }
  std::sort(numbers.begin(), numbers.end());
  return numbers;
}

std::optional<Segment> open_segment(const std::string& folder, int64_t number) {
  Segment segment;
  segment.number = number;
  segment.path = segment_path(folder, number);
  segment.fd = Descriptor(::open(segment.path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!segment.fd) {
    if (errno == ENOENT) return std::nullopt;
    fail_errno(errno, "open " + segment.path);
  }
  struct stat info;
  if (::fstat(segment.fd.get(), &info) != 0) fail_errno(errno, "stat " + segment.path);
  segment.size_bytes = info.st_size;
  if (const auto frame = read_frame(segment, 0, segment.size_bytes); frame && frame->kind == FrameKind::start) {
    segment.start = frame->start;
  }
  return segment;
}

std::vector<std::string> list_folders(const std::string& folder) {
  std::vector<std::string> folders;
  const std::unique_ptr<DIR, int (*)(DIR*)> entries(::opendir(folder.c_str()), ::closedir);
  if (entries == nullptr) {
    if (errno == ENOENT) return folders;
    fail_errno(errno, "list " + folder);
  }
  while (const dirent* entry = ::readdir(entries.get())) {
    if (entry->d_name[0] == '.' || (entry->d_type != DT_DIR && entry->d_type != DT_UNKNOWN)) continue;
    folders.push_back(join_path(folder, entry->d_name));
  }
  std::sort(folders.begin(), folders.end());
  return folders;
}

std::vector<Segment> open_segments(const std::string& folder) {
  // Read first: what counted then is in the files that are opened after it.
  const std::optional<SpoolPosition> committed = committed_end(folder);
  std::vector<Segment> all;
  for (const int64_t number : list_segments(folder)) {
    if (committed && number > committed->segment) continue;
    if (auto segment = open_segment(folder, number)) all.push_back(std::move(*segment));
  }
  if (committed && committed->segment > 0) {
    if (all.empty() || all.back().number != committed->segment) {
      check_committed_deleted(folder, *committed);
    } else {
      all.back().end = committed->offset;
    }
  }
  std::vector<Segment> counting;
  // From the last to the first: each that counts says which one before it does, and where that one ends.
  std::optional<SegmentStart> next;
  int64_t next_number = 0;
  // Whether the one that `next` names is not there; `found` is the nearest before it.
  const auto is_deleted = [&](int64_t found) {
    if (!next || next->is_whole || found >= next->previous_segment) return false;
    check_deleted(folder, next->previous_segment, next->previous_end, next_number);
    return true;
  };
  for (auto segment = all.rbegin(); segment != all.rend(); ++segment) {
    if (segment->size_bytes == 0) {
      // An empty file where one with rows should be: someone's word that they are given up.
      if (next && next->previous_segment == segment->number) next->is_whole = true;
      continue;
    }
    if (next && !next->is_whole && next->previous_segment < segment->number) continue;
    if (is_deleted(segment->number)) break;  // just now, and all before it too
    if (!segment->start) {
      // Torn when it was begun, if nothing that counts follows.
      if (next || segment->end || was_synced(*segment, 0)) fail_damaged(*segment, 0);
      continue;
    }
    if (next) segment->end = next->is_whole ? segment->size_bytes : next->previous_end;
    if (segment->start->is_whole && !segment->end) segment->end = segment->size_bytes;
    next = segment->start;
    next_number = segment->number;
    counting.push_back(std::move(*segment));
  }
  is_deleted(0);
  std::reverse(counting.begin(), counting.end());
  return counting;
}

std::optional<DecodedFrame> read_frame(const Segment& segment, int64_t offset, int64_t limit) {
  if (offset + kFrameHeadBytes + kPayloadBytesMin > limit) return std::nullopt;
  std::string bytes = read_at(segment, offset, std::min(kReadBytes, limit - offset));
  if (static_cast<int64_t>(bytes.size()) < kFrameHeadBytes + kPayloadBytesMin) return std::nullopt;
  uint32_t size = 0;
  uint32_t crc = 0;
  std::memcpy(&size, bytes.data(), sizeof size);
  std::memcpy(&crc, bytes.data() + sizeof size, sizeof crc);
  const int64_t next_offset = offset + kFrameHeadBytes + size;
  if (size < kPayloadBytesMin || next_offset > limit) return std::nullopt;

  std::string_view payload = std::string_view(bytes).substr(kFrameHeadBytes, size);
  DecodedFrame frame;
  frame.next_offset = next_offset;
  Taker taker{payload};
  bool is_head_whole = decode_payload_head(taker, frame);
  if (!is_head_whole && payload.size() < size) {  // names of several kilobytes
    bytes = read_at(segment, offset, kFrameHeadBytes + size);
    payload = std::string_view(bytes).substr(kFrameHeadBytes, size);
    taker = Taker{payload};
    is_head_whole = decode_payload_head(taker, frame);
  }
  uint32_t actual = crc32c(payload);
  const bool has_text = is_head_whole && frame.kind != FrameKind::start && frame.kind != FrameKind::end;
  if (has_text) {
    frame.frame.text.assign(taker.rest);
    if (payload.size() < size) {
      const std::string rest = read_at(segment, offset + kFrameHeadBytes + static_cast<int64_t>(payload.size()),
                                       static_cast<int64_t>(size - payload.size()));
      actual = crc32c(rest, actual);
      frame.frame.text += rest;
    }
  }
  if (actual != crc) return std::nullopt;
  if (static_cast<uint8_t>(payload[0]) != kFrameVersion) {
    fail(ErrorKind::unsupported, "{}: the frame at offset {} has version {}; this firn reads version {}", segment.path,
         offset, static_cast<int>(payload[0]), kFrameVersion);
  }
  if (!is_head_whole) return std::nullopt;
  if (has_text) {
    Frame& rows = frame.frame;
    if (std::exchange(rows.is_packed, false)) rows.text = unpacked(rows.text, segment, offset);
    if (!rows.row_member.empty()) rows.text = with_row_member(rows.text, std::exchange(rows.row_member, {}));
    frame.kind = FrameKind::rows;
  }
  return frame;
}

SegmentCursor::SegmentCursor(const Segment& segment, int64_t offset) : segment_(segment), offset_(offset) {}

std::optional<DecodedFrame> SegmentCursor::next() {
  const int64_t limit = segment_.end.value_or(segment_.size_bytes);
  if (offset_ >= limit) return std::nullopt;
  if (limit <= segment_.size_bytes) {
    if (auto frame = read_frame(segment_, offset_, limit)) {
      offset_ = frame->next_offset;
      return frame;
    }
  }
  if (segment_.end || was_synced(segment_, offset_)) fail_damaged(segment_, offset_);
  return std::nullopt;
}

}  // namespace firn::hyp
