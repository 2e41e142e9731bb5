#include "iceberg/parquet/file_writer.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include <arrow/util/byte_size.h>
#include <arrow/util/compression.h>
#include <parquet/arrow/writer.h>
#include <parquet/bloom_filter.h>
#include <parquet/file_writer.h>
#include <parquet/properties.h>

#include "base/arrow_status.h"
#include "base/threads.h"
#include "iceberg/parquet/array_adapter.h"
#include "iceberg/parquet/arrow_schema.h"
#include "iceberg/parquet/column_metrics.h"
#include "iceberg/parquet/parquet_error.h"
#include "iceberg/parquet/parquet_schema.h"

namespace firn::iceberg {

namespace {

// Sizes are looked at between slices, so a slice is small against a row group.
constexpr int64_t kSliceRowsMax = 65536;
constexpr int64_t kSliceBytesMax = 8 << 20;
// Longer minima and maxima are left out of footer and page index, which they would dominate: a page of a megabyte holds
// more than 60 values of this size.
constexpr size_t kStatisticsSizeMax = 16 << 10;

// Passes everything on to a Parquet writer and remembers the row group that is open, whose sizes Arrow's writer hides.
class WatchedFile : public parquet::ParquetFileWriter::Contents {
 public:
  WatchedFile(std::unique_ptr<parquet::ParquetFileWriter> inner, std::shared_ptr<parquet::schema::GroupNode> schema,
              parquet::RowGroupWriter** open_group)
      : Contents(std::move(schema), nullptr), inner_(std::move(inner)), open_group_(open_group) {}

  void Close() override {
    *open_group_ = nullptr;
    inner_->Close();
    file_metadata_ = inner_->metadata();
  }
  parquet::RowGroupWriter* AppendRowGroup() override { return *open_group_ = inner_->AppendRowGroup(); }
  parquet::RowGroupWriter* AppendBufferedRowGroup() override { return *open_group_ = inner_->AppendBufferedRowGroup(); }
  int64_t num_rows() const override { return inner_->num_rows(); }
  int num_columns() const override { return inner_->num_columns(); }
  int num_row_groups() const override { return inner_->num_row_groups(); }
  const std::shared_ptr<parquet::WriterProperties>& properties() const override { return inner_->properties(); }
  void AddKeyValueMetadata(const std::shared_ptr<const arrow::KeyValueMetadata>& metadata) override {
    inner_->AddKeyValueMetadata(metadata);
  }

 private:
  std::unique_ptr<parquet::ParquetFileWriter> inner_;
  parquet::RowGroupWriter** open_group_;
};

arrow::Compression::type parse_codec(std::string name) {
  std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return std::tolower(c); });
  std::optional<arrow::Compression::type> codec;
  if (name == "zstd") codec = arrow::Compression::ZSTD;
  if (name == "gzip") codec = arrow::Compression::GZIP;
  if (name == "snappy") codec = arrow::Compression::SNAPPY;
  if (name == "lz4" || name == "lz4_raw") codec = arrow::Compression::LZ4;
  if (name == "brotli") codec = arrow::Compression::BROTLI;
  if (name == "uncompressed" || name == "none") codec = arrow::Compression::UNCOMPRESSED;
  if (!codec || !arrow::util::Codec::IsAvailable(*codec))
    fail(ErrorKind::invalid_argument,
         "write.parquet.compression-codec = {}: give zstd, gzip, snappy, lz4, brotli or uncompressed", name);
  return *codec;
}

