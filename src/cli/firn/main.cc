// The command firn: reads, makes, changes and maintains Iceberg tables.
#include <algorithm>
#include <cstdio>

#include "base/log.h"
#include "cli/firn/command.h"

namespace {

using namespace firn::cli;

constexpr int kFailed = 1, kUsage = 2;

// "" would be taken for an option that was not given. It means something for some texts.
void refuse_empty_values(CLI::App& app) {
  for (CLI::Option* option : app.get_options()) {
    const std::string name = option->get_name();
    const bool may_be_empty = name == "TEXT" || name == "VALUE" || name == "--default" || name == "--doc";
    if (may_be_empty || option->get_items_expected_max() == 0) continue;
    option->check([](const std::string& text) { return std::string(text.empty() ? "it is empty" : ""); });
  }
  for (CLI::App* command : app.get_subcommands({})) refuse_empty_values(*command);
}

void add_commands(CLI::App& app) {
  app.require_subcommand(1);
  app.set_version_flag("--version", "firn " FIRN_VERSION);
  app.set_help_all_flag("--help-all", "Help of every command");
  app.footer(
      "Tables are named by their directory, as namespace.table with --warehouse or FIRN_WAREHOUSE, or as\n"
      "catalog:namespace.table, with the catalog's warehouse from the file that FIRN_CATALOGS names (else\n"
      "~/.config/firn/catalogs.json): {\"local\": {\"warehouse\": \"/data/warehouse\"}}\n"
      "Status: 0 done, 1 failed (or verify found an error), 2 wrong usage: options that are none, or are never right.\n"
      "firn COMMAND --help tells a command's options, with an example.");
  add_scan_command(app);
  add_look_commands(app);
  add_file_commands(app);
  add_verify_command(app);
  add_append_command(app);
  add_row_commands(app);
  add_create_commands(app);
  add_alter_command(app);
  add_ref_commands(app);
  add_maintain_commands(app);
  refuse_empty_values(app);
}

std::vector<std::string> names_of(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands({})) names.push_back(command->get_name());
  return names;
}

// A first word, and after `alter` a second one, that is no command.
void check_command(const CLI::App& app, const std::vector<std::string>& words) {
  const CLI::App* at = &app;
  for (const std::string& word : words) {
    const std::vector<std::string> names = names_of(*at);
    if (names.empty() || word.starts_with('-')) return;
    if (std::find(names.begin(), names.end(), word) == names.end()) {
      const std::string in = at == &app ? "" : " " + at->get_name();
      const std::string guess = did_you_mean(word, names);
      fail_usage("there is no command{} {}{}", in, word,
                 guess.empty() ? fmt::format("; firn{} --help lists them", in) : guess);
    }
    at = at->get_subcommand(word);
  }
}

// `firn help scan` is `firn scan --help`.
std::vector<std::string> words_of(int argc, char** argv) {
  std::vector<std::string> words(argv + std::min(argc, 1), argv + argc);
  if (!words.empty() && words.front() == "help") {
    words.erase(words.begin());
    words.emplace_back("--help");
  }
  return words;
}

}  // namespace

int main(int argc, char** argv) {
  firn::init_log(spdlog::level::warn);
  CLI::App app("firn reads, makes, changes and maintains Apache Iceberg tables.", "firn");
  try {
    add_commands(app);
    std::vector<std::string> words = words_of(argc, argv);
    check_command(app, words);
    std::reverse(words.begin(), words.end());  // as parse() wants them
    app.parse(std::move(words));               // and runs the command
    if (std::fflush(stdout) != 0) firn::fail(firn::ErrorKind::io, "standard output could not be written");
    return 0;
  } catch (const CLI::ParseError& e) {
    if (e.get_exit_code() == 0) return app.exit(e);  // help
    std::fprintf(stderr, "firn: %s\nTry: firn --help\n", with_real_paths(e.what()).c_str());
    return kUsage;
  } catch (const CommandFailed&) {
    return kFailed;
  } catch (const std::exception& e) {
    std::fflush(stdout);
    std::fprintf(stderr, "firn: %s\n", with_real_paths(e.what()).c_str());
    return kFailed;
  }
}
