// A forward sink, or its receiver, that dies anywhere; the sink comes again with more rows waiting (case 20).
#include <fstream>
#include <mutex>

#include "base/fault_point.h"
#include "hyp/forward/end_to_end_box.h"
#include "hyp/forward/forward_box.h"
#include "hyp/sink/crash_world.h"
#include "io/unsynced.h"
#include "support/crash.h"

namespace firn::hyp {
namespace {

const Lines kFirst = {R"({"m":"same","n":1})", R"({"m":"same","n":1})", R"({"bad":1,"n":2})"};
const Lines kSecond = {R"({"n":4,"when":"2024-03-01T10:00:00.000000+00:00"})", R"({"n":5})", R"({"n":6})"};
const Lines kOther = {R"({"bad":2,"n":7})"};
const Lines kNew = {R"({"n":10})", R"({"m":"same","n":1})", R"({"n":11,"new":true})", R"({"bad":3,"n":12})"};

bool is_bad(const std::string& row) { return Json::parse(row).contains("bad") && !Json::parse(row)["bad"].is_null(); }

Lines part(const Lines& rows, bool bad) {
  Lines some;
  for (const std::string& row : rows) {
    if (is_bad(row) == bad) some.push_back(row);
  }
  return some;
}

class ForwardCrash : public testing::TestWithParam<Crash> {};

// Units of several bodies, two partitions, rows of two opens in one of them, and rows that the receiver refuses.
TEST_P(ForwardCrash, EveryRowArrivesOnceWhereverTheSinkDies) {
  ForwardBox box;
  box.receiver.refuse_rows(is_bad);
  box.sink.unit_bytes_max = 100;
  box.sink.unit_rows_max = 3;
  box.sink.parallel_max = 1;
  const std::string saved = box.folder / "saved", later = box.folder / "later";
  ASSERT_EQ(run_in_child([&] {
              box.ingest_rows(kFirst);
              box.ingest_rows(kOther, "db");
              box.ingest_rows(kSecond);
            }),
            0);
  copy_folder(box.live, saved);
  ASSERT_EQ(run_in_child([&] { box.ingest_rows(kNew); }), 0);
  copy_folder(box.config.cache_root, later);
  copy_folder(saved, box.live);
  const auto points = fault_points_of([&] { box.ship_all(); });
  const Lines before = kFirst + kSecond + kOther, all = before + kNew;
  ASSERT_EQ(box.received(), sorted_rows(part(before, false)));
  for (const char* name : {"forward.before-send", "forward.answered", "forward.dead-letter", "forward.dead-lettered"})
    ASSERT_GE(std::count(points.begin(), points.end(), name), 2) << name;
  for (size_t point = 0; point < points.size(); ++point) {
    SCOPED_TRACE(
        fmt::format("{} at {} ({})", GetParam() == Crash::power ? "power cut" : "killed", point, points[point]));
    copy_folder(saved, box.live);
    box.receiver.set_contents({});
    run_killed_at(point, GetParam(), [&] { box.ship_all(); });
    copy_folder(later, box.config.cache_root);
    if (point % 2 == 1) box.receiver.forget_batch_ids();  // the range alone is to be enough
    ASSERT_EQ(run_in_child([&] { box.ship_all(); }), 0);
    ASSERT_EQ(box.received(), sorted_rows(part(all, false)));
    ASSERT_EQ(sorted_rows(box.dead_rows() + box.dead_rows({"logs", "db"})), sorted_rows(part(all, true)));
    const Cache cache(box.config);
    for (const SinkPartitionStatus& status : sink_status(cache, box.sink)) {
      EXPECT_EQ(status.rows_behind, 0);
      EXPECT_FALSE(status.pending);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Ways, ForwardCrash, testing::Values(Crash::process, Crash::power),
                         [](const auto& test) { return test.param == Crash::power ? "power" : "process"; });

// --- what may happen between the crash and the retry ---

const std::vector<Crash> kBoth = {Crash::process, Crash::power};

SinkConfig make_forward(const std::string& url) {
  SinkConfig sink;
  sink.name = "out";
  sink.kind = SinkKind::forward;
  sink.forward.url = url;
  sink.unit_bytes_max = 90;  // two rows as JSON, so that a unit of three is two bodies
  return sink;
}

void change_forward(SinkConfig& sink, std::mt19937_64& random) {
  sink.unit_bytes_max = std::array{50, 90, 4 << 20}[random() % 3];
  sink.compression = random() % 2 == 0 ? "none" : "zstd";
}

// The sink dies. Every fifth row is none to the receiver, so that it lies among the dead letters.
class SenderWorld final : public CrashWorld {
 public:
  SenderWorld() {
    receiver_.refuse_rows([](const std::string& row) { return Json::parse(row)["n"].get<int>() % 5 == 0; });
    begin(make_forward(receiver_.url()));
  }

 private:
  void save_destination() override { saved_ = receiver_.contents(); }
  void restore_destination() override { receiver_.set_contents(saved_); }
  void change_settings(SinkConfig& sink, std::mt19937_64& random) override {
    CrashWorld::change_settings(sink, random);
    change_forward(sink, random);
  }
  void run_again() override {
    if (++runs_ % 2 == 0) receiver_.forget_batch_ids();  // the range alone is to be enough
    CrashWorld::run_again();
  }
  Lines arrived() override {
    Lines rows = receiver_.rows("logs");
    for (const char* source : {"web", "db"}) {
      const std::string path = dead_letters_path(box_.config.state_dir, sink_.name, {"logs", source});
      if (!fs::exists(path)) continue;
      for (const std::string& letter : lines_of_jsonl(path)) rows.push_back(Json::parse(letter)["row"].dump());
    }
    return rows;
  }

  FakeReceiver receiver_;
  FakeReceiver::Contents saved_;
  int runs_ = 0;
};

TEST(SenderCrash, EachRowArrivesOnceWhateverHappensBeforeTheRetry) {
  prefer_memory();
  SenderWorld world;
  const auto passes = [&](const char* name) { return std::count(world.points().begin(), world.points().end(), name); };
  ASSERT_GE(world.points().size(), 40u);
  ASSERT_GE(passes("forward.dead-lettered"), 2);
  ASSERT_GT(passes("forward.answered"), 2 * passes("sink.intent-written")) << "units of more than one body";
  crash_at_each_point(world, kBoth);
}

// The receiver dies, while the sink ships to it or at its end; the sink gives up.
class ReceiverWorld final : public CrashWorld {
 public:
  ReceiverWorld() {
    set_wait_sources({.random = {}, .sleep_ms = [](int64_t) {}, .now_us = {}});
    SinkConfig sink = make_forward(proxy_.url());
    sink.forward.token_file = box_.folder / "token";
    config_ = make_receiver_config(box_.live + "/there", sink.forward.token_file);
    begin(sink);
  }
  ~ReceiverWorld() override { set_wait_sources({}); }
  // Of all that were tried. Several threads pass points, so that some runs are a little shorter than the counted one.
  double share_killed() const { return static_cast<double>(killed_) / std::max(tried_, 1); }

  void happen(Meanwhile what, std::mt19937_64& random) override {
    CrashWorld::happen(what, random);
    if (what != Meanwhile::compaction) return;
    in_child([&] {  // there, too
      const auto service = Service::try_own(config_);
      service->flush();
      for (const PartitionId& partition : service->cache().partitions("logs"))
        compact_partition(service->cache(), partition);
    });
  }

 private:
  void run_first_unit() override {
    serve([&] { CrashWorld::run_first_unit(); });
  }
  void run_again() override {
    serve([&] { CrashWorld::run_again(); });
  }
  Lines arrived() override { return rows_received(config_); }
  void change_settings(SinkConfig& sink, std::mt19937_64& random) override {
    CrashWorld::change_settings(sink, random);
    change_forward(sink, random);
  }

  std::vector<std::string> count_points() override {
    const std::string log = box_.folder / "points";
    {
      ReceiverProcess receiver(config_, {.flush_every_ms = -1, .begin = [log] {
                                           auto file = std::make_shared<std::ofstream>(log);
                                           set_fault_handler([file](const char* name) {
                                             static std::mutex mutex;
                                             const std::lock_guard guard(mutex);
                                             *file << name << std::endl;
                                           });
                                         }});
      ship_to(receiver);
      EXPECT_EQ(receiver.end(), 0);
    }
    std::vector<std::string> points;
    std::ifstream file(log);
    for (std::string name; std::getline(file, name);) points.push_back(name);
    return points;
  }
  void die(size_t point, Crash crash) override {
    constexpr int kKilled = 137;
    ReceiverProcess receiver(config_, {.flush_every_ms = -1, .begin = [point, crash] {
                                         if (crash == Crash::power) unsynced::enable();
                                         set_fault_handler([point, crash](const char*) {
                                           static std::atomic<size_t> passes = 0;
                                           if (passes++ != point) return;
                                           if (crash == Crash::power) unsynced::forget_now();
                                           ::_exit(kKilled);
                                         });
                                       }});
    if (receiver.port() != 0) ship_to(receiver);
    ++tried_;
    killed_ += receiver.end() == kKilled ? 1 : 0;
  }
  // Of one partition, a flush, and the rest, which is flushed at the end.
  void ship_to(const ReceiverProcess& receiver) {
    proxy_.set_server_port(receiver.port());
    proxy_.forget_requests();
    for (const char* source : {"db", "web"}) {
      run_in_child([&] {
        Cache cache(box_.config);
        SinkRunOptions options;
        options.partition = PartitionId{"logs", source};
        run_sink(cache, sink_, options);
      });
      receiver.flush();
    }
  }
  void serve(const std::function<void()>& work) {
    ReceiverProcess receiver(config_);
    if (receiver.port() == 0) fail(ErrorKind::internal, "the receiver does not start");
    proxy_.set_server_port(receiver.port());
    work();
    EXPECT_EQ(receiver.end(), 0);
  }

  FaultProxy proxy_{0};
  Config config_;
  int tried_ = 0, killed_ = 0;
};

TEST(ReceiverCrash, EachRowArrivesOnceWhateverHappensBeforeTheRetry) {
  prefer_memory();
  ReceiverWorld world;
  ASSERT_GE(world.points().size(), 40u);
  crash_at_each_point(world, kBoth);
  EXPECT_GE(world.share_killed(), 0.9);
}

}  // namespace
}  // namespace firn::hyp
