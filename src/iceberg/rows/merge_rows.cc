// merge_rows and upsert_rows: the source range by range against the files that may have its keys.
#include <algorithm>
#include <map>
#include <mutex>
#include <set>

#include <arrow/array/util.h>
#include <arrow/util/byte_size.h>

#include "base/arrow_status.h"
#include "base/parallel.h"
#include "base/span.h"
#include "iceberg/parquet/array_adapter.h"
#include "iceberg/parquet/arrow_schema.h"
#include "iceberg/puffin/puffin.h"
#include "iceberg/rows/merge_source.h"
#include "iceberg/rows/row_change.h"
#include "iceberg/scan/projection.h"
#include "iceberg/write/array_values.h"

namespace firn::iceberg {

namespace {

constexpr int64_t kTakeRowsMax = 65536;

int column_index(const Schema& schema, int32_t id) {
  const auto& fields = schema.fields();
  const auto found = std::find_if(fields.begin(), fields.end(), [&](const Field& field) { return field.id == id; });
  return found == fields.end() ? -1 : static_cast<int>(found - fields.begin());
}

Field metadata_field(int32_t id, const char* name) {
  return Field{id, name, id == kPosFieldId, Type::primitive(TypeId::long_)};
}

// Rows written at a time: a small part of the budget.
int64_t take_rows_max(const arrow::RecordBatch& rows, int64_t memory_bytes_max) {
  const int64_t bytes = check(arrow::util::ReferencedBufferSize(rows), "measure rows");
  const int64_t row_bytes = bytes / std::max<int64_t>(1, rows.num_rows()) + 1;
  return std::clamp<int64_t>(memory_bytes_max / 32 / row_bytes, 1, kTakeRowsMax);
}

// A row of the table that a source row matches.
struct Match {
  int64_t position = 0;
  uint32_t source_row = 0;
  std::optional<int64_t> row_id;
};

// One source range against the table.
class RangeMerge {
 public:
  RangeMerge(RowChange& change, const MergeSource& source, const SourceRange& range, const MergeOptions& options,
             RowCounts& counts)
      : change_(change),
        source_(source),
        range_(range),
        options_(options),
        take_rows_max_(take_rows_max(*range.rows(), options.rows.memory_bytes_max)),
        counts_(counts),
        matched_(static_cast<size_t>(range.rows()->num_rows()), 0) {
    const bool lacks_columns = source.schema().fields().size() < change.base().schema().fields().size();
    compares_ = options.update_matched && (options.skip_equal || lacks_columns);
    const std::set<int32_t> key_ids(source.keys().ids().begin(), source.keys().ids().end());
    std::vector<Field> fields;
    for (const Field& field : change.base().schema().fields()) {
      if (auto kept = prune_field(field, key_ids)) fields.push_back(std::move(*kept));
    }
    if (reads_row_ids()) fields.push_back(metadata_field(kRowIdFieldId, "_row_id"));
    fields.push_back(metadata_field(kPosFieldId, "_pos"));
    key_columns_ = Schema(std::move(fields));
  }

  void run() {
    if (!range_.range().empty()) match_all();
    if (options_.insert_unmatched) insert_unmatched();
  }

 private:
  // Whether updated rows are made with the first read alone, so that it brings the row ids.
  bool reads_row_ids() const { return change_.has_lineage() && options_.update_matched && !compares_; }

  void match_all() {
    const auto plan = std::make_shared<const ScanPlan>(
        change_.plan(range_.range().filter(change_.base().schema()), /*case_sensitive=*/true));
    std::vector<size_t> candidates;
    for (size_t i = 0; i < plan->tasks.size(); ++i) {
      if (may_have_keys(plan->tasks[i].file)) candidates.push_back(i);
    }
    parallel_for(candidates.size(), change_.options().threads, [&](size_t i) { match_file(plan, candidates[i]); });
  }

