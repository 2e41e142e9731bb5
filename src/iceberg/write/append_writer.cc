#include "iceberg/write/append_writer.h"

#include <algorithm>
#include <mutex>

#include <arrow/util/byte_size.h>

#include "base/arrow_status.h"
#include "base/error.h"
#include "base/log.h"
#include "base/parallel.h"
#include "base/uri.h"
#include "base/uuid.h"
#include "iceberg/parquet/arrow_schema.h"
#include "iceberg/parquet/parquet_schema.h"
#include "iceberg/write/array_values.h"
#include "iceberg/write/delete_writer.h"
#include "iceberg/write/group_rows.h"
#include "iceberg/write/partitioner.h"
#include "iceberg/write/row_sorter.h"
#include "iceberg/write/sort_keys.h"

namespace firn::iceberg {

namespace {

// Where rows keep their order and so fan out to their partitions; each open file takes about a MiB at the least.
constexpr int64_t kOpenFilesMin = 16, kOpenFilesMax = 128;
constexpr int64_t kTargetFileSizeBytes = 512LL << 20;
constexpr int64_t kStepBytesMax = 8 << 20;    // sizes are looked at between steps
constexpr int64_t kParallelRowsMin = 8192;    // a batch with less is split sooner than threads begin
constexpr int64_t kSplitBytesMax = 32 << 20;  // of rows that are held a second time, in their partitions' order
constexpr int kSyncsMax = 16;                 // files that wait for the disk at once: what it does for one is not much

// Runs of rows of one partition: calls visit(partition, first, count).
template <class Visit>
void for_each_run(const std::vector<uint32_t>& partitions, Visit&& visit) {
  for (size_t first = 0; first < partitions.size();) {
    size_t end = first + 1;
    while (end < partitions.size() && partitions[end] == partitions[first]) ++end;
    visit(partitions[first], static_cast<int64_t>(first), static_cast<int64_t>(end - first));
    first = end;
  }
}

}  // namespace

struct AppendWriter::State {
  std::shared_ptr<FileIO> io;
  std::vector<int32_t> equality_ids;  // not empty: delete files
  Schema schema;                      // of the files
  std::string location;               // of the table, for errors
  bool stores_nothing;
  PartitionSpec spec;
  SortOrder order;
  std::optional<int32_t> sort_order_id;
  ParquetWriteOptions parquet_options;
  int64_t target_bytes;
  int64_t memory_bytes_max;
  std::string data_folder;
  std::string file_prefix = uuid_v4();
  Partitioner partitioner;
  SortKeyEncoder sort_keys;
  bool sorts;        // else rows keep their order within a partition
  RowSorter sorter;  // of all rows, or of those whose partitions are too many to be open at once
  int threads;
  int64_t rows_written = 0;
  std::map<uint32_t, std::unique_ptr<ParquetFileWriter>> open_files;  // by partition; each used by one thread at a time
  std::vector<uint32_t> place_of_partition;  // place_partitions()' own, so that few rows of many partitions cost little
  std::vector<bool> to_sorter;               // partitions that the sorter has rows of
  std::mutex mutex;                          // of what follows
  int64_t next_file = 0;
  std::vector<DataFile> files;
  bool finished = false;

  State(std::shared_ptr<FileIO> file_io, const TableMetadata& metadata, const WriteOptions& options)
      : io(std::move(file_io)),
        equality_ids(options.equality_ids),
        schema(schema_of(metadata, options)),
        location(metadata.location),
        stores_nothing(stored_schema(schema).fields().empty()),
        spec(metadata.spec()),
        order(order_of(metadata, options)),
        sort_order_id(order_id_of(metadata, order, options)),
        parquet_options(ParquetWriteOptions::from_properties(metadata)),
        target_bytes(options.target_file_size_bytes.value_or(
            metadata.int_property("write.target-file-size-bytes", kTargetFileSizeBytes))),
        memory_bytes_max(options.memory_bytes_max),
        data_folder(metadata.property("write.data.path", join_path(metadata.location, "data"))),
        partitioner(spec, schema),
        sort_keys(options.already_sorted ? SortOrder{} : order, schema),
        sorts(!options.already_sorted && !order.fields.empty()),
        sorter(
            to_arrow_schema(schema), [this](const arrow::RecordBatch& batch) { return keys_of(batch); },
            options.memory_bytes_max / 2, options.spill_folder),
        threads(options.threads) {
    if (target_bytes <= 0)
      fail(ErrorKind::invalid_argument, "the target file size is {} bytes: it must be above 0", target_bytes);
    parquet_options.row_group_size_bytes =
        std::min(parquet_options.row_group_size_bytes, std::max<int64_t>(1 << 20, memory_bytes_max / 4));
  }

