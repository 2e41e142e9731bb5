// Checking a table against the specification and against its own files.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "iceberg/catalog/catalog.h"
#include "iceberg/metadata/table_metadata.h"
#include "io/file_io.h"

namespace firn::iceberg {

enum class Severity : uint8_t {
  error,    // rows are lost, wrong or unreadable, or other engines may refuse the table
  warning,  // only --strict: a "must" of the specification that readers get by without
};
std::string_view to_string(Severity severity);

struct Finding {
  Severity severity = Severity::error;
  std::string code;     // stable, in words joined by '-'; verify_codes() lists them
  std::string object;   // path of the file, or "snapshot 12", "ref main", "schema 3", "metadata"
  std::string message;  // what is wrong, and what was found instead
};

struct VerifyOptions {
  bool strict = false;         // also what a writer must have done that readers get by without (findings are warnings)
  bool check_data = false;     // opens data and delete files: counts, bounds, positions. false: only that they exist
  bool all_snapshots = false;  // false: the head of main and of every other ref
  std::optional<int64_t> snapshot_id;  // this one alone
  int threads = 0;                     // files looked at at once; 0: hardware
  size_t findings_max = 1000;          // then verify stops, with a last finding "too-many-findings"
  std::function<void(const std::string& object)>
      progress;  // called before each snapshot, manifest and file; any thread
};

struct VerifyCode {
  std::string_view code;
  std::string_view meaning;
};
const std::vector<VerifyCode>& verify_codes();

// What is wrong with the table; empty: nothing was found. Throws only where the check itself cannot go on (io for a
// store that does not answer); damage is a finding. Memory: one manifest a thread, and the paths and record counts of
// one snapshot's files.
std::vector<Finding> verify(const TableMetadata& metadata, const std::shared_ptr<FileIO>& io,
                            const VerifyOptions& options = {});
// Likewise of a table's head, and that its metadata file and those of its log are as the metadata say.
std::vector<Finding> verify(TableOperations& table, const VerifyOptions& options = {});

}  // namespace firn::iceberg