  // A range filter leaves files between whose bounds there is no key at all.
  bool may_have_keys(const DataFile& file) const {
    const Field& key = source_.keys().columns().fields()[0];
    if (key.type->id() == TypeId::float_ || key.type->id() == TypeId::double_) return true;  // NaN has no place
    const auto lower = file.lower_bounds.find(key.id);
    const auto upper = file.upper_bounds.find(key.id);
    if (lower == file.lower_bounds.end() || upper == file.upper_bounds.end()) return true;
    const std::optional<Value> lowest = from_bytes(lower->second, *key.type);
    const std::optional<Value> highest = from_bytes(upper->second, *key.type);
    if (!lowest || !highest || compare(*lowest, *highest) > 0) return true;
    return range_.may_hold_between(source_.keys().first_column_key(*lowest), source_.keys().first_column_key(*highest));
  }

  void match_file(const std::shared_ptr<const ScanPlan>& plan, size_t task) {
    std::vector<Match> updates;
    PositionSet taken;
    std::vector<uint32_t> matched;
    int64_t rows_deleted = 0;
    const int position_column = static_cast<int>(key_columns_.fields().size()) - 1;
    change_.read(plan, task, key_columns_, [&](const std::shared_ptr<arrow::RecordBatch>& batch) {
      const RowKeys keys = source_.keys().encode(*batch, key_columns_);
      const auto& positions = static_cast<const arrow::Int64Array&>(*batch->column(position_column));
      const auto* row_ids =
          reads_row_ids() ? static_cast<const arrow::Int64Array*>(batch->column(position_column - 1).get()) : nullptr;
      for (int64_t row = 0; row < batch->num_rows(); ++row) {
        if (keys.has_null[static_cast<size_t>(row)]) continue;
        const std::optional<uint32_t> source_row = range_.find(keys.keys[static_cast<size_t>(row)]);
        if (!source_row) continue;
        matched.push_back(*source_row);
        const int64_t position = positions.Value(row);
        if (range_.deletes(*source_row)) {
          ++rows_deleted;
          taken.add(position);
        } else if (options_.update_matched) {
          Match match{position, *source_row, {}};
          if (row_ids != nullptr && row_ids->IsValid(row)) match.row_id = row_ids->Value(row);
          updates.push_back(match);
        }
      }
    });
    if (matched.empty()) return;
    {
      const std::lock_guard lock(mutex_);
      for (const uint32_t row : matched) matched_[row] = 1;
      counts_.rows_deleted += rows_deleted;
    }
    if (compares_ && !updates.empty()) {
      update_differing(plan, task, updates, taken);
    } else {
      update_all(updates, taken);
    }
    if (taken.empty()) return;
    const std::lock_guard lock(mutex_);
    change_.take(one_file_plan(*plan, task), taken);
  }

  // Updated rows out of the source alone.
  void update_all(const std::vector<Match>& updates, PositionSet& taken) {
    for (size_t first = 0; first < updates.size(); first += static_cast<size_t>(take_rows_max_)) {
      const size_t end = std::min(updates.size(), first + static_cast<size_t>(take_rows_max_));
      std::vector<uint32_t> source_rows;
      arrow::Int64Builder row_ids;
      for (size_t i = first; i < end; ++i) {
        source_rows.push_back(updates[i].source_row);
        taken.add(updates[i].position);
        check(updates[i].row_id ? row_ids.Append(*updates[i].row_id) : row_ids.AppendNull(), "take row ids");
      }
      const Schema columns({metadata_field(kRowIdFieldId, "_row_id")});
      const auto target = arrow::RecordBatch::Make(arrow::schema({arrow::field("_row_id", arrow::int64())}),
                                                   static_cast<int64_t>(source_rows.size()),
                                                   arrow::ArrayVector{check(row_ids.Finish(), "take row ids")});
      write_updates(take_rows(range_.rows(), source_rows), target, columns);
    }
  }

