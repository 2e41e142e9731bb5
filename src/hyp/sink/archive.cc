// Archives: one Iceberg table a dataset, one append snapshot a unit, committed by compare-and-set on the stream's
// offset (P3.3).
#include <algorithm>
#include <functional>
#include <map>
#include <mutex>
#include <utility>

#include "base/arrow_status.h"
#include "base/fault_point.h"
#include "base/log.h"
#include "base/span.h"
#include "base/uri.h"
#include "hyp/cache/visible_schema.h"
#include "hyp/sink/archive_layout.h"
#include "hyp/sink/destination.h"
#include "hyp/sink/offsets.h"
#include "iceberg/commit/commit.h"
#include "iceberg/parquet/without_field_ids.h"
#include "iceberg/write/append_writer.h"

namespace firn::hyp {
namespace {

using iceberg::LoadedTable;
using iceberg::TableMetadata;
using iceberg::TableOperations;

constexpr int64_t kWriterBytesMax = 128 << 20;  // of all partitions that a run ships at once

// The cache table's field ids mean other columns in the archive: there the names decide.
std::shared_ptr<arrow::RecordBatch> without_ids(const arrow::RecordBatch& batch) {
  return arrow::RecordBatch::Make(iceberg::without_field_ids(*batch.schema()), batch.num_rows(), batch.columns());
}

// A dataset's table, once it is open. Threads share it.
struct Archive {
  std::mutex opening;  // of what follows, which changes no more once `operations` is there
  DatasetConfig config;
  iceberg::Schema schema;  // the dataset's columns when this run began, from which its layout is derived
  std::shared_ptr<TableOperations> operations;  // nullptr: no table is there
  // Partitions write their files at once and commit one after another: each commit builds on the one before anyhow, and
  // a lost race costs a wait and another try.
  std::mutex committing;
};

[[noreturn]] void fail_untold(const TableMetadata& table, const PartitionId& partition) {
  fail(ErrorKind::destination_forgot,
       "{}: it was rolled back, and its snapshots from before were expired, so what it has of {} cannot be told. "
       "Compare the rows, then reset the sink to a number, to start or to now",
       table.location, partition.logical_path());
}

class IcebergDestination final : public Destination {
 public:
  IcebergDestination(const Cache& cache, const SinkConfig& sink) : cache_(cache), io_(cache.io()), sink_(sink) {
    if (sink.iceberg_namespace.empty() || sink.iceberg_namespace.find_first_of("/.") != std::string::npos) {
      fail(ErrorKind::config, "sink {}: namespace \"{}\" must be a name without '/' and '.'", sink.name,
           sink.iceberg_namespace);
    }
  }

  std::string describe(const PartitionId& partition) const override { return location_of(partition.dataset); }
  std::string key_of(const Unit&) const override { return ""; }

  std::optional<Position> position(const Unit& unit) override {
    const auto operations = find_table(open(unit.partition.dataset));
    if (!operations) return std::nullopt;
    const LoadedTable head = operations->load();
    if (!trusted_offsets(*head.metadata, unit.stream)) fail_untold(*head.metadata, unit.partition);
    return position_in(*operations, *head.metadata, unit);
  }

  Standing standing(const Unit& confirmed) override {
    Archive& archive = open(confirmed.partition.dataset);
    const auto operations = find_table(archive);
    if (!operations) return {};
    const LoadedTable head = operations->load();
    note_rollback(archive, *head.metadata, confirmed.stream);
    const auto offsets = trusted_offsets(*head.metadata, confirmed.stream);
    if (!offsets) fail_untold(*head.metadata, confirmed.partition);
    const bool is_unlisted = !offsets->opens.contains(confirmed.range.open_id);
    if (is_unlisted && offsets->forgot && confirmed.range.until <= *offsets->forgot) return {.is_known = false};
    return {.there = position_in(*operations, *head.metadata, confirmed)};
  }

