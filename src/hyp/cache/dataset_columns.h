// The columns of a dataset over all its tables, for who makes a table or widens one.
#pragma once

#include <string>

#include "hyp/cache/cache.h"
#include "io/local.h"

namespace firn::hyp {

// What was seen of a dataset's columns.
struct SeenColumns {
  std::string mark;  // that schema.lock had then; empty: nothing was seen
  iceberg::Schema schema;
};

// Among partitions of one dataset a column has one type, so that the dataset is one table to queries and sinks: who
// makes or widens a table looks at the others first, and holds schema.lock while this lives. That file has a mark which
// every such change replaces. While it is the one of `seen`, no table is looked at, so that a flush that makes many
// tables does not look at each of them for each. (A mark need not survive a power cut: those who saw it do not.)
//   Taken within a partition lock; nothing is waited for within it but the allocator. One thread.
class DatasetColumns {
 public:
  // Waits for the lock. `seen` must outlive this, and is kept up to date.
  DatasetColumns(const Cache& cache, std::string dataset, SeenColumns& seen);

  const iceberg::Schema& schema();  // as Cache::dataset_schema
  // Around a change of a table's columns, after schema(). From the beginning on nobody relies on what was seen, until
  // the end says which columns the table has now.
  void begin_change();
  void end_change(const iceberg::Schema& visible);

 private:
  std::string read_mark() const;

  const Cache& cache_;
  const std::string dataset_, path_;
  std::string mark_;  // of the change under way
  SeenColumns& seen_;
  const FileLock lock_;
};

}  // namespace firn::hyp
