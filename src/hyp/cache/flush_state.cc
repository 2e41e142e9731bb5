#include "hyp/cache/flush_state.h"

#include "base/fault_point.h"
#include "base/json.h"
#include "base/uri.h"
#include "io/file_io.h"
#include "io/local.h"

namespace firn::hyp {

FlushState load_flush_state(const std::string& spool_folder) {
  const std::string path = join_path(spool_folder, "flush.json");
  FlushState state;
  const auto text = make_local_file_io()->read_if_exists(path);
  if (!text) return state;
  const Json json = parse_json(*text, path);
  for (const auto& [dataset, column] : get_object(json, "routing", path).items()) {
    if (!column.is_string()) fail(ErrorKind::corrupt, "{}: routing of {} is no string", path, dataset);
    state.routing[dataset] = column.get<std::string>();
  }
  for (const auto& [dataset, bytes] : get_object(json, "rejects", path).items()) {
    if (!bytes.is_number_integer()) fail(ErrorKind::corrupt, "{}: rejects of {} is no integer", path, dataset);
    state.rejects_bytes[dataset] = bytes.get<int64_t>();
  }
  if (json.contains("older_until")) {
    const Json& until = get_array(json, "older_until", path);
    if (until.size() != 2 || !until[0].is_number_integer() || !until[1].is_number_integer()) {
      fail(ErrorKind::corrupt, "{}: older_until is no segment and offset", path);
    }
    state.older_until = {until[0].get<int64_t>(), until[1].get<int64_t>()};
  }
  return state;
}

void save_flush_state(const std::string& spool_folder, const FlushState& state) {
  Json routing = Json::object(), rejects = Json::object();
  for (const auto& [dataset, column] : state.routing) routing[dataset] = column;
  for (const auto& [dataset, bytes] : state.rejects_bytes) rejects[dataset] = bytes;
  Json json = {{"v", 1}, {"routing", routing}, {"rejects", rejects}};
  if (state.older_until) json["older_until"] = {state.older_until->segment, state.older_until->offset};
  replace_file(join_path(spool_folder, "flush.json"), json.dump() + "\n");
  fault_point("flush.state-saved");
}

}  // namespace firn::hyp
