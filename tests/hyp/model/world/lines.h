// The rows that come in: random, from a seed, and what is to become of each by a simple view of the rules.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "hyp/config.h"

namespace firn::hyp::model {

constexpr int64_t kMinuteMs = 60'000, kHourMs = 60 * kMinuteMs, kDayMs = 24 * kHourMs;

enum class Kind : uint8_t { integer, fraction, text, time };  // of a column, and of a value

struct Value {
  std::string column;
  Kind kind = Kind::integer;
  int64_t integer = 0;  // time: milliseconds since 1970
  std::string json;     // as it stands in the line
  std::string shown;    // as canonical_row shows it
};

struct Line {
  std::vector<Value> values;  // those that are not null
  bool is_broken = false;     // no JSON
  std::string text;           // without newline

  const Value* find(const std::string& column) const;
  std::string content() const;  // as canonical_row of the row
};

// "column=value;" of every column that is not null, by name: equal whatever wrote the row, and whatever columns came
// later.
std::string canonical_row(const std::string& row_json);

// The three datasets of the test.
enum class Dataset : uint8_t {
  events,  // with a primary timestamp; columns come as rows bring them
  logs,    // without one; equal rows are one row ("dedupe": "content")
  typed,   // declared columns only, which a configuration widens and adds to; a column names the source
};
constexpr int kDatasets = 3;
const std::string& name_of(Dataset dataset);
// `declared`: how often the declaration of typed has grown. `is_partitioned`: events' cache tables, by day.
DatasetConfig config_of(Dataset dataset, int64_t declared, bool is_partitioned);

// What is known of a dataset when lines are made.
struct KnownColumns {
  std::set<std::string> columns;  // that a table of it has
  int64_t extra = 0;              // how many columns "c<n>" there are to choose from
  int64_t declared = 0;           // as above
};

// `unique`: a number that no other line has, for lines that are to be told apart.
std::vector<Line> make_lines(Dataset dataset, uint64_t seed, int64_t count, int64_t now_ms, const KnownColumns& known,
                             int64_t& unique);

// Whether the line becomes a row. The others become rejects.
bool is_taken(Dataset dataset, const Line& line, const KnownColumns& known);
// The source partition that the line belongs to if it came from `source`.
std::string source_of(Dataset dataset, const Line& line, const std::string& source);

}  // namespace firn::hyp::model
