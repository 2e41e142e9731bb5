// Runs that begin by the clock.
#pragma once

#include <cstdint>
#include <optional>

#include "orca/pipeline.h"

namespace firn::orca {

// Throws config, naming pipeline and step, where no scheduled run of it could begin, since that step's keys cannot be
// known.
void check_schedule(const Pipeline& pipeline, int64_t at_ms);

struct ScheduleLook {
  std::optional<RunRow> begun;
  std::optional<RunRow> waits_for;  // the scheduled run that is open, where that alone keeps one from its beginning
  int64_t due_ms = 0;               // when the one that begun, or waits, was due
};

// Begins the run that is due at `at_ms`, if there is one and no scheduled run of the pipeline is open. Times are
// counted from the last scheduled run, else from `since_ms`; of several that passed the last one has its run. Steps
// that take days or hours from the command line get the day or hour before the scheduled time. However many schedulers
// call it, a time has one run. Throws what check_schedule throws.
ScheduleLook begin_scheduled(Database& database, const Pipeline& pipeline, int64_t since_ms, int64_t at_ms);

}  // namespace firn::orca
