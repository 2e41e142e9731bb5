#include "iceberg/commit/commit.h"

#include <algorithm>
#include <set>

#include "base/backoff.h"
#include "base/span.h"
#include "base/uri.h"
#include "base/uuid.h"
#include "iceberg/commit/conflicts.h"
#include "iceberg/commit/history.h"
#include "iceberg/commit/stage.h"

namespace firn::iceberg {
namespace {

// Versions seen by loading may be another process's, not durable yet: before their content is acted upon (P10.8, P15).
void sync_metadata_folder(TableOperations& table, const TableMetadata& metadata) {
  table.io()->sync_folder(join_path(metadata.location, "metadata"));
}

[[noreturn]] void fail_exhausted(const TableOperations& table, bool is_unknown, int64_t num_tries) {
  if (is_unknown) {
    fail(ErrorKind::commit_unknown,
         "table {}: no answer tells whether the commit landed; look for it before doing it again, and delete nothing "
         "it names",
         table.location());
  }
  fail(ErrorKind::commit_conflict,
       "table {}: other writers came first in each of {} tries; nothing was committed. Try again, or raise "
       "commit.retry.num-retries",
       table.location(), num_tries);
}

// The commit loop for one or several snapshots with what goes with them. Owns what was staged until the outcome is
// known.
class CommitLoop {
 public:
  explicit CommitLoop(TableOperations& table) : table_(table) {}

  // What is added must outlive this; run() needs a snapshot.
  void add(const MetadataChange& change) { steps_.push_back({&change, nullptr}); }
  void add(const SnapshotChange& change) {
    steps_.push_back({nullptr, std::make_unique<StagedSnapshot>(table_.io(), change, random_id())});
    last_ = steps_.back().staged.get();
    own_.insert(last_->snapshot_id());
  }

  CommitResult run() {
    LoadedTable base = table_.load();
    int64_t num_tries = 0;
    for (Backoff backoff(retry_options(*base.metadata));; backoff.wait()) {
      if (num_tries > 0) base = load_again(backoff);
      if (const auto landed = find_landed(*base.metadata)) return recognised(*landed, base);
      if (num_tries > 0 && backoff.exhausted()) fail_exhausted(table_, unsettled_.has_value(), num_tries);
      ++num_tries;

      TableMetadata next = *base.metadata;
      if (const auto landed = stage_all(next)) return recognised(*landed, base);
      const TableOperations::Published published = publish(base, std::move(next));
      if (published.outcome == PublishOutcome::landed) {
        for_each_staged([](StagedSnapshot& staged) { staged.keep_named(); });
        return {last_->snapshot_id(), false, published.table};
      }
      if (published.outcome == PublishOutcome::lost) {
        for_each_staged([](StagedSnapshot& staged) { staged.drop_list(); });
      }
      if (published.outcome == PublishOutcome::unknown) unsettled_ = base;
    }
  }

 private:
  struct Step {
    const MetadataChange* metadata;          // or
    std::unique_ptr<StagedSnapshot> staged;  // one is nullptr
  };

  template <class Visit>
  void for_each_staged(const Visit& visit) {
    for (Step& step : steps_) {
      if (step.staged) visit(*step.staged);
    }
  }

  // Every step on what the ones before it left. An id: a plan found that all was done already.
  std::optional<int64_t> stage_all(TableMetadata& next) {
    try {
      for (Step& step : steps_) {
        if (!step.staged) {
          (*step.metadata)(next);
          continue;
        }
        const TryPlan plan = plan_on(next, *step.staged);
        if (plan.landed_snapshot || plan.already_done) return plan.landed_snapshot.value_or(0);
        next = stage(*step.staged, plan, std::move(next));
      }
    } catch (const Error& e) {
      // A refusal of this try says nothing of the one before it, which may still land (P1.6).
      if (!unsettled_ || e.kind() == ErrorKind::commit_unknown) throw;
      throw Error(
          ErrorKind::commit_unknown,
          fmt::format("table {}: whether the commit landed is not known, and it cannot be tried again; look for "
                      "it before doing it again, and delete nothing it names",
                      table_.location()),
          e);
    }
    return std::nullopt;
  }

  // First of all, see whether it was done (P3.1): by an earlier try of this call, or under the same id.
  std::optional<int64_t> find_landed(const TableMetadata& base) {
    if (base.find_snapshot(last_->snapshot_id())) return last_->snapshot_id();
    std::optional<int64_t> landed;
    for_each_staged([&](StagedSnapshot& staged) {
      const SnapshotChange& change = staged.change();
      if (!landed && change.commit_id) landed = find_commit(base, change.branch, *change.commit_id);
    });
    return landed;
  }

  static TryPlan plan_on(const TableMetadata& base, const StagedSnapshot& staged) {
    const SnapshotChange& change = staged.change();
    return change.plan_try ? change.plan_try(base, staged.snapshot_id(), base.last_sequence_number + 1) : TryPlan();
  }

  TableMetadata stage(StagedSnapshot& staged, const TryPlan& plan, TableMetadata base) {
    const SnapshotChange& change = staged.change();
    if (change.required_spec) check_partition_spec(base, *change.required_spec, change.written_schema);
    check_field_ids(base, change.written_schema);
    check_conflicts(base, change, own_, *table_.io());
    TableMetadata next = staged.stage(std::move(base));
    for (const std::string& key : plan.remove_properties) next.properties.erase(key);
    for (const auto& [key, value] : plan.set_properties) next.properties[key] = value;
    return next;
  }

