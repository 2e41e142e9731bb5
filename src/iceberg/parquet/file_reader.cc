#include "iceberg/parquet/file_reader.h"

#include <algorithm>
#include <bit>

#include <arrow/io/memory.h>
#include <parquet/arrow/reader.h>
#include <parquet/bloom_filter_reader.h>
#include <parquet/file_reader.h>
#include <parquet/page_index.h>
#include <parquet/properties.h>

#include "base/arrow_status.h"
#include "base/parallel.h"
#include "iceberg/expr/row_filter.h"
#include "iceberg/parquet/arrow_schema.h"
#include "iceberg/parquet/bloom_pruning.h"
#include "iceberg/parquet/file_columns.h"
#include "iceberg/parquet/flat_column.h"
#include "iceberg/parquet/row_selection.h"

namespace firn::iceberg {

namespace {

constexpr int64_t kWholeFileBytesMax = 1 << 20;  // smaller files are fetched in one read
constexpr int64_t kPreBufferBytesMax = 8 << 20;  // nested columns of smaller row groups are fetched in few reads
constexpr int64_t kBatchBytesMax = 32 << 20;     // of a batch, as far as the file's sizes tell
constexpr int64_t kStreamBytes = 1 << 20;        // buffer of a column that is streamed

// Counts what is read, and remembers whether it was reading that failed rather than decoding.
class WatchedSource : public arrow::io::RandomAccessFile {
 public:
  WatchedSource(std::shared_ptr<arrow::io::RandomAccessFile> file, ReadCounters* counters)
      : file_(std::move(file)), counters_(counters) {}

  bool failed() const { return failed_; }

  arrow::Status Close() override { return file_->Close(); }
  bool closed() const override { return file_->closed(); }
  arrow::Result<int64_t> Tell() const override { return file_->Tell(); }
  arrow::Status Seek(int64_t position) override { return file_->Seek(position); }
  arrow::Result<int64_t> GetSize() override { return file_->GetSize(); }
  arrow::Result<int64_t> Read(int64_t bytes, void* out) override { return watch(file_->Read(bytes, out)); }
  arrow::Result<std::shared_ptr<arrow::Buffer>> Read(int64_t bytes) override { return watch(file_->Read(bytes)); }
  arrow::Result<int64_t> ReadAt(int64_t position, int64_t bytes, void* out) override {
    return watch(file_->ReadAt(position, bytes, out));
  }
  arrow::Result<std::shared_ptr<arrow::Buffer>> ReadAt(int64_t position, int64_t bytes) override {
    return watch(file_->ReadAt(position, bytes));
  }

 private:
  static int64_t size_of(int64_t bytes) { return bytes; }
  static int64_t size_of(const std::shared_ptr<arrow::Buffer>& buffer) { return buffer->size(); }
  template <class T>
  arrow::Result<T> watch(arrow::Result<T> result) {
    if (!result.ok()) {
      failed_ = failed_ || result.status().IsIOError();  // else it was asked for what no file has
    } else if (counters_ != nullptr) {
      counters_->bytes_read += size_of(*result);
    }
    return result;
  }

  std::shared_ptr<arrow::io::RandomAccessFile> file_;
  ReadCounters* counters_;
  std::atomic<bool> failed_{false};  // Arrow may read ahead on threads of its own
};

// Rows of the mask between its first and last set bit; empty if none is.
RowRange matching_span(const arrow::BooleanArray& mask) {
  int64_t first = 0, end = mask.length();
  while (first < end && !mask.Value(first)) ++first;
  while (end > first && !mask.Value(end - 1)) --end;
  return {first, end};
}

}  // namespace

struct ParquetFileReader::State {
  enum class ColumnKind : uint8_t { missing, flat, nested };
  struct Column {
    const Field* target;
    ColumnKind kind = ColumnKind::missing;
    FileColumn* file = nullptr;  // of file_schema; null if missing
    SourceField source;
    int arrow_index = -1;  // among the columns that Arrow's reader gives
    bool in_filter = false;
    std::unique_ptr<FlatColumnReader> reader;  // of the open row group
    int64_t values_decoded = 0;                // of closed row groups
  };

