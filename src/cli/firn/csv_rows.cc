#include <set>

#include <arrow/array.h>
#include <arrow/csv/reader.h>

#include "base/arrow_status.h"
#include "cli/firn/text_rows.h"
#include "cli/firn/value_text.h"

namespace firn::cli {
namespace {

using iceberg::Field;
using iceberg::Schema;

// Arrow finds the cells; ours turn their text into values, so that CSV is spelled as the rest is. Columns that the
// table lacks have the types that Arrow infers.
class CsvRows final : public arrow::RecordBatchReader {
 public:
  CsvRows(const std::shared_ptr<arrow::io::InputStream>& in, const Schema& table, const TextRowsOptions& options)
      : name_(options.name) {
    auto parsing = arrow::csv::ParseOptions::Defaults();
    parsing.newlines_in_values = true;
    auto conversion = arrow::csv::ConvertOptions::Defaults();
    conversion.null_values = {""};
    conversion.strings_can_be_null = true;
    conversion.quoted_strings_can_be_null = false;
    for (const Field& field : table.fields()) conversion.column_types[field.name] = arrow::utf8();
    auto reading = arrow::csv::ReadOptions::Defaults();
    reading.use_threads = false;
    cells_ = check(arrow::csv::StreamingReader::Make(arrow::io::default_io_context(), in, reading, parsing, conversion),
                   "read " + name_);
    std::vector<Field> fields;
    std::set<std::string> seen;
    for (const auto& column : cells_->schema()->fields()) {
      if (!seen.insert(column->name()).second) {
        fail(ErrorKind::invalid_argument, "{}: two columns are titled '{}'", name_, column->name());
      }
      const Field* known = nullptr;
      for (const Field& field : table.fields()) {
        if (field.name == column->name()) known = &field;
      }
      if (!known && !options.infers_new_columns) fail_unknown_column(name_ + " line 1", column->name(), table);
      known_.push_back(known ? std::optional(*known) : std::nullopt);
      if (known) fields.push_back(*known);
    }
    builders_.emplace(fields);
    arrow::FieldVector all;
    int num_known = 0;
    for (size_t i = 0; i < known_.size(); ++i) {
      all.push_back(known_[i] ? builders_->schema()->field(num_known++) : cells_->schema()->field(static_cast<int>(i)));
    }
    schema_ = arrow::schema(std::move(all));
  }

  std::shared_ptr<arrow::Schema> schema() const override { return schema_; }

  arrow::Status ReadNext(std::shared_ptr<arrow::RecordBatch>* batch) override {
    std::shared_ptr<arrow::RecordBatch> cells;
    do {
      check(cells_->ReadNext(&cells), "read " + name_);
    } while (cells && cells->num_rows() == 0);
    *batch = cells ? with_values(*cells) : nullptr;
    return arrow::Status::OK();
  }

 private:
  std::shared_ptr<arrow::RecordBatch> with_values(const arrow::RecordBatch& cells) {
    size_t builder = 0;
    for (size_t i = 0; i < known_.size(); ++i) {
      if (known_[i]) append_column(*cells.column(static_cast<int>(i)), *known_[i], builders_->at(builder++));
    }
    const auto values = builders_->finish(cells.num_rows());
    arrow::ArrayVector columns;
    int num_known = 0;
    for (size_t i = 0; i < known_.size(); ++i) {
      columns.push_back(known_[i] ? values->column(num_known++) : cells.column(static_cast<int>(i)));
    }
    rows_before_ += cells.num_rows();
    return arrow::RecordBatch::Make(schema_, cells.num_rows(), std::move(columns));
  }

  void append_column(const arrow::Array& array, const Field& field, arrow::ArrayBuilder& builder) const {
    const auto& texts = static_cast<const arrow::StringArray&>(array);
    for (int64_t row = 0; row < texts.length(); ++row) {
      try {
        append_text(builder, field, texts.IsNull(row) ? std::nullopt : std::optional(texts.GetView(row)));
      } catch (const Error& e) {
        throw Error(e.kind(), fmt::format("{} row {}", name_, rows_before_ + row + 1), e);
      }
    }
  }

  const std::string name_;
  std::shared_ptr<arrow::csv::StreamingReader> cells_;
  std::vector<std::optional<Field>> known_;  // the table's column of each of the file's; nullopt: a new one
  std::optional<ColumnBuilders> builders_;   // of the known ones
  std::shared_ptr<arrow::Schema> schema_;
  int64_t rows_before_ = 0;
};

}  // namespace

std::shared_ptr<arrow::RecordBatchReader> read_csv_rows(std::shared_ptr<arrow::io::InputStream> in, const Schema& table,
                                                        const TextRowsOptions& options) {
  return std::make_shared<CsvRows>(in, table, options);
}

}  // namespace firn::cli
