#include "hyp/capture/byte_stream.h"

#include <poll.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"

namespace firn::hyp {
namespace {

constexpr std::string_view kGzipMagic = "\x1f\x8b";
constexpr std::string_view kZstdMagic = "\x28\xb5\x2f\xfd";
constexpr size_t kMagicBytes = 4;
constexpr size_t kRawBytes = 256 << 10;

// A zstd skippable frame's magic is 0x184D2A50 to 0x184D2A5F, little-endian.
bool is_skippable_frame(std::string_view head) {
  return head.size() >= 4 && (static_cast<unsigned char>(head[0]) & 0xF0) == 0x50 &&
         head.substr(1, 3) == "\x2a\x4d\x18";
}

class DescriptorStream : public ByteStream {
 public:
  DescriptorStream(int fd, std::string title, int wait_ms_max)
      : fd_(fd), title_(std::move(title)), wait_ms_max_(wait_ms_max) {}

  Read read(char* to, size_t count_max) override {
    if (wait_ms_max_ >= 0) {
      pollfd waiting{.fd = fd_, .events = POLLIN, .revents = 0};
      const int ready = ::poll(&waiting, 1, wait_ms_max_);
      if (ready == 0 || (ready < 0 && errno == EINTR)) return {};
      if (ready < 0) fail_errno(errno, "wait for " + title_);
    }
    const ssize_t count = ::read(fd_, to, count_max);
    if (count < 0 && (errno == EINTR || errno == EAGAIN)) return {};
    if (count < 0) fail_errno(errno, "read " + title_);
    return {static_cast<size_t>(count), count == 0};
  }

 private:
  int fd_;
  std::string title_;
  int wait_ms_max_;
};

class MemoryStream : public ByteStream {
 public:
  explicit MemoryStream(std::string_view bytes) : rest_(bytes) {}

  Read read(char* to, size_t count_max) override {
    const size_t count = std::min(count_max, rest_.size());
    if (count > 0) std::memcpy(to, rest_.data(), count);
    rest_.remove_prefix(count);
    return {count, count == 0};
  }

 private:
  std::string_view rest_;
};

// Gives back the bytes that were read to look at them.
class PeekedStream : public ByteStream {
 public:
  PeekedStream(std::unique_ptr<ByteStream> raw, std::string head) : raw_(std::move(raw)), head_(std::move(head)) {}

  Read read(char* to, size_t count_max) override {
    if (taken_ == head_.size()) return raw_->read(to, count_max);
    const size_t count = std::min(count_max, head_.size() - taken_);
    std::memcpy(to, head_.data() + taken_, count);
    taken_ += count;
    return {count, false};
  }

 private:
  std::unique_ptr<ByteStream> raw_;
  std::string head_;
  size_t taken_ = 0;
};

// What gzip and zstd have in common: compressed bytes come in as they come.
class DecompressedStream : public ByteStream {
 public:
  DecompressedStream(std::unique_ptr<ByteStream> raw, std::string title)
      : title_(std::move(title)), raw_(std::move(raw)), in_(kRawBytes) {}

  Read read(char* to, size_t count_max) override {
    for (;;) {
      const size_t count = decompress(to, count_max);
      if (count > 0) return {count, false};
      if (is_end_) return {0, true};
      if (in_begin_ < in_end_) continue;
      const Read read = raw_->read(in_.data(), in_.size());
      if (read.count == 0 && !read.is_end) return {};
      in_begin_ = 0;
      in_end_ = read.count;
      if (read.is_end) {
        if (!is_between_frames()) fail(ErrorKind::corrupt, "{}: the compressed stream ends too early", title_);
        is_end_ = true;
      }
    }
  }

 protected:
  // Up to count_max bytes from in(), of which it takes what it needs.
  virtual size_t decompress(char* to, size_t count_max) = 0;
  virtual bool is_between_frames() const = 0;

  std::string_view in() const { return {in_.data() + in_begin_, in_end_ - in_begin_}; }
  void take_in(size_t count) { in_begin_ += count; }

  const std::string title_;

 private:
  std::unique_ptr<ByteStream> raw_;
  std::vector<char> in_;
  size_t in_begin_ = 0;
  size_t in_end_ = 0;
  bool is_end_ = false;
};

class GzipStream : public DecompressedStream {
 public:
  GzipStream(std::unique_ptr<ByteStream> raw, const std::string& title) : DecompressedStream(std::move(raw), title) {
    if (::inflateInit2(&inflater_, 16 + MAX_WBITS) != Z_OK) fail(ErrorKind::internal, "{}: zlib cannot start", title_);
  }
  ~GzipStream() override { ::inflateEnd(&inflater_); }

