// Parquet data files with the metrics that Iceberg manifests carry.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include <arrow/record_batch.h>

#include "iceberg/manifest/manifest.h"
#include "io/file_io.h"

namespace firn::iceberg {

// From the table's properties (write.parquet.*, write.metadata.metrics.*), read once.
struct ParquetWriteOptions {
  std::string compression = "zstd";          // write.parquet.compression-codec: zstd, gzip, snappy, lz4, uncompressed
  std::optional<int> compression_level;      // write.parquet.compression-level
  int64_t row_group_size_bytes = 134217728;  // write.parquet.row-group-size-bytes
  int64_t page_size_bytes = 1048576;         // write.parquet.page-size-bytes
  int64_t page_row_limit = 20000;            // write.parquet.page-row-limit
  int64_t dict_size_bytes = 2097152;         // write.parquet.dict-size-bytes
  // Bounds mode of a column id: none, counts, truncate(n) or full; write.metadata.metrics.default and .column.<name>,
  // the first 100 columns (write.metadata.metrics.max-inferred-column-defaults) unless set.
  std::map<int32_t, std::string> metrics_modes;
  std::string default_metrics_mode = "truncate(16)";
  struct BloomFilter {
    double false_positives = 0.01;  // write.parquet.bloom-filter-fpp.column.<name>
    // write.parquet.bloom-filter-ndv.column.<name>; nullopt: as many as fit, and less is written where it suffices
    std::optional<int64_t> distinct_values;
  };
  // By column id: write.parquet.bloom-filter-enabled.column.<name> = true. Booleans have none.
  std::map<int32_t, BloomFilter> bloom_filters;
  int64_t bloom_filter_bytes_max = 1048576;  // write.parquet.bloom-filter-max-bytes, of one in a row group
  // write.parquet.stats-enabled.column.<name>, .default: minima, maxima and null counts in the file. Without them the
  // column has no page index, and the manifest says less of it.
  std::map<int32_t, bool> statistics;
  bool default_statistics = true;
  bool use_threads = true;  // encode columns on Arrow's CPU pool

  // For data files, or for delete files, whose write.delete.parquet.* come first. Names are those of the current
  // schema; properties of columns that it lacks do not matter. Throws invalid_argument naming the property.
  static ParquetWriteOptions from_properties(const TableMetadata& metadata, FileContent content = FileContent::data);
};

// One file, written batch by batch; statistics, page index and split offsets included. One thread, which is none of
// Arrow's CPU pool where options.use_threads is set (it would wait for itself).
class ParquetFileWriter {
 public:
  // `schema` has field ids; batches must have to_arrow_schema(schema). Columns of type unknown are not stored.
  ParquetFileWriter(FileIO& io, const std::string& path, const Schema& schema, const ParquetWriteOptions& options);
  // Into `file`, which close() publishes.
  ParquetFileWriter(std::unique_ptr<OutputFile> file, const Schema& schema, const ParquetWriteOptions& options);
  ~ParquetFileWriter();  // without close(): nothing is left behind
  void write(const arrow::RecordBatch& batch);
  int64_t bytes_written() const;   // what is in the file and in the encoders' buffers, compressed
  int64_t buffered_bytes() const;  // what the open row group holds in memory
  int64_t rows_written() const;
  void end_row_group();  // what is buffered goes to the file; the next write() opens a new group
  // Compresses and writes the last pages and the footer. No row may follow, and all that close() does is wait for the
  // disk.
  void write_footer();
  // Writes the footer if that is still to do, syncs and publishes the file (P15). Counts, null and NaN counts,
  // truncated bounds, sizes and split offsets are set; partition, sort order and sequence numbers are the caller's.
  DataFile close();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace firn::iceberg
