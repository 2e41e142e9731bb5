// Position deletes gathered, and turned into deletion vectors where the table's version has them.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "iceberg/catalog/catalog.h"

namespace firn::iceberg {

struct RewritePositionDeletesOptions {
  std::string branch = "main";
  int32_t min_input_files = 5;  // of a partition, v2; fewer are left alone unless some are dangling
  bool rewrite_all = false;     // v2: also where there are fewer
  std::map<std::string, std::string> summary;
  bool dry_run = false;
};

struct RewritePositionDeletesResult {
  int64_t files_removed = 0, files_added = 0;  // deletion vectors count one each
  int64_t positions = 0;                       // in the files added
  int64_t positions_dropped = 0;               // of data files that are gone, or said twice
  std::vector<int64_t> snapshots;
  std::vector<std::string> paths;  // of the files removed, or to be
};

// v2: the position delete files of a partition become one of sorted positions (one a data file where
// write.delete.granularity is "file"), without those of data files that are gone. v3: every position delete file left
// from v2 goes, and the data files that it concerns get a deletion vector, merged with the one they have. One commit of
// operation "replace" a partition (v2), or one for all (v3, where a delete file may concern several data files). A
// delete added meanwhile for one of those data files is a commit_conflict on v3; nothing was committed then. A second
// run does nothing. Memory: the positions of one partition (v2), of all files concerned (v3), as compressed bitmaps.
RewritePositionDeletesResult rewrite_position_deletes(TableOperations& table,
                                                      const RewritePositionDeletesOptions& options);

}  // namespace firn::iceberg
