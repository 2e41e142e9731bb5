#include "hyp/cache/sequence_merge.h"

#include <algorithm>
#include <random>

#include <arrow/table.h>
#include <gtest/gtest.h>

#include "base/arrow_status.h"
#include "base/error.h"
#include "support/test_seed.h"

namespace firn::hyp {
namespace {

const auto kSchema = arrow::schema({arrow::field("tag", arrow::utf8()), arrow::field("seq", arrow::int64())});

std::shared_ptr<arrow::RecordBatch> make_batch(const std::vector<int64_t>& numbers) {
  arrow::StringBuilder tags;
  arrow::Int64Builder seqs;
  for (const int64_t number : numbers) {
    check(tags.Append("t" + std::to_string(number)), "test");
    check(seqs.Append(number), "test");
  }
  return arrow::RecordBatch::Make(kSchema, static_cast<int64_t>(numbers.size()),
                                  {check(tags.Finish(), "test"), check(seqs.Finish(), "test")});
}

struct OpenCount {
  int64_t now = 0, most = 0, ever = 0;
};

// Counts itself open while it lives.
class CountedReader : public arrow::RecordBatchReader {
 public:
  CountedReader(std::vector<std::shared_ptr<arrow::RecordBatch>> batches, OpenCount& count)
      : batches_(std::move(batches)), count_(count) {
    ++count_.ever;
    count_.most = std::max(count_.most, ++count_.now);
  }
  ~CountedReader() override { --count_.now; }
  std::shared_ptr<arrow::Schema> schema() const override { return kSchema; }
  arrow::Status ReadNext(std::shared_ptr<arrow::RecordBatch>* batch) override {
    *batch = next_ < batches_.size() ? batches_[next_++] : nullptr;
    return arrow::Status::OK();
  }

 private:
  std::vector<std::shared_ptr<arrow::RecordBatch>> batches_;
  size_t next_ = 0;
  OpenCount& count_;
};

// A run in batches of three rows.
SequencedRun make_run(const std::vector<int64_t>& numbers, OpenCount& count) {
  SequencedRun run;
  run.lower = *std::min_element(numbers.begin(), numbers.end());
  run.upper = *std::max_element(numbers.begin(), numbers.end());
  run.name = "a test's run";
  run.open = [numbers, &count] {
    std::vector<std::shared_ptr<arrow::RecordBatch>> batches;
    const auto whole = make_batch(numbers);
    for (int64_t begin = 0; begin < whole->num_rows(); begin += 3) batches.push_back(whole->Slice(begin, 3));
    return std::make_shared<CountedReader>(std::move(batches), count);
  };
  return run;
}

std::vector<int64_t> merged(std::vector<SequencedRun> runs, int64_t batch_rows_max) {
  std::vector<int64_t> numbers;
  SequenceMerge merge(std::move(runs), kSchema, 1, batch_rows_max);
  while (const auto batch = merge.next()) {
    EXPECT_GT(batch->num_rows(), 0);
    EXPECT_LE(batch->num_rows(), batch_rows_max);
    check(batch->ValidateFull(), "test");
    const auto& seqs = static_cast<const arrow::Int64Array&>(*batch->column(1));
    for (int64_t i = 0; i < seqs.length(); ++i) {
      numbers.push_back(seqs.Value(i));
      EXPECT_EQ(static_cast<const arrow::StringArray&>(*batch->column(0)).GetString(i),
                "t" + std::to_string(seqs.Value(i)));
    }
  }
  return numbers;
}

TEST(SequenceMerge, RunsThatDoNotOverlapAreOpenOneAfterAnother) {
  OpenCount count;
  EXPECT_EQ(merged({make_run({7, 8, 9, 20}, count), make_run({1, 2}, count), make_run({3, 6}, count)}, 100),
            (std::vector<int64_t>{1, 2, 3, 6, 7, 8, 9, 20}));
  EXPECT_EQ(count.most, 1);
  EXPECT_TRUE(merged({}, 100).empty());
}

TEST(SequenceMerge, EqualNumbersAllCome) {
  OpenCount count;
  EXPECT_EQ(merged({make_run({1, 5, 5}, count), make_run({5, 9}, count)}, 2), (std::vector<int64_t>{1, 5, 5, 5, 9}));
}

// Rows dealt out to `num_runs` runs at random, so that all overlap.
void check_dealt(size_t num_runs, int64_t num_rows, int64_t batch_rows_max, bool has_bounds) {
  std::mt19937_64 random(test_seed());
  OpenCount count;
  std::vector<std::vector<int64_t>> dealt(num_runs);
  std::vector<int64_t> expected;
  for (int64_t number = 1; number <= num_rows; ++number) {
    dealt[random() % num_runs].push_back(number);
    expected.push_back(number);
  }
  std::vector<SequencedRun> runs;
  for (const auto& numbers : dealt) {
    if (numbers.empty()) continue;
    runs.push_back(make_run(numbers, count));
    if (!has_bounds) runs.back().lower = std::numeric_limits<int64_t>::min(), runs.back().upper = num_rows;
  }
  EXPECT_EQ(merged(std::move(runs), batch_rows_max), expected);
  EXPECT_LE(count.most, static_cast<int64_t>(kMergeOpenMax));
  EXPECT_LE(count.ever, static_cast<int64_t>(num_runs));  // each run is read once
}

TEST(SequenceMerge, OverlappingRunsAreMerged) {
  check_dealt(3, 500, 64, true);
  check_dealt(64, 5000, 1000, false);
}

TEST(SequenceMerge, MoreThanTheMostAreMergedInPassesWithNoMoreOpen) {
  check_dealt(65, 3000, 200, true);
  check_dealt(300, 6000, 512, false);
}

TEST(SequenceMerge, RowsThatDoNotAscendAreAnErrorThatNamesTheRun) {
  OpenCount count;
  for (const std::vector<int64_t>& numbers : {std::vector<int64_t>{2, 1}, std::vector<int64_t>{4, 5, 6, 1}}) {
    try {
      merged({make_run(numbers, count)}, 100);
      FAIL() << "no error";
    } catch (const Error& e) {
      EXPECT_EQ(e.kind(), ErrorKind::corrupt);
      EXPECT_NE(std::string(e.what()).find("a test's run"), std::string::npos);
    }
  }
}

TEST(SequenceMerge, ARunInAnyOrderIsSortedOnDisk) {
  std::mt19937_64 random(test_seed());
  std::vector<int64_t> numbers(1000);
  for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<int64_t>(i);
  const std::vector<int64_t> expected = numbers;
  std::shuffle(numbers.begin(), numbers.end(), random);
  OpenCount count;
  EXPECT_EQ(merged(sort_into_runs(make_run(numbers, count), 1), 300), expected);
}

}  // namespace
}  // namespace firn::hyp
