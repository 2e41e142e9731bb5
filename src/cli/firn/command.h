// What the commands of `firn` share: how they are declared, which table they work on, how they answer. One file a group
// of commands declares their options and runs them; all throw firn::Error, and CLI::ParseError for wrong usage: an
// option that is not known, or whose value no table could make right.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "base/counts.h"
#include "base/json.h"
#include "iceberg/commit/commit.h"
#include "iceberg/scan/scan.h"

namespace firn::cli {

// The groups, as `firn --help` lists them.
void add_look_commands(CLI::App& app);      // look.cc: describe, schema, snapshots, refs
void add_file_commands(CLI::App& app);      // files.cc: files, partitions, metadata
void add_scan_command(CLI::App& app);       // scan.cc
void add_verify_command(CLI::App& app);     // verify.cc
void add_create_commands(CLI::App& app);    // create.cc: create, drop
void add_append_command(CLI::App& app);     // append.cc
void add_row_commands(CLI::App& app);       // rows.cc: delete, overwrite, upsert
void add_alter_command(CLI::App& app);      // alter.cc
void add_ref_commands(CLI::App& app);       // refs.cc: branch, tag, rollback, cherry-pick
void add_maintain_commands(CLI::App& app);  // maintain.cc: compact, expire, orphans, rewrite-manifests, rewrite-deletes

inline constexpr const char* kReading = "Reading";
inline constexpr const char* kWriting = "Writing rows";
inline constexpr const char* kChanging = "Changing tables";
inline constexpr const char* kMaintaining = "Maintaining tables";

// A directory or URI, "catalog:namespace.table" with a catalog of the catalogs file, or "namespace.table" in a
// warehouse.
struct TableArgument {
  std::string table;
  std::string warehouse;                 // empty: none
  std::vector<std::string> relocations;  // "OLD=NEW": files below OLD are read below NEW
};

// Throws not_found saying what is no table, config for a catalogs file that is wrong.
std::shared_ptr<iceberg::TableOperations> open_table(const TableArgument& argument);
// Where a table is, or is to be made. Throws likewise.
std::string table_location(const TableArgument& argument);
// The local disk, with the relocations.
std::shared_ptr<FileIO> make_io(const TableArgument& argument);
// `text` with the paths that an opened table has from where it was written, or below a relocation's OLD, as they really
// are: for what is told of files that are broken or go away.
std::string with_real_paths(std::string text);
std::vector<std::string> with_real_paths(std::vector<std::string> paths);

// Thrown once a command has said what failed, or what it found to be wrong: the status is 1.
struct CommandFailed {};

// A command `name` of `app`, whose help ends with `example` (without "firn ").
CLI::App* add_command(CLI::App& app, const char* group, const std::string& name, const std::string& about,
                      const std::string& example);
// `run` is called with the arguments once they are parsed, and after all of them are known to be right.
template <class Arguments>
Arguments& run_with(CLI::App* command, void (*run)(const Arguments&)) {
  const auto arguments = std::make_shared<Arguments>();
  command->callback([arguments, run] { run(*arguments); });
  return *arguments;
}

void add_table(CLI::App* command, TableArgument& table);     // TABLE and --warehouse
void add_relocate(CLI::App* command, TableArgument& table);  // --relocate: reading commands alone
void add_at(CLI::App* command, std::string& at);             // --at
void add_where(CLI::App* command, std::string& where, const std::string& about);

// Before a change, and in its dry run. The first throws unsupported for a table that firn can only read, the second
// not_found for a branch that is not there, naming those that are; invalid_argument for a tag. main is always there.
void check_may_change(const iceberg::TableOperations& table, const iceberg::LoadedTable& head);
void check_branch(const iceberg::TableMetadata& metadata, const std::string& branch);
// What publishing would leave, of what `commit` does to the table it is given; nothing is published, and what was
// written for it is removed again. nullopt: there was nothing to publish. Throws what `commit` throws, and what
// publishing would.
std::optional<iceberg::TableMetadata> metadata_after(iceberg::TableOperations& table,
                                                     const std::function<void(iceberg::TableOperations&)>& commit);

// ", did you mean scan?" if one of `known` is spelled much like `word`, else "".
std::string did_you_mean(const std::string& word, const std::vector<std::string>& known);

// "": the current snapshot; else a branch or tag of that name, else a snapshot id (digits), else a time (RFC 3339, UTC
// without an offset). Throws not_found.
struct ChosenSnapshot {
  std::optional<int64_t> snapshot_id;
  std::string ref;
  std::optional<int64_t> as_of_ms;
};
ChosenSnapshot parse_at(const std::string& at, const iceberg::TableMetadata& metadata);
void set_snapshot(iceberg::ScanOptions& options, const ChosenSnapshot& chosen);
// The id of that snapshot; nullopt: the table has none.
std::optional<int64_t> snapshot_id_at(const std::string& at, const iceberg::TableMetadata& metadata);

// Wrong usage: CLI::ValidationError, with the formatted text.
template <class... Args>
[[noreturn]] void fail_usage(fmt::format_string<Args...> format, Args&&... args) {
  throw CLI::ValidationError(fmt::format(format, std::forward<Args>(args)...));
}
// For options: digits, and `min` at least; numbers that fit nothing are refused.
CLI::Validator whole_number(int64_t min, int64_t max = std::numeric_limits<int64_t>::max());
// The values of options; all of these are wrong usage naming `option` where they are none.
//   "7d", "12h", "30m", "45s", "500ms".
int64_t parse_duration_ms(const std::string& text, const char* option);
//   "512MB", "64MiB", or bytes; nullopt for "".
std::optional<int64_t> parse_size(const std::string& text, const char* option);
//   "key=value" each.
std::map<std::string, std::string> parse_pairs(const std::vector<std::string>& texts, const char* option);

// The SQL-like text, or the REST specification's Expression JSON; nullptr for "". Text that is no filter is wrong
// usage. Bound to `schema` once, so that what does not fit the table is said before any file is read.
iceberg::ExpressionPtr parse_where(const std::string& where, const iceberg::Schema& schema);
// Each of `columns` is in `schema`; throws not_found listing those that are.
void check_columns(const std::vector<std::string>& columns, const iceberg::Schema& schema);

// A commit id that a write carries, so that it can be run again; nullopt for "".
std::optional<iceberg::CommitId> make_commit_id(const std::string& text);

// One line to standard output, or one JSON object.
void print_result(bool as_json, const std::string& text, const Json& json);
// The snapshot as `firn snapshots --json` has it.
Json snapshot_json(const iceberg::Snapshot& snapshot);

std::string format_bytes(int64_t bytes);  // "1.5 MB": for people

}  // namespace firn::cli
