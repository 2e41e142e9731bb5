// A generation in the making: its data files, before any table names them (P7).
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "hyp/maintain/compaction_plan.h"
#include "hyp/maintain/duplicates.h"
#include "hyp/maintain/live_data.h"

namespace firn::hyp {

constexpr size_t kNoGroup = static_cast<size_t>(-1);

struct NewFile {
  iceberg::DataFile file;       // with its path in the new generation
  std::string linked_from;      // the path that the live generation's metadata has; empty: it is rewritten
  size_t group = kNoGroup;      // of the plan, if it is rewritten
  iceberg::PositionSet hidden;  // rows that a deletion vector of the new table is to hide
};

// Owns the directory: removed on destruction, as far as it can be done, unless it was kept. Requires the compactor's
// lock. One thread.
class NewGeneration {
 public:
  NewGeneration(Cache& cache, const PartitionId& partition, const LiveTable& live);
  ~NewGeneration();
  NewGeneration(const NewGeneration&) = delete;
  NewGeneration& operator=(const NewGeneration&) = delete;

  const std::string& table_dir() const { return table_dir_; }
  const std::string& location() const { return location_; }
  const std::shared_ptr<FileIO>& io() const { return cache_.io(); }

  // Writes the rows of the group's files in sequence order, without those in `dropped`. Throws cancelled.
  void rewrite(const CompactionPlan& plan, size_t group, const NumberSet& dropped, const std::atomic<bool>* cancelled);
  // More rows of a group, in any order, until `next` gives nullptr.
  void add_rows(size_t group, const std::function<std::shared_ptr<arrow::RecordBatch>()>& next);
  // The same files under paths of this generation; what hides their rows is the caller's. `of`: whose files they are.
  void link(const LiveTable& of, const std::vector<const LiveData*>& files);

  std::vector<NewFile>& files() { return files_; }
  void remove_file(size_t index);  // of files(): those behind it move up
  // The group that the live generation's file was rewritten in; kNoGroup: none.
  size_t group_of(const std::string& live_path) const;
  // Whether two rows of the group have one number, which firn's own rows never do: then they cannot be told apart.
  bool has_equal_numbers(size_t group) const { return equal_numbers_.contains(group); }
  int64_t rows_written() const { return rows_written_; }

  // From here on the directory stays, whatever happens: a cursor may name it.
  void keep() { kept_ = true; }

 private:
  Cache& cache_;
  const LiveTable& live_;
  std::string table_dir_, location_;
  iceberg::TableMetadata metadata_;  // for writers: the live table's, at location_
  std::vector<NewFile> files_;
  std::map<std::string, size_t> group_of_;
  std::set<size_t> equal_numbers_;
  std::set<std::string> linked_names_;
  int64_t rows_written_ = 0;
  bool kept_ = false;
};

// `live` as the metadata of a table at `location` that has no snapshot yet: the same schemas, field ids, specs, orders
// and properties, a uuid of its own.
iceberg::TableMetadata generation_metadata(const iceberg::TableMetadata& live, const std::string& location);

}  // namespace firn::hyp
