// Deletes rows that the caller chose itself, by what it read of a plan.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "iceberg/puffin/puffin.h"
#include "iceberg/rows/rows.h"
#include "iceberg/scan/scan.h"

namespace firn::iceberg {

struct ChosenRows {
  size_t task = 0;   // of the plan, each once
  bool all = false;  // every live row: the file goes, unread if metadata and deletion vectors tell how many they are
  PositionSet positions;  // else these of its live rows
};

// As the prepare_ forms of rows.h. `plan` is of the head of options.branch in `base`. The rows are the caller's choice:
// what others add meanwhile is no conflict, whatever options.isolation says.
PreparedRows prepare_delete_chosen(const TableMetadata& base, const std::shared_ptr<FileIO>& io,
                                   const std::shared_ptr<const ScanPlan>& plan, const std::vector<ChosenRows>& chosen,
                                   const RowOptions& options = {});

}  // namespace firn::iceberg
