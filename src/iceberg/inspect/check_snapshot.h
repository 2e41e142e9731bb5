// What must hold for one snapshot: its manifest list, manifests and entries, and that its files are there.
#pragma once

#include <set>
#include <string>

#include "iceberg/inspect/findings.h"

namespace firn::iceberg {

// Files looked at so far, by file_key: each is opened once, whatever the number of snapshots that have it.
using CheckedFiles = std::set<std::string>;

void check_snapshot(const TableMetadata& metadata, const Snapshot& snapshot, const std::shared_ptr<FileIO>& io,
                    const VerifyOptions& options, CheckedFiles& checked, Findings& findings);

}  // namespace firn::iceberg
