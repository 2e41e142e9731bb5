// How far the sinks are, for those who remove rows.
#include "hyp/maintain/sink_positions.h"

#include <gmock/gmock.h>

#include "hyp/maintain/retention_box.h"

namespace firn::hyp {
namespace {

TEST(SinkPositions, TellOfEachConfiguredSinkOfTheDatasetByName) {
  RetentionBox box;
  const SinkConfig b = box.add_sink("b");
  box.add_sink("a");
  box.add_sink("c").datasets = {"logs", "hosts"};
  box.add_sink("d").datasets = {"hosts"};
  box.add({row(1, kNow), row(2, kNow)});
  box.ship_well(b);
  replace_file(box.watermark_file(box.config.sinks[2], box.partition), "{");
  const auto positions = sink_positions(box.config, box.partition);
  ASSERT_EQ(positions.size(), 3U);
  EXPECT_EQ(positions[0].sink, "a");
  EXPECT_FALSE(positions[0].passed);
  EXPECT_EQ(positions[0].problem, "");
  EXPECT_EQ(positions[1].sink, "b");
  EXPECT_EQ(positions[1].passed, 2);
  EXPECT_FALSE(positions[1].pending);
  EXPECT_EQ(positions[2].sink, "c");
  EXPECT_FALSE(positions[2].passed);
  EXPECT_THAT(positions[2].problem, testing::HasSubstr("damaged"));
}

TEST(SinkPositions, AnAnnouncedUnitIsPendingAndAnotherCachesWatermarkSaysNothing) {
  RetentionBox box;
  const SinkConfig sink = box.add_sink();
  box.add({row(1, kNow)});
  Watermark watermark;
  watermark.seq = 3;
  watermark.stream = "other/logs/source=web";
  watermark.pending.emplace();
  watermark.pending->open_id = "o";
  watermark.pending->since = 3;
  watermark.pending->until = 7;
  save_watermark(box.watermark_file(sink, box.partition), watermark);
  EXPECT_FALSE(sink_positions(box.config, box.partition)[0].passed);
  EXPECT_FALSE(sink_positions(box.config, box.partition)[0].pending);
  watermark.stream.clear();  // as the specification alone has it
  save_watermark(box.watermark_file(sink, box.partition), watermark);
  const auto positions = sink_positions(box.config, box.partition);
  EXPECT_EQ(positions[0].passed, 3);
  ASSERT_TRUE(positions[0].pending);
  EXPECT_EQ(positions[0].pending->since_exclusive, 3);
  EXPECT_EQ(positions[0].pending->until, 7);
}

}  // namespace
}  // namespace firn::hyp
