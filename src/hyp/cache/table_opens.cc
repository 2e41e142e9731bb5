#include "hyp/cache/table_opens.h"

#include <algorithm>

namespace firn::hyp {

std::string opens_property(const iceberg::TableMetadata& base, const std::vector<Open>& opens, int64_t seq) {
  std::vector<Open> kept;
  if (const std::string text = base.property(kOpensProperty, ""); !text.empty()) {
    kept = opens_from_json(parse_json(text, base.location), base.location);
  }
  const Open* issuer = nullptr;
  for (const Open& open : opens) {
    if (open.from_seq <= seq) issuer = &open;
  }
  if (issuer != nullptr && (kept.empty() || kept.back().from_seq < issuer->from_seq)) kept.push_back(*issuer);
  if (kept.size() > kOpensKept) kept.erase(kept.begin(), kept.end() - kOpensKept);
  return opens_to_json(kept).dump();
}

std::vector<OpenRange> table_opens(const iceberg::TableMetadata& metadata, const std::vector<Open>& opens) {
  std::vector<Open> all;  // a rebuilt list may lack the first ones
  if (const std::string text = metadata.property(kOpensProperty, ""); !text.empty()) {
    all = opens_from_json(parse_json(text, metadata.location), metadata.location);
    if (!opens.empty()) std::erase_if(all, [&](const Open& own) { return own.from_seq >= opens.front().from_seq; });
  }
  all.insert(all.end(), opens.begin(), opens.end());
  std::vector<OpenRange> ranges = open_ranges(all);
  const std::string legacy = metadata.property(kLegacyOpenProperty, "");
  if (legacy.empty()) return ranges;
  const int64_t until = metadata.int_property(kLegacyUntilProperty, 0);
  std::erase_if(ranges, [&](const OpenRange& range) { return range.until <= until; });
  for (OpenRange& range : ranges) range.since_exclusive = std::max(range.since_exclusive, until);
  ranges.insert(ranges.begin(), {legacy, -metadata.int_property(kLegacyRowsProperty, 0), until});
  return ranges;
}

std::vector<OpenRange> partition_opens(const Cache& cache, const PartitionId& partition) {
  const auto held = cache.hold(partition);
  const std::vector<Open> opens = cache.sequence().opens();
  return held ? table_opens(*held->table.metadata, opens) : open_ranges(opens);
}

}  // namespace firn::hyp