  std::vector<Standing> standings(const std::vector<Unit>& opens) override {
    std::vector<Standing> standings(opens.size());
    const auto operations = find_table(open(opens.at(0).partition.dataset));
    if (!operations) return standings;
    const LoadedTable head = operations->load();
    const auto trusted = trusted_offsets(*head.metadata, opens[0].stream);
    const StreamOffsets there = trusted.value_or(StreamOffsets());
    const StreamOffsets listed = trusted ? there : read_offsets(*head.metadata, opens[0].stream);
    for (size_t i = 0; i < opens.size(); ++i) {
      if (const auto last = last_of(there, opens[i])) {
        standings[i].there = Position{*last, std::nullopt};
      } else if (!listed.opens.contains(opens[i].range.open_id)) {
        standings[i].is_known = !listed.forgot || opens[i].range.since >= *listed.forgot;
      }
    }
    if (!there.opens.empty()) operations->io()->sync_folder(join_path(head.metadata->location, "metadata"));  // P10.8
    return standings;
  }

  Delivered deliver(const Unit& unit, UnitRows& rows) override {
    Span span("iceberg.snapshot.commit");
    span.set("stream", unit.stream);
    span.set("open", unit.range.open_id);
    span.set("since", unit.range.since);
    span.set("until", unit.range.until);
    try {
      Archive& archive = open(unit.partition.dataset);
      const LoadedTable head = find_or_create_table(archive)->load();
      span.set("table", head.metadata->location);
      span.set("hyp_partition_spec", display_spec(*head.metadata));
      span.set("hyp_sort_order", display_order(*head.metadata));
      Delivered delivered = deliver_to(archive, *head.metadata, unit, rows);
      span.set("rows", delivered.rows);
      return delivered;
    } catch (const Error& e) {
      span.fail(to_string(e.kind()), e.what());
      throw;
    }
  }

  bool reset(const Unit& unit, std::optional<int64_t> from, int64_t& last) override {
    return set_offsets(unit, [&](const TableMetadata& table) -> std::optional<StreamOffsets> {
      const auto offsets = trusted_offsets(table, unit.stream);
      if (!offsets || last_of(*offsets, unit) != from) return std::nullopt;
      return moved(*offsets, unit.range.open_id, *unit.open_since, last);
    });
  }

  void trust(const Unit& unit) override {
    Archive& archive = open(unit.partition.dataset);
    const auto operations = find_table(archive);
    if (!operations) return;
    const LoadedTable head = operations->load();
    if (!is_rolled_back(*head.metadata, read_offsets(*head.metadata, unit.stream))) return;
    set_offsets(unit, [&](const TableMetadata& table) {
      if (auto left = trusted_offsets(table, unit.stream)) return left;
      auto unknown = std::make_optional(read_offsets(table, unit.stream));  // an operator's word stands for it then
      unknown->opens.clear();
      unknown->snapshot_id.reset();
      unknown->was_rolled_back = false;
      return unknown;
    });
  }

 private:
  std::string location_of(const std::string& dataset) const {
    return iceberg::normal_location(join_path(join_path(sink_.path, sink_.iceberg_namespace), encode_segment(dataset)));
  }

  Archive& open(const std::string& dataset) {
    std::lock_guard guard(mutex_);
    std::unique_ptr<Archive>& archive = archives_[dataset];
    if (!archive) {
      auto opened = std::make_unique<Archive>();
      opened->config = cache_.dataset_config(dataset);
      opened->schema = cache_.dataset_schema(dataset);
      archive = std::move(opened);
    }
    return *archive;
  }

  // nullptr: there is none.
  std::shared_ptr<TableOperations> find_table(Archive& archive) {
    std::lock_guard guard(archive.opening);
    const std::string location = location_of(archive.config.name);
    if (!archive.operations && iceberg::filesystem_table_exists(*io_, location)) {
      archive.operations = iceberg::open_filesystem_table(io_, location);
    }
    return archive.operations;
  }

  std::shared_ptr<TableOperations> find_or_create_table(Archive& archive) {
    if (auto operations = find_table(archive)) return operations;
    std::lock_guard guard(archive.opening);
    if (!archive.operations) create(archive);
    return archive.operations;
  }

