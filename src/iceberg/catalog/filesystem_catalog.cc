// A warehouse directory: ns.table is <warehouse>/ns/table.
#include <set>

#include "base/clock.h"
#include "base/uri.h"
#include "iceberg/catalog/catalog.h"
#include "iceberg/catalog/version_files.h"
#include "iceberg/full_names.h"

namespace firn::iceberg {
namespace {

class FilesystemCatalog final : public Catalog {
 public:
  FilesystemCatalog(std::shared_ptr<FileIO> io, const std::string& warehouse)
      : io_(std::move(io)), warehouse_(normal_location(warehouse)) {}

  std::shared_ptr<TableOperations> table(const std::string& identifier) override {
    return open_filesystem_table(io_, location_of(identifier));
  }

  LoadedTable create(const std::string& identifier, const Schema& schema, const PartitionSpec& spec,
                     const SortOrder& order, const std::map<std::string, std::string>& properties) override {
    check_full_names(schema);
    return create_filesystem_table(
        io_, new_table_metadata(location_of(identifier), schema, spec, order, properties, now_ms()));
  }

  std::vector<std::string> list() override {
    std::set<std::string> identifiers;
    for (const FileInfo& info : io_->list(warehouse_, true)) {
      // <namespace>/<table>/metadata/<file>, below the warehouse.
      std::string_view rest = std::string_view(info.path).substr(warehouse_.size() + 1);
      std::array<std::string_view, 3> folders;
      size_t depth = 0;
      for (size_t slash; (slash = rest.find('/')) != std::string_view::npos; rest.remove_prefix(slash + 1)) {
        if (depth == folders.size()) break;
        folders[depth++] = rest.substr(0, slash);
      }
      if (depth != folders.size() || folders[2] != "metadata" || !parse_metadata_file_name(rest)) continue;
      identifiers.insert(std::string(folders[0]) + "." + std::string(folders[1]));
    }
    return {identifiers.begin(), identifiers.end()};
  }

 private:
  std::string location_of(const std::string& identifier) const {
    const size_t dot = identifier.find('.');
    if (dot == std::string::npos || dot == 0 || dot + 1 == identifier.size() ||
        identifier.find('.', dot + 1) != std::string::npos || identifier.find('/') != std::string::npos) {
      fail(ErrorKind::invalid_argument, "table name '{}' is not of the form namespace.table", identifier);
    }
    return join_path(join_path(warehouse_, identifier.substr(0, dot)), identifier.substr(dot + 1));
  }

  std::shared_ptr<FileIO> io_;
  std::string warehouse_;
};

}  // namespace

std::unique_ptr<Catalog> make_filesystem_catalog(std::shared_ptr<FileIO> io, const std::string& warehouse) {
  return std::make_unique<FilesystemCatalog>(std::move(io), warehouse);
}

}  // namespace firn::iceberg
