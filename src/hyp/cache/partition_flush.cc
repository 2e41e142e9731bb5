#include "hyp/cache/partition_flush.h"

#include "base/arrow_status.h"
#include "base/fault_point.h"
#include "base/uri.h"
#include "hyp/cache/layout.h"
#include "hyp/cache/new_table.h"
#include "hyp/cache/visible_schema.h"
#include "iceberg/commit/commit.h"
#include "iceberg/parquet/arrow_schema.h"
#include "iceberg/write/append_writer.h"

namespace firn::hyp {
namespace {

constexpr size_t kOpensKept = 64;  // as many as destinations keep (P10.7)
constexpr size_t kSampleJobs = 2;

using iceberg::Field;
using iceberg::LoadedTable;
using iceberg::Schema;
using iceberg::TableMetadata;

// The partition's lines parsed under the columns that its table has, or will have.
struct Prepared {
  std::optional<HeldTable> held;            // nullopt: the table is still to be made
  std::string table_dir;                    // of the table to be made
  std::shared_ptr<const TableMetadata> metadata;
  std::vector<ParsedJob> parsed;
};

RowParserOptions parser_options(const DatasetConfig& config) {
  RowParserOptions options;
  options.new_columns_rejected = !config.allow_new_columns;
  options.row_bytes_max = config.row_bytes_max;
  return options;
}

bool any_new_columns(const std::vector<ParsedJob>& parsed) {
  return std::any_of(parsed.begin(), parsed.end(), [](const ParsedJob& job) { return job.has_new_columns; });
}

// Among partitions of one dataset a column has one type, so that the dataset is one table to queries and sinks: who makes or
// widens a schema looks at the others under this lock. Taken within a partition lock; nothing is waited for within it but the
// allocator.
FileLock lock_dataset_schema(const Cache& cache, const std::string& dataset) {
  const std::string folder = join_path(join_path(cache.config().cache_root, "datasets"), encode_segment(dataset));
  return FileLock::acquire(join_path(folder, "schema.lock"), FileLock::Mode::exclusive);
}

// The column whose strings are read as timestamps where nobody declared a type.
std::string timestamp_column(const DatasetConfig& config) {
  if (!config.primary_timestamp_column.empty()) return config.primary_timestamp_column;
  for (const iceberg::PartitionDeclaration& field : config.cache_partitioning) {
    for (const char* transform : {"year", "month", "day", "hour"}) {
      if (field.transform == transform) return field.column;
    }
  }
  return "";
}

// A partition field needs its column from the start, even if the first rows do not have it.
Schema with_partition_columns(const Schema& schema, const DatasetConfig& config) {
  std::vector<Field> fields = schema.fields();
  int32_t id = schema.highest_field_id();
  for (const iceberg::PartitionDeclaration& declared : config.cache_partitioning) {
    const bool is_there = std::any_of(fields.begin(), fields.end(), [&](const Field& f) { return f.name == declared.column; });
    if (is_there || declared.column.find('.') != std::string::npos) continue;
    const bool is_time = declared.column == timestamp_column(config);
    fields.push_back({++id, declared.column, false,
                      iceberg::Type::primitive(is_time ? iceberg::TypeId::timestamptz : iceberg::TypeId::string)});
  }
  return Schema(std::move(fields));
}

// The first table of the partition, not yet published. Requires the dataset's schema lock.
Prepared prepare_new(const Cache& cache, const DatasetConfig& config, const PartitionId& partition, const std::vector<Job>& jobs) {
  Prepared prepared;
  prepared.table_dir = next_table_dir(cache, partition);
  const std::string location = generation_folder(cache.folder(partition), prepared.table_dir);
  const Schema known = cache.dataset_schema(partition.dataset);
  const auto parse_under = [&](const Schema& wanted) {
    const Schema columns = config.schema ? wanted : with_partition_columns(wanted, config);
    prepared.metadata = std::make_shared<TableMetadata>(new_cache_table(location, columns, config));
    prepared.parsed = parse_jobs(jobs, without_hidden(prepared.metadata->schema()), parser_options(config));
  };
  if (!config.allow_new_columns) {
    parse_under(known);
    return prepared;
  }
  const auto infer = [&](const std::vector<Job>& from) {
    return infer_schema(from, known, config.row_bytes_max, timestamp_column(config));
  };
  // The first lines nearly always show all columns. What the rest adds or contradicts shows when it is parsed; only then is
  // every line looked at, so that the schema never depends on the sample.
  const std::vector<Job> sample(jobs.begin(), jobs.begin() + static_cast<ptrdiff_t>(std::min(kSampleJobs, jobs.size())));
  const Schema sampled = infer(sample);
  parse_under(sampled);
  const bool is_contradicted = std::any_of(prepared.parsed.begin(), prepared.parsed.end(), [](const ParsedJob& job) {
    return job.has_new_columns || job.has_rejected_columns;
  });
  if (!is_contradicted || sample.size() == jobs.size()) return prepared;
  if (const Schema all = infer(jobs); !all.same_fields(sampled)) parse_under(all);
  return prepared;
}

// `wanted` in the table before any file needs it (P2).
void widen(Prepared& prepared, const Schema& wanted) {
  LoadedTable head = iceberg::evolve_schema(*prepared.held->operations, wanted);
  fault_point("flush.schema-evolved");
  prepared.metadata = head.metadata;
  prepared.held->table = std::move(head);
}

Prepared prepare_existing(const Cache& cache, const DatasetConfig& config, const PartitionId& partition, HeldTable held,
                          const std::vector<Job>& jobs) {
  Prepared prepared;
  prepared.metadata = held.table.metadata;
  prepared.held = std::move(held);
  const auto visible = [&] { return without_hidden(prepared.metadata->schema()); };
  // A declaration that grew since the table was made.
  if (config.schema) widen(prepared, *config.schema);
  prepared.parsed = parse_jobs(jobs, visible(), parser_options(config));
  if (!config.allow_new_columns || !any_new_columns(prepared.parsed)) return prepared;

  std::vector<Job> news;
  for (size_t i = 0; i < jobs.size(); ++i) {
    if (prepared.parsed[i].has_new_columns) news.push_back(jobs[i]);
  }
  const FileLock schema_lock = lock_dataset_schema(cache, partition.dataset);
  const Schema known = merge_schemas(visible(), cache.dataset_schema(partition.dataset), partition.dataset);
  widen(prepared, infer_schema(news, known, config.row_bytes_max, timestamp_column(config)));
  prepared.parsed = parse_jobs(jobs, visible(), parser_options(config));
  return prepared;
}

int64_t count_rows(const std::vector<ParsedJob>& parsed) {
  int64_t rows = 0;
  for (const ParsedJob& job : parsed) rows += job.rows->num_rows();
  return rows;
}

std::shared_ptr<arrow::Array> make_sequence(int64_t first, int64_t count) {
  arrow::Int64Builder builder;
  check(builder.Reserve(count), "sequence numbers");
  for (int64_t i = 0; i < count; ++i) builder.UnsafeAppend(first + i);
  return check(builder.Finish(), "sequence numbers");
}

// The job's rows in the columns of the table, numbered from `first_seq`.
std::shared_ptr<arrow::RecordBatch> stamp(const ParsedJob& job, const std::shared_ptr<arrow::Schema>& columns, int64_t first_seq) {
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

// Each job is dropped as it is written.
std::vector<iceberg::DataFile> write_rows(const Cache& cache, const TableMetadata& metadata, std::vector<ParsedJob>& parsed,
                                          int64_t first_seq) {
  iceberg::WriteOptions options;
  options.already_sorted = true;  // numbers ascend in the order of the lines
  iceberg::AppendWriter writer(cache.io(), metadata, options);
  const auto columns = iceberg::to_arrow_schema(metadata.schema());
  for (ParsedJob& job : parsed) {
    const int64_t rows = job.rows->num_rows();
    if (rows > 0) writer.write(stamp(job, columns, first_seq));
    first_seq += rows;
    job = ParsedJob();
  }
  return writer.finish();
}

// The base's firn.opens with the open that issued `seq`.
std::string opens_property(const TableMetadata& base, const std::vector<Open>& opens, int64_t seq) {
  std::vector<Open> kept;
  if (const std::string text = base.property(kOpensProperty, ""); !text.empty()) {
    kept = opens_from_json(parse_json(text, base.location), base.location);
  }
  const Open* issuer = nullptr;
  for (const Open& open : opens) {
    if (open.from_seq <= seq) issuer = &open;
  }
  if (issuer != nullptr && (kept.empty() || kept.back().from_seq < issuer->from_seq)) kept.push_back(*issuer);
  if (kept.size() > kOpensKept) kept.erase(kept.begin(), kept.end() - kOpensKept);
  return opens_to_json(kept).dump();
}

// Whether `error` proves that no version of the table names the data files.
bool is_known_failure(const Error& error) {
  return error.kind() == ErrorKind::commit_conflict || error.kind() == ErrorKind::schema_mismatch ||
         error.kind() == ErrorKind::partition_spec_drift;
}

struct Commit {
  std::vector<iceberg::DataFile> files;
  int64_t first_seq = 0, last_seq = 0;
  std::string spool_id;
  SpoolPosition until;
};

void commit_rows(Cache& cache, HeldTable& held, const TableMetadata& written, const Commit& commit) {
  iceberg::AppendCommit append;
  append.files = commit.files;
  append.written_schema = written.schema();
  append.written_spec = written.spec();
  const std::string marker = fmt::format("{},{}", commit.until.segment, commit.until.offset);
  append.summary = {{"firn.spool", commit.spool_id},
                    {"firn.flushed", marker},
                    {"firn.first-seq", std::to_string(commit.first_seq)},
                    {"firn.last-seq", std::to_string(commit.last_seq)}};
  const std::vector<Open> opens = cache.sequence().opens();
  append.plan_try = [&](const TableMetadata& base, int64_t, int64_t) {
    if (base.int_property(kMaxSeqProperty, 0) >= commit.first_seq) {
      fail(ErrorKind::commit_conflict, "table {}: another writer stamped rows without the partition lock", base.location);
    }
    iceberg::TryPlan plan;
    plan.set_properties = {{kFlushedPrefix + commit.spool_id, marker},
                           {kMaxSeqProperty, std::to_string(commit.last_seq)},
                           {kOpensProperty, opens_property(base, opens, commit.first_seq)}};
    return plan;
  };
  fault_point("flush.commit");
  try {
    iceberg::commit_append(*held.operations, append);
  } catch (const Error& e) {
    if (is_known_failure(e)) {
      for (const iceberg::DataFile& file : commit.files) cache.io()->remove(file.file_path);
    }
    throw;
  }
  fault_point("flush.committed");
}

}  // namespace

PartitionFlushed flush_partition(Cache& cache, const DatasetConfig& config, const PartitionId& partition,
                                 const std::string& spool_id, SpoolPosition until, std::vector<LineRange> lines) {
  const FileLock partition_lock = cache.lock(partition);
  std::optional<HeldTable> held = cache.hold(partition, /*acting=*/true);
  if (held) {
    if (const auto marker = flushed_until(*held->table.metadata, spool_id)) {
      std::erase_if(lines, [&](const LineRange& range) { return range.frame->begin < *marker; });
    }
  }
  PartitionFlushed done;
  const std::vector<Job> jobs = make_jobs(lines);
  if (jobs.empty()) return done;

  std::optional<FileLock> schema_lock;
  if (!held) schema_lock = lock_dataset_schema(cache, partition.dataset);
  Prepared prepared = held ? prepare_existing(cache, config, partition, std::move(*held), jobs)
                           : prepare_new(cache, config, partition, jobs);
  for (ParsedJob& job : prepared.parsed) {
    std::move(job.rejected.begin(), job.rejected.end(), std::back_inserter(done.rejected));
  }
  // Before the commit: past its marker nobody looks at these lines again.
  RejectsFile(cache.config().cache_root, partition.dataset).append(spool_id, done.rejected);
  const int64_t rows = count_rows(prepared.parsed);
  if (rows == 0) return done;

  if (!prepared.held) {
    publish_first_table(cache, partition, prepared.table_dir, *prepared.metadata);
    schema_lock.reset();
    prepared.held = cache.hold(partition);
    if (!prepared.held) fail(ErrorKind::io, "the cursor that was just written is gone");
  }
  Commit commit;
  commit.spool_id = spool_id;
  commit.until = until;
  commit.first_seq = cache.sequence().reserve(rows, prepared.metadata->int_property(kMaxSeqProperty, 0));
  commit.last_seq = commit.first_seq + rows - 1;
  commit.files = write_rows(cache, *prepared.metadata, prepared.parsed, commit.first_seq);
  fault_point("flush.written");
  commit_rows(cache, *prepared.held, *prepared.metadata, commit);
  done.rows = rows;
  return done;
}

}  // namespace firn::hyp
