// Commands that change a table's metadata alone.
#pragma once

#include <string>

#include "cli/firn/command.h"
#include "iceberg/metadata/changes.h"

namespace firn::cli {

struct ChangeArguments {
  TableArgument table;
  bool dry_run = false, as_json = false;
};
void add_change_options(CLI::App* command, ChangeArguments& arguments);  // TABLE, --dry-run, --json

// Commits `change` (of metadata/changes.h: whether anything changed), or in a dry run tries it on what was loaded.
// `what` is what it does: "column a added"; `nothing_text` what is said where there was nothing to do: that it is so
// already without it.
void commit_change(const ChangeArguments& arguments, const std::string& what,
                   const std::function<bool(iceberg::TableMetadata&)>& change, const std::string& nothing_text = "");

}  // namespace firn::cli