  ~State() {
    if (finished) return;
    open_files.clear();
    for (const DataFile& file : files) {
      try {
        io->remove(file.file_path);
      } catch (const Error& error) {
        // No snapshot names it: orphan removal finds it.
        spdlog::debug("remove {}: {}", file.file_path, error.what());
      }
    }
  }

  static Schema schema_of(const TableMetadata& metadata, const WriteOptions& options) {
    if (!options.equality_ids.empty()) return equality_delete_schema(metadata, options.equality_ids);
    if (!options.row_lineage) return metadata.schema();
    if (metadata.format_version < 3)
      fail(ErrorKind::invalid_argument, "table {} has format version {}: rows have no lineage before version 3",
           metadata.location, metadata.format_version);
    std::vector<Field> fields = metadata.schema().fields();
    const TypePtr type = Type::primitive(TypeId::long_);
    fields.push_back({.id = kRowIdFieldId, .name = "_row_id", .type = type});
    fields.push_back({.id = kLastUpdatedSequenceNumberFieldId, .name = "_last_updated_sequence_number", .type = type});
    return Schema(std::move(fields), metadata.schema().schema_id());
  }

  static SortOrder order_of(const TableMetadata& metadata, const WriteOptions& options) {
    if (!options.equality_ids.empty()) return {};
    return options.sort_order ? *options.sort_order : metadata.sort_order();
  }

  // Files say an order that readers find in the table; delete files say none.
  static std::optional<int32_t> order_id_of(const TableMetadata& metadata, const SortOrder& order,
                                            const WriteOptions& options) {
    if (!options.equality_ids.empty()) return std::nullopt;
    for (const SortOrder& known : metadata.sort_orders) {
      if (known.order_id == order.order_id && known.to_json() == order.to_json()) return order.order_id;
    }
    return 0;
  }

  SortKeys keys_of(const arrow::RecordBatch& batch) {
    if (spec.is_unpartitioned()) return sort_keys.encode(batch, nullptr);
    const std::vector<uint32_t> partitions = partitioner.assign(batch);
    return sort_keys.encode(batch, &partitions);
  }

  void write(const std::shared_ptr<arrow::RecordBatch>& batch) {
    if (batch->num_rows() == 0) return;
    if (stores_nothing)
      fail(ErrorKind::schema_mismatch,
           "table {}: none of its columns is stored, since all are of type unknown, and a Parquet file without a "
           "column has no rows: add a column of another type first",
           location);
    rows_written += batch->num_rows();
    if (sorts) return sorter.add(batch);
    fan_out(batch, partitioner.assign(*batch));
  }

  // Rows keep their order within their partition: a partition is written through, or goes to the sorter from its first
  // row on.
  void fan_out(const std::shared_ptr<arrow::RecordBatch>& batch, const std::vector<uint32_t>& partitions) {
    const bool one = std::all_of(partitions.begin(), partitions.end(), [&](uint32_t p) { return p == partitions[0]; });
    if (one) return fan_out_rows(partitions[0], batch);
    const auto [present, keys] = place_partitions(partitions);
    std::vector<bool> streamed;
    std::vector<uint32_t> fresh;  // streamed, and without a file
    for (const uint32_t partition : present) {
      streamed.push_back(streams(partition));
      // Here, so that no thread changes the map.
      if (streamed.back() && !open_files[partition]) fresh.push_back(partition);
    }
    open_new_files(fresh, present.size());
    if (std::find(streamed.begin(), streamed.end(), false) == streamed.end())
      return fan_out_streamed(batch, present, keys);
    std::vector<int64_t> streamed_rows, sorter_rows;
    std::vector<uint32_t> streamed_keys;
    for (size_t row = 0; row < keys.size(); ++row) {
      const bool is_streamed = streamed[keys[row]];
      (is_streamed ? streamed_rows : sorter_rows).push_back(static_cast<int64_t>(row));
      if (is_streamed) streamed_keys.push_back(keys[row]);
    }
    if (!streamed_rows.empty()) fan_out_streamed(take_rows(batch, streamed_rows), present, streamed_keys);
    sorter.add(take_rows(batch, sorter_rows));
  }

