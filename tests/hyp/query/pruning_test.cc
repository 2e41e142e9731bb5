// Pruning may change only speed (P13.2), and does.
#include <random>

#include "hyp/maintain/purge.h"
#include "hyp/query/query_box.h"
#include "hyp/sink/sink_box.h"
#include "hyp/type_text.h"
#include "iceberg/commit/commit.h"
#include "iceberg/parquet/arrow_schema.h"
#include "iceberg/write/append_writer.h"
#include "support/test_seed.h"

namespace firn::hyp {
namespace {

using Random = std::mt19937_64;

int64_t pick(Random& random, int64_t count) { return static_cast<int64_t>(random() % static_cast<uint64_t>(count)); }
const std::string& any(Random& random, const Lines& from) {
  return from[static_cast<size_t>(pick(random, static_cast<int64_t>(from.size())))];
}

struct Column {
  std::string name, type;
  Lines literals;  // as SQL: inside and outside the values, between two of them, of other types, and that do not cast
};

const Lines kTimes = {"'2020-01-02'",
                      "'2020-01-03 05:00:00'",
                      "date '2020-01-03'",
                      "timestamp '2020-01-02 12:00:00'",
                      "timestamptz '2020-01-02 23:00:00+02'",
                      "'2020-01-02T10:00:00Z'",
                      "'1960-01-01'",
                      "'infinity'",
                      "'nonsense'",
                      "'2020-01-02'::date",
                      "cast('2020-01-03 00:00:00.000001' as timestamp)",
                      "now()",
                      "20200102",
                      "null"};

const std::vector<Column>& columns() {
  static const std::vector<Column> all = {
      {"b", "boolean", {"true", "false", "1", "'true'", "null"}},
      {"i",
       "int",
       {"0", "-1", "700", "2.5", "2.0", "3000000000", "1e2", "'12'", "true", "null", "9223372036854775808"}},
      {"l",
       "long",
       {"0", "1500", "9007199254740992", "9007199254740993", "9007199254740993.0", "9007199254740992.5", "1.5e3", "'7'",
        "-9223372036854775808", "null"}},
      {"f", "float", {"0", "-0.0", "0.1", "16777217", "100", "0.5", "'nan'::float", "'inf'::float", "null"}},
      {"d",
       "double",
       {"0", "0.0", "-0.0", "0.1", "1e308", "99.5", "100", "9007199254740993", "'nan'::double", "'nan'",
        "'-inf'::double", "null"}},
      {"dec", "decimal(9,2)", {"0", "1.25", "1.255", "12.5", "7", "1e1", "-3.10", "'2.5'", "99999999999.99", "null"}},
      {"dt", "date", kTimes},
      {"ts", "timestamp", kTimes},
      {"tz", "timestamptz", kTimes},
      {"s", "string", {"''", "'k'", "'key 00500'", "'key 00500x'", "'zz'", "'ü'", "5", "null"}},
      {"Mixed Case", "long", {"0", "1500", "2.5", "null"}},
  };
  return all;
}

std::string quoted_name(Random& random, std::string name) {
  if (name.find(' ') != std::string::npos) return '"' + name + '"';
  if (pick(random, 4) == 0) name[0] = static_cast<char>(std::toupper(name[0]));
  return pick(random, 4) == 0 ? '"' + name + '"' : name;
}

// Rows that climb with `row`, so that files and pages have narrow bounds, with nulls and specials among them.
std::string row_json(Random& random, int64_t row) {
  std::string json = fmt::format(R"({{"l":{})", pick(random, 40) == 0 ? 9007199254740991 + pick(random, 4) : row);
  const auto add = [&](const char* name, const std::string& value) {
    if (pick(random, 9) != 0) json += fmt::format(R"(,"{}":{})", name, value);
  };
  add("b", row % 2 == 0 ? "true" : "false");
  add("i", std::to_string(row / 3 - 100));
  add("f", row % 50 == 0 ? "-0.0" : fmt::format("{}.5", row / 20));
  add("d", row % 60 == 0 ? "-0.0" : row % 61 == 0 ? "0.0" : fmt::format("{}.5", row / 20));
  add("dec", fmt::format("{}.{:02}", row / 30, row % 4 * 25));
  add("dt", fmt::format("\"2020-01-{:02}\"", row / 400 + 1));
  add("ts", fmt::format("\"2020-01-{:02}T{:02}:00:00\"", row / 400 + 1, row / 20 % 24));
  add("tz", fmt::format("\"2020-01-{:02}T{:02}:30:00Z\"", row / 400 + 1, row / 20 % 24));
  add("s", row % 97 == 0 ? "\"\"" : fmt::format("\"key {:05}\"", row));
  add("Mixed Case", std::to_string(row));
  return json + "}";
}

iceberg::Schema declared_schema() {
  std::vector<iceberg::Field> fields;
  int32_t next_id = 1;
  for (const Column& column : columns()) {
    const int32_t id = next_id++;
    fields.push_back({id, column.name, false, parse_type(column.type, next_id)});
  }
  return iceberg::Schema(fields);
}

// NaN is nothing that JSON has, so these rows are appended to the table as another writer's would be.
void append_with_nan(const Cache& cache, const PartitionId& partition, const Lines& lines) {
  std::string text;
  for (const std::string& line : lines) text += line + "\n";
  const iceberg::Schema schema = declared_schema();
  auto batch = parse_rows(text, schema, {}).batch;
  for (int c = 0; c < batch->num_columns(); ++c) {
    if (batch->column(c)->type_id() != arrow::Type::DOUBLE) continue;
    arrow::DoubleBuilder builder;
    for (int64_t row = 0; row < batch->num_rows(); ++row)
      check(row % 5 == 0 ? builder.Append(NAN) : builder.Append(static_cast<double>(row)), "a value");
    batch = check(batch->SetColumn(c, arrow::field(batch->schema()->field(c)->name(), arrow::float64()),
                                   check(builder.Finish(), "a column")),
                  "a batch");
  }
  arrow::FieldVector fields;
  for (const auto& field : batch->schema()->fields()) fields.push_back(field->RemoveMetadata());
  batch = arrow::RecordBatch::Make(arrow::schema(fields), batch->num_rows(), batch->columns());
  const auto held = cache.hold(partition);
  iceberg::AppendWriter writer(cache.io(), *held->table.metadata, {});
  writer.write(batch);
  iceberg::SnapshotChange commit;
  commit.added = writer.finish();
  commit.written_schema = held->table.metadata->schema();
  commit.required_spec = held->table.metadata->spec();
  iceberg::commit_snapshot(*held->operations, commit);
}

// Rows of the datasets t and u, in the order in which they come.
struct Rows {
  Lines first_a, first_b, later_a, with_nan, last_a, spooled;

