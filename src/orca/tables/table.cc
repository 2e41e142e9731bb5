#include "orca/tables/table.h"

#include <algorithm>
#include <cstdlib>
#include <mutex>

#include <fmt/ranges.h>

#include "base/error.h"
#include "base/uri.h"

namespace firn::orca {
namespace {

std::mutex& file_io_mutex() {
  static std::mutex mutex;
  return mutex;
}

OpenFileIO& open_file_io() {
  static OpenFileIO open;  // guarded by file_io_mutex
  return open;
}

std::string existing_warehouse() {
  std::string root = warehouse();
  if (root.empty())
    fail(ErrorKind::config, "ORCA_WAREHOUSE is not set: datasets have no place; set it to a directory or a location");
  return root;
}

bool declares(const std::vector<std::string>& datasets, const std::string& dataset) {
  return std::find(datasets.begin(), datasets.end(), dataset) != datasets.end();
}

[[noreturn]] void fail_undeclared(const Ctx& ctx, const std::string& dataset, std::string_view verb,
                                  std::string_view where) {
  fail(ErrorKind::invalid_argument, "step {}: it does not declare that it {} dataset {}; add it to the step's {}",
       ctx.id().step, verb, dataset, where);
}

}  // namespace

Table::Table(std::shared_ptr<iceberg::TableOperations> operations) : operations_(std::move(operations)) { refresh(); }

Table::Table(std::shared_ptr<iceberg::TableOperations> operations, iceberg::LoadedTable loaded)
    : operations_(std::move(operations)), loaded_(std::move(loaded)) {}

void Table::refresh() { loaded_ = operations_->load(); }

std::string Table::title() const {
  const std::string dataset = dataset_of(location());
  return dataset.empty() ? "table " + location() : "dataset " + dataset;
}

std::string warehouse() {
  const char* root = std::getenv("ORCA_WAREHOUSE");
  return root == nullptr ? "" : root;
}

std::string dataset_of(const std::string& location) {
  const std::string root = warehouse();
  if (root.empty() || location.empty()) return "";
  std::string prefix = iceberg::normal_location(root);
  if (!prefix.ends_with('/')) prefix += '/';
  const std::string place = iceberg::normal_location(location);
  if (!place.starts_with(prefix)) return "";
  const std::string rest = place.substr(prefix.size());
  const size_t slash = rest.find('/');
  if (slash == std::string::npos || slash == 0 || slash + 1 == rest.size()) return "";
  if (rest.find('/', slash + 1) != std::string::npos || rest.find('.') != std::string::npos) return "";
  return rest.substr(0, slash) + "." + rest.substr(slash + 1);
}

std::vector<std::string> datasets() { return warehouse_catalog()->list(); }

Table load_dataset(const std::string& dataset) {
  const auto catalog = warehouse_catalog();
  try {
    return Table(catalog->table(dataset));
  } catch (const Error& e) {
    throw Error(e.kind(), "dataset " + dataset, e);
  }
}

Table load_table(const std::string& location) {
  return Table(iceberg::open_filesystem_table(file_io_for(location), location));
}

Table table(Ctx& ctx, const std::string& dataset) {
  const StepDatasets& declared = ctx.datasets();
  if (!declares(declared.reads, dataset) && !declares(declared.writes, dataset) &&
      !declares(declared.replaces, dataset))
    fail_undeclared(ctx, dataset, "reads or writes", "reads, writes or replaces");
  return load_dataset(dataset);
}

void set_file_io(OpenFileIO open) {
  const std::lock_guard lock(file_io_mutex());
  open_file_io() = std::move(open);
}

std::shared_ptr<FileIO> file_io_for(const std::string& location) {
  OpenFileIO open;
  {
    const std::lock_guard lock(file_io_mutex());
    open = open_file_io();
  }
  if (open) return open(location);
  if (!is_local(location))
    fail(ErrorKind::unsupported, "{}: only tables on a local disk can be opened; give a path or a file: URI", location);
  return make_local_file_io();
}

std::unique_ptr<iceberg::Catalog> warehouse_catalog() {
  const std::string root = existing_warehouse();
  return iceberg::make_filesystem_catalog(file_io_for(root), root);
}

void check_reads(const Ctx& ctx, const std::string& location) {
  const std::string dataset = dataset_of(location);
  if (!dataset.empty() && !declares(ctx.datasets().reads, dataset)) fail_undeclared(ctx, dataset, "reads", "reads");
}

void check_declares_writes(const Ctx& ctx, const std::string& dataset) {
  if (!declares(ctx.datasets().writes, dataset) && !declares(ctx.datasets().replaces, dataset))
    fail_undeclared(ctx, dataset, "writes", "writes or replaces");
}

void check_writes(const Ctx& ctx, const std::string& location) {
  if (const std::string dataset = dataset_of(location); !dataset.empty()) check_declares_writes(ctx, dataset);
}

bool is_replaced(const Ctx& ctx, const std::string& location) {
  const std::string dataset = dataset_of(location);
  return !dataset.empty() && declares(ctx.datasets().replaces, dataset);
}

}  // namespace firn::orca
