#include "iceberg/parquet/column_metrics.h"

#include <cmath>

#include <arrow/array.h>
#include <arrow/visit_data_inline.h>
#include <parquet/statistics.h>

#include "base/arrow_status.h"
#include "iceberg/bounds.h"

namespace firn::iceberg {

namespace {

template <class ArrayType>
int64_t count_nan(const arrow::Array& array) {
  const auto& values = static_cast<const ArrayType&>(array);
  const auto* raw = values.raw_values();
  int64_t count = 0;
  for (int64_t i = 0; i < values.length(); ++i) count += std::isnan(raw[i]);
  if (count == 0 || values.null_count() == 0) return count;
  count = 0;
  for (int64_t i = 0; i < values.length(); ++i) count += std::isnan(raw[i]) && values.IsValid(i);
  return count;
}

// The first eight bytes as a number that orders as they do; short strings end in zeros.
uint64_t prefix_of(std::string_view bytes) {
  uint64_t prefix = 0;
  if (bytes.size() >= sizeof(prefix)) {
    std::memcpy(&prefix, bytes.data(), sizeof(prefix));
    return __builtin_bswap64(prefix);
  }
  if (bytes.empty()) return 0;
  for (const char c : bytes) prefix = prefix << 8 | static_cast<uint8_t>(c);
  return prefix << (8 * (sizeof(prefix) - bytes.size()));
}

// The chunk's bounds over all row groups; nullopt where any group with values lacks them.
struct FooterBounds {
  std::optional<Value> lower, upper;
  bool known = true;
};

void merge(FooterBounds& bounds, const parquet::EncodedStatistics* statistics, bool has_values,
           const parquet::ColumnDescriptor& column, const Type& type) {
  if (statistics == nullptr || !statistics->has_min || !statistics->has_max) {
    // The writer leaves out the bounds of a group without values, and of floats that are all NaN.
    const bool is_float = type.id() == TypeId::float_ || type.id() == TypeId::double_;
    if (has_values && !is_float) bounds.known = false;
    return;
  }
  const auto lower = decode_statistic(statistics->min(), column, type);
  const auto upper = decode_statistic(statistics->max(), column, type);
  if (!lower || !upper) {
    bounds.known = false;
    return;
  }
  if (!bounds.lower || compare(*lower, *bounds.lower, true) < 0) bounds.lower = lower;
  if (!bounds.upper || compare(*upper, *bounds.upper, true) > 0) bounds.upper = upper;
}

}  // namespace

void ColumnMetrics::ByteBounds::add(const arrow::BinaryArray& values) {
  const bool has_nulls = values.null_count() > 0;
  for (int64_t i = 0; i < values.length(); ++i) {
    if (has_nulls && values.IsNull(i)) continue;
    const std::string_view value = values.GetView(i);
    const uint64_t prefix = prefix_of(value);
    if (!lower_) {
      lower_ = upper_ = std::string(value);
      lower_prefix_ = upper_prefix_ = prefix;
      continue;
    }
    if (prefix < lower_prefix_ || (prefix == lower_prefix_ && value < *lower_)) {
      lower_->assign(value);
      lower_prefix_ = prefix;
    }
    if (prefix > upper_prefix_ || (prefix == upper_prefix_ && value > *upper_)) {
      upper_->assign(value);
      upper_prefix_ = prefix;
    }
  }
}

ColumnMetrics::ColumnMetrics(const Schema& stored, std::vector<MetricsMode> modes) {
  const std::vector<LeafColumn> columns = leaf_columns(stored);
  for (size_t i = 0; i < columns.size(); ++i) {
    Leaf leaf{.column = columns[i], .mode = modes[i]};
    const TypeId id = leaf.column.type->id();
    if (!leaf.column.id) leaf.mode = {.counts = false, .bounds = false};
    leaf.counts_nan = leaf.mode.counts && (id == TypeId::float_ || id == TypeId::double_);
    leaf.bounds_bytes = leaf.mode.bounds && !leaf.column.repeated && (id == TypeId::string || id == TypeId::binary);
    leaves_.push_back(std::move(leaf));
  }
  size_t next_leaf = 0;
  for (const Field& field : stored.fields()) columns_.push_back(make_node(*field.type, next_leaf));
}

ColumnMetrics::Node ColumnMetrics::make_node(const Type& type, size_t& next_leaf) {
  Node node{.first_leaf = next_leaf};
  if (type.id() == TypeId::variant) {
    next_leaf += 2;
  } else if (type.is_nested()) {
    for (const Field& child : type.fields()) node.children.push_back(make_node(*child.type, next_leaf));
  } else {
    ++next_leaf;
  }
  node.leaf_count = next_leaf - node.first_leaf;
  for (size_t i = node.first_leaf; i < next_leaf; ++i) node.watched |= leaves_[i].counts_nan || leaves_[i].bounds_bytes;
  return node;
}

void ColumnMetrics::add(const arrow::RecordBatch& batch) {
  for (size_t i = 0; i < columns_.size(); ++i) {
    if (columns_[i].watched) add(columns_[i], *batch.column(static_cast<int>(i)));
  }
}

void ColumnMetrics::add(const Node& node, const arrow::Array& array) {
  switch (array.type_id()) {
    case arrow::Type::STRUCT: {
      const auto& parent = static_cast<const arrow::StructArray&>(array);
      for (size_t i = 0; i < node.children.size(); ++i) {
        if (!node.children[i].watched) continue;
        // With the parent's nulls: what a null struct hides does not count.
        add(node.children[i], *check(parent.GetFlattenedField(static_cast<int>(i)), "a struct's member"));
      }
      return;
    }
    case arrow::Type::LIST: {
      const auto& list = static_cast<const arrow::ListArray&>(array);
      add(node.children[0], *check(list.Flatten(), "a list's elements"));
      return;
    }
    case arrow::Type::MAP: {
      const auto& map = static_cast<const arrow::MapArray&>(array);
      const auto entries = check(map.Flatten(), "a map's entries");
      for (size_t i = 0; i < 2; ++i) {
        if (node.children[i].watched)
          add(node.children[i], *static_cast<const arrow::StructArray&>(*entries).field(static_cast<int>(i)));
      }
      return;
    }
    default:
      break;
  }
  Leaf& leaf = leaves_[node.first_leaf];
  if (leaf.counts_nan) {
    leaf.nan_count += array.type_id() == arrow::Type::FLOAT ? count_nan<arrow::FloatArray>(array)
                                                            : count_nan<arrow::DoubleArray>(array);
  }
  if (leaf.bounds_bytes) leaf.byte_bounds.add(static_cast<const arrow::BinaryArray&>(array));
}

void ColumnMetrics::finish(const parquet::FileMetaData& footer, DataFile& file) const {
  file.record_count = footer.num_rows();
  std::vector<FooterBounds> bounds(leaves_.size());
  for (int group_index = 0; group_index < footer.num_row_groups(); ++group_index) {
    const auto group = footer.RowGroup(group_index);
    for (int i = 0; i < group->num_columns(); ++i) {
      const auto chunk = group->ColumnChunk(i);
      if (i == 0) {
        const bool dictionary_first =
            chunk->has_dictionary_page() && chunk->dictionary_page_offset() < chunk->data_page_offset();
        file.split_offsets.push_back(dictionary_first ? chunk->dictionary_page_offset() : chunk->data_page_offset());
      }
      const Leaf& leaf = leaves_[static_cast<size_t>(i)];
      if (!leaf.mode.counts) continue;
      const int32_t id = *leaf.column.id;
      const auto statistics = chunk->encoded_statistics();
      const bool has_null_count = statistics != nullptr && statistics->has_null_count;
      const int64_t null_count = has_null_count ? statistics->null_count : 0;
      file.column_sizes[id] += chunk->total_compressed_size();
      file.value_counts[id] += chunk->num_values();
      if (has_null_count) file.null_value_counts[id] += null_count;
      if (leaf.mode.bounds && !leaf.column.repeated && !leaf.bounds_bytes && has_order(*leaf.column.type))
        merge(bounds[static_cast<size_t>(i)], statistics.get(), chunk->num_values() > null_count,
              *footer.schema()->Column(i), *leaf.column.type);
    }
  }
  for (size_t i = 0; i < leaves_.size(); ++i) {
    const Leaf& leaf = leaves_[i];
    if (!leaf.mode.counts) continue;
    const int32_t id = *leaf.column.id;
    const Type& type = *leaf.column.type;
    if (leaf.counts_nan) file.nan_value_counts[id] = leaf.nan_count;
    std::optional<Value> lower = bounds[i].lower, upper = bounds[i].upper;
    if (!bounds[i].known) lower = upper = std::nullopt;
    if (leaf.bounds_bytes && leaf.byte_bounds.lower()) {
      lower = *leaf.byte_bounds.lower();
      upper = *leaf.byte_bounds.upper();
    }
    const bool truncates = leaf.mode.truncate_width && (type.id() == TypeId::string || type.id() == TypeId::binary);
    if (lower && truncates) lower = truncate_lower(*lower, type, *leaf.mode.truncate_width);
    if (upper && truncates) upper = truncate_upper(*upper, type, *leaf.mode.truncate_width);
    if (lower) file.lower_bounds[id] = to_bytes(*lower, type);
    if (upper) file.upper_bounds[id] = to_bytes(*upper, type);
  }
}

}  // namespace firn::iceberg