  // Reads what the source's values are compared with, and the columns that it lacks.
  void update_differing(const std::shared_ptr<const ScanPlan>& plan, size_t task, const std::vector<Match>& updates,
                        PositionSet& taken) {
    std::vector<Field> fields;
    for (const Field& field : change_.base().schema().fields()) {
      if (options_.skip_equal || column_index(source_.schema(), field.id) < 0) fields.push_back(field);
    }
    if (change_.has_lineage()) fields.push_back(metadata_field(kRowIdFieldId, "_row_id"));
    fields.push_back(metadata_field(kPosFieldId, "_pos"));
    const Schema columns(std::move(fields));
    const int position_column = static_cast<int>(columns.fields().size()) - 1;
    size_t next = 0;  // rows come in the file's order, as `updates` do
    change_.read(plan, task, columns, [&](const std::shared_ptr<arrow::RecordBatch>& batch) {
      const auto& positions = static_cast<const arrow::Int64Array&>(*batch->column(position_column));
      std::vector<int64_t> target_rows;
      std::vector<uint32_t> source_rows;
      for (int64_t row = 0; row < batch->num_rows() && next < updates.size(); ++row) {
        if (positions.Value(row) != updates[next].position) continue;
        target_rows.push_back(row);
        source_rows.push_back(updates[next++].source_row);
      }
      if (target_rows.empty()) return;
      auto target = take_rows(batch, target_rows);
      auto source = take_rows(range_.rows(), source_rows);
      if (options_.skip_equal) {
        const std::vector<int64_t> differing = differing_rows(*source, *target, columns);
        if (differing.empty()) return;
        if (static_cast<int64_t>(differing.size()) < target->num_rows()) {
          target = take_rows(target, differing);
          source = take_rows(source, differing);
        }
      }
      const auto& gone = static_cast<const arrow::Int64Array&>(*target->column(position_column));
      for (int64_t row = 0; row < gone.length(); ++row) taken.add(gone.Value(row));
      write_updates(source, target, columns);
    });
    if (next != updates.size())
      fail(ErrorKind::internal, "{}: a row that was matched is not read again", plan->tasks[task].file.file_path);
  }

  // Rows that differ in one of the source's columns. NaN is as NaN, -0.0 is not as 0.0.
  std::vector<int64_t> differing_rows(const arrow::RecordBatch& source, const arrow::RecordBatch& target,
                                      const Schema& target_columns) const {
    const auto equality = arrow::EqualOptions::Defaults().nans_equal(true).signed_zeros_equal(false);
    std::vector<uint8_t> differs(static_cast<size_t>(source.num_rows()), 0);
    for (size_t i = 0; i < source_.schema().fields().size(); ++i) {
      const auto& ours = source.column(static_cast<int>(i));
      const auto& theirs = target.column(column_index(target_columns, source_.schema().fields()[i].id));
      if (ours->RangeEquals(theirs, 0, ours->length(), 0, equality)) continue;
      for (int64_t row = 0; row < ours->length(); ++row) {
        if (!ours->RangeEquals(theirs, row, row + 1, row, equality)) differs[static_cast<size_t>(row)] = 1;
      }
    }
    std::vector<int64_t> rows;
    for (size_t row = 0; row < differs.size(); ++row) {
      if (differs[row] != 0) rows.push_back(static_cast<int64_t>(row));
    }
    return rows;
  }

  // Rows of the table with the source's values: they keep their row ids, and are updated in the snapshot that this
  // makes (spec, "Row Lineage").
  void write_updates(const std::shared_ptr<arrow::RecordBatch>& source,
                     const std::shared_ptr<arrow::RecordBatch>& target, const Schema& target_columns) {
    arrow::ArrayVector columns;
    for (const Field& field : change_.written_schema().fields()) {
      const int in_source = column_index(source_.schema(), field.id);
      const int in_target = column_index(target_columns, field.id);
      if (in_source >= 0) {
        columns.push_back(source->column(in_source));
      } else if (in_target >= 0) {
        columns.push_back(target->column(in_target));
      } else {
        columns.push_back(constant_array(Value{}, *field.type, source->num_rows()));
      }
    }
    write(source->num_rows(), std::move(columns), counts_.rows_updated);
  }

  void insert_unmatched() {
    std::vector<uint32_t> rows;
    const auto flush = [&] {
      if (rows.empty()) return;
      const auto source = take_rows(range_.rows(), rows);
      arrow::ArrayVector columns;
      for (const Field& field : change_.written_schema().fields()) {
        const int in_source = column_index(source_.schema(), field.id);
        columns.push_back(in_source >= 0 ? source->column(in_source) : default_column(field, source->num_rows()));
      }
      write(source->num_rows(), std::move(columns), counts_.rows_inserted);
      rows.clear();
    };
    for (size_t row = 0; row < matched_.size(); ++row) {
      if (matched_[row] != 0 || range_.deletes(static_cast<int64_t>(row))) continue;
      rows.push_back(static_cast<uint32_t>(row));
      if (static_cast<int64_t>(rows.size()) == take_rows_max_) flush();
    }
    flush();
  }

