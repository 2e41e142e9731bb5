// hyp gateway: who may send to the receiver.
#include <filesystem>
#include <ostream>

#include "base/json.h"
#include "cli/hyp/command.h"
#include "hyp/receiver/gateways.h"

namespace firn::hyp {
namespace {

void tell_token(const Invocation& invocation, const std::string& name, const std::string& token,
                const std::string& token_file) {
  if (!token_file.empty()) {
    *invocation.out << "wrote the token of " << name << " to " << token_file
                    << ": copy it to where its forward sink reads it (\"tokenFile\"), and remove it here\n";
    return;
  }
  *invocation.out << token << "\n";
  *invocation.err << "hyp: this is the token of " << name
                  << ", shown this once: put it where its forward sink reads it (\"tokenFile\")\n";
}

}  // namespace

int command_gateway(const Config& config, const Invocation& invocation, const GatewayArguments& arguments) {
  using Action = GatewayArguments::Action;
  const std::string token_file = arguments.token_file.empty() ? "" : absolute_path(invocation, arguments.token_file);
  if (const auto folder = std::filesystem::path(token_file).parent_path(); !std::filesystem::is_directory(folder)) {
    if (!token_file.empty()) fail(ErrorKind::not_found, "there is no folder {} for the token file", folder.string());
  }
  const auto tell = [&](const std::string& token) { tell_token(invocation, arguments.name, token, token_file); };
  switch (arguments.action) {
    case Action::add:
      tell(add_gateway(config.state_dir, arguments.name, token_file));
      return 0;
    case Action::rotate:
      tell(rotate_gateway(config.state_dir, arguments.name, token_file));
      return 0;
    case Action::remove:
      remove_gateway(config.state_dir, arguments.name);
      return 0;
    case Action::list:
      break;
  }
  const std::vector<Gateway> gateways = load_gateways(config.state_dir);
  if (arguments.json) {
    Json entries = Json::array();
    for (const Gateway& one : gateways) entries.push_back({{"name", one.name}, {"createdAt", one.created_at}});
    *invocation.out << Json{{"gateways", std::move(entries)}}.dump(2) << "\n";
    return 0;
  }
  if (gateways.empty()) {
    *invocation.out << "there is no gateway; `hyp gateway add NAME` makes one\n";
    return 0;
  }
  std::vector<std::vector<std::string>> rows;
  for (const Gateway& one : gateways) rows.push_back({one.name, one.created_at});
  print_table(*invocation.out, {"gateway", "token made"}, rows);
  return 0;
}

}  // namespace firn::hyp