// Whether a sample of the column repeats no value: then there are so many that a dictionary of them would be dropped
// for its size after it was built. (Of 2048 out of 250,000 values, the fewest that fill a dictionary, some repeat.)
bool is_all_distinct(const arrow::Array& array) {
  constexpr int64_t kSampleRows = 2048;
  constexpr size_t kSampleValuesMin = 1000;
  constexpr size_t kSlots = 4096;  // a power of two, half of which stay free
  const bool is_bytes = arrow::is_binary_like(array.type_id());
  const bool is_fixed = arrow::is_fixed_width(array.type_id()) && array.type_id() != arrow::Type::BOOL;
  if (!is_bytes && !is_fixed) return false;
  const size_t width = is_fixed ? static_cast<size_t>(array.type()->byte_width()) : 0;
  const char* values = is_fixed ? reinterpret_cast<const char*>(array.data()->GetValues<uint8_t>(1, 0)) : nullptr;
  std::array<size_t, kSlots> seen{};  // hashes; 0: none. That two values share one costs a dictionary, no more
  size_t count = 0;
  for (int64_t i = 0; i < std::min(array.length(), kSampleRows); ++i) {
    if (array.IsNull(i)) continue;
    const std::string_view value =
        is_bytes ? static_cast<const arrow::BinaryArray&>(array).GetView(i)
                 : std::string_view(values + static_cast<size_t>(array.offset() + i) * width, width);
    const size_t hash = std::max<size_t>(1, std::hash<std::string_view>()(value));
    size_t slot = hash % kSlots;
    while (seen[slot] != 0 && seen[slot] != hash) slot = (slot + 1) % kSlots;
    if (seen[slot] == hash) return false;
    seen[slot] = hash;
    ++count;
  }
  return count >= kSampleValuesMin;
}

// As many values as the property says, or as the greatest filter of at most `bytes_max` has room for.
parquet::BloomFilterOptions bloom_filter_options(const ParquetWriteOptions::BloomFilter& wanted, int64_t bytes_max) {
  using Filter = parquet::BlockSplitBloomFilter;
  const double fpp = wanted.false_positives;
  // Filters are of a power of two of bytes; bits = -8 values / ln(1 - fpp^(1/8)).
  const double bits = 8 * std::exp2(std::floor(std::log2(static_cast<double>(std::clamp<int64_t>(
                              bytes_max, Filter::kMinimumBloomFilterBytes, Filter::kMaximumBloomFilterBytes)))));
  const auto values_max = static_cast<int64_t>(-bits * std::log(1 - std::pow(fpp, 1.0 / 8)) / 8);
  parquet::BloomFilterOptions options;
  options.fpp = fpp;
  options.ndv = std::max<int64_t>(1, std::min(wanted.distinct_values.value_or(values_max), values_max));
  return options;
}

void set_column_properties(const ParquetWriteOptions& options, const Schema& stored,
                           parquet::WriterProperties::Builder& builder) {
  parquet::SchemaDescriptor schema;
  schema.Init(to_parquet_schema(stored));
  const std::vector<LeafColumn> leaves = leaf_columns(stored);
  for (size_t i = 0; i < leaves.size(); ++i) {
    const parquet::ColumnDescriptor& column = *schema.Column(static_cast<int>(i));
    if (!leaves[i].id) continue;
    const auto bloom = options.bloom_filters.find(*leaves[i].id);
    if (bloom != options.bloom_filters.end() && column.physical_type() != parquet::Type::BOOLEAN)
      builder.enable_bloom_filter(column.path(), bloom_filter_options(bloom->second, options.bloom_filter_bytes_max));
    const auto statistics = options.statistics.find(*leaves[i].id);
    if (!(statistics == options.statistics.end() ? options.default_statistics : statistics->second))
      builder.disable_statistics(column.path())->disable_write_page_index(column.path());
  }
}

// `sample`: the first rows, nullptr if there are none.
std::shared_ptr<parquet::WriterProperties> writer_properties(const ParquetWriteOptions& options, const Schema& stored,
                                                             const arrow::RecordBatch* sample) {
  parquet::WriterProperties::Builder builder;
  const auto codec = parse_codec(options.compression);
  builder.version(parquet::ParquetVersion::PARQUET_2_6)
      ->compression(codec)
      ->data_pagesize(options.page_size_bytes)
      ->max_rows_per_page(options.page_row_limit)
      ->dictionary_pagesize_limit(options.dict_size_bytes)
      ->max_statistics_size(kStatisticsSizeMax)
      ->enable_statistics()
      ->enable_write_page_index()
      ->enable_page_checksum()
      ->enable_store_decimal_as_integer();
  if (options.compression_level && codec != arrow::Compression::UNCOMPRESSED && codec != arrow::Compression::SNAPPY)
    builder.compression_level(*options.compression_level);
  set_column_properties(options, stored, builder);
  for (int i = 0; sample != nullptr && i < sample->num_columns(); ++i) {
    if (is_all_distinct(*sample->column(i)))
      builder.disable_dictionary(parquet::schema::ColumnPath({sample->column_name(i)}).ToDotString());
  }
  return builder.build();
}

}  // namespace

