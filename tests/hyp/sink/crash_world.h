// A cache with a sink that sent half of its rows. The sink's next run dies somewhere, something happens to the cache,
// and the sink runs again: each row is at the destination once (case 20, and what else may come between).
#pragma once

#include <algorithm>
#include <array>
#include <cstdlib>
#include <map>
#include <random>
#include <set>

#include "hyp/maintain/compaction.h"
#include "hyp/maintain/purge.h"
#include "hyp/maintain/retention.h"
#include "hyp/sink/sink_box.h"
#include "support/crash.h"
#include "support/test_seed.h"

namespace firn::hyp {

enum class Meanwhile : uint8_t { new_rows, new_column, retention, compaction, purge, other_version };
inline constexpr std::array kMeanwhile = {Meanwhile::new_rows,   Meanwhile::new_column, Meanwhile::retention,
                                          Meanwhile::compaction, Meanwhile::purge,      Meanwhile::other_version};
inline const char* name_of(Meanwhile what) {
  constexpr std::array kNames = {"new rows", "new column", "retention", "compaction", "purge", "other version"};
  return kNames.at(static_cast<size_t>(what));
}

// Each row has a number of its own, so that what arrived is known row by row.
class CrashWorld {
 public:
  virtual ~CrashWorld() = default;

  // That the run passes which is to die.
  const std::vector<std::string>& points() const { return points_; }

  void crash_at(size_t point, Crash crash) {
    copy_folder(saved_, box_.live);
    restore_destination();
    sink_now_ = sink_;
    next_ = kFirstNew;
    purged_.clear();
    die(point, crash);
  }

  virtual void happen(Meanwhile what, std::mt19937_64& random) {
    const bool is_first = next_ == kFirstNew;
    const int first = next_;
    next_ += 10;
    switch (what) {
      case Meanwhile::new_rows:
        return in_child([&] { flush(random() % 2 == 0 ? "web" : "db", first, 3); });
      case Meanwhile::new_column:
        return in_child([&] { box_.ingest_lines("logs", "web", {row_with_new_column(first)}); });
      case Meanwhile::retention:
        return in_child([&] {
          Cache cache(box_.config);
          int64_t removed = 0;  // rows 1 to 3 were sent before
          for (const PartitionId& partition : cache.partitions("logs"))
            removed += apply_retention(cache, partition, now_ms() + int64_t{3} * 86'400'000).rows_removed;
          if (removed == 0 && purged_.empty()) fail(ErrorKind::internal, "rows that were sent are past their age");
        });
      case Meanwhile::compaction:
        return in_child([&] {
          Cache cache(box_.config);
          bool is_swapped = false;  // the three files of web
          for (const PartitionId& partition : cache.partitions("logs"))
            is_swapped = compact_partition(cache, partition).swapped || is_swapped;
          if (!is_swapped && is_first) fail(ErrorKind::internal, "nothing was compacted");
        });
      case Meanwhile::purge: {
        const int gone = static_cast<int>(random() % 12) + 1;
        purged_.insert(gone);
        return in_child([&] {
          Cache cache(box_.config);
          const PurgeReport report = purge(cache, "logs", iceberg::parse_expression(fmt::format("n = {}", gone)));
          if (!report.problems.empty()) fail(ErrorKind::internal, "{}", report.problems[0]);
        });
      }
      case Meanwhile::other_version:
        change_settings(sink_now_, random);
        return change_intents();
    }
  }

  // The restart, and what must then be so.
  void retry_and_check() {
    run_again();
    std::map<int, int> times;
    for (const std::string& row : arrived()) times[Json::parse(row)["n"].get<int>()] += 1;
    for (const auto& [n, count] : times) EXPECT_EQ(count, 1) << "row " << n;
    for (int n = 1; n <= 12; ++n) EXPECT_TRUE(times.contains(n) || purged_.contains(n)) << "row " << n;
    const Cache cache(box_.config);
    for (const PartitionId& partition : cache.partitions("logs")) {
      for (const std::string& row : cached_rows(cache, partition)) {
        EXPECT_TRUE(times.contains(Json::parse(row)["n"].get<int>())) << row;
      }
    }
    for (const SinkPartitionStatus& status : sink_status(cache, sink_)) {
      EXPECT_EQ(status.rows_behind, 0);
      EXPECT_FALSE(status.pending);
      EXPECT_EQ(status.last_error, "");
    }
  }

 protected:
  CrashWorld() {
    DatasetConfig& logs = box_.declare("logs");
    logs.retention.days = 1;
    logs.retention.wait_for_sink_ack = true;
    logs.retention.grace_days = 365;
  }

  // Rows 1 to 12 of three opens in one partition, the first three of them sent, and two rows of another partition.
  void begin(SinkConfig sink) {
    sink.unit_rows_max = 3;
    sink.parallel_max = 1;  // points are counted
    sink_ = sink_now_ = sink;
    box_.config.sinks = {sink_};
    in_child([&] { flush("web", 1, 4); });
    in_child([&] { flush("web", 5, 4); });
    in_child([&] { flush("db", 101, 2); });
    run_first_unit();
    in_child([&] { flush("web", 9, 4); });
    copy_folder(box_.live, saved_);
    save_destination();
    points_ = count_points();
  }

