// How old a row is (P8). Values only: no file is opened here.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "hyp/config.h"
#include "iceberg/expr/expression.h"

namespace firn::hyp {

// What a table's rows age by.
struct RowAge {
  std::optional<iceberg::Field> timestamp;  // the dataset's timestamp column, if it is a time; its name dotted
  std::string note;                         // why there is none although one is configured; empty: fine
  std::string text() const;                 // equal where rows age alike
};
RowAge row_age(const iceberg::Schema& schema, const DatasetConfig& config);

// True for the rows that are older than the time, in milliseconds since 1970: by the timestamp column, and where that
// is null or not there by the time in _hyp_cache_batch_id. A date is as old as its day's end, a timestamp without zone
// is taken as UTC, a row at that very time is not older, and one that has neither time is older than nothing.
// Unbound, over a table that has the hidden columns.
iceberg::ExpressionPtr older_than(const RowAge& age, int64_t time_ms);
// True for all other rows. Of a file it is often known to be false for each row where older_than is not known to be
// true: of the rows with a null timestamp both bounds hold at once.
iceberg::ExpressionPtr not_older_than(const RowAge& age, int64_t time_ms);

// Whether a row is past its grace: older than `age_ms`, and here since before `arrival_ms`, so that a row which is old
// when it comes has its grace, too. One of which it is not known when it came has been here for ever.
iceberg::ExpressionPtr past_grace(const RowAge& age, int64_t age_ms, int64_t arrival_ms);
iceberg::ExpressionPtr within_grace(const RowAge& age, int64_t age_ms, int64_t arrival_ms);

}  // namespace firn::hyp
