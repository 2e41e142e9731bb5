#include "iceberg/commit/commit.h"

#include "base/backoff.h"
#include "base/span.h"
#include "base/uri.h"
#include "base/uuid.h"
#include "iceberg/commit/history.h"
#include "iceberg/commit/stage.h"

namespace firn::iceberg {
namespace {

BackoffOptions retry_options(const TableMetadata& metadata) {
  BackoffOptions options;
  options.num_retries = metadata.int_property("commit.retry.num-retries", options.num_retries);
  options.min_wait_ms = metadata.int_property("commit.retry.min-wait-ms", options.min_wait_ms);
  options.max_wait_ms = metadata.int_property("commit.retry.max-wait-ms", options.max_wait_ms);
  options.total_ms = metadata.int_property("commit.retry.total-timeout-ms", options.total_ms);
  return options;
}

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

// The commit loop for one append. Owns what was staged until the outcome is known.
class AppendLoop {
 public:
  AppendLoop(TableOperations& table, const AppendCommit& commit)
      : table_(table), commit_(commit), snapshot_id_(random_id()), staged_(table.io(), commit, snapshot_id_) {}

  CommitResult run() {
    LoadedTable base = table_.load();
    int64_t num_tries = 0;
    for (Backoff backoff(retry_options(*base.metadata));; backoff.wait()) {
      if (num_tries > 0) base = load_again(backoff);
      const TryPlan plan = plan_on(*base.metadata);
      if (plan.landed_snapshot || plan.already_done) {
        sync_metadata_folder(table_, *base.metadata);
        return {plan.landed_snapshot.value_or(0), plan.landed_snapshot != snapshot_id_, base};
      }
      check_partition_spec(*base.metadata, commit_.written_spec, commit_.written_schema);
      check_field_ids(*base.metadata, commit_.written_schema);
      if (backoff.exhausted()) fail_exhausted(table_, unsettled_.has_value(), num_tries);
      ++num_tries;

      TableMetadata next = staged_.stage(*base.metadata);
      for (const std::string& key : plan.remove_properties) next.properties.erase(key);
      for (const auto& [key, value] : plan.set_properties) next.properties[key] = value;
      const TableOperations::Published published = publish(base, std::move(next));
      if (published.outcome == PublishOutcome::landed) {
        staged_.keep_named();
        return {snapshot_id_, false, published.table};
      }
      if (published.outcome == PublishOutcome::lost) staged_.drop_list();
      if (published.outcome == PublishOutcome::unknown) unsettled_ = base;
    }
  }

 private:
  // What this try is to do: first of all, see whether it was done (P3.1).
  TryPlan plan_on(const TableMetadata& base) const {
    TryPlan plan;
    if (base.find_snapshot(snapshot_id_)) {
      plan.landed_snapshot = snapshot_id_;
    } else if (commit_.commit_id) {
      plan.landed_snapshot = find_commit(base, commit_.branch, *commit_.commit_id);
    }
    if (!plan.landed_snapshot && commit_.plan_try)
      plan = commit_.plan_try(base, snapshot_id_, base.last_sequence_number + 1);
    return plan;
  }

  // The base of a further try. While an earlier one is not settled, it may only be put again on the same base, where
  // its snapshot id would be recognised; on a newer one, its rows would be there twice if it had landed (P1.6).
  LoadedTable load_again(Backoff& backoff) {
    while (true) {
      try {
        LoadedTable head = table_.load();
        if (!unsettled_ || head.metadata->find_snapshot(snapshot_id_)) return head;
        if (head.version == unsettled_->version && head.file_version == unsettled_->file_version) return head;
        if (!proves_lost(head, *unsettled_, commit_.branch)) fail_exhausted(table_, true, 0);
        unsettled_.reset();
        staged_.set_may_be_named(false);
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
    staged_.set_may_be_named(true);  // until an answer says otherwise
    try {
      TableOperations::Published published = table_.publish(base, std::move(next), snapshot_id_);
      if (published.outcome == PublishOutcome::lost) unsettled_.reset();  // of the same base and name: lost together
      staged_.set_may_be_named(unsettled_ || published.outcome == PublishOutcome::unknown);
      return published;
    } catch (const Error&) {
      staged_.set_may_be_named(unsettled_.has_value());  // nothing of this try stands
      throw;
    }
  }

  TableOperations& table_;
  const AppendCommit& commit_;
  const int64_t snapshot_id_;  // chosen once, kept across tries: a late answer to any of them is recognised by it
  StagedAppend staged_;
  std::optional<LoadedTable> unsettled_;  // the base of a try whose outcome is not known
};

}  // namespace

CommitResult commit_append(TableOperations& table, const AppendCommit& commit) {
  Span span("iceberg.commit");
  span.set("table", table.location());
  span.set("files", static_cast<int64_t>(commit.files.size()));
  CommitResult result = AppendLoop(table, commit).run();
  span.set("snapshot", result.snapshot_id);
  return result;
}

CommitResult commit_metadata(TableOperations& table, const std::function<bool(TableMetadata& next)>& change) {
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
