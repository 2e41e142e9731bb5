// Each durable step of io/, ended at each of its fault points: by a killed process, and by a power cut.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>

#include "base/arrow_status.h"
#include "base/fault_point.h"
#include "io/file_io.h"
#include "io/links.h"
#include "io/local.h"
#include "io/temporary_file.h"
#include "io/unsynced.h"
#include "support/crash.h"
#include "support/run_program.h"
#include "support/temp_folder.h"

namespace firn {
namespace {

namespace fs = std::filesystem;

std::string read_text(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

using Tree = std::set<std::string>;

// Every file and folder but leftover temporaries: "d/", "f=content".
Tree tree_of(const std::string& folder) {
  Tree tree;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    const std::string name = fs::relative(entry.path(), folder);
    if (name.find(".tmp-") != std::string::npos) continue;
    tree.insert(entry.is_directory() ? name + "/" : name + "=" + read_text(entry.path()));
  }
  return tree;
}

// As run_killed_at, but the process lives on: it stops, restarts and does the work again, to its end.
int stop_and_restart(size_t index, Crash crash, const std::string& folder, Tree& stopped,
                     const std::function<void(const std::string&)>& work) {
  TempFolder told;
  const int status = run_in_child([&] {
    if (crash == Crash::power) unsynced::enable();
    set_fault_handler([&, passes = size_t{0}](const char*) mutable {
      if (passes++ == index) stop_program();
    });
    try {
      work(folder);
    } catch (const Stopped&) {
    }
    set_fault_handler(nullptr);
    if (!is_program_stopped()) fail(ErrorKind::internal, "there is no pass {}", index);
    if (crash == Crash::power) unsynced::forget_now();
    std::ofstream file(told / "tree");
    for (const std::string& entry : tree_of(folder)) file << entry << "\n";
    restart_program();
    forget_durable_folders();
    work(folder);
  });
  std::ifstream file(told / "tree");
  for (std::string entry; std::getline(file, entry);) stopped.insert(entry);
  return status;
}

// Ends `work` at each of its points over what `prepare` made; returns every state found afterwards. Checks that running
// `work` again from there ends in `last`, and that a program which stops in place of its process leaves the same.
std::vector<Tree> states_after(Crash crash, const std::function<void(const std::string&)>& prepare,
                               const std::function<void(const std::string&)>& work, const Tree& last) {
  size_t num_points = 0;
  {
    const TempFolder folder;
    prepare(folder.path());
    num_points = fault_points_of([&] { work(folder.path()); }).size();
    EXPECT_EQ(tree_of(folder.path()), last);
  }
  EXPECT_GT(num_points, 0u);
  std::vector<Tree> states;
  for (size_t point = 0; point < num_points; ++point) {
    SCOPED_TRACE(point);
    const TempFolder folder;
    prepare(folder.path());
    run_killed_at(point, crash, [&] { work(folder.path()); });
    states.push_back(tree_of(folder.path()));
    work(folder.path());
    EXPECT_EQ(tree_of(folder.path()), last);

    const TempFolder other;
    prepare(other.path());
    Tree stopped;
    EXPECT_EQ(stop_and_restart(point, crash, other.path(), stopped, work), 0);
    EXPECT_EQ(stopped, states.back());
    EXPECT_EQ(tree_of(other.path()), last);
  }
  return states;
}

void prepare_nothing(const std::string&) {}

TEST(IoCrash, PutIfAbsentIsThereOrNot) {
  const auto work = [](const std::string& folder) { link_new_file(folder + "/v1", "x"); };
  const Tree none;
  const Tree done = {"v1=x"};
  EXPECT_EQ(states_after(Crash::process, prepare_nothing, work, done), (std::vector<Tree>{none, done, done}));
  EXPECT_EQ(states_after(Crash::power, prepare_nothing, work, done), (std::vector<Tree>{none, none, none}));
}

TEST(IoCrash, ReplaceLeavesTheOldContentOrTheNew) {
  const auto prepare = [](const std::string& folder) { replace_file(folder + "/hint", "1"); };
  const auto work = [](const std::string& folder) { replace_file(folder + "/hint", "2"); };
  const Tree before = {"hint=1"};
  const Tree done = {"hint=2"};
  EXPECT_EQ(states_after(Crash::process, prepare, work, done), (std::vector<Tree>{before, done}));
  EXPECT_EQ(states_after(Crash::power, prepare, work, done), (std::vector<Tree>{before, before}));
}

TEST(IoCrash, RemoveIsTakenBackByAPowerCutBeforeTheSync) {
  const auto prepare = [](const std::string& folder) { replace_file(folder + "/a", "1"); };
  const auto work = [](const std::string& folder) { remove_file(folder + "/a"); };
  EXPECT_EQ(states_after(Crash::process, prepare, work, {}), (std::vector<Tree>{{"a=1"}, {}}));
  EXPECT_EQ(states_after(Crash::power, prepare, work, {}), (std::vector<Tree>{{"a=1"}, {"a=1"}}));
}

TEST(IoCrash, RemoveTreeIsTakenBackWhole) {
  const auto prepare = [](const std::string& folder) {
    replace_file(folder + "/t/x/1", "one");
    replace_file(folder + "/t/2", "two");
  };
  const auto work = [](const std::string& folder) { remove_tree(folder + "/t"); };
  const Tree before = {"t/", "t/x/", "t/x/1=one", "t/2=two"};
  for (const Tree& state : states_after(Crash::power, prepare, work, {})) EXPECT_EQ(state, before);
  EXPECT_EQ(states_after(Crash::process, prepare, work, {}).back(), Tree());
}

TEST(IoCrash, RenameAcrossFoldersIsAllOrNothing) {
  const auto prepare = [](const std::string& folder) {
    if (fs::exists(folder + "/b/f")) return;
    replace_file(folder + "/a/f", "new");
    replace_file(folder + "/b/f", "old");
  };
  const auto work = [](const std::string& folder) {
    if (fs::exists(folder + "/a/f")) rename_file(folder + "/a/f", folder + "/b/f");
  };
  const Tree before = {"a/", "a/f=new", "b/", "b/f=old"};
  const Tree done = {"a/", "b/", "b/f=new"};
  EXPECT_EQ(states_after(Crash::process, prepare, work, done), (std::vector<Tree>{before, done}));
  EXPECT_EQ(states_after(Crash::power, prepare, work, done), (std::vector<Tree>{before, before}));
}

TEST(IoCrash, ACreatedFileIsWholeOrAbsentAndItsFoldersComeFirst) {
  const auto work = [](const std::string& folder) {
    const auto io = make_local_file_io();
    if (io->stat(folder + "/d/e/f")) return;
    const auto file = io->create(folder + "/d/e/f");
    check(file->stream().Write("content"), "write");
    file->close();
  };
  const Tree done = {"d/", "d/e/", "d/e/f=content"};
  // Points: make d, sync, make e, sync, link, unlink the temporary, sync.
  const Tree none;
  const Tree d = {"d/"};
  const Tree de = {"d/", "d/e/"};
  EXPECT_EQ(states_after(Crash::process, prepare_nothing, work, done),
            (std::vector<Tree>{none, d, d, de, de, done, done}));
  EXPECT_EQ(states_after(Crash::power, prepare_nothing, work, done), (std::vector<Tree>{none, none, d, d, de, de, de}));
}

TEST(IoCrash, AppendedBytesLastFromTheirSync) {
  const auto prepare = [](const std::string& folder) {
    AppendFile file = AppendFile::open(folder + "/s");
    file.append("one,");
    file.sync();
  };
  const auto work = [](const std::string& folder) {
    AppendFile file = AppendFile::open(folder + "/s", 4);
    file.append("two,");
    file.append("three,");
    file.sync();
    file.append("four");
    file.sync();
  };
  const Tree done = {"s=one,two,three,four"};
  EXPECT_EQ(states_after(Crash::process, prepare, work, done),
            (std::vector<Tree>{{"s=one,two,three,"}, {"s=one,two,three,four"}}));
  EXPECT_EQ(states_after(Crash::power, prepare, work, done), (std::vector<Tree>{{"s=one,"}, {"s=one,two,three,"}}));
}

TEST(IoCrash, ASegmentsNameLastsFromItsFoldersSync) {
  const auto work = [](const std::string& folder) {
    AppendFile file =
        AppendFile::open(folder + "/s", fs::exists(folder + "/s") ? std::optional<int64_t>(0) : std::nullopt);
    file.append("one");
    file.sync();
  };
  EXPECT_EQ(states_after(Crash::power, prepare_nothing, work, {"s=one"}), (std::vector<Tree>{{}, {}, {"s="}}));
}

TEST(IoStopped, ChangesNothingAndIsNoErrorToHandle) {
  const TempFolder folder;
  replace_file(folder / "f", "1");
  AppendFile log = AppendFile::open(folder / "log");
  const Tree before = tree_of(folder.path());
  {
    TemporaryFile begun(folder / "begun");
    stop_program();
    for (const std::function<void()>& step : std::vector<std::function<void()>>{
             [&] { replace_file(folder / "f", "2"); }, [&] { link_new_file(folder / "g", "2"); },
             [&] { rename_file(folder / "f", folder / "g"); }, [&] { make_directories(folder / "d"); },
             [&] { sync_directory(folder.path()); },
             [&] {
               hard_link_all({{folder / "f", folder / "g"}});
             },
             [&] { FileLock::try_acquire(folder / "lock", FileLock::Mode::shared); }, [&] { log.append("x"); },
             [&] { begun.write("x"); }, [&] { fault_point("test.one"); }}) {
      EXPECT_THROW(step(), Stopped);
    }
    EXPECT_NO_THROW(remove_file(folder / "f"));
    EXPECT_NO_THROW(remove_tree(folder.path()));
    EXPECT_FALSE(survives_fault_point("test.one"));
  }
  EXPECT_EQ(tree_of(folder.path()), before);
  restart_program();
  EXPECT_TRUE(survives_fault_point("test.one"));
  remove_file(folder / "f");
  EXPECT_EQ(tree_of(folder.path()), Tree{"log="});
}

// What the test below runs in a process of its own, where the environment is read anew: one thread writes files that it
// never syncs while another passes fault points until it is killed.
TEST(UnsyncedPayload, DISABLED_WritesFromTwoThreads) {
  const char* folder = std::getenv("FIRN_TEST_FOLDER");
  ASSERT_NE(folder, nullptr);
  std::thread unsynced_writer([&] {
    AppendFile file = AppendFile::open(std::string(folder) + "/s");
    while (true) file.append("lost");
  });
  for (int i = 0;; ++i) replace_file(fmt::format("{}/f{}", folder, i), "kept");
}

TEST(Unsynced, ForgetsAtAKillWhileOtherThreadsGoOn) {
  // The writer's own two points (create, sync) come somewhere among the others; the files after the kill tell how far
  // it came.
  for (int kill_at = 3; kill_at < 23; kill_at += 2) {
    const TempFolder folder;
    const ProgramResult result =
        run_program({"/proc/self/exe", "--gtest_also_run_disabled_tests", "--gtest_filter=UnsyncedPayload.*"},
                    {{"FIRN_TEST_FOLDER", folder.path()},
                     {"FIRN_FAULT_KILL_AT", std::to_string(kill_at)},
                     {"FIRN_FAULT_FORGET", "1"}});
    ASSERT_EQ(result.status, 137) << result.out << result.err;
    const Tree tree = tree_of(folder.path());
    for (const std::string& file : tree) EXPECT_TRUE(file == "s=" || file.ends_with("=kept")) << file;
    EXPECT_GE(static_cast<int>(tree.size()), (kill_at - 1 - 2) / 2);
  }
}

TEST(Unsynced, FollowsAnAppendedFileThroughARename) {
  const TempFolder folder;
  EXPECT_EQ(run_in_child([&] {
              unsynced::enable();
              AppendFile file = AppendFile::open(folder / "a");
              file.append("synced,");
              file.sync();
              file.append("lost");
              rename_file(folder / "a", folder / "b");
              unsynced::forget_now();
            }),
            0);
  EXPECT_EQ(tree_of(folder.path()), Tree{"b=synced,"});
}

TEST(Unsynced, UndoesLatestFirst) {
  const TempFolder folder;
  replace_file(folder / "f", "1");
  EXPECT_EQ(run_in_child([&] {
              unsynced::enable();
              // Two replacements and a removal of one name, none of them synced.
              for (const char* text : {"2", "3"}) {
                std::ofstream(folder / "new") << text;
                const unsynced::Step step;
                const std::string kept = unsynced::keep(folder / "f", folder.path());
                fs::rename(folder / "new", folder / "f");
                unsynced::renamed(folder / "new", folder / "f", kept);
              }
              const std::string kept = unsynced::keep(folder / "f", folder.path());
              fs::remove(folder / "f");
              unsynced::removed(folder / "f", folder.path(), kept);
              unsynced::forget_now();
            }),
            0);
  EXPECT_EQ(read_text(folder / "f"), "1");
}

}  // namespace
}  // namespace firn
