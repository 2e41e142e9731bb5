#include "hyp/sink/last_error.h"

#include "base/civil_time.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/uri.h"
#include "hyp/sink/watermark.h"
#include "io/local.h"

namespace firn::hyp {

std::string last_error_path(const std::string& state_dir, const std::string& sink, const PartitionId& partition) {
  return fmt::format("{}/errors/{}/{}.json", sink_folder(state_dir, sink), encode_segment(partition.dataset),
                     partition.key());
}

LastError load_last_error(const std::string& path) {
  const auto text = make_local_file_io()->read_if_exists(path);
  if (!text) return {};
  const Json json = parse_json(*text, path);
  return {get_string(json, "errorKind", path), get_string(json, "error", path)};
}

void save_last_error(const std::string& path, const LastError& error) {
  if (error.error_kind.empty()) {
    if (make_local_file_io()->stat(path)) remove_file(path);
    return;
  }
  const Json json = {
      {"v", 1}, {"errorKind", error.error_kind}, {"error", error.error}, {"at", format_timestamp_ms_utc(now_ms())}};
  replace_file(path, json.dump(1) + "\n");
}

}  // namespace firn::hyp
