// The access log through rotation and trouble.
#include "hyp/receiver/access_log.h"

#include <filesystem>
#include <thread>

#include <gtest/gtest.h>

#include "base/error.h"
#include "io/file_io.h"
#include "support/temp_folder.h"

namespace firn::hyp {
namespace {

std::string content(const std::string& path) { return make_local_file_io()->read_if_exists(path).value_or(""); }

void wait_for(const std::string& path, const std::string& text) {
  for (int i = 0; i < 2000 && content(path) != text; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  EXPECT_EQ(content(path), text);
}

TEST(AccessLog, GoesOnInANewFileWhenItWasRenamedOrRemoved) {
  const TempFolder folder;
  const std::string path = folder / "a/access.log";
  AccessLog log(path);
  log.write("one");
  wait_for(path, "one\n");
  std::filesystem::rename(path, path + ".1");
  log.write("two");
  wait_for(path, "two\n");
  std::filesystem::remove(path);
  log.write("three");
  wait_for(path, "three\n");
  EXPECT_EQ(content(path + ".1"), "one\n");
}

TEST(AccessLog, APlaceThatWentAwayCostsLinesAndNothingElse) {
  const TempFolder folder;
  const std::string path = folder / "a/access.log";
  AccessLog log(path);
  std::filesystem::remove_all(folder / "a");
  log.write("lost");
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  std::filesystem::create_directories(folder / "a");
  log.write("there");
  wait_for(path, "there\n");
}

TEST(AccessLog, KeepsWhatWasThereAndWritesAllBeforeItEnds) {
  const TempFolder folder;
  const std::string path = folder / "access.log";
  { AccessLog(path).write("before"); }
  {
    AccessLog log(path);
    for (int i = 0; i < 1000; ++i) log.write("x");
  }
  std::string all = "before\n";
  for (int i = 0; i < 1000; ++i) all += "x\n";
  EXPECT_EQ(content(path), all);
  EXPECT_THROW(AccessLog(folder.path()), Error);
}

}  // namespace
}  // namespace firn::hyp
