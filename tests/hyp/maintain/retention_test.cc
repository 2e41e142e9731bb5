// Rows leave the cache when they are old, and not before sinks that they wait for.
#include "hyp/maintain/retention.h"

#include <gmock/gmock.h>

#include "hyp/cache/generations.h"
#include "hyp/cache/legacy_table.h"
#include "hyp/maintain/retention_box.h"
#include "hyp/query/query_box.h"
#include "support/crash.h"

namespace firn::hyp {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;

const int64_t kOld = kCutoff - kDay, kYoung = kNow - kDay, kVeryOld = kCutoff - 8 * kDay;

TEST(Retention, ARowGoesWhenItIsOlderThanItsDaysInWholeHoursAndNotBefore) {
  RetentionBox box;
  box.add({row(1, "2024-05-16T11:59:59.999999Z"), row(2, "2024-05-16T12:00:00Z"), row(3, "2024-05-16T12:00:00.000001Z"),
           row(4, "2024-05-16T12:59:59.999Z"), row(5, "2024-06-15T12:30:00Z")});
  const RetentionReport report = box.apply();
  EXPECT_EQ(report.cutoff_ms, kCutoff);
  EXPECT_EQ(report.rows_removed, 1);
  EXPECT_EQ(report.files_marked, 1);
  EXPECT_THAT(box.numbers(), ElementsAre(2, 3, 4, 5));
  EXPECT_EQ(box.apply(kNow + kHour / 2 - 1).rows_removed, 0);
  EXPECT_EQ(box.apply(kNow + kHour / 2).rows_removed, 3);
  EXPECT_THAT(box.numbers(), ElementsAre(5));
}

struct TimeCase {
  const char* type;
  Lines old, young;
};

class RetentionOfTimes : public testing::TestWithParam<TimeCase> {};

TEST_P(RetentionOfTimes, OldRowsGoAndYoungOnesStay) {
  RetentionBox box(GetParam().type);
  Lines rows;
  for (const Lines& times : {GetParam().old, GetParam().young}) {
    for (const std::string& time : times) rows.push_back(row(static_cast<int>(rows.size()), time));
  }
  box.add(rows);
  box.apply();
  std::vector<int64_t> young;
  for (size_t i = GetParam().old.size(); i < rows.size(); ++i) young.push_back(static_cast<int64_t>(i));
  EXPECT_EQ(box.numbers(), young);
  box.apply(at("9999-12-31T00:00:00Z"));
  EXPECT_THAT(box.numbers(), IsEmpty());
}

// A date is as old as its day's end, so the cutoff's own day stays.
INSTANTIATE_TEST_SUITE_P(
    Types, RetentionOfTimes,
    testing::Values(TimeCase{"date", {"0001-01-01", "1969-12-31", "2024-05-15"}, {"2024-05-16", "2400-01-01"}},
                    TimeCase{"timestamp",
                             {"0001-01-01T00:00:00", "1969-12-31T23:59:59.999999", "2024-05-16T11:59:59.999999"},
                             {"2024-05-16T12:00:00", "2400-01-01T00:00:00"}},
                    TimeCase{"timestamptz",
                             {"1900-01-01T00:00:00Z", "1970-01-01T00:00:00Z", "2024-05-16T13:59:59+02:00"},
                             {"2024-05-16T14:00:00+02:00", "2400-01-01T00:00:00Z"}},
                    TimeCase{"timestamp_ns",
                             {"1678-01-01T00:00:00", "2024-05-16T11:59:59.999999999"},
                             {"2024-05-16T12:00:00.000000000", "2262-01-01T00:00:00"}},
                    TimeCase{"timestamptz_ns",
                             {"1678-01-01T00:00:00Z", "2024-05-16T11:59:59.999999999Z"},
                             {"2024-05-16T12:00:00.000000001Z", "2262-01-01T00:00:00Z"}}),
    [](const auto& test) { return std::string(test.param.type); });

TEST(Retention, ACutoffBefore1970IsAsGoodAsAnyOther) {
  RetentionBox box;
  box.add({row(1, "1969-12-11T11:59:59Z"), row(2, "1969-12-11T12:00:00Z"), row(3, "1970-01-01T00:00:00Z"), row(4)}, 0);
  EXPECT_EQ(box.apply(at("1970-01-10T12:59:59Z")).rows_removed, 1);
  EXPECT_THAT(box.numbers(), ElementsAre(2, 3, 4));
  RetentionBox nanos("timestamp_ns");  // which reach back to 1677
  nanos.logs().retention.days = 200'000;
  nanos.add({row(1, "1678-01-01T00:00:00"), row(2)});
  EXPECT_EQ(nanos.apply().rows_removed, 0);
  nanos.logs().retention.days = 1'000'000;
  EXPECT_EQ(nanos.apply().rows_removed, 0);
  EXPECT_THAT(nanos.numbers(), ElementsAre(1, 2));
}

TEST(Retention, WhereTheTimestampIsNullARowAgesFromItsIngest) {
  RetentionBox box;
  box.add({row(1), row(2, kYoung), row(3, kOld)}, kCutoff - 1);
  box.add({row(4), row(5, kYoung), row(6, kOld)}, kCutoff);
  EXPECT_EQ(box.apply().rows_removed, 3);
  EXPECT_THAT(box.numbers(), ElementsAre(2, 4, 5));
}

TEST(Retention, WithoutATimestampColumnRowsAgeFromTheirIngestByMetadataAlone) {
  RetentionBox box;
  box.logs().primary_timestamp_column.clear();
  box.add({row(1, kYoung)}, kCutoff - 1);
  box.add({row(2, kOld)}, kCutoff);
  const RetentionReport report = box.apply();
  EXPECT_EQ(report.rows_removed, 1);
  EXPECT_EQ(report.files_dropped, 1);
  EXPECT_EQ(report.files_read, 0);
  EXPECT_THAT(box.numbers(), ElementsAre(2));
}

TEST(Retention, AColumnThatIsNoTimeInTheTableIsSaidAndRowsAgeFromTheirIngest) {
  RetentionBox box("string");
  box.logs().primary_timestamp_column.clear();
  box.add({row(1, "2001-01-01")}, kCutoff - 1);
  box.add({row(2, "2001-01-01")}, kCutoff);
  box.logs().primary_timestamp_column = "at";
  box.logs().schema.reset();
  const RetentionReport report = box.apply();
  EXPECT_THAT(report.note, HasSubstr("column at is string"));
  EXPECT_THAT(box.numbers(), ElementsAre(2));
  box.logs().primary_timestamp_column = "when";  // no row has brought it yet
  EXPECT_EQ(box.apply().note, "");
}

TEST(Retention, ATimeThatPartitionsTheCacheIsTheTimestampWhereNoneIsNamed) {
  RetentionBox box;
  box.logs().primary_timestamp_column.clear();
  box.logs().cache_partitioning = {{.column = "at", .transform = "day"}};
  box.add({row(1, kOld), row(2, kOld - kDay), row(3, kYoung), row(4, kCutoff - 1), row(5, kCutoff)});
  const RetentionReport report = box.apply();
  EXPECT_EQ(report.rows_removed, 3);
  EXPECT_EQ(report.files_dropped, 2);  // days that are past
  EXPECT_EQ(report.files_read, 1);     // the day of the cutoff
  EXPECT_THAT(box.numbers(), ElementsAre(3, 5));
}

TEST(Retention, EachDatasetHasItsOwnDaysOrThoseOfAll) {
  RetentionBox box;
  const auto parsed = parse_config(R"({"retention": {"defaultDays": 30},
      "datasets": {"long": {"primaryTimestampColumn": "at", "retention": {"days": 90}},
                   "kept": {"primaryTimestampColumn": "at", "retention": {"days": null}},
                   "plain": {"primaryTimestampColumn": "at"}}})",
                                   "/etc/hyp.json");
  box.config.datasets = parsed.datasets;
  box.config.retention = parsed.retention;
  for (const char* dataset : {"long", "kept", "plain", "undeclared"}) {
    box.partition.dataset = dataset;
    box.add({row(1, kNow - 91 * kDay), row(2, kNow - 31 * kDay), row(3, kYoung)}, kNow - 31 * kDay);
    box.apply();
  }
  const auto numbers = [&](const char* dataset) {
    box.partition.dataset = dataset;
    return box.numbers();
  };
  EXPECT_THAT(numbers("long"), ElementsAre(2, 3));
  EXPECT_THAT(numbers("kept"), ElementsAre(1, 2, 3));
  EXPECT_THAT(numbers("plain"), ElementsAre(3));
  EXPECT_THAT(numbers("undeclared"), IsEmpty()) << "by ingest: no timestamp column is named";
  box.partition.dataset = "kept";
  EXPECT_FALSE(box.apply().cutoff_ms);
  box.partition.dataset = "never";
  EXPECT_EQ(box.apply().rows_removed, 0);
}

