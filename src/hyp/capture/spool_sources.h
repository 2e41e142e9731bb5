// Where sources had been read to, as sources.json keeps it once the frames that said so are deleted (P4.2, P6.3).
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "hyp/capture/spool.h"

namespace firn::hyp {

using SourcePositions = std::map<std::string, SourcePosition>;

// Empty if the file is absent; throws corrupt or io if it is there and unreadable: taking sources from their start
// again would take their rows twice.
SourcePositions load_sources(const std::string& spool_folder);
bool has_sources(const std::string& spool_folder);  // whether the file is there
void save_sources(const std::string& spool_folder, const SourcePositions& sources);
// Drops batches not updated for 7 days, others not for 90, and returns what it dropped.
SourcePositions prune_sources(SourcePositions& sources, int64_t now_ms);

SpoolPosition load_progress(const std::string& spool_folder);  // {0, 0} if the file is absent
// `commits`: of a receiver's ledger when the flush had read it; an older ledger is not that of these tables.
void save_progress(const std::string& spool_folder, SpoolPosition progress, std::optional<int64_t> commits);
int64_t load_progress_commits(const std::string& spool_folder);  // 0 if the file does not say

}  // namespace firn::hyp
