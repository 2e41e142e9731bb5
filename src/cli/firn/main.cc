// The command firn: reads, makes, changes and maintains Iceberg tables.
#include <cstdio>

#include "base/log.h"
#include "cli/firn/command.h"

namespace {

using namespace firn::cli;

constexpr int kFailed = 1, kUsage = 2;

void add_commands(CLI::App& app) {
  app.require_subcommand(1);
  app.set_help_all_flag("--help-all", "Help of every command");
  app.footer(
      "Tables are named by their directory, as namespace.table with --warehouse or FIRN_WAREHOUSE, or as\n"
      "catalog:namespace.table, with the catalog's warehouse from the file that FIRN_CATALOGS names (else\n"
      "~/.config/firn/catalogs.json): {\"local\": {\"warehouse\": \"/data/warehouse\"}}\n"
      "Status: 0 done, 1 failed (or verify found something), 2 wrong usage.\n"
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
}

}  // namespace

int main(int argc, char** argv) {
  firn::init_log(spdlog::level::warn);
  CLI::App app("firn reads, makes, changes and maintains Apache Iceberg tables.", "firn");
  try {
    add_commands(app);
    app.parse(argc, argv);  // and runs the command
    if (std::fflush(stdout) != 0) firn::fail(firn::ErrorKind::io, "standard output could not be written");
    return 0;
  } catch (const CLI::ParseError& e) {
    if (e.get_exit_code() == 0) return app.exit(e);  // help
    std::fprintf(stderr, "firn: %s\nTry: firn --help\n", e.what());
    return kUsage;
  } catch (const CommandFailed&) {
    return kFailed;
  } catch (const std::exception& e) {
    std::fflush(stdout);
    std::fprintf(stderr, "firn: %s\n", e.what());
    return kFailed;
  }
}
