// One statement's view of the cache (P13.1): spool segments are opened first, then the tables; of the spooled frames those
// that a table has already are left out, so that no row is counted twice or missed.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "hyp/cache/cache.h"

namespace firn::hyp {

// A dataset at the cut. Immutable but for the readers that it makes.
struct DatasetCut {
  std::string name;
  DatasetConfig config;
  iceberg::Schema schema;             // its columns without the hidden ones, those of spooled rows included; ids are of no table
  std::map<std::string, HeldTable> tables;  // by source
  int64_t spooled_bytes = 0;          // of frames that are in no table
  int64_t table_rows = 0;             // an estimate, for DuckDB's planner
};

// Spooled lines of one source that are in no table yet.
struct SpooledLines {
  std::string text;
};

// Thread-safe.
class Cut {
 public:
  explicit Cut(const Cache& cache);  // opens the spools
  ~Cut();
  // nullptr: no such dataset is cached, spooled or declared. The same for every use in the statement.
  std::shared_ptr<const DatasetCut> dataset(const std::string& name);
  // The dataset whose name equals `name`, else the only one that equals it but for case; empty: none.
  std::string resolve(const std::string& name);
  const Cache& cache() const { return cache_; }

  // The spooled lines of `dataset` that its tables lack, from the start, for one scan. Thread-safe.
  class SpoolScan {
   public:
    SpoolScan(const Cut& cut, std::shared_ptr<const DatasetCut> dataset);
    ~SpoolScan();
    std::optional<SpooledLines> next();

   private:
    struct State;
    std::unique_ptr<State> state_;
  };

 private:
  std::shared_ptr<const DatasetCut> open(const std::string& name);
  const Cache& cache_;
  std::vector<std::unique_ptr<SpoolReader>> spools_;  // at their start, for again()
  std::mutex mutex_;
  std::map<std::string, std::shared_ptr<const DatasetCut>> datasets_;
};

}  // namespace firn::hyp