  std::string path;
  ParquetReadRequest request;
  ReadCounters* counters;
  std::shared_ptr<WatchedSource> source;
  std::shared_ptr<arrow::io::RandomAccessFile> data;  // `source`, or all its bytes
  parquet::ReaderProperties properties;
  std::unique_ptr<parquet::ParquetFileReader> file;
  std::shared_ptr<parquet::FileMetaData> footer;
  std::vector<FileColumn> file_schema;
  std::shared_ptr<arrow::Schema> arrow_schema;
  AdaptRules rules;
  std::vector<Column> columns;
  bool nested = false;  // some column is
  std::vector<int> arrow_leaves;
  FilterColumns filter_columns;
  bool filters_rows = false;  // all columns of the filter are at hand, and others are to be spared

  int group = -1;           // open row group
  int64_t group_first = 0;  // file-wide position of its first row
  int64_t next_group_first = 0;
  int64_t batch_rows = 0;
  std::vector<RowRange> ranges;      // what is left of the open row group, nested or not
  std::vector<size_t> decode_order;  // of `columns`, in the open row group: the largest first
  size_t range = 0;
  int64_t rows_reported = 0;  // rows_decoded so far
  std::unique_ptr<parquet::arrow::FileReader> arrow_reader;
  std::unique_ptr<arrow::RecordBatchReader> arrow_batches;
  int64_t arrow_row = 0;

  // What the Parquet library throws, as ours: reading failed, or what was read is no good.
  template <class Work>
  auto translate(Work&& work) {
    const std::string what = "read " + path;
    try {
      return work();
    } catch (const parquet::ParquetStatusException& error) {
      if (error.status().IsNotImplemented()) throw Error(ErrorKind::unsupported, what, error);
      throw Error(source->failed() ? ErrorKind::io : ErrorKind::corrupt, what, error);
    } catch (const parquet::ParquetException& error) {
      throw Error(source->failed() ? ErrorKind::io : ErrorKind::corrupt, what, error);
    }
  }

  State(FileIO& io, const std::string& path, ParquetReadRequest request)
      : path(path),
        request(std::move(request)),
        counters(this->request.counters),
        rules{.error = ErrorKind::corrupt, .where = "in " + path, .from_file = true} {
    std::shared_ptr<arrow::io::RandomAccessFile> opened = io.open(path);
    if (counters != nullptr) ++counters->files_opened;
    source = std::make_shared<WatchedSource>(opened, counters);
    translate([&] {
      int64_t size = this->request.file_size_bytes;
      if (size == 0) {
        PARQUET_ASSIGN_OR_THROW(size, opened->GetSize());
      }
      std::shared_ptr<arrow::io::RandomAccessFile> input = source;
      if (size <= kWholeFileBytesMax) {
        PARQUET_ASSIGN_OR_THROW(auto bytes, source->ReadAt(0, size));
        input = std::make_shared<arrow::io::BufferReader>(std::move(bytes));
      }
      data = input;
      properties.set_page_checksum_verification(true);
      properties.enable_buffered_stream();
      properties.set_buffer_size(kStreamBytes);
      file = parquet::ParquetFileReader::Open(input, properties);
      footer = file->metadata();
      check_row_counts();
      resolve_columns();
    });
  }

  // A number of rows that a damaged footer makes too small would lose the rest silently, and a rewrite would for good.
  void check_row_counts() const {
    int64_t rows = 0;
    for (int i = 0; i < footer->num_row_groups(); ++i) {
      const int64_t group_rows = footer->RowGroup(i)->num_rows();
      if (group_rows < 0 || __builtin_add_overflow(rows, group_rows, &rows))
        throw parquet::ParquetException("row group ", i, " has ", group_rows, " rows: the file is damaged");
    }
    if (rows != footer->num_rows())
      throw parquet::ParquetException("its row groups have ", rows, " rows together, its footer says ",
                                      footer->num_rows(), ": the file is damaged");
    if (request.entry != nullptr && rows != request.entry->record_count)
      throw parquet::ParquetException("it has ", rows, " rows, its manifest entry says ", request.entry->record_count,
                                      ": one of them is damaged");
  }

