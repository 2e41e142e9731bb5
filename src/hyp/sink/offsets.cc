#include "hyp/sink/offsets.h"

#include <algorithm>
#include <set>

#include "base/json.h"
#include "iceberg/metadata/changes.h"

namespace firn::hyp {

namespace {

SkippedRows parse_skipped(const Json& range, const std::string& where) {
  if (!range.is_array() || range.size() != 3) {
    fail(ErrorKind::corrupt, "{}: a skipped range is {}, not [since, until, open]", where, range.dump());
  }
  const Json members = {{"since", range[0]}, {"until", range[1]}, {"open", range[2]}};
  return {get_seq(members, "since", where), get_seq(members, "until", where), get_string(members, "open", where)};
}

void keep_latest_opens(StreamOffsets& offsets) {
  while (offsets.opens.size() > kOpensKept) {
    const auto lowest = std::min_element(offsets.opens.begin(), offsets.opens.end(),
                                         [](const auto& a, const auto& b) { return a.second < b.second; });
    offsets.forgot = std::max(offsets.forgot.value_or(lowest->second), lowest->second);
    offsets.opens.erase(lowest);
  }
}

// `last`, or where the rows right above it were skipped, the end of those.
int64_t past_skipped(const StreamOffsets& offsets, const std::string& open_id, int64_t last) {
  for (const SkippedRows& range : offsets.skipped) {
    if (range.open_id == open_id && range.since <= last && last < range.until) last = range.until;
  }
  return last;
}

struct StreamUnit {
  std::string open_id;
  int64_t since = 0, until = 0;
};

// The unit of the stream that the snapshot brought, if it brought one.
std::optional<StreamUnit> unit_of(const iceberg::Snapshot& snapshot, const std::string& stream,
                                  const std::string& where) {
  const auto of = snapshot.summary.find("firn.stream");
  if (of == snapshot.summary.end() || of->second != stream) return std::nullopt;
  const Json unit = snapshot.summary;
  return StreamUnit{get_string(unit, "firn.open", where), get_seq(unit, "firn.since", where),
                    get_seq(unit, "firn.until", where)};
}

// Snapshots from one towards the first, as far as they are listed.
struct History {
  std::vector<const iceberg::Snapshot*> snapshots;
  bool is_cut = false;
};

History history_of(const iceberg::TableMetadata& table, std::optional<int64_t> snapshot_id) {
  History history;
  for (const int64_t id : iceberg::ancestor_ids(table, snapshot_id)) {
    history.snapshots.push_back(table.find_snapshot(id));
  }
  history.is_cut =
      history.snapshots.empty() ? snapshot_id.has_value() : history.snapshots.back()->parent_snapshot_id.has_value();
  return history;
}

// The offsets without the units that a rollback took out of `main`, by those units. nullopt: they are not all listed.
std::optional<StreamOffsets> without_lost_units(const iceberg::TableMetadata& table, const std::string& stream,
                                                const StreamOffsets& offsets, const History& main) {
  std::set<const iceberg::Snapshot*> kept(main.snapshots.begin(), main.snapshots.end());
  const History lost = history_of(table, offsets.snapshot_id);
  StreamOffsets left = offsets;
  left.was_rolled_back = false;
  left.snapshot_id.reset();
  for (const iceberg::Snapshot* step : lost.snapshots) {
    if (kept.contains(step)) {
      left.snapshot_id = step->snapshot_id;  // at or above the stream's last rows
      left.sequence = step->sequence_number;
      return left;
    }
    const auto unit = unit_of(*step, stream, table.location);
    if (!unit) continue;
    const auto known = left.opens.find(unit->open_id);
    if (known != left.opens.end()) {
      known->second = std::min(known->second, unit->since);
    } else if (offsets.forgot && unit->since < *offsets.forgot) {
      return std::nullopt;
    }  // else a reset made all of it come again
  }
  return lost.is_cut || main.is_cut ? std::nullopt : std::make_optional(std::move(left));
}

// What the units in `main`, which is not cut, brought.
StreamOffsets by_units(const iceberg::TableMetadata& table, const std::string& stream, const StreamOffsets& offsets,
                       const History& main) {
  StreamOffsets left;
  left.skipped = offsets.skipped;
  for (const iceberg::Snapshot* step : main.snapshots) {
    const auto unit = unit_of(*step, stream, table.location);
    if (!unit || left.opens.contains(unit->open_id)) continue;  // the newest of each comes first
    const auto known = offsets.opens.find(unit->open_id);
    if (known != offsets.opens.end()) {
      left.opens[unit->open_id] = std::min(known->second, unit->until);
    } else if (offsets.forgot && unit->since < *offsets.forgot) {
      left.opens[unit->open_id] = unit->until;
    }  // else a reset made all of it come again
  }
  return left;
}

}  // namespace

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
  offsets.was_rolled_back = find_bool(json, "rolledBack", where).value_or(false);
  if (find_member(json, "skipped")) {
    for (const Json& range : get_array(json, "skipped", where)) offsets.skipped.push_back(parse_skipped(range, where));
  }
  return offsets;
}

