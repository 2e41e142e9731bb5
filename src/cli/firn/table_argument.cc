// From the name that a user gives to a table.
#include <cctype>
#include <cstdlib>
#include <filesystem>

#include <fmt/ranges.h>

#include "base/uri.h"
#include "cli/firn/command.h"

namespace firn::cli {
namespace {

constexpr size_t kListedTablesMax = 20;

// "local:nyc.flights" in two; nullopt for a path, a URI or a name without a catalog.
struct CatalogName {
  std::string catalog, identifier;
};
std::optional<CatalogName> split_catalog(const std::string& table) {
  const size_t colon = table.find(':');
  if (colon == std::string::npos || colon == 0 || table.find('/') != std::string::npos) return std::nullopt;
  return CatalogName{table.substr(0, colon), table.substr(colon + 1)};
}

std::string catalogs_file() {
  if (const char* named = std::getenv("FIRN_CATALOGS")) return std::filesystem::absolute(named).string();
  const char* config = std::getenv("XDG_CONFIG_HOME");
  const char* home = std::getenv("HOME");
  if (config && *config) return join_path(config, "firn/catalogs.json");
  return join_path(home && *home ? home : "/", ".config/firn/catalogs.json");
}

// {"local": {"warehouse": "/data/warehouse"}, …}
std::string warehouse_of(const std::string& catalog) {
  const std::string path = catalogs_file();
  const std::optional<std::string> text = make_local_file_io()->read_if_exists(path);
  if (!text) {
    fail(ErrorKind::config,
         "catalog '{}': there is no {}; write {{\"{}\": {{\"warehouse\": \"/path\"}}}} into it, or "
         "name another file in FIRN_CATALOGS",
         catalog, path, catalog);
  }
  const Json json = parse_json(*text, path);
  if (!json.is_object()) fail(ErrorKind::config, "{}: not an object of catalogs", path);
  const Json* entry = find_member(json, catalog.c_str());
  if (!entry) {
    std::vector<std::string> names;
    for (const auto& [name, unused] : json.items()) names.push_back(name);
    fail(ErrorKind::config, "{} has no catalog '{}'; it has: {}", path, catalog,
         names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", ")));
  }
  if (!entry->is_object()) fail(ErrorKind::config, "{}: catalog '{}' is not an object", path, catalog);
  for (const auto& [key, unused] : entry->items()) {
    if (key != "warehouse")
      fail(ErrorKind::config, "{}: catalog '{}': '{}' is not known; it takes a \"warehouse\"", path, catalog, key);
  }
  return get_string(*entry, "warehouse", fmt::format("{}: catalog '{}'", path, catalog));
}

bool is_path(const std::string& table) {
  return table.find('/') != std::string::npos || std::filesystem::is_directory(table);
}

// The warehouse that `argument` names a table in, and the table's name there; nullopt: it is a path.
std::optional<CatalogName> in_warehouse(const TableArgument& argument) {
  if (is_path(argument.table)) return std::nullopt;
  if (const auto name = split_catalog(argument.table))
    return CatalogName{warehouse_of(name->catalog), name->identifier};
  if (!argument.warehouse.empty()) return CatalogName{argument.warehouse, argument.table};
  return std::nullopt;
}

[[noreturn]] void fail_no_table(FileIO& io, const TableArgument& argument, const std::string& location) {
  if (const auto name = in_warehouse(argument)) {
    const auto catalog =
        iceberg::make_filesystem_catalog(std::shared_ptr<FileIO>(std::shared_ptr<FileIO>(), &io), name->catalog);
    std::vector<std::string> tables = catalog->list();
    const bool is_cut = tables.size() > kListedTablesMax;
    if (is_cut) tables.resize(kListedTablesMax);
    fail(ErrorKind::not_found, "there is no table {} in the warehouse {}; it has: {}{}", name->identifier,
         name->catalog, tables.empty() ? "none" : fmt::format("{}", fmt::join(tables, ", ")), is_cut ? ", …" : "");
  }
  if (!is_path(argument.table)) {
    fail(ErrorKind::not_found,
         "there is no folder {}; a table is named by its path, as catalog:namespace.table, or with --warehouse as "
         "namespace.table",
         argument.table);
  }
  const bool is_there =
      !io.list(location, false).empty() || (is_local(location) && std::filesystem::exists(local_path(location)));
  if (!is_there) fail(ErrorKind::not_found, "there is no table {}: no such folder", location);
  fail(ErrorKind::not_found, "{} is no Iceberg table: there is no metadata file in its folder metadata", location);
}

}  // namespace

std::shared_ptr<FileIO> make_io(const TableArgument& argument) {
  std::shared_ptr<FileIO> io = make_local_file_io();
  for (const auto& [from, to] : parse_pairs(argument.relocations, "--relocate")) {
    io = make_relocated_file_io(std::move(io), from, iceberg::normal_location(to));
  }
  return io;
}

std::string table_location(const TableArgument& argument) {
  const auto name = in_warehouse(argument);
  if (!name) return iceberg::normal_location(argument.table);
  const size_t dot = name->identifier.find('.');
  if (dot == std::string::npos || dot == 0 || dot + 1 == name->identifier.size() ||
      name->identifier.find('.', dot + 1) != std::string::npos) {
    fail(ErrorKind::invalid_argument, "table name '{}' is not of the form namespace.table", name->identifier);
  }
  return join_path(join_path(iceberg::normal_location(name->catalog), name->identifier.substr(0, dot)),
                   name->identifier.substr(dot + 1));
}

std::shared_ptr<iceberg::TableOperations> open_table(const TableArgument& argument) {
  const std::shared_ptr<FileIO> io = make_io(argument);
  const std::string location = table_location(argument);
  try {
    return iceberg::open_filesystem_table(io, location);
  } catch (const Error& e) {
    if (e.kind() != ErrorKind::not_found) throw;
    fail_no_table(*io, argument, location);
  }
}

}  // namespace firn::cli