TEST(Retention, RowsFromTheFutureStayAndAClockSetBackIsHarmless) {
  RetentionBox box;
  box.add({row(1, kOld), row(2, kNow + 1000 * kDay), row(3, kYoung)});
  EXPECT_EQ(box.apply(kNow - 20 * kDay).rows_removed, 0);
  EXPECT_EQ(box.apply().rows_removed, 1);
  EXPECT_EQ(box.apply(kNow - 20 * kDay).rows_removed, 0);
  EXPECT_EQ(box.apply(0).rows_removed, 0);
  EXPECT_EQ(box.apply().rows_removed, 0);
  EXPECT_THAT(box.numbers(), ElementsAre(2, 3));
}

TEST(Retention, AFileWhoseRowsAreAllPastGoesUnopened) {
  RetentionBox box;
  box.add({row(1, kOld), row(2, kOld)});
  box.add({row(3, kOld), row(4), row(5, kOld)}, kOld);  // null timestamps among them
  for (const std::string& path : box.data_files()) spoil(path);
  box.add({row(6, kYoung), row(7, kYoung)});
  box.add_sink();
  const RetentionReport report = box.apply();
  EXPECT_EQ(report.files_read, 0);
  EXPECT_EQ(report.files_dropped, 2);
  EXPECT_EQ(report.rows_removed, 5);
  EXPECT_THAT(report.rows_forced_out, ElementsAre(Pair("out", 5)));
  EXPECT_THAT(box.numbers(), ElementsAre(6, 7));
  EXPECT_EQ(box.data_files().size(), 1U);
}

