// How much of the disk a cache is said to take.
#include "hyp/daemon/disk_use.h"

#include <filesystem>

#include <gtest/gtest.h>

#include "io/links.h"
#include "io/local.h"
#include "support/temp_folder.h"

namespace firn::hyp {
namespace {

TEST(DiskUse, CountsEachFileOnceUnderHoweverManyNames) {
  const TempFolder folder;
  EXPECT_EQ(bytes_below(folder / "absent"), 0);
  EXPECT_EQ(bytes_below(folder.path()), 0);
  replace_file(folder / "a/b/one", std::string(1000, 'x'));
  replace_file(folder / "two", std::string(10, 'x'));
  hard_link_all({{folder / "a/b/one", folder / "c/same"}});
  std::filesystem::create_symlink(folder / "a", folder / "elsewhere");
  EXPECT_EQ(bytes_below(folder.path()), 1010);
}

TEST(DiskUse, WhatGrewSinceTheLastLookIsAdded) {
  const TempFolder folder;
  replace_file(folder / "one", std::string(1000, 'x'));
  DiskUse use(folder.path());
  EXPECT_EQ(use.bytes(300, 5000), 1000);
  EXPECT_EQ(use.bytes(340, 5000), 1040);
  EXPECT_EQ(use.bytes(100, 5000), 1000);
}

}  // namespace
}  // namespace firn::hyp
