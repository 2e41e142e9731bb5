// A run as text and as JSON.
#pragma once

#include <atomic>
#include <functional>
#include <iosfwd>
#include <string>

#include "orca/state/run_state.h"

namespace firn::orca {

Json status_json(const RunView& view);
// Lines for people: the run, its steps, what runs and what failed.
std::string status_text(const RunView& view);
// A table of runs, a line each.
std::string runs_text(const std::vector<RunRow>& runs, int64_t now_ms);

// Draws status_text over and over on a terminal, until `ended` or the run has ended. Opens the state by itself; a state
// that cannot be had is tried again.
void show_live(std::ostream& out, const StateLocation& location, const std::string& run_id,
               const std::function<bool()>& ended);

std::string duration_text(int64_t ms);  // "1.2 s", "3 min 12 s"

}  // namespace firn::orca
