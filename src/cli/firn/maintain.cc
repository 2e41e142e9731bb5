// Maintenance: small files gathered, old snapshots and leftovers taken away.
#include "iceberg/maintain/maintain.h"

#include <charconv>

#include <fmt/ranges.h>

#include "base/civil_time.h"
#include "base/clock.h"
#include "cli/firn/command.h"
#include "cli/firn/progress.h"
#include "cli/firn/schema_text.h"
#include "cli/firn/text_table.h"

namespace firn::cli {
namespace {

using iceberg::FileCounts;

constexpr int64_t kCountMax = std::numeric_limits<int32_t>::max();

struct CommonArguments {
  TableArgument table;
  std::string branch = "main";
  bool dry_run = false, as_json = false;
};

void add_common(CLI::App* command, CommonArguments& arguments, bool has_branch) {
  add_table(command, arguments.table);
  if (has_branch) command->add_option("--branch", arguments.branch, "The branch")->capture_default_str();
  command->add_flag("--dry-run", arguments.dry_run, "Say what would be done, and change nothing");
  command->add_flag("--json", arguments.as_json, "Answer in JSON, with the files' paths");
}

// Opens a table that is to be changed. Throws as check_may_change and check_branch do.
std::shared_ptr<iceberg::TableOperations> open_to_change(const CommonArguments& arguments) {
  auto table = open_table(arguments.table);
  const iceberg::LoadedTable head = table->load();
  check_may_change(*table, head);
  check_branch(*head.metadata, arguments.branch);
  return table;
}

// "7d" before now, or a time.
std::optional<int64_t> parse_older_than(const std::string& text) {
  if (text.empty()) return std::nullopt;
  if (const auto time = parse_timestamp_us(text)) return floor_div(time->value, 1000);
  try {
    return now_ms() - parse_duration_ms(text, "--older-than");
  } catch (const CLI::ValidationError&) {
    fail_usage("--older-than '{}' is no age (7d, 12h, 30m) and no time (2024-03-01T12:00:00Z)", text);
  }
}

// Shows that the library is at work until it answers.
template <class Call>
auto with_progress(const char* what, const Call& call) {
  const Progress progress(what);
  return call();
}

Json counts_json(const FileCounts& files) {
  return {{"data-files", files.data_files},
          {"position-delete-files", files.position_delete_files},
          {"equality-delete-files", files.equality_delete_files},
          {"manifests", files.manifests},
          {"manifest-lists", files.manifest_lists},
          {"statistics-files", files.statistics_files},
          {"other-files", files.other_files},
          {"bytes", files.bytes},
          {"paths", with_real_paths(files.paths)},
          {"failed", with_real_paths(files.failed)}};
}

std::string counts_text(const FileCounts& files) {
  std::vector<std::string> kinds;
  const auto add = [&](int64_t count, const char* kind) {
    if (count > 0) kinds.push_back(format_counted(count, kind));
  };
  add(files.data_files, "data file");
  add(files.position_delete_files, "position delete file");
  add(files.equality_delete_files, "equality delete file");
  add(files.manifests, "manifest");
  add(files.manifest_lists, "manifest list");
  add(files.statistics_files, "statistics file");
  add(files.other_files, "other file");
  std::string text =
      kinds.empty() ? "no file" : fmt::format("{} ({})", fmt::join(kinds, ", "), format_bytes(files.bytes));
  if (!files.failed.empty()) text += fmt::format("; {} could not be removed", files.failed.size());
  return text;
}

// --- compact

struct CompactArguments {
  CommonArguments common;
  std::string where, target_size, min_size, max_size, memory;
  std::vector<std::string> sort;
  bool sorts = false, all = false;
  std::optional<int32_t> min_input_files, delete_threshold, commits_max;
  std::optional<double> delete_ratio;
  int parallel_groups = 1;
};

// What takes a table to understand aside.
iceberg::CompactOptions compact_options(const CompactArguments& arguments) {
  iceberg::CompactOptions options;
  options.branch = arguments.common.branch;
  options.dry_run = arguments.common.dry_run;
  options.target_file_size_bytes = parse_size(arguments.target_size, "--target-size");
  options.min_file_size_bytes = parse_size(arguments.min_size, "--min-size");
  options.max_file_size_bytes = parse_size(arguments.max_size, "--max-size");
  if (const auto memory = parse_size(arguments.memory, "--memory")) options.memory_bytes_max = *memory;
  if (arguments.min_input_files) options.min_input_files = *arguments.min_input_files;
  options.delete_file_threshold = arguments.delete_threshold;
  if (arguments.delete_ratio) options.delete_ratio_threshold = *arguments.delete_ratio;
  if (arguments.commits_max) options.commits_max = *arguments.commits_max;
  options.rewrite_all = arguments.all;
  options.parallel_groups = arguments.parallel_groups;
  if (arguments.sorts || !arguments.sort.empty()) options.strategy = iceberg::CompactStrategy::sort;
  return options;
}

Json failures_json(const std::vector<iceberg::CompactFailure>& failures) {
  Json json = Json::array();
  for (const auto& failure : failures) {
    json.push_back({{"kind", std::string(to_string(failure.kind))},
                    {"message", with_real_paths(failure.message)},
                    {"files", with_real_paths(failure.files)}});
  }
  return json;
}

void compact_table(const CompactArguments& arguments) {
  iceberg::CompactOptions options = compact_options(arguments);
  const auto table = open_to_change(arguments.common);
  const iceberg::Schema schema = table->load().metadata->schema();
  options.filter = parse_where(arguments.where, schema);
  if (!arguments.sort.empty()) options.sort_order = make_sort_order(parse_sort(arguments.sort), schema, "--sort-by");
  const iceberg::CompactResult result = with_progress("compact", [&] { return compact(*table, options); });
  std::string text;
  if (result.groups == 0 && result.delete_files_removed == 0) {
    text = "nothing to do";
  } else if (!result.failures.empty() && result.groups_rewritten == 0) {
    text = "no file was rewritten";
  } else if (arguments.common.dry_run) {
    text = fmt::format("would rewrite {} ({}) in {}, and remove {}", format_counted(result.files_rewritten, "file"),
                       format_bytes(result.bytes_rewritten), format_counted(result.groups, "group"),
                       format_counted(result.delete_files_removed, "delete file"));
  } else {
    text = fmt::format("rewrote {} ({}) as {} ({}) in {}, and removed {}",
                       format_counted(result.files_rewritten, "file"), format_bytes(result.bytes_rewritten),
                       format_counted(result.files_added, "file"), format_bytes(result.bytes_added),
                       format_counted(static_cast<int64_t>(result.snapshots.size()), "snapshot"),
                       format_counted(result.delete_files_removed, "delete file"));
  }
  print_result(arguments.common.as_json, text,
               {{"dry-run", options.dry_run},
                {"groups", result.groups},
                {"groups-rewritten", result.groups_rewritten},
                {"files-rewritten", result.files_rewritten},
                {"bytes-rewritten", result.bytes_rewritten},
                {"files-added", result.files_added},
                {"bytes-added", result.bytes_added},
                {"delete-files-removed", result.delete_files_removed},
                {"snapshots", result.snapshots},
                {"paths", with_real_paths(result.paths)},
                {"failures", failures_json(result.failures)}});
  for (const auto& failure : result.failures) {
    fmt::print(stderr, "firn: a group of {} stays as it was: {}\n",
               format_counted(static_cast<int64_t>(failure.files.size()), "file"), with_real_paths(failure.message));
  }
  if (!result.failures.empty()) throw CommandFailed();
}

// --- expire

struct ExpireArguments {
  CommonArguments common;
  std::string older_than;
  std::optional<int32_t> retain_last;
  std::vector<int64_t> snapshots, keep;
  bool clean = false;
};

void expire(const ExpireArguments& arguments) {
  iceberg::ExpireOptions options;
  options.older_than_ms = parse_older_than(arguments.older_than);
  const auto table = open_to_change(arguments.common);
  options.retain_last = arguments.retain_last;
  options.snapshot_ids = arguments.snapshots;
  options.keep = arguments.keep;
  options.clean_expired_metadata = arguments.clean;
  options.dry_run = arguments.common.dry_run;
  const iceberg::ExpireResult result = with_progress("expire", [&] { return expire_snapshots(*table, options); });
  std::string text = fmt::format(
      "{} {}{}, removing {}", options.dry_run ? "would expire" : "expired",
      format_counted(static_cast<int64_t>(result.expired_snapshots.size()), "snapshot"),
      result.removed_refs.empty() ? "" : fmt::format(" and the refs {}", fmt::join(result.removed_refs, ", ")),
      counts_text(result.files));
  if (result.expired_snapshots.empty() && result.removed_refs.empty() && result.files.total() == 0)
    text = "nothing to do";
  Json json = {{"dry-run", options.dry_run},
               {"expired-snapshots", result.expired_snapshots},
               {"removed-refs", result.removed_refs},
               {"removed-specs", result.removed_specs},
               {"removed-schemas", result.removed_schemas}};
  json.update(counts_json(result.files));
  print_result(arguments.common.as_json, text, json);
}

// --- orphans

struct OrphanArguments {
  CommonArguments common;
  std::string older_than, location, prefix_mismatch = "error";
  std::vector<std::string> equal_schemes, equal_authorities;
  bool strays = false;
};

void print_orphans(const OrphanArguments& arguments, const FileCounts& files, Json json) {
  const bool dry_run = arguments.common.dry_run;
  if (!arguments.common.as_json && dry_run) {
    for (const std::string& path : files.paths) print_text(with_real_paths(path) + "\n");
  }
  json["dry-run"] = dry_run;
  json.update(counts_json(files));
  print_result(arguments.common.as_json, fmt::format("{} {}", dry_run ? "would remove" : "removed", counts_text(files)),
               json);
}

void orphans(const OrphanArguments& arguments) {
  const std::optional<int64_t> older_than_ms = parse_older_than(arguments.older_than);
  if (arguments.strays) {  // such a table cannot be opened
    const FileCounts files =
        iceberg::remove_stray_versions(make_io(arguments.common.table), table_location(arguments.common.table),
                                       {.older_than_ms = older_than_ms, .dry_run = arguments.common.dry_run});
    return print_orphans(arguments, files, Json::object());
  }
  const auto table = open_table(arguments.common.table);
  iceberg::OrphanOptions options;
  options.older_than_ms = older_than_ms;
  options.location = arguments.location;
  options.equal_schemes = parse_pairs(arguments.equal_schemes, "--equal-schemes");
  options.equal_authorities = parse_pairs(arguments.equal_authorities, "--equal-authorities");
  options.prefix_mismatch = arguments.prefix_mismatch == "ignore"   ? iceberg::PrefixMismatch::ignore
                            : arguments.prefix_mismatch == "remove" ? iceberg::PrefixMismatch::remove
                                                                    : iceberg::PrefixMismatch::error;
  options.dry_run = arguments.common.dry_run;
  const iceberg::OrphanResult result = with_progress("orphans", [&] { return remove_orphan_files(*table, options); });
  for (const std::string& folder : result.other_tables) {
    fmt::print(stderr, "firn: {} is another table, and was not looked into\n", with_real_paths(folder));
  }
  for (const std::string& folder : result.folders_not_listed) {
    fmt::print(stderr, "firn: {} was not looked into; name it with --location\n", with_real_paths(folder));
  }
  print_orphans(arguments, result.files,
                {{"other-tables", with_real_paths(result.other_tables)},
                 {"folders-not-listed", with_real_paths(result.folders_not_listed)}});
}

// --- manifests and deletes

struct ManifestsArguments {
  CommonArguments common;
  std::optional<int32_t> spec_id;
  std::string target_size;
  bool all = false;
};

void rewrite_manifest_files(const ManifestsArguments& arguments) {
  iceberg::RewriteManifestsOptions options;
  options.spec_id = arguments.spec_id;
  options.target_size_bytes = parse_size(arguments.target_size, "--target-size");
  const auto table = open_to_change(arguments.common);
  options.branch = arguments.common.branch;
  options.rewrite_all = arguments.all;
  options.dry_run = arguments.common.dry_run;
  const auto result = with_progress("rewrite-manifests", [&] { return rewrite_manifests(*table, options); });
  const std::string old = format_counted(static_cast<int64_t>(result.rewritten.size()), "manifest");
  print_result(arguments.common.as_json,
               result.rewritten.empty() ? "nothing to do"
               : options.dry_run        ? fmt::format("would rewrite {}", old)
                                        : fmt::format("rewrote {} as {}", old, result.added.size()),
               {{"dry-run", options.dry_run},
                {"snapshot-id", result.snapshot_id ? Json(*result.snapshot_id) : Json()},
                {"rewritten", with_real_paths(result.rewritten)},
                {"added", with_real_paths(result.added)},
                {"entries", result.entries}});
}

struct DeletesArguments {
  CommonArguments common;
  bool all = false;
};

void rewrite_delete_files(const DeletesArguments& arguments) {
  const auto table = open_to_change(arguments.common);
  iceberg::RewritePositionDeletesOptions options;
  options.branch = arguments.common.branch;
  options.rewrite_all = arguments.all;
  options.dry_run = arguments.common.dry_run;
  const auto result = with_progress("rewrite-deletes", [&] { return rewrite_position_deletes(*table, options); });
  const std::string old = format_counted(result.files_removed, "delete file");
  print_result(arguments.common.as_json,
               result.files_removed == 0 ? "nothing to do"
               : options.dry_run         ? fmt::format("would rewrite {}", old)
                                         : fmt::format("rewrote {} as {}", old, result.files_added),
               {{"dry-run", options.dry_run},
                {"files-removed", result.files_removed},
                {"files-added", result.files_added},
                {"positions", result.positions},
                {"positions-dropped", result.positions_dropped},
                {"snapshots", result.snapshots},
                {"paths", with_real_paths(result.paths)}});
}

void add_compact(CLI::App& app) {
  CLI::App* command = add_command(app, kMaintaining, "compact", "Gather small files, split large ones, apply deletes",
                                  "compact local:nyc.flights --target-size 128MB --dry-run");
  auto& arguments = run_with<CompactArguments>(command, compact_table);
  add_common(command, arguments.common, true);
  add_where(command, arguments.where, "Only files that may hold such rows:");
  command->add_flag("--sort", arguments.sorts, "Sort rows by the table's order");
  command->add_option("--sort-by", arguments.sort, "Sort rows by this order: \"dest, ts desc\"")
      ->allow_extra_args(false);
  command->add_option("--target-size", arguments.target_size, "Of files: 512MiB without it");
  command->add_option("--min-size", arguments.min_size, "Smaller files are rewritten: 75 % of the target");
  command->add_option("--max-size", arguments.max_size, "Larger files are rewritten: 180 % of the target");
  command->add_option("--min-input-files", arguments.min_input_files, "So many small ones are worth it: 5")
      ->check(whole_number(1, kCountMax));
  command
      ->add_option("--delete-files", arguments.delete_threshold,
                   "Files that so many delete files apply to are rewritten")
      ->check(whole_number(1, kCountMax));
  command->add_option("--delete-ratio", arguments.delete_ratio, "Files with this part of their rows deleted are: 0.3")
      ->check(CLI::Range(0.0, 1.0));
  command->add_option("--commits", arguments.commits_max, "At most so many snapshots: 10")
      ->check(whole_number(1, kCountMax));
  command->add_option("--memory", arguments.memory, "256MiB without it");
  command->add_option("--parallel", arguments.parallel_groups, "Groups at work at once")
      ->check(whole_number(1, kCountMax))
      ->capture_default_str();
  command->add_flag("--all", arguments.all, "Rewrite every file");
}

void add_cleaning(CLI::App& app) {
  CLI::App* expiring =
      add_command(app, kMaintaining, "expire", "Take old snapshots away, with the files only they have",
                  "expire local:nyc.flights --older-than 7d --retain-last 10 --dry-run");
  auto& to_expire = run_with<ExpireArguments>(expiring, expire);
  add_common(expiring, to_expire.common, false);
  expiring->add_option("--older-than", to_expire.older_than, "An age (7d) or a time; else the table's properties (5d)");
  expiring->add_option("--retain-last", to_expire.retain_last, "Of each branch at least so many stay")
      ->check(whole_number(1, kCountMax));
  expiring->add_option("--snapshot", to_expire.snapshots, "This one goes, whatever its age")
      ->check(whole_number(0))
      ->allow_extra_args(false);
  expiring->add_option("--keep", to_expire.keep, "This one stays")->check(whole_number(0))->allow_extra_args(false);
  expiring->add_flag("--clean-metadata", to_expire.clean, "Also take away schemas and specs that nothing uses");

  CLI::App* removing = add_command(app, kMaintaining, "orphans", "Remove files that nothing of the table names",
                                   "orphans local:nyc.flights --older-than 3d --dry-run");
  auto& to_remove = run_with<OrphanArguments>(removing, orphans);
  add_common(removing, to_remove.common, false);
  removing->add_option("--older-than", to_remove.older_than, "An age or a time: 3d without it");
  removing->add_option("--location", to_remove.location, "The folder to look in; without it the table's");
  removing->add_option("--equal-schemes", to_remove.equal_schemes, "A=B: two schemes taken for one")
      ->allow_extra_args(false);
  removing->add_option("--equal-authorities", to_remove.equal_authorities, "A=B: two authorities taken for one")
      ->allow_extra_args(false);
  removing
      ->add_option("--prefix-mismatch", to_remove.prefix_mismatch,
                   "error, ignore or remove files that differ from the table's by scheme or authority alone")
      ->check(CLI::IsMember({"error", "ignore", "remove"}))
      ->capture_default_str();
  removing->add_flag("--strays", to_remove.strays,
                     "Instead: metadata versions of a dropped table, because of which this one cannot be opened");
}

void add_rewriting(CLI::App& app) {
  CLI::App* of_manifests = add_command(app, kMaintaining, "rewrite-manifests", "Gather and cluster manifests",
                                       "rewrite-manifests local:nyc.flights");
  auto& manifests = run_with<ManifestsArguments>(of_manifests, rewrite_manifest_files);
  add_common(of_manifests, manifests.common, true);
  of_manifests->add_option("--spec-id", manifests.spec_id, "Only those of this partition spec")
      ->check(whole_number(0, kCountMax));
  of_manifests->add_option("--target-size", manifests.target_size, "Of manifests: 8MiB without it");
  of_manifests->add_flag("--all", manifests.all, "Also where nothing is to be gained");

  CLI::App* of_deletes = add_command(app, kMaintaining, "rewrite-deletes",
                                     "Gather position deletes; version 3: make deletion vectors of them",
                                     "rewrite-deletes local:nyc.flights --dry-run");
  auto& deletes = run_with<DeletesArguments>(of_deletes, rewrite_delete_files);
  add_common(of_deletes, deletes.common, true);
  of_deletes->add_flag("--all", deletes.all, "Also where a partition has few of them");
}

}  // namespace

void add_maintain_commands(CLI::App& app) {
  add_compact(app);
  add_cleaning(app);
  add_rewriting(app);
}

}  // namespace firn::cli
