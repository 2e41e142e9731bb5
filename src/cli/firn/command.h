// The commands of `firn`: each takes its arguments, calls the library and prints to standard output. They throw
// firn::Error.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "iceberg/catalog/catalog.h"

namespace firn::cli {

// TABLE is a directory or URI, or "namespace.table" in a warehouse.
struct TableArgument {
  std::string table;
  std::string warehouse;  // empty: none
};
std::shared_ptr<iceberg::TableOperations> open_table(const TableArgument& argument);

void describe(const TableArgument& table, bool as_json);

struct SnapshotsArguments {
  std::vector<std::string> summary_keys;  // further columns
  bool as_json = false;
};
void snapshots(const TableArgument& table, const SnapshotsArguments& arguments);

// Which snapshot to read: at most one is set.
struct AtArguments {
  std::optional<int64_t> snapshot_id;
  std::string ref;
  std::string as_of;  // RFC 3339, or milliseconds since 1970; without an offset it is UTC
};
// nullopt if `as_of` is empty. Throws invalid_argument.
std::optional<int64_t> parse_as_of_ms(const std::string& as_of);

enum class RowFormat : uint8_t { table, json, csv, count };
struct ScanArguments {
  AtArguments at;
  std::vector<std::string> columns;
  std::string where;  // SQL-like text, or the REST specification's Expression JSON
  std::optional<int64_t> limit;
  bool row_lineage = false;
  bool prune = true;
  bool stats = false;  // to standard error
  RowFormat format = RowFormat::table;
};
void scan(const TableArgument& table, const ScanArguments& arguments);

void files(const TableArgument& table, const AtArguments& at, bool as_json);

struct CreateArguments {
  std::string schema_file;                // the specification's schema JSON; ids may be left out
  std::vector<std::string> partition_by;  // "day(ts)", "bucket[16](id)", "country"
  std::vector<std::string> sort_by;       // the same, with " asc", " desc", " nulls first", " nulls last"
  std::vector<std::string> properties;    // "key=value"
};
void create(const TableArgument& table, const CreateArguments& arguments);

struct AppendArguments {
  std::vector<std::string> files;  // Parquet, columns matched by name
  std::string branch = "main";
  std::string commit_id;     // empty: none. Run again with the same id, nothing is appended twice
  bool add_columns = false;  // columns that the table lacks are added to it first
};
void append(const TableArgument& table, const AppendArguments& arguments);

}  // namespace firn::cli
