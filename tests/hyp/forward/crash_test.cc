// A forward sink that dies anywhere, and comes again with more rows waiting (case 20).
#include "support/crash.h"
#include "hyp/forward/forward_box.h"

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

}  // namespace
}  // namespace firn::hyp
