// What is no command, no option, or no value of one.
#include "cli/firn/run_firn.h"

namespace firn {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

class FirnUsage : public FirnCommand {};

TEST_F(FirnUsage, AMistypedCommandIsGuessed) {
  EXPECT_THAT(error_of({"scna", table_}, 2), HasSubstr("there is no command scna, did you mean scan?"));
  EXPECT_THAT(error_of({"alter", "add-colum", table_}, 2), HasSubstr("did you mean add-column?"));
  EXPECT_THAT(error_of({"frobnicate"}, 2), HasSubstr("firn --help lists them"));
  EXPECT_THAT(output_of({"--version"}), StartsWith("firn "));
  EXPECT_EQ(output_of({"help"}), output_of({"--help"}));
  EXPECT_EQ(output_of({"help", "scan"}), output_of({"scan", "--help"}));
}

TEST_F(FirnUsage, AnOptionWhoseValueIsNoneIsWrongUsage) {
  create();
  const std::string rows = write("x.ndjson", "{\"id\":1}\n");
  const std::vector<Strings> all = {
      {"scan", table_, "--limit", "-1"},
      {"scan", table_, "--limit", "99999999999999999999"},
      {"scan", table_, "--where", "id ="},
      {"scan", table_, "--relocate", "x"},
      {"compact", table_, "--parallel", "0"},
      {"compact", table_, "--commits", "-1"},
      {"compact", table_, "--min-input-files", "-3"},
      {"compact", table_, "--delete-ratio", "7"},
      {"compact", table_, "--target-size", "12XB"},
      {"delete", table_, "--all", "--memory", "abc", "--dry-run"},
      {"upsert", table_, rows, "--key", "id", "--memory", "abc", "--dry-run"},
      {"expire", table_, "--older-than", "7"},
      {"expire", table_, "--retain-last", "0"},
      {"create", folder_ / "u", "--column", "id long", "--property", "foo"},
      {"append", table_, rows, "--format", "xml"},
      {"alter", "upgrade", table_, "7"},
  };
  for (const Strings& words : all) error_of(words, 2);
  EXPECT_THAT(error_of({"scan", table_, "--limit", "-1"}, 2), HasSubstr("'-1' is no whole number from 0 on"));
}

TEST_F(FirnUsage, AnEmptyValueIsNotTakenForNone) {
  create();
  const std::string rows = write("x.ndjson", "{\"id\":1}\n");
  const std::vector<Strings> all = {
      {"append", table_, rows, "--stage", ""},  {"append", table_, rows, "--commit-id", ""},
      {"append", table_, rows, "--branch", ""}, {"scan", table_, "--at", ""},
      {"scan", table_, "--where", ""},          {"scan", table_, "--output", ""},
      {"delete", table_, "--where", ""},        {"compact", table_, "--target-size", ""},
  };
  for (const Strings& words : all)
    EXPECT_THAT(error_of(words, 2), HasSubstr(words[words.size() - 2] + ": it is empty"));
  EXPECT_EQ(count(), "0\n");
}

TEST_F(FirnUsage, ATypeOfVersion3NamesTheOption) {
  EXPECT_THAT(error_of({"create", table_, "--column", "v variant"}), HasSubstr("--property format-version=3"));
}

}  // namespace
}  // namespace firn
