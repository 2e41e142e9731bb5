// A flush that dies anywhere, and comes again.
#include <filesystem>

#include <gtest/gtest.h>

#include "hyp/cache/cache_box.h"
#include "support/crash.h"

namespace firn::hyp {
namespace {

namespace fs = std::filesystem;

// One box whose content is put back before each crash: tables hold absolute paths.
struct CrashBox {
  CacheBox box;
  std::string saved = box.folder / "saved";

  void save() const { copy(box.config.cache_root, saved); }
  void restore() const { copy(saved, box.config.cache_root); }
  static void copy(const std::string& from, const std::string& to) {
    fs::remove_all(to);
    fs::copy(from, to, fs::copy_options::recursive);
  }
};

// In small ranges, so that there are two of them.
void flush_all(const CacheBox& box) {
  Cache cache(box.config);
  const auto spool = Spool::open(box.config.cache_root);
  const auto report = flush(cache, *spool, {.range_bytes_max = 100});
  if (!report.problems.empty()) fail(ErrorKind::internal, "{}", report.problems[0]);
}

const Lines kEarlier = {R"({"n":0})"};
const Lines kWeb = {R"({"n":1,"m":"same"})", R"({"n":1,"m":"same"})", R"({"n":2,"new":true})"};
const Lines kDb = {R"({"n":5})", R"({"n":1,"m":"same"})", R"({"n":5})"};
const Lines kBad = {"{", R"({"n":"x"})", R"({"n":1,"n":2})"};

void fill(const CacheBox& box) {
  {
    Cache cache(box.config);
    ingest(cache, {make_frame("logs", "web", kEarlier)});
  }
  const auto spool = Spool::open(box.config.cache_root);
  spool->append({make_frame("logs", "web", {kWeb[0], kBad[0], kWeb[1], kWeb[2]}),
                 make_frame("logs", "db", {kDb[0], kDb[1], kBad[1]}),
                 make_frame("hosts", "s", {R"({"h":"a","v":1})", R"({"h":3})"}),
                 make_frame("logs", "db", {kDb[2], kBad[2]})});
}

void expect_everything_once(const CacheBox& box) {
  Cache cache(box.config);
  Lines web = kEarlier;
  web.insert(web.end(), kWeb.begin(), kWeb.end());
  EXPECT_EQ(cached_rows(cache, {"logs", "web"}), sorted_rows(web));
  EXPECT_EQ(cached_rows(cache, {"logs", "db"}), sorted_rows(kDb));
  EXPECT_EQ(cached_rows(cache, {"hosts", "a"}), Lines{R"({"h":"a","v":1})"});
  Lines bad = kBad;
  std::sort(bad.begin(), bad.end());
  EXPECT_EQ(rejected_texts(box, "logs"), bad);
  EXPECT_EQ(rejected_texts(box, "hosts"), Lines{R"({"h":3})"});
  for (const PartitionId& partition : cache.partitions("logs")) {
    const auto read = read_sequenced(cache, partition);
    EXPECT_TRUE(std::is_sorted(read.after.begin(), read.after.end(), std::less_equal<>()))
        << "equal or falling numbers";
  }
  const auto spool = Spool::open(box.config.cache_root);
  EXPECT_EQ(spool->unflushed_bytes(), 0);
}

// What a crash leaves is simulated (io/unsynced.h), so memory will do where nobody chose a place: hundreds of restarts
// wait for a disk's syncs otherwise.
struct FlushCrash : testing::Test {
  FlushCrash() {
    if (fs::is_directory("/dev/shm")) ::setenv("TMPDIR", "/dev/shm", /*replace=*/0);
  }
};

TEST_F(FlushCrash, EveryRowAndRejectIsThereOnceWhereverTheProcessDies) {
  CrashBox crash_box;
  CacheBox& box = crash_box.box;
  box.declare("hosts").source_column = "h";
  ASSERT_EQ(run_in_child([&] { fill(box); }), 0);
  crash_box.save();
  const auto points = fault_points_of([&] { flush_all(box); });
  expect_everything_once(box);
  ASSERT_GE(points.size(), 40u);
  for (const Crash crash : {Crash::process, Crash::power, Crash::power_later}) {
    for (size_t point = 0; point < points.size(); ++point) {
      if (crash == Crash::power_later && !leaves_undurable(points[point])) continue;
      SCOPED_TRACE(fmt::format("{} at {} ({})", to_text(crash), point, points[point]));
      crash_box.restore();
      run_killed_at(point, crash, [&] { flush_all(box); });
      ASSERT_EQ(run_in_child([&] { flush_all(box); }), 0);
      expect_everything_once(box);
      if (testing::Test::HasFailure()) return;
    }
  }
}

}  // namespace
}  // namespace firn::hyp
