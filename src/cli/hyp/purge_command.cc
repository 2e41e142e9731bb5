// purge.
#include <algorithm>
#include <ostream>

#include "base/log.h"
#include "base/uri.h"
#include "cli/hyp/command.h"
#include "hyp/cache/rejects.h"
#include "hyp/maintain/purge.h"

namespace firn::hyp {
namespace {

// As `firn delete` takes it.
iceberg::ExpressionPtr parse_condition(const std::string& where) {
  const size_t begin = where.find_first_not_of(" \t\r\n");
  if (begin == std::string::npos) fail(ErrorKind::invalid_argument, "--where is empty: \"true\" means all rows");
  if (where[begin] == '{') return iceberg::expression_from_json(parse_json(where, "--where"), "--where");
  try {
    return iceberg::parse_expression(where);
  } catch (const Error& e) {
    throw Error(e.kind(), fmt::format("--where \"{}\"", where), e);
  }
}

void check_dataset(const Cache& cache, const std::string& dataset) {
  std::vector<std::string> known = cache.datasets();
  if (std::find(known.begin(), known.end(), dataset) != known.end()) return;
  for (const auto& [name, declared] : cache.config().datasets) {
    if (name == dataset) return;
    known.push_back(name);
  }
  const std::string* nearest = nearest_name(dataset, known);
  fail(ErrorKind::not_found, "there is no dataset \"{}\"{}", dataset,
       nearest != nullptr ? fmt::format(", did you mean \"{}\"?", *nearest)
                          : "; `hyp status` shows those that there are");
}

std::string rejects_of(const Cache& cache, const std::string& dataset) {
  if (RejectsFile(cache.config().cache_root, dataset).size_bytes() == 0) return "";
  return join_path(join_path(cache.config().cache_root, "rejects"), encode_segment(dataset) + ".ndjson");
}

void print_purge(const PurgeReport& report, const PurgeArguments& arguments, std::ostream& out) {
  out << arguments.dataset << ": " << format_counted(report.rows, "row")
      << (arguments.dry_run ? " would be removed from " : " removed from ") << report.partitions
      << (report.partitions == 1 ? " partition" : " partitions") << "\n";
  for (const auto& [sink, rows] : report.sent_rows)
    out << "  sink " << sink << " has " << format_counted(rows, "row") << " of them already; they stay there\n";
  for (const auto& [sink, rows] : report.maybe_sent_rows)
    out << "  sink " << sink << " may have " << format_counted(rows, "row")
        << " of them: of a unit under way, or it is not known\n";
  if (!report.waiting.empty()) out << "  still held until its readers end (the upkeep then removes it):\n";
  for (const std::string& waiting : report.waiting) out << "    " << waiting << "\n";
}

}  // namespace

int command_purge(const Config& config, const Invocation& invocation, const PurgeArguments& arguments) {
  iceberg::ExpressionPtr where;
  try {
    where = parse_condition(arguments.where);
  } catch (const Error& e) {
    *invocation.err << "hyp: " << e.what() << "\nTry: hyp purge --help\n";
    return kUsage;
  }
  return with_service(config, invocation, [&](Service& service) {
    // Rows that are only spooled are rows too.
    const FlushReport flushed = service.flush();
    const std::string folder = fmt::format("datasets/{}/", encode_segment(arguments.dataset));
    const bool has_spooled = std::any_of(flushed.problems.begin(), flushed.problems.end(),
                                         [&](const std::string& problem) { return problem.starts_with(folder); });
    if (!has_spooled) check_dataset(service.cache(), arguments.dataset);
    PurgeReport report;
    try {
      report = purge(service.cache(), arguments.dataset, where, arguments.dry_run);
    } catch (const Error& e) {
      if (!has_spooled) throw;  // else the rows that are not flushed may be the ones that are meant
      report.problems.emplace_back(e.what());
    }
    for (const std::string& problem : flushed.problems)
      report.problems.push_back(problem + "; its rows stay in the spool, unpurged");
    const std::string rejects = rejects_of(service.cache(), arguments.dataset);
    if (arguments.json) {
      *invocation.out << Json{{"dataset", arguments.dataset},
                              {"dryRun", arguments.dry_run},
                              {"rows", report.rows},
                              {"partitions", report.partitions},
                              {"waiting", report.waiting},
                              {"sentRows", report.sent_rows},
                              {"maybeSentRows", report.maybe_sent_rows},
                              {"rejects", rejects.empty() ? Json(nullptr) : Json(rejects)},
                              {"problems", report.problems}}
                             .dump(2)
                      << "\n";
    } else {
      print_purge(report, arguments, *invocation.out);
      if (!rejects.empty())
        *invocation.out << "  rejected lines are no rows and were not looked at: " << rejects << "\n";
      for (const std::string& problem : report.problems) *invocation.err << "hyp: " << problem << "\n";
    }
    return report.problems.empty() ? 0 : kFailed;
  });
}

}  // namespace firn::hyp
