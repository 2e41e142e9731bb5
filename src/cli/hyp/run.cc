// From words to a command.
#include <algorithm>
#include <ostream>

#include <CLI/CLI.hpp>

#include "base/span.h"
#include "cli/hyp/command.h"

namespace firn::hyp {
namespace {

constexpr const char* kAbout =
    "hyp captures rows into a local Iceberg cache, answers SQL over it, and ships only what is new to its sinks, each "
    "row "
    "exactly once.";

// Everything but the words themselves: what CLI11 fills in.
struct Parsed {
  std::string config_path;
  std::string init_path = "hyp.json";
  IngestArguments ingest;
  CollectArguments collect;
  QueryArguments query;
  SinkArguments sink;
  PurgeArguments purge;
  MaintainArguments maintain;
  GatewayArguments gateway;
  bool json = false;
  bool takes_older_ledger = false;
  std::string dataset;
};

void add_options(CLI::App& app, Parsed& p) {
  app.require_subcommand(1);
  app.fallthrough();  // --config after the command too
  app.add_option(
      "--config", p.config_path,
      "The configuration (else HYP_CONFIG, ./hyp.json, ~/.config/hyp/hyp.json, the defaults with all in ~/.hyp)");
  app.set_help_all_flag("--help-all", "Help of every command");
  app.set_version_flag("--version", "hyp " FIRN_VERSION);
  app.footer(
      "Status: 0 done, 1 failed, 2 wrong usage, 3 done but some lines were rejected or left.\n"
      "hyp COMMAND --help tells a command's options.");

  auto* init = app.add_subcommand("init", "Write a commented configuration");
  init->add_option("FILE", p.init_path, "Where; never over a file that is there")->capture_default_str();

  auto* ingest = app.add_subcommand("ingest", "Take NDJSON rows into a dataset; run again, it takes only the rest");
  ingest->add_option("DATASET", p.ingest.dataset)->required();
  ingest->add_option("FILE", p.ingest.files, "NDJSON, plain, gzip or zstd; \"-\" or none is standard input");
  ingest->add_option("--source", p.ingest.source, "The source partition")->capture_default_str();
  ingest->add_option("--id", p.ingest.id, "Names a pipe, so that the same rows piped again are not taken twice");
  ingest->add_flag("--atomic", p.ingest.atomic, "A pipe is taken whole or not at all");
  ingest->add_flag("--no-flush", p.ingest.no_flush, "Leave the rows in the spool (durable, and visible to queries)");

  auto* collect = app.add_subcommand(
      "collect",
      "Follow files for good: appended lines are picked up by the daemon, and by this command without arguments");
  collect->add_option("FILE", p.collect.file, "One file");
  collect->add_option("--glob", p.collect.glob, "Every file of a pattern");
  collect->add_option("--name", p.collect.name, "Names the registration, and the source partition");
  collect->add_option("--dataset", p.collect.dataset, "The dataset (default: the name)");
  collect->add_flag("--list", p.collect.list, "The registrations");
  collect->add_option("--remove", p.collect.remove, "Drop the registration of that name; its rows stay");

  auto* query = app.add_subcommand("query", "Answer one SQL statement; each dataset is a table");
  query->add_option("SQL", p.query.sql)->required();
  query->add_option("--format", p.query.format)
      ->check(CLI::IsMember({"table", "json", "csv", "parquet"}))
      ->capture_default_str();
  query->add_option("--output", p.query.output, "Into a file (parquet needs one)");
  query->add_flag("--no-pruning", p.query.no_pruning, "Read every file, row group and page");
  query->add_flag("--stats", p.query.stats, "Print what was read and what was pruned");

  auto* sink = app.add_subcommand("sink", "Ship rows to sinks, see how far they are, move them")->require_subcommand(1);
  auto* sink_run = sink->add_subcommand("run", "Ship what is new, after a flush of what is spooled");
  auto* sink_status = sink->add_subcommand(
      "status", "How far each sink is: watermark, rows and time behind, what is announced, the last error");
  auto* sink_reset = sink->add_subcommand("reset", "Move a sink to another place of its partitions");
  for (CLI::App* one : {sink_run, sink_status}) one->add_option("--sink,SINK", p.sink.names, "Only these");
  sink_reset->add_option("--sink,SINK", p.sink.names, "The sink")->required()->expected(1);
  for (CLI::App* one : {sink_run, sink_status, sink_reset}) {
    one->add_option("--partition", p.sink.partition, "Only this DATASET or DATASET/SOURCE");
    one->add_flag("--json", p.sink.json, "As JSON");
  }
  sink_reset->add_option("--to", p.sink.to, "SEQ, start, now or destination")->required();
  sink_reset->add_flag("--yes", p.sink.yes, "Do not ask");
  sink_reset->add_flag("--dry-run", p.sink.dry_run, "Only say what it comes to");
  sink_reset->footer(
      "--to SEQ          rows numbered SEQ or below count as sent, those above it are sent\n"
      "--to start        all that the cache has is sent, again where it was sent before\n"
      "--to now          nothing that the cache has now is sent\n"
      "--to destination  go on from what the destination has: after `destination_behind`, once it is restored\n"
      "What is sent again is then there twice; what is skipped is never sent. It is written at the destination first, "
      "so\nthat a lost watermark does not undo it. What it comes to is said, and asked, before anything is done.");

  auto* purge = app.add_subcommand("purge", "Remove rows from the cache at once and for good");
  purge->add_option("DATASET", p.purge.dataset)->required();
  purge
      ->add_option("--where", p.purge.where,
                   "Which rows: \"user_id = 'x' and not (a is null)\", or Iceberg's expression JSON; \"true\": all")
      ->required();
  purge->add_flag("--dry-run", p.purge.dry_run, "Only count them (what is spooled is flushed all the same)");
  purge->add_flag("--json", p.purge.json, "As JSON");
  purge->footer(
      "Spooled rows are flushed first. Queries and sinks that began before see their rows to the end: what they\n"
      "hold is named, and goes with the upkeep that follows their end. What sinks have stays there, and is counted.\n"
      "Rejected lines (rejects/DATASET.ndjson in the cache) are no rows: look there yourself.");

  auto* maintain = app.add_subcommand("maintain", "Remove rows past their age, and compact what needs it, now");
  maintain->add_flag("--dry-run", p.maintain.dry_run, "Only say what would be done");
  maintain->add_flag("--json", p.maintain.json, "As JSON");

  auto* status = app.add_subcommand("status", "What the cache holds");
  status->add_flag("--json", p.json, "As JSON");
  auto* schema = app.add_subcommand("schema", "The columns of a dataset");
  schema->add_option("DATASET", p.dataset)->required();
  schema->add_flag("--json", p.json, "As Iceberg's schema JSON");
  app.add_subcommand("flush", "Move spooled rows into the cache tables now");
  app.add_subcommand("daemon",
                     "Own the cache: HTTP capture, followed files, flushes, sinks on schedule, upkeep; until SIGTERM")
      ->footer(
          "Rows over HTTP: POST http://127.0.0.1:4747/v1/ingest/DATASET (\"listen\" in the configuration), NDJSON, "
          "one\n"
          "object a line, plain, gzip or zstd; 202 once they are durable. X-Hyp-Batch-Id makes a repeat harmless,\n"
          "X-Hyp-Source names the source. GET /healthz.");
  auto* serve =
      app.add_subcommand("serve", "The daemon as a receiver, too: rows of other caches' forward sinks; until SIGTERM");
  serve->add_flag("--older-ledger", p.takes_older_ledger,
                  "Go on with a ledger that was restored from an older backup than the tables");
  serve->footer(
      "It listens on receiver.listen (127.0.0.1:4748), besides \"listen\". Each gateway that sends has a token of\n"
      "its own (hyp gateway), and its name is a column of its rows. GET /healthz, GET /metrics.");

  auto* gateway = app.add_subcommand("gateway", "Who may send to hyp serve")->require_subcommand(1);
  const auto add_action = [&](const char* name, const char* help, GatewayArguments::Action action) {
    CLI::App* one = gateway->add_subcommand(name, help);
    one->callback([&p, action] { p.gateway.action = action; });
    if (action != GatewayArguments::Action::list) one->add_option("NAME", p.gateway.name)->required();
    return one;
  };
  for (CLI::App* one :
       {add_action("add", "A new gateway; prints its token, this once", GatewayArguments::Action::add),
        add_action("rotate", "A new token for a gateway; the old one ends", GatewayArguments::Action::rotate)}) {
    one->add_option("--token-file", p.gateway.token_file,
                    "Put the token into a new file that only you can read, and do not print it");
  }
  add_action("remove", "Its token ends; its rows stay", GatewayArguments::Action::remove);
  add_action("list", "Those that there are", GatewayArguments::Action::list)
      ->add_flag("--json", p.gateway.json, "As JSON");
  gateway->footer("A running hyp serve follows within a second or two. Only hashes of tokens are kept.");
}

// "help" and "help COMMAND", as people type them.
std::vector<std::string> with_help_spelled(std::vector<std::string> words) {
  if (words.empty() || words[0] != "help") return words;
  words.erase(words.begin());
  words.emplace_back("--help");
  return words;
}

// The command that the words name, as far as they were parsed: of "sink reset --to now" its reset.
const CLI::App& innermost(const CLI::App& app) {
  const CLI::App* command = &app;
  while (!command->get_subcommands().empty()) command = command->get_subcommands().front();
  return *command;
}

std::string command_of(const CLI::App& app) {  // "hyp sink reset"
  std::string words = app.get_name();
  for (const CLI::App* command = &app; !command->get_subcommands().empty();) {
    command = command->get_subcommands().front();
    words += " " + command->get_name();
  }
  return words;
}

std::vector<std::string> subcommands_of(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; }))
    names.push_back(command->get_name());
  return names;
}

