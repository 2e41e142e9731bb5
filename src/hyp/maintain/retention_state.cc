#include "hyp/maintain/retention_state.h"

#include "base/error.h"
#include "base/json.h"
#include "base/log.h"

namespace firn::hyp {
namespace {

Json rows_to_json(const RowsBySink& rows) {
  Json json = Json::object();
  for (const auto& [sink, count] : rows) json[sink] = count;
  return json;
}

RowsBySink rows_from_json(const Json& json, const std::string& where) {
  RowsBySink rows;
  if (!json.is_object()) fail(ErrorKind::corrupt, "{} is no object", where);
  for (const auto& [sink, count] : json.items()) {
    if (!count.is_number_integer()) fail(ErrorKind::corrupt, "{}: {} is no number of rows", where, sink);
    rows[sink] = count.get<int64_t>();
  }
  return rows;
}

}  // namespace

bool RetentionState::is_same_look(const RetentionState& other) const {
  return table_uuid == other.table_uuid && age == other.age && waits_for_sinks == other.waits_for_sinks &&
         cutoff_ms == other.cutoff_ms && grace_cutoff_ms == other.grace_cutoff_ms &&
         arrival_cutoff_ms == other.arrival_cutoff_ms;
}

std::optional<RetentionState> read_retention_state(const iceberg::TableMetadata& metadata) {
  const std::string text = metadata.property(kRetentionProperty, "");
  if (text.empty()) return std::nullopt;
  const std::string where = fmt::format("{}: property {}", metadata.location, kRetentionProperty);
  try {
    const Json json = parse_json(text, where);
    RetentionState state;
    state.table_uuid = get_string(json, "table", where);
    state.sequence = get_int64(json, "sequence", where);
    state.age = get_string(json, "age", where);
    state.waits_for_sinks = get_bool(json, "waitForSinkAck", where);
    state.cutoff_ms = get_int64(json, "cutoff", where);
    state.grace_cutoff_ms = get_int64(json, "graceCutoff", where);
    state.arrival_cutoff_ms = get_int64(json, "arrivalCutoff", where);
    state.positions = get_string(json, "positions", where);
    state.rows_waiting = rows_from_json(get_object(json, "waiting", where), where);
    if (const auto lowest = find_int64(json, "waitingFrom", where)) {
      state.waiting = {*lowest, get_int64(json, "waitingUntil", where)};
    }
    return state;
  } catch (const Error& e) {  // it only spares work: the table is looked at anew
    spdlog::warn("{}", e.what());
    return std::nullopt;
  }
}

std::string to_text(const RetentionState& state) {
  Json json = {{"table", state.table_uuid},
               {"sequence", state.sequence},
               {"age", state.age},
               {"waitForSinkAck", state.waits_for_sinks},
               {"cutoff", state.cutoff_ms},
               {"graceCutoff", state.grace_cutoff_ms},
               {"arrivalCutoff", state.arrival_cutoff_ms},
               {"positions", state.positions},
               {"waiting", rows_to_json(state.rows_waiting)}};
  if (state.waiting) {
    json["waitingFrom"] = state.waiting->lowest;
    json["waitingUntil"] = state.waiting->highest;
  }
  return json.dump();
}

std::string positions_text(const std::vector<SinkPosition>& positions) {
  Json json = Json::array();
  for (const SinkPosition& position : positions) {
    Json one = {{"sink", position.sink}};
    if (position.passed) one["passed"] = *position.passed;
    if (position.pending) one["pending"] = {position.pending->since_exclusive, position.pending->until};
    if (!position.problem.empty()) one["unreadable"] = true;
    json.push_back(std::move(one));
  }
  return json.dump();
}

RowsBySink rows_forced_out(const iceberg::TableMetadata& metadata) {
  const std::string text = metadata.property(kForcedOutProperty, "");
  if (text.empty()) return {};
  const std::string where = fmt::format("{}: property {}", metadata.location, kForcedOutProperty);
  return rows_from_json(parse_json(text, where), where);
}

std::string forced_out_text(const RowsBySink& rows) { return rows_to_json(rows).dump(); }

}  // namespace firn::hyp
