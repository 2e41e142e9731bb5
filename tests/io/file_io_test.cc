#include "io/file_io.h"

#include <arrow/buffer.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "base/arrow_status.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/fault_point.h"
#include "io/local.h"
#include "support/temp_folder.h"

namespace firn {
namespace {

template <class Work>
std::optional<ErrorKind> kind_of(Work work) {
  try {
    work();
    return std::nullopt;
  } catch (const Error& e) {
    return e.kind();
  }
}

std::vector<std::string> paths_of(const std::vector<FileInfo>& files) {
  std::vector<std::string> paths;
  for (const FileInfo& file : files) paths.push_back(file.path);
  return paths;
}

void create_file(FileIO& io, const std::string& path, std::string_view bytes) {
  const std::unique_ptr<OutputFile> file = io.create(path);
  check(file->stream().Write(bytes), "write");
  file->close();
}

class LocalFileIOTest : public testing::Test {
 protected:
  std::shared_ptr<FileIO> io_ = make_local_file_io();
  TempFolder folder_;
};

TEST_F(LocalFileIOTest, ShowsACreatedFileOnlyOnceItIsClosed) {
  const std::string path = folder_ / "data/a.parquet";
  const std::unique_ptr<OutputFile> file = io_->create(path);
  check(file->stream().Write("small"), "write");
  check(file->stream().Write(std::string(1'000'000, 'x')), "write");
  check(file->stream().Write("end"), "write");
  EXPECT_EQ(file->stream().Tell().ValueOrDie(), 1'000'008);
  EXPECT_EQ(io_->stat(path), std::nullopt);
  EXPECT_TRUE(io_->list(folder_.path(), true).empty());
  file->close();
  EXPECT_EQ(file->path(), path);
  const std::string bytes = io_->read(path);
  EXPECT_EQ(bytes, "small" + std::string(1'000'000, 'x') + "end");
  const auto opened = io_->open(path);
  EXPECT_EQ(opened->GetSize().ValueOrDie(), 1'000'008);
  EXPECT_EQ(opened->ReadAt(0, 5).ValueOrDie()->ToString(), "small");
}

TEST_F(LocalFileIOTest, LeavesNothingOfAFileThatIsNotClosed) {
  check(io_->create(folder_ / "a")->stream().Write("x"), "write");
  EXPECT_TRUE(std::filesystem::is_empty(folder_.path()));
}

TEST_F(LocalFileIOTest, NeverCreatesOverAnotherWritersFile) {
  const std::string path = folder_ / "a";
  const std::unique_ptr<OutputFile> file = io_->create(path);
  EXPECT_TRUE(io_->put_if_absent(path, "theirs"));
  EXPECT_EQ(kind_of([&] { file->close(); }), ErrorKind::already_exists);
  EXPECT_EQ(io_->read(path), "theirs");
}

TEST_F(LocalFileIOTest, ReplacesWhatIsThereOnlyWhereToldTo) {
  const std::string path = folder_ / "a";
  EXPECT_TRUE(io_->put_if_absent(path, "old"));
  const std::unique_ptr<OutputFile> file = io_->create_or_replace(path);
  check(file->stream().Write("new"), "write");
  EXPECT_EQ(io_->read(path), "old");
  file->close();
  EXPECT_EQ(io_->read(path), "new");
  EXPECT_EQ(io_->list(folder_.path(), true).size(), 1u);
}

TEST_F(LocalFileIOTest, KeepsApartAbsentAndUnreadable) {
  EXPECT_EQ(io_->read_if_exists(folder_ / "none"), std::nullopt);
  EXPECT_EQ(kind_of([&] { io_->read(folder_ / "none"); }), ErrorKind::not_found);
  EXPECT_EQ(kind_of([&] { io_->open(folder_ / "none"); }), ErrorKind::not_found);
  EXPECT_EQ(kind_of([&] { io_->read_if_exists(folder_.path()); }), ErrorKind::io);  // a folder
  EXPECT_EQ(io_->stat(folder_ / "none"), std::nullopt);
  EXPECT_TRUE(io_->list(folder_ / "none", true).empty());
  EXPECT_EQ(kind_of([&] { io_->read("s3://bucket/key"); }), ErrorKind::unsupported);
}

TEST_F(LocalFileIOTest, PutsOnlyWhereNothingIs) {
  EXPECT_TRUE(io_->put_if_absent(folder_ / "m/v1", "one"));
  EXPECT_FALSE(io_->put_if_absent(folder_ / "m/v1", "two"));
  EXPECT_EQ(io_->read(folder_ / "m/v1"), "one");
}

TEST_F(LocalFileIOTest, GivesANewVersionToEveryContent) {
  const std::string path = folder_ / "hint";
  std::set<std::string> versions;
  for (int i = 0; i < 60; ++i) {
    io_->replace(path, std::to_string(100 + i));  // one size; freed inodes come back at once
    EXPECT_TRUE(versions.insert(io_->stat(path)->version).second);
  }
  const FileInfo info = *io_->stat(path);
  EXPECT_EQ(info.path, path);
  EXPECT_EQ(info.size_bytes, 3);
  EXPECT_NEAR(static_cast<double>(info.modified_ms), static_cast<double>(now_ms()), 60'000);
  EXPECT_EQ(io_->stat(folder_.path()), std::nullopt);  // folders are no files
}

TEST_F(LocalFileIOTest, ReplacesOnlyTheVersionThatWasSeen) {
  const std::string path = folder_ / "hint";
  EXPECT_FALSE(io_->replace_if(path, "1-2-3", "x"));
  EXPECT_TRUE(io_->replace_if(path, std::nullopt, "1"));
  EXPECT_FALSE(io_->replace_if(path, std::nullopt, "2"));
  const std::string first = io_->stat(path)->version;
  EXPECT_TRUE(io_->replace_if(path, first, "2"));
  EXPECT_FALSE(io_->replace_if(path, first, "3"));
  EXPECT_EQ(io_->read(path), "2");
}

TEST_F(LocalFileIOTest, CountsWithoutLossThroughReplaceIf) {
  const std::string path = folder_ / "counter";
  io_->replace(path, "0");
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int done = 0; done < 25;) {
        const std::string version = io_->stat(path)->version;
        const int value = std::stoi(io_->read(path));
        if (io_->replace_if(path, version, std::to_string(value + 1))) ++done;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(io_->read(path), "100");
}

TEST_F(LocalFileIOTest, ListsFilesInByteOrderAndIgnoresLeftovers) {
  for (const char* name : {"b", "a/x", "a/y/z", "a-b", ".dot"}) create_file(*io_, folder_ / name, "1");
  std::ofstream(folder_ / ".b.tmp-0123456789abcdef") << "leftover";
  std::filesystem::create_directory_symlink(folder_.path(), folder_ / "a/circle");
  std::filesystem::create_symlink(folder_ / "b", folder_ / "link");
  EXPECT_EQ(paths_of(io_->list(folder_.path(), false)),
            (std::vector<std::string>{folder_ / ".dot", folder_ / "a-b", folder_ / "b", folder_ / "link"}));
  EXPECT_EQ(paths_of(io_->list(folder_.path(), true)),
            (std::vector<std::string>{folder_ / ".dot", folder_ / "a-b", folder_ / "a/x", folder_ / "a/y/z",
                                      folder_ / "b", folder_ / "link"}));
  EXPECT_EQ(paths_of(io_->list("file://" + folder_ / "a/", true)),
            (std::vector<std::string>{"file://" + folder_ / "a/x", "file://" + folder_ / "a/y/z"}));
}

TEST_F(LocalFileIOTest, ListsTheLeftoversOfKilledWritersAlone) {
  const std::string left = folder_ / "a/.b.parquet.tmp-0123456789abcdef";
  std::filesystem::create_directories(folder_ / "a/.c.tmp-0123456789abcdef");
  for (const std::string& path : {left, folder_ / "a/b.parquet", folder_ / "a/.hidden", folder_ / "a/.b.tmp-0123",
                                  folder_ / "a/.b.tmp-0123456789ABCDEF", folder_ / "a/b.tmp-0123456789abcdef"})
    std::ofstream(path) << "1";
  EXPECT_EQ(paths_of(io_->list_leftovers(folder_.path())), std::vector<std::string>{left});
  EXPECT_EQ(paths_of(make_relocated_file_io(io_, "/t", folder_.path())->list_leftovers("/t")),
            std::vector<std::string>{"/t/a/.b.parquet.tmp-0123456789abcdef"});
  EXPECT_TRUE(io_->list_leftovers(folder_ / "none").empty());
}

// Case 19: names are opaque bytes. What is written under one is listed, read, replaced and removed under the same.
TEST_F(LocalFileIOTest, TakesNamesAsTheyAre) {
  const std::vector<std::string> names = {"with space", "with%20space", "plus+plus", "amp&",        "hash#", "ü",
                                          "a=b",        "x%2Fy",        "what?",     "back\\slash", "~",     "%"};
  for (const std::string& name : names) {
    SCOPED_TRACE(name);
    create_file(*io_, folder_ / "data/" + name, name);
    EXPECT_TRUE(io_->put_if_absent(folder_ / "metadata/" + name, name));
    EXPECT_FALSE(io_->put_if_absent(folder_ / "metadata/" + name, "another"));
  }
  for (const char* folder : {"data", "metadata"}) {
    const std::vector<FileInfo> files = io_->list(folder_ / folder, true);
    EXPECT_EQ(files.size(), names.size());
    for (const FileInfo& file : files) EXPECT_EQ(io_->read(file.path), file.path.substr(file.path.rfind('/') + 1));
  }
  for (const std::string& name : names) {
    const std::string path = folder_ / "data/" + name;
    EXPECT_EQ(io_->read(path), name);
    io_->replace(path, "new");
    EXPECT_EQ(io_->stat(path)->size_bytes, 3);
    io_->remove(path);
    EXPECT_EQ(io_->stat(path), std::nullopt);
  }
  EXPECT_TRUE(io_->list(folder_ / "data", true).empty());
}

TEST_F(LocalFileIOTest, RemovesAndIsHappyWhereNothingIs) {
  create_file(*io_, folder_ / "a", "1");
  io_->remove("file:" + folder_ / "a");
  io_->remove(folder_ / "a");
  EXPECT_EQ(io_->stat(folder_ / "a"), std::nullopt);
  io_->sync_folder(folder_.path());
}

TEST_F(LocalFileIOTest, LeavesNoFileWhenPublishingFails) {
  set_fault_handler([](const char* name) { fail(ErrorKind::io, "no space at {}", name); });
  const std::unique_ptr<OutputFile> file = io_->create(folder_ / "a");
  EXPECT_EQ(kind_of([&] { file->close(); }), ErrorKind::io);
  EXPECT_EQ(kind_of([&] { io_->put_if_absent(folder_ / "b", "x"); }), ErrorKind::io);
  EXPECT_EQ(kind_of([&] { io_->replace(folder_ / "c", "x"); }), ErrorKind::io);
  set_fault_handler(nullptr);
  EXPECT_TRUE(io_->list(folder_.path(), true).empty());
}

TEST(RelocatedFileIO, ReadsAndWritesAMovedTableUnderItsOldPaths) {
  const TempFolder folder;
  const auto local = make_local_file_io();
  const auto io = make_relocated_file_io(local, "file:///warehouse/t/", folder / "t");
  create_file(*io, "/warehouse/t/data/a", "a");
  EXPECT_TRUE(io->put_if_absent("file:/warehouse/t/data/b", "b"));
  io->replace("/warehouse/t/data/c", "c");
  EXPECT_EQ(local->read(folder / "t/data/a"), "a");
  EXPECT_EQ(io->read("/warehouse/t/data/b"), "b");
  EXPECT_EQ(io->stat("/warehouse/t/data/c")->path, "/warehouse/t/data/c");
  EXPECT_EQ(io->create("/warehouse/t/d")->path(), "/warehouse/t/d");
  const std::vector<FileInfo> files = io->list("/warehouse/t", true);
  ASSERT_EQ(files.size(), 3u);
  for (const FileInfo& file : files) EXPECT_EQ(io->read(file.path), file.path.substr(file.path.size() - 1));
  EXPECT_EQ(io->read(folder / "t/data/a"), "a");              // other paths are as they are
  EXPECT_EQ(io->stat("/warehouse/t2/data/a"), std::nullopt);  // a longer name is another folder
  io->remove("/warehouse/t/data/a");
  EXPECT_EQ(local->stat(folder / "t/data/a"), std::nullopt);
}

}  // namespace
}  // namespace firn
