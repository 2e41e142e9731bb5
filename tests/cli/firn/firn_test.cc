// Tables read, made and appended to from the command line.
#include <fcntl.h>
#include <unistd.h>

#include <cstdlib>

#include <arrow/array.h>
#include <arrow/builder.h>
#include <arrow/io/file.h>
#include <arrow/table.h>
#include <parquet/arrow/writer.h>

#include "base/arrow_status.h"
#include "cli/firn/run_firn.h"

namespace firn {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

// Rows (id, name) with ids from `first`, and a further column if it has a name.
void write_parquet(const std::string& path, int64_t first, int64_t num_rows, const std::string& more = "") {
  arrow::Int64Builder ids;
  arrow::StringBuilder names, mores;
  for (int64_t id = first; id < first + num_rows; ++id) {
    check(ids.Append(id), "id");
    check(id % 5 == 0 ? names.AppendNull() : names.Append("name, " + std::to_string(id % 3)), "name");
    check(mores.Append("more"), "more");
  }
  arrow::FieldVector fields = {arrow::field("id", arrow::int64()), arrow::field("name", arrow::utf8())};
  arrow::ArrayVector columns = {check(ids.Finish(), "ids"), check(names.Finish(), "names")};
  if (!more.empty()) {
    fields.push_back(arrow::field(more, arrow::utf8()));
    columns.push_back(check(mores.Finish(), "mores"));
  }
  const auto out = check(arrow::io::FileOutputStream::Open(path), path);
  check(parquet::arrow::WriteTable(*arrow::Table::Make(arrow::schema(fields), columns), arrow::default_memory_pool(),
                                   out),
        path);
  check(out->Close(), path);
}

class FirnTables : public FirnCommand {};

TEST_F(FirnTables, ReadsAnotherEnginesTableThatWasMoved) {
  for (const char* name : {"lineage_v3", "part_identity_multi"}) {
    SCOPED_TRACE(name);
    const Json expected = parse_json(iceberg::read_whole(fixture(name) + "/expected.json"), name);
    for (const Json& entry : expected["snapshots"]) {
      if (!entry.contains("rows")) continue;
      Strings words = {"scan", fixture(name), "--json"}, wanted;
      if (entry["snapshot"].is_string()) words.insert(words.end(), {"--at", entry["snapshot"]});
      if (entry["snapshot"].is_number()) words.insert(words.end(), {"--at", entry["snapshot"].dump()});
      if (entry.value("lineage", false)) words.push_back("--row-lineage");
      for (const Json& row : entry["rows"]) wanted.push_back(row.dump());
      EXPECT_EQ(sorted_rows(lines_of(output_of(words))), sorted_rows(wanted)) << entry["snapshot"];
    }
  }
}

TEST_F(FirnTables, CountsWithAndWithoutDeletesAndFilters) {
  EXPECT_EQ(output_of({"scan", fixture("lineage_v3"), "--count"}), "15\n");
  EXPECT_EQ(output_of({"scan", fixture("posdel_file_v2"), "--count"}),
            std::to_string(lines_of(output_of({"scan", fixture("posdel_file_v2"), "--json"})).size()) + "\n");
  EXPECT_EQ(output_of({"scan", fixture("part_identity_multi"), "--count", "--where", "v = 'r2'"}), "1\n");
  EXPECT_EQ(output_of({"scan", fixture("lineage_v3"), "--count", "--limit", "4"}), "4\n");
}

TEST_F(FirnTables, CreatesAppendsAndScans) {
  create({"--partition", "bucket(4, id)", "--sort", "name desc", "--sort", "id", "--property", "format-version=3",
          "--property", "owner=me"});
  write_parquet(folder_ / "a.parquet", 0, 100);
  write_parquet(folder_ / "b.parquet", 100, 50);
  EXPECT_THAT(output_of({"append", table_, folder_ / "a.parquet", folder_ / "b.parquet"}),
              StartsWith("appended 150 rows in 4 files"));
  EXPECT_EQ(output_of({"scan", table_, "--count"}), "150\n");
  EXPECT_EQ(output_of({"scan", table_, "--count", "--where", "id >= 100 and name is null"}), "10\n");
  EXPECT_EQ(output_of({"scan", table_, "--csv", "--columns", "name,id", "--where", "id in (7, 10)"}).substr(0, 8),
            "name,id\n");
  const Strings csv =
      lines_of(output_of({"scan", table_, "--csv", "--columns", "name,id", "--where", "id in (7, 10)"}));
  EXPECT_THAT(csv, ::testing::UnorderedElementsAre("name,id", "\"name, 1\",7", ",10"));
  EXPECT_EQ(output_of({"scan", table_, "--json", "--where", R"({"type": "eq", "term": "id", "value": 7})"}),
            "{\"id\":7,\"name\":\"name, 1\"}\n");
  const Strings text = lines_of(output_of({"scan", table_, "--where", "id = 10"}));
  EXPECT_EQ(text, (Strings{"id  name", "10  null"}));
  EXPECT_EQ(lines_of(output_of({"files", table_})).size(), 5u);
  EXPECT_EQ(parse_json(output_of({"files", table_, "--json"}), "files").size(), 4u);
}

// Ids are given as Java does: the columns first, then what lies within them.
TEST_F(FirnTables, NestedColumnsAreMadeHoweverTheSchemaIsGiven) {
  const std::string schema = write("schema.json", R"json({"fields": [
    {"name": "a", "type": {"type": "list", "element": "int"}},
    {"name": "b", "type": {"type": "map", "key": "string", "value": {"type": "list", "element": "long"}}},
    {"name": "c", "type": {"type": "struct", "fields": [{"name": "x", "type": {"type": "list", "element": "date"}}]}},
    {"name": "d", "type": {"type": "list", "element": "int"}}]})json");
  output_of({"create", folder_ / "by-file", "--schema", schema});
  output_of({"create", folder_ / "by-words", "--column", "a list<int>", "--column", "b map<string, list<long>>",
             "--column", "c struct<x: list<date>>", "--column",
             R"(d {"type": "list", "element-id": 1, "element": "int"})"});
  for (const char* name : {"by-file", "by-words"}) {
    SCOPED_TRACE(name);
    const Json fields = json_of({"schema", folder_ / name, "--json"})["fields"];
    ASSERT_EQ(fields.size(), 4U);
    EXPECT_EQ(fields[3]["id"], 4);
    EXPECT_EQ(fields[0]["type"]["element-id"], 5);
    EXPECT_EQ(fields[1]["type"]["key-id"], 6);
    EXPECT_EQ(fields[1]["type"]["value-id"], 7);
    EXPECT_EQ(fields[1]["type"]["value"]["element-id"], 8);
    EXPECT_EQ(fields[2]["type"]["fields"][0]["id"], 9);
    EXPECT_EQ(fields[2]["type"]["fields"][0]["type"]["element-id"], 10);
    EXPECT_EQ(fields[3]["type"]["element-id"], 11);
    output_of({"append", folder_ / name, "-"}, {}, R"({"a":[1],"b":[["k",[2]]],"c":{"x":["2024-02-29"]},"d":[3]})");
    EXPECT_EQ(rows_of(folder_ / name), Strings{R"({"a":[1],"b":[["k",[2]]],"c":{"x":["2024-02-29"]},"d":[3]})"});
  }
}

