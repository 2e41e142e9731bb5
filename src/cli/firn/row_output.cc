// Rows as text, Arrow or Parquet.
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>

#include <arrow/array.h>
#include <arrow/io/stdio.h>
#include <arrow/ipc/writer.h>

#include "base/arrow_status.h"
#include "cli/firn/row_format.h"
#include "cli/firn/text_table.h"
#include "iceberg/parquet/arrow_schema.h"
#include "iceberg/parquet/file_writer.h"
#include "iceberg/scan/row_json.h"
#include "io/file_io.h"

namespace firn::cli {
namespace {

using iceberg::Schema;
using iceberg::TypeId;

class StandardOutput final : public OutputFile {
 public:
  const std::string& path() const override { return path_; }
  arrow::io::OutputStream& stream() override { return stream_; }
  void close() override {  // Arrow's stream tells of no failed write
    check(stream_.Flush(), path_);
    if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0) fail(ErrorKind::io, "{} could not be written", path_);
  }

 private:
  std::string path_ = "standard output";
  arrow::io::StdoutStream stream_;
};

std::unique_ptr<OutputFile> open_output(const std::string& path) {
  if (path.empty()) return std::make_unique<StandardOutput>();
  return make_local_file_io()->create_or_replace(std::filesystem::absolute(path).string());
}

// The value without the quotes that JSON puts around it. Nested values stay JSON.
std::string cell_text(const arrow::Array& column, const iceberg::Type& type, int64_t row) {
  if (column.IsNull(row)) return "null";
  if (type.id() == TypeId::string) return std::string(static_cast<const arrow::BinaryArray&>(column).GetView(row));
  std::string text;
  iceberg::append_value_json(column, type, row, text);
  if (text.size() >= 2 && text.front() == '"' && text.back() == '"') return text.substr(1, text.size() - 2);
  return text;
}

// One line, whatever the text holds.
std::string shown(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (static_cast<unsigned char>(c) >= 0x20 && c != 0x7F) {
      out += c;
    } else {
      out += c == '\n'   ? "\\n"
             : c == '\t' ? "\\t"
             : c == '\r' ? "\\r"
                         : fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    }
  }
  return out;
}

// RFC 4180.
std::string csv_text(const std::string& text) {
  if (!text.empty() && text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) quoted += c == '"' ? std::string("\"\"") : std::string(1, c);
  return quoted + "\"";
}

// JSON lines, CSV (null is nothing, the empty string ""), and a table for people.
class TextOutput final : public RowOutput {
 public:
  TextOutput(const Schema& schema, RowFormat format, std::unique_ptr<OutputFile> file)
      : schema_(schema),
        format_(format),
        file_(std::move(file)),
        table_(titles(schema), [this](const std::string& line) { put(line); }) {
    if (format_ != RowFormat::csv) return;
    for (size_t i = 0; i < schema_.fields().size(); ++i) {
      buffer_ += (i == 0 ? "" : ",") + csv_text(schema_.fields()[i].name);
    }
    buffer_ += "\n";
  }

  void write(const std::shared_ptr<arrow::RecordBatch>& batch) override {
    for (int64_t row = 0; row < batch->num_rows(); ++row) {
      if (format_ == RowFormat::json) {
        iceberg::append_row_json(*batch, schema_, row, buffer_);
        put("\n");
      } else if (format_ == RowFormat::csv) {
        for (int i = 0; i < batch->num_columns(); ++i) {
          if (i > 0) buffer_ += ",";
          if (!batch->column(i)->IsNull(row)) buffer_ += csv_text(cell_text(*batch->column(i), type(i), row));
        }
        put("\n");
      } else {
        std::vector<std::string> cells;
        for (int i = 0; i < batch->num_columns(); ++i)
          cells.push_back(shown(cell_text(*batch->column(i), type(i), row)));
        table_.add(std::move(cells));
      }
    }
  }

  void finish() override {
    if (format_ == RowFormat::table) table_.finish();
    flush();
    file_->close();
  }

 private:
  static constexpr size_t kBufferBytes = 1 << 16;

  static std::vector<std::string> titles(const Schema& schema) {
    std::vector<std::string> titles;
    for (const iceberg::Field& field : schema.fields()) titles.push_back(shown(field.name));
    return titles;
  }
  const iceberg::Type& type(int column) const { return *schema_.fields()[static_cast<size_t>(column)].type; }
  void put(const std::string& text) {
    buffer_ += text;
    if (buffer_.size() >= kBufferBytes) flush();
  }
  void flush() {
    check(file_->stream().Write(buffer_.data(), static_cast<int64_t>(buffer_.size())), "write to " + file_->path());
    buffer_.clear();
  }

