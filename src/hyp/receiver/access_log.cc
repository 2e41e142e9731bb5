#include "hyp/receiver/access_log.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <utility>

#include "base/error.h"
#include "base/log.h"
#include "base/threads.h"

namespace firn::hyp {
namespace {

constexpr size_t kWaitingBytesMax = 8 << 20;

}  // namespace

AccessLog::AccessLog(std::string path) : path_(std::move(path)) {
  std::error_code ignored;  // what is wrong shows when it is opened
  std::filesystem::create_directories(std::filesystem::path(path_).parent_path(), ignored);
  open();
  thread_ = begin_thread([this] { run(); });
}

AccessLog::~AccessLog() {
  {
    const std::lock_guard guard(mutex_);
    stopping_ = true;
  }
  has_lines_.notify_one();
  thread_.join();
  if (fd_ >= 0) ::close(fd_);
}

void AccessLog::write(std::string_view line) noexcept {
  try {
    {
      const std::lock_guard guard(mutex_);
      if (waiting_.size() + line.size() >= kWaitingBytesMax) {
        ++dropped_;
        return;
      }
      waiting_.append(line);
      waiting_ += '\n';
    }
    has_lines_.notify_one();
  } catch (const std::exception&) {  // no memory: a line less
  }
}

void AccessLog::open() {
  const int fd = ::open(path_.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0640);
  if (fd < 0) fail_errno(errno, "open the access log " + path_);
  if (fd_ >= 0) ::close(fd_);
  fd_ = fd;
}

void AccessLog::write_out(std::string_view text) {
  struct stat named, opened;
  const bool is_there = ::stat(path_.c_str(), &named) == 0;
  const bool is_open = fd_ >= 0 && ::fstat(fd_, &opened) == 0;
  if (!is_open || !is_there || named.st_dev != opened.st_dev || named.st_ino != opened.st_ino) open();
  while (!text.empty()) {
    const ssize_t count = ::write(fd_, text.data(), text.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) fail_errno(errno, "write the access log " + path_);
    text.remove_prefix(static_cast<size_t>(count));
  }
}

void AccessLog::run() {
  for (;;) {
    std::string text;
    int64_t dropped = 0;
    {
      std::unique_lock guard(mutex_);
      has_lines_.wait(guard, [&] { return stopping_ || !waiting_.empty(); });
      if (waiting_.empty()) return;
      text = std::exchange(waiting_, {});
      dropped = std::exchange(dropped_, 0);
    }
    try {
      if (dropped > 0) spdlog::warn("the access log {} could not keep up: {} lines are missing", path_, dropped);
      write_out(text);
      has_failed_ = false;
    } catch (const std::exception& e) {  // these lines are lost; said once while it lasts
      if (!std::exchange(has_failed_, true)) spdlog::error("{}: lines of it are lost", e.what());
    }
  }
}

}  // namespace firn::hyp
