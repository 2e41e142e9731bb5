// Branches and tags, and what main points at.
#include <charconv>

#include "base/civil_time.h"
#include "base/clock.h"
#include "cli/firn/metadata_change.h"
#include "iceberg/commit/cherry_pick.h"

namespace firn::cli {
namespace {

using iceberg::RefOptions;
using iceberg::TableMetadata;

struct RefArguments {
  ChangeArguments common;
  std::string name, at, fast_forward;
  bool replace = false, remove = false, retention = false;
  std::optional<int32_t> min_snapshots;
  std::string max_snapshot_age, max_ref_age;
};

RefOptions ref_options(const RefArguments& arguments, const TableMetadata& metadata, const char* kind) {
  RefOptions options;
  options.snapshot_id = snapshot_id_at(arguments.at, metadata);
  if (!options.snapshot_id) {
    fail(ErrorKind::invalid_argument, "the table has no snapshot yet that a {} could name: append to it first", kind);
  }
  options.replace = arguments.replace;
  options.min_snapshots_to_keep = arguments.min_snapshots;
  if (!arguments.max_snapshot_age.empty()) {
    options.max_snapshot_age_ms = parse_duration_ms(arguments.max_snapshot_age, "--max-snapshot-age");
  }
  if (!arguments.max_ref_age.empty())
    options.max_ref_age_ms = parse_duration_ms(arguments.max_ref_age, "--max-ref-age");
  return options;
}

void change_ref(const RefArguments& arguments, bool is_branch) {
  const char* kind = is_branch ? "branch" : "tag";
  const bool fast_forwards = !arguments.fast_forward.empty();
  if (int{arguments.remove} + int{arguments.replace} + int{arguments.retention} + int{fast_forwards} > 1) {
    throw CLI::ValidationError("--replace, --delete, --retention and --fast-forward exclude each other");
  }
  if (arguments.remove) {
    return commit_change(
        arguments.common, fmt::format("{} {} deleted", kind, arguments.name), [&](TableMetadata& metadata) {
          const auto found = metadata.refs.find(arguments.name);
          if (found == metadata.refs.end()) fail(ErrorKind::not_found, "there is no {} '{}'", kind, arguments.name);
          if (found->second.is_branch != is_branch) {
            fail(ErrorKind::invalid_argument, "'{}' is a {}", arguments.name, is_branch ? "tag" : "branch");
          }
          return remove_ref(metadata, arguments.name);
        });
  }
  if (fast_forwards) {
    return commit_change(arguments.common, fmt::format("branch {} moved to {}", arguments.name, arguments.fast_forward),
                         [&](TableMetadata& metadata) {
                           return fast_forward(metadata, arguments.name, arguments.fast_forward, now_ms());
                         });
  }
  if (arguments.retention) {
    return commit_change(arguments.common, fmt::format("{} {} has its retention", kind, arguments.name),
                         [&](TableMetadata& metadata) {
                           return set_ref_retention(metadata, arguments.name, ref_options(arguments, metadata, kind));
                         });
  }
  commit_change(
      arguments.common, fmt::format("{} {} {}", kind, arguments.name, arguments.replace ? "replaced" : "created"),
      [&](TableMetadata& metadata) {
        const RefOptions options = ref_options(arguments, metadata, kind);
        return is_branch ? set_branch(metadata, arguments.name, options, now_ms())
                         : set_tag(metadata, arguments.name, options, now_ms());
      },
      fmt::format("{} {} is there, at that snapshot", kind, arguments.name));
}

void change_branch(const RefArguments& arguments) { change_ref(arguments, true); }
void change_tag(const RefArguments& arguments) { change_ref(arguments, false); }

void add_ref_options(CLI::App* command, RefArguments& arguments) {
  add_change_options(command, arguments.common);
  command->add_option("NAME", arguments.name, "Its name")->required();
  add_at(command, arguments.at);
  command->add_flag("--replace", arguments.replace, "Move the one that is there");
  command->add_flag("--delete", arguments.remove, "Delete it; snapshots stay until they expire");
  command->add_flag("--retention", arguments.retention, "Only set how long the one that is there is kept");
  command->add_option("--max-ref-age", arguments.max_ref_age, "How long it is kept: 7d, 12h, …");
}

struct RollbackArguments {
  ChangeArguments common;
  std::string to, branch = "main";
  bool any = false;
};

void rollback(const RollbackArguments& arguments) {
  commit_change(arguments.common, fmt::format("{} rolled back to {}", arguments.branch, arguments.to),
                [&](TableMetadata& metadata) {
                  check_branch(metadata, arguments.branch);
                  const ChosenSnapshot chosen = parse_at(arguments.to, metadata);
                  if (chosen.as_of_ms) return rollback_to_time(metadata, *chosen.as_of_ms, now_ms(), arguments.branch);
                  const int64_t snapshot_id = *snapshot_id_at(arguments.to, metadata);
                  if (arguments.any) return set_current_snapshot(metadata, snapshot_id, now_ms(), arguments.branch);
                  try {
                    return rollback_to_snapshot(metadata, snapshot_id, now_ms(), arguments.branch);
                  } catch (const Error& e) {
                    if (e.kind() != ErrorKind::invalid_argument) throw;
                    throw Error(e.kind(), fmt::format("{} (--any)", e.what()));
                  }
                });
}

struct CherryPickArguments {
  TableArgument table;
  std::string snapshot, staged, branch = "main";
  bool dry_run = false, as_json = false;
};

void cherry_pick_snapshot(const CherryPickArguments& arguments) {
  if (arguments.snapshot.empty() == arguments.staged.empty()) {
    throw CLI::ValidationError("name a SNAPSHOT, or the wap.id of a staged one with --staged");
  }
  const auto table = open_table(arguments.table);
  const iceberg::LoadedTable head = table->load();
  check_may_change(*table, head);
  check_branch(*head.metadata, arguments.branch);
  iceberg::CommitResult result;
  const auto pick = [&](iceberg::TableOperations& picked) {
    if (!arguments.staged.empty()) {
      result = publish_staged(picked, arguments.staged, arguments.branch);
      return;
    }
    const auto snapshot_id = snapshot_id_at(arguments.snapshot, *head.metadata);
    if (!snapshot_id) fail(ErrorKind::not_found, "the table has no snapshot yet");
    result = cherry_pick(picked, *snapshot_id, arguments.branch);
  };
  if (arguments.dry_run) {
    const std::optional<TableMetadata> next = metadata_after(*table, pick);
    const bool is_forward = next && next->snapshots.size() == head.metadata->snapshots.size();
    return print_result(
        arguments.as_json,
        fmt::format("would do: {} {}", arguments.branch,
                    is_forward ? fmt::format("moves to snapshot {}", next->refs.at(arguments.branch).snapshot_id)
                               : "gets the change as a new snapshot"),
        {{"dry-run", true}, {"branch", arguments.branch}, {"makes-snapshot", !is_forward}});
  }
  pick(*table);
  print_result(arguments.as_json, fmt::format("{} is at snapshot {}", arguments.branch, result.snapshot_id),
               {{"dry-run", false}, {"snapshot-id", result.snapshot_id}, {"branch", arguments.branch}});
}

}  // namespace

void add_ref_commands(CLI::App& app) {
  CLI::App* branching = add_command(app, kChanging, "branch", "Create, move or delete a branch",
                                    "branch local:nyc.flights audit --at 2024-03-01 --max-ref-age 30d");
  auto& of_branch = run_with<RefArguments>(branching, change_branch);
  add_ref_options(branching, of_branch);
  branching->add_option("--fast-forward", of_branch.fast_forward, "Move it on to the head of this branch or tag");
  branching->add_option("--min-snapshots", of_branch.min_snapshots, "Of its snapshots at least so many are kept")
      ->check(whole_number(1, std::numeric_limits<int32_t>::max()));
  branching->add_option("--max-snapshot-age", of_branch.max_snapshot_age, "How long its snapshots are kept");

  CLI::App* tagging =
      add_command(app, kChanging, "tag", "Create, move or delete a tag", "tag local:nyc.flights year-2013");
  auto& of_tag = run_with<RefArguments>(tagging, change_tag);
  add_ref_options(tagging, of_tag);

  CLI::App* rolling = add_command(app, kChanging, "rollback", "Make an earlier snapshot a branch's head again",
                                  "rollback local:nyc.flights 2024-03-01T12:00:00Z --dry-run");
  auto& of_rollback = run_with<RollbackArguments>(rolling, rollback);
  add_change_options(rolling, of_rollback.common);
  rolling->add_option("TO", of_rollback.to, "A snapshot id, a branch or tag, or a time")->required();
  rolling->add_option("--branch", of_rollback.branch, "The branch")->capture_default_str();
  rolling->add_flag("--any", of_rollback.any, "Any snapshot of the table, not only an ancestor of the head");

  CLI::App* picking = add_command(app, kChanging, "cherry-pick", "Bring one snapshot's change onto a branch",
                                  "cherry-pick local:nyc.flights --staged load-7");
  auto& of_pick = run_with<CherryPickArguments>(picking, cherry_pick_snapshot);
  add_table(picking, of_pick.table);
  picking->add_option("SNAPSHOT", of_pick.snapshot, "A snapshot id, a branch or tag, or a time");
  picking->add_option("--staged", of_pick.staged, "The staged snapshot of this wap.id");
  picking->add_option("--branch", of_pick.branch, "The branch")->capture_default_str();
  picking->add_flag("--dry-run", of_pick.dry_run, "Say whether it can be done, and change nothing");
  picking->add_flag("--json", of_pick.as_json, "Answer in JSON");
}

}  // namespace firn::cli
