// Lost files, restored backups and copied caches before a receiver: its numbers decide (P10.5, P10.6, P10.7).
#include "hyp/forward/forward_box.h"
#include "hyp/sink/destination.h"
#include "support/crash.h"

namespace firn::hyp {
namespace {

// Two copies of the box's cache and state, of which one at a time is in the box's place.
class Copies {
 public:
  explicit Copies(const SinkBox& box) : box_(box) { copy_folder(box.live, box.folder / "other"); }
  void turn() const {
    fs::rename(box_.live, box_.folder / "between");
    fs::rename(box_.folder / "other", box_.live);
    fs::rename(box_.folder / "between", box_.folder / "other");
  }

 private:
  const SinkBox& box_;
};

TEST(ForwardCopies, ALostWatermarkIsFoundAgainAtTheReceiver) {
  ForwardBox box;
  box.sink.unit_rows_max = 2;
  box.ingest_rows(numbered(1, 5));
  box.ingest_rows(numbered(6, 7));
  box.ship_all();
  fs::remove_all(box.config.state_dir);
  box.ingest_rows(numbered(8, 9));
  EXPECT_EQ(box.ship_all().rows(), 2);
  EXPECT_EQ(box.receiver.rows("logs"), numbered(1, 9));
}

TEST(ForwardCopies, AnOlderWatermarkRepeatsNothingThoughUnitsAreCutOtherwiseNow) {
  ForwardBox box;
  box.sink.unit_rows_max = 2;
  box.ingest_rows(numbered(1, 6));
  std::string older;
  {
    std::atomic<bool> cancelled{false};
    SinkRunOptions options;
    options.cancelled = &cancelled;
    options.progress = [&](const PartitionId&, int64_t) { cancelled = true; };
    Cache cache(box.config);
    run_sink(cache, box.sink, options);
    older = make_local_file_io()->read(box.watermark_file(box.sink, kWeb));
  }
  box.ship_all();
  box.ingest_rows(numbered(7, 8));
  replace_file(box.watermark_file(box.sink, kWeb), older);
  box.sink.unit_rows_max = 100;
  EXPECT_EQ(box.ship_all().rows(), 2);
  EXPECT_EQ(box.receiver.rows("logs"), numbered(1, 8));
}

TEST(ForwardCopies, ACacheRestoredFromAnOlderBackupShipsItsNewRowsOnly) {
  for (const bool with_state : {false, true}) {
    SCOPED_TRACE(with_state ? "with its state" : "without its state");
    ForwardBox box;
    box.ingest_rows(numbered(1, 3));
    box.ship_all();
    const std::string backup = box.folder / "backup";
    copy_folder(box.live, backup);
    box.ingest_rows({R"({"lost":1})", R"({"lost":2})"});
    box.ship_all();
    copy_folder(backup + "/cache", box.config.cache_root);
    if (with_state) copy_folder(backup + "/state", box.config.state_dir);
    set_clock_ms(box.clock_ms -= 3'600'000);  // its clock is an hour back, too
    box.ingest_rows(numbered(4, 5));
    EXPECT_EQ(box.ship_all().rows(), 2);
    EXPECT_EQ(box.received(), sorted_rows(numbered(1, 5) + Lines{R"({"lost":1})", R"({"lost":2})"}));
  }
}

TEST(ForwardCopies, ACacheThatIsBegunAnewShipsItsRowsBesideTheOld) {
  for (const bool with_state : {false, true}) {
    ForwardBox box;
    box.ingest_rows(numbered(1, 3));
    box.ship_all();
    fs::remove_all(with_state ? box.config.cache_root : box.live);
    box.ingest_rows(numbered(4, 5));
    EXPECT_EQ(box.ship_all().rows(), 2);
    EXPECT_EQ(box.received(), sorted_rows(numbered(1, 5)));
  }
}

TEST(ForwardCopies, ThreeCopiesShipSharedRowsOnceAndTheirOwnRowsEach) {
  ForwardBox box;
  box.ingest_rows(numbered(1, 4));
  const Copies copies(box);
  const std::string third = box.folder / "third";
  copy_folder(box.live, third);
  box.ship_all();
  copies.turn();
  EXPECT_EQ(box.ship_all().rows(), 0);
  Lines own;
  for (int i = 0; i < 6; ++i) {
    copies.turn();
    own.push_back(fmt::format(R"({{"of":"{}"}})", i % 2 == 0 ? "a" : "b"));
    box.ingest_rows({own.back()});
    EXPECT_EQ(box.ship_all().rows(), 1);
  }
  copy_folder(third, box.live);
  fs::remove_all(box.config.state_dir);  // and lost its watermarks after the fork
  own.push_back(R"({"of":"c"})");
  box.ingest_rows({own.back()});
  EXPECT_EQ(box.ship_all().rows(), 1);
  EXPECT_EQ(box.received(), sorted_rows(numbered(1, 4) + own));
}

TEST(ForwardCopies, CopiesThatShipAtTheSameTimeMeetAgain) {
  ForwardBox box;
  box.ingest_rows(numbered(1, 30));
  const Copies copies(box);
  SinkBox other;
  other.set_root(box.folder / "twin");
  copy_folder(box.folder / "other", other.live);
  // A cache's tables name their place; the twin's process sees its own there.
  const auto ship_as = [&](int64_t rows_max, const std::string& live) {
    return [&box, rows_max, live] {
      SinkConfig sink = box.sink;
      sink.unit_rows_max = rows_max;
      Config config = box.config;
      config.state_dir = live + "/state";  // one cache on the disk is as good as two: sinks only read it
      Cache cache(config);
      const SinkRunReport report = run_sink(cache, sink);
      if (report.failed()) fail(ErrorKind::internal, "{}", report.partitions.at(0).error);
    };
  };
  ASSERT_EQ(run_in_children(2, [&](int i) { ship_as(i == 0 ? 2 : 3, i == 0 ? box.live : other.live)(); }), 0);
  EXPECT_EQ(box.receiver.rows("logs"), numbered(1, 30));
}

TEST(ForwardCopies, AReceiverRestoredFromAnOlderBackupStopsTheSink) {
  ForwardBox box;
  box.ingest_rows(numbered(1, 3));
  box.ship_all();
  const auto older = box.receiver.contents();
  box.ingest_rows(numbered(4, 5));
  box.ship_all();
  box.receiver.set_contents(older);
  for (const int n : {6, 7}) {
    box.ingest_rows(numbered(n, n));
    EXPECT_EQ(box.failed_run().error_kind, "destination_behind");
  }
  box.receiver.set_contents({});
  EXPECT_EQ(box.failed_run().error_kind, "destination_behind");
  EXPECT_TRUE(box.received().empty()) << "nothing moved until told";
}

TEST(ForwardCopies, AnOpenThatTheReceiverForgotStopsTheSink) {
  ForwardBox box;
  box.ingest_rows(numbered(1, 1));
  const std::string backup = box.folder / "backup";
  copy_folder(box.live, backup);
  for (int n = 2; n <= 70; ++n) box.ingest_rows(numbered(n, n));
  EXPECT_EQ(box.ship_all().rows(), 70);
  fs::remove_all(box.config.state_dir);
  box.ingest_rows(numbered(71, 71));
  EXPECT_EQ(box.ship_all().rows(), 1) << "a lost watermark is found through the opens that are kept";
  copy_folder(backup, box.live);
  EXPECT_EQ(box.failed_run().error_kind, "destination_forgot") << "whether the first open is there cannot be told";
  EXPECT_EQ(box.receiver.rows("logs"), numbered(1, 71));
}

// --- resets (P10.6) ---

struct Reset {
  ForwardBox box;
  std::unique_ptr<Cache> cache;
  std::unique_ptr<Destination> destination;
  Unit unit;