// Throws invalid_argument for a first word that is no command.
void check_command(const CLI::App& app, const std::vector<std::string>& words) {
  const std::vector<std::string> names = subcommands_of(app);
  for (size_t i = 0; i < words.size(); ++i) {
    if (words[i] == "--config") {
      ++i;  // its value
    } else if (!words[i].starts_with('-')) {
      if (std::find(names.begin(), names.end(), words[i]) != names.end()) return;
      const std::string* nearest = nearest_name(words[i], names);
      fail(ErrorKind::invalid_argument, "there is no command \"{}\"{}; the commands are {}", words[i],
           nearest != nullptr ? fmt::format(", did you mean \"{}\"", *nearest) : "", fmt::join(names, ", "));
    }
  }
}

// Before any command does its work: that there is no configuration.
void warn_of_configuration(const Config& config, const Invocation& invocation) {
  if (config.path.empty()) {
    *invocation.err << "hyp: there is no hyp.json here: the defaults are used, with the cache in " << config.cache_root
                    << "; `hyp init` writes a configuration\n";
  }
}

int dispatch(CLI::App& app, const Parsed& p, const Invocation& invocation) {
  if (app.got_subcommand("init")) return command_init(invocation, p.init_path);
  const Config config = invocation.service != nullptr
                            ? invocation.service->config()
                            : find_config(p.config_path.empty() ? "" : absolute_path(invocation, p.config_path));
  if (invocation.service == nullptr) warn_of_configuration(config, invocation);
  if (!config.trace_file.empty() && invocation.service == nullptr) set_trace_file(config.trace_file);
  if (app.got_subcommand("ingest")) return command_ingest(config, invocation, p.ingest);
  if (app.got_subcommand("collect")) return command_collect(config, invocation, p.collect);
  if (app.got_subcommand("query")) return command_query(config, invocation, p.query);
  if (app.got_subcommand("status")) return command_status(config, invocation, p.json);
  if (app.got_subcommand("schema")) return command_schema(config, invocation, p.dataset, p.json);
  if (app.got_subcommand("purge")) return command_purge(config, invocation, p.purge);
  if (app.got_subcommand("maintain")) return command_maintain(config, invocation, p.maintain);
  if (app.got_subcommand("flush")) return command_flush(config, invocation);
  if (app.got_subcommand("daemon")) return command_daemon(config, invocation);
  if (app.got_subcommand("serve")) return command_serve(config, invocation, p.takes_older_ledger);
  if (app.got_subcommand("gateway")) return command_gateway(config, invocation, p.gateway);
  if (app.get_subcommand("sink")->got_subcommand("run")) return command_sink_run(config, invocation, p.sink);
  if (app.get_subcommand("sink")->got_subcommand("reset")) return command_sink_reset(config, invocation, p.sink);
  return command_sink_status(config, invocation, p.sink);
}

}  // namespace

int run_hyp(const Invocation& invocation) {
  CLI::App app(kAbout, "hyp");
  Parsed parsed;
  add_options(app, parsed);
  const std::vector<std::string> words = with_help_spelled(invocation.words);
  const auto fail_usage = [&](const std::string& what) {
    *invocation.err << "hyp: " << what << "\nTry: " << command_of(app) << " --help\n";
    return kUsage;
  };
  try {
    check_command(app, words);
  } catch (const Error& e) {
    return fail_usage(e.what());
  }
  try {
    app.parse(std::vector<std::string>(words.rbegin(), words.rend()));  // the last one first, as CLI11 takes them
    return dispatch(app, parsed, invocation);
  } catch (const CLI::ParseError& e) {
    if (e.get_exit_code() == 0) return app.exit(e, *invocation.out, *invocation.err);
    const std::vector<std::string> choices = subcommands_of(innermost(app));
    return fail_usage(choices.empty() ? e.what() : fmt::format("which command? {}", fmt::join(choices, ", ")));
  } catch (const std::exception& e) {
    *invocation.err << "hyp: " << e.what() << "\n";
    return kFailed;
  }
}

}  // namespace firn::hyp
