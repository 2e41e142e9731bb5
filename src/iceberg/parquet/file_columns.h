// Which Parquet columns hold which field ids (Iceberg spec, "Column Projection"; cases.md 11).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <parquet/arrow/schema.h>

#include "iceberg/parquet/array_adapter.h"
#include "iceberg/schema.h"

namespace firn::iceberg {

// A column of the file or a part of one: a struct's members, a list's element, a map's key and value are the children.
struct FileColumn {
  std::optional<int32_t> id;  // the file's, else the name mapping's; nullopt: not of the table
  std::string name;
  int leaf = -1;  // index among the file's leaves; -1: has children
  std::vector<FileColumn> children;
  bool selected = false;  // read: itself a leaf, or above one
};

// Throws unsupported naming `where` if no column has an id and there is no mapping.
std::vector<FileColumn> file_columns(const parquet::SchemaDescriptor& schema, const std::optional<NameMapping>& mapping,
                                     const std::string& where);

// The top-level column with `id`; nullptr: none.
FileColumn* find_column(std::vector<FileColumn>& columns, int32_t id);

// Marks the leaves that `target` is built from: at least one, since the nulls of its parents are stored there.
void select_leaves(FileColumn& column, const Field& target);
void add_selected_leaves(const FileColumn& column, std::vector<int>& leaves);
// The shape of the Arrow array that reading the selected leaves gives.
SourceField selected_source(const FileColumn& column);

}  // namespace firn::iceberg
