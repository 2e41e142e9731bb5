#include "hyp/capture/spool_sources.h"

#include <optional>

#include "base/error.h"
#include "base/json.h"
#include "base/uri.h"
#include "io/file_io.h"

namespace firn::hyp {
namespace {

constexpr int64_t kDayMs = 86'400'000;
constexpr int64_t kBatchKeptMs = 7 * kDayMs;
constexpr int64_t kSourceKeptMs = 90 * kDayMs;
constexpr int64_t kSourcesVersion = 1;

// What `parse` makes of the file; empty if it is absent. `remedy`: where it is damaged.
template <typename Parse>
auto load(const std::string& path, const char* remedy, Parse parse) -> decltype(parse(Json())) {
  const std::optional<std::string> text = make_local_file_io()->read_if_exists(path);
  if (!text) return {};
  try {
    const Json json = parse_json(*text, path);
    if (const int64_t version = get_int64(json, "v", path); version != kSourcesVersion) {
      fail(ErrorKind::unsupported, "{} has version {}; this firn reads version {}", path, version, kSourcesVersion);
    }
    return parse(json);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::corrupt) throw;
    fail(ErrorKind::corrupt, "{}. {}", error.what(), remedy);
  }
}

constexpr const char* kProgressRemedy =
    "Remove it: the next flush finds in the tables what they have of the spool, and takes no row twice";

}  // namespace

SourcePositions load_sources(const std::string& spool_folder) {
  const std::string path = join_path(spool_folder, "sources.json");
  constexpr const char* kRemedy =
      "Restore it; or remove it, and files and batches that are captured again are taken whole, their rows twice";
  return load(path, kRemedy, [&](const Json& json) {
    SourcePositions sources;
    for (const auto& [id, entry] : get_object(json, "sources", path).items()) {
      SourcePosition& position = sources[id];
      position.bytes = get_int64(entry, "bytes", path);
      position.lines = get_int64(entry, "lines", path);
      position.done = get_bool(entry, "done", path);
      position.updated_ms = get_int64(entry, "updatedMs", path);
    }
    return sources;
  });
}

bool has_sources(const std::string& spool_folder) {
  return make_local_file_io()->stat(join_path(spool_folder, "sources.json")).has_value();
}

void save_sources(const std::string& spool_folder, const SourcePositions& sources) {
  Json entries = Json::object();
  for (const auto& [id, position] : sources) {
    // push_back, not operator[]: an ordered_json looks for a key by walking all of them.
    entries.get_ref<Json::object_t&>().push_back({id, Json{{"bytes", position.bytes},
                                                           {"lines", position.lines},
                                                           {"done", position.done},
                                                           {"updatedMs", position.updated_ms}}});
  }
  const Json json{{"v", kSourcesVersion}, {"sources", std::move(entries)}};
  replace_file(join_path(spool_folder, "sources.json"), json.dump() + "\n");
}

SourcePositions prune_sources(SourcePositions& sources, int64_t now_ms) {
  SourcePositions pruned;
  for (auto it = sources.begin(); it != sources.end();) {
    const int64_t kept_ms = it->first.starts_with("batch:") ? kBatchKeptMs : kSourceKeptMs;
    const auto next = std::next(it);
    if (it->second.updated_ms + kept_ms < now_ms) pruned.insert(sources.extract(it));
    it = next;
  }
  return pruned;
}

SpoolPosition load_progress(const std::string& spool_folder) {
  const std::string path = join_path(spool_folder, "progress.json");
  return load(path, kProgressRemedy, [&](const Json& json) {
    return SpoolPosition{get_int64(json, "segment", path), get_int64(json, "offset", path)};
  });
}

int64_t load_progress_commits(const std::string& spool_folder) {
  const std::string path = join_path(spool_folder, "progress.json");
  return load(path, kProgressRemedy, [&](const Json& json) { return find_int64(json, "commits", path).value_or(0); });
}

void save_progress(const std::string& spool_folder, SpoolPosition progress, std::optional<int64_t> commits) {
  Json json{{"v", kSourcesVersion}, {"segment", progress.segment}, {"offset", progress.offset}};
  if (commits) json["commits"] = *commits;
  replace_file(join_path(spool_folder, "progress.json"), json.dump() + "\n");
}

}  // namespace firn::hyp
