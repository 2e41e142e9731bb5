#include <algorithm>
#include <map>
#include <set>

#include <fmt/ranges.h>

#include "base/arrow_status.h"
#include "cli/firn/text_rows.h"
#include "cli/firn/value_text.h"
#include "iceberg/parquet/arrow_schema.h"
#include "iceberg/parquet/without_field_ids.h"

namespace firn::cli {
namespace {

using iceberg::Field;
using iceberg::Schema;
using iceberg::Type;
using iceberg::TypeId;

constexpr int64_t kReadBytes = 1 << 20;
constexpr size_t kLineBytesMax = 64 << 20;
constexpr int64_t kBatchRows = 8192;
constexpr size_t kBatchBytes = 16 << 20;  // of text

// Lines without their ends; blank ones are counted and passed over.
class Lines {
 public:
  Lines(std::shared_ptr<arrow::io::InputStream> in, std::string name) : in_(std::move(in)), name_(std::move(name)) {}

  bool next(std::string_view& line) {
    for (;;) {
      size_t end = buffer_.find('\n', std::max(begin_, searched_));
      while (end == std::string::npos && !is_at_end_) {
        searched_ = buffer_.size() - begin_;
        read_more();
        end = buffer_.find('\n', searched_);
      }
      searched_ = 0;
      if (end == std::string::npos) {
        if (begin_ == buffer_.size()) return false;
        end = buffer_.size();
      }
      line = std::string_view(buffer_).substr(begin_, end - begin_);
      begin_ = std::min(end + 1, buffer_.size());
      ++number_;
      if (line.ends_with('\r')) line.remove_suffix(1);
      if (line.find_first_not_of(" \t") != std::string_view::npos) return true;
    }
  }
  std::string where() const { return fmt::format("{} line {}", name_, number_); }

 private:
  void read_more() {
    buffer_.erase(0, begin_);
    begin_ = 0;
    if (buffer_.size() > kLineBytesMax) {
      fail(ErrorKind::invalid_argument, "{} line {}: longer than {} bytes", name_, number_ + 1, kLineBytesMax);
    }
    const auto bytes = check(in_->Read(kReadBytes), "read " + name_);
    is_at_end_ = bytes->size() == 0;
    buffer_.append(reinterpret_cast<const char*>(bytes->data()), static_cast<size_t>(bytes->size()));
  }

  std::shared_ptr<arrow::io::InputStream> in_;
  std::string name_, buffer_;
  size_t begin_ = 0;     // of what is not handed out
  size_t searched_ = 0;  // bytes after begin_ known to hold no end of a line
  bool is_at_end_ = false;
  int64_t number_ = 0;
};

// Of an object, which `text` is as JSON; those of one name are counted each.
size_t count_members(std::string_view text) {
  size_t count = 0;
  int depth = 0;
  bool is_quoted = false;
  for (size_t at = 0; at < text.size(); ++at) {
    const char c = text[at];
    if (c == '"') is_quoted = !is_quoted;
    if (is_quoted) {
      at += c == '\\' ? 1 : 0;
    } else if (c == '{' || c == '[') {
      ++depth;
    } else if (c == '}' || c == ']') {
      --depth;
    } else if (c == ':' && depth == 1) {
      ++count;
    }
  }
  return count;
}

[[noreturn]] void fail_repeated_member(std::string_view text, const std::string& where) {
  std::set<std::string> names;
  std::string repeated;
  [[maybe_unused]] const Json row = Json::parse(text, [&](int depth, Json::parse_event_t event, const Json& name) {
    if (event == Json::parse_event_t::key && depth == 1 && !names.insert(name.get<std::string>()).second)
      repeated = name.get<std::string>();
    return true;
  });
  fail(ErrorKind::invalid_argument, "{}: the row has two values of '{}': give it one", where, repeated);
}

// Types of columns that the table lacks, from the rows of the first batch.
class NewColumns {
 public:
  void look_at(const std::string& where, const std::string& name, const Json& value) {
    auto found = std::find_if(types_.begin(), types_.end(), [&](const auto& column) { return column.first == name; });
    if (found == types_.end()) found = types_.insert(types_.end(), {name, TypeId::unknown});
    TypeId& type = found->second;
    const TypeId seen = value.is_null()             ? TypeId::unknown
                        : value.is_boolean()        ? TypeId::boolean_
                        : value.is_number_integer() ? TypeId::long_
                        : value.is_number()         ? TypeId::double_
                        : value.is_string()         ? TypeId::string
                                                    : TypeId::struct_;
    if (seen == TypeId::struct_) fail_no_type(where, name, "is nested");
    if (seen == TypeId::unknown || seen == type) return;
    const bool are_numbers =
        (type == TypeId::long_ && seen == TypeId::double_) || (type == TypeId::double_ && seen == TypeId::long_);
    if (type == TypeId::unknown) {
      type = seen;
    } else if (are_numbers) {
      type = TypeId::double_;
    } else {
      fail_no_type(where, name, "has values of several types");
    }
  }

