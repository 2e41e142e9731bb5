#include "hyp/sink/watermark.h"

#include <charconv>

#include "base/civil_time.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/uri.h"
#include "iceberg/schema.h"
#include "io/local.h"

namespace firn::hyp {
namespace {

Json to_json(const PendingUnit& unit) {
  Json columns = Json::array();
  for (const UnitColumn& column : unit.columns) {
    columns.push_back({{"name", column.name}, {"type", iceberg::type_to_json(*column.type)}});
  }
  Json json = {{"open", unit.open_id},
               {"since", std::to_string(unit.since)},
               {"until", std::to_string(unit.until)},
               {"start", unit.start},
               {"rows", unit.rows}};
  if (!unit.key.empty()) json["key"] = unit.key;
  json["limits"] = {{"rows", unit.rows_max}, {"bytes", unit.bytes_max}};
  json["columns"] = std::move(columns);
  if (!unit.announced_at.empty()) json["announcedAt"] = unit.announced_at;
  return json;
}

PendingUnit parse_pending(const Json& json, const std::string& path) {
  PendingUnit unit;
  unit.open_id = get_string(json, "open", path);
  unit.since = get_seq(json, "since", path);
  unit.until = get_seq(json, "until", path);
  unit.start = get_bool(json, "start", path);
  unit.rows = get_int64(json, "rows", path);
  unit.key = find_string(json, "key", path).value_or("");
  const Json& limits = get_object(json, "limits", path);
  unit.rows_max = get_int64(limits, "rows", path);
  unit.bytes_max = get_int64(limits, "bytes", path);
  for (const Json& column : get_array(json, "columns", path)) {
    const Json* type = find_member(column, "type");
    if (!type) fail(ErrorKind::corrupt, "a column of the pending unit has no type");
    unit.columns.push_back({get_string(column, "name", path), iceberg::type_from_json(*type, path)});
  }
  unit.announced_at = find_string(json, "announcedAt", path).value_or("");
  if (unit.since >= unit.until) fail(ErrorKind::corrupt, "its pending unit is ({}, {}]", unit.since, unit.until);
  return unit;
}

Watermark parse_watermark(const std::string& text, const std::string& path) {
  const Json json = parse_json(text, path);
  if (const int64_t version = get_int64(json, "v", path); version != 1) {
    fail(ErrorKind::unsupported, "{}: version {} is of a later firn", path, version);
  }
  Watermark watermark;
  if (const Json* continuation = find_member(json, "continuation")) watermark.seq = get_seq(*continuation, "seq", path);
  watermark.exported_row_count = find_int64(json, "exportedRowCount", path).value_or(0);
  watermark.exported_bytes = find_int64(json, "exportedBytes", path).value_or(0);
  watermark.bytes_since = find_string(json, "exportedBytesSince", path).value_or("");
  watermark.updated_at = find_string(json, "updatedAt", path).value_or("");
  watermark.shipped_at = find_string(json, "shippedAt", path).value_or("");
  watermark.stream = find_string(json, "stream", path).value_or("");
  if (const Json* last = find_member(json, "lastUnit")) {
    watermark.last_unit = {get_string(*last, "open", path), std::nullopt};
    if (find_member(*last, "since")) watermark.last_unit->since = get_seq(*last, "since", path);
  }
  if (const Json* pending = find_member(json, "pending")) watermark.pending = parse_pending(*pending, path);
  return watermark;
}

}  // namespace

std::string sink_folder(const std::string& state_dir, const std::string& sink) {
  return join_path(state_dir, encode_segment(sink));
}

std::string watermark_path(const std::string& state_dir, const std::string& sink, const PartitionId& partition) {
  return fmt::format("{}/watermarks/{}/{}.json", sink_folder(state_dir, sink), encode_segment(partition.dataset),
                     partition.key());
}

int64_t get_seq(const Json& object, const char* key, std::string_view where) {
  const Json* member = find_member(object, key);
  if (member && member->is_number_integer()) return member->get<int64_t>();
  const std::string text = get_string(object, key, where);
  int64_t seq = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seq);
  if (error != std::errc() || end != text.data() + text.size()) {
    fail(ErrorKind::corrupt, "{}: {} is \"{}\", not a sequence number", where, key, text);
  }
  return seq;
}

std::optional<Watermark> load_watermark(const std::string& path) {
  const auto text = make_local_file_io()->read_if_exists(path);
  if (!text) return std::nullopt;
  try {
    return parse_watermark(*text, path);
  } catch (const Error& e) {
    if (e.kind() != ErrorKind::corrupt) throw;
    throw Error(ErrorKind::corrupt,
                fmt::format("watermark {} is damaged; restore it, or move it away: the sink then asks its destination "
                            "how far it came",
                            path),
                e);
  }
}

void save_watermark(const std::string& path, const Watermark& watermark) {
  Json json = {{"v", 1}};
  if (watermark.seq) json["continuation"] = {{"v", 1}, {"seq", std::to_string(*watermark.seq)}};
  json["exportedRowCount"] = watermark.exported_row_count;
  json["exportedBytes"] = watermark.exported_bytes;
  if (!watermark.bytes_since.empty()) json["exportedBytesSince"] = watermark.bytes_since;
  json["updatedAt"] = format_timestamp_ms_utc(now_ms());
  if (!watermark.shipped_at.empty()) json["shippedAt"] = watermark.shipped_at;
  json["stream"] = watermark.stream;
  if (watermark.last_unit) {
    json["lastUnit"] = {{"open", watermark.last_unit->open_id}};
    if (watermark.last_unit->since) json["lastUnit"]["since"] = std::to_string(*watermark.last_unit->since);
  }
  if (watermark.pending) json["pending"] = to_json(*watermark.pending);
  replace_file(path, json.dump(1) + "\n");
}

}  // namespace firn::hyp
