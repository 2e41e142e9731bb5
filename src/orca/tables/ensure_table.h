// The table of a dataset that a step writes: made, or brought up to the step's schema.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "iceberg/transform.h"
#include "orca/tables/table.h"

namespace firn::orca {

constexpr int64_t DAY_MS = 86'400'000;
// How long an orca table keeps its snapshots by default.
constexpr int64_t DEFAULT_HISTORY_DAYS = 30;

// The properties that ensure_table gives every table it creates, and adds to one that lacks them:
//   - write.metadata.delete-after-commit.enabled=true and write.metadata.previous-versions-max=100, so that metadata/
//     stops growing by a file a commit;
//   - history.expire.max-snapshot-age-ms: the history that expiry keeps. Its presence is also what makes `orca expire`
//     expire the table at all.
std::map<std::string, std::string> table_defaults();

// The table of a dataset that the step declares it writes or replaces. Where the warehouse lacks it, it is created
// empty, with `schema` (its field ids are kept), `spec` (of that schema) and `properties` on top of table_defaults().
//   A table that exists is brought up to `schema` by one metadata commit: columns that it lacks, matched by name at any
// depth, are added (rows there read them as null), and a column that `schema` makes optional becomes optional. Columns
// that `schema` lacks stay. It gets those of `properties` that it lacks or has with another value, and defaults that it
// lacks; nothing is committed where all is as given. `spec` does not matter then.
//   Refused with the dataset in the message (schema_mismatch): a column of another type, a new column marked required,
//   a
// required column that `schema` leaves out, and a field id that isn't the one the table gave, or will give, to that
// column: batches built from `schema` carry its ids. New columns are numbered from the table's highest id, in the order
// `schema` lists them, a struct's fields after the struct. Throws invalid_argument for a dataset that is not declared.
Table ensure_table(Ctx& ctx, const std::string& dataset, const iceberg::Schema& schema,
                   const iceberg::PartitionSpec& spec = {}, const std::map<std::string, std::string>& properties = {});

}  // namespace firn::orca
