// Where captured bytes come from: descriptors and memory, decompressed by magic bytes.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

namespace firn::hyp {

// One thread.
class ByteStream {
 public:
  struct Read {
    size_t count = 0;     // 0 and not at the end: nothing has come for now
    bool is_end = false;  // nothing more will come; count is 0
  };
  virtual ~ByteStream() = default;
  virtual Read read(char* to, size_t count_max) = 0;  // throws io, corrupt
};

// Not owned; from its current offset. `wait_ms_max`: how long a read waits before it says that nothing has come; -1:
// until something does.
std::unique_ptr<ByteStream> read_descriptor(int fd, std::string title, int wait_ms_max);
std::unique_ptr<ByteStream> read_memory(std::string_view bytes);

bool is_compressed(std::string_view head);  // gzip or zstd, by at least 4 bytes
// `raw` itself, or the stream in its gzip members or zstd frames. Throws corrupt naming `title` where these are damaged
// or end too early.
std::unique_ptr<ByteStream> decompressed(std::unique_ptr<ByteStream> raw, const std::string& title);

}  // namespace firn::hyp
