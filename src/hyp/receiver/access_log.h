// A file with a line for each request, written by a thread of its own.
#pragma once

#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

namespace firn::hyp {

// Thread-safe. A disk that is slow or full costs lines, never a request. The file is opened again when its name is
// gone or another's, so that it can be rotated by renaming.
class AccessLog {
 public:
  explicit AccessLog(std::string path);  // throws io if it cannot be opened
  ~AccessLog();                          // writes what waits
  // Returns at once; never throws. Without the line's end.
  void write(std::string_view line) noexcept;

 private:
  void run();
  void open();
  void write_out(std::string_view text);

  const std::string path_;
  std::mutex mutex_;
  std::condition_variable has_lines_;
  std::string waiting_;    // of mutex_
  int64_t dropped_ = 0;    // of mutex_: lines for which there was no room
  bool stopping_ = false;  // of mutex_
  int fd_ = -1;            // of the thread, once it runs
  bool has_failed_ = false;
  std::jthread thread_;
};

}  // namespace firn::hyp
