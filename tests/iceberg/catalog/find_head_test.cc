// Which version of a table directory is its head (protocols P1.5; cases 7 and 8 of the public bug reports).
#include <zlib.h>

#include <functional>
#include <optional>
#include <utility>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "iceberg/tiny_table.h"
#include "io/local.h"
#include "support/fake_store.h"
#include "support/local_disk.h"
#include "support/temp_folder.h"

namespace firn::iceberg {
namespace {

using ::testing::HasSubstr;

std::string gzip(const std::string& bytes) {
  z_stream stream{};
  EXPECT_EQ(deflateInit2(&stream, 9, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
  std::string out(deflateBound(&stream, bytes.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  stream.avail_in = static_cast<uInt>(bytes.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  EXPECT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

// A table directory written file by file, as other writers may have left it.
class TableDirectory {
 public:
  explicit TableDirectory(std::string location = "mem://w/t")
      : location_(std::move(location)), metadata_(tiny_metadata(location_)) {}

  // Metadata whose property `n` tells it from the others.
  std::string bytes(const std::string& n) {
    metadata_.properties["n"] = n;
    ++metadata_.last_updated_ms;
    return serialize_table_metadata(metadata_);
  }
  void put(const std::string& name, const std::string& n) { store->replace(path(name), bytes(n)); }
  void put_gzip(const std::string& name, const std::string& n) { store->replace(path(name), gzip(bytes(n))); }
  void hint(const std::string& text) { store->replace(path("version-hint.text"), text); }
  std::string path(const std::string& name) const { return location_ + "/metadata/" + name; }
  // The property `n` of the head.
  std::string head() { return open_filesystem_table(store, location_)->load().metadata->property("n", "?"); }
  void other_table() { metadata_ = tiny_metadata(location_); }

  std::shared_ptr<FakeStore> store = std::make_shared<FakeStore>();

 private:
  std::string location_;
  TableMetadata metadata_;
};

TEST(FindHead, AMissingStaleOrWrongHintDoesNotHideTheNewestVersion) {
  for (const auto& [hint, title] :
       std::vector<std::pair<std::optional<std::string>, std::string>>{{std::nullopt, "none"},
                                                                       {"3", "stale"},
                                                                       {"3\n", "newline"},
                                                                       {"5", "right"},
                                                                       {"v4.metadata.json", "a file name"},
                                                                       {"2", "names a version that was pruned"},
                                                                       {"junk", "unreadable"},
                                                                       {"", "empty"}}) {
    SCOPED_TRACE(title);
    TableDirectory table;
    table.put("v3.metadata.json", "3");
    table.put("v4.metadata.json", "4");
    table.put("v5.metadata.json", "5");
    if (hint) table.hint(*hint);
    EXPECT_EQ(table.head(), "5");
  }
}

// The hint is written once its version is there (Hadoop's writers do the same): the version is lost.
TEST(FindHead, AHintAboveAllVersionsIsAnErrorThatNamesTheLostOne) {
  for (const char* hint : {"9", "9\n", "v9.metadata.json", "6"}) {
    SCOPED_TRACE(hint);
    TableDirectory table;
    table.put("v4.metadata.json", "4");
    table.put("v5.metadata.json", "5");
    table.hint("5");
    const auto operations = open_filesystem_table(table.store, "mem://w/t");
    table.hint(hint);
    for (const bool is_open : {false, true}) {
      try {
        is_open ? operations->load() : open_filesystem_table(table.store, "mem://w/t")->load();
        FAIL();
      } catch (const Error& e) {
        EXPECT_EQ(e.kind(), ErrorKind::corrupt);
        EXPECT_THAT(e.what(), HasSubstr(std::string(hint).find('6') == 0 ? "v6.metadata.json" : "v9.metadata.json"));
        EXPECT_THAT(e.what(), HasSubstr("version-hint.text"));
      }
    }
    table.hint("5");  // as the message says
    EXPECT_EQ(table.head(), "5");
  }
}

TEST(FindHead, TheHintOfADropThatDiedIsNoneOfATableMadeAnew) {
  TableDirectory table;
  table.hint("7");
  create_filesystem_table(table.store, tiny_metadata("mem://w/t"));
  EXPECT_EQ(open_filesystem_table(table.store, "mem://w/t")->load().version, 1);
  EXPECT_EQ(table.store->read(table.path("version-hint.text")), "1");
}

TEST(FindHead, AFolderOfTablesIsNoTable) {
  const auto message_of = [](const std::shared_ptr<FakeStore>& store, const std::string& location) -> std::string {
    try {
      open_filesystem_table(store, location);
    } catch (const Error& e) {
      EXPECT_EQ(e.kind(), ErrorKind::invalid_argument) << e.what();
      return e.what();
    }
    return "";
  };
  TableDirectory table;
  table.put("v1.metadata.json", "1");
  EXPECT_THAT(message_of(table.store, "mem://w"), HasSubstr("mem://w/t"));  // nor is its only table taken for it
  table.other_table();
  table.store->replace("mem://w/u/metadata/v1.metadata.json", table.bytes("1"));
  EXPECT_THAT(message_of(table.store, "mem://w"), ::testing::AllOf(HasSubstr("mem://w/t"), HasSubstr("mem://w/u")));
  // Metadata kept elsewhere is one table's only where it is all in one folder.
  table.store->replace("mem://x/a/meta/00001-a.metadata.json", table.bytes("1"));
  EXPECT_EQ(message_of(table.store, "mem://x"), "");
  table.store->replace("mem://x/b/meta/00001-a.metadata.json", table.bytes("1"));
  EXPECT_THAT(message_of(table.store, "mem://x"), HasSubstr("mem://x/b/meta"));
}

TEST(FindHead, CompressedVersionsOfEverySpellingAreRead) {
  for (const char* name : {"v5.gz.metadata.json", "v5.metadata.json.gz", "00005-0f3b2359.gz.metadata.json",
                           "00005-0f3b2359.metadata.json.gz"}) {
    for (const char* hint : {"4", "5", ""}) {
      SCOPED_TRACE(fmt::format("{} with hint '{}'", name, hint));
      const bool is_numbered = name[0] == 'v';
      if (!is_numbered && *hint != '\0') continue;  // other catalogs keep no hint
      TableDirectory table;
      table.put(is_numbered ? "v4.metadata.json" : "00004-9ec47bf9.metadata.json", "4");
      table.put_gzip(name, "5");
      if (*hint != '\0') table.hint(hint);
      EXPECT_EQ(table.head(), "5");
    }
  }
}

TEST(FindHead, CompressionIsToldByTheBytesWhateverTheName) {
  TableDirectory table;
  table.put_gzip("v1.metadata.json", "zipped");
  EXPECT_EQ(table.head(), "zipped");
  table.put("v2.gz.metadata.json", "plain");
  EXPECT_EQ(table.head(), "plain");
}

TEST(FindHead, OfTwoFilesThatAnotherCatalogGaveOneNumberTheYoungerIsTheHead) {
  TableDirectory table;
  table.put("00006-b.metadata.json", "older");
  table.put("00006-a.metadata.json", "younger");
  table.put("00005-c.metadata.json", "5");
  EXPECT_EQ(table.head(), "younger");
}

TEST(FindHead, ATableWhoseMetadataLiesElsewhereIsFoundBelowItsFolder) {
  TableDirectory table;
  table.store->replace("mem://w/t/meta/here/00002-a.metadata.json", table.bytes("2"));
  table.store->replace("mem://w/t/meta/here/00003-a.metadata.json", table.bytes("3"));
  EXPECT_EQ(table.head(), "3");
}

TEST(FindHead, AHeadThatCannotBeParsedIsAnErrorNotALowerVersion) {
  TableDirectory table;
  table.put("v1.metadata.json", "1");
  table.store->replace(table.path("v2.metadata.json"), "{\"format-version\":2,");
  table.hint("1");
  try {
    table.head();
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::corrupt);
    EXPECT_THAT(e.what(), HasSubstr("v2.metadata.json"));
  }
}

TEST(FindHead, NoTableIsNotFound) {
  TableDirectory table;
  EXPECT_FALSE(filesystem_table_exists(*table.store, "mem://w/t"));
  try {
    table.head();
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::not_found);
    EXPECT_THAT(e.what(), HasSubstr("mem://w/t"));
  }
}

// An old writer of a dropped table died between its put and its check.
TEST(FindHead, VersionsOfTwoTablesAreAnErrorThatNamesThem) {
  for (const bool has_hint : {false, true}) {
    for (const char* stray : {"v3.metadata.json", "v151.metadata.json"}) {
      if (has_hint && std::string(stray) == "v151.metadata.json") continue;  // above a gap it is no candidate
      SCOPED_TRACE(fmt::format("{} {}", stray, has_hint));
      TableDirectory table;
      table.put(stray, "of the dropped one");
      table.other_table();
      table.put("v1.metadata.json", "1");
      table.put("v2.metadata.json", "2");
      if (has_hint) table.hint("2");
      try {
        table.head();
        FAIL();
      } catch (const Error& e) {
        EXPECT_EQ(e.kind(), ErrorKind::corrupt);
        EXPECT_THAT(e.what(), HasSubstr(stray));
        EXPECT_THAT(e.what(), HasSubstr("v2.metadata.json"));
      }
    }
  }
}

TEST(FindHead, ALoadAgainReadsNoMetadataThatItHas) {
  TableDirectory table;
  for (int n = 1; n <= 9; ++n) table.put(fmt::format("v{}.metadata.json", n), std::to_string(n));
  table.hint("9");
  const auto operations = open_filesystem_table(table.store, "mem://w/t");
  const int64_t reads = table.store->num_reads(".metadata.json");
  EXPECT_EQ(operations->load().version, 9);
  EXPECT_EQ(operations->load().version, 9);
  EXPECT_EQ(table.store->num_reads(".metadata.json"), reads);
  table.put("v10.metadata.json", "10");
  EXPECT_EQ(operations->load().version, 10);
}

TEST(FindHead, ATableDroppedAndMadeAnewIsNotTheOneThatWasOpened) {
  TableDirectory table;
  table.put("v1.metadata.json", "1");
  table.hint("1");
  const auto operations = open_filesystem_table(table.store, "mem://w/t");
  table.other_table();
  table.put("v1.metadata.json", "another");
  try {
    operations->load();
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::not_found);
  }
  EXPECT_EQ(table.head(), "another");
}

TEST(MovedTables, AreReadAndWrittenWhereTheyLie) {
  const TempFolder folder;
  const auto io = make_local_file_io();
  create_filesystem_table(io, tiny_metadata(folder / "warehouse/t"));
  {
    const auto table = open_filesystem_table(io, folder / "warehouse/t");
    commit_snapshot(*table, tiny_append(*table->load().metadata, folder / "warehouse/t/data/a.parquet"));
  }
  rename_file(folder / "warehouse", folder / "elsewhere");
  for (const std::string& spelling :
       {folder / "elsewhere/t", folder / "elsewhere/./t/", "file://" + folder / "elsewhere/t"}) {
    SCOPED_TRACE(spelling);
    EXPECT_EQ(live_paths(*open_filesystem_table(io, spelling)).front(), folder / "warehouse/t/data/a.parquet");
  }
  const auto table = open_filesystem_table(io, folder / "elsewhere/t");
  commit_snapshot(*table, tiny_append(*table->load().metadata, folder / "warehouse/t/data/b.parquet"));
  rename_file(folder / "elsewhere", folder / "warehouse");
  EXPECT_EQ(live_paths(*open_filesystem_table(io, folder / "warehouse/t")).size(), 2u);
}

TEST(FilesystemCatalog, MapsNamesToFoldersAndListsThem) {
  const TempFolder folder;
  const auto catalog = make_filesystem_catalog(make_local_file_io(), folder.path());
  EXPECT_TRUE(catalog->list().empty());
  const LoadedTable made = catalog->create("nyc.flights", tiny_schema(), {}, {}, {});
  EXPECT_EQ(made.metadata_path, folder / "nyc/flights/metadata/v1.metadata.json");
  catalog->create("nyc.airports", tiny_schema(), {}, {}, {});
  EXPECT_EQ(catalog->list(), (std::vector<std::string>{"nyc.airports", "nyc.flights"}));
  EXPECT_EQ(catalog->table("nyc.flights")->load().metadata->table_uuid, made.metadata->table_uuid);
  EXPECT_EQ(make_local_file_io()->read(folder / "nyc/flights/metadata/version-hint.text"), "1");

  const auto kind_of = [](const auto& work) {
    try {
      work();
    } catch (const Error& e) {
      return e.kind();
    }
    return ErrorKind::internal;
  };
  EXPECT_EQ(kind_of([&] { catalog->create("nyc.flights", tiny_schema(), {}, {}, {}); }), ErrorKind::already_exists);
  EXPECT_EQ(kind_of([&] { catalog->table("nyc.none"); }), ErrorKind::not_found);
  for (const char* name : {"flights", ".flights", "nyc.", "a.b.c", "a/b.c", "..", ""}) {
    EXPECT_EQ(kind_of([&] { catalog->table(name); }), ErrorKind::invalid_argument) << name;
  }
}

// Another writer makes the table after its empty folder was listed and before what lies below is.
class MadeMeanwhile : public LocalDisk {
 public:
  explicit MadeMeanwhile(std::function<void()> make) : make_(std::move(make)) {}
  std::vector<FileInfo> list(const std::string& folder, bool recursive) override {
    if (recursive) std::exchange(make_, [] {})();
    return LocalDisk::list(folder, recursive);
  }

 private:
  std::function<void()> make_;
};

TEST(FindHead, ATableMadeWhileItIsOpenedIsNotTakenForOneBelowItself) {
  const TempFolder folder;
  const auto other = make_filesystem_catalog(make_local_file_io(), folder.path());
  std::optional<LoadedTable> made;
  const auto io =
      std::make_shared<MadeMeanwhile>([&] { made = other->create("nyc.flights", tiny_schema(), {}, {}, {}); });
  const LoadedTable opened = open_filesystem_table(io, folder / "nyc/flights")->load();
  ASSERT_TRUE(made);
  EXPECT_EQ(opened.metadata->table_uuid, made->metadata->table_uuid);
}

}  // namespace
}  // namespace firn::iceberg