  // The partitions among `partitions`, ascending, and for each row the place of its partition there.
  std::pair<std::vector<uint32_t>, std::vector<uint32_t>> place_partitions(const std::vector<uint32_t>& partitions) {
    constexpr uint32_t kNone = UINT32_MAX;
    place_of_partition.resize(partitioner.count(), kNone);
    std::vector<uint32_t> present;
    for (const uint32_t partition : partitions) {
      if (place_of_partition[partition] != kNone) continue;
      place_of_partition[partition] = 0;
      present.push_back(partition);
    }
    std::sort(present.begin(), present.end());
    for (size_t i = 0; i < present.size(); ++i) place_of_partition[present[i]] = static_cast<uint32_t>(i);
    std::vector<uint32_t> places;
    places.reserve(partitions.size());
    for (const uint32_t partition : partitions) places.push_back(place_of_partition[partition]);
    for (const uint32_t partition : present) place_of_partition[partition] = kNone;
    return {std::move(present), std::move(places)};
  }

  // Rows of partitions that are written through and have their file: present[keys[row]].
  void fan_out_streamed(const std::shared_ptr<arrow::RecordBatch>& batch, const std::vector<uint32_t>& present,
                        const std::vector<uint32_t>& keys) {
    const int64_t rows = batch->num_rows();
    const int64_t step_bytes = std::clamp<int64_t>(memory_bytes_max / 8, 1 << 20, kSplitBytesMax);
    const int64_t step = std::max<int64_t>(1, step_bytes / row_bytes(*batch));
    for (int64_t first = 0; first < rows; first += step) {
      const int64_t count = std::min(step, rows - first);
      const auto begin = keys.begin() + first;
      const int at_once = count < kParallelRowsMin ? 1 : threads;
      const GroupedRows grouped =
          group_rows(*batch->Slice(first, count), {begin, begin + count}, present.size(), at_once);
      parallel_for(grouped.groups.size(), at_once, [&](size_t i) {
        const GroupedRows::Group& group = grouped.groups[i];
        write_to_partition(present[group.key], grouped.rows->Slice(group.first, group.count));
      });
      shrink_open_files();
    }
  }

  void fan_out_rows(uint32_t partition, const std::shared_ptr<arrow::RecordBatch>& rows) {
    if (streams(partition))
      write_file(partition, rows);
    else
      sorter.add(rows);
  }

  size_t open_files_max() const {
    return static_cast<size_t>(std::clamp(memory_bytes_max >> 21, kOpenFilesMin, kOpenFilesMax));
  }

  bool streams(uint32_t partition) {
    if (partition < to_sorter.size() && to_sorter[partition]) return false;
    if (open_files.contains(partition) || open_files.size() < open_files_max()) return true;
    to_sorter.resize(std::max<size_t>(to_sorter.size(), partition + 1), false);
    to_sorter[partition] = true;
    return false;
  }

  void write_file(uint32_t partition, const std::shared_ptr<arrow::RecordBatch>& batch) {
    write_to_partition(partition, batch);
    shrink_open_files();
  }

  std::unique_ptr<ParquetFileWriter>& open_file(uint32_t partition) {
    std::unique_ptr<ParquetFileWriter>& file = open_files[partition];
    if (!file) file = std::make_unique<ParquetFileWriter>(*io, next_path(partition), schema, parquet_options);
    return file;
  }

  // One for each partition, all of which `open_files` has. Each may wait for the disk to know its folder: together.
  void open_new_files(const std::vector<uint32_t>& partitions, size_t written_at_once) {
    std::vector<std::string> paths;  // named here, so that names follow the partitions' order
    for (const uint32_t partition : partitions) paths.push_back(next_path(partition));
    ParquetWriteOptions options = parquet_options;
    // Where partitions enough are encoded at once, more threads for their columns would be in the way.
    options.use_threads &= written_at_once < 2 * static_cast<size_t>(thread_count(threads));
    parallel_for(partitions.size(), syncs_at_once(), [&](size_t i) {
      open_files.at(partitions[i]) = std::make_unique<ParquetFileWriter>(*io, paths[i], schema, options);
    });
  }

  // Waiting takes no processor.
  int syncs_at_once() const { return thread_count(threads) == 1 ? 1 : std::max(thread_count(threads), kSyncsMax); }

  static int64_t row_bytes(const arrow::RecordBatch& batch) {
    return std::max<int64_t>(1, check(arrow::util::ReferencedBufferSize(batch), "measure rows") / batch.num_rows());
  }

