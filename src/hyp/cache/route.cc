// Which source partition each spooled line belongs to.
#include <arrow/scalar.h>

#include "base/arrow_status.h"
#include "base/uri.h"
#include "hyp/cache/cache.h"

namespace firn::hyp {
namespace {

// A partition is a folder; file systems take names up to 255 bytes, and lock files and temporaries add to them.
constexpr size_t kEncodedSourceMax = 200;

bool is_source_too_long(const std::string& source) { return encode_segment(source).size() > kEncodedSourceMax; }

iceberg::Schema source_schema(const DatasetConfig& dataset) {
  const iceberg::Field* declared = nullptr;
  if (dataset.schema) {
    for (const iceberg::Field& field : dataset.schema->fields()) {
      if (field.name == dataset.source_column) declared = &field;
    }
  }
  iceberg::TypePtr type = declared ? declared->type : iceberg::Type::primitive(iceberg::TypeId::string);
  return iceberg::Schema({{1, dataset.source_column, false, std::move(type)}});
}

std::string to_source(const arrow::Array& values, int64_t row, const std::string& frame_source) {
  if (values.IsNull(row)) return frame_source;
  if (values.type_id() == arrow::Type::STRING) return static_cast<const arrow::StringArray&>(values).GetString(row);
  return check(values.GetScalar(row), "read a source")->ToString();
}

}  // namespace

RoutedFrame route_lines(const Frame& frame, const DatasetConfig& dataset) {
  RoutedFrame routed;
  if (frame.text.empty()) return routed;
  if (dataset.source_column.empty() && !is_source_too_long(frame.source)) {
    routed.lines.push_back({frame.source, 0, static_cast<int64_t>(frame.text.size())});
    return routed;
  }
  RowParserOptions options;
  options.row_bytes_max = dataset.row_bytes_max;
  ParsedRows parsed = parse_rows(frame.text, source_schema(dataset), options);
  routed.rejected = std::move(parsed.rejected);
  const arrow::Array& values = *parsed.batch->column(0);
  for (int64_t row = 0; row < parsed.batch->num_rows(); ++row) {
    const int64_t begin = parsed.row_offsets[static_cast<size_t>(row)];
    const size_t newline = frame.text.find('\n', static_cast<size_t>(begin));
    const int64_t end =
        newline == std::string::npos ? static_cast<int64_t>(frame.text.size()) : static_cast<int64_t>(newline) + 1;
    std::string source = to_source(values, row, frame.source);
    if (is_source_too_long(source)) {
      routed.rejected.push_back(
          {begin, 0, dataset.source_column, fmt::format("the source name is longer than {} bytes", kEncodedSourceMax)});
      continue;
    }
    RoutedLines* last = routed.lines.empty() ? nullptr : &routed.lines.back();
    if (last != nullptr && last->end == begin && last->source == source) {
      last->end = end;
    } else {
      routed.lines.push_back({std::move(source), begin, end});
    }
  }
  std::stable_sort(routed.rejected.begin(), routed.rejected.end(),
                   [](const RejectedLine& a, const RejectedLine& b) { return a.offset < b.offset; });
  return routed;
}

}  // namespace firn::hyp
