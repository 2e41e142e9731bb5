#include <algorithm>
#include <charconv>
#include <cmath>
#include <set>
#include <utility>

#include <arrow/array.h>
#include <arrow/csv/reader.h>

#include "base/arrow_status.h"
#include "base/civil_time.h"
#include "cli/firn/csv_text.h"
#include "cli/firn/text_rows.h"
#include "cli/firn/value_text.h"

namespace firn::cli {
namespace {

using iceberg::Field;
using iceberg::Schema;
using iceberg::Type;
using iceberg::TypeId;
using iceberg::TypePtr;

// Digits that a number has as it is printed: with leading zeros it is a code that only looks like one.
bool has_plain_digits(std::string_view digits) { return digits.size() < 2 || digits[0] != '0' || digits[1] == '.'; }

template <class Number>
std::optional<Number> number_of(std::string_view text) {
  Number number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc{} && end == text.data() + text.size() ? std::optional(number) : std::nullopt;
}

bool is_long(std::string_view text) {
  const std::string_view digits = text.substr(text.starts_with('-') ? 1 : 0);
  return text != "-0" && has_plain_digits(digits) && number_of<int64_t>(text);
}

// A whole number only where a double has it exactly.
bool is_double(std::string_view text) {
  if (text == "NaN" || text == "Infinity" || text == "-Infinity") return true;
  const std::string_view digits = text.substr(text.starts_with('-') ? 1 : 0);
  if (digits.empty() || digits.find_first_not_of("0123456789.eE+-") != std::string_view::npos) return false;
  const std::optional<double> number = number_of<double>(text);
  if (!has_plain_digits(digits) || !number) return false;
  return digits.find_first_not_of("0123456789") != std::string_view::npos || std::abs(*number) <= 0x1p53;
}

// Whether text of a new column is a value of `type`, spelled as such values are and no others.
bool is_spelled_as(TypeId type, std::string_view text) {
  switch (type) {
    case TypeId::boolean_:
      return text == "true" || text == "false";
    case TypeId::long_:
      return is_long(text);
    case TypeId::double_:
      return is_double(text);
    case TypeId::date:
      return text.size() == 10 && parse_date(text);
    case TypeId::timestamp:
    case TypeId::timestamptz: {
      const auto time = text.size() > 10 ? parse_timestamp_us(text) : std::nullopt;
      return time && time->has_offset == (type == TypeId::timestamptz);
    }
    default:
      return true;
  }
}

// The type of a new column by its first values; nullptr: there are none.
TypePtr type_of(const arrow::StringArray& texts) {
  if (texts.null_count() == texts.length()) return nullptr;
  for (const TypeId type :
       {TypeId::boolean_, TypeId::long_, TypeId::double_, TypeId::date, TypeId::timestamp, TypeId::timestamptz}) {
    bool fits = true;
    for (int64_t row = 0; fits && row < texts.length(); ++row)
      fits = texts.IsNull(row) || is_spelled_as(type, texts.GetView(row));
    if (fits) return Type::primitive(type);
  }
  return Type::primitive(TypeId::string);
}

// Arrow finds the cells; ours turn their text into values, so that CSV is spelled as the rest is.
class CsvRows final : public arrow::RecordBatchReader {
 public:
  CsvRows(const std::shared_ptr<arrow::io::InputStream>& in, const Schema& table, const TextRowsOptions& options)
      : name_(options.name), text_(std::make_shared<CsvText>(in, options.name)) {
    const std::vector<std::string> titles = text_->titles();
    auto parsing = arrow::csv::ParseOptions::Defaults();
    parsing.newlines_in_values = true;
    parsing.ignore_empty_lines = titles.size() != 1;  // of one column, an empty line is a null: scan prints it so
    auto conversion = arrow::csv::ConvertOptions::Defaults();
    conversion.null_values = {""};
    conversion.strings_can_be_null = true;
    conversion.quoted_strings_can_be_null = false;
    for (const std::string& title : titles) conversion.column_types[title] = arrow::utf8();
    auto reading = arrow::csv::ReadOptions::Defaults();
    reading.use_threads = false;
    reading.block_size = CsvText::kBlockBytes;
    auto cells =
        arrow::csv::StreamingReader::Make(arrow::io::default_io_context(), text_, reading, parsing, conversion);
    check_read(cells.status());
    cells_ = cells.MoveValueUnsafe();
    find_columns(table, options);
    std::vector<Field> fields;
    for (const Column& column : columns_) {
      if (column.is_taken) fields.push_back(column.field);
    }
    builders_.emplace(fields);
  }

  std::shared_ptr<arrow::Schema> schema() const override { return builders_->schema(); }

  arrow::Status ReadNext(std::shared_ptr<arrow::RecordBatch>* batch) override {
    const std::shared_ptr<arrow::RecordBatch> cells = ahead_ ? std::exchange(ahead_, nullptr) : next_cells();
    *batch = cells ? with_values(*cells) : nullptr;
    return arrow::Status::OK();
  }

