// Rows of files: Parquet and Arrow as they are, JSON and CSV by a table's types.
#include <unistd.h>

#include <filesystem>
#include <set>

#include <arrow/array.h>
#include <arrow/io/compressed.h>
#include <arrow/io/file.h>
#include <arrow/io/stdio.h>
#include <arrow/ipc/reader.h>
#include <arrow/util/compression.h>
#include <parquet/arrow/reader.h>

#include "base/arrow_status.h"
#include "cli/firn/row_format.h"
#include "cli/firn/text_rows.h"
#include "iceberg/parquet/without_field_ids.h"
#include "io/file_io.h"

namespace firn::cli {
namespace {

using iceberg::Schema;

constexpr const char* kStandardInput = "standard input";
constexpr std::string_view kArrowFileMagic = "ARROW1";

std::shared_ptr<arrow::ArrayData> with_type(const arrow::ArrayData& data,
                                            const std::shared_ptr<arrow::DataType>& type) {
  auto copy = std::make_shared<arrow::ArrayData>(data);
  copy->type = type;
  for (size_t i = 0; i < copy->child_data.size() && static_cast<int>(i) < type->num_fields(); ++i) {
    copy->child_data[i] = with_type(*copy->child_data[i], type->field(static_cast<int>(i))->type());
  }
  return copy;
}

// Field ids in a file that is to be appended are another table's: columns go by name.
class WithoutFieldIds final : public arrow::RecordBatchReader {
 public:
  WithoutFieldIds(std::shared_ptr<arrow::RecordBatchReader> rows, std::string name)
      : rows_(std::move(rows)), name_(std::move(name)), schema_(iceberg::without_field_ids(*rows_->schema())) {}
  std::shared_ptr<arrow::Schema> schema() const override { return schema_; }
  arrow::Status ReadNext(std::shared_ptr<arrow::RecordBatch>* batch) override {
    check(rows_->ReadNext(batch), "read " + name_);
    if (!*batch) return arrow::Status::OK();
    arrow::ArrayVector columns;
    for (int i = 0; i < (*batch)->num_columns(); ++i) {
      columns.push_back(arrow::MakeArray(with_type(*(*batch)->column_data(i), schema_->field(i)->type())));
    }
    *batch = arrow::RecordBatch::Make(schema_, (*batch)->num_rows(), std::move(columns));
    return arrow::Status::OK();
  }

 private:
  std::shared_ptr<arrow::RecordBatchReader> rows_;
  std::string name_;
  std::shared_ptr<arrow::Schema> schema_;
};

// Standard input as a file that can be read anywhere, through one without a name.
std::shared_ptr<arrow::io::RandomAccessFile> seekable_standard_input() {
  std::string path = (std::filesystem::temp_directory_path() / "firn-input-XXXXXX").string();
  const int file = mkstemp(path.data());
  if (file < 0) fail_errno(errno, "make " + path);
  unlink(path.c_str());
  const auto out = check(arrow::io::FileOutputStream::Open(dup(file)), path);
  arrow::io::StdinStream in;
  for (;;) {
    const auto bytes = check(in.Read(1 << 20), fmt::format("read {}", kStandardInput));
    if (bytes->size() == 0) break;
    check(out->Write(bytes), "write " + path);
  }
  check(out->Close(), "write " + path);
  return check(arrow::io::ReadableFile::Open(file), path);
}

std::shared_ptr<arrow::io::RandomAccessFile> open_seekable(const std::string& path) {
  if (path == "-") return seekable_standard_input();
  return make_local_file_io()->open(std::filesystem::absolute(path).string());
}

// The reader, whatever owns what it reads from.
struct ParquetRows {
  std::unique_ptr<parquet::arrow::FileReader> file;
  std::unique_ptr<arrow::RecordBatchReader> rows;
  int64_t num_rows = 0, num_read = 0;
};

class ParquetReader final : public arrow::RecordBatchReader {
 public:
  explicit ParquetReader(std::shared_ptr<ParquetRows> rows) : rows_(std::move(rows)) {}
  std::shared_ptr<arrow::Schema> schema() const override { return rows_->rows->schema(); }
  arrow::Status ReadNext(std::shared_ptr<arrow::RecordBatch>* batch) override {
    ARROW_RETURN_NOT_OK(rows_->rows->ReadNext(batch));
    if (*batch) rows_->num_read += (*batch)->num_rows();
    if (!*batch && rows_->num_read != rows_->num_rows)
      return arrow::Status::Invalid("its row groups give ", rows_->num_read, " rows, its footer says ", rows_->num_rows,
                                    ": the file is damaged");
    return arrow::Status::OK();
  }

