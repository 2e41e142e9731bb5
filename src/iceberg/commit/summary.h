// The counts of a snapshot's summary (Iceberg spec, Appendix F, "Optional Snapshot Summary Fields").
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>

#include "iceberg/manifest/manifest.h"

namespace firn::iceberg {

// Files that come and go, counted as Java counts them.
class SummaryCounts {
 public:
  void add(const DataFile& file) { count(file, added_); }
  void remove(const DataFile& file) { count(file, removed_); }
  // Adds the counts to `summary`. Totals go on from the parent's where it has them: a count that was never known stays
  // unknown. `parent` may be nullptr: the first snapshot.
  void write(std::map<std::string, std::string>& summary, const Snapshot* parent) const;

 private:
  struct Side {
    int64_t data_files = 0, delete_files = 0, position_delete_files = 0, equality_delete_files = 0, vectors = 0;
    int64_t records = 0, position_deletes = 0, equality_deletes = 0, size_bytes = 0;
  };
  void count(const DataFile& file, Side& side);

  Side added_, removed_;
  std::set<std::string> partitions_;
};

}  // namespace firn::iceberg