std::string to_text(const StreamOffsets& offsets) {
  Json opens = Json::object();
  for (const auto& [open_id, last] : offsets.opens) opens[open_id] = std::to_string(last);
  Json json = {{"opens", std::move(opens)}};
  if (offsets.forgot) json["forgot"] = std::to_string(*offsets.forgot);
  if (offsets.snapshot_id) json["snapshot"] = *offsets.snapshot_id;
  json["sequence"] = offsets.sequence;
  if (offsets.was_rolled_back) json["rolledBack"] = true;
  if (!offsets.skipped.empty()) json["skipped"] = Json::array();
  for (const SkippedRows& range : offsets.skipped) {
    json["skipped"].push_back({std::to_string(range.since), std::to_string(range.until), range.open_id});
  }
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
    if (!parent) return offsets.was_rolled_back || step->sequence_number <= offsets.sequence;
    step = parent;
  }
  return true;
}

std::optional<StreamOffsets> offsets_in_history(const iceberg::TableMetadata& table, const std::string& stream,
                                                const StreamOffsets& offsets) {
  const History main = history_of(table, table.current_snapshot_id);
  std::optional<StreamOffsets> left = without_lost_units(table, stream, offsets, main);
  if (!left && !main.is_cut) left = by_units(table, stream, offsets, main);
  if (!left) return std::nullopt;
  const auto brought_unit = [&](const iceberg::Snapshot* step) {
    return unit_of(*step, stream, table.location).has_value();
  };
  const auto newest = std::find_if(main.snapshots.begin(), main.snapshots.end(), brought_unit);
  if (newest != main.snapshots.end()) {
    left->snapshot_id = (*newest)->snapshot_id;
    left->sequence = (*newest)->sequence_number;
  } else if (!main.is_cut) {
    left->snapshot_id.reset();  // it has no rows
    left->sequence = 0;
  }
  for (auto& [open_id, last] : left->opens) last = past_skipped(*left, open_id, last);
  keep_latest_opens(*left);
  std::erase_if(left->skipped, [&](const SkippedRows& range) {
    const auto known = left->opens.find(range.open_id);
    if (known != left->opens.end()) return range.since >= known->second;
    return !left->forgot || range.since >= *left->forgot;
  });
  return left;
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
         where, kOpensKept, unit.since, unit.until, unit.open_id, *offsets.forgot);
  }
  return UnitVerdict::take;
}

StreamOffsets advanced(StreamOffsets offsets, const PendingUnit& unit) {
  offsets.was_rolled_back = false;
  offsets.opens[unit.open_id] = unit.until;
  keep_latest_opens(offsets);
  return offsets;
}

StreamOffsets moved(StreamOffsets offsets, const std::string& open_id, int64_t open_since, int64_t last) {
  offsets.was_rolled_back = false;
  const auto known = offsets.opens.find(open_id);
  const int64_t from = known == offsets.opens.end() ? open_since : known->second;
  if (last > from) {
    SkippedRows more{from, last, open_id};
    std::erase_if(offsets.skipped, [&](const SkippedRows& range) {
      if (range.open_id != open_id || range.until < more.since || range.since > more.until) return false;
      more.since = std::min(more.since, range.since);
      more.until = std::max(more.until, range.until);
      return true;
    });
    offsets.skipped.push_back(more);
    std::sort(offsets.skipped.begin(), offsets.skipped.end());
    const size_t kept = std::min(offsets.skipped.size(), kSkippedKept);
    offsets.skipped.erase(offsets.skipped.begin(), offsets.skipped.end() - static_cast<std::ptrdiff_t>(kept));
  } else {
    for (SkippedRows& range : offsets.skipped) {
      if (range.open_id == open_id) range.until = std::min(range.until, last);
    }
    std::erase_if(offsets.skipped, [](const SkippedRows& range) { return range.since >= range.until; });
  }
  if (last > open_since) {
    offsets.opens[open_id] = last;
    keep_latest_opens(offsets);
  } else {
    offsets.opens.erase(open_id);
  }
  return offsets;
}

}  // namespace firn::hyp
