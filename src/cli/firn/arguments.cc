// Options that several commands have, and what their texts mean.
#include <algorithm>
#include <cctype>
#include <charconv>

#include <fmt/ranges.h>

#include "base/civil_time.h"
#include "cli/firn/command.h"
#include "cli/firn/text_table.h"
#include "iceberg/expr/parse.h"
#include "iceberg/scan/snapshot_choice.h"

namespace firn::cli {

CLI::App* add_command(CLI::App& app, const char* group, const std::string& name, const std::string& about,
                      const std::string& example) {
  CLI::App* command = app.add_subcommand(name, about);
  command->group(group);
  command->footer("Example: firn " + example);
  return command;
}

void add_table(CLI::App* command, TableArgument& table) {
  command
      ->add_option("TABLE", table.table,
                   "A table's directory, catalog:namespace.table, or namespace.table with --warehouse")
      ->required();
  command->add_option("--warehouse", table.warehouse, "The folder of namespace/table folders")
      ->envname("FIRN_WAREHOUSE");
}

void add_relocate(CLI::App* command, TableArgument& table) {
  command
      ->add_option("--relocate", table.relocations, "OLD=NEW: files that the table names below OLD are read below NEW")
      ->allow_extra_args(false);
}

void add_at(CLI::App* command, std::string& at) {
  command->add_option("--at", at,
                      "A branch or tag, else a snapshot id (digits), else a time (2024-03-01T12:00:00Z); none is the "
                      "current snapshot");
}

void add_where(CLI::App* command, std::string& where, const std::string& about) {
  command->add_option("--where", where, about + " \"ts >= '2024-01-01' and not (a is null)\", or expression JSON");
}

// How many letters are to be added, dropped, changed or swapped with the next one.
static size_t spelling_distance(std::string_view a, std::string_view b) {
  std::vector<std::vector<size_t>> rows(a.size() + 1, std::vector<size_t>(b.size() + 1));
  for (size_t i = 0; i <= a.size(); ++i) {
    for (size_t j = 0; j <= b.size(); ++j) {
      if (i == 0 || j == 0) {
        rows[i][j] = i + j;
        continue;
      }
      rows[i][j] =
          std::min({rows[i - 1][j] + 1, rows[i][j - 1] + 1, rows[i - 1][j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1)});
      const bool is_swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (is_swapped) rows[i][j] = std::min(rows[i][j], rows[i - 2][j - 2] + 1);
    }
  }
  return rows[a.size()][b.size()];
}

std::string did_you_mean(const std::string& word, const std::vector<std::string>& known) {
  constexpr size_t kWordMax = 64, kDistanceMax = 2;
  if (word.size() > kWordMax) return "";
  size_t best = std::min(kDistanceMax, word.size() / 2) + 1;
  std::string found;
  for (const std::string& name : known) {
    const size_t distance = spelling_distance(word, name);
    if (distance >= best) continue;
    best = distance;
    found = fmt::format(", did you mean {}?", name);
  }
  return found;
}

ChosenSnapshot parse_at(const std::string& at, const iceberg::TableMetadata& metadata) {
  ChosenSnapshot chosen;
  if (at.empty()) return chosen;
  if (metadata.refs.contains(at) || at == "main") {
    chosen.ref = at;
    return chosen;
  }
  int64_t id = 0;
  const auto [end, error] = std::from_chars(at.data(), at.data() + at.size(), id);
  if (error == std::errc{} && end == at.data() + at.size() && at.front() != '-') {
    chosen.snapshot_id = id;
    return chosen;
  }
  if (const auto time = parse_timestamp_us(at)) {
    chosen.as_of_ms = floor_div(time->value, 1000);
    return chosen;
  }
  std::vector<std::string> names;
  for (const auto& [name, unused] : metadata.refs) names.push_back(name);
  fail(
      ErrorKind::not_found,
      "--at '{}' is no branch or tag of the table, no snapshot id and no time (2024-03-01T12:00:00Z); it has the refs: "
      "{}",
      at, names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", ")));
}

void set_snapshot(iceberg::ScanOptions& options, const ChosenSnapshot& chosen) {
  options.snapshot_id = chosen.snapshot_id;
  options.ref = chosen.ref;
  options.as_of_ms = chosen.as_of_ms;
}

std::optional<int64_t> snapshot_id_at(const std::string& at, const iceberg::TableMetadata& metadata) {
  iceberg::ScanOptions options;
  set_snapshot(options, parse_at(at, metadata));
  const iceberg::Snapshot* snapshot = choose_snapshot(metadata, options).snapshot;
  return snapshot ? std::optional(snapshot->snapshot_id) : std::nullopt;
}

