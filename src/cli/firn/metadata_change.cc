#include "cli/firn/metadata_change.h"

namespace firn::cli {

void add_change_options(CLI::App* command, ChangeArguments& arguments) {
  add_table(command, arguments.table);
  command->add_flag("--dry-run", arguments.dry_run, "Say whether it can be done, and change nothing");
  command->add_flag("--json", arguments.as_json, "Answer in JSON");
}

void commit_change(const ChangeArguments& arguments, const std::string& what,
                   const std::function<bool(iceberg::TableMetadata&)>& change, const std::string& nothing_text) {
  const auto table = open_table(arguments.table);
  bool changed = false;
  iceberg::LoadedTable head = table->load();
  iceberg::TableMetadata after = *head.metadata;
  check_may_change(*table, head);
  const auto commit = [&](iceberg::TableOperations& committed) {
    head = commit_metadata(committed, [&](iceberg::TableMetadata& next) {
             changed = change(next);  // of the last try
             return changed;
           }).table;
    after = *head.metadata;
  };
  if (!arguments.dry_run) {
    commit(*table);
  } else if (auto next = metadata_after(*table, commit)) {
    after = *std::move(next);
  }
  const std::string& metadata_file = head.metadata_path;
  const iceberg::Snapshot* current = after.current_snapshot();
  print_result(arguments.as_json,
               !changed && !nothing_text.empty() ? "nothing to do: " + nothing_text
               : !changed                        ? fmt::format("nothing to do: {} already", what)
               : arguments.dry_run               ? fmt::format("would do: {}", what)
                                                 : what,
               {{"dry-run", arguments.dry_run},
                {"changed", changed},
                {"metadata-file", metadata_file},
                {"format-version", after.format_version},
                {"schema-id", after.current_schema_id},
                {"spec-id", after.default_spec_id},
                {"sort-order-id", after.default_sort_order_id},
                {"current-snapshot-id", current ? Json(current->snapshot_id) : Json()}});
}

}  // namespace firn::cli