 protected:
  size_t decompress(char* to, size_t count_max) override {
    std::string_view bytes = in();
    if (is_between_) {
      // Zeros may pad a gzip file (tapes); everything else after a member is the next one.
      const size_t num_zeros = has_member_ ? std::min(bytes.find_first_not_of('\0'), bytes.size()) : 0;
      take_in(num_zeros);
      bytes.remove_prefix(num_zeros);
      if (bytes.empty()) return 0;
      ::inflateReset(&inflater_);
      is_between_ = false;
    }
    // Without new bytes too: the inflater may hold output for which there was no room.
    inflater_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
    inflater_.avail_in = static_cast<uInt>(bytes.size());
    inflater_.next_out = reinterpret_cast<Bytef*>(to);
    inflater_.avail_out = static_cast<uInt>(std::min<size_t>(count_max, 1 << 30));
    const uInt room = inflater_.avail_out;
    const int status = ::inflate(&inflater_, Z_NO_FLUSH);
    take_in(bytes.size() - inflater_.avail_in);
    if (status == Z_STREAM_END) {
      is_between_ = has_member_ = true;
    } else if (status != Z_OK && status != Z_BUF_ERROR) {
      fail(ErrorKind::corrupt, "{}: damaged gzip data: {}", title_,
           inflater_.msg != nullptr ? inflater_.msg : "no reason given");
    }
    return room - inflater_.avail_out;
  }
  bool is_between_frames() const override { return is_between_ && has_member_; }

 private:
  z_stream inflater_{};
  bool is_between_ = true;
  bool has_member_ = false;
};

class ZstdStream : public DecompressedStream {
 public:
  ZstdStream(std::unique_ptr<ByteStream> raw, const std::string& title)
      : DecompressedStream(std::move(raw), title), context_(::ZSTD_createDStream(), ::ZSTD_freeDStream) {
    if (context_ == nullptr) fail(ErrorKind::internal, "{}: zstd cannot start", title_);
  }

 protected:
  size_t decompress(char* to, size_t count_max) override {
    const std::string_view bytes = in();
    if (bytes.empty() && is_between_) return 0;
    ZSTD_inBuffer in_buffer{bytes.data(), bytes.size(), 0};
    ZSTD_outBuffer out_buffer{to, count_max, 0};
    const size_t left = ::ZSTD_decompressStream(context_.get(), &out_buffer, &in_buffer);
    if (::ZSTD_isError(left) != 0) {
      fail(ErrorKind::corrupt, "{}: damaged zstd data: {}", title_, ::ZSTD_getErrorName(left));
    }
    take_in(in_buffer.pos);
    is_between_ = left == 0;
    return out_buffer.pos;
  }
  bool is_between_frames() const override { return is_between_; }

 private:
  std::unique_ptr<ZSTD_DStream, size_t (*)(ZSTD_DStream*)> context_;
  bool is_between_ = true;
};

// Decides by the first bytes what the stream is, when they have come.
class DetectingStream : public ByteStream {
 public:
  DetectingStream(std::unique_ptr<ByteStream> raw, std::string title)
      : raw_(std::move(raw)), title_(std::move(title)) {}

  Read read(char* to, size_t count_max) override {
    while (stream_ == nullptr) {
      char bytes[kMagicBytes];
      const Read read = raw_->read(bytes, kMagicBytes - head_.size());
      head_.append(bytes, read.count);
      if (read.count == 0 && !read.is_end) return {};
      if (read.is_end || head_.size() == kMagicBytes || !may_begin_magic()) start();
    }
    return stream_->read(to, count_max);
  }

 private:
  // A plain line may be shorter than a magic number, and its sender may wait: it is not waited for.
  bool may_begin_magic() const {
    return head_.starts_with(kGzipMagic.substr(0, head_.size())) || kZstdMagic.starts_with(head_) ||
           (static_cast<unsigned char>(head_[0]) & 0xF0) == 0x50;
  }

  void start() {
    const bool is_gzip = head_.starts_with(kGzipMagic);
    const bool is_zstd = !is_gzip && is_compressed(head_);
    auto peeked = std::make_unique<PeekedStream>(std::move(raw_), std::move(head_));
    if (is_gzip) {
      stream_ = std::make_unique<GzipStream>(std::move(peeked), title_);
    } else if (is_zstd) {
      stream_ = std::make_unique<ZstdStream>(std::move(peeked), title_);
    } else {
      stream_ = std::move(peeked);
    }
  }

  std::unique_ptr<ByteStream> raw_;
  std::string title_;
  std::string head_;
  std::unique_ptr<ByteStream> stream_;
};

}  // namespace

std::unique_ptr<ByteStream> read_descriptor(int fd, std::string title, int wait_ms_max) {
  return std::make_unique<DescriptorStream>(fd, std::move(title), wait_ms_max);
}

std::unique_ptr<ByteStream> read_memory(std::string_view bytes) { return std::make_unique<MemoryStream>(bytes); }

bool is_compressed(std::string_view head) {
  return head.starts_with(kGzipMagic) || head.starts_with(kZstdMagic) || is_skippable_frame(head);
}

std::unique_ptr<ByteStream> decompressed(std::unique_ptr<ByteStream> raw, const std::string& title) {
  return std::make_unique<DetectingStream>(std::move(raw), title);
}

}  // namespace firn::hyp
