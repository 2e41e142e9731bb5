#include "orca/tables/step_commit.h"

#include <algorithm>
#include <charconv>

#include "base/error.h"
#include "base/fault_point.h"
#include "base/json.h"
#include "base/uri.h"
#include "iceberg/commit/history.h"

namespace firn::orca {
namespace {

constexpr const char* kBranch = "main";

std::string text_of(const iceberg::Snapshot& snapshot, const char* key) {
  const auto found = snapshot.summary.find(key);
  return found == snapshot.summary.end() ? "" : found->second;
}

int64_t number_of(const iceberg::Snapshot& snapshot, const char* key) {
  const std::string text = text_of(snapshot, key);
  int64_t value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

bool is_of(const Committer& committer, const AttemptId& id) {
  return committer.run == id.run && committer.step == id.step && committer.partition == id.partition;
}

std::string name_of(const AttemptId& id) {
  return fmt::format("step {}{}{} of run {}", id.step, id.partition.empty() ? "" : " of ", id.partition, id.run);
}

// {"nyc.trips": snapshot id, or null for a table that had none}, as the step's attempts first read them.
std::string reads_of(const AttemptRecord& record) {
  Json reads = Json::object();
  for (const Pin& pin : record.pins()) {
    const std::string dataset = dataset_of(pin.location);
    reads[dataset.empty() ? pin.location : dataset] = pin.snapshot_id ? Json(*pin.snapshot_id) : Json();
  }
  return reads.dump();
}

// A retry that ends with fewer commits than an earlier attempt made would leave the rest standing as if it were its
// own.
void check_number_of_commits(const AttemptId& id, iceberg::TableOperations& table, int64_t floor, int64_t num_commits) {
  const iceberg::LoadedTable head = table.load();
  iceberg::walk_history(*head.metadata, kBranch, floor, [&](const iceberg::Snapshot&, const iceberg::Snapshot& made) {
    const std::optional<Committer> committer = committer_of(made);
    if (committer && is_of(*committer, id) && committer->attempt < id.attempt && committer->commit > num_commits)
      fail(
          ErrorKind::step_not_deterministic,
          "table {}: attempt {} of {} committed {} times (snapshot {}), attempt {} only {} times; a step must make the "
          "same commits each time. Mend it, and start a new run",
          table.location(), committer->attempt, name_of(id), committer->commit, made.snapshot_id, id.attempt,
          num_commits);
    return true;
  });
}

}  // namespace

std::string Committer::to_string() const {
  return fmt::format("run {} (number {} of {}), step {}{}{}", run, run_number, pipeline, step,
                     partition.empty() ? "" : " of ", partition);
}

std::optional<Committer> committer_of(const iceberg::Snapshot& snapshot) {
  if (!snapshot.summary.contains("orca.run")) return std::nullopt;
  Committer committer;
  committer.pipeline = text_of(snapshot, "orca.pipeline");
  committer.run = text_of(snapshot, "orca.run");
  committer.run_number = number_of(snapshot, "orca.run-number");
  committer.step = text_of(snapshot, "orca.step");
  committer.partition = text_of(snapshot, "orca.partition");
  committer.attempt = number_of(snapshot, "orca.attempt");
  committer.commit = number_of(snapshot, "orca.commit");
  committer.label = text_of(snapshot, "orca.label");
  return committer;
}

int64_t recorded_floor(Ctx& ctx, const Table& table) {
  const iceberg::TableMetadata& metadata = table.metadata();
  fault_point("orca.floor");
  const Floor floor = ctx.record().floor({table.location(), metadata.table_uuid, metadata.last_sequence_number});
  const int64_t sequence = floor.table_uuid == metadata.table_uuid ? floor.sequence : 0;
  if (ctx.id().attempt > 1) {
    ctx.before_result(table.location(), [operations = table.operations(), sequence](const Ctx& done) {
      check_number_of_commits(done.id(), *operations, sequence, done.next_commit(operations->location()) - 1);
    });
  }
  return sequence;
}

std::optional<FoundCommit> find_own(const AttemptId& id, const iceberg::TableMetadata& base, int64_t number,
                                    int64_t floor, const std::string& title) {
  std::optional<FoundCommit> found;
  std::optional<std::pair<int64_t, int64_t>> later;  // attempt, snapshot
  const auto missing =
      iceberg::walk_history(base, kBranch, floor, [&](const iceberg::Snapshot& step, const iceberg::Snapshot& made) {
        const std::optional<Committer> committer = committer_of(made);
        if (!committer || !is_of(*committer, id)) return true;
        if (committer->commit == number) found = {step.snapshot_id, made.operation(), *committer};
        if (committer->attempt > id.attempt && !later) later = {committer->attempt, step.snapshot_id};
        return !found;
      });
  if (found) return found;
  if (later)
    fail(ErrorKind::lease_lost,
         "{}: attempt {} of {} has taken over from attempt {}: snapshot {} is its commit; nothing was committed here",
         title, later->first, name_of(id), id.attempt, later->second);
  if (missing)
    fail(ErrorKind::commit_unknown,
         "{}: whether {} committed to it already cannot be told: snapshot {} has expired, and it may be above sequence "
         "number {}, where its search ends. Look for its rows; a new run does the work anew",
         title, name_of(id), *missing, floor);
  return std::nullopt;
}

StepCommit::StepCommit(Ctx& ctx, Table& table, std::string label, std::string operation)
    : ctx_(ctx),
      table_(table),
      label_(std::move(label)),
      operation_(std::move(operation)),
      number_(ctx.next_commit(table.location())) {
  table_.refresh();
  floor_ = recorded_floor(ctx_, table_);
}

std::optional<int64_t> StepCommit::find(const iceberg::TableMetadata& base) const {
  const auto found = find_own(ctx_.id(), base, number_, floor_, table_.title());
  if (!found) return std::nullopt;
  const bool is_same = found->committer.label == label_ && (operation_.empty() || found->operation == operation_);
  if (!is_same)
    fail(ErrorKind::step_not_deterministic,
         "{}: commit {} of {} is snapshot {}, which attempt {} made by {} ({}), and now {} ({}) is called; a step must "
         "make the same commits each time. Mend it, and start a new run",
         table_.title(), number_, name_of(ctx_.id()), found->snapshot_id, found->committer.attempt,
         found->committer.label, found->operation, label_, operation_.empty() ? "any operation" : operation_);
  return found->snapshot_id;
}

int64_t StepCommit::count(int64_t snapshot_id) {
  ctx_.count_commit(table_.location());
  return snapshot_id;
}

std::optional<int64_t> StepCommit::landed() {
  const std::optional<int64_t> found = find(table_.metadata());
  if (!found) {
    ctx_.record().check_lease();  // sooner than a zombie has written files or planned
    return std::nullopt;
  }
  // The process that published it may have died before its name was durable (P10.8, P15).
  table_.io()->sync_folder(join_path(table_.metadata().location, "metadata"));
  return count(*found);
}

std::map<std::string, std::string> StepCommit::summary() const {
  const AttemptId& id = ctx_.id();
  return {{"orca.pipeline", id.pipeline},
          {"orca.run", id.run},
          {"orca.run-number", std::to_string(id.run_number)},
          {"orca.step", id.step},
          {"orca.partition", id.partition},
          {"orca.attempt", std::to_string(id.attempt)},
          {"orca.commit", std::to_string(number_)},
          {"orca.label", label_},
          {"orca.code", id.code},
          {"orca.reads", reads_of(ctx_.record())}};
}

int64_t StepCommit::publish(iceberg::SnapshotChange change, const CheckBase& check_base, bool& is_recognised) {
  change.summary.merge(summary());
  change.branch = kBranch;
  if (!operation_.empty()) change.operation = operation_;
  change.plan_try = [&](const iceberg::TableMetadata& base, int64_t, int64_t) {
    iceberg::TryPlan plan;
    plan.landed_snapshot = find(base);
    if (plan.landed_snapshot) return plan;
    ctx_.record().check_lease();
    if (check_base) check_base(base);
    return plan;
  };
  fault_point("orca.commit");
  iceberg::CommitResult result = iceberg::commit_snapshot(*table_.operations(), change);
  fault_point("orca.committed");
  is_recognised = result.recognised;
  table_.set_loaded(std::move(result.table));
  return count(result.snapshot_id);
}

}  // namespace firn::orca
