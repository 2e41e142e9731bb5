#include "hyp/cache/partition_flush.h"

#include "base/arrow_status.h"
#include "base/civil_time.h"
#include "base/clock.h"
#include "base/fault_point.h"
#include "base/log.h"
#include "base/uri.h"
#include "base/warn_once.h"
#include "hyp/cache/dataset_columns.h"
#include "hyp/cache/layout.h"
#include "hyp/cache/new_table.h"
#include "hyp/cache/parallel.h"
#include "hyp/cache/table_opens.h"
#include "hyp/cache/visible_schema.h"
#include "iceberg/commit/commit.h"
#include "iceberg/parquet/arrow_schema.h"
#include "iceberg/write/append_writer.h"

namespace firn::hyp {
namespace {

constexpr size_t kSampleJobs = 2;

using iceberg::Field;
using iceberg::LoadedTable;
using iceberg::Schema;
using iceberg::TableMetadata;

RowParserOptions parser_options(const DatasetConfig& config) {
  RowParserOptions options;
  options.new_columns_rejected = !config.allow_new_columns;
  options.row_bytes_max = config.row_bytes_max;
  return options;
}

// A partition field needs its column from the start, even if the first rows do not have it.
Schema with_partition_columns(const Schema& schema, const DatasetConfig& config) {
  std::vector<Field> fields = schema.fields();
  int32_t id = schema.highest_field_id();
  for (const iceberg::PartitionDeclaration& declared : config.cache_partitioning) {
    const std::string folded = fold_name(declared.column);
    const auto found =
        std::find_if(fields.begin(), fields.end(), [&](const Field& f) { return fold_name(f.name) == folded; });
    if (found != fields.end() && found->name != declared.column) {
      fail(ErrorKind::config,
           "dataset {}: its rows have the column \"{}\", and its \"cachePartitioning\" names \"{}\": names that differ "
           "only in case are one column. Write it there as the rows have it",
           config.name, found->name, declared.column);
    }
    if (found != fields.end() || declared.column.find('.') != std::string::npos) continue;
    const bool is_time = declared.column == timestamp_column(config);
    fields.push_back({++id, declared.column, false,
                      iceberg::Type::primitive(is_time ? iceberg::TypeId::timestamptz : iceberg::TypeId::string)});
  }
  return Schema(std::move(fields));
}

std::shared_ptr<arrow::Array> make_sequence(int64_t first, int64_t count) {
  arrow::Int64Builder builder;
  check(builder.Reserve(count), "sequence numbers");
  for (int64_t i = 0; i < count; ++i) builder.UnsafeAppend(first + i);
  return check(builder.Finish(), "sequence numbers");
}

// The job's rows in the columns of the table, numbered from `first_seq`.
std::shared_ptr<arrow::RecordBatch> stamp(const ParsedJob& job, const std::shared_ptr<arrow::Schema>& columns,
                                          int64_t first_seq) {
  arrow::ArrayVector arrays;
  for (const auto& field : columns->fields()) {
    if (field->name() == kIngestSeqColumn) {
      arrays.push_back(make_sequence(first_seq, job.rows->num_rows()));
    } else if (field->name() == kRowIdColumn) {
      arrays.push_back(job.row_ids);
    } else if (field->name() == kBatchIdColumn) {
      arrays.push_back(job.batch_ids);
    } else {
      arrays.push_back(job.rows->GetColumnByName(field->name()));
    }
  }
  return arrow::RecordBatch::Make(columns, job.rows->num_rows(), std::move(arrays));
}

// The lines in data files that no snapshot names yet.
struct Written {
  std::vector<iceberg::DataFile> files;
  int64_t rows = 0;
  std::vector<RejectedRow> rejected;
};

// The partition's lines on their way into its table.
class PartitionWriter {
 public:
  PartitionWriter(Cache& cache, const DatasetConfig& config, const PartitionId& partition, const SpoolPart& part,
                  SeenColumns& seen, std::vector<Job> jobs)
      : cache_(cache), config_(config), partition_(partition), part_(part), seen_(seen), jobs_(std::move(jobs)) {}

