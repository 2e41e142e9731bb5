#include "hyp/model/world/lines.h"

#include <algorithm>
#include <array>
#include <random>

#include "base/civil_time.h"
#include "base/json.h"

namespace firn::hyp::model {
namespace {

constexpr const char* kUnique = "u";

Value integer(const std::string& column, int64_t value) {
  const std::string text = std::to_string(value);
  return {column, Kind::integer, value, text, text};
}

Value text(const std::string& column, const std::string& value) {
  const std::string quoted = "\"" + value + "\"";
  return {column, Kind::text, 0, quoted, quoted};
}

Value fraction(const std::string& column, int64_t whole) {
  const std::string digits = fmt::format("{}.5", whole);
  return {column, Kind::fraction, 0, digits, digits};
}

Value time(const std::string& column, int64_t unix_ms) {
  const std::string iso = format_timestamp_ms_utc(unix_ms);
  return {column, Kind::time, unix_ms, "\"" + iso + "\"", "\"" + iso.substr(0, 10) + " " + iso.substr(11, 8) + "\""};
}

// Columns that come later have the type that their number says.
Kind kind_of_extra(int64_t number) { return std::array{Kind::integer, Kind::text, Kind::fraction}[number % 3]; }

Value extra(int64_t number, int64_t value) {
  const std::string column = fmt::format("c{}", number);
  switch (kind_of_extra(number)) {
    case Kind::integer:
      return integer(column, value);
    case Kind::text:
      return text(column, fmt::format("v{}", value));
    default:
      return fraction(column, value);
  }
}

// nullopt: no column that the model knows.
std::optional<Kind> kind_of(const std::string& column) {
  if (column == "id" || column == "k" || column == kUnique) return Kind::integer;
  if (column == "s" || column == "src") return Kind::text;
  if (column == "at") return Kind::time;
  if (column.starts_with("c")) return kind_of_extra(std::stoll(column.substr(1)));
  return std::nullopt;
}

class Maker {
 public:
  Maker(uint64_t seed, int64_t now_ms, const KnownColumns& known, int64_t& unique)
      : random_(seed), now_ms_(now_ms), known_(known), unique_(unique) {}

  Line make(Dataset dataset) {
    Line line;
    switch (dataset) {
      case Dataset::events:
        make_event(line);
        break;
      case Dataset::logs:
        make_log(line);
        break;
      case Dataset::typed:
        make_typed(line);
        break;
    }
    for (const Value& value : line.values) {
      line.text += fmt::format("{}\"{}\":{}", line.text.empty() ? "{" : ",", value.column, value.json);
    }
    line.text += line.is_broken ? "," : "}";
    return line;
  }

 private:
  int64_t below(int64_t bound) { return static_cast<int64_t>(random_() % static_cast<uint64_t>(bound)); }
  bool one_in(int64_t count) { return below(count) == 0; }
  bool knows(const std::string& column) const { return known_.columns.contains(column); }

  // A line that becomes a reject is told apart from all others.
  void spoil(Line& line) {
    line.values.push_back(integer(kUnique, ++unique_));
    const bool is_broken = one_in(3) || line.values.empty();
    if (is_broken) {
      line.is_broken = true;
      return;
    }
    Value& value = line.values[static_cast<size_t>(below(static_cast<int64_t>(line.values.size()) - 1))];
    if (!knows(value.column)) {  // its type is not decided yet
      line.is_broken = true;
      return;
    }
    value = value.kind == Kind::text || value.kind == Kind::time ? integer(value.column, 7) : text(value.column, "odd");
    if (value.column == "at") value = fraction("at", 7);
  }

  void add_extras(Line& line) {
    for (int64_t number = std::max<int64_t>(0, known_.extra - 6); number < known_.extra; ++number) {
      if (one_in(3)) line.values.push_back(extra(number, below(4)));
    }
  }

  void make_event(Line& line) {
    line.values.push_back(integer("id", below(300)));
    line.values.push_back(integer("k", below(20)));
    if (!one_in(4)) line.values.push_back(text("s", fmt::format("s{}", below(5))));
    // The archive's layout follows from this column, so the first rows have it.
    if (!knows("at") || !one_in(8)) {
      const int64_t age_ms = one_in(3) ? below(14 * kDayMs) : below(2 * kDayMs);
      line.values.push_back(time("at", (now_ms_ - age_ms) / kMinuteMs * kMinuteMs));
    }
    add_extras(line);
    if (one_in(25)) spoil(line);
  }

  void make_log(Line& line) {
    const int64_t id = below(60);
    line.values.push_back(integer("id", id));
    line.values.push_back(integer("k", id % 20));
    if (id % 3 != 0) line.values.push_back(text("s", fmt::format("s{}", id % 5)));
    if (one_in(4)) add_extras(line);
    if (one_in(25)) spoil(line);
  }

