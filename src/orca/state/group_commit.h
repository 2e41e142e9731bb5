// Transactions of many threads, made durable together.
#pragma once

#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

#include "orca/state/database.h"

namespace firn::orca {

// One connection and the thread that uses it. Thread-safe.
class GroupCommit {
 public:
  using Work = std::function<void(Database&)>;
  using Open = std::function<std::unique_ptr<Database>()>;

  // Opens at once, and throws what `open` throws. An outage is waited out for `outage_ms_max`, opening again and again.
  explicit GroupCommit(Open open, int64_t outage_ms_max = 60'000);
  ~GroupCommit();  // what was begun is finished
  GroupCommit(const GroupCommit&) = delete;
  GroupCommit& operator=(const GroupCommit&) = delete;

  // Runs `work` in a transaction, maybe with others', and returns once it is durable. Rethrows what `work` throws, and
  // nothing of it is then kept. `work` runs anew where another's work failed or the connection was lost, maybe after
  // its changes became durable: it sets its results afresh, and a second time it changes nothing more. `name` is that
  // of the fault points, "<name>.commit" before and "<name>.committed" after.
  void run(const char* name, const Work& work);
  const std::string& title() const { return title_; }

 private:
  struct Request {
    const char* name;
    const Work* work;
    std::exception_ptr error;
    bool done = false;
  };
  void serve();
  void run_together(const std::vector<Request*>& requests);
  void run_alone(Request& request);
  void commit(const std::vector<Request*>& requests);
  Database& database();

  Open open_;
  int64_t outage_ms_max_;
  std::string title_;
  std::unique_ptr<Database> database_;
  std::mutex mutex_;
  std::condition_variable asked_, answered_;
  std::deque<Request*> requests_;
  bool ending_ = false;
  std::jthread thread_;
};

}  // namespace firn::orca