  std::vector<Field> fields(const std::string& where) const {
    std::vector<Field> fields;
    for (const auto& [name, type] : types_) {
      if (type == TypeId::unknown) fail_no_type(where, name, "is null in all of the first rows");
      fields.push_back(Field{.name = name, .type = Type::primitive(type)});
    }
    return fields;
  }

 private:
  [[noreturn]] static void fail_no_type(const std::string& where, const std::string& name, const char* why) {
    fail(ErrorKind::invalid_argument,
         "{}: the new column '{}' {}: give it a type first (firn alter add-column), then append", where, name, why);
  }
  std::vector<std::pair<std::string, TypeId>> types_;  // in order of appearance
};

class JsonRows final : public arrow::RecordBatchReader {
 public:
  JsonRows(std::shared_ptr<arrow::io::InputStream> in, const Schema& table, const TextRowsOptions& options)
      : table_(table),
        lines_(std::move(in), options.name),
        fields_(table.fields()),
        can_add_columns_(options.can_add_columns),
        must_have_all_(options.has_columns_of_first_row) {
    if (options.infers_new_columns) look_ahead();
    if (options.has_columns_of_first_row) take_columns_of_first_row();
    builders_.emplace(fields_);
    for (size_t i = 0; i < fields_.size(); ++i) {
      columns_[fields_[i].name] = i;
      const auto& value = fields_[i].write_default;
      defaults_.push_back(value && !is_null(*value) ? iceberg::to_json(*value, *fields_[i].type) : Json());
    }
  }

  std::shared_ptr<arrow::Schema> schema() const override { return builders_->schema(); }

  arrow::Status ReadNext(std::shared_ptr<arrow::RecordBatch>* batch) override {
    int64_t num_rows = 0;
    for (const auto& [where, row] : ahead_) append_row(where, row), ++num_rows;
    ahead_.clear();
    size_t num_bytes = 0;
    std::string_view line;
    while (num_rows < kBatchRows && num_bytes < kBatchBytes && lines_.next(line)) {
      append_row(lines_.where(), parse_row(line));
      ++num_rows;
      num_bytes += line.size();
    }
    *batch = num_rows == 0 ? nullptr : builders_->finish(num_rows);
    return arrow::Status::OK();
  }

 private:
  Json parse_row(std::string_view line) const {
    Json row = parse_json(line, lines_.where());
    if (!row.is_object()) fail(ErrorKind::invalid_argument, "{}: a row is a JSON object", lines_.where());
    if (count_members(line) != row.size()) fail_repeated_member(line, lines_.where());
    return row;
  }

  bool is_column(const std::string& name) const {
    return std::any_of(table_.fields().begin(), table_.fields().end(),
                       [&](const Field& field) { return field.name == name; });
  }