  explicit Rows(Random& random) {
    const auto rows = [&](int64_t begin, int64_t end) {
      Lines lines;
      for (int64_t row = begin; row < end; ++row) lines.push_back(row_json(random, row));
      return lines;
    };
    first_a = rows(0, 400);
    first_b = rows(300, 900);
    later_a = rows(900, 5000);
    with_nan = rows(2000, 2040);
    last_a = rows(5000, 6000);
    spooled = rows(1450, 1550);
  }
};

// Several files a partition, of several pages, and spooled rows. With a sink, of a kind, the same rows: some at its
// destination alone, some in the cache alone, the others at both.
struct Tables {
  SinkBox box;
  std::unique_ptr<Cache> cache;
  std::unique_ptr<Spool> spool;

  explicit Tables(const Rows& rows, std::optional<SinkKind> sink = std::nullopt) {
    box.declare("t").schema = declared_schema();
    if (sink) {
      SinkConfig& config = box.config.sinks.emplace_back(make_sink(*sink, box.out()));
      config.queryable = true;
      config.unit_rows_max = 700;
    }
    cache = std::make_unique<Cache>(box.config);
    ingest(*cache, {make_frame("t", "a", rows.first_a), make_frame("t", "b", rows.first_b)});
    ship_and_remove("l < 350 or l > 800");
    ingest(*cache, {make_frame("t", "a", rows.later_a),
                    make_frame("u", "a", {R"({"k":5,"v":"x"})", R"({"k":1500,"v":"y"})", R"({"k":1500,"v":null})"})});
    append_with_nan(*cache, {"t", "b"}, rows.with_nan);
    ship_and_remove("l between 2010 and 4000 or l > 100000 or (l is null and i < 1000)");
    ingest(*cache, {make_frame("t", "a", rows.last_a)});
    spool = Spool::open(cache->config().cache_root);
    spool->append({make_frame("t", "c", rows.spooled), make_frame("u", "a", {R"({"k":1501,"v":"z"})"})});
  }

