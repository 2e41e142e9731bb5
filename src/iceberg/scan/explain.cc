#include "iceberg/scan/explain.h"

#include "base/parallel.h"
#include "iceberg/scan/plan.h"
#include "iceberg/scan/task_reader.h"

namespace firn::iceberg {

std::string_view to_string(PlanRule rule) {
  switch (rule) {
    case PlanRule::none:
      return "";
    case PlanRule::no_live_files:
      return "no live files";
    case PlanRule::partition_range:
      return "partition range";
    case PlanRule::older:
      return "older";
    case PlanRule::partition:
      return "partition";
    case PlanRule::metrics:
      return "metrics";
  }
  return "";
}

ScanExplanation explain_scan(const TableMetadata& metadata, const std::shared_ptr<FileIO>& io,
                             const ScanOptions& options, bool opens_files) {
  ScanExplanation explanation;
  const ScanPlan plan = plan_snapshot(metadata, *io, options, &explanation);
  explanation.snapshot_id = plan.snapshot_id;
  if (plan.filter) explanation.filter = to_string(*plan.filter);
  std::vector<ExplainedFile*> planned;  // as plan.tasks
  for (ExplainedFile& file : explanation.files) {
    if (file.pruned_by == PlanRule::none) planned.push_back(&file);
  }
  parallel_for(planned.size(), options.threads, [&](size_t i) {
    const FileScanTask& task = plan.tasks.at(i);
    for (const auto& deletes : task.deletes) planned[i]->deletes.push_back(deletes->file_path);
    if (task.residual) planned[i]->residual = to_string(*task.residual);
    if (opens_files && task.file.file_format == "PARQUET")
      planned[i]->row_groups = TaskReader(plan, task, *io, options).explain();
  });
  return explanation;
}

}  // namespace firn::iceberg