  [[noreturn]] static void fail_other_columns(const std::string& name) {
    fail(
        ErrorKind::invalid_argument,
        "column {} is in some rows and not in others: give all of them the same columns (null where there is no value)",
        name);
  }

  void look_ahead() {
    NewColumns found;
    std::string_view line;
    size_t num_bytes = 0;
    while (static_cast<int64_t>(ahead_.size()) < kBatchRows && num_bytes < kBatchBytes && lines_.next(line)) {
      ahead_.emplace_back(lines_.where(), parse_row(line));
      num_bytes += line.size();
      for (const auto& [name, value] : ahead_.back().second.items()) {
        if (!is_column(name)) found.look_at(lines_.where(), name, value);
      }
    }
    for (Field& field : found.fields(lines_.where())) fields_.push_back(std::move(field));
  }

  void take_columns_of_first_row() {
    std::string_view line;
    if (ahead_.empty() && lines_.next(line)) ahead_.emplace_back(lines_.where(), parse_row(line));
    if (ahead_.empty()) return;
    std::erase_if(fields_, [&](const Field& field) { return !ahead_.front().second.contains(field.name); });
  }

  void append_row(const std::string& where, const Json& row) {
    is_set_.assign(fields_.size(), false);
    try {
      for (const auto& [name, value] : row.items()) {
        const auto found = columns_.find(name);
        if (found == columns_.end()) {
          if (must_have_all_ && is_column(name)) fail_other_columns(name);
          fail_unknown_column(where, name, table_, can_add_columns_);
        }
        append_json(builders_->at(found->second), fields_[found->second], value);
        is_set_[found->second] = true;
      }
      for (size_t i = 0; i < fields_.size(); ++i) {
        if (is_set_[i]) continue;
        if (must_have_all_) fail_other_columns(fields_[i].name);
        append_json(builders_->at(i), fields_[i], defaults_[i]);
      }
    } catch (const Error& e) {
      if (std::string_view(e.what()).starts_with(where)) throw;
      throw Error(e.kind(), where, e);
    }
  }

  const Schema table_;
  Lines lines_;
  std::vector<Field> fields_;
  const bool can_add_columns_;
  const bool must_have_all_;
  std::map<std::string, size_t, std::less<>> columns_;
  std::vector<Json> defaults_;  // of members that a row lacks
  std::vector<bool> is_set_;
  std::vector<std::pair<std::string, Json>> ahead_;  // rows that types were looked for in, each with its place
  std::optional<ColumnBuilders> builders_;
};

}  // namespace

ColumnBuilders::ColumnBuilders(const std::vector<Field>& fields) {
  arrow::FieldVector arrow_fields;
  for (const Field& field : fields) {
    arrow_fields.push_back(iceberg::without_field_ids(iceberg::to_arrow_field(field)));
    builders_.push_back(check(arrow::MakeBuilder(arrow_fields.back()->type()), "make a builder of " + field.name));
  }
  schema_ = arrow::schema(std::move(arrow_fields));
}

std::shared_ptr<arrow::RecordBatch> ColumnBuilders::finish(int64_t num_rows) {
  arrow::ArrayVector columns;
  for (const auto& builder : builders_) columns.push_back(check(builder->Finish(), "build a column"));
  return arrow::RecordBatch::Make(schema_, num_rows, std::move(columns));
}

void fail_unknown_column(const std::string& where, const std::string& name, const Schema& table, bool can_add_columns) {
  std::vector<std::string> names;
  for (const Field& field : table.fields()) names.push_back(field.name);
  fail(ErrorKind::not_found, "{}: the table has no column '{}'{}; it has: {}", where, name,
       can_add_columns ? " (--add-columns adds it)" : "", fmt::join(names, ", "));
}

std::shared_ptr<arrow::RecordBatchReader> read_json_rows(std::shared_ptr<arrow::io::InputStream> in,
                                                         const Schema& table, const TextRowsOptions& options) {
  return std::make_shared<JsonRows>(std::move(in), table, options);
}

}  // namespace firn::cli