 private:
  // Rows leave the cache once they were shipped.
  void ship_and_remove(const std::string& where) {
    if (box.config.sinks.empty()) return;
    for (const PartitionRun& run : run_sink(*cache, box.config.sinks[0]).partitions) EXPECT_EQ(run.error, "");
    EXPECT_GT(purge(*cache, "t", iceberg::parse_expression(where)).rows, 0);
  }
};

class Statements {
 public:
  explicit Statements(Random& random) : random_(random) {}

  std::string next() {
    switch (pick(random_, 17)) {
      case 0:
        return fingerprint("t", "t", where(""));
      case 1:
        return fingerprint("t as x", "x", where("x."));
      case 2:
        return fingerprint("T, u", "t", where("t.") + " and t.l = u.k");
      case 3:
        return fingerprint("u join t on t.l = u.k", "t", where("t."));
      case 4:
        return fingerprint("t " + any(random_, {"left", "right", "full", "semi", "anti"}) + " join u on t.l = u.k", "t",
                           where("t."));
      case 5:
        return fingerprint("u " + any(random_, {"left", "right", "full"}) + " join t on t.l = u.k", "t", where("t."));
      case 6:
        // Which of the rows with one l is taken is open, so l alone may matter.
        return fingerprint("u asof left join t on u.k >= t.l", "t.l",
                           "where t.l" + any(random_, {" < ", " > ", " <> "}) + any(random_, columns()[2].literals));
      case 7:
        return "with t as (select * from t " + where("") + ") " + fingerprint("t", "t", where(""));
      case 8:
        return "with c as (select * from t) " + fingerprint("c", "c", where("")) + " union all " +
               fingerprint("t", "t", where(""));
      case 9:
        return fingerprint("(select * from t " + where("") + ") x", "x", where("x."));
      case 10:
        return fingerprint("t a join t b using (l)", "a", where("a.") + " and " + predicate("b.", 1));
      case 11:
        return fingerprint("t tablesample 100%", "t", where(""));
      case 12:
        return "select sum(hash(l, i)) as h, count(*) as n from (select i as l, l as i from t " + where("") + ")";
      case 13:
        return "select k, (select count(*) from t " + where("t.") + " and t.l <= u.k) as n from u";
      case 14:
        return "select k from u where k " + any(random_, {"in", "not in"}) + " (select l from t " + where("") +
               " and l is not null)";
      case 15:
        return fingerprint("query_table('t') q", "q", "") + " union all " + fingerprint("t", "t", where(""));
      default:
        return "select b, max(l) as m from t " + where("") +
               " group by b having count(*) > 3 qualify row_number() over (order by max(l), b) < 3";
    }
  }

 private:
  // What tells two multisets of rows apart, without printing them.
  static std::string fingerprint(const std::string& from, const std::string& table, const std::string& where) {
    return fmt::format("select count(*) as n, sum(hash({0})) as h from {1} {2}", table, from, where);
  }
  std::string where(const std::string& prefix) { return "where " + predicate(prefix, 2); }

