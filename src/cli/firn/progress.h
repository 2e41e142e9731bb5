// How far a long command is.
#pragma once

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

namespace firn::cli {

// One line on standard error, from the first second on and only where that is a terminal; gone on destruction. All
// members may be called from any thread.
class Progress {
 public:
  explicit Progress(std::string what);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void set_part(double part) { part_ = part; }  // 0 to 1 of the whole; without it there is no bar
  void say(std::string detail);                 // "12,345 rows"

 private:
  void run();
  void draw();

  const std::string what_;
  const int64_t begin_us_;
  std::atomic<double> part_{-1};
  std::mutex mutex_;
  std::string detail_;  // guarded by mutex_, as all below
  bool is_done_ = false, is_drawn_ = false;
  std::condition_variable done_;
  std::thread thread_;  // not started where nothing is shown
};

}  // namespace firn::cli
