// How tables, snapshots and moved files are named.
#include "cli/firn/run_firn.h"

namespace firn {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class FirnNames : public FirnCommand {};

TEST_F(FirnNames, CatalogsComeFromTheirFile) {
  const std::map<std::string, std::string> env = {
      {"FIRN_CATALOGS", write("catalogs.json", "{\"local\": {\"warehouse\": \"" + (folder_ / "w") + "\"}}")}};
  output_of({"create", "local:nyc.flights", "--column", "id long"}, env);
  EXPECT_EQ(output_of({"scan", "local:nyc.flights", "--count"}, env), "0\n");
  EXPECT_EQ(output_of({"scan", folder_ / "w/nyc/flights", "--count"}), "0\n");
  const auto refused = [&](const std::string& table, const std::string& message) {
    const ProgramResult result = run_firn({"scan", table}, env);
    EXPECT_EQ(result.status, 1);
    EXPECT_THAT(result.err, HasSubstr(message));
  };
  refused("local:nyc.planes", "it has: nyc.flights");
  refused("local:planes", "namespace.table");
  refused("remote:nyc.flights", "it has: local");
  for (const char* name : {"local:.hid/../..t", "local:a/b", "local:nyc/flights.x"}) {
    const ProgramResult result = run_firn({"create", name, "--column", "id long"}, env);
    EXPECT_EQ(result.status, 1);
    EXPECT_THAT(result.err, HasSubstr("namespace.table"));
  }
}

TEST_F(FirnNames, AMissingCatalogsFileIsNamed) {
  const ProgramResult result = run_firn({"scan", "local:a.b"}, {{"FIRN_CATALOGS", folder_ / "none.json"}});
  EXPECT_EQ(result.status, 1);
  EXPECT_THAT(result.err, HasSubstr("none.json"));
  EXPECT_THAT(result.err, HasSubstr("\"warehouse\""));
}

TEST_F(FirnNames, TablesAreFoundInAWarehouseByName) {
  const std::map<std::string, std::string> env = {{"FIRN_WAREHOUSE", folder_ / "w"}};
  output_of({"create", "nyc.flights", "--column", "id long"}, env);
  EXPECT_EQ(output_of({"scan", "nyc.flights", "--count"}, env), "0\n");
  EXPECT_EQ(output_of({"scan", folder_ / "w/nyc/flights", "--count"}), "0\n");
  EXPECT_EQ(output_of({"scan", "nyc.flights", "--warehouse", folder_ / "w", "--count"}), "0\n");
}

TEST_F(FirnNames, WhatIsNoTableIsToldApart) {
  std::filesystem::create_directories(folder_ / "plain");
  EXPECT_THAT(error_of({"scan", folder_ / "none"}), HasSubstr("no such folder"));
  EXPECT_THAT(error_of({"scan", folder_ / "plain"}), HasSubstr("is no Iceberg table"));
  EXPECT_THAT(error_of({"scan", "nyc.flights"}), HasSubstr("--warehouse"));
}

TEST_F(FirnNames, ASnapshotIsNamedByRefIdOrTime) {
  create();
  const int64_t first = append("{\"id\":1}\n");
  output_of({"tag", table_, "2013-01-01"});  // a tag goes before the time that it looks like
  append("{\"id\":2}\n");
  const Json snapshots = json_of({"snapshots", table_, "--json"});
  EXPECT_EQ(count({"--at", std::to_string(first)}), "1\n");
  EXPECT_EQ(count({"--at", "main"}), "2\n");
  EXPECT_EQ(count({"--at", snapshots[0]["committed-at"]}), "1\n");
  EXPECT_EQ(count({"--at", "2999-01-01"}), "2\n");
  EXPECT_EQ(count({"--at", "2013-01-01"}), "1\n");
  EXPECT_THAT(error_of({"scan", table_, "--at", "1999-01-01"}), HasSubstr("1999-01-01"));
  EXPECT_THAT(error_of({"scan", table_, "--at", "yesterday"}), HasSubstr("refs: 2013-01-01, main"));
  EXPECT_THAT(error_of({"scan", table_, "--at", "12345"}), HasSubstr("12345"));
  EXPECT_EQ(lines_of(output_of({"files", table_, "--at", std::to_string(first)})).size(), 2u);
  EXPECT_EQ(rows_of(table_, {"--since", std::to_string(first)}), (Strings{R"({"id":2,"name":null})"}));
  EXPECT_EQ(rows_of(table_, {"--since", "2013-01-01", "--at", "2013-01-01"}), Strings{});
}

TEST_F(FirnNames, AMovedTableIsReadThroughARelocation) {
  // The table's paths begin with /warehouse/<name>; other names for the same files.
  const std::string name = "posdel_file_v2";
  const std::string relocation = "/warehouse=" + iceberg::fixtures_root().string();
  EXPECT_EQ(rows_of("/warehouse/" + name, {"--relocate", relocation}), rows_of(fixture(name)));
  EXPECT_EQ(rows_of(fixture(name), {"--relocate", relocation}), rows_of(fixture(name)));
  for (const Strings& words : {Strings{"describe"}, Strings{"schema"}, Strings{"snapshots"}, Strings{"refs"},
                               Strings{"files"}, Strings{"partitions"}, Strings{"verify"}}) {
    Strings all = words;
    all.insert(all.end(), {"/warehouse/" + name, "--relocate", relocation});
    EXPECT_NE(output_of(all), "") << words_text(all);
  }
  output_of({"metadata", "/warehouse/" + name, "entries", "--relocate", relocation});
  for (const char* wrong : {"/warehouse", "/warehouse="})
    EXPECT_THAT(error_of({"scan", fixture(name), "--relocate", wrong}, 2),
                AllOf(HasSubstr("--relocate"), HasSubstr("OLD=NEW")));
}

// As in a filter: the quotes are not of the name.
TEST_F(FirnNames, AColumnInDoubleQuotesMayHaveAnyName) {
  output_of({"create", table_, "--column", "\"a b\" int required", "--column", R"-("say ""x"", (y)" string)-",
             "--column", "s struct<\"in, side\": int, z: int>", "--partition",
             "\"a b\", truncate(2, \"say \"\"x\"\", (y)\")", "--sort", "\"a b\" desc"});
  output_of({"alter", "add-column", table_, "\"p.q\"", "int", "--after", "\"a b\""});
  output_of({"alter", "add-column", table_, "s.\"u v\"", "int"});
  const auto names = [](const Json& fields) {
    Strings names;
    for (const Json& field : fields) names.push_back(field["name"]);
    return names;
  };
  const Json fields = json_of({"schema", table_, "--json"})["fields"];
  EXPECT_EQ(names(fields), (Strings{"a b", "p.q", "say \"x\", (y)", "s"}));
  EXPECT_EQ(names(fields[3]["type"]["fields"]), (Strings{"in, side", "z", "u v"}));
  output_of({"append", table_, "-"}, {}, "{\"a b\":1,\"p.q\":2}");
  EXPECT_EQ(output_of({"scan", table_, "--count", "--where", "\"a b\" = 1 and \"p.q\" = 2"}), "1\n");
  output_of({"alter", "rename-column", table_, "\"p.q\"", "\"r\""});
  output_of({"alter", "drop-column", table_, "s.\"u v\""});
  output_of({"alter", "make-optional", table_, "\"a b\""});
  EXPECT_EQ(names(json_of({"schema", table_, "--json"})["fields"]), (Strings{"a b", "r", "say \"x\", (y)", "s"}));
  EXPECT_THAT(error_of({"alter", "add-column", table_, "\"x", "int"}, 2), HasSubstr("is not closed"));
  EXPECT_THAT(error_of({"alter", "add-column", table_, "\"x\"y", "int"}, 2), HasSubstr("text follows the quote"));
  EXPECT_THAT(error_of({"alter", "add-column", table_, "\"\"", "int"}), HasSubstr("needs a name"));
}

}  // namespace
}  // namespace firn