  // Rows 1 to 5 of one open in the cache; those up to `sent` at the receiver.
  explicit Reset(int sent) {
    if (sent > 0) box.ingest_rows(numbered(1, sent));
    if (sent > 0) box.ship_all();
    cache = std::make_unique<Cache>(box.config);
    destination = make_forward_destination(*cache, box.sink, nullptr);
    unit = Unit{kWeb, stream_of(cache->sequence().cache_id(), kWeb), {}, 0, std::nullopt};
    unit.range.open_id = sent > 0 ? open_ranges(cache->sequence().opens()).at(0).open_id : "an-open";
  }
  std::optional<int64_t> last() const {
    const auto there = destination->position(unit);
    return there ? std::optional(there->last) : std::nullopt;
  }
  bool reset(std::optional<int64_t> from, int64_t last) const { return destination->reset(unit, from, last); }
};

TEST(ForwardReset, MovesTheLastNumberBothWaysIfItIsWhatWasKnown) {
  Reset reset(5);
  EXPECT_FALSE(reset.reset(4, 2));
  EXPECT_FALSE(reset.reset(4, 9));
  EXPECT_FALSE(reset.reset(std::nullopt, 9));
  EXPECT_EQ(reset.last(), 5);
  EXPECT_TRUE(reset.reset(5, 2));
  EXPECT_EQ(reset.last(), 2);
  EXPECT_TRUE(reset.reset(2, 9));
  EXPECT_EQ(reset.last(), 9);
  EXPECT_TRUE(reset.reset(9, 2));
  EXPECT_TRUE(reset.reset(2, 9)) << "the same as before is done again";
  EXPECT_EQ(reset.last(), 9);
  EXPECT_TRUE(reset.reset(9, 9));
  EXPECT_FALSE(reset.reset(8, 8));
  EXPECT_EQ(reset.box.received(), sorted_rows(numbered(1, 5))) << "what is there stays";
}

TEST(ForwardReset, SkipsRowsAsAStreamsFirstWord) {
  Reset reset(0);
  EXPECT_FALSE(reset.reset(3, 1)) << "the receiver has nothing of it";
  EXPECT_TRUE(reset.reset(std::nullopt, 0)) << "as it is";
  EXPECT_EQ(reset.last(), std::nullopt);
  EXPECT_TRUE(reset.reset(std::nullopt, 4));
  EXPECT_EQ(reset.last(), 4);
  EXPECT_FALSE(reset.reset(std::nullopt, 4));
}

TEST(ForwardReset, WhoseAnswerIsLostIsDoneAllTheSame) {
  for (const bool is_id_forgotten : {false, true}) {
    Reset reset(5);
    reset.box.proxy.set_script([&, is_first = true](const ProxiedRequest& request) mutable {
      if (request.method != "POST") return Fault();
      if (!is_first && is_id_forgotten) reset.box.receiver.forget_batch_ids();
      return std::exchange(is_first, false) ? Fault{.kind = Fault::Kind::cut_answer} : Fault();
    });
    EXPECT_TRUE(reset.reset(5, 2));
    EXPECT_EQ(reset.last(), 2);
  }
}

}  // namespace
}  // namespace firn::hyp
