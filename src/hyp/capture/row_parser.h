// NDJSON lines as Arrow rows under a schema; what a line has that the schema lacks is reported, what does not fit is
// rejected with its reason.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <arrow/record_batch.h>

#include "iceberg/schema.h"

namespace firn::hyp {

struct RejectedLine {
  int64_t offset = 0;      // of the line's first byte in the text
  int64_t line_index = 0;  // from 0, blank lines counted: Frame::first_line + line_index is the line of the source
  std::string column;      // dotted below the top level; empty: the line as a whole
  std::string reason;
};

struct ParsedRows {
  std::shared_ptr<arrow::RecordBatch> batch;  // to_arrow_schema(schema)
  std::vector<int64_t> row_offsets;           // of each row's line in the text
  std::vector<RejectedLine> rejected;
  // Some good line had a column or a nested field that `schema` lacks, with a value that decides its type (not null, []
  // or {}): evolve (SchemaInference) and parse again.
  bool has_new_columns = false;
};

struct RowParserOptions {
  // Unless null, which is as good as absent; else they are reported, and their values left out of the batch.
  bool new_columns_rejected = false;
  // Whether the schema has all that SchemaInference made of these lines. A column that it still lacks has the full name
  // of another ("a.b", and a member b of a struct a), and its line is rejected.
  bool schema_is_complete = false;
  int64_t row_bytes_max = 8 << 20;
};

// Each line is one JSON object; blank lines are none; CRLF is fine, and so is a byte order mark. Rejected, each with
// its reason and without a trace in the batch: text that is no JSON object (NaN and Infinity are none of JSON's),
// nested deeper than 64 (an array counts twice), invalid UTF-8, a lone surrogate, a duplicate key at any depth, a value
// of another type than its column's, an integer beyond int64 (or beyond int for int) where the column is not decimal,
// double or float, a missing or null required column, a name that is empty, _hyp_*, has a NUL, or differs from another
// only in case, a line above row_bytes_max.
//   Numbers may be spelled 1.0 or 1e0 in integer columns. Decimals are exact, from numbers or strings. An integer that
//   a
// double or float column would change is rejected. Dates, times, timestamps, uuids, binary and fixed (base64) are
// strings; timestamps also integers in their column's unit (micro- or nanoseconds), of a size that no other unit gives:
// from 1973 to 5138 or 2262; seconds are not guessed. Without an offset a timestamptz is UTC; with another offset than
// Z a timestamp is rejected. Maps are objects; their keys are strings.
//   Throws unsupported naming the column for variant, geometry and geography, and maps with other keys;
//   invalid_argument
// for a text of 2 GiB or more. Thread-safe; keeps nothing.
ParsedRows parse_rows(std::string_view text, const iceberg::Schema& schema, const RowParserOptions& options);

// The columns of the text's well-formed lines as a schema, for union_by_name with what the table has: booleans, long,
// double (where integers and fractions mix), string, struct and list by shape; in first-seen order; all optional; ids
// fresh from 1. Where lines disagree the first one decides, and parse_rows rejects the others. Columns that are null or
// empty everywhere, those whose names parse_rows rejects, and those with the full name of one before are left out.
// `known` decides the types of the columns that it has, and grows by fields of structs alone. The result depends on the
// lines and their order, not on how they were cut into texts or merged. One thread.
class SchemaInference {
 public:
  // `timestamp_column`: strings there that are timestamps make it timestamptz (primaryTimestampColumn); empty: none.
  explicit SchemaInference(const iceberg::Schema& known, int64_t row_bytes_max = 8 << 20,
                           std::string timestamp_column = {});
  ~SchemaInference();
  void observe(std::string_view text);
  void merge(SchemaInference&& later);  // as if `later`'s texts had been observed after ours; `later` is used up
  iceberg::Schema schema() const;       // known columns, then new ones

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace firn::hyp