TEST(Retention, AFileThatLosesItsLastRowsGoesTooAndNoneIsCountedTwice) {
  RetentionBox box;
  box.add_sink();
  box.add({row(1, kCutoff - 1), row(2, kCutoff + kHour - 1), row(3, kCutoff + 2 * kHour - 1)});
  EXPECT_EQ(box.apply().rows_removed, 1);
  EXPECT_EQ(box.apply(kNow + kHour).rows_removed, 1);
  spoil(box.data_files()[0]);
  const RetentionReport last = box.apply(kNow + 2 * kHour);
  EXPECT_EQ(last.rows_removed, 1);
  EXPECT_EQ(last.files_dropped, 1);
  EXPECT_EQ(last.files_read, 0);
  EXPECT_THAT(box.data_files(), IsEmpty());
  EXPECT_THAT(box.forced_out(), ElementsAre(Pair("out", 3)));
}

TEST(Retention, WhatHasNotChangedIsNotLookedAtAgain) {
  RetentionBox box;
  box.add({row(1, kOld), row(2, kYoung)});
  EXPECT_EQ(box.apply().files_read, 1);
  const int64_t version = box.table().version;
  spoil(box.data_files()[0]);
  EXPECT_EQ(box.apply().files_read, 0);
  EXPECT_EQ(box.table().version, version);
  // Of rows that came since only their own files are read, in the same hour too.
  box.add({row(3, kYoung)});
  EXPECT_EQ(box.apply().files_read, 0);
  box.add({row(4, kOld), row(5, kYoung)});
  const RetentionReport report = box.apply();
  EXPECT_EQ(report.files_read, 1);
  EXPECT_EQ(report.rows_removed, 1);
  EXPECT_EQ(box.apply().files_read, 0);
  EXPECT_THROW(box.apply(kNow + kHour), Error) << "another hour, another look";
}

TEST(Retention, ALookThatFindsNothingIsRememberedOnlyIfItReadFiles) {
  RetentionBox box;
  box.add({row(1, kYoung)});
  const int64_t version = box.table().version;
  EXPECT_EQ(box.apply().files_read, 0);
  EXPECT_EQ(box.table().version, version) << "nothing matched: no commit";
  box.logs().retention.wait_for_sink_ack = true;
  box.add_sink();
  box.add({row(2, kOld), row(3, kYoung)});
  EXPECT_EQ(box.apply().files_read, 1);
  spoil(box.data_files()[0]);
  spoil(box.data_files()[1]);
  const RetentionReport report = box.apply();
  EXPECT_EQ(report.files_read, 0);
  EXPECT_THAT(report.rows_waiting, ElementsAre(Pair("out", 1))) << "known from the look before";
}

