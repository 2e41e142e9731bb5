#include "iceberg/rows/chosen_rows.h"

#include "iceberg/rows/row_change.h"

namespace firn::iceberg {

PreparedRows prepare_delete_chosen(const TableMetadata& base, const std::shared_ptr<FileIO>& io,
                                   const std::shared_ptr<const ScanPlan>& plan, const std::vector<ChosenRows>& chosen,
                                   const RowOptions& options) {
  RowOptions any_added = options;
  any_added.isolation = Isolation::snapshot;
  RowChange change(base, io, any_added, "delete");
  RowCounts counts;
  for (const ChosenRows& rows : chosen) {
    if (rows.all) {
      counts.rows_deleted += change.live_rows(plan, rows.task);
      change.drop(one_file_plan(*plan, rows.task));
    } else if (!rows.positions.empty()) {
      counts.rows_deleted += rows.positions.size();
      change.take(one_file_plan(*plan, rows.task), rows.positions);
    }
  }
  return change.finish(nullptr, /*any_read=*/true, /*only_deletes=*/true, counts);
}

}  // namespace firn::iceberg
