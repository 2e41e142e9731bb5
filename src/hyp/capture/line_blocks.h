// A stream of bytes cut at line ends into blocks of about a megabyte.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>

#include "base/error.h"
#include "hyp/capture/byte_stream.h"

namespace firn::hyp {

struct LineBlock {
  std::string text;              // whole lines, each ended by '\n'
  int64_t bytes = 0;             // that it stands for in the stream
  int64_t lines = 0;             // blank ones counted
  int64_t rows = 0;              // lines that are not blank
  bool is_unterminated = false;  // the stream's last line, alone, which had no newline: one was added
};

class BlockSource {
 public:
  virtual ~BlockSource() = default;
  // The next block. nullopt with is_end() false: nothing more has come for now.
  virtual std::optional<LineBlock> next() = 0;
  virtual bool is_end() const = 0;
};

// What stands of a line that was too long to be kept whole: its first bytes, then a NUL and this mark with the number
// of bytes that it had. Such a line is no row, whatever the limit is when it is read.
struct CutLine {
  std::string_view text;  // the first bytes
  int64_t bytes = 0;      // of the whole line, without its newline
};
std::optional<CutLine> find_cut(std::string_view line);

// One thread; the stream must outlive it. Of a line longer than row_bytes_max its first row_bytes_max + 1 bytes (less a
// character that these would cut) are kept with a mark (CutLine), which is as good for a reject, so memory is bounded
// by that and a block.
class LineBlocks : public BlockSource {
 public:
  static constexpr size_t kBlockBytes = 1 << 20;

  LineBlocks(ByteStream& stream, int64_t row_bytes_max)
      : stream_(stream), row_bytes_max_(static_cast<size_t>(row_bytes_max)) {}

  // Drops the stream's first `bytes`. False: it ended before.
  bool skip(int64_t bytes);
  // Shorter where the stream is slow, so that no whole line waits longer than about half a second. When the stream
  // fails, the whole lines before that come first, then the error.
  std::optional<LineBlock> next() override;
  bool is_end() const override { return is_end_; }

 private:
  void fill();
  LineBlock cut(size_t size);
  void drop();

  ByteStream& stream_;
  size_t row_bytes_max_;
  std::string buffer_;   // from the start of a line on
  int64_t dropped_ = 0;  // bytes of that line left out of the buffer
  size_t kept_ = 0;      // what is kept of it, where some were
  size_t searched_ = 0;  // of the buffer: no newline before it
  bool is_end_ = false;
  bool is_idle_ = false;          // the last read brought nothing
  int64_t waiting_since_us_ = 0;  // when the buffer's first bytes came
  std::optional<Error> error_;
};

// The same blocks, read (and decompressed) on a thread of their own while the caller works on the one before; for
// streams that are never idle. A single block is read on the caller's thread.
class BlocksAhead : public BlockSource {
 public:
  explicit BlocksAhead(LineBlocks& blocks) : blocks_(blocks) {}  // must outlive it, and is used by it alone
  ~BlocksAhead() override;                                       // once the read at hand has ended
  std::optional<LineBlock> next() override;
  bool is_end() const override { return is_end_; }

 private:
  void read();
  std::optional<LineBlock> take();

  LineBlocks& blocks_;
  bool is_first_ = true, is_end_ = false;  // the caller's

  std::mutex mutex_;  // of everything below
  std::condition_variable changed_;
  std::deque<LineBlock> waiting_;
  std::exception_ptr failure_;  // of the read after those
  bool is_all_read_ = false, is_stopped_ = false;
  std::jthread thread_;
};

}  // namespace firn::hyp
