// What a step's function is given: which attempt of what it is, and what that attempt keeps (protocols P14).
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace firn::orca {

class Tasks;

// The datasets ("namespace.table") that a step says it uses.
struct StepDatasets {
  std::vector<std::string> reads, writes, replaces;
};

// A table as this step first read it in this run.
struct Pin {
  std::string location, table_uuid;
  std::optional<int64_t> snapshot_id;  // nullopt: it had none, and stays empty for the step
};

// Where the search for this step's commits to a table ends (P3.2): the table's last-sequence-number when the first
// attempt first touched it, durable before the first publish.
struct Floor {
  std::string location, table_uuid;
  int64_t sequence = 0;
};

// What the attempts of one partition of a step in one run keep, whichever process runs them. The run's state has it;
// tests have one in memory. Thread-safe. All durable when they return.
class AttemptRecord {
 public:
  virtual ~AttemptRecord() = default;
  // What the first attempt proposed stands for all later ones.
  virtual Pin pin(const Pin& proposed) = 0;
  virtual Floor floor(const Floor& proposed) = 0;
  virtual std::vector<Pin> pins() const = 0;
  // Throws lease_lost if another attempt has taken over, or this one's lease is over by the database's clock (P14.2).
  virtual void check_lease() = 0;
};

struct AttemptId {
  std::string pipeline, run;  // run: a UUID
  int64_t run_number = 0;     // runs of a pipeline in the order of their starts (P14.1)
  std::string step;
  std::string partition;  // a mapped step's key as text; empty: the step has none
  int64_t attempt = 1;    // of this partition in this run, from 1
  std::string code;       // the code's version
  // When the run started, by the database's clock: what a table had before is no later run's (P14.1). 0: not known, and
  // then files whose snapshots have expired are never removed.
  int64_t run_started_ms = 0;
};

// One thread, the step's. Functions of orca/tables take it.
class Ctx {
 public:
  // What is pointed to outlives it.
  Ctx(AttemptId id, StepDatasets datasets, AttemptRecord& record, Tasks* tasks = nullptr,
      const std::atomic<bool>* cancelled = nullptr);
  const AttemptId& id() const { return id_; }
  const StepDatasets& datasets() const { return datasets_; }
  AttemptRecord& record() { return record_; }
  Tasks& tasks();  // throws config where there is none
  // Whether this attempt is to end: its time is over, or the runner stops. A long step looks from time to time.
  bool cancelled() const { return cancelled_ != nullptr && *cancelled_; }
  void throw_if_cancelled() const;  // cancelled

  // The number of the next commit of this attempt to the table at `location`, from 1; taken by a commit that landed or
  // was recognised. So the n-th commit of a retry is the n-th of the attempt before it.
  int64_t next_commit(const std::string& location) const;
  void count_commit(const std::string& location);

  // Checks of what this attempt did, one a key (the latest). The engine runs them once the step's function has returned
  // and before its result is recorded; one that throws fails the attempt.
  void before_result(const std::string& key, std::function<void(const Ctx&)> check);
  void check_result() const;

 private:
  AttemptId id_;
  StepDatasets datasets_;
  AttemptRecord& record_;
  Tasks* tasks_;
  const std::atomic<bool>* cancelled_;
  std::map<std::string, int64_t> commits_;  // by location
  std::map<std::string, std::function<void(const Ctx&)>> checks_;
};

}  // namespace firn::orca
