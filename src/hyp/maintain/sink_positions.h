// How far the sinks are in a partition, for what removes rows from it (P8).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "hyp/cache/cache.h"

namespace firn::hyp {

struct SequenceRange {
  int64_t since_exclusive = 0;
  int64_t until = 0;  // inclusive
};

struct SinkPosition {
  std::string sink;
  std::optional<int64_t> passed;         // every row at or below it is at the destination; nullopt: nothing yet
  std::optional<SequenceRange> pending;  // of an announced unit: a retry sends these rows and no others (P10.4)
  std::string problem;                   // why the watermark could not be read; it counts as nothing passed
};

// Of every configured sink that exports the partition's dataset, by name. A sink that is no longer configured pins
// nothing.
std::vector<SinkPosition> sink_positions(const Config& config, const PartitionId& partition);

}  // namespace firn::hyp