TEST(Retention, RowsWaitForEachSinkOfTheirDatasetThatDoesNotHaveThem) {
  RetentionBox box;
  box.logs().retention.wait_for_sink_ack = true;
  const SinkConfig first = box.add_sink("first"), second = box.add_sink("second");
  box.add_sink("others").datasets = {"hosts"};
  box.add({row(1, kOld), row(2, kYoung), row(3, kOld)});
  EXPECT_THAT(box.apply().rows_waiting, ElementsAre(Pair("first", 2), Pair("second", 2)));
  box.ship_well(first);
  EXPECT_THAT(box.apply().rows_waiting, ElementsAre(Pair("second", 2)));
  box.add({row(4, kOld)});
  EXPECT_THAT(box.apply().rows_waiting, ElementsAre(Pair("first", 1), Pair("second", 3)));
  EXPECT_THAT(box.numbers(), ElementsAre(1, 2, 3, 4));
  box.ship_well(second);
  const RetentionReport report = box.apply();
  EXPECT_EQ(report.rows_removed, 2);
  EXPECT_THAT(report.rows_waiting, ElementsAre(Pair("first", 1)));
  EXPECT_THAT(box.numbers(), ElementsAre(2, 4));
  box.ship_well(first);
  EXPECT_EQ(box.apply().rows_removed, 1);
  EXPECT_THAT(box.apply().rows_waiting, IsEmpty());
  EXPECT_THAT(box.forced_out(), IsEmpty());
  EXPECT_EQ(delivered_rows(first).size(), 4U);
  EXPECT_EQ(delivered_rows(second).size(), 4U);
}

TEST(Retention, BeyondTheGraceNothingWaitsAndWhatGoesIsCountedBySink) {
  RetentionBox box;
  box.logs().retention = {.days = 30, .wait_for_sink_ack = true, .grace_days = 7};
  box.add_sink("never");
  const SinkConfig out = box.add_sink("out");
  const int64_t grace_cutoff = kCutoff - 7 * kDay;
  box.add({row(1, kYoung), row(2, grace_cutoff - 1)}, kVeryOld);
  box.ship_well(out);
  box.add({row(3, grace_cutoff - 1), row(4, grace_cutoff)}, kVeryOld);
  const RetentionReport report = box.apply();
  EXPECT_EQ(report.rows_removed, 2);
  EXPECT_THAT(report.rows_forced_out, ElementsAre(Pair("never", 2), Pair("out", 1)));
  EXPECT_THAT(report.rows_waiting, ElementsAre(Pair("never", 1), Pair("out", 1)));
  EXPECT_THAT(box.numbers(), ElementsAre(1, 4));
  EXPECT_THAT(box.apply(kNow + kHour).rows_forced_out, ElementsAre(Pair("never", 1), Pair("out", 1)));
  EXPECT_THAT(box.forced_out(), ElementsAre(Pair("never", 3), Pair("out", 2)));
  box.logs().retention.grace_days = 0;
  box.add({row(5, kCutoff + kHour - 1)});
  EXPECT_EQ(box.apply(kNow + kHour).rows_removed, 1);
  EXPECT_THAT(box.numbers(), ElementsAre(1));
}

// Who imports old rows means to ship them.
TEST(Retention, RowsThatAreOldWhenTheyComeHaveTheirGraceFromThenOn) {
  RetentionBox box;
  box.logs().retention = {.days = 30, .wait_for_sink_ack = true, .grace_days = 7};
  box.add_sink("out");
  box.add({row(1, kVeryOld), row(2, kOld), row(3, kYoung)});
  EXPECT_THAT(box.apply().rows_waiting, ElementsAre(Pair("out", 2)));
  EXPECT_THAT(box.numbers(), ElementsAre(1, 2, 3));
  EXPECT_EQ(box.apply(kNow + 7 * kDay - kHour).rows_removed, 0);
  EXPECT_EQ(box.apply(kNow + 7 * kDay + kHour).rows_removed, 2);
  EXPECT_THAT(box.numbers(), ElementsAre(3));
}

TEST(Retention, WithoutWaitingRowsGoAtTheirAgeAndAreCountedAllTheSame) {
  RetentionBox box;
  box.add_sink();
  box.add({row(1, kOld), row(2, kYoung)});
  EXPECT_EQ(box.apply().rows_removed, 1);
  EXPECT_THAT(box.forced_out(), ElementsAre(Pair("out", 1)));
}

