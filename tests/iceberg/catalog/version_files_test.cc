// Names of metadata files and hints (cases 7 and 8 of the public bug reports).
#include "iceberg/catalog/version_files.h"

#include <gtest/gtest.h>

namespace firn::iceberg {
namespace {

TEST(MetadataFileNames, EverySpellingThatWritersUseIsUnderstood) {
  const auto version = [](std::string_view name) {
    const auto parsed = parse_metadata_file_name(name);
    return parsed ? std::pair(parsed->version, parsed->is_numbered) : std::pair<int64_t, bool>(-1, false);
  };
  EXPECT_EQ(version("v3.metadata.json"), std::pair(int64_t{3}, true));
  EXPECT_EQ(version("v3.gz.metadata.json"), std::pair(int64_t{3}, true));
  EXPECT_EQ(version("v3.metadata.json.gz"), std::pair(int64_t{3}, true));
  EXPECT_EQ(version("00003-9ec47bf9-bbcf-4bdb-a239-72c460cd30e3.metadata.json"), std::pair(int64_t{3}, false));
  EXPECT_EQ(version("00003-9ec47bf9-bbcf-4bdb-a239-72c460cd30e3.gz.metadata.json"), std::pair(int64_t{3}, false));
  EXPECT_EQ(version("100003-9ec47bf9-bbcf-4bdb-a239-72c460cd30e3.metadata.json.gz"), std::pair(int64_t{100003}, false));
}

TEST(MetadataFileNames, OtherFilesOfTheFolderAreNot) {
  for (const char* name :
       {"version-hint.text", "snap-1-1-a.avro", "v.metadata.json", "v-3.metadata.json", "v3x.metadata.json",
        "3.metadata.json", "00003-.metadata.json", "vv3.metadata.json", ".metadata.json", "v3.metadata.json.crc",
        "v99999999999999999999.metadata.json", "-3-a.metadata.json", ""}) {
    EXPECT_FALSE(parse_metadata_file_name(name)) << name;
  }
}

TEST(VersionHints, NumbersAndFileNamesAreUnderstood) {
  const auto version = [](std::string_view text) {
    const auto hint = parse_version_hint(text);
    return hint ? hint->version : -1;
  };
  EXPECT_EQ(version("3"), 3);
  EXPECT_EQ(version("3\n"), 3);
  EXPECT_EQ(version(" 3\r\n"), 3);
  EXPECT_EQ(version("v3"), 3);
  EXPECT_EQ(version("v3.metadata.json\n"), 3);
  EXPECT_EQ(version("v3.gz.metadata.json"), 3);
  EXPECT_EQ(version("s3://b/t/metadata/00007-9ec47bf9.metadata.json"), 7);
  EXPECT_EQ(version("00007-9ec47bf9"), 7);
  EXPECT_EQ(version(""), -1);
  EXPECT_EQ(version(" \n"), -1);
  EXPECT_EQ(version("three"), -1);
  EXPECT_EQ(version("-3"), -1);
}

}  // namespace
}  // namespace firn::iceberg
