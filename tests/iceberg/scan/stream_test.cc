// Reading ahead: order, bounds, errors, early ends; and tables larger than what is held at once.
#include <atomic>
#include <random>

#include "iceberg/scan/test_table.h"
#include "support/test_seed.h"

namespace firn::iceberg {
namespace {

const Schema& id_schema() {
  static const Schema kSchema({optional(1, "id", long_type())});
  return kSchema;
}

std::shared_ptr<arrow::RecordBatch> ids_from(int64_t begin, int64_t count) {
  arrow::Int64Builder builder;
  for (int64_t id = begin; id < begin + count; ++id) EXPECT_TRUE(builder.Append(id).ok());
  return arrow::RecordBatch::Make(to_arrow_schema(id_schema()), count, {*builder.Finish()});
}

class ManyFiles : public testing::Test {
 protected:
  static constexpr int kFiles = 60;
  static constexpr int64_t kRowsPerFile = 50;

  ManyFiles() : table_(id_schema()) {
    std::vector<DataFile> files;
    for (int i = 0; i < kFiles; ++i) {
      files.push_back(
          table_.data_file(fmt::format("{:02}.parquet", i), ids_from(i * kRowsPerFile, kRowsPerFile), id_schema()));
    }
    table_.commit(files);
    options_.threads = 4;
    options_.batch_rows_max = 10;
    options_.counters = &counters_;
  }
  TestTable table_;
  ReadCounters counters_;
  ScanOptions options_;
};

TEST_F(ManyFiles, ComeInThePlansOrderOnAnyNumberOfThreads) {
  Lines expected;
  for (int64_t id = 0; id < kFiles * kRowsPerFile; ++id) expected.push_back(fmt::format("{{\"id\":{}}}", id));
  for (const int threads : {0, 1, 2, 7, 100}) {
    options_.threads = threads;
    EXPECT_EQ(table_.rows(options_), expected) << threads << " threads";
  }
}

TEST_F(ManyFiles, AreNotReadFarAheadOfTheReader) {
  const auto reader = scan(table_.metadata(), table_.io(), options_);
  EXPECT_EQ(counters_.files_opened, 0);  // nothing is read before it is asked for
  std::shared_ptr<arrow::RecordBatch> batch;
  ASSERT_TRUE(reader->ReadNext(&batch).ok());
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  EXPECT_LE(counters_.files_opened, 8);  // at most twice the threads
}

TEST_F(ManyFiles, MayBeLeftAtAnyPoint) {
  for (const int batches : {0, 1, 5, 40}) {
    const auto reader = scan(table_.metadata(), table_.io(), options_);
    std::shared_ptr<arrow::RecordBatch> batch;
    for (int i = 0; i < batches; ++i) ASSERT_TRUE(reader->ReadNext(&batch).ok());
    if (batches == 5) {
      ASSERT_TRUE(reader->Close().ok());
      ASSERT_TRUE(reader->ReadNext(&batch).ok());
      EXPECT_EQ(batch, nullptr);
    }
  }  // the test hangs or the sanitizer speaks if a thread outlives its reader
}

TEST_F(ManyFiles, OfWhichOneIsBrokenGiveTheRowsBeforeItAndThenTheError) {
  table_.io()->remove(table_.path("07.parquet"));
  const auto reader = scan(table_.metadata(), table_.io(), options_);
  std::shared_ptr<arrow::RecordBatch> batch;
  int64_t rows = 0;
  try {
    while (reader->ReadNext(&batch).ok() && batch) rows += batch->num_rows();
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::not_found);
    EXPECT_NE(std::string(error.what()).find("07.parquet"), std::string::npos);
  }
  EXPECT_EQ(rows, 7 * kRowsPerFile);
  ASSERT_TRUE(reader->ReadNext(&batch).ok());  // and nothing after it
  EXPECT_EQ(batch, nullptr);
}

TEST_F(ManyFiles, CanBeReadTaskByTask) {
  const auto plan = std::make_shared<const ScanPlan>(plan_scan(table_.metadata(), table_.io(), options_));
  ASSERT_EQ(plan->tasks.size(), static_cast<size_t>(kFiles));
  const auto reader = read_task(plan, 3, table_.io(), options_);
  EXPECT_EQ(TestTable::drain(*reader, plan->projection).front(), R"({"id":150})");
}

TEST(ScanStream, OfOtherFormatsNamesTheFile) {
  TestTable table(id_schema());
  DataFile file = table.data_file("a.orc", id_schema(), R"([{"id":1}])");
  file.file_format = "ORC";
  table.commit({file});
  try {
    table.rows();
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::unsupported);
    EXPECT_NE(std::string(error.what()).find("a.orc"), std::string::npos);
  }
}