  // A column whose field id is damaged would come as null in each row, though the entry counts its values. A plan keeps
  // the counts of the filter's columns alone, where null in each row would mean that none matches. Only the file's own
  // ids are held against the entry: a name mapping may have changed since.
  void refuse_lost_values(const FileColumn* column, const Field& field) const {
    const DataFile* entry = request.entry;
    if (entry == nullptr || request.name_mapping) return;
    const std::vector<Field>& members = field.type->fields();
    for (size_t i = 0; i < members.size(); ++i) {
      const FileColumn* found = nullptr;
      if (column != nullptr && field.type->id() != TypeId::struct_) {
        if (i < column->children.size()) found = &column->children[i];  // told by their place
      } else if (column != nullptr) {
        for (const FileColumn& child : column->children) {
          if (child.id == members[i].id) found = &child;
        }
      }
      refuse_lost_values(found, members[i]);
    }
    const auto values = entry->value_counts.find(field.id), nulls = entry->null_value_counts.find(field.id);
    if (column != nullptr || values == entry->value_counts.end() || nulls == entry->null_value_counts.end()) return;
    if (values->second <= nulls->second) return;
    throw parquet::ParquetException("it has no column ", field.name, " (id ", field.id, "), its manifest entry counts ",
                                    values->second - nulls->second, " values of it: one of them is damaged");
  }

  // A group without members has no levels that say where it is null. Arrow leaves it out of what it gives, or refuses
  // the column that it lies in, whichever of its members are asked for.
  static void refuse_empty_groups(const FileColumn& column, const std::string& name) {
    if (column.leaf >= 0) return;
    if (column.children.empty()) throw parquet::ParquetException("column ", name, " is a group without members");
    for (const FileColumn& child : column.children) refuse_empty_groups(child, name + "." + child.name);
  }

  void resolve_columns() {
    const Schema& projection = request.projection;
    arrow_schema = to_arrow_schema(projection);
    file_schema = file_columns(*footer->schema(), request.name_mapping, path);
    for (const Field& field : projection.fields()) {
      Column column{.target = &field};
      column.file = find_column(file_schema, field.id);
      refuse_lost_values(column.file, field);
      if (column.file != nullptr && field.type->id() != TypeId::unknown) {
        const bool is_leaf = column.file->leaf >= 0;
        const parquet::ColumnDescriptor* leaf = is_leaf ? footer->schema()->Column(column.file->leaf) : nullptr;
        const bool flat = is_leaf && leaf->max_repetition_level() == 0 && leaf->max_definition_level() <= 1;
        column.kind = flat ? ColumnKind::flat : ColumnKind::nested;
        nested |= !flat;
        select_leaves(*column.file, field);
        refuse_empty_groups(*column.file, column.file->name);
        column.source = selected_source(*column.file);
      } else {
        missing_column(field, 0, field.name, rules);  // throws for a required one
      }
      columns.push_back(std::move(column));
    }
    if (nested) {
      int next = 0;
      for (const FileColumn& column : file_schema) {
        if (!column.selected) continue;
        add_selected_leaves(column, arrow_leaves);
        for (Column& wanted : columns) {
          if (wanted.file == &column) wanted.arrow_index = next;
        }
        ++next;
      }
    }
    if (request.filter) resolve_filter();
  }

  void resolve_filter() {
    collect_filter_columns(*request.filter);
    // Rows are looked at only where that spares other columns something.
    filters_rows = !nested;
    bool spares = false;
    for (const auto& [id, filter_column] : filter_columns) {
      const auto column =
          std::find_if(columns.begin(), columns.end(), [&](const Column& c) { return c.target->id == id; });
      if (column == columns.end())
        filters_rows = false;
      else
        column->in_filter = true;
    }
    for (const Column& column : columns) spares |= !column.in_filter && column.kind == ColumnKind::flat;
    filters_rows &= spares && !filter_columns.empty();
  }