  const Schema schema_;
  const RowFormat format_;
  std::unique_ptr<OutputFile> file_;
  std::string buffer_;
  TextTable table_;
};

class ArrowOutput final : public RowOutput {
 public:
  ArrowOutput(const Schema& schema, std::unique_ptr<OutputFile> file, bool is_stream) : file_(std::move(file)) {
    const auto arrow_schema = iceberg::to_arrow_schema(schema);
    // The stream is borrowed: `file_` outlives the writer.
    writer_ = check(is_stream ? arrow::ipc::MakeStreamWriter(&file_->stream(), arrow_schema)
                              : arrow::ipc::MakeFileWriter(&file_->stream(), arrow_schema),
                    "write " + file_->path());
  }
  void write(const std::shared_ptr<arrow::RecordBatch>& batch) override {
    check(writer_->WriteRecordBatch(*batch), "write " + file_->path());
  }
  void finish() override {
    check(writer_->Close(), "write " + file_->path());
    file_->close();
  }

 private:
  std::unique_ptr<OutputFile> file_;
  std::shared_ptr<arrow::ipc::RecordBatchWriter> writer_;
};

class ParquetOutput final : public RowOutput {
 public:
  ParquetOutput(const Schema& schema, std::unique_ptr<OutputFile> file)
      : writer_(std::move(file), schema, iceberg::ParquetWriteOptions()) {}
  void write(const std::shared_ptr<arrow::RecordBatch>& batch) override { writer_.write(*batch); }
  void finish() override { writer_.close(); }

 private:
  iceberg::ParquetFileWriter writer_;
};

bool ends_with_any(std::string_view text, std::initializer_list<const char*> ends) {
  return std::any_of(ends.begin(), ends.end(), [&](const char* end) { return text.ends_with(end); });
}

}  // namespace

std::optional<RowFormat> row_format_of(const std::string& path) {
  std::string_view name = path;
  for (const std::string_view packed : {".gz", ".zst"}) {
    if (!name.ends_with(packed)) continue;
    name.remove_suffix(packed.size());
    if (!ends_with_any(name, {".json", ".ndjson", ".jsonl", ".csv"})) return std::nullopt;
  }
  if (ends_with_any(name, {".json", ".ndjson", ".jsonl"})) return RowFormat::json;
  if (name.ends_with(".csv")) return RowFormat::csv;
  if (ends_with_any(name, {".arrow", ".arrows", ".ipc", ".feather"})) return RowFormat::arrow;
  if (name.ends_with(".parquet")) return RowFormat::parquet;
  return std::nullopt;
}

RowFormat parse_row_format(const std::string& name) {
  if (name == "table") return RowFormat::table;
  if (name == "json" || name == "ndjson") return RowFormat::json;
  if (name == "csv") return RowFormat::csv;
  if (name == "arrow") return RowFormat::arrow;
  if (name == "parquet") return RowFormat::parquet;
  fail(ErrorKind::invalid_argument, "there is no format '{}'; there are table, json, csv, arrow and parquet", name);
}

std::unique_ptr<RowOutput> make_row_output(const Schema& schema, RowFormat format, const std::string& path) {
  const bool is_binary = format == RowFormat::arrow || format == RowFormat::parquet;
  if (is_binary && path.empty() && isatty(STDOUT_FILENO) != 0) {
    fail(ErrorKind::invalid_argument, "this would put bytes on the terminal: name a file with --output, or use a pipe");
  }
  if (!is_binary && !path.empty() && ends_with_any(path, {".gz", ".zst"})) {
    fail(ErrorKind::invalid_argument, "--output {}: firn writes no compressed text; pipe it into gzip or zstd", path);
  }
  if (!path.empty()) {
    const std::filesystem::path folder = std::filesystem::absolute(path).parent_path();
    if (!std::filesystem::is_directory(folder))
      fail(ErrorKind::not_found, "--output {}: there is no folder {}", path, folder.string());
  }
  std::unique_ptr<OutputFile> file = open_output(path);
  if (format == RowFormat::arrow) {
    return std::make_unique<ArrowOutput>(schema, std::move(file), path.empty() || path.ends_with(".arrows"));
  }
  if (format == RowFormat::parquet) return std::make_unique<ParquetOutput>(schema, std::move(file));
  return std::make_unique<TextOutput>(schema, format, std::move(file));
}

}  // namespace firn::cli
