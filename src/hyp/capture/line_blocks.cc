#include "hyp/capture/line_blocks.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/threads.h"

namespace firn::hyp {
namespace {

constexpr int64_t kWaitUsMax = 500'000;
constexpr size_t kBlocksAheadMax = 8;  // goes on while the caller waits for a sync
constexpr std::string_view kCutMark("\0cut:", 5);

void count_lines(LineBlock& block) {
  const char* p = block.text.data();
  const char* end = p + block.text.size();
  while (p < end) {
    const auto* newline = static_cast<const char*>(std::memchr(p, '\n', static_cast<size_t>(end - p)));
    while (p < newline && (*p == ' ' || *p == '\t' || *p == '\r')) ++p;
    ++block.lines;
    block.rows += p < newline ? 1 : 0;
    p = newline + 1;
  }
}

}  // namespace

std::optional<CutLine> find_cut(std::string_view line) {
  const size_t at = line.rfind(kCutMark);
  if (at == std::string_view::npos) return std::nullopt;
  const char* const end = line.data() + line.size();
  CutLine cut{line.substr(0, at)};
  const auto [stop, error] = std::from_chars(line.data() + at + kCutMark.size(), end, cut.bytes);
  if (error != std::errc() || stop != end) return std::nullopt;
  return cut;
}

bool LineBlocks::skip(int64_t bytes) {
  std::vector<char> scratch(kBlockBytes);
  while (bytes > 0) {
    const auto wanted = static_cast<size_t>(std::min<int64_t>(bytes, static_cast<int64_t>(scratch.size())));
    const ByteStream::Read read = stream_.read(scratch.data(), wanted);
    if (read.is_end) return false;
    bytes -= static_cast<int64_t>(read.count);
  }
  return true;
}

// Reads once, up to a block.
void LineBlocks::fill() {
  const size_t size = buffer_.size();
  buffer_.resize(std::max(size + kBlockBytes / 4, kBlockBytes));
  ByteStream::Read read;
  try {
    read = stream_.read(buffer_.data() + size, buffer_.size() - size);
  } catch (const Error& error) {  // thrown again by next(), after the lines that came before
    error_ = error;
    read.is_end = true;
  }
  buffer_.resize(size + read.count);
  if (size == 0) waiting_since_us_ = steady_us();
  is_end_ = read.is_end;
  is_idle_ = read.count == 0;
}

LineBlock LineBlocks::cut(size_t size) {
  LineBlock block;
  std::string rest = buffer_.substr(size);
  block.text = std::move(buffer_);
  block.text.resize(size);
  block.bytes = static_cast<int64_t>(size) + dropped_;
  if (dropped_ > 0) {
    const size_t end = std::min(block.text.find('\n', kept_), size);
    const int64_t line_bytes = static_cast<int64_t>(end) + dropped_;
    block.text.replace(kept_, end - kept_, fmt::format("{}{}", kCutMark, line_bytes));
  }
  buffer_ = std::move(rest);
  dropped_ = 0;
  searched_ = 0;
  waiting_since_us_ = steady_us();
  return block;
}

// Of a buffer that is the beginning of one line, what is past row_bytes_max_ + 1 bytes.
void LineBlocks::drop() {
  if (dropped_ == 0) {
    kept_ = row_bytes_max_ + 1;
    const auto is_inside = [&](size_t at) { return (static_cast<unsigned char>(buffer_[at]) & 0xC0) == 0x80; };
    for (int i = 0; i < 3 && kept_ > 0 && is_inside(kept_); ++i) --kept_;
  }
  dropped_ += static_cast<int64_t>(buffer_.size() - kept_);
  buffer_.resize(kept_);
}

std::optional<LineBlock> LineBlocks::next() {
  for (;;) {
    // Enough, or all there is for now: up to the last newline.
    const bool is_late = !buffer_.empty() && steady_us() - waiting_since_us_ > kWaitUsMax;
    if (buffer_.size() >= kBlockBytes || is_idle_ || is_end_ || is_late) {
      const std::string_view unsearched = std::string_view(buffer_).substr(searched_);
      const size_t newline = unsearched.rfind('\n');
      if (newline != std::string_view::npos) {
        LineBlock block = cut(searched_ + newline + 1);
        count_lines(block);
        return block;
      }
      searched_ = buffer_.size();
      if (buffer_.size() > row_bytes_max_ + 1) {
        drop();
        searched_ = buffer_.size();
      }
    }
    if (is_end_) break;
    if (is_idle_) {
      is_idle_ = false;
      return std::nullopt;
    }
    fill();
  }
  if (error_) throw Error(*std::exchange(error_, std::nullopt));
  if (buffer_.empty()) return std::nullopt;
  LineBlock block = cut(buffer_.size());
  block.text += '\n';
  block.is_unterminated = true;
  count_lines(block);
  return block;
}

BlocksAhead::~BlocksAhead() {
  std::lock_guard guard(mutex_);
  is_stopped_ = true;
  changed_.notify_all();
}

void BlocksAhead::read() {
  std::unique_lock lock(mutex_);
  while (!is_all_read_ && !is_stopped_) {
    lock.unlock();
    std::optional<LineBlock> block;
    std::exception_ptr failure;
    try {
      block = blocks_.next();
    } catch (...) {  // handed to the caller at its turn
      failure = std::current_exception();
    }
    lock.lock();
    failure_ = failure;
    is_all_read_ = failure || (!block && blocks_.is_end());
    if (block) waiting_.push_back(std::move(*block));
    changed_.notify_all();
    changed_.wait(lock, [&] { return waiting_.size() < kBlocksAheadMax || is_stopped_; });
  }
}

std::optional<LineBlock> BlocksAhead::take() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return !waiting_.empty() || is_all_read_; });
  if (waiting_.empty()) {
    if (failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
    return std::nullopt;
  }
  LineBlock block = std::move(waiting_.front());
  waiting_.pop_front();
  changed_.notify_all();
  return block;
}

std::optional<LineBlock> BlocksAhead::next() {
  std::optional<LineBlock> block;
  if (std::exchange(is_first_, false) || (!thread_.joinable() && blocks_.is_end())) {
    do {
      block = blocks_.next();
    } while (!block && !blocks_.is_end());
  } else {
    if (!thread_.joinable()) thread_ = begin_thread([this] { read(); });
    block = take();
  }
  is_end_ = !block;
  return block;
}

}  // namespace firn::hyp