  std::shared_ptr<arrow::Array> default_column(const Field& field, int64_t rows) const {
    if (field.required && !field.write_default)
      fail(ErrorKind::schema_mismatch,
           "table {}: column {} is required, has no default and is not in the source: its rows cannot be inserted",
           change_.base().location, field.name);
    return constant_array(field.write_default.value_or(Value{}), *field.type, rows);
  }

  void write(int64_t num_rows, arrow::ArrayVector columns, int64_t& count) {
    const auto batch =
        arrow::RecordBatch::Make(to_arrow_schema(change_.written_schema()), num_rows, std::move(columns));
    const std::lock_guard lock(mutex_);
    change_.write(batch);
    count += num_rows;
  }

  RowChange& change_;
  const MergeSource& source_;
  const SourceRange& range_;
  const MergeOptions& options_;
  const int64_t take_rows_max_;
  bool compares_ = false;  // updated rows need the table's columns, or may turn out not to differ
  Schema key_columns_;     // the keys, then _row_id (if so), then _pos

  std::mutex mutex_;  // guards what follows, and writing to change_
  RowCounts& counts_;
  std::vector<uint8_t> matched_;  // by source row
};

void check_columns(const TableMetadata& base, const MergeSource& source) {
  for (const Field& field : source.schema().fields()) {
    const int index = column_index(base.schema(), field.id);
    if (index < 0 || !same_type(*base.schema().fields()[static_cast<size_t>(index)].type, *field.type))
      fail(ErrorKind::schema_mismatch, "table {}: column {} was changed while rows were merged; merge them again",
           base.location, field.name);
  }
}

PreparedRows prepare(const TableMetadata& base, const std::shared_ptr<FileIO>& io, const MergeSource& source,
                     const MergeOptions& options, std::string_view operation) {
  check_columns(base, source);
  RowChange change(base, io, options.rows, operation);
  RowCounts counts;
  source.for_each_range(std::max<int64_t>(1 << 16, options.rows.memory_bytes_max / 8),
                        [&](const SourceRange& range) { RangeMerge(change, source, range, options, counts).run(); });
  return change.finish(source.range().filter(base.schema()), !source.range().empty(),
                       /*only_deletes=*/counts.rows_updated + counts.rows_inserted == 0, counts);
}

RowsResult run(TableOperations& table, arrow::RecordBatchReader& rows, const MergeOptions& options,
               std::string_view operation) {
  const LoadedTable base = table.load();
  if (auto landed = landed_before(table, base, options.rows)) return *std::move(landed);
  const MergeSource source(*base.metadata, rows, options);
  return commit_rows(table, base, options.rows, nullptr, [&](const TableMetadata& metadata) {
    return prepare(metadata, table.io(), source, options, operation);
  });
}

MergeOptions upsert_options(MergeOptions options) {
  options.delete_column.clear();
  options.delete_matched = nullptr;
  return options;
}

}  // namespace

RowsResult merge_rows(TableOperations& table, arrow::RecordBatchReader& source, const MergeOptions& options) {
  Span span("iceberg.merge_rows");
  span.set("table", table.location());
  return run(table, source, options, "merge");
}

PreparedRows prepare_merge_rows(const TableMetadata& base, const std::shared_ptr<FileIO>& io,
                                arrow::RecordBatchReader& source, const MergeOptions& options) {
  return prepare(base, io, MergeSource(base, source, options), options, "merge");
}

RowsResult upsert_rows(TableOperations& table, arrow::RecordBatchReader& rows, const MergeOptions& options) {
  Span span("iceberg.upsert_rows");
  span.set("table", table.location());
  return run(table, rows, upsert_options(options), "update");
}

PreparedRows prepare_upsert_rows(const TableMetadata& base, const std::shared_ptr<FileIO>& io,
                                 arrow::RecordBatchReader& rows, const MergeOptions& options) {
  const MergeOptions upsert = upsert_options(options);
  return prepare(base, io, MergeSource(base, rows, upsert), upsert, "update");
}

}  // namespace firn::iceberg
