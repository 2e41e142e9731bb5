// Whether a table is whole.
#include <algorithm>

#include "cli/firn/command.h"
#include "cli/firn/progress.h"
#include "cli/firn/text_table.h"
#include "iceberg/inspect/verify.h"

namespace firn::cli {
namespace {

struct VerifyArguments {
  TableArgument table;
  std::string at;
  bool strict = false, data = false, all_snapshots = false, as_json = false;
};

void verify_table(const VerifyArguments& arguments) {
  const auto table = open_table(arguments.table);
  iceberg::VerifyOptions options;
  options.strict = arguments.strict;
  options.check_data = arguments.data;
  options.all_snapshots = arguments.all_snapshots;
  if (!arguments.at.empty()) options.snapshot_id = snapshot_id_at(arguments.at, *table->load().metadata);
  std::vector<iceberg::Finding> findings;
  {
    Progress progress("verify");
    std::atomic<int64_t> num_objects{0};
    options.progress = [&](const std::string&) { progress.say(format_counted(++num_objects, "object")); };
    findings = verify(*table, options);
  }
  for (iceberg::Finding& finding : findings) {
    finding.object = with_real_paths(std::move(finding.object));
    finding.message = with_real_paths(std::move(finding.message));
  }
  const auto num_errors = std::count_if(findings.begin(), findings.end(), [](const iceberg::Finding& finding) {
    return finding.severity == iceberg::Severity::error;
  });
  const auto num_warnings = static_cast<int64_t>(findings.size()) - num_errors;
  if (arguments.as_json) {
    Json json = {{"location", table->location()}, {"findings", Json::array()}};
    for (const iceberg::Finding& finding : findings) {
      json["findings"].push_back({{"severity", std::string(to_string(finding.severity))},
                                  {"code", finding.code},
                                  {"object", finding.object},
                                  {"message", finding.message}});
    }
    print_text(json.dump(2) + "\n");
  } else {
    for (const iceberg::Finding& finding : findings) {
      print_text(
          fmt::format("{} {} {}: {}\n", to_string(finding.severity), finding.code, finding.object, finding.message));
    }
    print_text(findings.empty() ? "nothing is wrong\n"
                                : fmt::format("{}, {}\n", format_counted(num_errors, "error"),
                                              format_counted(num_warnings, "warning")));
  }
  if (num_errors > 0) throw CommandFailed();
}

}  // namespace

void add_verify_command(CLI::App& app) {
  CLI::App* command =
      add_command(app, kReading, "verify", "Check that the table is whole; status 1 for an error, not for warnings",
                  "verify local:nyc.flights --strict --data");
  auto& arguments = run_with<VerifyArguments>(command, verify_table);
  add_table(command, arguments.table);
  command->add_flag("--strict", arguments.strict, "Also warn of what a writer must do, and readers get by without");
  command->add_flag("--data", arguments.data, "Also that counts, bounds and positions agree with what is in the files");
  add_at(command, arguments.at);
  command->add_flag("--all-snapshots", arguments.all_snapshots, "Every snapshot, not only those that refs name");
  command->add_flag("--json", arguments.as_json, "Answer in JSON");
  add_relocate(command, arguments.table);
}

}  // namespace firn::cli