namespace {

// write.parquet.*.column.<name>
void set_column_options(const TableMetadata& metadata, ParquetWriteOptions& options) {
  const auto for_each_column = [&](std::string_view prefix, const auto& visit) {
    for (const auto& [key, value] : metadata.properties) {
      if (!key.starts_with(prefix)) continue;
      if (const Field* field = metadata.schema().find_field(std::string_view(key).substr(prefix.size())))
        visit(field->id, key, value);
    }
  };
  for_each_column("write.parquet.bloom-filter-enabled.column.",
                  [&](int32_t id, const std::string& key, const std::string&) {
                    if (metadata.bool_property(key, false)) options.bloom_filters[id] = {};
                  });
  for_each_column("write.parquet.bloom-filter-fpp.column.",
                  [&](int32_t id, const std::string& key, const std::string& value) {
                    double fpp = 0;
                    const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), fpp);
                    if (error != std::errc() || end != value.data() + value.size() || !(fpp > 0 && fpp < 1))
                      fail(ErrorKind::invalid_argument, "{} = {}: it must be between 0 and 1", key, value);
                    const auto bloom = options.bloom_filters.find(id);
                    if (bloom != options.bloom_filters.end()) bloom->second.false_positives = fpp;
                  });
  for_each_column("write.parquet.bloom-filter-ndv.column.",
                  [&](int32_t id, const std::string& key, const std::string& value) {
                    const int64_t values = metadata.int_property(key, 0);
                    if (values <= 0) fail(ErrorKind::invalid_argument, "{} = {}: it must be above 0", key, value);
                    const auto bloom = options.bloom_filters.find(id);
                    if (bloom != options.bloom_filters.end()) bloom->second.distinct_values = values;
                  });
  options.default_statistics = metadata.bool_property("write.parquet.stats-enabled.default", true);
  for_each_column("write.parquet.stats-enabled.column.", [&](int32_t id, const std::string& key, const std::string&) {
    options.statistics[id] = metadata.bool_property(key, true);
  });
}

}  // namespace

ParquetWriteOptions ParquetWriteOptions::from_properties(const TableMetadata& metadata, FileContent content) {
  ParquetWriteOptions options;
  const auto key_of = [&](std::string_view name) {
    const std::string for_deletes = fmt::format("write.delete.parquet.{}", name);
    return content != FileContent::data && metadata.properties.contains(for_deletes)
               ? for_deletes
               : fmt::format("write.parquet.{}", name);
  };
  const auto positive = [&](std::string_view name, int64_t fallback) {
    const std::string key = key_of(name);
    const int64_t value = metadata.int_property(key, fallback);
    if (value <= 0) fail(ErrorKind::invalid_argument, "{} = {}: it must be above 0", key, value);
    return value;
  };
  options.compression = metadata.property(key_of("compression-codec"), options.compression);
  parse_codec(options.compression);
  if (metadata.property(key_of("compression-level"), "null") != "null")
    options.compression_level = static_cast<int>(metadata.int_property(key_of("compression-level"), 0));
  options.row_group_size_bytes = positive("row-group-size-bytes", options.row_group_size_bytes);
  options.page_size_bytes = positive("page-size-bytes", options.page_size_bytes);
  options.page_row_limit = positive("page-row-limit", options.page_row_limit);
  options.dict_size_bytes = positive("dict-size-bytes", options.dict_size_bytes);
  options.bloom_filter_bytes_max = positive("bloom-filter-max-bytes", options.bloom_filter_bytes_max);
  set_column_options(metadata, options);

  constexpr std::string_view kDefaultMode = "write.metadata.metrics.default";
  constexpr std::string_view kColumnMode = "write.metadata.metrics.column.";
  const Schema& schema = metadata.schema();
  const bool default_given = metadata.properties.contains(std::string(kDefaultMode));
  options.default_metrics_mode = metadata.property(kDefaultMode, options.default_metrics_mode);
  MetricsMode::parse(options.default_metrics_mode, kDefaultMode);
  const std::vector<LeafColumn> leaves = leaf_columns(stored_schema(schema));
  const int64_t inferred_max = metadata.int_property("write.metadata.metrics.max-inferred-column-defaults", 100);
  if (!default_given && static_cast<int64_t>(leaves.size()) > inferred_max) {
    for (int64_t i = 0; i < inferred_max; ++i) {
      if (leaves[static_cast<size_t>(i)].id)
        options.metrics_modes[*leaves[static_cast<size_t>(i)].id] = options.default_metrics_mode;
    }
    options.default_metrics_mode = "none";
  }
  if (!MetricsMode::parse(options.default_metrics_mode, kDefaultMode).bounds) {
    // Files are pruned by what they are sorted by, so these columns have bounds unless told otherwise below.
    for (const SortField& field : metadata.sort_order().fields) {
      for (int32_t id : field.source_ids) options.metrics_modes.try_emplace(id, "truncate(16)");
    }
  }
  for (const auto& [key, value] : metadata.properties) {
    if (!key.starts_with(kColumnMode)) continue;
    MetricsMode::parse(value, key);
    const Field* field = schema.find_field(std::string_view(key).substr(kColumnMode.size()));
    if (field != nullptr) options.metrics_modes[field->id] = value;  // of a dropped column: no matter
  }
  return options;
}

