// Query results as text and files.
#include <filesystem>
#include <fstream>
#include <functional>
#include <ostream>
#include <set>

#include <arrow/io/file.h>
#include <parquet/arrow/writer.h>

#include "base/arrow_status.h"
#include "base/clock.h"
#include "base/uuid.h"
#include "hyp/query/cell_text.h"
#include "hyp/query/query.h"
#include "iceberg/scan/json_text.h"

namespace firn::hyp {
namespace {

constexpr size_t kTableCellMax = 60;  // code points; longer ones are cut in the table form
constexpr int64_t kTableWindowRows =
    1000;  // column widths come from the first rows, so that the table form streams too

size_t code_points(std::string_view text) {
  size_t count = 0;
  for (const char c : text) count += (c & 0xC0) != 0x80;
  return count;
}

std::string shortened(std::string text) {
  for (char& c : text) {
    if (static_cast<unsigned char>(c) < 0x20) c = ' ';
  }
  if (code_points(text) <= kTableCellMax) return text;
  size_t end = 0;
  for (size_t points = 0; end < text.size() && points < kTableCellMax; ++end) points += (text[end] & 0xC0) != 0x80;
  while (end < text.size() && (text[end] & 0xC0) == 0x80) ++end;
  return text.substr(0, end) + "…";
}

bool is_number(const arrow::DataType& type) {
  return arrow::is_integer(type.id()) || arrow::is_floating(type.id()) || arrow::is_decimal(type.id());
}

class TablePrinter {
 public:
  TablePrinter(const arrow::Schema& schema, std::ostream& out) : schema_(schema), out_(out) {}

  void add(const arrow::RecordBatch& batch) {
    for (int64_t row = 0; row < batch.num_rows(); ++row) {
      std::vector<std::string> cells;
      for (int c = 0; c < batch.num_columns(); ++c) cells.push_back(shortened(cell_text(*batch.column(c), row)));
      window_.push_back(std::move(cells));
      if (static_cast<int64_t>(window_.size()) == kTableWindowRows) print_window();
    }
  }
  void finish() {
    if (!window_.empty() || !has_widths_) print_window();
  }

 private:
  void print_window() {
    if (!has_widths_) {
      for (int c = 0; c < schema_.num_fields(); ++c) {
        size_t width = code_points(schema_.field(c)->name());
        for (const auto& row : window_) width = std::max(width, code_points(row[static_cast<size_t>(c)]));
        widths_.push_back(width);
      }
      has_widths_ = true;
      std::vector<std::string> titles, rules;
      for (int c = 0; c < schema_.num_fields(); ++c) {
        titles.push_back(schema_.field(c)->name());
        rules.push_back(std::string(widths_[static_cast<size_t>(c)], '-'));
      }
      print_row(titles);
      print_row(rules);
    }
    for (const auto& row : window_) print_row(row);
    window_.clear();
  }
  void print_row(const std::vector<std::string>& cells) {
    std::string line;
    for (size_t c = 0; c < cells.size(); ++c) {
      const size_t width = code_points(cells[c]);
      const std::string padding(widths_[c] > width ? widths_[c] - width : 0, ' ');
      if (c > 0) line += "  ";
      line += is_number(*schema_.field(static_cast<int>(c))->type()) ? padding + cells[c] : cells[c] + padding;
    }
    line.erase(line.find_last_not_of(' ') + 1);
    out_ << line << "\n";
  }

