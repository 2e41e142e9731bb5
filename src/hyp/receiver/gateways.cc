#include "hyp/receiver/gateways.h"

#include <fcntl.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/rand.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <filesystem>

#include "base/civil_time.h"
#include "base/clock.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/log.h"
#include "base/uri.h"
#include "hyp/config.h"
#include "io/file_io.h"
#include "io/local.h"

namespace firn::hyp {
namespace {

constexpr int64_t kGatewaysVersion = 1;
constexpr int64_t kLookUs = 1'000'000;
constexpr size_t kTokenBytes = 32;

FileLock lock_gateways(const std::string& state_dir) {
  make_directories(state_dir);
  return FileLock::acquire(join_path(state_dir, "gateways.lock"), FileLock::Mode::exclusive);
}

// Written whole beside it, synced, then renamed over it. Nobody else may read what is in it, not even for a moment, so
// the mode comes before the bytes. Requires the lock, which makes the temporary name ours.
void save_gateways(const std::string& state_dir, const std::vector<Gateway>& gateways) {
  Json entries = Json::array();
  for (const Gateway& one : gateways)
    entries.push_back({{"name", one.name}, {"tokenSha256", one.token_sha256}, {"createdAt", one.created_at}});
  const std::string temporary = join_path(state_dir, ".gateways.json.tmp-0");
  AppendFile file = AppendFile::open(temporary, 0);
  if (::chmod(temporary.c_str(), 0600) != 0) fail_errno(errno, "chmod " + temporary);
  file.append(Json{{"v", kGatewaysVersion}, {"gateways", std::move(entries)}}.dump(2) + "\n");
  file.sync();
  rename_file(temporary, gateways_path(state_dir));
}

std::string new_token() {
  std::array<unsigned char, kTokenBytes> bytes;
  if (::RAND_bytes(bytes.data(), bytes.size()) != 1) fail(ErrorKind::internal, "there are no random bytes for a token");
  std::array<unsigned char, (kTokenBytes + 2) / 3 * 4 + 1> text;
  const int size = ::EVP_EncodeBlock(text.data(), bytes.data(), bytes.size());
  std::string token(reinterpret_cast<const char*>(text.data()), static_cast<size_t>(size));
  for (char& c : token) c = c == '+' ? '-' : c == '/' ? '_' : c;
  token.erase(token.find_last_not_of('=') + 1);
  return token;
}

// The mode comes with the file, before the bytes.
void write_token_file(const std::string& path, const std::string& token) {
  make_directories(std::filesystem::path(path).parent_path().string());
  const Descriptor made(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!made && errno == EEXIST)
    fail(ErrorKind::already_exists, "{} is there already: no token is written over; name another file, or move it away",
         path);
  if (!made) fail_errno(errno, "make the token file " + path);
  AppendFile file = AppendFile::open(path, 0);
  file.append(token + "\n");
  file.sync();
}

std::string hash_of(std::string_view token) { return to_hex(sha256(token)); }

std::vector<Gateway>::iterator find_gateway(std::vector<Gateway>& gateways, const std::string& state_dir,
                                            const std::string& name) {
  const auto found = std::find_if(gateways.begin(), gateways.end(), [&](const Gateway& g) { return g.name == name; });
  if (found == gateways.end())
    fail(ErrorKind::not_found, "there is no gateway \"{}\" in {}; `hyp gateway list` tells which there are", name,
         gateways_path(state_dir));
  return found;
}

// "": there is no file.
std::string version_of(const std::string& path) {
  struct stat info;
  if (::stat(path.c_str(), &info) != 0) {
    if (errno == ENOENT) return "";
    fail_errno(errno, "look at " + path);
  }
  return fmt::format("{}:{}:{}:{}.{}", info.st_dev, info.st_ino, info.st_size, info.st_mtim.tv_sec,
                     info.st_mtim.tv_nsec);
}

}  // namespace

std::string gateways_path(const std::string& state_dir) { return join_path(state_dir, "gateways.json"); }

std::vector<Gateway> load_gateways(const std::string& state_dir) {
  const std::string path = gateways_path(state_dir);
  std::vector<Gateway> gateways;
  const std::optional<std::string> text = make_local_file_io()->read_if_exists(path);
  if (!text) return gateways;
  const Json json = parse_json(*text, path);
  if (const int64_t version = get_int64(json, "v", path); version != kGatewaysVersion) {
    fail(ErrorKind::unsupported, "{} has version {}; this firn reads version {}", path, version, kGatewaysVersion);
  }
  for (const Json& entry : get_array(json, "gateways", path)) {
    gateways.push_back({.name = get_string(entry, "name", path),
                        .token_sha256 = get_string(entry, "tokenSha256", path),
                        .created_at = get_string(entry, "createdAt", path)});
  }
  std::sort(gateways.begin(), gateways.end(), [](const Gateway& a, const Gateway& b) { return a.name < b.name; });
  return gateways;
}

std::string add_gateway(const std::string& state_dir, const std::string& name, const std::string& token_file) {
  if (!is_valid_dataset_name(name)) {
    fail(ErrorKind::invalid_argument,
         "\"{}\" is no gateway's name: that has at most 128 letters, digits, '_', '-' and '.', and does not begin with "
         "'.'",
         name);
  }
  const FileLock lock = lock_gateways(state_dir);
  std::vector<Gateway> gateways = load_gateways(state_dir);
  for (const Gateway& other : gateways) {
    if (other.name == name)
      fail(ErrorKind::already_exists, "there is a gateway \"{}\"; `hyp gateway rotate {}` gives it a new token", name,
           name);
    if (fold_name(other.name) == fold_name(name))
      fail(ErrorKind::already_exists, "the gateway \"{}\" differs from it only in case", other.name);
  }
  std::string token = new_token();
  if (!token_file.empty()) write_token_file(token_file, token);
  gateways.push_back({name, hash_of(token), format_timestamp_ms_utc(now_ms())});
  save_gateways(state_dir, gateways);
  return token;
}

std::string rotate_gateway(const std::string& state_dir, const std::string& name, const std::string& token_file) {
  const FileLock lock = lock_gateways(state_dir);
  std::vector<Gateway> gateways = load_gateways(state_dir);
  const auto gateway = find_gateway(gateways, state_dir, name);
  std::string token = new_token();
  if (!token_file.empty()) write_token_file(token_file, token);
  gateway->token_sha256 = hash_of(token);
  gateway->created_at = format_timestamp_ms_utc(now_ms());
  save_gateways(state_dir, gateways);
  return token;
}

void remove_gateway(const std::string& state_dir, const std::string& name) {
  const FileLock lock = lock_gateways(state_dir);
  std::vector<Gateway> gateways = load_gateways(state_dir);
  gateways.erase(find_gateway(gateways, state_dir, name));
  save_gateways(state_dir, gateways);
}

GatewayTokens::GatewayTokens(std::string state_dir, std::function<int64_t()> steady_us)
    : state_dir_(std::move(state_dir)), steady_us_(steady_us ? std::move(steady_us) : firn::steady_us) {
  version_ = version_of(gateways_path(state_dir_));  // first, so that a change meanwhile is seen by the next look
  gateways_ = load_gateways(state_dir_);
  looked_us_ = steady_us_();
}

void GatewayTokens::look() {
  const int64_t now_us = steady_us_();
  if (now_us - looked_us_ < kLookUs) return;
  looked_us_ = now_us;
  try {
    const std::string version = version_of(gateways_path(state_dir_));
    if (version == version_) return;
    gateways_ = load_gateways(state_dir_);
    version_ = version;
    spdlog::info("the gateways changed: there are {} now", gateways_.size());
  } catch (const std::exception& e) {  // shutting out everybody for a moment's damage would help nobody
    spdlog::error("the gateways stay as they were: {}", e.what());
  }
}

std::optional<std::string> GatewayTokens::find(std::string_view token) {
  const std::string hash = hash_of(token);
  const std::lock_guard guard(mutex_);
  look();
  // All are compared, each in the same time, so that how long it takes tells nothing.
  const Gateway* found = nullptr;
  for (const Gateway& gateway : gateways_) {
    const bool is_it = gateway.token_sha256.size() == hash.size() &&
                       ::CRYPTO_memcmp(gateway.token_sha256.data(), hash.data(), hash.size()) == 0;
    found = is_it ? &gateway : found;
  }
  return found != nullptr ? std::optional(found->name) : std::nullopt;
}

bool GatewayTokens::is_empty() {
  const std::lock_guard guard(mutex_);
  look();
  return gateways_.empty();
}

}  // namespace firn::hyp