CLI::Validator whole_number(int64_t min, int64_t max) {
  return CLI::Validator(
      [min, max](std::string& text) -> std::string {
        int64_t number = 0;
        const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
        if (error == std::errc{} && end == text.data() + text.size() && number >= min && number <= max) return "";
        return fmt::format("'{}' is no whole number {}", text,
                           max == std::numeric_limits<int64_t>::max() ? fmt::format("from {} on", min)
                                                                      : fmt::format("from {} to {}", min, max));
      },
      "");
}

int64_t parse_duration_ms(const std::string& text, const char* option) {
  int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const std::string_view unit(end, static_cast<size_t>(text.data() + text.size() - end));
  const int64_t unit_ms = unit == "ms"  ? 1
                          : unit == "s" ? 1000
                          : unit == "m" ? 60'000
                          : unit == "h" ? 3'600'000
                          : unit == "d" ? 86'400'000
                                        : 0;
  int64_t ms = 0;
  if (error != std::errc{} || number < 0 || unit_ms == 0 || __builtin_mul_overflow(number, unit_ms, &ms)) {
    fail_usage("{} '{}' is no duration such as 7d, 12h, 30m, 45s or 500ms", option, text);
  }
  return ms;
}

std::optional<int64_t> parse_size(const std::string& text, const char* option) {
  if (text.empty()) return std::nullopt;
  int64_t number = 0, bytes = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const std::string_view unit(end, static_cast<size_t>(text.data() + text.size() - end));
  const int64_t factor = unit.empty() || unit == "B" ? 1
                         : unit == "kB"              ? 1000
                         : unit == "MB"              ? 1'000'000
                         : unit == "GB"              ? 1'000'000'000
                         : unit == "KiB"             ? 1LL << 10
                         : unit == "MiB"             ? 1LL << 20
                         : unit == "GiB"             ? 1LL << 30
                                                     : 0;
  if (error != std::errc{} || number < 0 || factor == 0 || __builtin_mul_overflow(number, factor, &bytes)) {
    fail_usage("{} '{}' is no size such as 128MB or 64MiB", option, text);
  }
  return bytes;
}

iceberg::ExpressionPtr parse_where(const std::string& where, const iceberg::Schema& schema) {
  const size_t begin = where.find_first_not_of(" \t\r\n");
  if (begin == std::string::npos) return nullptr;
  const bool is_json = where[begin] == '{';
  iceberg::ExpressionPtr filter;
  try {
    filter = is_json ? iceberg::expression_from_json(parse_json(where, "--where"), "--where")
                     : iceberg::parse_expression(where);
  } catch (const Error& e) {
    if (is_json) fail_usage("{}", e.what());
    fail_usage("--where \"{}\": {}", where, e.what());
  }
  if (!is_json) filter = iceberg::parse_expression_on(schema, where);  // what it says of this table's columns
  iceberg::bind(*filter, schema);
  return filter;
}

void check_columns(const std::vector<std::string>& columns, const iceberg::Schema& schema) {
  iceberg::ScanOptions options;
  options.columns = columns;
  if (!columns.empty()) choose_columns(schema, options);
}

std::map<std::string, std::string> parse_pairs(const std::vector<std::string>& texts, const char* option) {
  std::map<std::string, std::string> pairs;
  for (const std::string& text : texts) {
    const size_t equals = text.find('=');
    const bool is_relocation = std::string_view(option) == "--relocate";  // to nowhere is none
    if (equals == std::string::npos || equals == 0 || (is_relocation && equals + 1 == text.size())) {
      fail_usage("{} '{}' is not of the form {}", option, text, is_relocation ? "OLD=NEW" : "key=value");
    }
    pairs[text.substr(0, equals)] = text.substr(equals + 1);
  }
  return pairs;
}

std::optional<iceberg::CommitId> make_commit_id(const std::string& text) {
  if (text.empty()) return std::nullopt;
  return iceberg::CommitId{"firn.commit-id", text, 0};
}

void print_result(bool as_json, const std::string& text, const Json& json) {
  // Paths may be no UTF-8.
  print_text((as_json ? json.dump(-1, ' ', false, Json::error_handler_t::replace) : text) + "\n");
}

std::string format_bytes(int64_t bytes) {
  constexpr const char* kUnits[] = {"bytes", "kB", "MB", "GB", "TB", "PB"};
  auto value = static_cast<double>(bytes);
  size_t unit = 0;
  while (value >= 1000 && unit + 1 < std::size(kUnits)) value /= 1000, ++unit;
  return unit == 0 ? fmt::format("{} bytes", bytes) : fmt::format("{:.1f} {}", value, kUnits[unit]);
}

}  // namespace firn::cli
