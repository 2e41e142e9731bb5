// Pieces that the files of this folder share.
#pragma once

#include <string>

#include "orca/state/run_state.h"

namespace firn::orca {

// Takes the run's row until the transaction ends. Throws not_found.
RunStatus lock_run(Database& database, const std::string& run_id);

// Closes steps that are through, opens those whose needs are met, ends the run when every step has ended. Returns the
// steps whose keys are wanted. For a run that is locked and running.
std::vector<size_t> advance(Database& database, const RunPlan& plan, const std::string& run_id, RunStatus& status);

// Counts `partitions` of `step`, which have just ended, and readies or skips what waits for them. Returns whether a
// step has none left: advance() has something to do.
bool count_ended(Database& database, const RunPlan& plan, const std::string& run_id, size_t step,
                 const std::vector<std::string>& partitions, bool failed);

}  // namespace firn::orca