TEST(Retention, ASinkThatIsNoLongerConfiguredHoldsNothing) {
  RetentionBox box;
  box.logs().retention.wait_for_sink_ack = true;
  const SinkConfig sink = box.add_sink();
  box.add({row(1, kYoung)});
  box.ship_well(sink);
  box.add({row(2, kOld)});
  EXPECT_THAT(box.apply().rows_waiting, ElementsAre(Pair("out", 1)));
  box.config.sinks.clear();
  EXPECT_EQ(box.apply().rows_removed, 1);
  EXPECT_THAT(box.numbers(), ElementsAre(1));
  EXPECT_THAT(box.forced_out(), IsEmpty());
}

TEST(Retention, ASinkWhoseWatermarkCannotBeReadHoldsAllForTheGrace) {
  RetentionBox box;
  const SinkConfig sink = box.add_sink();
  box.add({row(1, kOld), row(2, kVeryOld)}, kVeryOld);
  box.ship_well(sink);
  std::ofstream(box.watermark_file(sink, box.partition)) << "{";
  EXPECT_EQ(box.apply().rows_removed, 1);
  EXPECT_THAT(box.apply().rows_waiting, ElementsAre(Pair("out", 1)));
  EXPECT_THAT(box.numbers(), ElementsAre(1));
  // Of another cache: the sink will begin anew.
  replace_file(box.watermark_file(sink, box.partition), R"({"v":1,"continuation":{"v":1,"seq":"9"},"stream":"a/b/c"})");
  box.logs().retention.wait_for_sink_ack = true;
  EXPECT_THAT(box.apply().rows_waiting, ElementsAre(Pair("out", 1)));
}

size_t index_of(const std::vector<std::string>& points, const std::string& name) {
  return static_cast<size_t>(std::find(points.begin(), points.end(), name) - points.begin());
}

// A run of the sink that announced its first unit, rows 1 and 2, and then died; rows 3 to 5 are not announced.
SinkConfig die_after_an_intent(RetentionBox& box) {
  SinkConfig& sink = box.add_sink();
  sink.unit_rows_max = 2;
  EXPECT_EQ(run_in_child([&] {
              box.add({row(1, kOld), row(2, kOld), row(3, kOld), row(4, kYoung), row(5, kOld)});
            }),
            0);
  const std::string saved = box.folder / "saved";
  copy_folder(box.live, saved);
  const auto points = fault_points_of([&] { box.ship_well(sink); });
  copy_folder(saved, box.live);
  run_killed_at(index_of(points, "sink.intent-written"), Crash::process, [&] { box.ship_well(sink); });
  return sink;
}

TEST(Retention, RowsThatASinkAnnouncedStayAndAreWhatItSendsWhenItComesBack) {
  RetentionBox box;
  const SinkConfig sink = die_after_an_intent(box);
  const RetentionReport report = box.apply();
  EXPECT_EQ(report.rows_removed, 2);
  EXPECT_THAT(report.rows_waiting, ElementsAre(Pair("out", 2)));
  EXPECT_THAT(report.rows_forced_out, ElementsAre(Pair("out", 2)));
  EXPECT_THAT(box.numbers(), ElementsAre(1, 2, 4));
  box.ship_well(sink);
  EXPECT_EQ(delivered_rows(sink).size(), 3U);
  std::vector<int64_t> unit_sizes;
  for (const auto& [path, claim] : claims_of(sink.path)) unit_sizes.push_back(claim["rows"]);
  std::sort(unit_sizes.begin(), unit_sizes.end());
  EXPECT_THAT(unit_sizes, ElementsAre(1, 2));
  EXPECT_EQ(box.apply().rows_removed, 2);
  EXPECT_THAT(box.numbers(), ElementsAre(4));
}

TEST(Retention, BeyondTheGraceAnnouncedRowsGoTooAndTheSinkSendsTheRestOfItsUnit) {
  RetentionBox box;
  const SinkConfig sink = die_after_an_intent(box);
  EXPECT_EQ(box.apply(kNow + 8 * kDay).rows_removed, 4);
  EXPECT_THAT(box.forced_out(), ElementsAre(Pair("out", 4)));
  box.ship_well(sink);
  EXPECT_THAT(delivered_rows(sink), ElementsAre(HasSubstr("\"n\":4")));
  EXPECT_THAT(box.apply(kNow + 8 * kDay).rows_waiting, IsEmpty());
}

