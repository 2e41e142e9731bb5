// A stream of bytes cut at line ends into blocks of about a megabyte.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

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

// One thread; the stream must outlive it. Of a line longer than row_bytes_max its first row_bytes_max + 1 bytes are
// kept, which is as good for a reject, so memory is bounded by that and a block.
class LineBlocks {
 public:
  static constexpr size_t kBlockBytes = 1 << 20;

  LineBlocks(ByteStream& stream, int64_t row_bytes_max)
      : stream_(stream), row_bytes_max_(static_cast<size_t>(row_bytes_max)) {}

  // Drops the stream's first `bytes`. False: it ended before.
  bool skip(int64_t bytes);
  // The next block: shorter where the stream is slow, so that no whole line waits longer than about half a second.
  // nullopt with is_end() false: nothing more has come for now. When the stream fails, the whole lines before that come
  // first, then the error.
  std::optional<LineBlock> next();
  bool is_end() const { return is_end_; }

 private:
  void fill();
  LineBlock cut(size_t size);

  ByteStream& stream_;
  size_t row_bytes_max_;
  std::string buffer_;   // from the start of a line on
  int64_t dropped_ = 0;  // bytes of that line left out of the buffer
  size_t searched_ = 0;  // of the buffer: no newline before it
  bool is_end_ = false;
  bool is_idle_ = false;          // the last read brought nothing
  int64_t waiting_since_us_ = 0;  // when the buffer's first bytes came
  std::optional<Error> error_;
};

}  // namespace firn::hyp