  void make_typed(Line& line) {
    if (one_in(2)) line.values.push_back(text("src", one_in(2) ? "a" : "c"));
    const bool is_without_id = one_in(30);
    if (!is_without_id) line.values.push_back(integer("id", below(300)));
    line.values.push_back(integer("k", below(20)));
    const bool is_big = one_in(12);
    if (!one_in(4)) line.values.push_back(integer("n", is_big ? 5'000'000'000 + below(9) : below(9)));
    for (int64_t number = 2; number <= known_.declared; ++number) {
      if (one_in(3)) line.values.push_back(text(fmt::format("d{}", number), fmt::format("v{}", below(4))));
    }
    const bool is_undeclared = one_in(30);
    if (is_undeclared) line.values.push_back(integer("zz", 1));
    if (is_without_id || is_big || is_undeclared) line.values.push_back(integer(kUnique, ++unique_));
  }

  std::mt19937_64 random_;
  int64_t now_ms_;
  const KnownColumns& known_;
  int64_t& unique_;
};

}  // namespace

const Value* Line::find(const std::string& column) const {
  const auto found = std::find_if(values.begin(), values.end(), [&](const Value& v) { return v.column == column; });
  return found == values.end() ? nullptr : &*found;
}

std::string Line::content() const {
  std::map<std::string, std::string> sorted;
  for (const Value& value : values) sorted[value.column] = value.shown;
  std::string content;
  for (const auto& [column, shown] : sorted) content += fmt::format("{}={};", column, shown);
  return content;
}

std::string canonical_row(const std::string& row_json) {
  const Json row = Json::parse(row_json);
  std::map<std::string, std::string> sorted;
  for (const auto& [column, value] : row.items()) {
    if (value.is_null()) continue;
    std::string shown = value.dump();
    if (column == "at") {
      shown = shown.substr(0, 20) + "\"";
      shown[11] = ' ';
    }
    // Some writers put fractions in quotes.
    if (kind_of(column) == Kind::fraction) std::erase(shown, '"');
    sorted[column] = std::move(shown);
  }
  std::string content;
  for (const auto& [column, shown] : sorted) content += fmt::format("{}={};", column, shown);
  return content;
}

const std::string& name_of(Dataset dataset) {
  static const std::array<std::string, kDatasets> names = {"events", "logs", "typed"};
  return names[static_cast<size_t>(dataset)];
}

DatasetConfig config_of(Dataset dataset, int64_t declared, bool is_partitioned) {
  DatasetConfig config;
  config.name = name_of(dataset);
  switch (dataset) {
    case Dataset::events:
      config.primary_timestamp_column = "at";
      if (is_partitioned) config.cache_partitioning = {{"at", "day"}};
      config.retention = {.days = 10, .wait_for_sink_ack = true, .grace_days = 3};
      break;
    case Dataset::logs:
      config.dedupe_content = true;
      config.retention = {.days = 4};
      break;
    case Dataset::typed: {
      using iceberg::Type;
      using iceberg::TypeId;
      std::vector<iceberg::Field> fields = {
          {1, "src", false, Type::primitive(TypeId::string)},
          {2, "id", true, Type::primitive(TypeId::long_)},
          {3, "k", false, Type::primitive(TypeId::long_)},
          {4, "n", false, Type::primitive(declared >= 1 ? TypeId::long_ : TypeId::int_)},
          {5, kUnique, false, Type::primitive(TypeId::long_)},
      };
      for (int64_t number = 2; number <= declared; ++number) {
        fields.push_back(
            {static_cast<int32_t>(4 + number), fmt::format("d{}", number), false, Type::primitive(TypeId::string)});
      }
      config.schema = iceberg::Schema(std::move(fields));
      config.allow_new_columns = false;
      config.source_column = "src";
      config.retention = {.days = 20, .wait_for_sink_ack = true, .grace_days = 1};
      break;
    }
  }
  return config;
}

std::vector<Line> make_lines(Dataset dataset, uint64_t seed, int64_t count, int64_t now_ms, const KnownColumns& known,
                             int64_t& unique) {
  Maker maker(seed, now_ms, known, unique);
  std::vector<Line> lines;
  for (int64_t i = 0; i < count; ++i) {
    // Now and then the same row again.
    if (i > 0 && (seed + static_cast<uint64_t>(i)) % 11 == 0 && lines.back().find(kUnique) == nullptr) {
      lines.push_back(lines.back());
    } else {
      lines.push_back(maker.make(dataset));
    }
  }
  return lines;
}

bool is_taken(Dataset dataset, const Line& line, const KnownColumns& known) {
  if (line.is_broken) return false;
  if (dataset == Dataset::typed) {
    constexpr int64_t kIntMax = 2'147'483'647;
    const Value* n = line.find("n");
    const bool n_fits = n == nullptr || known.declared >= 1 || n->integer <= kIntMax;
    return line.find("id") != nullptr && line.find("zz") == nullptr && n_fits;
  }
  return std::all_of(line.values.begin(), line.values.end(), [](const Value& value) {
    const auto kind = kind_of(value.column);
    return kind && *kind == value.kind;
  });
}

std::string source_of(Dataset dataset, const Line& line, const std::string& source) {
  const Value* named = dataset == Dataset::typed ? line.find("src") : nullptr;
  return named == nullptr ? source : named->shown.substr(1, named->shown.size() - 2);
}

}  // namespace firn::hyp::model