TEST_F(FirnTables, DescribesInTextAndJson) {
  create({"--partition", "bucket(4, id)", "--sort", "name desc", "--property", "owner=me"});
  const std::string empty = output_of({"describe", table_});
  EXPECT_THAT(empty, HasSubstr("partition spec 0: bucket[4](id)"));
  EXPECT_THAT(empty, HasSubstr("  owner: me"));
  EXPECT_THAT(empty, HasSubstr("current snapshot: none"));
  EXPECT_THAT(empty, Not(HasSubstr("opened at")));
  write_parquet(folder_ / "a.parquet", 0, 10);
  output_of({"append", table_, folder_ / "a.parquet"});
  const Json json = parse_json(output_of({"describe", table_, "--json"}), "describe");
  EXPECT_EQ(json["format-version"], 2);
  EXPECT_EQ(json["location"], table_);
  EXPECT_EQ(json["schema"]["fields"][0]["name"], "id");
  EXPECT_EQ(json["properties"]["owner"], "me");
  EXPECT_EQ(json["current-snapshot"]["summary"]["total-records"], "10");
  EXPECT_EQ(json["refs"]["main"]["snapshot-id"], json["current-snapshot"]["snapshot-id"]);
  const Json snapshots = parse_json(output_of({"snapshots", table_, "--json"}), "snapshots");
  ASSERT_EQ(snapshots.size(), 1u);
  EXPECT_EQ(snapshots[0]["operation"], "append");
  EXPECT_THAT(output_of({"describe", fixture("lineage_v3")}), HasSubstr("opened at: " + fixture("lineage_v3")));
}