  void create(Archive& archive) {
    const std::string location = location_of(archive.config.name);
    Span span("iceberg.table.create");
    const TableMetadata metadata = new_archive_table(location, archive.config, archive.schema);
    span.set("table", location);
    span.set("hyp_partition_spec", display_spec(metadata));
    span.set("hyp_sort_order", display_order(metadata));
    fault_point("sink.create-table");
    try {
      iceberg::create_filesystem_table(io_, metadata);
    } catch (const Error& e) {
      if (e.kind() != ErrorKind::already_exists) {
        span.fail(to_string(e.kind()), e.what());
        throw;
      }
      // Another sink or cache made it just now; its layout is looked at like any other's.
    }
    fault_point("sink.table-created");
    archive.operations = iceberg::open_filesystem_table(io_, location);
    const std::string& time = archive.config.primary_timestamp_column;
    if (metadata.spec().fields.empty()) {
      spdlog::warn(
          "sink {}: {} was made without partitions, since dataset {} has no {}; archives are partitioned by the day of "
          "that column, and only if it is there when they are made",
          sink_.name, location, archive.config.name, time.empty() ? "primaryTimestampColumn" : "column " + time);
    }
  }

  // What the table really has: its property, and where it was rolled back what is left of that. nullopt: that cannot be
  // told.
  static std::optional<StreamOffsets> trusted_offsets(const TableMetadata& table, const std::string& stream) {
    StreamOffsets offsets = read_offsets(table, stream);
    return is_rolled_back(table, offsets) ? offsets_in_history(table, stream, offsets) : offsets;
  }

  // In the property, so that it is known, too, once another engine's expiry takes the snapshots that tell of it.
  // Nothing else moves.
  void note_rollback(Archive& archive, const TableMetadata& table, const std::string& stream) {
    const auto is_noted = [&](const TableMetadata& of) {
      const StreamOffsets offsets = read_offsets(of, stream);
      return offsets.was_rolled_back == is_rolled_back(of, offsets);
    };
    if (is_noted(table)) return;
    std::lock_guard guard(archive.committing);
    try {
      iceberg::commit_metadata(*archive.operations, [&](TableMetadata& next) {
        if (is_noted(next)) return false;
        StreamOffsets offsets = read_offsets(next, stream);
        offsets.was_rolled_back = !offsets.was_rolled_back;
        next.properties[offset_property(stream)] = to_text(offsets);
        return true;
      });
    } catch (const Error& e) {  // the next run tries again; what was found is told all the same
      spdlog::warn("sink {}: {}: a rollback could not be noted: {}", sink_.name, table.location, e.what());
    }
  }

  // nullopt: it has nothing of the unit's open. After a rollback it may list one all the same.
  static std::optional<int64_t> last_of(const StreamOffsets& offsets, const Unit& unit) {
    const auto known = offsets.opens.find(unit.range.open_id);
    if (known == offsets.opens.end() || (unit.open_since && known->second <= *unit.open_since)) return std::nullopt;
    return known->second;
  }

  // How far `table` has the unit's open, and made sure to last (P10.8).
  std::optional<Position> position_in(TableOperations& operations, const TableMetadata& table, const Unit& unit) {
    const auto offsets = trusted_offsets(table, unit.stream);
    if (!offsets) return std::nullopt;
    const auto last = last_of(*offsets, unit);
    if (!last) return std::nullopt;
    operations.io()->sync_folder(join_path(table.location, "metadata"));
    return Position{*last, std::nullopt};
  }

  // Commits what `change` makes of the stream's offsets on the head (P3.3); false, and nothing is changed: it gave
  // nullopt there.
  bool set_offsets(const Unit& unit,
                   const std::function<std::optional<StreamOffsets>(const TableMetadata& table)>& change) {
    Archive& archive = open(unit.partition.dataset);
    const auto operations = find_or_create_table(archive);
    std::lock_guard guard(archive.committing);
    bool is_taken = true;
    std::string written;
    fault_point("sink.before-reset");
    iceberg::commit_metadata(*operations, [&](TableMetadata& next) {
      std::string& property = next.properties[offset_property(unit.stream)];
      if (!written.empty() && property == written) return false;  // a try of ours that had no answer
      const auto offsets = change(next);
      is_taken = offsets.has_value();
      if (!is_taken) return false;
      written = to_text(*offsets);
      return std::exchange(property, written) != written;
    });
    operations->io()->sync_folder(join_path(location_of(unit.partition.dataset), "metadata"));  // found there (P10.8)
    fault_point("sink.reset-written");
    return is_taken;
  }