// Rows of 400,000 in 20 row groups with every seventh deleted: all there, and never all in memory.
TEST(ScanStream, OfALargeFileWithDeletesInEveryRowGroupStaysSmall) {
  constexpr int64_t kRows = 400'000;
  TestTable table(id_schema(), 3);
  const DataFile data = table.data_file("a.parquet", ids_from(0, kRows), id_schema(), kRows / 20);
  std::vector<int64_t> deleted;
  for (int64_t position = 3; position < kRows; position += 7) deleted.push_back(position);
  table.commit({data});
  table.commit({table.deletion_vector("d.puffin", data.file_path, deleted)});
  ScanOptions options;
  options.batch_rows_max = 4096;
  options.filter = parse_expression("id >= 100001");  // prunes groups, and starts within one
  const auto reader = scan(table.metadata(), table.io(), options);
  const int64_t before = arrow::default_memory_pool()->bytes_allocated();
  int64_t most = 0;
  int64_t expected = 100'001;
  std::shared_ptr<arrow::RecordBatch> batch;
  while (reader->ReadNext(&batch).ok() && batch) {
    most = std::max(most, arrow::default_memory_pool()->bytes_allocated() - before);
    const auto& ids = static_cast<const arrow::Int64Array&>(*batch->column(0));
    for (int64_t row = 0; row < ids.length(); ++row) {
      if (expected % 7 == 3) ++expected;
      ASSERT_EQ(ids.Value(row), expected++);
    }
  }
  if (expected % 7 == 3) ++expected;
  EXPECT_EQ(expected, kRows);
  EXPECT_LT(most, kRows * 8);  // the column alone has that much
}

// Random files, deletes and filters against a model: sequence numbers, scopes and pruning together.
TEST(ScanStream, EqualsAModelUnderRandomDeletesAndFilters) {
  SCOPED_TRACE("FIRN_TEST_SEED=" + std::to_string(test_seed()));
  std::mt19937_64 random(test_seed());
  const Schema schema({optional(1, "k", long_type()), optional(2, "v", long_type())});
  struct Row {
    int64_t k, v;
  };
  struct File {
    std::string path;
    std::vector<Row> rows;
    std::vector<bool> live;
    std::vector<int64_t> deleted;  // by position
    bool has_vector = false;
  };
  for (int round = 0; round < 4; ++round) {
    TestTable table(schema, 3);
    std::vector<File> files;
    for (int commit = 0; commit < 6; ++commit) {
      std::vector<DataFile> added;
      // Equality deletes see older files alone, so the model applies them before the commit's own files.
      if (random() % 3 == 0) {
        const auto key = static_cast<int64_t>(random() % 20);
        added.push_back(table.equality_deletes(fmt::format("e{}.parquet", commit), Schema({schema.fields()[0]}),
                                               fmt::format(R"([{{"k":{}}}])", key), {1}));
        for (File& file : files) {
          for (size_t i = 0; i < file.rows.size(); ++i) file.live[i] = file.live[i] && file.rows[i].k != key;
        }
      }
      File file;
      Json json = Json::array();
      for (uint64_t i = 0; i < 20 + random() % 30; ++i) {
        file.rows.push_back({static_cast<int64_t>(random() % 20), static_cast<int64_t>(random() % 1000)});
        json.push_back({{"k", file.rows.back().k}, {"v", file.rows.back().v}});
      }
      file.live.assign(file.rows.size(), true);
      DataFile data = table.data_file(fmt::format("{}.parquet", commit), schema, json.dump(),
                                      1 + static_cast<int64_t>(random() % 15));
      file.path = data.file_path;
      added.push_back(data);
      files.push_back(std::move(file));
      File& target = files[random() % files.size()];
      if (!target.has_vector) {
        std::vector<int64_t> positions;
        for (size_t i = 0; i < target.rows.size(); ++i) {
          if (random() % 4 == 0) positions.push_back(static_cast<int64_t>(i));
        }
        target.has_vector = random() % 2 == 0;
        if (target.has_vector) {  // it replaces the position deletes before it, so it holds their positions too
          positions.insert(positions.end(), target.deleted.begin(), target.deleted.end());
          std::sort(positions.begin(), positions.end());
          positions.erase(std::unique(positions.begin(), positions.end()), positions.end());
        }
        added.push_back(target.has_vector
                            ? table.deletion_vector(fmt::format("v{}.puffin", commit), target.path, positions)
                            : table.position_deletes(fmt::format("p{}.parquet", commit), {{target.path, positions}}));
        target.deleted.insert(target.deleted.end(), positions.begin(), positions.end());
        for (const int64_t position : positions) target.live[static_cast<size_t>(position)] = false;
      }
      table.commit(added);
    }
    for (int query = 0; query < 8; ++query) {
      const auto low = static_cast<int64_t>(random() % 1000);
      const auto key = static_cast<int64_t>(random() % 20);
      Lines expected;
      for (const File& file : files) {
        for (size_t i = 0; i < file.rows.size(); ++i) {
          const Row& row = file.rows[i];
          if (file.live[i] && (row.v >= low || row.k == key)) expected.push_back(fmt::format(R"({{"v":{}}})", row.v));
        }
      }
      ScanOptions options;
      options.columns = {"v"};
      options.filter = parse_expression(fmt::format("v >= {} or k = {}", low, key));
      options.batch_rows_max = 1 + static_cast<int64_t>(random() % 40);
      options.threads = 1 + static_cast<int>(random() % 4);
      EXPECT_EQ(table.rows(options), expected);
      options.prune = false;
      EXPECT_EQ(table.rows(options), expected);
    }
  }
}

}  // namespace
}  // namespace firn::iceberg
