// Gateways: who may send to a receiver. <stateDir>/gateways.json has a name and the hash of a token for each; the
// tokens themselves are nowhere.
#pragma once

#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace firn::hyp {

struct Gateway {
  std::string name;
  std::string token_sha256;  // in hex
  std::string created_at;    // of the token, ISO 8601
};

std::string gateways_path(const std::string& state_dir);
// By name; empty if there is no file. Throws corrupt, unsupported, io.
std::vector<Gateway> load_gateways(const std::string& state_dir);

// Each makes its change durable and throws what load_gateways does. A running receiver follows within about a second.
//
// The gateway's new token, 32 random bytes in base64url, which nobody can be told again. `token_file`, if given, has it
// before it counts: a new file that only its owner can read. Throws invalid_argument for a name that could be no
// dataset's, already_exists (also for one that differs only in case, and for the file).
std::string add_gateway(const std::string& state_dir, const std::string& name, const std::string& token_file = "");
// The old token ends; not_found.
std::string rotate_gateway(const std::string& state_dir, const std::string& name, const std::string& token_file = "");
void remove_gateway(const std::string& state_dir, const std::string& name);  // not_found

// The gateways as a running receiver knows them. Thread-safe.
class GatewayTokens {
 public:
  // Throws what load_gateways does. `steady_us` is for tests.
  explicit GatewayTokens(std::string state_dir, std::function<int64_t()> steady_us = nullptr);
  // Whose token that is. Looks at most once a second whether the file is another; while it cannot be read, what was
  // read last stands, and the log says so.
  std::optional<std::string> find(std::string_view token);
  bool is_empty();

 private:
  void look();  // requires mutex_

  const std::string state_dir_;
  const std::function<int64_t()> steady_us_;
  std::mutex mutex_;
  int64_t looked_us_ = 0;
  std::string version_;  // of the file, as it was read last
  std::vector<Gateway> gateways_;
};

}  // namespace firn::hyp
