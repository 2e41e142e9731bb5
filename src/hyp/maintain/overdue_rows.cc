#include "hyp/maintain/overdue_rows.h"

#include <algorithm>
#include <limits>
#include <mutex>
#include <set>

#include <arrow/array.h>

#include "base/arrow_status.h"
#include "base/parallel.h"
#include "hyp/cache/sequence_bounds.h"
#include "hyp/cache/visible_schema.h"
#include "iceberg/expr/row_filter.h"
#include "iceberg/manifest/file_identity.h"

namespace firn::hyp {
namespace {

using iceberg::DataFile;
using iceberg::ExpressionPtr;
using iceberg::Field;
using iceberg::FileScanTask;
using iceberg::Op;
using iceberg::ScanPlan;

constexpr int64_t kLowest = std::numeric_limits<int64_t>::min();

// How many of some rows something holds for.
enum class Extent : uint8_t { none, some, all };

Extent above(const NumberRange& numbers, int64_t exclusive) {
  if (numbers.highest <= exclusive) return Extent::none;
  return numbers.lowest > exclusive ? Extent::all : Extent::some;
}

Extent within(const NumberRange& numbers, const SequenceRange& range) {
  if (numbers.highest <= range.since_exclusive || numbers.lowest > range.until) return Extent::none;
  return numbers.lowest > range.since_exclusive && numbers.highest <= range.until ? Extent::all : Extent::some;
}

// Of rows with these numbers (nullopt: rows that have none yet) those that the sink does not have.
Extent lacking(const SinkPosition& sink, const std::optional<NumberRange>& numbers) {
  return numbers && sink.passed ? above(*numbers, *sink.passed) : Extent::all;
}

// Those that stay for it past their age, within the grace.
Extent kept_for(const SinkPosition& sink, const std::optional<NumberRange>& numbers, bool waits_for_sinks) {
  if (!sink.problem.empty()) return Extent::all;  // it may have announced any of them
  const Extent pending = sink.pending && numbers ? within(*numbers, *sink.pending) : Extent::none;
  const Extent unsent = waits_for_sinks ? lacking(sink, numbers) : Extent::none;
  return std::max(pending, unsent);
}

void widen(std::optional<NumberRange>& range, const NumberRange& by) {
  if (!range) range = by;
  range->lowest = std::min(range->lowest, by.lowest);
  range->highest = std::max(range->highest, by.highest);
}

// What becomes of overdue rows, counted.
struct Tally {
  int64_t gone = 0;
  std::vector<int64_t> forced_out, waiting;  // by sink
  std::optional<NumberRange> waiting_numbers;
};

// The rules for rows past their age.
class Rules {
 public:
  Rules(const std::vector<SinkPosition>& sinks, bool waits_for_sinks)
      : sinks_(sinks), waits_for_sinks_(waits_for_sinks) {}

  bool look_at_numbers() const { return !sinks_.empty(); }
  Tally new_tally() const { return {0, std::vector<int64_t>(sinks_.size()), std::vector<int64_t>(sinks_.size()), {}}; }

  // Whether rows go; nullopt: not all of them do, and not all stay.
  std::optional<bool> go(const std::optional<NumberRange>& numbers, Extent past_grace) const {
    if (past_grace == Extent::all) return true;
    Extent kept = Extent::none;
    for (const SinkPosition& sink : sinks_) kept = std::max(kept, kept_for(sink, numbers, waits_for_sinks_));
    if (kept == Extent::none) return true;
    return kept == Extent::all && past_grace == Extent::none ? std::optional(false) : std::nullopt;
  }

  // Adds `rows` rows that all go or all stay. False: to which sink they matter differs among them; then `tally` is of
  // no use.
  bool count(Tally& tally, const std::optional<NumberRange>& numbers, bool go, int64_t rows) const {
    for (size_t i = 0; i < sinks_.size(); ++i) {
      const Extent concerned = go ? lacking(sinks_[i], numbers) : kept_for(sinks_[i], numbers, waits_for_sinks_);
      if (concerned == Extent::some) return false;
      if (concerned == Extent::all) (go ? tally.forced_out : tally.waiting)[i] += rows;
    }
    if (go) tally.gone += rows;
    if (!go) widen(tally.waiting_numbers, numbers.value_or(NumberRange{kLowest, kLowest}));
    return true;
  }

