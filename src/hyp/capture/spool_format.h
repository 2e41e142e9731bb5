// The bytes of segments, and the chain that segments form.
//
//   frame    u32 payload bytes, u32 CRC-32C of the payload, payload
//   payload  u8 version (1), u8 kind, i64 + i64 a place before which all was synced when the frame was made, then
//     start  i64 the segment before this one that counts (0: none), i64 where that one ends, u8 whether this segment
//     was
//            published whole (AtomicAppend; then the two say nothing, and the one before ends where its file does)
//     rows   dataset, source, source id, batch id (u32 length and bytes each), i64 position bytes, i64 lines, u8 done,
//            i64 updated_ms, i64 first line, text to the payload's end
//     packed as rows, the text as its size (u32) and one block of LZ4
//     marked as rows, with a member (u32 length and bytes) that each line's object has first, and a u8 whether the text
//            is packed, before the text
//     end    nothing: written when a spool is closed in order
// Integers are little-endian.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "hyp/capture/spool.h"

namespace firn::hyp {

enum class FrameKind : uint8_t { start = 1, rows = 2, end = 3, packed = 4, marked = 5 };

struct SegmentStart {
  int64_t previous_segment = 0;
  int64_t previous_end = 0;
  bool is_whole = false;
};

std::string encode_start(const SegmentStart& start, SpoolPosition synced);
std::string encode_end(SpoolPosition synced);
// All of the frame but its text, which follows.
std::string encode_rows_head(const Frame& frame, SpoolPosition synced);
// The text with `member`, `"name":value`, as the first of each line's object.
std::string with_row_member(std::string_view text, std::string_view member);

struct DecodedFrame {
  FrameKind kind = FrameKind::end;
  SpoolPosition synced;
  SegmentStart start;
  Frame frame;
  int64_t next_offset = 0;
};

// A segment's file, held open.
struct Segment {
  int64_t number = 0;
  std::string path;
  Descriptor fd;
  int64_t size_bytes = 0;             // of the file when it was opened
  std::optional<SegmentStart> start;  // nullopt: its first frame is torn or damaged
  // Where the segment after it says that this one ends; nullopt: none says so, and a torn tail may follow the last
  // frame.
  std::optional<int64_t> end;
};

std::string segment_path(const std::string& folder, int64_t number);
std::vector<int64_t> list_segments(const std::string& folder);     // sorted
std::vector<std::string> list_folders(const std::string& folder);  // those in it, hidden ones left out; sorted paths
std::optional<Segment> open_segment(const std::string& folder, int64_t number);  // nullopt: it is not there

// The segments that count, in order, as they stand; those deleted meanwhile are left out. Segments that were begun and
// never held an acknowledged frame are dropped, as is what lies past the committed end of a receiver's spool
// (spool_committed.h). Throws corrupt naming segment and offset where a first frame is damaged, or a segment with rows
// that were not flushed is missing.
std::vector<Segment> open_segments(const std::string& folder);

// The frame at `offset`, or nullopt if none ends before `limit` with its checksum right. One that is packed or marked
// comes as rows. Throws unsupported for another version, corrupt where the checksum is right and the packed text is
// not.
std::optional<DecodedFrame> read_frame(const Segment& segment, int64_t offset, int64_t limit);

// Frames of one segment from `offset` on.
class SegmentCursor {
 public:
  SegmentCursor(const Segment& segment, int64_t offset);
  // nullopt at the segment's end, be it torn. Throws corrupt where synced bytes are damaged: before an end that is
  // known, or where a later frame tells that they had been synced.
  std::optional<DecodedFrame> next();
  int64_t offset() const { return offset_; }  // of the next frame; after nullopt the end of what counts
  void skip_to(int64_t offset) { offset_ = offset; }

 private:
  const Segment& segment_;
  int64_t offset_;
};

}  // namespace firn::hyp