TEST(Retention, RowsOfAnotherSystemsCacheGetTheirNumbersAndGoLikeOthers) {
  RetentionBox box;
  box.logs().retention.wait_for_sink_ack = true;
  const SinkConfig sink = box.add_sink();
  {
    const Cache cache(box.config);
    make_legacy_table(cache, box.partition, *box.logs().schema);
    append_as_other(cache, box.partition, {row(1, kOld), row(2, kYoung), row(3)});
  }
  EXPECT_THAT(box.apply(kNow, /*dry_run=*/true).note, HasSubstr("no numbers yet"));
  EXPECT_THAT(box.apply().rows_waiting, ElementsAre(Pair("out", 1)));
  box.ship_well(sink);
  EXPECT_EQ(box.apply().rows_removed, 1);
  EXPECT_THAT(box.numbers(), ElementsAre(2, 3)) << "the third came with a snapshot of today";
  {
    const Cache cache(box.config);
    append_as_other(cache, box.partition, {row(4, kOld)});
  }
  EXPECT_THAT(box.apply().rows_waiting, ElementsAre(Pair("out", 1))) << "it has no number that the sink has passed";
  EXPECT_EQ(box.ship_well(sink).rows(), 1);
  EXPECT_EQ(box.apply().rows_removed, 1);
  EXPECT_THAT(box.forced_out(), IsEmpty());
}

TEST(Retention, AWatermarkOfAnotherSystemIsAboveTheRowsThatHadNoNumbers) {
  RetentionBox box;
  box.logs().retention.wait_for_sink_ack = true;
  const SinkConfig sink = box.add_sink();
  {
    const Cache cache(box.config);
    make_legacy_table(cache, box.partition, *box.logs().schema);
    append_as_other(cache, box.partition, {row(1, kOld), row(2, kYoung)});
  }
  replace_file(box.watermark_file(sink, box.partition), R"({"v":1,"continuation":{"v":1,"seq":"0"}})");
  EXPECT_EQ(box.apply().rows_removed, 1);
  EXPECT_THAT(box.forced_out(), IsEmpty());
}

TEST(Retention, SinksGoOnWithTheNewRowsAlone) {
  RetentionBox box;
  box.logs().retention.wait_for_sink_ack = true;
  const SinkConfig sink = box.add_sink();
  box.add({row(1, kOld), row(2, kYoung)});
  box.ship_well(sink);
  EXPECT_EQ(box.apply().rows_removed, 1);
  EXPECT_EQ(box.ship_well(sink).rows(), 0);
  box.add({row(3, kYoung)});
  EXPECT_EQ(box.ship_well(sink).rows(), 1);
  EXPECT_EQ(delivered_rows(sink).size(), 3U);
}

TEST(Retention, AReaderThatBeganBeforeSeesItsRowsToTheEnd) {
  RetentionBox box;
  Lines rows;
  for (int n = 0; n < 100; ++n) rows.push_back(row(n, n % 2 == 0 ? kOld : kYoung));
  box.add(rows);
  box.add({row(100, kOld)});
  Cache cache(box.config);
  ReadOptions options;
  options.batch_rows_max = 7;
  SequencedReader reader(cache, box.partition, options);
  auto unordered = read_rows(cache, box.partition, options);
  int64_t seen = reader.next()->rows->num_rows();
  EXPECT_EQ(apply_retention(cache, box.partition, kNow).rows_removed, 51);
  sweep_partition(cache, box.partition, Sweep::all);
  while (const auto batch = reader.next()) seen += batch->rows->num_rows();
  EXPECT_EQ(seen, 101);
  EXPECT_EQ(rows_of(*unordered, reader.schema()).size(), 101U);
  EXPECT_EQ(box.numbers().size(), 50U);
}