  UnitVerdict judge_on(const TableMetadata& table, const StreamOffsets& offsets, const Unit& unit) const {
    return judge(offsets, is_rolled_back(table, offsets), unit.range, table.location);
  }

  Delivered not_taken(TableOperations& operations, const TableMetadata& table, const Unit& unit, UnitVerdict verdict) {
    const bool is_there = verdict == UnitVerdict::landed;
    return {.outcome = is_there ? Delivered::Outcome::already_there : Delivered::Outcome::refused,
            .there = position_in(operations, table, unit)};
  }

  Delivered deliver_to(Archive& archive, const TableMetadata& head, const Unit& unit, UnitRows& rows) {
    TableOperations& table = *archive.operations;
    const UnitVerdict verdict = judge_on(head, read_offsets(head, unit.stream), unit);
    if (verdict != UnitVerdict::take) return not_taken(table, head, unit, verdict);
    check_archive_spec(head, archive.config, archive.schema);
    const LoadedTable evolved = evolve(archive, head, rows.schema());
    const std::vector<iceberg::DataFile> files = write_rows(table, *evolved.metadata, rows);
    fault_point("sink.files-written");
    std::lock_guard guard(archive.committing);
    Delivered delivered =
        files.empty() ? commit_offset(table, unit) : commit_rows(table, *evolved.metadata, unit, files);
    fault_point("sink.committed");
    return delivered;
  }

  // Columns come by a commit of their own, before the first file that has them (P2). A column that the table has in a
  // wider type stays so.
  LoadedTable evolve(Archive& archive, const TableMetadata& head, const iceberg::Schema& columns) {
    std::lock_guard guard(archive.committing);
    if (const auto conflict = find_conflict(columns, head.schema())) fail_conflict(archive, head, *conflict);
    const iceberg::Schema wanted = merge_schemas(columns, head.schema(), head.location);
    LoadedTable evolved = iceberg::evolve_schema(*archive.operations, wanted);
    if (evolved.metadata->current_schema_id != head.current_schema_id) fault_point("sink.schema-evolved");
    return evolved;
  }

  // The cache's table keeps its column for good, so what else its source sends, or a reset, is no way out.
  [[noreturn]] void fail_conflict(const Archive& archive, const TableMetadata& table,
                                  const TypeConflict& conflict) const {
    fail(
        ErrorKind::schema_mismatch,
        "table {}: its column {} is {}, dataset {} has it as {}, and neither can become the other, so the rows wait; a "
        "reset does not help. Rename the table's column (`firn alter rename-column {} COLUMN NEW_NAME`): sink {} then "
        "adds one of its own; or let the sink write to another table, under another \"name\" and \"path\"",
        table.location, conflict.column, conflict.b->to_string(), archive.config.name, conflict.a->to_string(),
        table.location, sink_.name);
  }

  std::vector<iceberg::DataFile> write_rows(TableOperations& table, const TableMetadata& metadata, UnitRows& rows) {
    iceberg::WriteOptions options;
    options.memory_bytes_max = kWriterBytesMax / std::clamp<int64_t>(sink_.parallel_max, 1, kParallelMax);
    iceberg::AppendWriter writer(table.io(), metadata, options);
    while (const auto batch = rows.next()) writer.write(without_ids(*batch));
    return rows.rows_read() > 0 ? writer.finish() : std::vector<iceberg::DataFile>();
  }

