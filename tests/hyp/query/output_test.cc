// Results as tables, JSON, CSV and Parquet.
#include <filesystem>
#include <fstream>

#include <arrow/io/file.h>
#include <parquet/arrow/reader.h>

#include "hyp/query/query_box.h"

namespace firn::hyp {
namespace {

TEST(QueryOutput, JsonHasEachTypeInItsForm) {
  CacheBox box;
  const Cache cache(box.config);
  const auto json = [&](const std::string& expression) {
    const std::string line = json_rows(cache, "select " + expression + " as x").at(0);
    return line.substr(5, line.size() - 6);
  };
  EXPECT_EQ(json("170141183460469231731687303715884105727::hugeint"), "170141183460469231731687303715884105727");
  EXPECT_EQ(json("(select sum(r) from range(3) t(r))"), "3");
  EXPECT_EQ(json("18446744073709551615::ubigint"), "18446744073709551615");
  EXPECT_EQ(json("-12.50::decimal(9,2)"), "-12.50");
  EXPECT_EQ(json("0.0000000001::decimal(38,10)"), "0.0000000001");
  EXPECT_EQ(json("1.0::double"), "1.0");
  EXPECT_EQ(json("1e300::double"), "1e+300");
  EXPECT_EQ(json("'nan'::double"), "\"NaN\"");
  EXPECT_EQ(json("'-inf'::float"), "\"-Infinity\"");
  EXPECT_EQ(json("interval '1 year 2 months 3 days 04:05:06.7'"), "\"14 months 3 days 04:05:06.7\"");
  EXPECT_EQ(json("interval 0 day"), "\"00:00:00\"");
  EXPECT_EQ(json("date '0001-01-01'"), "\"0001-01-01\"");
  EXPECT_EQ(json("timestamp '2020-01-02 03:04:05'"), "\"2020-01-02 03:04:05\"");
  EXPECT_EQ(json("timestamptz '2020-01-02 03:04:05.5+01'"), "\"2020-01-02 02:04:05.5+00:00\"");
  EXPECT_EQ(json("time '03:04:05'"), "\"03:04:05\"");
  EXPECT_EQ(json("'\\xAA'::blob"), "\"aa\"");
  EXPECT_EQ(json("uuid 'f81d4fae-7dec-11d0-a765-00a0c91e6bf6'"), "\"f81d4fae-7dec-11d0-a765-00a0c91e6bf6\"");
  EXPECT_EQ(json("'a\"b\\c' || chr(10) || 'ü'"), "\"a\\\"b\\\\c\\nü\"");
  EXPECT_EQ(json("[1, null, 3]"), "[1,null,3]");
  EXPECT_EQ(json("[]"), "[]");
  EXPECT_EQ(json("{'a': 1, 'b': [{'c': 'x'}]}"), R"({"a":1,"b":[{"c":"x"}]})");
  EXPECT_EQ(json("map {'k\"1': 1, 'k2': null}"), R"({"k\"1":1,"k2":null})");
  EXPECT_EQ(json("array_value(1, 2)"), "[1,2]");
  EXPECT_EQ(json("'b'::enum('a', 'b')"), "\"b\"");
  EXPECT_EQ(json("null"), "null");
  EXPECT_EQ(json("true"), "true");
}

TEST(QueryOutput, RepeatedNamesAreToldApart) {
  CacheBox box;
  const Cache cache(box.config);
  EXPECT_EQ(json_rows(cache, "select 1 as a, 2 as a, 3 as a_1, 4 as a"), Lines{R"({"a":1,"a_2":2,"a_1":3,"a_3":4})"});
}

TEST(QueryOutput, CsvQuotesWhatNeedsIt) {
  CacheBox box;
  const Cache cache(box.config);
  EXPECT_EQ(text_result(cache,
                        "select 'a,b' as \"x,y\", 'q\"q' as q, null as n, '' as e, 'l' || chr(10) || 'm' as l, ' s ' "
                        "as s, [1] as v, 1.50 as d",
                        OutputFormat::csv),
            "\"x,y\",q,n,e,l,s,v,d\n\"a,b\",\"q\"\"q\",,\"\",\"l\nm\", s ,[1],1.50\n");
  EXPECT_EQ(text_result(cache, "select 1 as a where false", OutputFormat::csv), "a\n");
}

TEST(QueryOutput, TablesAreAlignedByCharacters) {
  CacheBox box;
  const Cache cache(box.config);
  EXPECT_EQ(text_result(cache, "select * from (values ('ü', 5, null), ('long one', 1234, true)) t(name, n, b)",
                        OutputFormat::table),
            "name         n  b\n"
            "--------  ----  ----\n"
            "ü            5\n"
            "long one  1234  true\n"
            "(2 rows)\n");
  EXPECT_EQ(text_result(cache, "select 1 as a where false", OutputFormat::table), "a\n-\n(0 rows)\n");
  const std::string cut = text_result(cache, "select repeat('ü', 100) || chr(9) as t", OutputFormat::table);
  EXPECT_NE(cut.find("…"), std::string::npos);
  EXPECT_EQ(cut.find('\t'), std::string::npos);
}

TEST(QueryOutput, PlansAreDrawnAsTheyAre) {
  CacheBox box;
  const Cache cache(box.config);
  const std::string plan = text_result(cache, "explain select 42 as answer", OutputFormat::table);
  EXPECT_GT(std::count(plan.begin(), plan.end(), '\n'), 5);
  EXPECT_EQ(plan.find("explain_value"), std::string::npos);
}

TEST(QueryOutput, FilesAppearWhole) {
  CacheBox box;
  Cache cache(box.config);
  ingest(cache, {make_frame("logs", "a", {R"({"n":1,"s":["x"]})", R"({"n":2})"})});
  const std::string path = box.folder / "out.parquet";
  EXPECT_EQ(write_result_file(*run_query(cache, "select n, n, s, sum(n) over () as h from logs order by n"),
                              OutputFormat::parquet, path),
            2);
  const auto reader =
      check(parquet::arrow::OpenFile(check(arrow::io::ReadableFile::Open(path), "open"), arrow::default_memory_pool()),
            "open");
  const std::shared_ptr<arrow::Table> table = check(reader->ReadTable(), "read");
  EXPECT_EQ(table->schema()->field_names(), (Lines{"n", "n_1", "s", "h"}));
  EXPECT_EQ(table->num_rows(), 2);

  // A statement that fails half-way leaves what was there.
  const std::string text = box.folder / "out.csv";
  std::ofstream(text) << "before";
  EXPECT_THROW(write_result_file(*run_query(cache, "select case when n = 2 then error('no') else n end as x from logs"),
                                 OutputFormat::csv, text),
               Error);
  std::string content;
  std::getline(std::ifstream(text) >> std::ws, content);
  EXPECT_EQ(content, "before");
  write_result_file(*run_query(cache, "select n from logs order by n"), OutputFormat::csv, text);
  EXPECT_EQ(make_local_file_io()->read(text), "n\n1\n2\n");
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(box.folder.path()))
    files += entry.is_regular_file() ? 1 : 0;
  EXPECT_EQ(files, 2);
  EXPECT_EQ(write_result_file(*run_query(cache, "select 1 as a"), OutputFormat::json, "/dev/null"), 1);
}

}  // namespace
}  // namespace firn::hyp
