// One commit of a step to a table: looked for, checked and labelled on the base of every try (protocols P3, P14.2).
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>

#include "iceberg/commit/commit.h"
#include "orca/tables/table.h"

namespace firn::orca {

// Who committed a snapshot, as its summary says.
struct Committer {
  std::string pipeline, run, step, partition;
  int64_t run_number = 0, attempt = 0, commit = 0;
  std::string label;              // of the function that committed it
  std::string to_string() const;  // "run <id> (number 3 of nyc), step load_day of 2024-01-01"
};
std::optional<Committer> committer_of(const iceberg::Snapshot& snapshot);  // nullopt: no step of orca

// The next commit of `ctx` to `table`. One thread; `ctx` and `table` must outlive it.
class StepCommit {
 public:
  // Loads the table, and records the floor of the search where no attempt did before (durable with the run, P3.2).
  // `label` says which function commits; `operation` is the snapshot's, empty where it follows from the table.
  StepCommit(Ctx& ctx, Table& table, std::string label, std::string operation);

  // The snapshot of an earlier attempt in the table as it was loaded last; then the commit is counted, and done.
  // nullopt: there is work to do. Throws commit_unknown where the history is cut above the floor;
  // step_not_deterministic where operation or label differ; lease_lost where the work is another attempt's by now.
  std::optional<int64_t> landed();

  // What is asked on each try's base beside; may throw to refuse.
  using CheckBase = std::function<void(const iceberg::TableMetadata& base)>;
  // Publishes `change` (its operation and summary are completed here) unless a try's base has the commit already.
  // `is_recognised`: set to whether an earlier attempt's snapshot is returned, so that nothing names change.added.
  // Throws what commit_snapshot and `check_base` do, and lease_lost where another attempt has taken over (P14.2).
  int64_t publish(iceberg::SnapshotChange change, const CheckBase& check_base, bool& is_recognised);

 private:
  std::optional<int64_t> find(const iceberg::TableMetadata& base) const;
  int64_t count(int64_t snapshot_id);
  std::map<std::string, std::string> summary() const;

  Ctx& ctx_;
  Table& table_;
  const std::string label_, operation_;
  const int64_t number_;
  int64_t floor_ = 0;
};

// The floor of this step's search in `table`, recorded if no attempt did before; 0 in a table that took the place of
// the one that the first attempt touched.
int64_t recorded_floor(Ctx& ctx, const Table& table);

// The snapshot that is this step's commit `number` to the table, above `floor`, along the main branch of `base`.
struct FoundCommit {
  int64_t snapshot_id = 0;
  std::string operation;
  Committer committer;
};
// Throws commit_unknown where the history is cut above the floor, lease_lost where a later attempt of the same run,
// step and partition committed something else to the table (P14.2).
std::optional<FoundCommit> find_own(const AttemptId& id, const iceberg::TableMetadata& base, int64_t number,
                                    int64_t floor, const std::string& title);

}  // namespace firn::orca
