// A partition that loses its rows while a unit of them is announced.
#pragma once

#include "base/clock.h"
#include "base/error.h"
#include "hyp/cache/cache_box.h"
#include "hyp/maintain/purge.h"
#include "hyp/maintain/retention.h"
#include "support/crash.h"

namespace firn::hyp {

// All rows of the dataset by a purge, or those of `partition` by their age, a month on. In a child, as another command
// would. The status of that: 0 if no row is left.
inline int empty_partition(const Config& config, const PartitionId& partition, bool is_purge) {
  constexpr int64_t kMonthMs = int64_t{30} * 24 * 3'600'000;
  return run_in_child([&] {
    Cache cache(config);
    if (is_purge) {
      purge(cache, partition.dataset, iceberg::parse_expression("true"));
    } else {  // beyond the grace nothing is held (P8)
      apply_retention(cache, partition, now_ms() + kMonthMs);
    }
    if (!cached_rows(cache, partition).empty()) fail(ErrorKind::internal, "rows are left");
  });
}

}  // namespace firn::hyp
