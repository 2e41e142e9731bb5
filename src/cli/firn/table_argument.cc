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

// What an opened table's paths begin with, and where that really is.
struct MovedFolder {
  std::string recorded, actual;
};
std::vector<MovedFolder>& moved_folders() {
  static std::vector<MovedFolder> moved;
  return moved;
}

void note_moved(std::string recorded, const std::string& actual) {
  while (recorded.size() > 1 && recorded.ends_with('/')) recorded.pop_back();
  if (recorded != actual) moved_folders().push_back({std::move(recorded), actual});
}

// Whether the path at `at` begins and, after `size` bytes, has a whole name there.
bool is_folder_at(const std::string& text, size_t at, size_t size) {
  constexpr std::string_view kBefore = " \t\n'\"([=,:", kAfter = " \t\n'\")],:;";
  const size_t end = at + size;
  return (at == 0 || kBefore.find(text[at - 1]) != std::string_view::npos) &&
         (end == text.size() || text[end] == '/' || kAfter.find(text[end]) != std::string_view::npos);
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

// A table that is read with another FileIO.
class RelocatedTable final : public iceberg::TableOperations {
 public:
  RelocatedTable(std::shared_ptr<iceberg::TableOperations> table, std::shared_ptr<FileIO> io)
      : table_(std::move(table)), io_(std::move(io)) {}
  const std::string& location() const override { return table_->location(); }
  const std::shared_ptr<FileIO>& io() const override { return io_; }
  iceberg::LoadedTable load() override { return table_->load(); }
  Published publish(const iceberg::LoadedTable& base, iceberg::TableMetadata next, int64_t snapshot_id) override {
    return table_->publish(base, std::move(next), snapshot_id);
  }

 private:
  std::shared_ptr<iceberg::TableOperations> table_;
  std::shared_ptr<FileIO> io_;
};

// A name in a catalog is no path, though it may look like one.
void check_catalog_name(const std::string& table) {
  const std::string first = table.substr(0, table.find('/'));
  const size_t colon = first.find(':');
  if (first.size() == table.size() || colon == std::string::npos || colon == 0 || table.find("://") == colon) return;
  if (first.starts_with("file:") || std::filesystem::is_directory(first)) return;
  fail(ErrorKind::invalid_argument,
       "'{}' is no table: in a catalog it is namespace.table, without '/'; a folder of such a name is ./{}", table,
       table);
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
    note_moved(from, iceberg::normal_location(to));
    io = make_relocated_file_io(std::move(io), from, iceberg::normal_location(to));
  }
  return io;
}

std::string with_real_paths(std::string text) {
  for (const auto& [recorded, actual] : moved_folders()) {
    for (size_t at = text.find(recorded); at != std::string::npos; at = text.find(recorded, at)) {
      // One that lies in the other may be there already.
      const bool is_actual = text.compare(at, actual.size(), actual) == 0 && is_folder_at(text, at, actual.size());
      if (is_actual || !is_folder_at(text, at, recorded.size())) {
        at += is_actual ? actual.size() : recorded.size();
        continue;
      }
      text.replace(at, recorded.size(), actual);
      at += actual.size();
    }
  }
  return text;
}

std::vector<std::string> with_real_paths(std::vector<std::string> paths) {
  for (std::string& path : paths) path = with_real_paths(std::move(path));
  return paths;
}

std::string table_location(const TableArgument& argument) {
  check_catalog_name(argument.table);
  const auto name = in_warehouse(argument);
  if (!name) return iceberg::normal_location(argument.table);
  const size_t dot = name->identifier.find('.');
  if (dot == std::string::npos || dot == 0 || dot + 1 == name->identifier.size() ||
      name->identifier.find('.', dot + 1) != std::string::npos || name->identifier.find('/') != std::string::npos) {
    fail(ErrorKind::invalid_argument, "table name '{}' is not of the form namespace.table", name->identifier);
  }
  return join_path(join_path(iceberg::normal_location(name->catalog), name->identifier.substr(0, dot)),
                   name->identifier.substr(dot + 1));
}

std::shared_ptr<iceberg::TableOperations> open_table(const TableArgument& argument) {
  const std::shared_ptr<FileIO> io = make_io(argument);
  const std::string location = table_location(argument);
  try {
    std::shared_ptr<iceberg::TableOperations> table = iceberg::open_filesystem_table(io, location);
    const std::string recorded = table->load().metadata->location;
    note_moved(recorded, table->location());
    note_moved(iceberg::normal_location(recorded), table->location());
    if (argument.relocations.empty()) return table;
    // What was asked for goes before what the table's own move makes of its paths, and again after it.
    std::shared_ptr<FileIO> first = table->io();
    for (const auto& [from, to] : parse_pairs(argument.relocations, "--relocate")) {
      note_moved(from, iceberg::normal_location(to));
      const bool is_within = (iceberg::normal_location(to) + "/").starts_with(iceberg::normal_location(from) + "/");
      if (!is_within) first = make_relocated_file_io(std::move(first), from, iceberg::normal_location(to));
    }
    return std::make_shared<RelocatedTable>(std::move(table), std::move(first));
  } catch (const Error& e) {
    if (e.kind() != ErrorKind::not_found) throw;
    fail_no_table(*io, argument, location);
  }
}

}  // namespace firn::cli
