#include "io/local.h"
#include "io/links.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <set>
#include <thread>

#include "base/error.h"
#include "base/fault_point.h"
#include "support/crash.h"
#include "support/temp_folder.h"

namespace firn {
namespace {

namespace fs = std::filesystem;

std::string read_text(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void write_text(const std::string& path, std::string_view text) { std::ofstream(path, std::ios::binary) << text; }

std::set<std::string> names_in(const std::string& folder) {
  std::set<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) names.insert(entry.path().filename());
  return names;
}

template <class Work>
std::optional<ErrorKind> kind_of(Work work) {
  try {
    work();
    return std::nullopt;
  } catch (const Error& e) {
    return e.kind();
  }
}

TEST(MakeDirectories, MakesAllThatIsMissingAndIsHappyWithWhatIsThere) {
  const TempFolder folder;
  make_directories(folder / "a/b/c");
  make_directories(folder / "a/b/c/");
  make_directories(folder / "a//b/d");
  EXPECT_TRUE(fs::is_directory(folder / "a/b/c"));
  EXPECT_TRUE(fs::is_directory(folder / "a/b/d"));
  write_text(folder / "file", "x");
  EXPECT_EQ(kind_of([&] { make_directories(folder / "file"); }), ErrorKind::io);
  EXPECT_EQ(kind_of([&] { make_directories(folder / "file/below"); }), ErrorKind::io);
}

TEST(MakeDirectories, MayBeRacedByManyProcesses) {
  const TempFolder folder;
  const int num_failed = run_in_children(4, [&](int) {
    for (int k = 0; k < 50; ++k) make_directories(folder / fmt::format("{}/x/y", k));
  });
  EXPECT_EQ(num_failed, 0);
}

TEST(ReplaceFile, IsSeenWholeByEveryReader) {
  const TempFolder folder;
  const std::string path = folder / "value";
  const auto content = [](int i) { return std::string(20'000, static_cast<char>('a' + i % 26)); };
  replace_file(path, content(0));
  std::atomic<bool> is_done{false};
  std::thread reader([&] {
    while (!is_done) {
      const std::string text = read_text(path);
      ASSERT_EQ(text.size(), 20'000u);
      ASSERT_EQ(text, std::string(20'000, text[0]));
    }
  });
  for (int i = 1; i <= 100; ++i) replace_file(path, content(i));
  is_done = true;
  reader.join();
  EXPECT_EQ(read_text(path), content(100));
  EXPECT_EQ(names_in(folder.path()), std::set<std::string>{"value"});
}

TEST(LinkNewFile, HasOneWinnerAmongProcesses) {
  const TempFolder folder;
  constexpr int kProcesses = 4;
  constexpr int kNames = 25;
  // Each process writes one line per name that it won.
  const int num_failed = run_in_children(kProcesses, [&](int p) {
    std::ofstream won(folder / fmt::format("won-{}", p));
    for (int k = 0; k < kNames; ++k) {
      if (link_new_file(folder / fmt::format("race/v{}", k), std::to_string(p))) won << k << "\n";
    }
  });
  EXPECT_EQ(num_failed, 0);
  std::vector<int> winner_of(kNames, -1);
  for (int p = 0; p < kProcesses; ++p) {
    std::ifstream won(folder / fmt::format("won-{}", p));
    for (int k; won >> k;) {
      EXPECT_EQ(winner_of[k], -1) << "two winners of v" << k;
      winner_of[k] = p;
    }
  }
  for (int k = 0; k < kNames; ++k) {
    EXPECT_EQ(read_text(folder / fmt::format("race/v{}", k)), std::to_string(winner_of[k]));
  }
  EXPECT_EQ(names_in(folder / "race").size(), static_cast<size_t>(kNames));  // no temporaries left
}

TEST(LinkNewFile, NeverReplacesAndTakesLongNames) {
  const TempFolder folder;
  const std::string path = folder / std::string(255, 'n');
  EXPECT_TRUE(link_new_file(path, "first"));
  EXPECT_FALSE(link_new_file(path, "second"));
  EXPECT_EQ(read_text(path), "first");
}

TEST(Files, AreLinkedRenamedAndRemoved) {
  const TempFolder folder;
  replace_file(folder / "a", "1");
  hard_link_all({{folder / "a", folder / "links/b"}});
  EXPECT_EQ(read_text(folder / "links/b"), "1");
  EXPECT_EQ(kind_of([&] { hard_link_all({{folder / "a", folder / "links/b"}}); }), ErrorKind::already_exists);
  EXPECT_EQ(kind_of([&] { hard_link_all({{folder / "none", folder / "c"}}); }), ErrorKind::not_found);
  replace_file(folder / "moved/b", "old");
  rename_file(folder / "links/b", folder / "moved/b");
  EXPECT_EQ(read_text(folder / "moved/b"), "1");
  EXPECT_EQ(kind_of([&] { rename_file(folder / "links/b", folder / "x"); }), ErrorKind::not_found);
  remove_file(folder / "moved/b");
  remove_file(folder / "moved/b");
  remove_file(folder / "nowhere/b");
  EXPECT_FALSE(fs::exists(folder / "moved/b"));
  replace_file(folder / "tree/x/y/z", "1");
  fs::create_symlink(folder / "a", folder / "tree/x/link");
  fs::create_directory_symlink(folder / "moved", folder / "tree/folder-link");
  remove_tree(folder / "tree");
  remove_tree(folder / "tree");
  EXPECT_FALSE(fs::exists(folder / "tree"));
  EXPECT_EQ(read_text(folder / "a"), "1");
  EXPECT_TRUE(fs::exists(folder / "moved"));  // a link is removed, not followed
  EXPECT_EQ(kind_of([&] { sync_directory(folder / "none"); }), ErrorKind::not_found);
}

TEST(FileLock, ExcludesOtherHoldersInThisProcess) {
  const TempFolder folder;
  const std::string path = folder / "sub/lock";
  std::optional<FileLock> held = FileLock::try_acquire(path, FileLock::Mode::exclusive);
  ASSERT_TRUE(held);
  EXPECT_FALSE(FileLock::try_acquire(path, FileLock::Mode::exclusive));
  EXPECT_FALSE(FileLock::try_acquire(path, FileLock::Mode::shared));
  held.reset();
  std::optional<FileLock> first = FileLock::try_acquire(path, FileLock::Mode::shared);
  std::optional<FileLock> second = FileLock::try_acquire(path, FileLock::Mode::shared);
  EXPECT_TRUE(first && second);
  EXPECT_FALSE(FileLock::try_acquire(path, FileLock::Mode::exclusive));
  first.reset();
  const FileLock moved = std::move(*second);
  EXPECT_FALSE(FileLock::try_acquire(path, FileLock::Mode::exclusive));
  EXPECT_TRUE(fs::exists(path));
}

TEST(FileLock, CountsWithoutLossAmongProcesses) {
  const TempFolder folder;
  const std::string counter = folder / "counter";
  write_text(counter, "0");
  const int num_failed = run_in_children(4, [&](int) {
    for (int i = 0; i < 100; ++i) {
      const FileLock lock = FileLock::acquire(folder / "lock", FileLock::Mode::exclusive);
      const int value = std::stoi(read_text(counter));
      write_text(counter, std::to_string(value + 1));
    }
  });
  EXPECT_EQ(num_failed, 0);
  EXPECT_EQ(read_text(counter), "400");
}

TEST(FileLock, IsDroppedWhenItsProcessIsKilled) {
  const TempFolder folder;
  const std::string path = folder / "lock";
  const pid_t pid = ::fork();
  if (pid == 0) {
    const FileLock lock = FileLock::acquire(path, FileLock::Mode::exclusive);
    write_text(folder / "held", "1");
    while (true) ::pause();
  }
  while (read_text(folder / "held").empty()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_FALSE(FileLock::try_acquire(path, FileLock::Mode::shared));
  ::kill(pid, SIGKILL);
  const FileLock lock = FileLock::acquire(path, FileLock::Mode::exclusive);  // waits for the kernel
  ::waitpid(pid, nullptr, 0);
}

TEST(AppendFile, GrowsIsOpenedAgainAndCut) {
  const TempFolder folder;
  const std::string path = folder / "spool/1";
  {
    AppendFile file = AppendFile::open(path);
    file.append("hello ");
    file.append("");
    file.append("world");
    EXPECT_EQ(file.size_bytes(), 11);
    file.sync();
  }
  {
    AppendFile file = AppendFile::open(path);
    EXPECT_EQ(file.size_bytes(), 11);
    file.append("!");
  }
  AppendFile file = AppendFile::open(path, 6);
  EXPECT_EQ(file.size_bytes(), 6);
  file.append("there");
  EXPECT_EQ(read_text(path), "hello there");
  EXPECT_EQ(kind_of([&] { AppendFile::open(path, 12); }), ErrorKind::corrupt);
}

TEST(AppendFile, IsToBeAbandonedAfterAFailedSync) {
  const TempFolder folder;
  AppendFile file = AppendFile::open(folder / "segment");
  file.append("row");
  set_fault_handler([](const char* name) {
    if (std::string_view(name) == "io.append.before_sync") fail(ErrorKind::io, "injected");
  });
  EXPECT_EQ(kind_of([&] { file.sync(); }), ErrorKind::io);
  set_fault_handler(nullptr);
  EXPECT_EQ(kind_of([&] { file.sync(); }), ErrorKind::io);
  EXPECT_EQ(kind_of([&] { file.append("more"); }), ErrorKind::io);
}

TEST(AppendFile, ReportsAFullDisk) {
  AppendFile file = AppendFile::open("/dev/full");
  EXPECT_EQ(kind_of([&] { file.append("row"); }), ErrorKind::io);
  EXPECT_EQ(kind_of([&] { file.append("row"); }), ErrorKind::io);
}

}  // namespace
}  // namespace firn