  void collect_filter_columns(const Expression& filter) {
    for (const ExpressionPtr& child : filter.children) collect_filter_columns(*child);
    if (!filter.field_id) return;
    const int32_t id = *filter.field_id;
    FilterColumn column{.type = filter.type};
    const FileColumn* found = find_in_structs(file_schema, id);
    if (found != nullptr) {
      column.leaf = found->leaf;
    } else if (const Field* field = request.projection.find_field(id)) {
      const bool top_level = request.projection.path_to(id).size() == 1;
      const Value value = field->initial_default.value_or(Value{});
      // A default inside a struct does not show where the struct is null.
      if (top_level || is_null(value)) column.constant = value;
    }
    if (found == nullptr || column.leaf >= 0) filter_columns.emplace(id, std::move(column));
  }

  // A member of a struct at any depth; lists and maps are not entered, since their bounds say nothing of a row.
  const FileColumn* find_in_structs(const std::vector<FileColumn>& level, int32_t id) const {
    for (const FileColumn& column : level) {
      if (column.id == id) return column.leaf < 0 || is_single(column.leaf) ? &column : nullptr;
      if (const FileColumn* found = find_in_structs(column.children, id)) return found;
    }
    return nullptr;
  }
  bool is_single(int leaf) const { return footer->schema()->Column(leaf)->max_repetition_level() == 0; }

  // The next row group that may hold a match; false at the end.
  bool open_next_group() {
    close_group();
    while (++group < footer->num_row_groups()) {
      const auto metadata = footer->RowGroup(group);
      group_first = next_group_first;
      next_group_first += metadata->num_rows();
      if (metadata->num_rows() == 0) continue;
      const GroupRule rule = rule_against(*metadata);
      if (rule != GroupRule::none) {
        if (counters != nullptr) ++counters->row_groups_pruned;
        if (counters != nullptr && rule == GroupRule::bloom_filter) ++counters->row_groups_pruned_by_bloom;
        continue;
      }
      if (counters != nullptr) ++counters->row_groups_read;
      open_group(*metadata);
      return true;
    }
    return false;
  }

  // What proves that no row of the open row group matches.
  GroupRule rule_against(const parquet::RowGroupMetaData& metadata) {
    if (!request.filter) return GroupRule::none;
    if (!row_group_might_match(*request.filter, filter_columns, metadata)) return GroupRule::statistics;
    const bool might_match = bloom_might_match(*request.filter, filter_columns, *footer->schema(),
                                               [&](int leaf) { return load_bloom_filter(metadata, leaf); });
    return might_match ? GroupRule::none : GroupRule::bloom_filter;
  }

  std::unique_ptr<parquet::BloomFilter> load_bloom_filter(const parquet::RowGroupMetaData& metadata, int leaf) {
    if (!metadata.ColumnChunk(leaf)->bloom_filter_offset()) return nullptr;
    try {
      const auto filters = file->GetBloomFilterReader().RowGroup(group);
      return filters ? filters->GetColumnBloomFilter(leaf) : nullptr;
    } catch (const parquet::ParquetException&) {
      if (source->failed()) throw;
      return nullptr;  // of a kind not known here, or damaged: it proves nothing, and the rows do not depend on it
    }
  }