  Delivered commit_rows(TableOperations& table, const TableMetadata& written, const Unit& unit,
                        const std::vector<iceberg::DataFile>& files) {
    iceberg::SnapshotChange append;
    append.added = files;
    append.written_schema = written.schema();
    append.required_spec = written.spec();
    append.summary = {{"firn.stream", unit.stream},
                      {"firn.open", unit.range.open_id},
                      {"firn.since", std::to_string(unit.range.since)},
                      {"firn.until", std::to_string(unit.range.until)}};
    std::optional<Delivered> refused;
    append.plan_try = [&](const TableMetadata& base, int64_t snapshot_id, int64_t sequence_number) {
      StreamOffsets offsets = read_offsets(base, unit.stream);
      const UnitVerdict verdict = judge_on(base, offsets, unit);
      iceberg::TryPlan plan;
      if (verdict == UnitVerdict::refuse) {
        refused = not_taken(table, base, unit, verdict);
        fail(ErrorKind::commit_conflict, "table {}: rows ({}, {}] of stream {} do not come next", base.location,
             unit.range.since, unit.range.until, unit.stream);
      }
      if (verdict == UnitVerdict::landed) {
        plan.landed_snapshot = offsets.snapshot_id.value_or(0);
        return plan;
      }
      offsets.snapshot_id = snapshot_id;
      offsets.sequence = sequence_number;
      plan.set_properties[offset_property(unit.stream)] = to_text(advanced(std::move(offsets), unit.range));
      return plan;
    };
    Delivered delivered;
    try {
      const iceberg::CommitResult result = iceberg::commit_snapshot(table, append);
      if (result.recognised) {  // by a copy of the cache, while our files were written
        remove_files(table, files);
        return not_taken(table, *result.table.metadata, unit, UnitVerdict::landed);
      }
    } catch (const Error& e) {
      if (e.kind() != ErrorKind::commit_unknown && !may_have_landed(table, unit)) remove_files(table, files);
      if (refused) return *refused;
      throw;
    }
    for (const iceberg::DataFile& file : files) {
      delivered.rows += file.record_count;
      delivered.bytes += file.file_size_bytes;
    }
    return delivered;
  }

  // After a failure of its commit with a known outcome: it may have landed before, and what came after it failed.
  bool may_have_landed(TableOperations& table, const Unit& unit) {
    try {
      const StreamOffsets offsets = read_offsets(*table.load().metadata, unit.stream);
      const auto known = offsets.opens.find(unit.range.open_id);
      return known != offsets.opens.end() && known->second >= unit.range.until;
    } catch (const Error& e) {
      spdlog::warn("{}", e.what());
      return true;
    }
  }

  // A unit of which no row is left moves the offset alone.
  Delivered commit_offset(TableOperations& table, const Unit& unit) {
    UnitVerdict verdict = UnitVerdict::take;
    bool is_ours = false;
    const iceberg::CommitResult result = iceberg::commit_metadata(table, [&](TableMetadata& next) {
      const StreamOffsets offsets = read_offsets(next, unit.stream);
      verdict = judge_on(next, offsets, unit);
      if (verdict != UnitVerdict::take) return false;
      next.properties[offset_property(unit.stream)] = to_text(advanced(offsets, unit.range));
      is_ours = true;
      return true;
    });
    // Found there after a try of ours that had no answer, it is that try's.
    if (!result.recognised || (is_ours && verdict == UnitVerdict::landed)) return {};
    return not_taken(table, *result.table.metadata, unit, verdict);
  }

  // Nothing names them: what cannot be removed is an orphan.
  void remove_files(TableOperations& table, const std::vector<iceberg::DataFile>& files) {
    for (const iceberg::DataFile& file : files) {
      try {
        table.io()->remove(file.file_path);
      } catch (const Error& e) {
        spdlog::warn("{}", e.what());
      }
    }
  }

  const Cache& cache_;
  std::shared_ptr<FileIO> io_;
  SinkConfig sink_;
  std::mutex mutex_;  // of the map
  std::map<std::string, std::unique_ptr<Archive>> archives_;
};

}  // namespace

std::unique_ptr<Destination> make_iceberg_destination(const Cache& cache, const SinkConfig& sink) {
  return std::make_unique<IcebergDestination>(cache, sink);
}

}  // namespace firn::hyp
