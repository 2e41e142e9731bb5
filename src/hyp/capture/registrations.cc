#include "hyp/capture/registrations.h"

#include <algorithm>

#include "base/json.h"
#include "base/uri.h"
#include "hyp/capture/follow.h"
#include "io/file_io.h"
#include "io/local.h"

namespace firn::hyp {
namespace {

constexpr int64_t kRegistrationsVersion = 1;

std::string registrations_path(const std::string& cache_root) { return join_path(cache_root, "collect.json"); }

FileLock lock_registrations(const std::string& cache_root) {
  return FileLock::acquire(join_path(cache_root, "collect.lock"), FileLock::Mode::exclusive);
}

void save_registrations(const std::string& cache_root, const std::vector<CollectConfig>& registrations) {
  Json entries = Json::array();
  for (const CollectConfig& entry : registrations) {
    entries.push_back({{"name", entry.name}, {"dataset", entry.dataset}, {"glob", entry.glob}});
  }
  const Json json{{"v", kRegistrationsVersion}, {"collect", std::move(entries)}};
  replace_file(registrations_path(cache_root), json.dump(2) + "\n");
}

}  // namespace

std::vector<CollectConfig> load_registrations(const std::string& cache_root) {
  const std::string path = registrations_path(cache_root);
  std::vector<CollectConfig> registrations;
  const std::optional<std::string> text = make_local_file_io()->read_if_exists(path);
  if (!text) return registrations;
  const Json json = parse_json(*text, path);
  if (const int64_t version = get_int64(json, "v", path); version != kRegistrationsVersion) {
    fail(ErrorKind::unsupported, "{} has version {}; this firn reads version {}", path, version, kRegistrationsVersion);
  }
  for (const Json& entry : get_array(json, "collect", path)) {
    registrations.push_back({.name = get_string(entry, "name", path),
                             .dataset = get_string(entry, "dataset", path),
                             .glob = get_string(entry, "glob", path)});
  }
  return registrations;
}

void add_registration(const std::string& cache_root, const CollectConfig& collect) {
  make_directories(cache_root);
  const FileLock lock = lock_registrations(cache_root);
  std::vector<CollectConfig> registrations = load_registrations(cache_root);
  const auto known = std::find_if(registrations.begin(), registrations.end(),
                                  [&](const CollectConfig& other) { return other.name == collect.name; });
  if (known != registrations.end()) {
    *known = collect;
  } else {
    registrations.push_back(collect);
  }
  save_registrations(cache_root, registrations);
}

bool remove_registration(const std::string& cache_root, const std::string& name) {
  make_directories(cache_root);
  const FileLock lock = lock_registrations(cache_root);
  std::vector<CollectConfig> registrations = load_registrations(cache_root);
  if (std::erase_if(registrations, [&](const CollectConfig& one) { return one.name == name; }) == 0) return false;
  save_registrations(cache_root, registrations);
  forget_followed(cache_root, name);
  return true;
}

}  // namespace firn::hyp
