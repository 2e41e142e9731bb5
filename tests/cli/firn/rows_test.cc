// Rows deleted, overwritten and upserted from the command line.
#include "cli/firn/run_firn.h"

namespace firn {
namespace {

using ::testing::HasSubstr;

class FirnRows : public FirnCommand {
 protected:
  void create_with_rows(const Strings& more = {}) {
    create(more);
    append("{\"id\":1,\"name\":\"a\"}\n{\"id\":2,\"name\":\"b\"}\n{\"id\":3,\"name\":\"a\"}\n");
  }
};

TEST_F(FirnRows, DeletesWhatTheFilterNames) {
  create_with_rows();
  const auto before = files_of_table();
  const Json would = json_of({"delete", table_, "--where", "name = 'a'", "--dry-run", "--json"});
  EXPECT_EQ(would["rows-deleted"], 2);
  EXPECT_EQ(would["files-changed"], 1);
  EXPECT_EQ(files_of_table(), before);
  const Json done = json_of({"delete", table_, "--where", "name = 'a'", "--json", "--commit-id", "d1"});
  EXPECT_EQ(done["rows-deleted"], 2);
  EXPECT_EQ(rows_of(table_), (Strings{R"({"id":2,"name":"b"})"}));
  const Json again = json_of({"delete", table_, "--where", "name = 'a'", "--json", "--commit-id", "d1"});
  EXPECT_TRUE(again["recognised"]);
  EXPECT_EQ(again["snapshot-id"], done["snapshot-id"]);
  EXPECT_THAT(output_of({"delete", table_, "--where", "name = 'zzz'"}), HasSubstr("nothing to do"));
  output_of({"delete", table_, "--all"});
  EXPECT_EQ(count(), "0\n");
}

TEST_F(FirnRows, DeletesByMarkingRowsWhereAsked) {
  create_with_rows();
  output_of({"delete", table_, "--where", "id = 1", "--mode", "merge-on-read"});
  EXPECT_THAT(output_of({"files", table_}), HasSubstr("position-deletes"));
  EXPECT_EQ(count(), "2\n");
}

TEST_F(FirnRows, OverwritesByFilter) {
  create_with_rows();
  const std::string file = write("new.ndjson", "{\"id\":10,\"name\":\"a\"}\n");
  const size_t num_files = files_of_table().size();
  const Json would = json_of({"overwrite", table_, file, "--where", "name = 'a'", "--dry-run", "--json"});
  EXPECT_EQ(would["rows-deleted"], 2);
  EXPECT_EQ(would["rows-inserted"], 1);
  EXPECT_EQ(files_of_table().size(), num_files);
  output_of({"overwrite", table_, file, "--where", "name = 'a'"});
  EXPECT_EQ(rows_of(table_), (Strings{R"({"id":10,"name":"a"})", R"({"id":2,"name":"b"})"}));
}

TEST_F(FirnRows, OverwritesThePartitionsOfTheNewRows) {
  create_with_rows({"--partition", "name"});
  const std::string file = write("new.csv", "id,name\n10,a\n11,c\n");
  output_of({"overwrite", table_, file, "--partitions", "--dry-run"});
  EXPECT_EQ(count(), "3\n");
  output_of({"overwrite", table_, file, "--partitions"});
  EXPECT_EQ(rows_of(table_), (Strings{R"({"id":10,"name":"a"})", R"({"id":11,"name":"c"})", R"({"id":2,"name":"b"})"}));
}

TEST_F(FirnRows, OverwritingWithNoRowsReplacesNothing) {
  create_with_rows();
  const std::string empty = write("empty.ndjson", "");
  EXPECT_THAT(output_of({"overwrite", table_, empty, "--partitions"}), HasSubstr("nothing to do"));
  EXPECT_EQ(count(), "3\n");
}

TEST_F(FirnRows, ADryRunCountsTheFilesOfReplacedPartitions) {
  create_with_rows({"--partition", "name"});
  const std::string file = write("new.csv", "id,name\n10,a\n");
  const Json would = json_of({"overwrite", table_, file, "--partitions", "--dry-run", "--json"});
  EXPECT_EQ(would["files-removed"], 1);
  EXPECT_EQ(would["files-added"], 1);
  EXPECT_EQ(would["rows-deleted"], 2);
}

TEST_F(FirnRows, OnlyAppendOffersToAddColumns) {
  create_with_rows();
  const std::string file = write("new.ndjson", "{\"id\":2,\"extra\":1}\n");
  EXPECT_THAT(error_of({"append", table_, file}), HasSubstr("--add-columns"));
  const std::vector<Strings> others = {{"upsert", table_, file, "--key", "id"}, {"overwrite", table_, file, "--all"}};
  for (const Strings& words : others) {
    const std::string error = error_of(words);
    EXPECT_THAT(error, HasSubstr("extra"));
    EXPECT_THAT(error, ::testing::Not(HasSubstr("--add-columns")));
  }
}

TEST_F(FirnRows, BytesAreComparedWithHexadecimal) {
  output_of({"create", table_, "--column", "b binary", "--column", "f fixed[2]"});
  append("{\"b\":\"0102aa\",\"f\":\"0102\"}\n");
  EXPECT_THAT(error_of({"scan", table_, "--where", "b = '0102AA'"}), HasSubstr("x'0102aa'"));
  EXPECT_THAT(error_of({"delete", table_, "--where", "f = x'01'", "--dry-run"}), HasSubstr("fixed[2]"));
  EXPECT_EQ(output_of({"scan", table_, "--count", "--where", "b = x'0102AA' and f = x'0102'"}), "1\n");
}

TEST_F(FirnRows, UpsertsByKey) {
  create_with_rows();
  const std::string file = write("new.ndjson", "{\"id\":2,\"name\":\"z\"}\n{\"id\":4,\"name\":\"y\"}\n");
  const size_t num_files = files_of_table().size();
  const Json would = json_of({"upsert", table_, file, "--key", "id", "--dry-run", "--json"});
  EXPECT_EQ(would["rows-updated"], 1);
  EXPECT_EQ(would["rows-inserted"], 1);
  EXPECT_EQ(files_of_table().size(), num_files);
  const Json done = json_of({"upsert", table_, file, "--key", "id", "--json"});
  EXPECT_EQ(done["rows-updated"], 1);
  EXPECT_EQ(done["rows-inserted"], 1);
  EXPECT_EQ(rows_of(table_), (Strings{R"({"id":1,"name":"a"})", R"({"id":2,"name":"z"})", R"({"id":3,"name":"a"})",
                                      R"({"id":4,"name":"y"})"}));
}

TEST_F(FirnRows, UpsertsByTheTablesOwnKey) {
  create_with_rows();
  const std::string file = write("new.ndjson", "{\"id\":2,\"name\":\"z\"}\n");
  EXPECT_THAT(error_of({"upsert", table_, file}, 2), HasSubstr("--key"));
  output_of({"alter", "set-identifier", table_, "id"});
  output_of({"upsert", table_, file});
  EXPECT_EQ(output_of({"scan", table_, "--json", "--where", "id = 2"}), "{\"id\":2,\"name\":\"z\"}\n");
}

TEST_F(FirnRows, AnUpsertLeavesColumnsThatItLacks) {
  create_with_rows();
  output_of({"alter", "add-column", table_, "n", "int"});
  const std::string file = write("new.ndjson", "{\"n\":7,\"id\":2}\n{\"id\":3,\"n\":8}\n");
  EXPECT_EQ(json_of({"upsert", table_, file, "--key", "id", "--json"})["rows-updated"], 2);
  EXPECT_EQ(rows_of(table_), (Strings{R"({"id":1,"name":"a","n":null})", R"({"id":2,"name":"b","n":7})",
                                      R"({"id":3,"name":"a","n":8})"}));
  EXPECT_THAT(error_of({"upsert", table_, write("x.ndjson", "{\"id\":1,\"n\":1}\n{\"id\":2}\n"), "--key", "id"}),
              HasSubstr("line 2: column n is in some rows and not in others"));
  EXPECT_THAT(error_of({"upsert", table_, write("x.ndjson", "{\"id\":1}\n{\"id\":2,\"n\":1}\n"), "--key", "id"}),
              HasSubstr("line 2: column n is in some rows and not in others"));
}

TEST_F(FirnRows, WhatIsToGoMustBeSaid) {
  create_with_rows();
  const std::string file = write("new.ndjson", "{\"id\":2}\n");
  EXPECT_THAT(error_of({"delete", table_}, 2), HasSubstr("--all"));
  EXPECT_THAT(error_of({"overwrite", table_, file}, 2), HasSubstr("--partitions"));
  EXPECT_THAT(error_of({"overwrite", table_, file, "--all", "--partitions"}, 2), HasSubstr("--partitions"));
  EXPECT_THAT(error_of({"upsert", table_, file, "--key", "nope"}), HasSubstr("the table has: id, name"));
  EXPECT_THAT(error_of({"delete", table_, "--where", "nope = 1"}), HasSubstr("nope"));
  EXPECT_EQ(count(), "3\n");
}

}  // namespace
}  // namespace firn
