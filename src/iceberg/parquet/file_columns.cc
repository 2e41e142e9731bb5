#include "iceberg/parquet/file_columns.h"

#include <algorithm>

#include <arrow/type.h>
#include <parquet/exception.h>
#include <parquet/properties.h>

#include "base/error.h"
#include "iceberg/parquet/arrow_schema.h"

namespace firn::iceberg {

namespace {

const MappedField* find_mapped(const NameMapping* mapping, const std::string& name) {
  if (mapping == nullptr) return nullptr;
  for (const MappedField& field : *mapping) {
    if (std::find(field.names.begin(), field.names.end(), name) != field.names.end()) return &field;
  }
  return nullptr;
}

// `mapped_name` is the name that the mapping knows it by.
FileColumn make_column(const parquet::arrow::SchemaField& field, const std::string& mapped_name,
                       const NameMapping* mapping, bool& any_id) {
  FileColumn column{.id = field_id_of(*field.field), .name = field.field->name(), .leaf = field.column_index};
  any_id |= column.id.has_value();
  const MappedField* mapped = find_mapped(mapping, mapped_name);
  if (!column.id && mapped != nullptr) column.id = mapped->field_id;
  const NameMapping* below = mapped != nullptr ? &mapped->fields : nullptr;
  switch (field.field->type()->id()) {
    case arrow::Type::MAP: {
      const auto& entries = field.children.at(0).children;
      column.children = {make_column(entries.at(0), "key", below, any_id),
                         make_column(entries.at(1), "value", below, any_id)};
      break;
    }
    case arrow::Type::LIST:
      column.children = {make_column(field.children.at(0), "element", below, any_id)};
      break;
    default:
      for (const auto& child : field.children)
        column.children.push_back(make_column(child, child.field->name(), below, any_id));
  }
  return column;
}

void select_all(FileColumn& column) {
  column.selected = true;
  for (FileColumn& child : column.children) select_all(child);
}

void select_first(FileColumn& column) {
  column.selected = true;
  if (!column.children.empty()) select_first(column.children[0]);
}

}  // namespace

std::vector<FileColumn> file_columns(const parquet::SchemaDescriptor& schema, const std::optional<NameMapping>& mapping,
                                     const std::string& where) {
  parquet::arrow::SchemaManifest manifest;
  PARQUET_THROW_NOT_OK(
      parquet::arrow::SchemaManifest::Make(&schema, nullptr, parquet::ArrowReaderProperties(), &manifest));
  std::vector<FileColumn> columns;
  bool any_id = false;
  for (const auto& field : manifest.schema_fields)
    columns.push_back(make_column(field, field.field->name(), mapping ? &*mapping : nullptr, any_id));
  if (!any_id && !mapping && !columns.empty())
    fail(ErrorKind::unsupported,
         "{} has no field ids, so its columns cannot be told apart: set the table property schema.name-mapping.default",
         where);
  return columns;
}

FileColumn* find_column(std::vector<FileColumn>& columns, int32_t id) {
  for (FileColumn& column : columns) {
    if (column.id == id) return &column;
  }
  return nullptr;
}

void select_leaves(FileColumn& column, const Field& target) {
  column.selected = true;
  if (column.leaf >= 0) return;
  switch (target.type->id()) {
    case TypeId::struct_: {
      bool any = false;
      for (const Field& member : target.type->fields()) {
        for (FileColumn& child : column.children) {
          if (child.id != member.id) continue;
          select_leaves(child, member);
          any = true;
          break;
        }
      }
      if (!any && !column.children.empty()) select_first(column.children[0]);
      return;
    }
    case TypeId::list:
      if (column.children.size() == 1) return select_leaves(column.children[0], target.type->element());
      break;
    case TypeId::map:
      if (column.children.size() == 2) {
        select_all(column.children[0]);
        return select_leaves(column.children[1], target.type->value());
      }
      break;
    default:
      break;
  }
  select_all(column);  // a variant; or a shape that does not fit, which is refused once its type is seen
}

void add_selected_leaves(const FileColumn& column, std::vector<int>& leaves) {
  if (!column.selected) return;
  if (column.leaf >= 0) leaves.push_back(column.leaf);
  for (const FileColumn& child : column.children) add_selected_leaves(child, leaves);
}

SourceField selected_source(const FileColumn& column) {
  SourceField source{.id = column.id, .name = column.name};
  for (const FileColumn& child : column.children) {
    if (child.selected) source.children.push_back(selected_source(child));
  }
  return source;
}

}  // namespace firn::iceberg
