// One statement's view of the cache (P13.1): spool segments are opened first, then the tables; of the spooled frames
// those that a table has already are left out, so that no row is counted twice or missed. Of a dataset that a queryable
// sink ships, the rows that its destination has come from there, and the tables give the others (sink/exported_rows.h).
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "hyp/cache/cache.h"
#include "hyp/sink/exported_rows.h"
#include "iceberg/expr/expression.h"

namespace firn::hyp {

// A dataset at the cut. Immutable.
struct DatasetCut {
  std::string name;
  DatasetConfig config;
  iceberg::Schema schema;  // its columns without the hidden ones, those of spooled and of exported rows included; ids
                           // are of no table
  iceberg::Schema spooled_schema;  // without columns that exported rows alone have, and with what the declaration
                                   // requires: a spooled line without it is no row
  std::map<std::string, HeldTable> tables;  // by source
  // By source: which of the table's rows no destination gives. Without an entry: all of them.
  std::map<std::string, iceberg::ExpressionPtr> unsent;
  std::optional<Exports> exports;              // nullopt: no queryable sink ships the dataset
  std::vector<DatasetConfig> config_by_spool;  // as flushes of each spool route its frames
  int64_t spooled_bytes = 0;                   // of lines that are in no table
  int64_t table_rows = 0;                      // an estimate, for DuckDB's planner; with the exported ones
};

// Thread-safe.
class Cut {
 public:
  // Opens the spools. Once `cancelled` is set, whatever reads them throws cancelled.
  explicit Cut(const Cache& cache, const std::atomic<bool>* cancelled = nullptr);
  ~Cut();
  // Opens the dataset's tables at the first call; the same for every use in the statement. Without columns if no such
  // dataset is cached, spooled or declared.
  std::shared_ptr<const DatasetCut> dataset(const std::string& name);
  // The dataset whose name equals `name`, else the only one that equals it but for case; empty: none.
  std::string resolve(const std::string& name);
  // All that are cached, spooled, declared or, as far as their names are known, exported; sorted.
  std::vector<std::string> names();
  const std::shared_ptr<FileIO>& io() const { return cache_.io(); }  // that the exports are read by

  // The spooled lines of `dataset` that its tables lack, from the start, for one scan. Thread-safe.
  class SpoolScan {
   public:
    SpoolScan(const Cut& cut, std::shared_ptr<const DatasetCut> dataset);
    ~SpoolScan();
    std::optional<std::string> next();  // some whole lines

   private:
    struct State;
    std::unique_ptr<State> state_;
  };

 private:
  struct OpenSpool {
    std::unique_ptr<SpoolReader> reader;         // at its start, for again()
    std::map<std::string, std::string> routing;  // FlushState::routing
  };
  std::shared_ptr<const DatasetCut> open(const std::string& name);
  void hold_with_exports(DatasetCut& dataset, const SinkConfig& sink);
  std::shared_ptr<const ClaimList> claims_of(const SinkConfig& sink);
  std::vector<std::string> exported_names();
  void check_cancelled() const;

  const Cache& cache_;
  const std::atomic<bool>* cancelled_;
  std::vector<OpenSpool> spools_;
  std::mutex mutex_;
  std::map<std::string, std::shared_ptr<const DatasetCut>> datasets_;
  std::optional<std::vector<std::string>> names_;
  std::map<std::string, std::shared_ptr<const ClaimList>> claims_;  // by sink, as first looked at
};

// The dataset's columns as a query has them, those of spooled rows aside: Cache::dataset_schema and what only a
// queryable sink's destination has.
iceberg::Schema schema_with_exports(const Cache& cache, const std::string& dataset);

}  // namespace firn::hyp