TEST_F(FirnTables, ACommitIdIsAppendedOnce) {
  create();
  write_parquet(folder_ / "a.parquet", 0, 10);
  const Strings words = {"append", table_, folder_ / "a.parquet", "--commit-id", "load-1"};
  EXPECT_THAT(output_of(words), StartsWith("appended 10 rows"));
  EXPECT_THAT(output_of(words), HasSubstr("nothing was appended"));
  EXPECT_EQ(output_of({"scan", table_, "--count"}), "10\n");
  EXPECT_THAT(output_of({"snapshots", table_}), HasSubstr("firn.commit-id=load-1"));
}

TEST_F(FirnTables, AddsColumnsOnlyWhenAsked) {
  create();
  write_parquet(folder_ / "a.parquet", 0, 10, "extra");
  const ProgramResult refused = run_firn({"append", table_, folder_ / "a.parquet"});
  EXPECT_EQ(refused.status, 1);
  EXPECT_THAT(refused.err, StartsWith("firn: "));
  EXPECT_THAT(refused.err, HasSubstr("extra"));
  EXPECT_EQ(output_of({"scan", table_, "--count"}), "0\n");
  output_of({"append", table_, folder_ / "a.parquet", "--add-columns"});
  EXPECT_EQ(output_of({"scan", table_, "--json", "--where", "id = 3"}),
            "{\"id\":3,\"name\":\"name, 0\",\"extra\":\"more\"}\n");
}

TEST_F(FirnTables, TwoColumnsOfOneNameAreRefused) {
  create();
  write_parquet(folder_ / "a.parquet", 0, 10, "id");
  EXPECT_THAT(error_of({"append", table_, folder_ / "a.parquet"}), HasSubstr("a.parquet has two columns 'id'"));
}

TEST_F(FirnTables, StatsGoToStandardErrorAndShowWhatWasPruned) {
  create();
  write_parquet(folder_ / "a.parquet", 0, 10);
  write_parquet(folder_ / "b.parquet", 1000, 10);
  output_of({"append", table_, folder_ / "a.parquet"});
  output_of({"append", table_, folder_ / "b.parquet"});
  const ProgramResult pruned = run_firn({"scan", table_, "--json", "--where", "id = 1003", "--stats"});
  EXPECT_EQ(lines_of(pruned.out).size(), 1u);
  EXPECT_THAT(pruned.err, HasSubstr("files planned 1, pruned 1, opened 1"));
  const ProgramResult whole = run_firn({"scan", table_, "--json", "--where", "id = 1003", "--stats", "--no-pruning"});
  EXPECT_EQ(whole.out, pruned.out);
  EXPECT_THAT(whole.err, HasSubstr("files planned 2, pruned 0, opened 2"));
}

TEST_F(FirnTables, AScanIsExplained) {
  create({"--partition", "name"});
  append("{\"id\":1,\"name\":\"a\"}\n{\"id\":2,\"name\":\"b\"}\n");
  append("{\"id\":1000,\"name\":\"a\"}\n");
  const Json json = json_of({"scan", table_, "--explain", "--json", "--where", "name = 'a' and id = 1"});
  std::map<std::string, int> rules;
  for (const Json& file : json["files"]) ++rules[file["pruned-by"]];
  EXPECT_EQ(rules, (std::map<std::string, int>{{"", 1}, {"partition", 1}, {"metrics", 1}}));
  EXPECT_EQ(json["manifests"].size(), 2u);
  const std::string text = output_of({"scan", table_, "--explain", "--where", "name = 'a' and id = 1"});
  EXPECT_THAT(text, HasSubstr("files: 1 planned, 2 pruned"));
  EXPECT_THAT(text, HasSubstr("(by partition)"));
  EXPECT_THAT(text, HasSubstr("(by metrics)"));
  EXPECT_THAT(text, HasSubstr("row group 0: 1 of 1 rows"));
}

TEST_F(FirnTables, PartitionsAndMetadataTablesAreRows) {
  create({"--partition", "name"});
  append("{\"id\":1,\"name\":\"a\"}\n{\"id\":2,\"name\":\"b\"}\n{\"id\":3,\"name\":\"b\"}\n");
  const Strings partitions = sorted_rows(lines_of(output_of({"partitions", table_, "--json"})));
  ASSERT_EQ(partitions.size(), 2u);
  EXPECT_EQ(parse_json(partitions[1], "row")["partition"]["name"], "b");
  EXPECT_EQ(parse_json(partitions[1], "row")["record_count"], 2);
  for (const char* name : {"snapshots", "history", "refs", "manifests", "entries", "files", "data_files",
                           "delete_files", "partitions", "metadata_log_entries", "properties"}) {
    SCOPED_TRACE(name);
    for (const char* format : {"table", "json", "csv", "arrow", "parquet"}) {
      output_of({"metadata", table_, name, "--format", format});
    }
  }
  EXPECT_THAT(error_of({"metadata", table_, "nope"}), HasSubstr("metadata_log_entries"));
}

