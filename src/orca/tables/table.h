// Tables as steps use them: datasets "namespace.table" of the warehouse, or any table by its location.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "iceberg/catalog/catalog.h"
#include "orca/ctx.h"

namespace firn::orca {

// A table and its metadata as they were loaded last. Copies share the table, not the metadata. One thread.
class Table {
 public:
  // Loads it. Throws what TableOperations::load does.
  explicit Table(std::shared_ptr<iceberg::TableOperations> operations);
  Table(std::shared_ptr<iceberg::TableOperations> operations, iceberg::LoadedTable loaded);

  const std::string& location() const { return operations_->location(); }  // where it lies: what it is known by
  const iceberg::TableMetadata& metadata() const { return *loaded_.metadata; }
  const iceberg::LoadedTable& loaded() const { return loaded_; }
  const std::shared_ptr<iceberg::TableOperations>& operations() const { return operations_; }
  const std::shared_ptr<FileIO>& io() const { return operations_->io(); }
  std::string title() const;  // for messages: "dataset nyc.trips", or "table <location>"

  void refresh();
  void set_loaded(iceberg::LoadedTable loaded) { loaded_ = std::move(loaded); }

 private:
  std::shared_ptr<iceberg::TableOperations> operations_;
  iceberg::LoadedTable loaded_;
};

// ORCA_WAREHOUSE: the root datasets are found under, a directory or a location in object storage; or empty.
std::string warehouse();

// The dataset a table at `location` is, "namespace.table", or empty if it isn't directly under a namespace in the
// warehouse.
std::string dataset_of(const std::string& location);

// The warehouse's tables as datasets, sorted. Throws config where there is no warehouse.
std::vector<std::string> datasets();

// A dataset's table, outside any step: nothing is checked or recorded. Throws config where there is no warehouse,
// not_found, invalid_argument for a name that is not namespace.table.
Table load_dataset(const std::string& dataset);

// The table at a location, in the warehouse or not. Throws not_found.
Table load_table(const std::string& location);

// The table of a dataset the step declared it reads, writes or replaces. Throws as load_dataset, and invalid_argument
// where the step did not declare it.
Table table(Ctx& ctx, const std::string& dataset);

// What opens a location's files. By default the local disk, for paths and "file:" URIs; others throw unsupported.
using OpenFileIO = std::function<std::shared_ptr<FileIO>(const std::string& location)>;
// For all tables that are opened from now on; nullptr: the default. Not while other threads open tables.
void set_file_io(OpenFileIO open);
std::shared_ptr<FileIO> file_io_for(const std::string& location);

// The filesystem catalog at the warehouse. Throws config where there is none.
std::unique_ptr<iceberg::Catalog> warehouse_catalog();

// What a step declared of the table at `location`. Each throws invalid_argument naming step and dataset for one that it
// did not declare so; a table outside the warehouse belongs to no dataset, and everything may be done to it.
void check_reads(const Ctx& ctx, const std::string& location);   // reads=
void check_writes(const Ctx& ctx, const std::string& location);  // writes= or replaces=
bool is_replaced(const Ctx& ctx, const std::string& location);   // replaces=
void check_declares_writes(const Ctx& ctx, const std::string& dataset);

}  // namespace firn::orca