  // Under the table's columns, widened where the lines need it.
  Written write_existing(HeldTable held);
  // Under the columns of the first table, which is not yet published. The dataset's columns stay locked from then on.
  Written write_new();

  // Makes the table if it is new; then it has what was written, in one commit.
  void commit(const Written& written);

  // After a failed commit whose outcome is known: removes the files, unless the table has them after all.
  void remove(const Written& written);

 private:
  enum class OtherColumns : uint8_t { rejected, refused };
  std::optional<Written> write(OtherColumns added, OtherColumns contradicted);
  void warn_of_timestamp_column() const;
  void widen(const Schema& wanted);
  void widen_as_declared();
  Schema infer(const std::vector<Job>& jobs, const Schema& known) const {
    return infer_schema(jobs, known, config_.row_bytes_max, timestamp_column(config_));
  }
  Schema visible() const { return without_hidden(metadata_->schema()); }
  // A table may lie elsewhere than its metadata says: a cache that was moved.
  const std::shared_ptr<FileIO>& table_io() const { return held_ ? held_->operations->io() : cache_.io(); }

  Cache& cache_;
  const DatasetConfig& config_;
  const PartitionId& partition_;
  const SpoolPart& part_;
  SeenColumns& seen_;
  const std::vector<Job> jobs_;
  std::optional<HeldTable> held_;          // nullopt: the table is still to be made
  std::optional<DatasetColumns> columns_;  // while the table is made
  std::string table_dir_;                  // of the table to be made
  std::shared_ptr<const TableMetadata> metadata_;
  int64_t first_seq_ = 0;  // of as many numbers as there are lines; 0: not yet reserved
};

// Parses on all cores, stamps in the order of the lines and writes as the rows come, so that only a few jobs' rows are
// in memory. Where a job's lines ask for columns that the schema lacks (`added`), or one was rejected for a column's
// type
// (`contradicted`), and that is `refused`: nullopt, and nothing is left of what was written.
std::optional<Written> PartitionWriter::write(OtherColumns added, OtherColumns contradicted) {
  if (first_seq_ == 0) {
    first_seq_ = cache_.sequence().reserve(count_lines(jobs_), metadata_->int_property(kMaxSeqProperty, 0));
  }
  Written written;
  bool is_refused = false;
  iceberg::WriteOptions options;
  options.already_sorted = true;  // numbers ascend in the order of the lines
  iceberg::AppendWriter writer(table_io(), *metadata_, options);
  const auto columns = iceberg::to_arrow_schema(metadata_->schema());
  const Schema parsed_columns = config_.schema ? with_required(visible(), *config_.schema) : visible();
  RowParserOptions parser = parser_options(config_);
  parser.schema_is_complete = added == OtherColumns::rejected;
  run_ordered(
      jobs_.size(),
      [&](size_t i) {
        part_.give_way();
        return parse_job(jobs_[i], parsed_columns, parser);
      },
      [&](ParsedJob&& job) {
        part_.give_way();
        is_refused = (job.has_new_columns && added == OtherColumns::refused) ||
                     (job.has_rejected_columns && contradicted == OtherColumns::refused);
        if (is_refused) return false;
        std::move(job.rejected.begin(), job.rejected.end(), std::back_inserter(written.rejected));
        if (job.rows->num_rows() > 0) writer.write(stamp(job, columns, first_seq_ + written.rows));
        written.rows += job.rows->num_rows();
        return true;
      });
  if (is_refused) return std::nullopt;
  written.files = writer.finish();
  return written;
}

Written PartitionWriter::write_new() {
  table_dir_ = next_table_dir(cache_, partition_);
  const std::string location = generation_folder(cache_.folder(partition_), table_dir_);
  columns_.emplace(cache_, partition_.dataset, seen_);
  const Schema known = columns_->schema();
  const auto choose = [&](const Schema& wanted) {
    const Schema columns = config_.schema ? wanted : with_partition_columns(wanted, config_);
    metadata_ = std::make_shared<TableMetadata>(new_cache_table(location, columns, config_));
  };
  if (config_.allow_new_columns) {
    // The first lines nearly always show all columns. What the rest adds or contradicts shows when it is parsed; only
    // then is every line looked at, so that the schema never depends on the sample.
    const auto sample_size = static_cast<ptrdiff_t>(std::min(kSampleJobs, jobs_.size()));
    choose(infer({jobs_.begin(), jobs_.begin() + sample_size}, known));
    const bool is_sample_all = static_cast<size_t>(sample_size) == jobs_.size();
    const OtherColumns others = is_sample_all ? OtherColumns::rejected : OtherColumns::refused;
    if (auto written = write(others, others)) return std::move(*written);
    choose(infer(jobs_, known));
  } else {
    choose(known);
  }
  return std::move(*write(OtherColumns::rejected, OtherColumns::rejected));
}

// `wanted` in the table before any file needs it (P2).
void PartitionWriter::widen(const Schema& wanted) {
  LoadedTable head = iceberg::evolve_schema(*held_->operations, wanted);
  fault_point("flush.schema-evolved");
  metadata_ = head.metadata;
  held_->table = std::move(head);
}

// A declaration may have grown since. A column that came later is optional in the table, whatever is declared: the rows
// before it lack it.
void PartitionWriter::widen_as_declared() {
  const auto declared_beside = [&](const Schema& cached) {
    return merge_schemas(visible(), without_other_case(*config_.schema, cached), partition_.dataset);
  };
  Schema wanted = declared_beside(visible());
  if (iceberg::assign_fresh_ids(visible()).highest_field_id() == wanted.highest_field_id()) {  // no column is new
    widen(wanted);
    return;
  }
  DatasetColumns columns(cache_, partition_.dataset, seen_);  // another partition may spell the new ones otherwise
  wanted = declared_beside(columns.schema());
  columns.begin_change();
  widen(wanted);
  columns.end_change(visible());
}

Written PartitionWriter::write_existing(HeldTable held) {
  metadata_ = held.table.metadata;
  held_ = std::move(held);
  if (config_.schema) widen_as_declared();
  if (config_.allow_new_columns) {
    if (auto written = write(OtherColumns::refused, OtherColumns::rejected)) return std::move(*written);
    DatasetColumns columns(cache_, partition_.dataset, seen_);
    const Schema known = merge_schemas(visible(), columns.schema(), partition_.dataset);
    columns.begin_change();
    widen(infer(jobs_, known));
    columns.end_change(visible());
  }
  return std::move(*write(OtherColumns::rejected, OtherColumns::rejected));
}

void PartitionWriter::commit(const Written& written) {
  if (!held_) {
    columns_->begin_change();
    publish_first_table(cache_, partition_, table_dir_, *metadata_);
    columns_->end_change(visible());
    held_ = cache_.hold(partition_);
    if (!held_) fail(ErrorKind::io, "the cursor that was just written is gone");
  }
  const int64_t last_seq = first_seq_ + written.rows - 1;
  const std::string marker = fmt::format("{},{}", part_.until.segment, part_.until.offset);
  iceberg::SnapshotChange append;
  append.added = written.files;
  append.written_schema = metadata_->schema();
  append.required_spec = metadata_->spec();
  append.summary = {{"firn.spool", part_.spool_id},
                    {"firn.flushed", marker},
                    {"firn.first-seq", std::to_string(first_seq_)},
                    {"firn.last-seq", std::to_string(last_seq)}};
  const std::vector<Open> opens = cache_.sequence().opens();
  append.plan_try = [&](const TableMetadata& base, int64_t, int64_t) {
    if (base.int_property(kMaxSeqProperty, 0) >= first_seq_) {
      fail(ErrorKind::commit_conflict, "table {}: another writer stamped rows without the partition lock",
           base.location);
    }
    iceberg::TryPlan plan;
    plan.set_properties = {{kFlushedPrefix + part_.spool_id, marker},
                           {kMaxSeqProperty, std::to_string(last_seq)},
                           {kLastFlushProperty, format_timestamp_ms_utc(now_ms())},
                           {kOpensProperty, opens_property(base, opens, first_seq_)}};
    if (const auto seen = part_.received_commits)
      plan.set_properties[kReceivedPrefix + part_.spool_id] = std::to_string(*seen);
    return plan;
  };
  fault_point("flush.commit");
  iceberg::commit_snapshot(*held_->operations, append);
  fault_point("flush.committed");
  warn_of_timestamp_column();
}

void PartitionWriter::warn_of_timestamp_column() const {
  const std::string& name = config_.primary_timestamp_column;
  const iceberg::Field* field = name.empty() ? nullptr : metadata_->schema().find_field(std::string_view(name));
  if (field == nullptr) return;  // it has not come yet
  if (iceberg::can_transform(iceberg::Transform::parse("day"), *field->type)) return;
  warn_once(
      fmt::format("dataset {}: primaryTimestampColumn {} is {}, no time: its rows age by when they were ingested, and "
                  "archives have no days. Its type is for good: to have a time, declare the column in \"columns\" "
                  "(timestamptz, or timestamptz_ns for more than 6 digits of a second) of a new dataset, and capture "
                  "into that",
                  partition_.dataset, name, field->type->to_string()));
}

void PartitionWriter::remove(const Written& written) {
  try {
    // It may have landed, and what came after it failed.
    if (held_ && held_->operations->load().metadata->int_property(kMaxSeqProperty, 0) >= first_seq_) return;
    for (const iceberg::DataFile& file : written.files) table_io()->remove(file.file_path);
  } catch (const Error& e) {  // what stays is named by no snapshot
    spdlog::warn("{}", e.what());
  }
}

}  // namespace

std::string timestamp_column(const DatasetConfig& config) {
  if (!config.primary_timestamp_column.empty()) return config.primary_timestamp_column;
  for (const iceberg::PartitionDeclaration& field : config.cache_partitioning) {
    for (const char* transform : {"year", "month", "day", "hour"}) {
      if (field.transform == transform) return field.column;
    }
  }
  return "";
}

PartitionFlushed flush_partition(Cache& cache, const DatasetConfig& config, const PartitionId& partition,
                                 const SpoolPart& part, std::vector<LineRange> lines, SeenColumns& seen) {
  const FileLock partition_lock = cache.lock(partition);
  std::optional<HeldTable> held = cache.hold(partition, /*acting=*/true);
  if (held) {
    adopt_table(cache, partition, *held);
    cache.remove_leftovers(partition, *held);
    if (const auto marker = flushed_until(*held->table.metadata, part.spool_id)) {
      if (*marker > part.end) {
        throw SpoolIsOlder(
            ErrorKind::corrupt,
            fmt::format("{}: it has rows of spool {} up to segment {}, past what the spool ever held (segment {}): the "
                        "spool is older than the table, restored from a backup perhaps. Its rows cannot be told from "
                        "those that are there; they stay in the spool. Move its segments up to {} elsewhere, put an "
                        "empty file in the place of each, and capture again what is new in them",
                        held->table.metadata->location, part.spool_id, marker->segment, part.end.segment,
                        part.end.segment));
      }
      std::erase_if(lines, [&](const LineRange& range) { return range.frame->begin < *marker; });
    }
  }
  std::vector<Job> jobs = make_jobs(lines);
  if (jobs.empty()) return {};

  PartitionWriter writer(cache, config, partition, part, seen, std::move(jobs));
  Written written = held ? writer.write_existing(std::move(*held)) : writer.write_new();
  fault_point("flush.written");
  try {
    // Before the commit: past its marker nobody looks at these lines again.
    RejectsFile(cache.config().cache_root, partition.dataset).append(part.spool_id, written.rejected);
    if (written.rows > 0) writer.commit(written);
  } catch (const Error& e) {
    if (e.kind() != ErrorKind::commit_unknown) writer.remove(written);
    throw;
  }
  return {written.rows, std::move(written.rejected)};
}

}  // namespace firn::hyp
