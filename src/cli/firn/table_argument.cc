#include <filesystem>

#include "base/uri.h"
#include "cli/firn/command.h"

namespace firn::cli {

std::shared_ptr<iceberg::TableOperations> open_table(const TableArgument& argument) {
  const std::shared_ptr<FileIO> io = make_local_file_io();
  const bool is_path = argument.table.find('/') != std::string::npos || std::filesystem::is_directory(argument.table);
  if (is_path || argument.warehouse.empty()) return iceberg::open_filesystem_table(io, argument.table);
  return iceberg::make_filesystem_catalog(io, argument.warehouse)->table(argument.table);
}

}  // namespace firn::cli