 private:
  std::shared_ptr<ParquetRows> rows_;
};

RowInput open_parquet(const std::string& path, const std::string& name) {
  const auto rows = std::make_shared<ParquetRows>();
  parquet::arrow::FileReaderBuilder builder;
  check(builder.Open(open_seekable(path)), "open " + name);
  check(builder.memory_pool(arrow::default_memory_pool())->Build(&rows->file), "open " + name);
  rows->num_rows = rows->file->parquet_reader()->metadata()->num_rows();
  rows->rows = check(rows->file->GetRecordBatchReader(), "read " + name);
  return {std::make_shared<WithoutFieldIds>(std::make_shared<ParquetReader>(rows), name), [rows] {
            return rows->num_rows == 0 ? 1 : static_cast<double>(rows->num_read) / static_cast<double>(rows->num_rows);
          }};
}

class ArrowFileReader final : public arrow::RecordBatchReader {
 public:
  explicit ArrowFileReader(std::shared_ptr<arrow::ipc::RecordBatchFileReader> file) : file_(std::move(file)) {}
  std::shared_ptr<arrow::Schema> schema() const override { return file_->schema(); }
  arrow::Status ReadNext(std::shared_ptr<arrow::RecordBatch>* batch) override {
    *batch = nullptr;
    if (next_ == file_->num_record_batches()) return arrow::Status::OK();
    ARROW_ASSIGN_OR_RAISE(*batch, file_->ReadRecordBatch(next_++));
    return arrow::Status::OK();
  }
  double done() const {
    return file_->num_record_batches() == 0 ? 1 : static_cast<double>(next_) / file_->num_record_batches();
  }

 private:
  std::shared_ptr<arrow::ipc::RecordBatchFileReader> file_;
  int next_ = 0;
};

// A file or a stream of Arrow's: the first bytes tell. Standard input is a stream.
RowInput open_arrow(const std::string& path, const std::string& name) {
  if (path == "-") {
    const auto rows =
        check(arrow::ipc::RecordBatchStreamReader::Open(std::make_shared<arrow::io::StdinStream>()), "read " + name);
    return {std::make_shared<WithoutFieldIds>(rows, name), nullptr};
  }
  const auto file = open_seekable(path);
  const auto first = check(file->ReadAt(0, kArrowFileMagic.size()), "read " + name);
  if (std::string_view(*first) == kArrowFileMagic) {
    const auto rows =
        std::make_shared<ArrowFileReader>(check(arrow::ipc::RecordBatchFileReader::Open(file), "open " + name));
    return {std::make_shared<WithoutFieldIds>(rows, name), [rows] { return rows->done(); }};
  }
  check(file->Seek(0), "read " + name);
  const auto rows = check(arrow::ipc::RecordBatchStreamReader::Open(file), "open " + name);
  return {std::make_shared<WithoutFieldIds>(rows, name), nullptr};
}

RowInput open_text(const std::string& path, const std::string& name, RowFormat format, const Schema& table,
                   const RowInputOptions& input_options) {
  std::shared_ptr<arrow::io::InputStream> in;
  std::function<double()> done;
  if (path == "-") {
    in = std::make_shared<arrow::io::StdinStream>();
  } else {
    const auto file = open_seekable(path);
    const int64_t size = check(file->GetSize(), name);
    done = [file, size] {
      return size == 0 ? 1 : static_cast<double>(file->Tell().ValueOr(0)) / static_cast<double>(size);
    };
    in = file;
    const bool is_gzip = path.ends_with(".gz");
    if (is_gzip || path.ends_with(".zst")) {
      const auto codec =
          check(arrow::util::Codec::Create(is_gzip ? arrow::Compression::GZIP : arrow::Compression::ZSTD), name);
      // The codec has no state of its own: the stream outlives it safely.
      in = check(arrow::io::CompressedInputStream::Make(codec.get(), in), "open " + name);
    }
  }
  const TextRowsOptions options{name, input_options.infers_new_columns, input_options.can_add_columns,
                                input_options.has_columns_of_first_row};
  return {format == RowFormat::json ? read_json_rows(in, table, options) : read_csv_rows(in, table, options), done};
}

void check_names_differ(const arrow::Schema& columns, const std::string& name) {
  std::set<std::string> seen;
  for (const auto& column : columns.fields()) {
    if (!seen.insert(column->name()).second)
      fail(ErrorKind::invalid_argument, "{} has two columns '{}'", name, column->name());
  }
}

}  // namespace

RowInput open_rows(const std::string& path, const Schema& table, const RowInputOptions& options) {
  const std::string name = path == "-" ? kStandardInput : path;
  std::optional<RowFormat> format = options.format ? options.format : row_format_of(path);
  if (!format && path == "-") format = RowFormat::json;
  if (!format || *format == RowFormat::table) {
    fail(ErrorKind::invalid_argument, "{}: the name tells no format; give --format json, csv, arrow or parquet", name);
  }
  RowInput input = *format == RowFormat::parquet ? open_parquet(path, name)
                   : *format == RowFormat::arrow ? open_arrow(path, name)
                                                 : open_text(path, name, *format, table, options);
  check_names_differ(*input.rows->schema(), name);
  return input;
}

}  // namespace firn::cli