struct ParquetFileWriter::State {
  std::string path;
  ParquetWriteOptions options;
  Schema schema, stored;
  bool stores_all;  // no column of type unknown: batches go through as they are
  ColumnMetrics metrics;
  std::unique_ptr<OutputFile> output;
  std::shared_ptr<arrow::io::OutputStream> sink;  // output's
  parquet::RowGroupWriter* open_group = nullptr;
  // Opened by the first rows, which show how to encode the columns. Destroyed before `output`, which it may write to.
  std::unique_ptr<parquet::arrow::FileWriter> writer;
  bool group_ended = false;
  bool footer_written = false;
  int64_t rows = 0;

  // `file` makes the output file, once the schema is known to be one that a file can have.
  State(const std::string& path, const std::function<std::unique_ptr<OutputFile>()>& file, const Schema& schema,
        const ParquetWriteOptions& options)
      : path(path),
        options(options),
        schema(schema),
        stored(stored_schema(schema)),
        stores_all(schema.same_fields(stored)),
        metrics(stored, modes(stored, options)) {
    parse_codec(options.compression);
    output = file();
    // The stream is the file's own: the pointer only fits the interface.
    sink = std::shared_ptr<arrow::io::OutputStream>(std::shared_ptr<void>(), &output->stream());
  }

  void open(const arrow::RecordBatch* sample) {
    const auto node = to_parquet_schema(stored);
    const auto properties = writer_properties(options, stored, sample);
    translate_parquet_errors(ErrorKind::io, "create " + path, [&] {
      auto file = std::make_unique<parquet::ParquetFileWriter>();
      file->Open(
          std::make_unique<WatchedFile>(parquet::ParquetFileWriter::Open(sink, node, properties), node, &open_group));
      auto arrow_properties = parquet::ArrowWriterProperties::Builder()
                                  .set_use_threads(options.use_threads && has_arrow_threads())
                                  ->build();
      check(parquet::arrow::FileWriter::Make(arrow::default_memory_pool(), std::move(file), to_arrow_schema(stored),
                                             std::move(arrow_properties), &writer),
            "create " + path);
    });
  }

  static std::vector<MetricsMode> modes(const Schema& stored, const ParquetWriteOptions& options) {
    std::vector<MetricsMode> result;
    for (const LeafColumn& leaf : leaf_columns(stored)) {
      const auto found = leaf.id ? options.metrics_modes.find(*leaf.id) : options.metrics_modes.end();
      result.push_back(MetricsMode::parse(
          found == options.metrics_modes.end() ? options.default_metrics_mode : found->second, "metrics mode"));
    }
    return result;
  }

  // The encoders' buffers, by column not yet cut into pages.
  int64_t unpaged_bytes() const {
    if (open_group == nullptr) return 0;
    const auto stats = open_group->estimated_buffered_stats();
    return stats.def_level_bytes + stats.rep_level_bytes + stats.value_bytes + stats.dict_bytes;
  }
  // Pages of the open group. Those of a dictionary wait for it; others are in a buffer of their column, and count as
  // written.
  int64_t paged_bytes() const {
    return open_group == nullptr ? 0
                                 : open_group->total_compressed_bytes() + open_group->total_compressed_bytes_written();
  }

  // The next rows open a new group, so that none stays empty.
  void end_group() {
    translate_parquet_errors(ErrorKind::io, "write " + path, [&] { open_group->Close(); });
    open_group = nullptr;
    group_ended = true;
  }