  const arrow::Schema& schema_;
  std::ostream& out_;
  std::vector<std::vector<std::string>> window_;
  std::vector<size_t> widths_;
  bool has_widths_ = false;
};

std::string csv_cell(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos && !text.empty()) return text;
  std::string quoted = "\"";
  for (const char c : text) quoted += c == '"' ? "\"\"" : std::string(1, c);
  return quoted + "\"";
}

void write_csv(const arrow::RecordBatch& batch, std::ostream& out) {
  std::string text;
  for (int64_t row = 0; row < batch.num_rows(); ++row) {
    for (int c = 0; c < batch.num_columns(); ++c) {
      if (c > 0) text += ',';
      if (!batch.column(c)->IsNull(row))
        text += csv_cell(cell_text(*batch.column(c), row));  // null is empty, "" is quoted
    }
    text += '\n';
  }
  out << text;
}

// The columns' names, each once: a repeated one gets a number. An object has a member once, and so have most readers of
// Parquet.
std::vector<std::string> distinct_names(const arrow::Schema& schema) {
  std::vector<std::string> names = schema.field_names();
  std::set<std::string> taken(names.begin(), names.end());
  std::set<std::string> seen;
  for (std::string& name : names) {
    if (seen.insert(name).second) continue;
    int number = 1;
    while (taken.contains(fmt::format("{}_{}", name, number))) ++number;
    name = fmt::format("{}_{}", name, number);
    taken.insert(name);
  }
  return names;
}

void write_json(const arrow::RecordBatch& batch, const std::vector<std::string>& names, std::ostream& out) {
  std::string text;
  for (int64_t row = 0; row < batch.num_rows(); ++row) {
    text += '{';
    for (int c = 0; c < batch.num_columns(); ++c) {
      if (c > 0) text += ',';
      iceberg::append_json_string(names[static_cast<size_t>(c)], text);
      text += ':';
      append_cell_json(*batch.column(c), row, text);
    }
    text += "}\n";
  }
  out << text;
}

// A plan is drawn over many lines, which a table of rows would break.
bool is_plan(const arrow::Schema& schema) {
  return schema.field_names() == std::vector<std::string>{"explain_key", "explain_value"};
}

void write_plan(const arrow::RecordBatch& batch, std::ostream& out) {
  for (int64_t row = 0; row < batch.num_rows(); ++row) out << cell_text(*batch.column(1), row) << "\n";
}

// Writes `path` through `write`: a file that is there keeps its content unless all is written. What is no regular file
// (a pipe, /dev/stdout) is written to as it is.
int64_t write_file(const std::string& path, const std::function<int64_t(const std::string&)>& write) {
  std::error_code error;
  const auto status = std::filesystem::symlink_status(path, error);
  const bool is_replaced =
      status.type() == std::filesystem::file_type::regular || status.type() == std::filesystem::file_type::not_found;
  if (!is_replaced) return write(path);
  const std::string temporary = path + ".tmp-" + uuid_v7(now_ms());
  try {
    const int64_t rows = write(temporary);
    std::filesystem::rename(temporary, path);
    return rows;
  } catch (...) {
    std::filesystem::remove(temporary, error);  // what failed is told, not this
    throw;
  }
}

int64_t write_parquet(arrow::RecordBatchReader& rows, const std::string& path) {
  const auto file = check(arrow::io::FileOutputStream::Open(path), "write " + path);
  parquet::WriterProperties::Builder properties;
  properties.compression(parquet::Compression::ZSTD);
  const auto schema = check(rows.schema()->WithNames(distinct_names(*rows.schema())), "name the columns");
  const auto writer =
      check(parquet::arrow::FileWriter::Open(*schema, arrow::default_memory_pool(), file, properties.build()),
            "write " + path);
  int64_t count = 0;
  for (;;) {
    std::shared_ptr<arrow::RecordBatch> batch;
    check(rows.ReadNext(&batch), "read the result");
    if (!batch) break;
    count += batch->num_rows();
    check(writer->WriteRecordBatch(*arrow::RecordBatch::Make(schema, batch->num_rows(), batch->columns())),
          "write " + path);
  }
  check(writer->Close(), "write " + path);
  check(file->Close(), "write " + path);
  return count;
}

int64_t write_text(arrow::RecordBatchReader& rows, OutputFormat format, const std::string& path) {
  std::ofstream file(path, std::ios::trunc);
  const int64_t count = write_result(rows, format, file);
  file.close();
  if (!file) fail(ErrorKind::io, "cannot write {}", path);
  return count;
}

}  // namespace

int64_t write_result(arrow::RecordBatchReader& rows, OutputFormat format, std::ostream& out) {
  const auto schema = rows.schema();
  const std::vector<std::string> names = distinct_names(*schema);
  TablePrinter table(*schema, out);
  if (format == OutputFormat::csv) {
    for (int c = 0; c < schema->num_fields(); ++c) out << (c > 0 ? "," : "") << csv_cell(schema->field(c)->name());
    out << "\n";
  }
  int64_t count = 0;
  for (;;) {
    std::shared_ptr<arrow::RecordBatch> batch;
    check(rows.ReadNext(&batch), "read the result");
    if (!batch) break;
    count += batch->num_rows();
    switch (format) {
      case OutputFormat::table:
        is_plan(*schema) ? write_plan(*batch, out) : table.add(*batch);
        break;
      case OutputFormat::csv:
        write_csv(*batch, out);
        break;
      case OutputFormat::json:
        write_json(*batch, names, out);
        break;
      case OutputFormat::parquet:
        fail(ErrorKind::invalid_argument, "Parquet is written to a file: see write_result_file");
    }
    if (!out) fail(ErrorKind::io, "the output cannot be written");
  }
  if (format == OutputFormat::table && !is_plan(*schema)) {
    table.finish();
    out << "(" << count << (count == 1 ? " row)\n" : " rows)\n");
  }
  return count;
}

int64_t write_result_file(arrow::RecordBatchReader& rows, OutputFormat format, const std::string& path) {
  return write_file(path, [&](const std::string& file) {
    return format == OutputFormat::parquet ? write_parquet(rows, file) : write_text(rows, format, file);
  });
}

}  // namespace firn::hyp