  std::string predicate(const std::string& prefix, int depth) {
    const int64_t choice = pick(random_, depth > 0 ? 12 : 9);
    const Column& column = columns()[static_cast<size_t>(pick(random_, static_cast<int64_t>(columns().size())))];
    const std::string name = prefix + quoted_name(random_, column.name);
    const auto literal = [&] { return any(random_, column.literals); };
    switch (choice) {
      case 0:
        return name + any(random_, {" in (", " not in ("}) + literal() + ", " + literal() + ")";
      case 1:
        return name + any(random_, {" between ", " not between "}) + literal() + " and " + literal();
      case 2:
        return name + any(random_, {" is null", " is not null"});
      case 3:
        return literal() + any(random_, {" < ", " >= ", " = "}) + name;
      case 9:
        return predicate(prefix, depth - 1) + " and " + predicate(prefix, depth - 1);
      case 10:
        return "(" + predicate(prefix, depth - 1) + " or " + predicate(prefix, depth - 1) + ")";
      case 11:
        return "not (" + predicate(prefix, depth - 1) + ")";
      default:
        return name + any(random_, {" = ", " <> ", " < ", " <= ", " > ", " >= "}) + literal();
    }
  }

  Random& random_;
};

struct Answer {
  Lines rows;
  std::optional<std::string> error;
};

Answer answer(const Cache& cache, const std::string& sql, bool prune, iceberg::ReadCounters& counters) {
  try {
    const QueryOptions options{
        .prune = prune, .threads = 2, .counters = &counters, .blob_counters = &counters, .archive_counters = &counters};
    return {sorted(json_rows(cache, sql, options)), std::nullopt};
  } catch (const Error& e) {
    return {{}, e.what()};
  }
}

TEST(Pruning, RandomStatementsAnswerTheSameEitherWay) {
  Random random(test_seed());
  const Tables tables{Rows(random)};
  Statements statements(random);
  iceberg::ReadCounters pruned, unpruned;
  int answered = 0;
  for (int i = 0; i < 90; ++i) {
    const std::string sql = statements.next();
    const Answer without = answer(*tables.cache, sql, false, unpruned);
    const Answer with = answer(*tables.cache, sql, true, pruned);
    // A value that fails to cast may be among those that were pruned; the other way round it may not be.
    if (without.error) continue;
    ++answered;
    ASSERT_FALSE(with.error) << sql << "\n" << *with.error;
    ASSERT_EQ(with.rows, without.rows) << sql;
  }
  EXPECT_GT(answered, 30);
  EXPECT_EQ(unpruned.files_pruned + unpruned.pages_pruned, 0);
  EXPECT_GT(pruned.files_pruned, 0);
}

// Where the rows are changes no answer either: cache alone, or spread over the cache and a sink's destination (P13.1).
TEST(Pruning, RandomStatementsAnswerTheSameWhereverTheRowsAre) {
  Random random(test_seed());
  const Rows rows(random);
  const Tables whole(rows), blobs(rows, SinkKind::blob), archive(rows, SinkKind::iceberg);
  Statements statements(random);
  iceberg::ReadCounters counters, blob_counters, archive_counters;
  int answered = 0;
  for (int i = 0; i < 60; ++i) {
    const std::string sql = statements.next();
    const Answer expected = answer(*whole.cache, sql, false, counters);
    if (expected.error) continue;
    ++answered;
    for (const auto& [tables, origin] : {std::pair(&blobs, &blob_counters), std::pair(&archive, &archive_counters)}) {
      SCOPED_TRACE(sql + (tables == &blobs ? "\nblobs" : "\narchive"));
      for (const bool prune : {true, false}) {
        const Answer found = answer(*tables->cache, sql, prune, *origin);
        ASSERT_FALSE(found.error) << *found.error;
        ASSERT_EQ(found.rows, expected.rows) << (prune ? "pruned" : "not pruned");
      }
    }
  }
  EXPECT_GT(answered, 20);
  EXPECT_GT(blob_counters.row_groups_pruned, 0);
  EXPECT_GT(archive_counters.files_pruned, 0);
}

// Statements of which each once was, or could be, answered wrongly by a simpler rule.
TEST(Pruning, WhatLooksLikeAFilterOfTheDatasetButIsNone) {
  Random random(7);
  const Tables tables{Rows(random)};
  for (const std::string sql :
       {"select count(*) from t where l < 100 union all select count(*) from query_table('t')",
        "select count(*) from t where l < 100 union all select count(*) from query('select * from T')",
        "select count(*) from t where l < 100 union all (from json_execute_serialized_sql(json_serialize_sql('select "
        "count(*) from t')))",
        "select count(*) from t where l < 100 union all select count(*) from hyp_scan('t')",
        "select count(*) from t where l < 100 union all select count(*) from main.\"T\"",
        "select count(*) from u left join t on true where t.l < 100 or t.l is null",
        "select count(*) from u left join t on u.k = t.l where t.l is null",
        "select count(*) from t where d > 100",          // NaN is above all
        "select count(*) from t where d not in (1, 2)",  // and unequal
        "select count(*) from t where d <> 3",
        "select count(*) from t where not (d <= 100)",
        "select count(*) from t where d >= 0 and d <= 0",  // -0.0 is 0.0
        "with t as (select 1 as l union all select 5000) select count(*) from t where l < 100",
        "with recursive t as (select 1 as l union all select l + 1 from t where l < 5) select count(*) from t where l "
        "< 100",
        "select -l as l from t where l = -100 order by all",
        "select * from (select count(*) as l from t) where l < 100",
        "select count(*) from t positional join u where t.l < 100",
        "select count(*) from t where l < (select max(k) from u where v = 'x')",
        "select (select max(x.l) from t x where x.l < u.k) from u order by all",
        "select count(*) from (describe t), t where l < 100"}) {
    iceberg::ReadCounters counters;
    const Answer without = answer(*tables.cache, sql, false, counters);
    const Answer with = answer(*tables.cache, sql, true, counters);
    EXPECT_EQ(without.error, std::nullopt) << sql;
    EXPECT_EQ(with.rows, without.rows) << sql;
  }
}

TEST(Pruning, PlainConditionsPruneFilesAndPages) {
  Random random(7);
  const Tables tables{Rows(random)};
  for (const std::string where : {"i < -90",
                                  "i = 1800",
                                  "l = 5",
                                  "l in (5, 6)",
                                  "l between 5 and 6.0",
                                  "7 > l and true",
                                  "f > 290",
                                  "d > 290",
                                  "d >= 290.5e0",
                                  "dec < 1.25",
                                  "dt = '2020-01-15'",
                                  "dt < date '2020-01-02'",
                                  "ts < '2020-01-01 05:00:00'",
                                  "ts < date '2020-01-01'",
                                  "tz < timestamptz '2020-01-01 05:00:00+00'",
                                  "tz < '2020-01-01 07:00:00+02'",
                                  "s = 'key 00005'",
                                  "\"Mixed Case\" < 5",
                                  "\"mixed case\" = 5",
                                  "t.L < 5",
                                  "t.l < 5 and T.s is not null"}) {
    iceberg::ReadCounters pruned, unpruned;
    const std::string sql = "select count(*) from t where " + where;
    const std::string all = single_value(*tables.cache, sql, {.prune = false, .counters = &unpruned});
    EXPECT_EQ(single_value(*tables.cache, sql, {.counters = &pruned}), all) << where;
    EXPECT_GT(pruned.files_pruned + pruned.pages_pruned, 0) << where;
    EXPECT_LT(pruned.rows_decoded, unpruned.rows_decoded) << where;
  }
  iceberg::ReadCounters within_a_file;
  json_rows(*tables.cache, "select * from t where \"Mixed Case\" = 4999", {.counters = &within_a_file});
  EXPECT_GT(within_a_file.pages_pruned, 0);
  // Through blocks, inner joins and CTEs.
  for (const std::string sql :
       {"select count(*) from u join t on t.l = u.k where t.l < 5", "select count(*) from t x, u where x.l < 5",
        "with c as (select * from t where l < 5) select count(*) from c, c d",
        "select * from u where k in (select l from t where l < 5)",
        "select count(*) from (select * from t where l < 5) x left join u on x.l = u.k",
        "from t select count(*) where l < 5 limit 1"}) {
    iceberg::ReadCounters counters;
    json_rows(*tables.cache, sql, {.counters = &counters});
    EXPECT_GT(counters.files_pruned, 0) << sql;
  }
}

}  // namespace
}  // namespace firn::hyp
