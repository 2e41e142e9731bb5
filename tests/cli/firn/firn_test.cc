// The command `firn` as a user runs it.
#include <fstream>

#include <arrow/array.h>
#include <arrow/builder.h>
#include <arrow/io/file.h>
#include <arrow/table.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <parquet/arrow/writer.h>

#include "base/arrow_status.h"
#include "base/json.h"
#include "iceberg/conformance_tables.h"
#include "support/run_program.h"
#include "support/temp_folder.h"

namespace firn {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;
using Strings = std::vector<std::string>;

ProgramResult firn(Strings words, const std::map<std::string, std::string>& env = {}) {
  words.insert(words.begin(), FIRN_PROGRAM);
  return run_program(words, env);
}

// Standard output of a run that must succeed.
std::string output_of(const Strings& words, const std::map<std::string, std::string>& env = {}) {
  const ProgramResult result = firn(words, env);
  EXPECT_EQ(result.status, 0) << result.err;
  return result.out;
}

Strings lines_of(const std::string& text) {
  Strings lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

std::string fixture(const std::string& name) { return (iceberg::fixtures_root() / name).string(); }

// JSON rows as a multiset, members in order, whatever their spaces.
Strings sorted_rows(const Strings& rows) {
  Strings texts;
  for (const std::string& row : rows) texts.push_back(parse_json(row, "row").dump());
  std::sort(texts.begin(), texts.end());
  return texts;
}

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

class FirnCommand : public ::testing::Test {
 protected:
  FirnCommand() {
    std::ofstream(folder_ / "schema.json")
        << R"({"fields": [{"name": "id", "type": "long", "required": true}, {"name": "name", "type": "string"}]})";
  }
  void create(const Strings& more = {}) {
    Strings words = {"create", table_, "--schema", folder_ / "schema.json"};
    words.insert(words.end(), more.begin(), more.end());
    EXPECT_THAT(output_of(words), StartsWith("created " + table_));
  }

  TempFolder folder_;
  std::string table_ = folder_ / "t";
};

TEST_F(FirnCommand, ReadsAnotherEnginesTableThatWasMoved) {
  for (const char* name : {"lineage_v3", "part_identity_multi"}) {
    SCOPED_TRACE(name);
    const Json expected = parse_json(iceberg::read_whole(fixture(name) + "/expected.json"), name);
    for (const Json& entry : expected["snapshots"]) {
      if (!entry.contains("rows")) continue;
      Strings words = {"scan", fixture(name), "--json"}, wanted;
      if (entry["snapshot"].is_string()) words.insert(words.end(), {"--ref", entry["snapshot"]});
      if (entry["snapshot"].is_number()) words.insert(words.end(), {"--snapshot", entry["snapshot"].dump()});
      if (entry.value("lineage", false)) words.push_back("--row-lineage");
      for (const Json& row : entry["rows"]) wanted.push_back(row.dump());
      EXPECT_EQ(sorted_rows(lines_of(output_of(words))), sorted_rows(wanted)) << entry["snapshot"];
    }
  }
}

TEST_F(FirnCommand, CountsWithAndWithoutDeletesAndFilters) {
  EXPECT_EQ(output_of({"scan", fixture("lineage_v3"), "--count"}), "15\n");
  EXPECT_EQ(output_of({"scan", fixture("posdel_file_v2"), "--count"}),
            std::to_string(lines_of(output_of({"scan", fixture("posdel_file_v2"), "--json"})).size()) + "\n");
  EXPECT_EQ(output_of({"scan", fixture("part_identity_multi"), "--count", "--where", "v = 'r2'"}), "1\n");
  EXPECT_EQ(output_of({"scan", fixture("lineage_v3"), "--count", "--limit", "4"}), "4\n");
}

TEST_F(FirnCommand, CreatesAppendsAndScans) {
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

TEST_F(FirnCommand, DescribesInTextAndJson) {
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

TEST_F(FirnCommand, ACommitIdIsAppendedOnce) {
  create();
  write_parquet(folder_ / "a.parquet", 0, 10);
  const Strings words = {"append", table_, folder_ / "a.parquet", "--commit-id", "load-1"};
  EXPECT_THAT(output_of(words), StartsWith("appended 10 rows"));
  EXPECT_THAT(output_of(words), HasSubstr("nothing was appended"));
  EXPECT_EQ(output_of({"scan", table_, "--count"}), "10\n");
  EXPECT_THAT(output_of({"snapshots", table_}), HasSubstr("firn.commit-id=load-1"));
}

TEST_F(FirnCommand, AddsColumnsOnlyWhenAsked) {
  create();
  write_parquet(folder_ / "a.parquet", 0, 10, "extra");
  const ProgramResult refused = firn({"append", table_, folder_ / "a.parquet"});
  EXPECT_EQ(refused.status, 1);
  EXPECT_THAT(refused.err, StartsWith("firn: "));
  EXPECT_THAT(refused.err, HasSubstr("extra"));
  EXPECT_EQ(output_of({"scan", table_, "--count"}), "0\n");
  output_of({"append", table_, folder_ / "a.parquet", "--add-columns"});
  EXPECT_EQ(output_of({"scan", table_, "--json", "--where", "id = 3"}),
            "{\"id\":3,\"name\":\"name, 0\",\"extra\":\"more\"}\n");
}

TEST_F(FirnCommand, ReadsOlderSnapshotsByIdRefAndTime) {
  create();
  write_parquet(folder_ / "a.parquet", 0, 10);
  output_of({"append", table_, folder_ / "a.parquet"});
  output_of({"append", table_, folder_ / "a.parquet"});
  const Json snapshots = parse_json(output_of({"snapshots", table_, "--json"}), "snapshots");
  EXPECT_EQ(output_of({"scan", table_, "--count", "--snapshot", snapshots[0]["snapshot-id"].dump()}), "10\n");
  EXPECT_EQ(output_of({"scan", table_, "--count", "--ref", "main"}), "20\n");
  EXPECT_EQ(output_of({"scan", table_, "--count", "--as-of", snapshots[0]["timestamp-ms"].dump()}), "10\n");
  EXPECT_EQ(output_of({"scan", table_, "--count", "--as-of", snapshots[0]["committed-at"]}), "10\n");
  EXPECT_EQ(output_of({"scan", table_, "--count", "--as-of", "2999-01-01"}), "20\n");
  EXPECT_EQ(firn({"scan", table_, "--as-of", "1999-01-01"}).status, 1);
  EXPECT_EQ(firn({"scan", table_, "--as-of", "yesterday"}).status, 1);
}

TEST_F(FirnCommand, FindsTablesInAWarehouseByName) {
  const std::map<std::string, std::string> env = {{"FIRN_WAREHOUSE", folder_ / "w"}};
  output_of({"create", "nyc.flights", "--schema", folder_ / "schema.json"}, env);
  EXPECT_EQ(output_of({"scan", "nyc.flights", "--count"}, env), "0\n");
  EXPECT_EQ(output_of({"scan", folder_ / "w/nyc/flights", "--count"}), "0\n");
  EXPECT_EQ(output_of({"scan", "nyc.flights", "--warehouse", folder_ / "w", "--count"}), "0\n");
}

TEST_F(FirnCommand, StatsGoToStandardErrorAndShowWhatWasPruned) {
  create();
  write_parquet(folder_ / "a.parquet", 0, 10);
  write_parquet(folder_ / "b.parquet", 1000, 10);
  output_of({"append", table_, folder_ / "a.parquet"});
  output_of({"append", table_, folder_ / "b.parquet"});
  const ProgramResult pruned = firn({"scan", table_, "--json", "--where", "id = 1003", "--stats"});
  EXPECT_EQ(lines_of(pruned.out).size(), 1u);
  EXPECT_THAT(pruned.err, HasSubstr("files planned 1, pruned 1, opened 1"));
  const ProgramResult whole = firn({"scan", table_, "--json", "--where", "id = 1003", "--stats", "--no-pruning"});
  EXPECT_EQ(whole.out, pruned.out);
  EXPECT_THAT(whole.err, HasSubstr("files planned 2, pruned 0, opened 2"));
}

TEST_F(FirnCommand, MistakesAreNamedAndHaveTheirStatus) {
  const auto expect = [](const Strings& words, int status, const std::string& message) {
    const ProgramResult result = firn(words);
    EXPECT_EQ(result.status, status) << result.err;
    EXPECT_THAT(result.err, StartsWith("firn: "));
    EXPECT_THAT(result.err, HasSubstr(message));
    EXPECT_EQ(result.out, "");
  };
  create();
  expect({"scan", folder_ / "none"}, 1, folder_ / "none");
  expect({"scan", table_, "--where", "id ="}, 1, "");
  expect({"scan", table_, "--where", "nope = 1"}, 1, "nope");
  expect({"scan", table_, "--columns", "nope"}, 1, "nope");
  expect({"scan", table_, "--ref", "nope"}, 1, "nope");
  expect({"create", table_, "--schema", folder_ / "schema.json"}, 1, "there already");
  expect({"create", folder_ / "u", "--schema", folder_ / "schema.json", "--partition", "day(nope)"}, 1, "nope");
  expect({"create", folder_ / "u", "--schema", folder_ / "schema.json", "--property", "x"}, 1, "key=value");
  expect({"create", folder_ / "u", "--schema", folder_ / "none.json"}, 1, "none.json");
  expect({"append", table_, folder_ / "none.parquet"}, 1, "none.parquet");
  expect({}, 2, "");
  expect({"scan"}, 2, "TABLE");
  expect({"scan", table_, "--json", "--csv"}, 2, "");
  expect({"scan", table_, "--snapshot", "x"}, 2, "");
  expect({"scan", table_, "--frobnicate"}, 2, "--frobnicate");
  EXPECT_EQ(firn({"--help"}).status, 0);
}

}  // namespace
}  // namespace firn
