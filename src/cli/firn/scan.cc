// Rows and files of a snapshot.
#include "iceberg/scan/scan.h"

#include <charconv>

#include <arrow/array.h>

#include "base/arrow_status.h"
#include "base/civil_time.h"
#include "cli/firn/command.h"
#include "cli/firn/text_table.h"
#include "iceberg/scan/row_json.h"

namespace firn::cli {
namespace {

using iceberg::DataFile;
using iceberg::FileContent;
using iceberg::FileScanTask;
using iceberg::LoadedTable;
using iceberg::ReadCounters;
using iceberg::ScanOptions;
using iceberg::ScanPlan;
using iceberg::Schema;

iceberg::ExpressionPtr parse_where(const std::string& where) {
  if (where.empty()) return nullptr;
  const size_t begin = where.find_first_not_of(" \t\r\n");
  const bool is_json = begin != std::string::npos && where[begin] == '{';
  return is_json ? iceberg::expression_from_json(parse_json(where, "--where"), "--where")
                 : iceberg::parse_expression(where);
}

void set_snapshot(ScanOptions& options, const AtArguments& at) {
  options.snapshot_id = at.snapshot_id;
  options.ref = at.ref;
  options.as_of_ms = parse_as_of_ms(at.as_of);
}

// The value without the quotes that JSON puts around it. Nested values stay JSON.
std::string cell_text(const arrow::Array& column, const iceberg::Type& type, int64_t row) {
  if (column.IsNull(row)) return "null";
  if (type.id() == iceberg::TypeId::string) {
    return std::string(static_cast<const arrow::BinaryArray&>(column).GetView(row));
  }
  std::string text;
  iceberg::append_value_json(column, type, row, text);
  if (text.size() >= 2 && text.front() == '"' && text.back() == '"') return text.substr(1, text.size() - 2);
  return text;
}

// One line, whatever the text holds.
std::string shown(std::string text) {
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

// RFC 4180; null is nothing, the empty string "".
std::string csv_cell(const arrow::Array& column, const iceberg::Type& type, int64_t row) {
  if (column.IsNull(row)) return "";
  const std::string text = cell_text(column, type, row);
  if (!text.empty() && text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) quoted += c == '"' ? std::string("\"\"") : std::string(1, c);
  return quoted + "\"";
}

std::string csv_title(const std::string& name) {
  if (!name.empty() && name.find_first_of(",\"\r\n") == std::string::npos) return name;
  std::string quoted = "\"";
  for (const char c : name) quoted += c == '"' ? std::string("\"\"") : std::string(1, c);
  return quoted + "\"";
}

// Rows as they come, in one of the formats.
class RowPrinter {
 public:
  RowPrinter(const Schema& schema, RowFormat format) : schema_(schema), format_(format), table_(titles(schema)) {
    if (format_ != RowFormat::csv) return;
    for (size_t i = 0; i < schema_.fields().size(); ++i) {
      buffer_ += (i == 0 ? "" : ",") + csv_title(schema_.fields()[i].name);
    }
    buffer_ += "\n";
  }

  void print(const arrow::RecordBatch& batch, int64_t row) {
    if (format_ == RowFormat::json) {
      iceberg::append_row_json(batch, schema_, row, buffer_);
      buffer_ += "\n";
    } else if (format_ == RowFormat::csv) {
      for (int i = 0; i < batch.num_columns(); ++i) {
        if (i > 0) buffer_ += ",";
        buffer_ += csv_cell(*batch.column(i), *schema_.fields()[static_cast<size_t>(i)].type, row);
      }
      buffer_ += "\n";
    } else {
      std::vector<std::string> cells;
      for (int i = 0; i < batch.num_columns(); ++i) {
        cells.push_back(shown(cell_text(*batch.column(i), *schema_.fields()[static_cast<size_t>(i)].type, row)));
      }
      table_.add(std::move(cells));
    }
    if (buffer_.size() >= kBufferBytes) flush();
  }

  void finish() {
    if (format_ == RowFormat::table) table_.finish();
    flush();
  }

 private:
  static constexpr size_t kBufferBytes = 1 << 16;

  static std::vector<std::string> titles(const Schema& schema) {
    std::vector<std::string> titles;
    for (const iceberg::Field& field : schema.fields()) titles.push_back(shown(field.name));
    return titles;
  }
  void flush() {
    print_text(buffer_);
    buffer_.clear();
  }

  const Schema& schema_;
  const RowFormat format_;
  std::string buffer_;
  TextTable table_;
};

// Rows up to `limit`, from metadata where a file's count is exact.
int64_t count_rows(const std::shared_ptr<FileIO>& io, ScanPlan plan, const ScanOptions& options) {
  int64_t num_rows = 0;
  std::vector<FileScanTask> to_read;
  for (FileScanTask& task : plan.tasks) {
    if (task.deletes.empty() && !task.residual) {
      num_rows += task.file.record_count;
    } else {
      to_read.push_back(std::move(task));
    }
  }
  plan.tasks = std::move(to_read);
  if (plan.tasks.empty()) return num_rows;
  const auto rows = iceberg::read_tasks(std::make_shared<const ScanPlan>(std::move(plan)), io, options);
  while (true) {
    std::shared_ptr<arrow::RecordBatch> batch;
    check(rows->ReadNext(&batch), "read rows");
    if (!batch) return num_rows;
    num_rows += batch->num_rows();
  }
}

void print_stats(const ReadCounters& counters) {
  fmt::print(stderr,
             "manifests read {}, skipped {}; files planned {}, pruned {}, opened {}; row groups read {}, pruned {}; "
             "pages read "
             "{}, pruned {}; rows decoded {}, values decoded {}; bytes read {}\n",
             counters.manifests_read.load(), counters.manifests_skipped.load(), counters.files_planned.load(),
             counters.files_pruned.load(), counters.files_opened.load(), counters.row_groups_read.load(),
             counters.row_groups_pruned.load(), counters.pages_read.load(), counters.pages_pruned.load(),
             counters.rows_decoded.load(), counters.values_decoded.load(), counters.bytes_read.load());
}

}  // namespace

std::optional<int64_t> parse_as_of_ms(const std::string& as_of) {
  if (as_of.empty()) return std::nullopt;
  int64_t ms = 0;
  const auto [end, error] = std::from_chars(as_of.data(), as_of.data() + as_of.size(), ms);
  if (error == std::errc{} && end == as_of.data() + as_of.size() && as_of.size() > 4) return ms;
  const auto parsed = parse_timestamp_us(as_of);
  if (!parsed) {
    fail(ErrorKind::invalid_argument,
         "--as-of '{}' is neither a time (2024-03-01T12:00:00Z) nor milliseconds since 1970", as_of);
  }
  return floor_div(parsed->value, 1000);
}

void scan(const TableArgument& argument, const ScanArguments& arguments) {
  const auto table = open_table(argument);
  const LoadedTable head = table->load();
  ReadCounters counters;
  ScanOptions options;
  set_snapshot(options, arguments.at);
  options.columns = arguments.columns;
  options.row_lineage = arguments.row_lineage;
  options.filter = parse_where(arguments.where);
  options.prune = arguments.prune;
  options.counters = &counters;
  if (arguments.format == RowFormat::count) {
    options.columns = {"_pos"};  // a row's place is known without reading any column
    options.row_lineage = false;
  }
  ScanPlan plan = iceberg::plan_scan(*head.metadata, table->io(), options);
  if (arguments.format == RowFormat::count) {
    const int64_t num_rows = count_rows(table->io(), std::move(plan), options);
    print_text(fmt::format("{}\n", arguments.limit ? std::min(*arguments.limit, num_rows) : num_rows));
  } else {
    const auto shared_plan = std::make_shared<const ScanPlan>(std::move(plan));
    RowPrinter printer(shared_plan->projection, arguments.format);
    const auto rows = iceberg::read_tasks(shared_plan, table->io(), options);
    int64_t num_left = arguments.limit.value_or(INT64_MAX);
    while (num_left > 0) {
      std::shared_ptr<arrow::RecordBatch> batch;
      check(rows->ReadNext(&batch), "read rows");
      if (!batch) break;
      for (int64_t row = 0; row < batch->num_rows() && num_left > 0; ++row, --num_left) printer.print(*batch, row);
    }
    printer.finish();
  }
  if (arguments.stats) print_stats(counters);
}

void files(const TableArgument& argument, const AtArguments& at, bool as_json) {
  const auto table = open_table(argument);
  const LoadedTable head = table->load();
  ScanOptions options;
  set_snapshot(options, at);
  const std::optional<int64_t> snapshot_id = iceberg::plan_scan(*head.metadata, table->io(), options).snapshot_id;
  std::vector<iceberg::LiveFile> live;
  if (snapshot_id)
    live = iceberg::live_files(*head.metadata, *head.metadata->find_snapshot(*snapshot_id), *table->io());

  const auto content = [](const DataFile& file) {
    return file.content == FileContent::data               ? "data"
           : file.content == FileContent::position_deletes ? "position-deletes"
                                                           : "equality-deletes";
  };
  const auto partition = [&](const DataFile& file) {
    return head.metadata->spec(file.partition_spec_id).partition_path(file.partition, head.metadata->schema());
  };
  if (as_json) {
    Json json = Json::array();
    for (const iceberg::LiveFile& entry : live) {
      Json one;
      one["content"] = content(entry.file);
      one["file-path"] = entry.file.file_path;
      one["file-format"] = entry.file.file_format;
      one["spec-id"] = entry.file.partition_spec_id;
      one["partition"] = partition(entry.file);
      one["record-count"] = entry.file.record_count;
      one["file-size-in-bytes"] = entry.file.file_size_bytes;
      one["data-sequence-number"] = entry.data_sequence_number;
      one["file-sequence-number"] = entry.file_sequence_number;
      one["snapshot-id"] = entry.snapshot_id;
      if (entry.file.first_row_id) one["first-row-id"] = *entry.file.first_row_id;
      if (!entry.file.referenced_data_file.empty()) one["referenced-data-file"] = entry.file.referenced_data_file;
      json.push_back(std::move(one));
    }
    print_text(json.dump(2) + "\n");
    return;
  }
  TextTable text({"CONTENT", "ROWS", "BYTES", "SEQUENCE", "PARTITION", "FILE"});
  for (const iceberg::LiveFile& entry : live) {
    text.add({content(entry.file), std::to_string(entry.file.record_count), std::to_string(entry.file.file_size_bytes),
              std::to_string(entry.data_sequence_number), partition(entry.file), entry.file.file_path});
  }
  text.finish();
}

}  // namespace firn::cli
