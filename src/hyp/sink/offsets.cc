#include "hyp/sink/offsets.h"

#include <algorithm>

#include "base/json.h"

namespace firn::hyp {

std::string offset_property(const std::string& stream) { return "firn.offset." + stream; }

StreamOffsets read_offsets(const iceberg::TableMetadata& table, const std::string& stream) {
  StreamOffsets offsets;
  const std::string text = table.property(offset_property(stream), "");
  if (text.empty()) return offsets;
  const std::string where = fmt::format("table {}, property {}", table.location, offset_property(stream));
  const Json json = parse_json(text, where);
  const Json& opens = get_object(json, "opens", where);
  for (const auto& [open_id, last] : opens.items()) offsets.opens[open_id] = get_seq(opens, open_id.c_str(), where);
  if (find_member(json, "forgot")) offsets.forgot = get_seq(json, "forgot", where);
  offsets.snapshot_id = find_int64(json, "snapshot", where);
  offsets.sequence = get_int64(json, "sequence", where);
  return offsets;
}

std::string to_text(const StreamOffsets& offsets) {
  Json opens = Json::object();
  for (const auto& [open_id, last] : offsets.opens) opens[open_id] = std::to_string(last);
  Json json = {{"opens", std::move(opens)}};
  if (offsets.forgot) json["forgot"] = std::to_string(*offsets.forgot);
  if (offsets.snapshot_id) json["snapshot"] = *offsets.snapshot_id;
  json["sequence"] = offsets.sequence;
  return json.dump();
}

bool is_rolled_back(const iceberg::TableMetadata& table, const StreamOffsets& offsets) {
  if (!offsets.snapshot_id) return false;
  const iceberg::Snapshot* step = table.current_snapshot();
  while (step && step->sequence_number >= offsets.sequence) {
    if (step->snapshot_id == *offsets.snapshot_id) return false;
    if (!step->parent_snapshot_id) return true;
    const iceberg::Snapshot* parent = table.find_snapshot(*step->parent_snapshot_id);
    // Expired: it may have been the one, or one above it.
    if (!parent) return step->sequence_number <= offsets.sequence;
    step = parent;
  }
  return true;
}

UnitVerdict judge(const StreamOffsets& offsets, bool rolled_back, const PendingUnit& unit, const std::string& where) {
  if (rolled_back) return UnitVerdict::refuse;
  const auto known = offsets.opens.find(unit.open_id);
  if (known != offsets.opens.end()) {
    if (known->second >= unit.until) return UnitVerdict::landed;
    return known->second == unit.since ? UnitVerdict::take : UnitVerdict::refuse;
  }
  if (!unit.start) return UnitVerdict::refuse;
  if (offsets.forgot && unit.since < *offsets.forgot) {
    fail(ErrorKind::destination_forgot,
         "{}: it keeps the last {} opens of a stream, and whether it ever had rows ({}, {}] of open {} it no longer "
         "knows (it "
         "forgot up to {}); compare the rows, then send them to a new table under a new sink name",
         where, kOpensKeptMax, unit.since, unit.until, unit.open_id, *offsets.forgot);
  }
  return UnitVerdict::take;
}

StreamOffsets advanced(StreamOffsets offsets, const PendingUnit& unit) {
  offsets.opens[unit.open_id] = unit.until;
  while (offsets.opens.size() > kOpensKeptMax) {
    const auto lowest = std::min_element(offsets.opens.begin(), offsets.opens.end(),
                                         [](const auto& a, const auto& b) { return a.second < b.second; });
    offsets.forgot = std::max(offsets.forgot.value_or(lowest->second), lowest->second);
    offsets.opens.erase(lowest);
  }
  return offsets;
}

}  // namespace firn::hyp
