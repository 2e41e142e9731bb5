#include "cli/firn/progress.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>

#include <fmt/format.h>

#include "base/clock.h"

namespace firn::cli {
namespace {

constexpr auto kFirst = std::chrono::seconds(1);
constexpr auto kEvery = std::chrono::milliseconds(200);
constexpr size_t kBarWidth = 30;

}  // namespace

Progress::Progress(std::string what) : what_(std::move(what)), begin_us_(steady_us()) {
  if (isatty(STDERR_FILENO) != 0) thread_ = std::thread([this] { run(); });
}

Progress::~Progress() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    is_done_ = true;
  }
  done_.notify_all();
  thread_.join();
  if (is_drawn_) std::fputs("\r\033[K", stderr);
}

void Progress::say(std::string detail) {
  const std::lock_guard lock(mutex_);
  detail_ = std::move(detail);
}

void Progress::run() {
  std::unique_lock lock(mutex_);
  if (done_.wait_for(lock, kFirst, [this] { return is_done_; })) return;
  do {
    draw();
  } while (!done_.wait_for(lock, kEvery, [this] { return is_done_; }));
}

void Progress::draw() {
  std::string line = what_;
  if (const double part = std::min(part_.load(), 1.0); part >= 0) {
    const auto filled = static_cast<size_t>(part * kBarWidth);
    line +=
        fmt::format(" [{}{}] {:3.0f} %", std::string(filled, '#'), std::string(kBarWidth - filled, '.'), part * 100);
  }
  if (!detail_.empty()) line += "  " + detail_;
  line += fmt::format("  {} s", (steady_us() - begin_us_) / 1'000'000);
  std::fputs(("\r\033[K" + line).c_str(), stderr);
  std::fflush(stderr);
  is_drawn_ = true;
}

}  // namespace firn::cli
