// Columns, partitioning, sort order, properties, branches and tags changed from the command line.
#include "cli/firn/run_firn.h"

namespace firn {
namespace {

using ::testing::HasSubstr;

class FirnAlter : public FirnCommand {
 protected:
  Strings columns() {
    Strings names;
    const Json schema = json_of({"schema", table_, "--json"});
    for (const Json& field : schema["fields"]) names.push_back(field["name"]);
    return names;
  }
  Json describe() { return json_of({"describe", table_, "--json"}); }
};

TEST_F(FirnAlter, ColumnsAreAddedMovedRenamedAndDropped) {
  create({"--property", "format-version=3"});
  append("{\"id\":1,\"name\":\"a\"}\n");
  output_of({"alter", "add-column", table_, "gate", "string", "--after", "id", "--doc", "where", "--default", "A1"});
  output_of({"alter", "add-column", table_, "place", R"({"type":"struct","fields":[{"name":"x","type":"int"}]})"});
  output_of({"alter", "add-column", table_, "y", "int", "--in", "place"});
  EXPECT_EQ(columns(), (Strings{"id", "gate", "name", "place"}));
  EXPECT_EQ(rows_of(table_), (Strings{R"({"id":1,"gate":"A1","name":"a","place":null})"}));
  EXPECT_THAT(output_of({"schema", table_}), HasSubstr("gate: string default A1  -- where"));
  output_of({"alter", "rename-column", table_, "name", "who"});
  output_of({"alter", "move-column", table_, "who", "--first"});
  output_of({"alter", "drop-column", table_, "gate"});
  output_of({"alter", "promote-column", table_, "place.x", "long"});
  output_of({"alter", "make-optional", table_, "id"});
  output_of({"alter", "set-default", table_, "who", "nobody"});
  output_of({"alter", "set-doc", table_, "who", "a name"});
  EXPECT_EQ(columns(), (Strings{"who", "id", "place"}));
  append("{\"place\":{\"x\":4294967296,\"y\":1}}\n");
  EXPECT_EQ(rows_of(table_), sorted_rows({R"({"who":"a","id":1,"place":null})",
                                          R"({"who":"nobody","id":null,"place":{"x":4294967296,"y":1}})"}));
  EXPECT_EQ(json_of({"schema", table_, "--all", "--json"}).size(), 11u);
}

TEST_F(FirnAlter, ADryRunChangesNothingAndTellsWhatIsRefused) {
  create();
  const auto before = files_of_table();
  const Json would = json_of({"alter", "add-column", table_, "x", "int", "--dry-run", "--json"});
  EXPECT_TRUE(would["changed"]);
  EXPECT_TRUE(would["dry-run"]);
  EXPECT_THAT(error_of({"alter", "drop-column", table_, "nope", "--dry-run"}), HasSubstr("nope"));
  EXPECT_THAT(error_of({"alter", "add-column", table_, "x", "int", "--required"}), HasSubstr("x"));
  EXPECT_THAT(error_of({"alter", "add-column", table_, "x", "number"}, 2), HasSubstr("timestamptz"));
  EXPECT_THAT(error_of({"alter", "promote-column", table_, "id", "int"}), HasSubstr("id"));
  EXPECT_EQ(files_of_table(), before);
}

TEST_F(FirnAlter, PartitionFieldsAndTheSortOrderChange) {
  create();
  output_of({"alter", "add-partition", table_, "bucket(4, id)", "--name", "b"});
  EXPECT_EQ(describe()["partition-spec"]["fields"][0]["name"], "b");
  output_of({"alter", "rename-partition", table_, "b", "bb"});
  output_of({"alter", "add-partition", table_, "name"});
  EXPECT_EQ(describe()["partition-spec"]["fields"].size(), 2u);
  output_of({"alter", "drop-partition", table_, "bb"});
  EXPECT_THAT(output_of({"describe", table_}), HasSubstr(": name\n"));
  output_of({"alter", "set-sort", table_, "name desc", "id"});
  EXPECT_EQ(describe()["sort-order"]["fields"].size(), 2u);
  output_of({"alter", "set-sort", table_, "--drop"});
  EXPECT_EQ(describe()["sort-order"]["fields"].size(), 0u);
}

TEST_F(FirnAlter, PropertiesAndTheFormatVersionChange) {
  create();
  output_of({"alter", "set-properties", table_, "a=1", "b=x=y"});
  EXPECT_EQ(describe()["properties"]["b"], "x=y");
  EXPECT_FALSE(json_of({"alter", "set-properties", table_, "a=1", "--json"})["changed"]);
  output_of({"alter", "unset-properties", table_, "a"});
  EXPECT_FALSE(describe()["properties"].contains("a"));
  EXPECT_EQ(json_of({"alter", "upgrade", table_, "3", "--json"})["format-version"], 3);
  EXPECT_EQ(describe()["format-version"], 3);
  error_of({"alter", "upgrade", table_, "2"});
}

TEST_F(FirnAlter, BranchesAndTagsComeMoveAndGo) {
  create();
  const int64_t first = append("{\"id\":1}\n");
  output_of({"tag", table_, "one", "--max-ref-age", "30d"});
  output_of({"branch", table_, "dev", "--min-snapshots", "3", "--max-snapshot-age", "12h"});
  append("{\"id\":2}\n", {"--branch", "dev"});
  EXPECT_EQ(count(), "1\n");
  EXPECT_EQ(count({"--at", "dev"}), "2\n");
  const Json refs = json_of({"refs", table_, "--json"});
  EXPECT_EQ(refs["one"]["max-ref-age-ms"], 30LL * 86'400'000);
  EXPECT_EQ(refs["dev"]["min-snapshots-to-keep"], 3);
  EXPECT_EQ(refs["dev"]["max-snapshot-age-ms"], 12 * 3'600'000);
  EXPECT_THAT(output_of({"refs", table_}), HasSubstr("one   tag"));

  const auto before = files_of_table();
  output_of({"branch", table_, "main", "--fast-forward", "dev", "--dry-run"});
  EXPECT_EQ(files_of_table(), before);
  output_of({"branch", table_, "main", "--fast-forward", "dev"});
  EXPECT_EQ(count(), "2\n");
  EXPECT_THAT(error_of({"tag", table_, "one"}), HasSubstr("one"));
  output_of({"tag", table_, "one", "--replace"});
  EXPECT_NE(json_of({"refs", table_, "--json"})["one"]["snapshot-id"], first);
  output_of({"branch", table_, "dev", "--retention", "--min-snapshots", "5"});
  EXPECT_EQ(json_of({"refs", table_, "--json"})["dev"]["min-snapshots-to-keep"], 5);
  EXPECT_THAT(error_of({"branch", table_, "one", "--delete"}), HasSubstr("tag"));
  output_of({"tag", table_, "one", "--delete"});
  output_of({"branch", table_, "dev", "--delete"});
  EXPECT_THAT(error_of({"branch", table_, "dev", "--delete"}), HasSubstr("dev"));
  EXPECT_EQ(json_of({"refs", table_, "--json"}).size(), 1u);
}

TEST_F(FirnAlter, RollsBackToIdsRefsAndTimes) {
  create();
  const int64_t first = append("{\"id\":1}\n");
  output_of({"tag", table_, "one"});
  const int64_t second = append("{\"id\":2}\n");
  EXPECT_THAT(output_of({"rollback", table_, std::to_string(first), "--dry-run"}), HasSubstr("would do"));
  EXPECT_EQ(count(), "2\n");
  EXPECT_EQ(json_of({"rollback", table_, std::to_string(first), "--json"})["current-snapshot-id"], first);
  EXPECT_EQ(count(), "1\n");
  EXPECT_THAT(error_of({"rollback", table_, std::to_string(second)}), HasSubstr(std::to_string(second)));
  EXPECT_THAT(error_of({"rollback", table_, std::to_string(second)}), HasSubstr("--any"));
  output_of({"rollback", table_, std::to_string(second), "--any"});
  EXPECT_EQ(count(), "2\n");
  output_of({"rollback", table_, "one"});
  EXPECT_EQ(count(), "1\n");
}

TEST_F(FirnAlter, AFieldOfAStructIsAddedByItsWholeName) {
  create();
  output_of({"alter", "add-column", table_, "address", "struct<street: string>"});
  output_of({"alter", "add-column", table_, "address.country", "string"});
  EXPECT_EQ(columns(), (Strings{"id", "name", "address"}));
  append(R"({"id":1,"address":{"street":"s","country":"c"}})");
  EXPECT_EQ(rows_of(table_), (Strings{R"({"id":1,"name":null,"address":{"street":"s","country":"c"}})"}));
  EXPECT_THAT(error_of({"alter", "add-column", table_, "nope.country", "string"}), HasSubstr("nope"));
}

TEST_F(FirnAlter, TypesAreWrittenInWords) {
  create();
  output_of({"alter", "add-column", table_, "n", "bigint"});
  output_of({"alter", "add-column", table_, "f", "fixed(4)"});
  output_of({"alter", "add-column", table_, "tags", "list<string>"});
  output_of({"alter", "add-column", table_, "deep", "map<string, struct<x: decimal(9,2), y: list<date>>>"});
  append(R"({"id":1,"n":2,"f":"00ff00ff","tags":["a"],"deep":[["k",{"x":"1.50","y":["2024-02-29"]}]]})");
  EXPECT_EQ(rows_of(table_, {"--select", "n,f,tags,deep"}),
            (Strings{R"({"n":2,"f":"00ff00ff","tags":["a"],"deep":[["k",{"x":"1.50","y":["2024-02-29"]}]]})"}));
  for (const char* type : {"list<number>", "list<string", "map<string>", "struct<x>"})
    error_of({"alter", "add-column", table_, "bad", type}, 2);
}

TEST_F(FirnAlter, WhatWasDoneIsSaidAsItIs) {
  create({"--property", "format-version=3"});
  output_of({"alter", "set-default", table_, "name", "nobody"});
  EXPECT_THAT(output_of({"alter", "set-default", table_, "name", "--drop"}), HasSubstr("has no write default"));
  output_of({"alter", "set-doc", table_, "name", "who"});
  EXPECT_THAT(output_of({"alter", "set-doc", table_, "name", ""}), HasSubstr("has no documentation"));
  EXPECT_EQ(output_of({"alter", "unset-properties", table_, "x"}), "nothing to do: the table has no property x\n");
  output_of({"alter", "set-properties", table_, "a=1"});
  EXPECT_EQ(output_of({"alter", "unset-properties", table_, "a", "x"}), "a unset; there was no property x\n");
  EXPECT_THAT(error_of({"alter", "make-required", table_, "name"}), HasSubstr("--allow-incompatible"));
  append("{\"id\":1}\n");
  EXPECT_EQ(output_of({"branch", table_, "main"}), "nothing to do: branch main is there, at that snapshot\n");
}

TEST_F(FirnAlter, ABranchThatIsNotThereIsNeverMadeByTheWay) {
  create();
  append("{\"id\":1}\n");
  output_of({"branch", table_, "audit"});
  output_of({"tag", table_, "one"});
  const std::string rows = write("x.ndjson", "{\"id\":2}\n");
  const auto before = files_of_table();
  const std::vector<Strings> all = {{"append", table_, rows},
                                    {"append", table_, rows, "--stage", "w"},
                                    {"delete", table_, "--where", "id = 99"},
                                    {"overwrite", table_, rows, "--all"},
                                    {"upsert", table_, rows, "--key", "id"},
                                    {"compact", table_},
                                    {"rewrite-manifests", table_},
                                    {"rewrite-deletes", table_},
                                    {"rollback", table_, "one"},
                                    {"cherry-pick", table_, "one"}};
  for (Strings words : all) {
    SCOPED_TRACE(words_text(words));
    words.insert(words.end(), {"--branch", "adit"});
    EXPECT_THAT(error_of(words), HasSubstr("no branch 'adit', did you mean audit? (the table has: main, audit;"));
    words.push_back("--dry-run");
    EXPECT_THAT(error_of(words), HasSubstr("no branch 'adit'"));
    words[words.size() - 2] = "one";
    EXPECT_THAT(error_of(words), HasSubstr("'one' is a tag"));
  }
  EXPECT_EQ(files_of_table(), before);
}

TEST_F(FirnAlter, OneIdStagesOneSnapshot) {
  create();
  append("{\"id\":1}\n");
  const int64_t staged = append("{\"id\":2}\n", {"--stage", "w1"});
  const std::string rows = write("x.ndjson", "{\"id\":3}\n");
  EXPECT_THAT(error_of({"append", table_, rows, "--stage", "w1"}), HasSubstr("snapshot " + std::to_string(staged)));
  EXPECT_THAT(output_of({"snapshots", table_}), HasSubstr("append (staged)"));
  EXPECT_THAT(output_of({"snapshots", table_}), HasSubstr("wap.id=w1"));
  EXPECT_TRUE(json_of({"snapshots", table_, "--json"})[1]["staged"]);
  const auto before = files_of_table();
  EXPECT_THAT(output_of({"cherry-pick", table_, "--staged", "w1", "--dry-run"}), HasSubstr("main moves to snapshot"));
  EXPECT_EQ(files_of_table(), before);
  output_of({"cherry-pick", table_, "--staged", "w1"});
  EXPECT_FALSE(json_of({"snapshots", table_, "--json"})[1]["staged"]);
  EXPECT_THAT(error_of({"append", table_, rows, "--stage", "w1"}), HasSubstr("was published"));
  append("{\"id\":4}\n", {"--stage", "w2"});
  append("{\"id\":5}\n");
  const auto next = files_of_table();
  EXPECT_THAT(output_of({"cherry-pick", table_, "--staged", "w2", "--dry-run"}), HasSubstr("as a new snapshot"));
  EXPECT_EQ(files_of_table(), next);
  EXPECT_EQ(count(), "3\n");
}

TEST_F(FirnAlter, StagedRowsArePublishedByTheirId) {
  create();
  append("{\"id\":1}\n");
  append("{\"id\":2}\n", {"--stage", "w1"});
  EXPECT_EQ(count(), "1\n");
  append("{\"id\":3}\n");
  output_of({"cherry-pick", table_, "--staged", "w1"});
  EXPECT_EQ(count(), "3\n");
  EXPECT_THAT(error_of({"cherry-pick", table_, "--staged", "w1"}), HasSubstr("already"));
  EXPECT_THAT(error_of({"cherry-pick", table_, "--staged", "w2"}), HasSubstr("w2"));
  error_of({"cherry-pick", table_}, 2);
}

TEST_F(FirnAlter, APropertyThatCouldNotBeUsedIsRefusedWhenItIsSet) {
  EXPECT_THAT(error_of({"create", table_, "--column", "id long", "--property", "commit.retry.num-retries=abc"}),
              HasSubstr("commit.retry.num-retries"));
  create();
  for (const char* wrong : {"commit.retry.num-retries=99999999999999999999", "write.data.path=below/here",
                            "write.delete.mode=merge", "write.metadata.previous-versions-max=x"}) {
    for (const Strings& more : {Strings{}, Strings{"--dry-run"}}) {
      Strings words = {"alter", "set-properties", table_, wrong};
      words.insert(words.end(), more.begin(), more.end());
      EXPECT_THAT(error_of(words), HasSubstr(std::string(wrong).substr(0, std::string(wrong).find('='))));
    }
  }
  append("{\"id\":1}\n");
}

}  // namespace
}  // namespace firn
