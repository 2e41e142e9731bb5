#include "hyp/cache/sequence_bounds.h"

namespace firn::hyp {
namespace {

std::optional<int64_t> bound_of(const std::map<int32_t, std::string>& bounds, int32_t field_id) {
  const auto found = bounds.find(field_id);
  if (found == bounds.end()) return std::nullopt;
  const auto value = iceberg::from_bytes(found->second, *iceberg::Type::primitive(iceberg::TypeId::long_));
  return value ? std::optional(std::get<int64_t>(*value)) : std::nullopt;
}

}  // namespace

std::optional<int64_t> lowest_number(const iceberg::DataFile& file, int32_t seq_id) {
  return bound_of(file.lower_bounds, seq_id);
}

std::optional<int64_t> highest_number(const iceberg::DataFile& file, int32_t seq_id) {
  return bound_of(file.upper_bounds, seq_id);
}

bool may_lack_numbers(const iceberg::DataFile& file, int32_t seq_id) {
  const auto nulls = file.null_value_counts.find(seq_id);
  return nulls == file.null_value_counts.end() || nulls->second > 0;
}

bool is_in_sequence(const iceberg::DataFile& file, const iceberg::TableMetadata& metadata, int32_t seq_id) {
  const iceberg::SortOrder& order = metadata.sort_order();
  return file.sort_order_id == metadata.default_sort_order_id && order.order_id != 0 && !order.fields.empty() &&
         order.fields[0].source_id() == seq_id && order.fields[0].ascending &&
         order.fields[0].transform.kind == iceberg::TransformKind::identity;
}

}  // namespace firn::hyp