  // Several threads may call it, each for a partition of its own that `open_files` already has.
  void write_to_partition(uint32_t partition, const std::shared_ptr<arrow::RecordBatch>& batch) {
    const int64_t step_bytes = std::clamp<int64_t>(target_bytes / 8, 64 << 10, kStepBytesMax);
    const int64_t step = std::max<int64_t>(1, step_bytes / row_bytes(*batch));
    for (int64_t first = 0; first < batch->num_rows(); first += step) {
      // Opened when there is a row for it, and kept as null between two files: its partition goes on being written
      // through.
      const std::unique_ptr<ParquetFileWriter>& file = open_file(partition);
      file->write(step >= batch->num_rows() ? *batch : *batch->Slice(first, step));
      if (file->bytes_written() >= target_bytes) close_file(partition);
    }
  }

  // Open row groups take memory: the largest go to their files when all together take too much.
  void shrink_open_files() {
    if (open_files.size() < 2) return;  // the row group's own limit is enough
    int64_t total = 0;
    for (const auto& [partition, file] : open_files) total += file ? file->buffered_bytes() : 0;
    while (total > memory_bytes_max / 4) {
      ParquetFileWriter* largest = nullptr;
      for (const auto& [partition, file] : open_files) {
        if (file && (largest == nullptr || file->buffered_bytes() > largest->buffered_bytes())) largest = file.get();
      }
      const int64_t bytes = largest == nullptr ? 0 : largest->buffered_bytes();
      if (bytes < (1 << 20)) return;  // smaller row groups would cost more than they spare
      largest->end_row_group();
      total -= bytes;
    }
  }

  std::string next_path(uint32_t partition) {
    const std::string folder = partition_folder(data_folder, spec, partitioner.values(partition), schema);
    const std::lock_guard lock(mutex);
    return join_path(
        folder, fmt::format("{}-{:05}{}.parquet", file_prefix, next_file++, equality_ids.empty() ? "" : "-deletes"));
  }

  void close_file(uint32_t partition) {
    std::unique_ptr<ParquetFileWriter>& writer = open_files.at(partition);
    if (!writer) return;
    DataFile file = writer->close();
    writer.reset();
    file.partition = partitioner.values(partition);
    file.partition_spec_id = spec.spec_id;
    file.sort_order_id = sort_order_id;
    if (!equality_ids.empty()) {
      file.content = FileContent::equality_deletes;
      file.equality_ids = equality_ids;
    }
    const std::lock_guard lock(mutex);
    files.push_back(std::move(file));
  }

  // Closing compresses the last pages, on as many threads as may, and waits for the disk: many files at once wait
  // together.
  void close_open_files() {
    std::vector<uint32_t> partitions;
    for (const auto& [partition, file] : open_files) {
      if (file) partitions.push_back(partition);
    }
    std::vector<std::mutex> encoders(static_cast<size_t>(thread_count(threads)));
    parallel_for(partitions.size(), syncs_at_once(), [&](size_t i) {
      {
        const std::lock_guard encodes(encoders[i % encoders.size()]);
        open_files.at(partitions[i])->write_footer();
      }
      close_file(partitions[i]);
    });
    open_files.clear();
  }

  std::vector<DataFile> finish() {
    close_open_files();
    std::optional<uint32_t> open;  // partitions come one after another
    sorter.finish([&](const std::shared_ptr<arrow::RecordBatch>& rows) {
      for_each_run(partitioner.assign(*rows), [&](uint32_t partition, int64_t first, int64_t count) {
        if (open && *open != partition) {
          close_file(*open);
          open_files.erase(*open);
        }
        open = partition;
        write_file(partition, rows->Slice(first, count));
      });
    });
    if (open) close_file(*open);
    open_files.clear();
    const auto name = [](const DataFile& file) { return file.file_path.substr(file.file_path.rfind('/') + 1); };
    std::sort(files.begin(), files.end(),  // as they were begun, whichever was closed first
              [&](const DataFile& a, const DataFile& b) { return name(a) < name(b); });
    finished = true;
    return std::move(files);
  }
};

AppendWriter::AppendWriter(std::shared_ptr<FileIO> io, const TableMetadata& metadata, const WriteOptions& options)
    : state_(std::make_unique<State>(std::move(io), metadata, options)) {}

AppendWriter::~AppendWriter() = default;

void AppendWriter::write(const std::shared_ptr<arrow::RecordBatch>& batch) {
  state_->write(conform(batch, state_->schema));
}

int64_t AppendWriter::rows_written() const { return state_->rows_written; }

int64_t AppendWriter::runs_spilled() const { return state_->sorter.runs_spilled(); }

std::vector<DataFile> AppendWriter::finish() { return state_->finish(); }

}  // namespace firn::iceberg