  CommitResult recognised(int64_t snapshot_id, const LoadedTable& base) {
    sync_metadata_folder(table_, *base.metadata);
    return {snapshot_id, !own_.contains(snapshot_id), base};
  }

  // The base of a further try. While an earlier one is not settled, it may only be put again on the same base, where
  // its snapshot id would be recognised; on a newer one, its rows would be there twice if it had landed (P1.6).
  LoadedTable load_again(Backoff& backoff) {
    while (true) {
      try {
        LoadedTable head = table_.load();
        if (!unsettled_ || head.metadata->find_snapshot(last_->snapshot_id())) return head;
        if (head.version == unsettled_->version && head.file_version == unsettled_->file_version) return head;
        if (!proves_lost(head, *unsettled_, last_->change().branch)) fail_exhausted(table_, true, 0);
        unsettled_.reset();
        set_may_be_named(false);
        return head;
      } catch (const Error& e) {
        if (!unsettled_ || e.kind() == ErrorKind::commit_unknown) throw;
        const bool may_pass = e.kind() == ErrorKind::io || e.kind() == ErrorKind::busy;
        if (!may_pass || backoff.exhausted()) {
          throw Error(
              ErrorKind::commit_unknown,
              fmt::format(
                  "table {}: whether the commit landed is not known, and the table cannot be read now; look for it "
                  "before doing it again",
                  table_.location()),
              e);
        }
      }
      backoff.wait();
    }
  }

  TableOperations::Published publish(const LoadedTable& base, TableMetadata next) {
    set_may_be_named(true);  // until an answer says otherwise
    try {
      TableOperations::Published published = table_.publish(base, std::move(next), last_->snapshot_id());
      if (published.outcome == PublishOutcome::lost) unsettled_.reset();  // of the same base and name: lost together
      set_may_be_named(unsettled_ || published.outcome == PublishOutcome::unknown);
      return published;
    } catch (const Error&) {
      set_may_be_named(unsettled_.has_value());  // nothing of this try stands
      throw;
    }
  }

  void set_may_be_named(bool may_be_named) {
    for_each_staged([&](StagedSnapshot& staged) { staged.set_may_be_named(may_be_named); });
  }

  TableOperations& table_;
  std::vector<Step> steps_;
  std::set<int64_t> own_;           // snapshot ids: chosen once, kept across tries, so that a late answer is recognised
  StagedSnapshot* last_ = nullptr;  // all land together; its id stands for them
  std::optional<LoadedTable> unsettled_;  // the base of a try whose outcome is not known
};

CommitResult run(TableOperations& table, CommitLoop& loop) {
  Span span("iceberg.commit");
  span.set("table", table.location());
  CommitResult result = loop.run();
  span.set("snapshot", result.snapshot_id);
  return result;
}

}  // namespace

CommitResult commit_snapshot(TableOperations& table, const SnapshotChange& change) {
  CommitLoop loop(table);
  loop.add(change);
  return run(table, loop);
}

CommitResult commit_transaction(TableOperations& table, const std::vector<Change>& changes) {
  const bool has_snapshot = std::any_of(changes.begin(), changes.end(), [](const Change& change) {
    return std::holds_alternative<SnapshotChange>(change);
  });
  if (!has_snapshot) {
    return commit_metadata(table, [&](TableMetadata& next) {
      bool changed = false;
      for (const Change& change : changes) changed = std::get<MetadataChange>(change)(next) || changed;
      return changed;
    });
  }
  CommitLoop loop(table);
  for (const Change& change : changes) std::visit([&](const auto& step) { loop.add(step); }, change);
  return run(table, loop);
}

CommitResult commit_metadata(TableOperations& table, const MetadataChange& change) {
  LoadedTable base = table.load();
  bool is_unknown = false;
  int64_t num_tries = 0;
  for (Backoff backoff(retry_options(*base.metadata));; backoff.wait(), base = table.load()) {
    TableMetadata next = *base.metadata;
    if (!change(next)) {
      sync_metadata_folder(table, *base.metadata);
      return {0, true, base};
    }
    if (backoff.exhausted()) fail_exhausted(table, is_unknown, num_tries);
    ++num_tries;
    const TableOperations::Published published = table.publish(base, std::move(next), 0);
    if (published.outcome == PublishOutcome::landed) return {0, false, published.table};
    // Lost or unknown alike: it is asked again whether the change holds, and applied again if not (P1.6).
    if (published.outcome == PublishOutcome::unknown) is_unknown = true;
  }
}

LoadedTable evolve_schema(TableOperations& table, const Schema& wanted) {
  const auto evolved = [&](const TableMetadata& metadata) {
    return union_by_name(metadata.schema(), wanted, metadata.last_column_id, metadata.format_version);
  };
  // Most calls find nothing to do, and need not sync what other writers did.
  if (LoadedTable head = table.load(); !evolved(*head.metadata).changed) return head;
  return commit_metadata(table,
                         [&](TableMetadata& next) {
                           const EvolvedSchema schema = evolved(next);
                           if (schema.changed) set_current_schema(next, schema.schema, schema.last_column_id);
                           return schema.changed;
                         })
      .table;
}

}  // namespace firn::iceberg
