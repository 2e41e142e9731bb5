// A dataset of very many sources: each has a table of its own, and a column has one type in all of them.
#include <atomic>

#include <gtest/gtest.h>

#include "base/fault_point.h"
#include "hyp/cache/cache_box.h"
#include "support/local_disk.h"

namespace firn::hyp {
namespace {

// The local disk, and how often something was looked up on it.
class CountingDisk : public LocalDisk {
 public:
  std::shared_ptr<arrow::io::RandomAccessFile> open(const std::string& path) override {
    ++lookups_;
    return LocalDisk::open(path);
  }
  std::string read(const std::string& path) override {
    ++lookups_;
    return LocalDisk::read(path);
  }
  std::optional<std::string> read_if_exists(const std::string& path) override {
    ++lookups_;
    return LocalDisk::read_if_exists(path);
  }
  std::optional<FileInfo> stat(const std::string& path) override {
    ++lookups_;
    return LocalDisk::stat(path);
  }
  std::vector<FileInfo> list(const std::string& folder, bool recursive) override {
    ++lookups_;
    return LocalDisk::list(folder, recursive);
  }
  int64_t take_lookups() { return lookups_.exchange(0); }

 private:
  std::atomic<int64_t> lookups_ = 0;
};

struct ManySources : testing::Test {
  CacheBox box;
  std::shared_ptr<CountingDisk> disk = std::make_shared<CountingDisk>();

  static std::string source(int number) { return fmt::format("s{:03}", number); }
  static std::vector<Frame> a_row_of_each(int sources, const std::string& row) {
    std::vector<Frame> frames;
    for (int i = 0; i < sources; ++i) frames.push_back(make_frame("logs", source(i), {row}));
    return frames;
  }
};

TEST_F(ManySources, EachCostsAFlushTheSameHoweverManyThereAre) {
  constexpr int kFew = 4, kTimes = 5;
  std::vector<int64_t> new_tables, new_columns;
  for (const int sources : {kFew, kTimes * kFew}) {
    CacheBox own;
    Cache cache(own.config, disk);
    disk->take_lookups();
    ASSERT_EQ(ingest(cache, a_row_of_each(sources, R"({"id":1})")).rows, sources);
    new_tables.push_back(disk->take_lookups());
    ASSERT_EQ(ingest(cache, a_row_of_each(sources, R"({"id":2,"more":"x"})")).rows, sources);
    new_columns.push_back(disk->take_lookups());
    EXPECT_EQ(cached_rows(cache, {"logs", source(sources - 1)}), (Lines{R"({"id":1})", R"({"id":2,"more":"x"})"}));
  }
  EXPECT_LE(new_tables[1], kTimes * new_tables[0]);
  EXPECT_LE(new_columns[1], kTimes * new_columns[0]);
}

TEST_F(ManySources, WhatAnotherProcessBringsWhileTheyAreFlushedIsSeen) {
  Cache cache(box.config), other(box.config);
  ingest(cache, {make_frame("logs", "b", {R"({"id":1})"})});
  int commits = 0;
  set_fault_handler([&](const char* name) {
    if (std::string_view(name) != "flush.committed" || ++commits != 2) return;
    ingest(other, {make_frame("logs", "z", {R"({"new":"text"})"}), make_frame("logs", "a", {R"({"late":"text"})"})});
  });
  // a is made, then b, which is there, gets its row: meanwhile others make z and widen a.
  const FlushReport report =
      ingest(cache, {make_frame("logs", "a", {R"({"id":1})"}), make_frame("logs", "b", {R"({"id":2})"}),
                     make_frame("logs", "c", {R"({"id":1})", R"({"new":1})", R"({"late":1})"})});
  set_fault_handler(nullptr);
  ASSERT_GT(commits, 2);
  EXPECT_EQ(report.rows, 3);
  EXPECT_EQ(report.rejected, 2) << "two numbers where the columns hold text";
  const iceberg::Schema columns = cache.dataset_schema("logs");
  EXPECT_EQ(columns.fields().size(), 3u);
  for (const iceberg::Field& field : columns.fields()) {
    EXPECT_EQ(field.type->to_string(), field.name == "id" ? "long" : "string") << field.name;
  }
}

}  // namespace
}  // namespace firn::hyp