 private:
  const std::vector<SinkPosition>& sinks_;
  bool waits_for_sinks_;
};

// Rows that no delete hides; nullopt: only reading tells.
std::optional<int64_t> live_rows(const FileScanTask& task) {
  int64_t rows = task.file.record_count;
  for (const auto& deletes : task.deletes) {
    if (!iceberg::is_deletion_vector(*deletes)) return std::nullopt;
    rows -= deletes->record_count;
  }
  return rows;
}

// False also where the history does not tell.
bool was_only_appended_since(const iceberg::TableMetadata& metadata, int64_t sequence) {
  const iceberg::Snapshot* snapshot = metadata.current_snapshot();
  while (snapshot != nullptr && snapshot->sequence_number > sequence) {
    if (snapshot->operation() != "append") return false;
    snapshot = snapshot->parent_snapshot_id ? metadata.find_snapshot(*snapshot->parent_snapshot_id) : nullptr;
  }
  return snapshot != nullptr;
}

class Finder {
 public:
  Finder(const iceberg::TableMetadata& metadata, const std::shared_ptr<FileIO>& io, const RowAge& age,
         const RetentionState& look, const std::vector<SinkPosition>& sinks, const std::optional<RetentionState>& known)
      : metadata_(metadata),
        io_(io),
        sinks_(sinks),
        rules_(sinks, look.waits_for_sinks),
        seq_id_(hidden_ids(metadata.schema(), metadata.location).ingest_seq),
        young_(iceberg::bind(*not_older_than(age, look.cutoff_ms), metadata.schema())),
        past_grace_(iceberg::bind(*past_grace(age, look.grace_cutoff_ms, look.arrival_cutoff_ms), metadata.schema())),
        within_grace_(
            iceberg::bind(*within_grace(age, look.grace_cutoff_ms, look.arrival_cutoff_ms), metadata.schema())) {
    if (known && known->is_same_look(look)) known_ = known;
    keeps_known_waiting_ =
        known_ && known_->positions == look.positions && was_only_appended_since(metadata, known_->sequence);
    iceberg::ScanOptions scan;
    // The second part always holds: for it the plan keeps the bounds of that column.
    scan.filter = iceberg::and_(older_than(age, look.cutoff_ms),
                                iceberg::or_(iceberg::predicate(Op::is_null, kIngestSeqColumn),
                                             iceberg::predicate(Op::not_null, kIngestSeqColumn)));
    ScanPlan plan = iceberg::plan_scan(metadata, io, scan);
    plan.projection = columns_to_read(plan);
    found_.plan = std::make_shared<const ScanPlan>(std::move(plan));
  }

  OverdueRows find() {
    all_ = rules_.new_tally();
    const std::vector<FileScanTask>& tasks = found_.plan->tasks;
    parallel_for(tasks.size(), /*threads=*/0, [&](size_t i) {
      if (!is_known(tasks[i]) && !settle_unread(i)) settle_by_rows(i);
    });
    if (keeps_known_waiting_) {
      found_.rows_waiting = known_->rows_waiting;
      if (known_->waiting) widen(all_.waiting_numbers, *known_->waiting);
    }
    for (size_t i = 0; i < sinks_.size(); ++i) {
      if (all_.forced_out[i] > 0) found_.rows_forced_out[sinks_[i].sink] = all_.forced_out[i];
      if (all_.waiting[i] > 0) found_.rows_waiting[sinks_[i].sink] += all_.waiting[i];
    }
    found_.rows_gone = all_.gone;
    found_.waiting = all_.waiting_numbers;
    return std::move(found_);
  }

 private:
  // The number, the position, and what the filters look at.
  iceberg::Schema columns_to_read(const ScanPlan& plan) const {
    const iceberg::Schema& schema = metadata_.schema();
    std::vector<Field> fields = {*schema.find_field(seq_id_), Field{iceberg::kPosFieldId, "_pos", true,
                                                                    iceberg::Type::primitive(iceberg::TypeId::long_)}};
    std::set<int32_t> ids;  // of top-level columns
    for (const auto& filter : {plan.filter, past_grace_}) {
      if (!filter) continue;
      for (const int32_t id : iceberg::referenced_field_ids(*filter)) ids.insert(schema.path_to(id).front());
    }
    for (const int32_t id : ids) {
      if (id != seq_id_) fields.push_back(*schema.find_field(id));
    }
    return iceberg::Schema(std::move(fields));
  }

  // Whether the last look tells of the file: none of its overdue rows is left, or what waits there is counted.
  bool is_known(const FileScanTask& task) const {
    if (!known_ || task.file_sequence_number > known_->sequence) return false;
    if (keeps_known_waiting_ || !known_->waiting) return true;
    const NumberRange& waiting = *known_->waiting;
    if (waiting.lowest == kLowest && may_lack_numbers(task.file, seq_id_)) return false;
    const auto lowest = lowest_number(task.file, seq_id_), highest = highest_number(task.file, seq_id_);
    return lowest && highest && (*highest < waiting.lowest || *lowest > waiting.highest);
  }