  // What the destination has that is not below box_.live.
  virtual void save_destination() {}
  virtual void restore_destination() {}
  // Rows at the destination, and those that the sink put aside for good.
  virtual Lines arrived() { return delivered_rows(sink_); }
  // What another version of hyp may be set to.
  virtual void change_settings(SinkConfig& sink, std::mt19937_64& random) {
    sink.unit_rows_max = std::array{1, 2, 1000}[random() % 3];
  }

  virtual void run_first_unit() {
    in_child([&] {
      std::atomic<bool> cancelled{false};
      SinkRunOptions options;
      options.cancelled = &cancelled;
      options.progress = [&](const PartitionId&, int64_t) { cancelled = true; };
      options.partition = PartitionId{"logs", "web"};
      Cache cache(box_.config);
      run_sink(cache, sink_, options);
    });
  }
  virtual std::vector<std::string> count_points() {
    return fault_points_of([&] { box_.ship_well(sink_); });
  }
  virtual void die(size_t point, Crash crash) {
    run_killed_at(point, crash, [&] { box_.ship_well(sink_); });
  }
  virtual void run_again() {
    in_child([&] { box_.ship_well(sink_now_); });
  }

  static void in_child(const std::function<void()>& work) { ASSERT_EQ(run_in_child(work), 0); }

  SinkBox box_;
  SinkConfig sink_, sink_now_;  // of the run that dies, and of the next one

 private:
  static std::string row(int n) { return fmt::format(R"({{"a_text_of_the_row":"text","n":{}}})", n); }
  static std::string row_with_new_column(int n) { return fmt::format(R"({{"n":{},"since{}":true}})", n, n); }
  void flush(const std::string& source, int first, int count) const {
    Lines lines;
    for (int n = first; n < first + count; ++n) lines.push_back(row(n));
    box_.ingest_lines("logs", source, lines);
  }

  // They are of a hyp with other limits and with members that this one does not know.
  void change_intents() const {
    for (const char* source : {"web", "db"}) {
      const std::string path = box_.watermark_file(sink_, {"logs", source});
      const auto text = make_local_file_io()->read_if_exists(path);
      if (!text) continue;
      Json json = Json::parse(*text);
      json["laterMember"] = {{"a", 1}};
      if (json.contains("pending")) {
        json["pending"]["limits"] = {{"rows", 77}, {"bytes", 7777}, {"perCent", 7}};
        json["pending"]["laterMember"] = "x";
      }
      replace_file(path, json.dump());
    }
  }

  static constexpr int kFirstNew = 1000;
  const std::string saved_ = box_.folder / "saved";
  std::vector<std::string> points_;
  int next_ = kFirstNew;  // number of the next row that comes
  std::set<int> purged_;
};

struct CrashDraw {
  Crash crash = Crash::process;
  std::vector<Meanwhile> meanwhile;  // in that order
};
// What is tried at one point: one draw, or where `is_long` each thing that may happen after each crash, and some
// together.
inline std::vector<CrashDraw> draw_crashes(const std::vector<Crash>& crashes, bool is_long, std::mt19937_64& random) {
  std::vector<CrashDraw> draws;
  if (is_long) {
    for (const Crash crash : crashes) {
      for (const Meanwhile what : kMeanwhile) draws.push_back({crash, {what}});
    }
  }
  for (int i = 0; i < (is_long ? 6 : 1); ++i) {
    CrashDraw& draw = draws.emplace_back();
    draw.crash = crashes[random() % crashes.size()];
    draw.meanwhile.assign(kMeanwhile.begin(), kMeanwhile.end());
    std::shuffle(draw.meanwhile.begin(), draw.meanwhile.end(), random);
    draw.meanwhile.resize(1 + random() % (is_long ? 4 : 2));
  }
  return draws;
}

// FIRN_TEST_SEED replays it, FIRN_LONG takes all.
inline void crash_at_each_point(CrashWorld& world, const std::vector<Crash>& crashes) {
  const bool is_long = std::getenv("FIRN_LONG") != nullptr;
  std::mt19937_64 random(test_seed());
  for (size_t point = 0; point < world.points().size(); ++point) {
    for (const CrashDraw& draw : draw_crashes(crashes, is_long, random)) {
      std::string story = fmt::format("{} at {} ({})", to_text(draw.crash), point, world.points()[point]);
      for (const Meanwhile what : draw.meanwhile) story += fmt::format(", {}", name_of(what));
      SCOPED_TRACE(story);
      world.crash_at(point, draw.crash);
      for (const Meanwhile what : draw.meanwhile) world.happen(what, random);
      world.retry_and_check();
      if (testing::Test::HasFailure()) return;
    }
  }
}

}  // namespace firn::hyp
