// Rows in files of other formats: what `append` takes and `scan` gives.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <arrow/record_batch.h>

#include "iceberg/schema.h"

namespace firn::cli {

enum class RowFormat : uint8_t { table, json, csv, arrow, parquet };

// By the end of the name: .json .ndjson .jsonl .csv .arrow .arrows .ipc .feather .parquet, text formats also with .gz
// or .zst after it; nullopt for others. Throws invalid_argument for a name of a format that is none (parse_row_format).
std::optional<RowFormat> row_format_of(const std::string& path);
// "table", "json" (or "ndjson"), "csv", "arrow", "parquet".
RowFormat parse_row_format(const std::string& name);
inline const std::vector<std::string> kInputFormats = {"json", "ndjson", "csv", "arrow", "parquet"};

// --- out

// Rows to standard output, or to a file that is there only once it is whole.
class RowOutput {
 public:
  virtual ~RowOutput() = default;  // without finish(): no file is left behind
  virtual void write(const std::shared_ptr<arrow::RecordBatch>& batch) = 0;
  virtual void finish() = 0;
};
// Rows of `schema`. `path` empty: standard output, where Arrow is a stream; in files it is Arrow's file format. Refuses
// to put bytes that are no text on a terminal.
std::unique_ptr<RowOutput> make_row_output(const iceberg::Schema& schema, RowFormat format, const std::string& path);

// --- in

struct RowInput {
  // Columns go by name: no field ids. Throws firn::Error from ReadNext.
  std::shared_ptr<arrow::RecordBatchReader> rows;
  std::function<double()> done;  // the part of the input that was read, 0 to 1; empty: not known
};

struct RowInputOptions {
  std::optional<RowFormat> format;  // nullopt: by the name; of standard input, JSON
  bool infers_new_columns = false;  // text: columns that `table` lacks get a type from the first rows, else are refused
  bool can_add_columns = false;     // for errors: whether the command has an option for the above
  bool has_columns_of_first_row = false;  // JSON: the columns are the first row's, and every row must have the same
};
// Opens `path` ("-": standard input). JSON and CSV have the types of `table`'s columns, spelled as `scan` spells them;
// a JSON row's missing column is its write default, else null. Throws not_found; invalid_argument naming line and
// column.
RowInput open_rows(const std::string& path, const iceberg::Schema& table, const RowInputOptions& options);

}  // namespace firn::cli