  void open_group(const parquet::RowGroupMetaData& metadata) {
    const int64_t rows = metadata.num_rows();
    ranges = {{0, rows}};  // nested; open_flat_group selects
    range = 0;
    std::vector<int> leaves;
    for (const Column& column : columns) {
      if (column.file != nullptr && column.kind != ColumnKind::missing) add_selected_leaves(*column.file, leaves);
    }
    int64_t compressed = 0, uncompressed = 0;
    for (int leaf : leaves) {
      const auto chunk = metadata.ColumnChunk(leaf);
      if (!chunk->can_decompress())
        fail(ErrorKind::unsupported, "column {} in {} is compressed with {}, which this build lacks",
             chunk->path_in_schema()->ToDotString(), path, arrow::util::Codec::GetCodecAsString(chunk->compression()));
      // Each row has one value or null of a column that does not repeat.
      if (is_single(leaf) && chunk->num_values() != rows)
        throw parquet::ParquetException("column ", chunk->path_in_schema()->ToDotString(), " has ", chunk->num_values(),
                                        " values in row group ", group, " of ", rows, " rows: the file is damaged");
      compressed += chunk->total_compressed_size();
      uncompressed += chunk->total_uncompressed_size();
    }
    batch_rows = std::clamp<int64_t>(kBatchBytesMax / std::max<int64_t>(1, uncompressed / rows), 1,
                                     std::max<int64_t>(1, request.batch_rows_max));
    if (nested) return open_nested_group(compressed);
    open_flat_group(metadata);
  }

  // Sets `ranges` to the rows that the filter leaves, by the page index; the pages of the columns read, by leaf, where
  // they are known.
  std::map<int, std::vector<PageSpan>> select_pages(const parquet::RowGroupMetaData& metadata) {
    ranges = {{0, metadata.num_rows()}};
    std::map<int, std::vector<PageSpan>> pages;
    if (!request.filter) return pages;
    std::map<int, PageBounds> bounds;
    std::vector<int> leaves;
    for (const Column& column : columns) {
      if (column.kind == ColumnKind::flat) leaves.push_back(column.file->leaf);
    }
    for (const auto& [id, column] : filter_columns) {
      if (column.leaf >= 0 && std::find(leaves.begin(), leaves.end(), column.leaf) == leaves.end())
        leaves.push_back(column.leaf);
    }
    const auto index_reader = file->GetPageIndexReader();
    const auto group_index = index_reader ? index_reader->RowGroup(group) : nullptr;
    for (int leaf : leaves) {
      const auto chunk = metadata.ColumnChunk(leaf);
      if (!group_index || !chunk->GetOffsetIndexLocation()) continue;
      if (const auto offsets = group_index->GetOffsetIndex(leaf))
        pages[leaf] = page_spans(*offsets, *chunk, metadata.num_rows());
    }
    for (const auto& [id, column] : filter_columns) {
      const auto found = pages.find(column.leaf);
      if (column.leaf < 0 || found == pages.end() || found->second.empty() || bounds.contains(column.leaf)) continue;
      if (!metadata.ColumnChunk(column.leaf)->GetColumnIndexLocation()) continue;
      if (auto index = group_index->GetColumnIndex(column.leaf))
        bounds.emplace(column.leaf, PageBounds{.pages = found->second, .index = std::move(index)});
    }
    ranges = select_rows(*request.filter, filter_columns, metadata, bounds);
    return pages;
  }

