// Every type that a cache table may have, through DuckDB and out.
#include "hyp/query/query_box.h"
#include "hyp/type_text.h"

namespace firn::hyp {
namespace {

constexpr int64_t kRows = 5000;  // crosses the 2048 rows that DuckDB takes at once, and the 4096 of a page

std::string pad(int64_t i) {
  return fmt::format("value number {:012}", i);
}  // longer than the 12 bytes DuckDB keeps inline

struct Column {
  std::string name, type;
  std::function<std::string(int64_t)> in, out;  // as JSON in the NDJSON line, and in the result
};

std::string text(std::string value) { return "\"" + std::move(value) + "\""; }

// The second of a day, of a month, and so on that row i has.
std::string clock_of(int64_t i) { return fmt::format("{:02}:{:02}:{:02}", i % 24, i % 60, i * 7 % 60); }
std::string day_of(int64_t i) { return fmt::format("{:04}-{:02}-{:02}", 1960 + i % 100, i % 12 + 1, i % 28 + 1); }

std::string list_of(int64_t i) {
  std::string items;
  for (int64_t k = 0; k < i % 4; ++k) items += (k > 0 ? "," : "") + text(pad(i * 10 + k));
  return "[" + items + "]";
}

std::vector<Column> columns() {
  std::vector<Column> all = {
      {"b", "boolean", [](int64_t i) { return i % 3 == 0 ? "true" : "false"; }, nullptr},
      {"i", "int", [](int64_t i) { return std::to_string(-i); }, nullptr},
      {"l", "long", [](int64_t i) { return std::to_string(9007199254740993 + i); }, nullptr},
      {"f", "float", [](int64_t i) { return fmt::format("{}.5", i); }, nullptr},
      {"d", "double", [](int64_t i) { return fmt::format("-{}.125", i); }, nullptr},
      {"dec", "decimal(9,2)", [](int64_t i) { return fmt::format("{}.{:02}", i, i % 100); }, nullptr},
      {"big", "decimal(38,10)",
       [](int64_t i) { return text(fmt::format("1234567890123456789012345{:03}.0000000001", i % 1000)); },
       [](int64_t i) { return fmt::format("1234567890123456789012345{:03}.0000000001", i % 1000); }},
      {"date", "date", [](int64_t i) { return text(day_of(i)); }, nullptr},
      {"time", "time", [](int64_t i) { return text(clock_of(i) + ".000001"); }, nullptr},
      {"ts", "timestamp", [](int64_t i) { return text(day_of(i) + "T" + clock_of(i) + ".25"); },
       [](int64_t i) { return text(day_of(i) + " " + clock_of(i) + ".25"); }},
      {"tz", "timestamptz", [](int64_t i) { return text(day_of(i) + "T" + clock_of(i) + "+00:00"); },
       [](int64_t i) { return text(day_of(i) + " " + clock_of(i) + "+00:00"); }},
      {"ns", "timestamp_ns", [](int64_t i) { return text(day_of(i) + "T" + clock_of(i) + ".123456789"); },
       [](int64_t i) { return text(day_of(i) + " " + clock_of(i) + ".123456789"); }},
      {"short", "string", [](int64_t i) { return text(std::to_string(i)); }, nullptr},
      {"long", "string", [](int64_t i) { return text(pad(i) + " ü€𐍈"); }, nullptr},
      {"u", "uuid", [](int64_t i) { return text(fmt::format("f81d4fae-7dec-11d0-a765-{:012x}", i)); }, nullptr},
      {"fix", "fixed[3]", [](int64_t i) { return i % 2 == 0 ? text("AAEC") : text("/////w==").replace(5, 4, ""); },
       nullptr},
      {"bin", "binary", [](int64_t i) { return i % 2 == 0 ? text("AA==") : text(""); },
       [](int64_t i) { return i % 2 == 0 ? text("00") : text(""); }},
      {"list", "list<string>", list_of, nullptr},
      {"deep", "list<list<long>>", [](int64_t i) { return fmt::format("[[{}],[],[{},{}]]", i, i + 1, i + 2); },
       nullptr},
      {"rec", "struct<a: long, s: string, l: list<long>, r: struct<x: double>>",
       [](int64_t i) { return fmt::format(R"({{"a":{},"s":{},"l":[{}],"r":{{"x":{}.5}}}})", i, text(pad(i)), i, i); },
       nullptr},
      {"recs", "list<struct<k: string, v: long>>",
       [](int64_t i) { return fmt::format(R"([{{"k":{},"v":{}}},{{"k":null,"v":2}}])", text(pad(i)), i); }, nullptr},
      {"map", "map<string, list<long>>", [](int64_t i) { return fmt::format(R"({{"{}":[{}],"z":[]}})", pad(i), i); },
       nullptr},
  };
  for (Column& column : all) {
    if (!column.out) column.out = column.in;
  }
  // Fixed bytes: base64 in, hex out.
  for (Column& column : all) {
    if (column.name != "fix") continue;
    column.in = [](int64_t i) { return text(i % 2 == 0 ? "AAEC" : "////"); };
    column.out = [](int64_t i) { return text(i % 2 == 0 ? "000102" : "ffffff"); };
  }
  return all;
}

bool is_null(int64_t row, size_t column) { return (row + static_cast<int64_t>(column) * 3) % 7 == 0; }

std::string row_json(const std::vector<Column>& columns, int64_t row, bool as_input) {
  std::string json = fmt::format(R"({{"id":{})", row);
  for (size_t c = 0; c < columns.size(); ++c) {
    const Column& column = columns[c];
    json += fmt::format(R"(,"{}":{})", column.name,
                        is_null(row, c) ? "null"
                        : as_input      ? column.in(row)
                                        : column.out(row));
  }
  return json + "}";
}

TEST(QueryTypes, EveryTypeComesOutAsItWentIn) {
  const std::vector<Column> all = columns();
  CacheBox box;
  std::vector<iceberg::Field> fields = {{1, "id", false, iceberg::Type::primitive(iceberg::TypeId::long_)}};
  int32_t next_id = 2;
  for (const Column& column : all) {
    const int32_t id = next_id++;
    fields.push_back({id, column.name, false, parse_type(column.type, next_id)});
  }
  box.declare("every").schema = iceberg::Schema(fields);
  Cache cache(box.config);
  Lines in, expected;
  for (int64_t row = 0; row < kRows; ++row) {
    in.push_back(row_json(all, row, true));
    expected.push_back(row_json(all, row, false));
  }
  const auto spool = Spool::open(cache.config().cache_root);
  const auto part = [&](int64_t begin, int64_t end) { return Lines(in.begin() + begin, in.begin() + end); };
  spool->append({make_frame("every", "a", part(0, 4500))});
  const FlushReport report = flush(cache, *spool);
  ASSERT_EQ(report.rejected, 0) << report.first_rejected.at(0).column << ": " << report.first_rejected.at(0).reason;
  spool->append({make_frame("every", "a", part(4500, kRows))});

  const Lines rows = json_rows(cache, "from every order by id");
  ASSERT_EQ(rows.size(), expected.size());
  for (size_t i = 0; i < rows.size(); ++i) ASSERT_EQ(rows[i], expected[i]);
  // Rows picked from the middle of pages and batches.
  Lines some;
  for (int64_t row = 1777; row < kRows; row += 3) {
    if (row % 3 == 1) some.push_back(expected[static_cast<size_t>(row)]);
  }
  EXPECT_EQ(json_rows(cache, "from every where id >= 1777 and id % 3 = 1 order by id"), some);
  // Each column alone, through operators that copy, hash and sort it.
  for (size_t c = 0; c < all.size(); ++c) {
    const std::string sql = fmt::format(
        "select \"{0}\" from (select id, \"{0}\" from every union all select id, \"{0}\" from every) order by id limit "
        "4100",
        all[c].name);
    const Lines column = json_rows(cache, sql);
    ASSERT_EQ(column.size(), 4100U);
    for (size_t i = 0; i < column.size(); ++i) {
      const auto row = static_cast<int64_t>(i / 2);
      ASSERT_EQ(column[i], fmt::format(R"({{"{}":{}}})", all[c].name, is_null(row, c) ? "null" : all[c].out(row)));
    }
  }
}

TEST(QueryTypes, RowsAreCountedWithoutReadingTheirColumns) {
  CacheBox box;
  Cache cache(box.config);
  Lines lines;
  for (int i = 0; i < 10'000; ++i) lines.push_back(fmt::format(R"({{"n":{},"s":"{}"}})", i, pad(i)));
  ingest(cache, {make_frame("logs", "a", lines)});
  const auto spool = Spool::open(cache.config().cache_root);
  spool->append({make_frame("logs", "a", {R"({"n":1})"})});
  iceberg::ReadCounters counters;
  EXPECT_EQ(single_value(cache, "select count(*) from logs", {.counters = &counters}), "10001");
  EXPECT_LE(counters.values_decoded, 10'000);
  EXPECT_EQ(single_value(cache, "select count(*) from logs, (values (1), (2)) t(x)"), "20002");
}

TEST(QueryTypes, PartitionsOfNarrowerTypesWiden) {
  CacheBox box;
  const auto declare = [&](iceberg::TypeId integer, iceberg::TypeId floating) {
    box.config.datasets["logs"].schema = iceberg::Schema(
        {{1, "n", false, iceberg::Type::primitive(integer)}, {2, "x", false, iceberg::Type::primitive(floating)}});
  };
  box.declare("logs");
  declare(iceberg::TypeId::int_, iceberg::TypeId::float_);
  {
    Cache cache(box.config);
    ingest(cache, {make_frame("logs", "narrow", {R"({"n":7,"x":0.5})", R"({"n":8,"x":0.1})"})});
  }
  declare(iceberg::TypeId::long_, iceberg::TypeId::double_);
  Cache cache(box.config);
  ingest(cache, {make_frame("logs", "wide", {R"({"n":3000000000,"x":0.1})"})});
  EXPECT_EQ(json_rows(cache, "select n from logs order by n"),
            (Lines{R"({"n":7})", R"({"n":8})", R"({"n":3000000000})"}));
  // A float's 0.1 is above a double's.
  EXPECT_EQ(json_rows(cache, "select n from logs where x > 0.1 order by n"), (Lines{R"({"n":7})", R"({"n":8})"}));
  EXPECT_EQ(json_rows(cache, "select n from logs where x = 0.1"), Lines{R"({"n":3000000000})"});
}

}  // namespace
}  // namespace firn::hyp