TEST_F(FirnTables, MistakesAreNamedAndHaveTheirStatus) {
  create();
  const std::string schema = write("schema.json", R"({"fields": [{"name": "id", "type": "long"}]})");
  EXPECT_THAT(error_of({"scan", table_, "--where", "id ="}, 2), HasSubstr("at byte 5"));
  EXPECT_THAT(error_of({"scan", table_, "--where", "nope = 1"}), HasSubstr("id, name"));
  EXPECT_THAT(error_of({"scan", table_, "--select", "nope"}), HasSubstr("id, name"));
  EXPECT_THAT(error_of({"scan", table_, "--where", "{\"type\": \"eq\"}"}, 2), HasSubstr("--where"));
  EXPECT_THAT(error_of({"create", table_, "--schema", schema}), HasSubstr("there already"));
  EXPECT_THAT(error_of({"create", folder_ / "u", "--schema", schema, "--partition", "day(nope)"}), HasSubstr("nope"));
  EXPECT_THAT(error_of({"create", folder_ / "u", "--schema", schema, "--property", "x"}, 2), HasSubstr("key=value"));
  EXPECT_THAT(error_of({"create", folder_ / "u", "--schema", folder_ / "none.json"}), HasSubstr("none.json"));
  EXPECT_THAT(error_of({"create", folder_ / "u", "--column", "id number"}, 2), HasSubstr("number"));
  EXPECT_THAT(error_of({"append", table_, folder_ / "none.parquet"}), HasSubstr("none.parquet"));
  error_of({}, 2);
  EXPECT_THAT(error_of({"scan"}, 2), HasSubstr("TABLE"));
  error_of({"scan", table_, "--json", "--csv"}, 2);
  error_of({"create", folder_ / "u"}, 2);
  EXPECT_THAT(error_of({"scan", table_, "--format", "xml"}, 2), HasSubstr("xml"));
  EXPECT_THAT(error_of({"scan", table_, "--frobnicate"}, 2), HasSubstr("--frobnicate"));
}

// Standard error of `command`, run by a shell, as a terminal shows it.
std::string shown_on_terminal(const std::string& command) {
  const int terminal = posix_openpt(O_RDWR | O_NOCTTY | O_NONBLOCK);
  EXPECT_GE(terminal, 0);
  EXPECT_EQ(grantpt(terminal), 0);
  EXPECT_EQ(unlockpt(terminal), 0);
  const std::string path = ptsname(terminal);
  const int shown = open(path.c_str(), O_RDWR | O_NOCTTY);  // keeps what was shown until it is read
  EXPECT_EQ(run_program({"sh", "-c", "(" + command + ") 2>" + path}).status, 0);
  std::string text(1 << 16, '\0');
  const ssize_t size = read(terminal, text.data(), text.size());
  text.resize(size > 0 ? static_cast<size_t>(size) : 0);
  close(shown);
  close(terminal);
  return text;
}

TEST_F(FirnTables, ProgressIsShownOnATerminalOnceItLasts) {
  create();
  const std::string slow_rows = R"((echo '{"id":1}'; sleep 3; echo '{"id":2}') | )";
  const std::string append_words = std::string(FIRN_PROGRAM) + " append " + table_ + " -";
  EXPECT_THAT(shown_on_terminal(slow_rows + append_words), HasSubstr("append  2 s"));
  EXPECT_EQ(run_program({"sh", "-c", slow_rows + append_words}).err, "");
  EXPECT_EQ(count(), "4\n");
}

TEST_F(FirnTables, EveryCommandHasHelpWithAnExample) {
  const std::string help = output_of({"--help"});
  EXPECT_THAT(help, HasSubstr("Status: 0 done, 1 failed"));
  for (const char* command :
       {"scan",           "describe", "schema",   "snapshots",   "refs",    "files",  "partitions", "metadata",
        "verify",         "append",   "delete",   "overwrite",   "upsert",  "create", "drop",       "alter",
        "branch",         "tag",      "rollback", "cherry-pick", "compact", "expire", "orphans",    "rewrite-manifests",
        "rewrite-deletes"}) {
    EXPECT_THAT(help, HasSubstr(std::string("\n  ") + command + " "));
    EXPECT_THAT(output_of({command, "--help"}), HasSubstr(std::string("Example: firn ") + command + " "));
  }
}

}  // namespace
}  // namespace firn