  void open_flat_group(const parquet::RowGroupMetaData& metadata) {
    std::map<int, std::vector<PageSpan>> pages = select_pages(metadata);
    std::vector<std::pair<int64_t, size_t>> sizes;
    for (size_t i = 0; i < columns.size(); ++i) {
      const bool is_flat = columns[i].kind == ColumnKind::flat;
      sizes.emplace_back(is_flat ? metadata.ColumnChunk(columns[i].file->leaf)->total_uncompressed_size() : 0, i);
    }
    std::stable_sort(sizes.begin(), sizes.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
    decode_order.clear();
    for (const auto& [size, column] : sizes) decode_order.push_back(column);
    for (Column& column : columns) {
      if (column.kind != ColumnKind::flat) continue;
      const int leaf = column.file->leaf;
      column.reader =
          std::make_unique<FlatColumnReader>(data, *footer->schema()->Column(leaf), *metadata.ColumnChunk(leaf),
                                             std::move(pages[leaf]), metadata.num_rows(), ranges, properties);
    }
  }

  void open_nested_group(int64_t compressed) {
    auto arrow_properties = parquet::default_arrow_reader_properties();
    arrow_properties.set_batch_size(batch_rows);
    arrow_properties.set_pre_buffer(compressed <= kPreBufferBytesMax);
    arrow_properties.set_coerce_int96_timestamp_unit(arrow::TimeUnit::MICRO);
    PARQUET_ASSIGN_OR_THROW(
        arrow_reader,
        parquet::arrow::FileReader::Make(arrow::default_memory_pool(),
                                         parquet::ParquetFileReader::Open(data, properties, footer), arrow_properties));
    PARQUET_ASSIGN_OR_THROW(arrow_batches, arrow_reader->GetRecordBatchReader({group}, arrow_leaves));
    arrow_row = 0;
    if (counters == nullptr) return;
    const auto metadata = footer->RowGroup(group);
    for (int leaf : arrow_leaves) counters->values_decoded += metadata->ColumnChunk(leaf)->num_values();
    counters->rows_decoded += metadata->num_rows();
  }

  void close_group() {
    arrow_batches.reset();
    arrow_reader.reset();
    for (Column& column : columns) {
      if (!column.reader) continue;
      if (counters != nullptr) counters->pages_pruned += column.reader->pages_total() - column.reader->pages_read();
      column.values_decoded += column.reader->values_decoded();
      column.reader.reset();
    }
  }

  std::shared_ptr<arrow::Array> read_flat(Column& column, RowRange rows) {
    const int64_t values_before = column.reader->values_decoded(), pages_before = column.reader->pages_read();
    auto array = column.reader->read(rows);
    if (counters != nullptr) {
      counters->values_decoded += column.reader->values_decoded() - values_before;
      counters->pages_read += column.reader->pages_read() - pages_before;
    }
    return adapt_array(array, column.source, *column.target, column.target->name, rules);
  }

  // Rows count once for all columns: as the one of which most was decoded has them.
  void report_rows() {
    if (counters == nullptr) return;
    for (const Column& column : columns) {
      if (!column.reader) continue;
      const int64_t in_file = column.values_decoded + column.reader->values_decoded();
      counters->rows_decoded += std::max<int64_t>(0, in_file - rows_reported);
      rows_reported = std::max(rows_reported, in_file);
    }
  }

  std::shared_ptr<arrow::Array> read_column(Column& column, RowRange rows) {
    return column.kind == ColumnKind::missing ? missing_column(*column.target, rows.size(), column.target->name, rules)
                                              : read_flat(column, rows);
  }

  // Of the next row group, without reading its rows.
  RowGroupChoice explain_group() {
    const auto metadata = footer->RowGroup(++group);
    RowGroupChoice choice{.rows = metadata->num_rows(), .rule = rule_against(*metadata)};
    if (choice.rule != GroupRule::none || choice.rows == 0) return choice;
    choice.rows_selected = choice.rows;
    if (nested) return choice;
    const std::map<int, std::vector<PageSpan>> pages = select_pages(*metadata);
    choice.rows_selected = 0;
    for (const RowRange& selected : ranges) choice.rows_selected += selected.size();
    if (choice.rows_selected < choice.rows) choice.rule = GroupRule::page_index;
    for (const Column& column : columns) {
      const auto found = column.kind == ColumnKind::flat ? pages.find(column.file->leaf) : pages.end();
      if (found == pages.end()) continue;
      choice.pages += static_cast<int64_t>(found->second.size());
      choice.pages_selected += std::count_if(found->second.begin(), found->second.end(), [&](const PageSpan& page) {
        return std::any_of(ranges.begin(), ranges.end(), [&](const RowRange& selected) {
          return selected.first < page.rows.end && page.rows.first < selected.end;
        });
      });
    }
    return choice;
  }

  std::optional<PositionedBatch> next_flat() {
    for (;;) {
      while (range < ranges.size() && ranges[range].size() == 0) ++range;
      if (range >= ranges.size()) {
        if (!open_next_group()) return std::nullopt;
        continue;
      }
      RowRange rows{ranges[range].first, std::min(ranges[range].end, ranges[range].first + batch_rows)};
      ranges[range].first = rows.end;
      arrow::ArrayVector arrays(columns.size());
      if (filters_rows) {
        arrow::FieldVector fields;
        arrow::ArrayVector values;
        for (size_t i = 0; i < columns.size(); ++i) {
          if (!columns[i].in_filter) continue;
          arrays[i] = read_column(columns[i], rows);
          fields.push_back(arrow_schema->field(static_cast<int>(i)));
          values.push_back(arrays[i]);
        }
        const auto batch = arrow::RecordBatch::Make(arrow::schema(std::move(fields)), rows.size(), std::move(values));
        const RowRange span = matching_span(*evaluate(*request.filter, *batch));
        if (span.size() == 0) {
          report_rows();
          continue;
        }
        for (auto& array : arrays) {
          if (array) array = array->Slice(span.first, span.size());
        }
        rows = {rows.first + span.first, rows.first + span.end};
      }
      // Columns share nothing but the file, which any number may read. A large one begun last would be waited for.
      parallel_for(columns.size(), std::max(1, request.column_threads), [&](size_t i) {
        const size_t column = decode_order[i];
        if (!arrays[column]) arrays[column] = read_column(columns[column], rows);
      });
      report_rows();
      return PositionedBatch{.batch = arrow::RecordBatch::Make(arrow_schema, rows.size(), std::move(arrays)),
                             .first_position = group_first + rows.first};
    }
  }

  std::optional<PositionedBatch> next_nested() {
    for (;;) {
      std::shared_ptr<arrow::RecordBatch> read;
      if (arrow_batches) PARQUET_THROW_NOT_OK(arrow_batches->ReadNext(&read));
      if (!read) {
        const int64_t rows = arrow_batches ? footer->RowGroup(group)->num_rows() : 0;
        if (arrow_batches && arrow_row != rows)
          throw parquet::ParquetException("row group ", group, " gives ", arrow_row, " rows, its footer says ", rows,
                                          ": the file is damaged");
        if (!open_next_group()) return std::nullopt;
        continue;
      }
      if (read->num_rows() == 0) continue;
      for (const Column& column : columns) {
        if (column.arrow_index >= read->num_columns())
          throw parquet::ParquetException("column ", column.file->name, " has no values that could be read");
      }
      arrow::ArrayVector arrays;
      for (const Column& column : columns) {
        arrays.push_back(column.kind == ColumnKind::missing
                             ? missing_column(*column.target, read->num_rows(), column.target->name, rules)
                             : adapt_array(read->column(column.arrow_index), column.source, *column.target,
                                           column.target->name, rules));
      }
      PositionedBatch result{.batch = arrow::RecordBatch::Make(arrow_schema, read->num_rows(), std::move(arrays)),
                             .first_position = group_first + arrow_row};
      arrow_row += read->num_rows();
      return result;
    }
  }
};

ParquetFileReader::ParquetFileReader(FileIO& io, const std::string& path, ParquetReadRequest request)
    : state_(std::make_unique<State>(io, path, std::move(request))) {}

ParquetFileReader::~ParquetFileReader() = default;

std::optional<PositionedBatch> ParquetFileReader::next() {
  return state_->translate([&] { return state_->nested ? state_->next_nested() : state_->next_flat(); });
}

std::vector<RowGroupChoice> ParquetFileReader::explain() {
  return state_->translate([&] {
    std::vector<RowGroupChoice> choices;
    while (state_->group + 1 < state_->footer->num_row_groups()) choices.push_back(state_->explain_group());
    return choices;
  });
}

std::string_view to_string(GroupRule rule) {
  switch (rule) {
    case GroupRule::none:
      return "";
    case GroupRule::statistics:
      return "statistics";
    case GroupRule::bloom_filter:
      return "bloom filter";
    case GroupRule::page_index:
      return "page index";
  }
  return "";
}

}  // namespace firn::iceberg
