// One sink over one partition: units cut, announced, sent, and the watermark moved behind them (P10).
#pragma once

#include <string>

#include "hyp/sink/destination.h"
#include "hyp/sink/driver.h"

namespace firn::hyp {

// Requires the sink's lock. Ships unit by unit until nothing is new, and keeps `run` up to date; throws what stopped
// it, with the watermark where the last confirmed unit ended.
void run_partition(Cache& cache, const SinkConfig& sink, const SinkRunOptions& options, Destination& destination,
                   PartitionRun& run);

}  // namespace firn::hyp
