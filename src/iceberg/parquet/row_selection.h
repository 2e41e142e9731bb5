// Which rows of a row group a filter may match, by the footer's statistics and the page index.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include <parquet/metadata.h>
#include <parquet/page_index.h>

#include "iceberg/expr/expression.h"
#include "iceberg/parquet/flat_column.h"

namespace firn::iceberg {

// What is known of a column that the filter names, in one file.
struct FilterColumn {
  TypePtr type;
  int leaf = -1;                  // not below a list or map; -1: not in the file
  std::optional<Value> constant;  // of a column that is not in the file: the value of every row, null included
};
using FilterColumns = std::map<int32_t, FilterColumn>;

// False proves that no row of the group matches.
bool row_group_might_match(const Expression& filter, const FilterColumns& columns,
                           const parquet::RowGroupMetaData& group);

// A filter column's page index, where it has both halves.
struct PageBounds {
  std::vector<PageSpan> pages;
  std::shared_ptr<parquet::ColumnIndex> index;
};
// The rows left, ascending and apart. `page_bounds` by leaf; other columns count with the whole group's statistics.
std::vector<RowRange> select_rows(const Expression& filter, const FilterColumns& columns,
                                  const parquet::RowGroupMetaData& group, const std::map<int, PageBounds>& page_bounds);

}  // namespace firn::iceberg
