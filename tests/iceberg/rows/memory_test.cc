// Row-level changes of a table that is larger than their budget.
#include <cstdlib>
#include <fstream>

#include "iceberg/scan/scan.h"
#include "row_table.h"
#include "support/temp_folder.h"

namespace firn::iceberg {
namespace {

constexpr int64_t kRowBytes = 200;
constexpr int64_t kBatchRows = 4096;

// The table's size in MB; a quarter of it is the budget.
int64_t table_mb() {
  const char* text = std::getenv("FIRN_TEST_TABLE_MB");
  return text != nullptr ? std::atoll(text) : 48;
}

int64_t memory_kb(const std::string& name) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with(name + ":")) return std::atoll(line.c_str() + name.size() + 1);
  }
  return 0;
}
void reset_peak() { std::ofstream("/proc/self/clear_refs") << "5"; }

Schema wide_schema() {
  return Schema({column(1, "id", primitive(TypeId::long_)), column(2, "n", primitive(TypeId::long_)),
                 column(3, "text", primitive(TypeId::string))});
}

// `count` rows with ids first, first + step, … modulo `modulus`, and texts that do not compress well.
class Rows : public arrow::RecordBatchReader {
 public:
  Rows(int64_t first, int64_t count, int64_t step, int64_t modulus, int64_t n)
      : first_(first), count_(count), step_(step), modulus_(modulus), n_(n) {}
  std::shared_ptr<arrow::Schema> schema() const override { return schema_; }
  arrow::Status ReadNext(std::shared_ptr<arrow::RecordBatch>* batch) override {
    batch->reset();
    const int64_t rows = std::min(kBatchRows, count_ - next_);
    if (rows <= 0) return arrow::Status::OK();
    arrow::Int64Builder ids, ns;
    arrow::StringBuilder texts;
    std::string text(kRowBytes - 16, 'x');
    for (int64_t i = next_; i < next_ + rows; ++i) {
      const int64_t id = (first_ + i * step_) % modulus_;
      uint64_t state = static_cast<uint64_t>(id) * 0x9E3779B97F4A7C15ULL + static_cast<uint64_t>(n_);
      for (char& c : text) {
        state = state * 6364136223846793005ULL + 1442695040888963407ULL;
        c = static_cast<char>('a' + (state >> 59) % 26);
      }
      ARROW_RETURN_NOT_OK(ids.Append(id));
      ARROW_RETURN_NOT_OK(ns.Append(n_));
      ARROW_RETURN_NOT_OK(texts.Append(text));
    }
    next_ += rows;
    *batch = arrow::RecordBatch::Make(schema_, rows, arrow::ArrayVector{*ids.Finish(), *ns.Finish(), *texts.Finish()});
    return arrow::Status::OK();
  }

 private:
  int64_t first_, count_, step_, modulus_, n_;
  int64_t next_ = 0;
  std::shared_ptr<arrow::Schema> schema_ = to_arrow_schema(wide_schema());
};

class Memory : public ::testing::TestWithParam<RowMode> {};
INSTANTIATE_TEST_SUITE_P(, Memory, ::testing::Values(RowMode::copy_on_write, RowMode::merge_on_read),
                         [](const auto& info) {
                           return info.param == RowMode::copy_on_write ? "CopyOnWrite" : "MergeOnRead";
                         });

// Half of the rows are updated and as many inserted, in no order, from a source that is as large as the table.
TEST_P(Memory, AnUpsertOfALargeTableStaysNearItsBudget) {
  const int64_t rows = (table_mb() << 20) / kRowBytes, budget = (table_mb() << 20) / 4;
  const TempFolder folder;
  const auto io = make_local_file_io();
  create_filesystem_table(io,
                          new_table_metadata(folder / "t", wide_schema(), {}, {},
                                             {{"format-version", "3"},
                                              {"write.target-file-size-bytes", std::to_string((table_mb() << 20) / 8)},
                                              {"write.parquet.row-group-size-bytes", "4194304"}},
                                             now_ms()));
  const auto table = open_filesystem_table(io, folder / "t");
  RowOptions options;
  options.mode = GetParam();
  options.memory_bytes_max = budget;
  {
    Rows initial(0, rows, 1, rows, 0);
    overwrite_rows(*table, always_false(), initial, {.rows = options});
  }
  reset_peak();
  const int64_t before_kb = memory_kb("VmRSS");
  MergeOptions merge;
  merge.rows = options;
  merge.key_columns = {"id"};
  // 7919 and the number of ids have no common divisor, so each id comes once.
  const int64_t ids = rows % 7919 == 0 ? rows - 1 : rows;
  Rows source(0, ids, 7919, ids, 1);
  // Shifted by half a table: half of the ids are there.
  class Shifted : public arrow::RecordBatchReader {
   public:
    Shifted(Rows& rows, int64_t by) : rows_(rows), by_(by) {}
    std::shared_ptr<arrow::Schema> schema() const override { return rows_.schema(); }
    arrow::Status ReadNext(std::shared_ptr<arrow::RecordBatch>* batch) override {
      ARROW_RETURN_NOT_OK(rows_.ReadNext(batch));
      if (!*batch) return arrow::Status::OK();
      arrow::Int64Builder ids;
      const auto& column = static_cast<const arrow::Int64Array&>(*(*batch)->column(0));
      for (int64_t i = 0; i < column.length(); ++i) ARROW_RETURN_NOT_OK(ids.Append(column.Value(i) + by_));
      *batch = *(*batch)->SetColumn(0, rows_.schema()->field(0), *ids.Finish());
      return arrow::Status::OK();
    }

   private:
    Rows& rows_;
    int64_t by_;
  } shifted(source, rows / 2);
  const RowsResult result = upsert_rows(*table, shifted, merge);
  const int64_t peak_kb = memory_kb("VmHWM") - before_kb;
  EXPECT_EQ(result.counts.rows_updated, rows - rows / 2);
  EXPECT_EQ(result.counts.rows_inserted, ids - (rows - rows / 2));
  RecordProperty("peak_kb", std::to_string(peak_kb));
  fmt::print("table {} MB, budget {} MB, peak {} MB\n", table_mb(), budget >> 20, peak_kb >> 10);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  EXPECT_LT(peak_kb << 10, 2 * budget + (32 << 20));
#endif
  int64_t count = 0, updated = 0;
  const auto reader = scan(*table->load().metadata, io, {.columns = {"n"}});
  std::shared_ptr<arrow::RecordBatch> batch;
  while (reader->ReadNext(&batch).ok() && batch) {
    const auto& n = static_cast<const arrow::Int64Array&>(*batch->column(0));
    count += n.length();
    for (int64_t i = 0; i < n.length(); ++i) updated += n.Value(i);
  }
  EXPECT_EQ(count, rows / 2 + ids);
  EXPECT_EQ(updated, ids);
}

}  // namespace
}  // namespace firn::iceberg