  void write_slice(const arrow::RecordBatch& slice) {
    if (open_group != nullptr && open_group->num_rows() > 0 &&
        paged_bytes() + unpaged_bytes() >= options.row_group_size_bytes)
      end_group();
    if (group_ended) check(writer->NewBufferedRowGroup(), "write " + path);
    group_ended = false;
    translate_parquet_errors(ErrorKind::io, "write " + path,
                             [&] { check(writer->WriteRecordBatch(slice), "write " + path); });
    metrics.add(slice);
    rows += slice.num_rows();
  }
};

ParquetFileWriter::ParquetFileWriter(FileIO& io, const std::string& path, const Schema& schema,
                                     const ParquetWriteOptions& options)
    : state_(std::make_unique<State>(
          path, [&] { return io.create(path); }, schema, options)) {}

ParquetFileWriter::ParquetFileWriter(std::unique_ptr<OutputFile> file, const Schema& schema,
                                     const ParquetWriteOptions& options)
    : state_(std::make_unique<State>(
          file->path(), [&] { return std::move(file); }, schema, options)) {}

ParquetFileWriter::~ParquetFileWriter() = default;

void ParquetFileWriter::write(const arrow::RecordBatch& batch) {
  if (batch.num_rows() == 0) return;
  std::shared_ptr<arrow::RecordBatch> stored;  // without what the file does not store
  if (!state_->stores_all) {
    const AdaptRules rules{.where = "in " + state_->path, .from_file = true};
    arrow::ArrayVector columns;
    for (const Field& field : state_->stored.fields()) {
      const int index = batch.schema()->GetFieldIndex(field.name);
      if (index < 0) fail(ErrorKind::internal, "rows for {} lack the column {}", state_->path, field.name);
      columns.push_back(
          adapt_array(batch.column(index), source_field_of(*batch.schema()->field(index)), field, field.name, rules));
    }
    stored = arrow::RecordBatch::Make(to_arrow_schema(state_->stored), batch.num_rows(), std::move(columns));
  }
  const arrow::RecordBatch& rows = stored ? *stored : batch;
  if (!state_->writer) state_->open(&rows);
  const int64_t bytes = check(arrow::util::ReferencedBufferSize(rows), state_->path);
  const int64_t row_bytes = std::max<int64_t>(1, bytes / rows.num_rows());
  const int64_t slice_rows = std::clamp<int64_t>(kSliceBytesMax / row_bytes, 1, kSliceRowsMax);
  if (rows.num_rows() <= slice_rows) return state_->write_slice(rows);
  for (int64_t offset = 0; offset < rows.num_rows(); offset += slice_rows)
    state_->write_slice(*rows.Slice(offset, slice_rows));
}

int64_t ParquetFileWriter::buffered_bytes() const { return state_->paged_bytes() + state_->unpaged_bytes(); }

int64_t ParquetFileWriter::bytes_written() const {
  const State& state = *state_;
  int64_t unpaged = state.unpaged_bytes();
  if (state.open_group != nullptr &&
      state.open_group->total_bytes_written() > state.open_group->total_compressed_bytes_written()) {
    // What is not yet compressed will shrink as what went before did.
    unpaged = static_cast<int64_t>(static_cast<double>(unpaged) *
                                   static_cast<double>(state.open_group->total_compressed_bytes_written()) /
                                   static_cast<double>(state.open_group->total_bytes_written()));
  }
  return check(state.sink->Tell(), state.path) + state.paged_bytes() + unpaged;
}

int64_t ParquetFileWriter::rows_written() const { return state_->rows; }

void ParquetFileWriter::end_row_group() {
  if (state_->open_group != nullptr && state_->open_group->num_rows() > 0) state_->end_group();
}

void ParquetFileWriter::write_footer() {
  State& state = *state_;
  if (state.footer_written) return;
  if (!state.writer) state.open(nullptr);
  check(state.writer->Close(), "write " + state.path);
  check(state.sink->Flush(), "write " + state.path);
  state.footer_written = true;
}

DataFile ParquetFileWriter::close() {
  write_footer();
  State& state = *state_;
  DataFile file;
  file.file_path = state.path;
  state.metrics.finish(*state.writer->metadata(), file);
  file.file_size_bytes = check(state.sink->Tell(), state.path);
  state.output->close();
  return file;
}

}  // namespace firn::iceberg
