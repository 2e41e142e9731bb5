#include "orca/tables/scan.h"

#include <algorithm>

#include "base/arrow_status.h"
#include "base/error.h"
#include "base/fault_point.h"

namespace firn::orca {
namespace {

// `metadata` as if `snapshot_id` were the last commit, or nothing had ever been committed.
std::shared_ptr<const iceberg::TableMetadata> rolled_back(const iceberg::TableMetadata& metadata,
                                                          std::optional<int64_t> snapshot_id) {
  auto earlier = std::make_shared<iceberg::TableMetadata>(metadata);
  earlier->current_snapshot_id = snapshot_id;
  earlier->refs.clear();
  return earlier;
}

// Whether a column is named that the table has, and did not have yet at `snapshot`.
bool names_later_column(const iceberg::TableMetadata& metadata, const iceberg::Snapshot& snapshot,
                        const iceberg::ScanOptions& options) {
  if (!snapshot.schema_id || *snapshot.schema_id == metadata.current_schema_id) return false;
  const iceberg::Schema& then = metadata.schema(*snapshot.schema_id);
  return std::any_of(options.columns.begin(), options.columns.end(), [&](const std::string& name) {
    return then.find_field(name) == nullptr && metadata.schema().find_field(name) != nullptr;
  });
}

}  // namespace

TableScan::TableScan(std::shared_ptr<const iceberg::TableMetadata> metadata, std::shared_ptr<FileIO> io,
                     iceberg::ScanOptions options, std::optional<int64_t> snapshot_id)
    : metadata_(std::move(metadata)), io_(std::move(io)), options_(std::move(options)), snapshot_id_(snapshot_id) {}

iceberg::ScanPlan TableScan::plan() const { return iceberg::plan_scan(*metadata_, io_, options_); }

std::shared_ptr<arrow::RecordBatchReader> TableScan::read() const { return iceberg::scan(*metadata_, io_, options_); }

Batches TableScan::to_batches() const {
  const std::shared_ptr<arrow::RecordBatchReader> reader = read();
  Batches batches;
  std::shared_ptr<arrow::RecordBatch> batch;
  while (check(reader->ReadNext(&batch), "read a table"), batch != nullptr) batches.push_back(std::move(batch));
  return batches;
}

TableScan scan(Ctx& ctx, const Table& table, iceberg::ScanOptions options) {
  check_reads(ctx, table.location());
  if (options.snapshot_id || options.as_of_ms || !options.ref.empty())
    fail(ErrorKind::invalid_argument,
         "{}: a step reads at the snapshot that it is pinned to; leave out snapshot id, ref and time", table.title());
  const iceberg::LoadedTable head = table.operations()->load();
  const iceberg::TableMetadata& metadata = *head.metadata;
  fault_point("orca.pin");
  const Pin pin = ctx.record().pin({table.location(), metadata.table_uuid, metadata.current_snapshot_id});
  if (pin.table_uuid != metadata.table_uuid)
    fail(ErrorKind::not_found,
         "{}: step {} first read the table with table-uuid {}, which was dropped; {} is in its place. Start a new run",
         table.title(), ctx.id().step, pin.table_uuid, metadata.table_uuid);
  const iceberg::Snapshot* pinned = pin.snapshot_id ? metadata.find_snapshot(*pin.snapshot_id) : nullptr;
  if (pin.snapshot_id && pinned == nullptr)
    fail(ErrorKind::not_found,
         "{}: snapshot {}, which step {} first read, has expired though the run is open; let `orca expire` expire "
         "snapshots, and start a new run",
         table.title(), *pin.snapshot_id, ctx.id().step);
  if (!pinned || names_later_column(metadata, *pinned, options))
    return {rolled_back(metadata, pin.snapshot_id), table.io(), std::move(options), pin.snapshot_id};
  options.snapshot_id = pin.snapshot_id;
  return {head.metadata, table.io(), std::move(options), pin.snapshot_id};
}

}  // namespace firn::orca