 private:
  struct Column {  // of the file
    Field field;
    bool is_new = false;   // to the table
    bool is_taken = true;  // new ones without a value in the first rows are not
  };

  void find_columns(const Schema& table, const TextRowsOptions& options) {
    std::set<std::string> seen;
    bool has_new = false;
    for (const auto& title : cells_->schema()->fields()) {
      if (title->type()->id() != arrow::Type::STRING) {
        fail(ErrorKind::internal, "{}: column '{}' was not read as text", name_, title->name());
      }
      if (!seen.insert(title->name()).second) {
        fail(ErrorKind::invalid_argument, "{}: two columns are titled '{}'", name_, title->name());
      }
      const auto known = std::find_if(table.fields().begin(), table.fields().end(),
                                      [&](const Field& field) { return field.name == title->name(); });
      const bool is_new = known == table.fields().end();
      if (is_new && !options.infers_new_columns)
        fail_unknown_column(name_ + " line 1", title->name(), table, options.can_add_columns);
      columns_.push_back({is_new ? Field{.name = title->name()} : *known, is_new, true});
      has_new = has_new || is_new;
    }
    if (!has_new) return;
    ahead_ = next_cells();
    for (size_t i = 0; i < columns_.size(); ++i) {
      Column& column = columns_[i];
      if (!column.is_new) continue;
      if (ahead_) column.field.type = type_of(texts_of(*ahead_, i));
      column.is_taken = column.field.type != nullptr;
      if (!column.is_taken) {
        fmt::print(stderr, "firn: {}: the new column '{}' has no value in the first rows, and is left out\n", name_,
                   column.field.name);
      }
    }
  }

  static const arrow::StringArray& texts_of(const arrow::RecordBatch& cells, size_t column) {
    return static_cast<const arrow::StringArray&>(*cells.column(static_cast<int>(column)));
  }

  // A value that is too long for the parser is most often one whose quote has no end.
  void check_read(const arrow::Status& status) const {
    const std::string hint = status.ok() ? "" : text_->open_quote_hint();
    check(hint.empty() ? status : status.WithMessage(status.message(), hint), "read " + name_);
  }

  // nullptr: there are no more.
  std::shared_ptr<arrow::RecordBatch> next_cells() {
    for (;;) {
      std::shared_ptr<arrow::RecordBatch> cells;
      check_read(cells_->ReadNext(&cells));
      if (!cells || cells->num_rows() > 0) return cells;
    }
  }

  std::shared_ptr<arrow::RecordBatch> with_values(const arrow::RecordBatch& cells) {
    size_t builder = 0;
    for (size_t i = 0; i < columns_.size(); ++i) {
      const Column& column = columns_[i];
      append_column(texts_of(cells, i), column, column.is_taken ? &builders_->at(builder++) : nullptr);
    }
    rows_before_ += cells.num_rows();
    return builders_->finish(cells.num_rows());
  }

  void append_column(const arrow::StringArray& texts, const Column& column, arrow::ArrayBuilder* builder) const {
    if (builder == nullptr && texts.null_count() == texts.length()) return;
    for (int64_t row = 0; row < texts.length(); ++row) {
      const auto text = texts.IsNull(row) ? std::nullopt : std::optional(texts.GetView(row));
      try {
        if (text && column.is_new && !(column.is_taken && is_spelled_as(column.field.type->id(), *text)))
          fail_unlike_first(column, *text);
        if (builder != nullptr) append_text(*builder, column.field, text);
      } catch (const Error& e) {
        throw Error(e.kind(), fmt::format("{} row {}", name_, rows_before_ + row + 1), e);
      }
    }
  }

  [[noreturn]] static void fail_unlike_first(const Column& column, std::string_view text) {
    fail(ErrorKind::invalid_argument,
         "the new column '{}' has '{}', and in the first rows {}: give it a type first (firn alter add-column), then "
         "append",
         column.field.name, text, column.is_taken ? column.field.type->to_string() + " alone" : "no value");
  }

  const std::string name_;
  const std::shared_ptr<CsvText> text_;
  std::shared_ptr<arrow::csv::StreamingReader> cells_;
  std::vector<Column> columns_;
  std::shared_ptr<arrow::RecordBatch> ahead_;  // the first rows, that types were looked for in
  std::optional<ColumnBuilders> builders_;     // of the columns taken
  int64_t rows_before_ = 0;
};

}  // namespace

std::shared_ptr<arrow::RecordBatchReader> read_csv_rows(const std::shared_ptr<arrow::io::InputStream>& in,
                                                        const Schema& table, const TextRowsOptions& options) {
  return std::make_shared<CsvRows>(in, table, options);
}

}  // namespace firn::cli
