// The expiry of tables' history, as the commands offer it. What tables are is not known here: src/orca/tables brings
// the function, and main() hands it over.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "orca/ctx.h"

namespace firn::orca {

struct ExpireRequest {
  std::vector<std::string> datasets;  // empty: every table of the warehouse that says how long its history is kept
  // Of runs that are open, or may be retried: their snapshots stay (P14.3), and those above their floors (P3.2).
  std::vector<Pin> pins;
  std::vector<Floor> floors;
  // When the oldest open run started: what was committed since stays, so that a file's run can be told (P14.1).
  std::optional<int64_t> oldest_start_ms;
  bool dry_run = false;
};

struct ExpiredTable {
  std::string dataset;
  int64_t snapshots = 0;  // removed, or to be removed
  int64_t files = 0;      // of data, deletes, manifests and manifest lists
  int64_t bytes = 0;
  int64_t pinned = 0;  // snapshots kept for runs alone
  std::string error;   // empty: none. One failing table does not stop the others
};

// Looks at each table once. Throws config where no warehouse is set.
using ExpireTables = std::function<std::vector<ExpiredTable>(const ExpireRequest&)>;

}  // namespace firn::orca
