#include "iceberg/parquet/row_selection.h"

#include <algorithm>

#include <parquet/schema.h>
#include <parquet/statistics.h>

#include "iceberg/parquet/parquet_schema.h"

namespace firn::iceberg {

namespace {

bool is_floating(const Type& type) { return type.id() == TypeId::float_ || type.id() == TypeId::double_; }

// One bound of a float that is NaN (some writers did that) says that the other cannot be trusted either.
void set_bounds(ColumnBounds& bounds, std::optional<Value> lower, std::optional<Value> upper, const Type& type) {
  if (is_floating(type) && !(lower && upper)) return;
  bounds.lower = std::move(lower);
  bounds.upper = std::move(upper);
}

ColumnBounds constant_bounds(const FilterColumn& column, int64_t rows) {
  ColumnBounds bounds;
  if (!column.constant) return bounds;
  const Value& value = *column.constant;
  bounds.value_count = rows;
  bounds.null_count = is_null(value) ? rows : 0;
  bounds.nan_count = !is_null(value) && is_nan(value) ? rows : 0;
  if (!is_null(value) && !is_nan(value)) bounds.lower = bounds.upper = value;
  return bounds;
}

ColumnBounds chunk_bounds(const FilterColumn& column, const parquet::RowGroupMetaData& group) {
  if (column.leaf < 0) return constant_bounds(column, group.num_rows());
  const auto chunk = group.ColumnChunk(column.leaf);
  ColumnBounds bounds;
  bounds.value_count = chunk->num_values();
  const auto statistics = chunk->encoded_statistics();  // null where the writer is known for wrong ones
  if (statistics == nullptr) return bounds;
  if (statistics->has_null_count) bounds.null_count = statistics->null_count;
  const parquet::ColumnDescriptor& descriptor = *group.schema()->Column(column.leaf);
  set_bounds(bounds, statistics->has_min ? decode_statistic(statistics->min(), descriptor, *column.type) : std::nullopt,
             statistics->has_max ? decode_statistic(statistics->max(), descriptor, *column.type) : std::nullopt,
             *column.type);
  return bounds;
}

ColumnBounds page_bounds(const FilterColumn& column, const parquet::ColumnDescriptor& descriptor,
                         const PageBounds& pages, size_t page) {
  ColumnBounds bounds;
  const parquet::ColumnIndex& index = *pages.index;
  const int64_t rows = pages.pages[page].rows.size();
  bounds.value_count = rows;
  if (index.null_pages()[page]) {
    bounds.null_count = rows;
    return bounds;
  }
  if (index.has_null_counts() && index.null_counts().size() == pages.pages.size())
    bounds.null_count = index.null_counts()[page];
  set_bounds(bounds, decode_statistic(index.encoded_min_values()[page], descriptor, *column.type),
             decode_statistic(index.encoded_max_values()[page], descriptor, *column.type), *column.type);
  return bounds;
}

}  // namespace

bool row_group_might_match(const Expression& filter, const FilterColumns& columns,
                           const parquet::RowGroupMetaData& group) {
  return bounds_might_match(filter, [&](int32_t id) {
    const auto column = columns.find(id);
    return column == columns.end() ? ColumnBounds{} : chunk_bounds(column->second, group);
  });
}

std::vector<RowRange> select_rows(const Expression& filter, const FilterColumns& columns,
                                  const parquet::RowGroupMetaData& group,
                                  const std::map<int, PageBounds>& page_bounds_by_leaf) {
  struct Indexed {
    const FilterColumn* column;
    const PageBounds* pages;  // nullptr: one page, the chunk
    const parquet::ColumnDescriptor* descriptor = nullptr;
    size_t page = 0;
    ColumnBounds bounds;
  };
  std::map<int32_t, Indexed> indexed;
  std::vector<int64_t> cuts = {0, group.num_rows()};
  for (const auto& [id, column] : columns) {
    Indexed entry{.column = &column, .pages = nullptr};
    const auto found = page_bounds_by_leaf.find(column.leaf);
    if (column.leaf >= 0 && found != page_bounds_by_leaf.end()) {
      const parquet::ColumnIndex& index = *found->second.index;
      const size_t count = found->second.pages.size();
      if (index.null_pages().size() == count && index.encoded_min_values().size() == count &&
          index.encoded_max_values().size() == count) {
        entry.pages = &found->second;
        entry.descriptor = group.schema()->Column(column.leaf);
        for (const PageSpan& page : found->second.pages) cuts.push_back(page.rows.first);
      }
    }
    entry.bounds =
        entry.pages != nullptr ? page_bounds(column, *entry.descriptor, *entry.pages, 0) : chunk_bounds(column, group);
    indexed.emplace(id, std::move(entry));
  }
  std::sort(cuts.begin(), cuts.end());
  cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
  std::vector<RowRange> ranges;
  // Between two cuts every column stays within one page, whose bounds hold for the rows between as well.
  for (size_t i = 0; i + 1 < cuts.size(); ++i) {
    for (auto& [id, entry] : indexed) {
      if (entry.pages == nullptr || cuts[i] < entry.pages->pages[entry.page].rows.end) continue;
      while (cuts[i] >= entry.pages->pages[entry.page].rows.end) ++entry.page;
      entry.bounds = page_bounds(*entry.column, *entry.descriptor, *entry.pages, entry.page);
    }
    const bool might_match = bounds_might_match(filter, [&](int32_t id) {
      const auto entry = indexed.find(id);
      return entry == indexed.end() ? ColumnBounds{} : entry->second.bounds;
    });
    if (!might_match) continue;
    if (!ranges.empty() && ranges.back().end == cuts[i]) {
      ranges.back().end = cuts[i + 1];
    } else {
      ranges.push_back({cuts[i], cuts[i + 1]});
    }
  }
  return ranges;
}

}  // namespace firn::iceberg