TEST(Retention, QueriesAndReadsInOrderSeeOnlyWhatIsLeft) {
  RetentionBox box;
  box.add({row(1, kOld), row(2, kYoung), row(3, kOld)});
  box.add({row(4, kYoung), row(5, kOld)});
  box.add({row(6, kOld)});
  const Cache cache(box.config);
  const SequencedRows before = read_sequenced(cache, box.partition);
  box.apply();
  const SequencedRows after = read_sequenced(cache, box.partition);
  EXPECT_EQ(after.rows, (Lines{before.rows[1], before.rows[3]}));
  EXPECT_THAT(after.after, ElementsAre(before.after[1], before.after[3]));
  EXPECT_EQ(single_value(cache, "select count(*) from logs"), "2");
  EXPECT_EQ(single_value(cache, "select count(*) from logs where \"at\" < '2024-05-16T12:00:00Z'"), "0");
  EXPECT_EQ(single_value(cache, "select sum(n) from logs where n > 2"), "4");
  ReadOptions since;
  since.since_exclusive = before.after[1];
  EXPECT_THAT(read_sequenced(cache, box.partition, since).after, ElementsAre(before.after[3]));
}

TEST(Retention, ADryRunSaysWhatWouldGoAndChangesNothing) {
  RetentionBox box;
  box.add_sink();
  box.add({row(1, kOld), row(2, kYoung)});
  box.add({row(3, kOld)});
  const int64_t version = box.table().version;
  const RetentionReport said = box.apply(kNow, /*dry_run=*/true);
  EXPECT_EQ(box.table().version, version);
  EXPECT_EQ(box.numbers().size(), 3U);
  const RetentionReport done = box.apply();
  for (const RetentionReport& report : {said, done}) {
    EXPECT_EQ(report.rows_removed, 2);
    EXPECT_EQ(report.files_dropped, 1);
    EXPECT_EQ(report.files_marked, 1);
    EXPECT_THAT(report.rows_forced_out, ElementsAre(Pair("out", 2)));
  }
}

TEST(Retention, WhatTheTableSaysOfTheLastLookMayBeDamaged) {
  RetentionBox box;
  box.add({row(1, kOld), row(2, kYoung)});
  Cache cache(box.config);
  const auto held = cache.hold(box.partition);
  for (const char* text : {"{", "[]", R"({"table": 1})"}) {
    iceberg::commit_metadata(*held->operations, [&](iceberg::TableMetadata& next) {
      next.properties[kRetentionProperty] = text;
      return true;
    });
    EXPECT_EQ(box.apply(kNow, /*dry_run=*/true).rows_removed, 1) << text;
  }
  EXPECT_EQ(box.apply().rows_removed, 1);
}

// In memory where that can be had: hundreds of restarts, each with dozens of syncs.
struct RetentionCrash : testing::Test {
  RetentionCrash() {
    if (fs::is_directory("/dev/shm")) ::setenv("TMPDIR", "/dev/shm", /*replace=*/0);
  }
};

TEST_F(RetentionCrash, WhereverTheProcessDiesWhatIsOldGoesOnceAndTheRestStays) {
  RetentionBox box;
  box.logs().retention.wait_for_sink_ack = true;
  const SinkConfig sink = box.add_sink();
  ASSERT_EQ(run_in_child([&] {
              box.add({row(1, kOld), row(2, kOld)});
              box.add({row(3, kOld), row(4, kYoung)});
              box.ship_well(sink);
              box.add({row(5, kVeryOld), row(6, kOld), row(7, kYoung)}, kVeryOld);
            }),
            0);
  const std::string saved = box.folder / "saved";
  copy_folder(box.live, saved);
  const auto points = fault_points_of([&] { box.apply(); });
  EXPECT_GE(points.size(), 10U);
  EXPECT_NE(index_of(points, "retention.commit"), points.size());
  for (const Crash crash : {Crash::process, Crash::power, Crash::power_later}) {
    for (size_t point = 0; point < points.size(); ++point) {
      if (crash == Crash::power_later && !leaves_undurable(points[point])) continue;
      SCOPED_TRACE(fmt::format("{} at {} ({})", to_text(crash), point, points[point]));
      copy_folder(saved, box.live);
      run_killed_at(point, crash, [&] { box.apply(); });
      ASSERT_EQ(run_in_child([&] { box.apply(); }), 0);
      ASSERT_THAT(box.numbers(), ElementsAre(4, 6, 7));
      ASSERT_THAT(box.forced_out(), ElementsAre(Pair("out", 1)));
      ASSERT_THAT(box.apply().rows_waiting, ElementsAre(Pair("out", 1)));
      if (crash == Crash::process) continue;
      ASSERT_EQ(run_in_child([&] { box.ship_well(sink); }), 0);
      ASSERT_EQ(delivered_rows(sink).size(), 6U);
    }
  }
}

}  // namespace
}  // namespace firn::hyp