  bool may_hold(const ExpressionPtr& rows, const DataFile& file) const {
    return iceberg::partition_might_match(*rows, metadata_.spec(file.partition_spec_id), metadata_.schema(),
                                          file.partition) &&
           iceberg::file_might_match(*rows, file);
  }

  Extent extent_past_grace(const DataFile& file) const {
    if (!may_hold(within_grace_, file)) return Extent::all;
    return may_hold(past_grace_, file) ? Extent::some : Extent::none;
  }

  // By metadata alone; false: they do not tell.
  bool settle_unread(size_t index) {
    const FileScanTask& task = found_.plan->tasks[index];
    const auto rows = live_rows(task);
    if (!rows || (task.residual && may_hold(young_, task.file))) return false;
    std::optional<NumberRange> numbers;
    if (rules_.look_at_numbers()) {
      const auto lowest = lowest_number(task.file, seq_id_), highest = highest_number(task.file, seq_id_);
      if (may_lack_numbers(task.file, seq_id_) || !lowest || !highest) return false;
      numbers = {*lowest, *highest};
    }
    const auto go = rules_.go(numbers, extent_past_grace(task.file));
    Tally tally = rules_.new_tally();
    if (!go || !rules_.count(tally, numbers, *go, *rows)) return false;
    iceberg::ChosenRows chosen;
    chosen.task = index;
    chosen.all = *go;
    add(tally, std::move(chosen), /*is_read=*/false);
    return true;
  }

  void settle_by_rows(size_t index) {
    const FileScanTask& task = found_.plan->tasks[index];
    Tally tally = rules_.new_tally();
    iceberg::ChosenRows chosen;
    chosen.task = index;
    const auto reader = iceberg::read_task(found_.plan, index, io_, {});
    for (std::shared_ptr<arrow::RecordBatch> batch;;) {
      check(reader->ReadNext(&batch), task.file.file_path);
      if (!batch) break;
      settle_rows(*batch, tally, chosen.positions);
    }
    chosen.all = !chosen.positions.empty() && live_rows(task) == chosen.positions.size();
    add(tally, std::move(chosen), /*is_read=*/true);
  }

  void settle_rows(const arrow::RecordBatch& batch, Tally& tally, iceberg::PositionSet& gone) const {
    const auto& numbers = static_cast<const arrow::Int64Array&>(*batch.column(0));
    const auto& positions = static_cast<const arrow::Int64Array&>(*batch.column(1));
    const auto past_grace = iceberg::evaluate(*past_grace_, batch);
    for (int64_t row = 0; row < batch.num_rows(); ++row) {
      std::optional<NumberRange> number;
      if (numbers.IsValid(row)) number = {numbers.Value(row), numbers.Value(row)};
      // Of one row something holds or not: there is no third answer.
      const bool go = *rules_.go(number, past_grace->Value(row) ? Extent::all : Extent::none);
      rules_.count(tally, number, go, 1);
      if (go) gone.add(positions.Value(row));
    }
  }

  void add(const Tally& tally, iceberg::ChosenRows chosen, bool is_read) {
    const std::lock_guard lock(mutex_);
    found_.files_read += is_read ? 1 : 0;
    if (chosen.all || !chosen.positions.empty()) found_.gone.push_back(std::move(chosen));
    all_.gone += tally.gone;
    for (size_t i = 0; i < sinks_.size(); ++i) {
      all_.forced_out[i] += tally.forced_out[i];
      all_.waiting[i] += tally.waiting[i];
    }
    if (tally.waiting_numbers) widen(all_.waiting_numbers, *tally.waiting_numbers);
  }

  const iceberg::TableMetadata& metadata_;
  const std::shared_ptr<FileIO>& io_;
  const std::vector<SinkPosition>& sinks_;
  const Rules rules_;
  std::optional<RetentionState> known_;  // of the same look
  bool keeps_known_waiting_ = false;     // what waited then waits still: no sink moved, and rows were only added
  const int32_t seq_id_;
  const ExpressionPtr young_, past_grace_, within_grace_;  // bound
  OverdueRows found_;
  std::mutex mutex_;
  Tally all_;  // of mutex_
};

}  // namespace

OverdueRows find_overdue_rows(const iceberg::TableMetadata& metadata, const std::shared_ptr<FileIO>& io,
                              const RowAge& age, const RetentionState& look, const std::vector<SinkPosition>& sinks,
                              const std::optional<RetentionState>& known) {
  return Finder(metadata, io, age, look, sinks, known).find();
}

}  // namespace firn::hyp
