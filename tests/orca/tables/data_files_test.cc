// Entries of written files: what is kept of them across processes (orca-tables.md, "DataFiles", "FileWriter").
#include <cmath>

#include <boost/pfr.hpp>

#include "iceberg/manifest/expect_entry.h"
#include "orca/tables/world.h"
#include "orca/tasks/codec.h"
#include "support/crash.h"

namespace firn::orca {
namespace {

using iceberg::DataFile;
using ::testing::HasSubstr;

static_assert(boost::pfr::tuple_size_v<DataFile> == 21, "a field more: full_entry() and expect_equal() lack it");
// Every member has a value of its own.
DataFile full_entry() {
  DataFile file;
  file.content = iceberg::FileContent::position_deletes;
  file.file_path = "s3://b/data/ä=1/f.puffin";
  file.file_format = "PUFFIN";
  file.partition = {std::monostate(),
                    true,
                    int32_t{-7},
                    int64_t{1} << 40,
                    1.5F,
                    -0.0,
                    arrow::Decimal128("-12345678901234567890"),
                    std::string("\0x\xff", 3),
                    iceberg::NestedJson{"{\"a\":1}"}};
  file.record_count = 1;
  file.file_size_bytes = 2;
  file.column_sizes = {{1, 3}};
  file.value_counts = {{1, 4}};
  file.null_value_counts = {{1, 5}};
  file.nan_value_counts = {{1, 6}};
  file.lower_bounds = {{1, std::string("\0a", 2)}};
  file.upper_bounds = {{1, "b"}, {-2, ""}};
  file.key_metadata = "key";
  file.split_offsets = {4, 1 << 20};
  file.equality_ids = {1, 2};
  file.sort_order_id = 7;
  file.first_row_id = 8;
  file.referenced_data_file = "s3://b/data/f.parquet";
  file.content_offset = 9;
  file.content_size_bytes = 10;
  file.partition_spec_id = 11;
  return file;
}

void expect_same(const DataFile& a, const DataFile& b) {
  iceberg::expect_equal(a, b);
  EXPECT_EQ(a.partition_spec_id, b.partition_spec_id);
}

TEST(DataFiles, EveryFieldOfEachEntryIsCarried) {
  DataFiles files({full_entry(), DataFile()});
  files.schemas = {event_schema()};
  std::string bytes = "before";
  files.encode(bytes);
  bytes += "after";
  size_t pos = 6;
  const DataFiles read = DataFiles::decode(bytes, pos);
  EXPECT_EQ(bytes.substr(pos), "after");
  ASSERT_EQ(read.size(), 2u);
  expect_same(read.files[0], full_entry());
  expect_same(read.files[1], DataFile());
  ASSERT_EQ(read.schemas.size(), 1u);
  EXPECT_TRUE(read.schemas[0].same_fields(event_schema()));
}

TEST(DataFiles, FloatsKeepTheirBits) {
  DataFile file;
  file.partition = {std::nan(""), -0.0, std::numeric_limits<float>::infinity()};
  std::string bytes;
  DataFiles({file}).encode(bytes);
  size_t pos = 0;
  const auto partition = DataFiles::decode(bytes, pos).files.at(0).partition;
  EXPECT_TRUE(std::isnan(std::get<double>(partition[0])));
  EXPECT_TRUE(std::signbit(std::get<double>(partition[1])));
  EXPECT_EQ(std::get<float>(partition[2]), std::numeric_limits<float>::infinity());
}

TEST(DataFiles, HaveALengthAndTakeOthersEntries) {
  DataFiles files;
  EXPECT_EQ(files.size(), 0u);
  DataFiles one({full_entry()});
  one.schemas = {event_schema()};
  files.add(one);
  files.add(one);
  files.add(files);
  EXPECT_EQ(files.size(), 4u);
  EXPECT_EQ(files.schemas.size(), 1u);  // each once
}

TEST(DataFiles, DamagedBytesAreRefusedWhereverTheyEnd) {
  std::string bytes;
  DataFiles files({full_entry()});
  files.schemas = {event_schema()};
  files.encode(bytes);
  for (size_t size = 0; size < bytes.size(); ++size) {
    size_t pos = 0;
    EXPECT_REFUSED(DataFiles::decode(bytes.substr(0, size), pos), ErrorKind::corrupt, HasSubstr("data files"));
    EXPECT_EQ(pos, 0u);
  }
  for (size_t i = 0; i < bytes.size(); ++i) {  // no byte leads to a crash, or to memory beyond what the bytes are
    for (const char flip : {'\1', '\x7f', '\xff'}) {
      std::string damaged = bytes;
      damaged[i] = static_cast<char>(damaged[i] ^ flip);
      size_t pos = 0;
      try {
        DataFiles::decode(damaged, pos);
      } catch (const Error&) {
      }
    }
  }
}

TEST(DataFiles, ALaterVersionIsNotGuessed) {
  std::string bytes;
  DataFiles().encode(bytes);
  bytes[2] = 9;
  size_t pos = 0;
  EXPECT_REFUSED(DataFiles::decode(bytes, pos), ErrorKind::unsupported, HasSubstr("version 9"));
}

struct Hour {  // as a task returns it: no codec of its own
  DataFiles files;
  int64_t rows = 0;
  double seconds = 0;
  std::vector<DataFiles> more;
};

TEST(DataFiles, AStructHoldingThemCrossesByReflection) {
  Hour hour;
  hour.files = DataFiles({full_entry()});
  hour.rows = 7;
  hour.seconds = 1.5;
  hour.more = {DataFiles(), DataFiles({full_entry()})};
  std::string bytes;
  encode_value(bytes, hour);
  const Hour read = decode_whole<Hour>(bytes);
  ASSERT_EQ(read.files.size(), 1u);
  expect_same(read.files.files[0], full_entry());
  EXPECT_EQ(read.rows, 7);
  EXPECT_EQ(read.seconds, 1.5);
  ASSERT_EQ(read.more.size(), 2u);
  expect_same(read.more[1].files.at(0), full_entry());
}

TEST(DataFiles, AreCommittedInAnotherProcessThanTheyWereWrittenIn) {
  const TempFolder folder;
  World world(folder.path());
  Table events = world.make_table();
  const std::string sent = folder / "sent";
  ASSERT_EQ(run_in_child([&] {  // a worker: no context, nothing checked or recorded
              std::string bytes;
              write_files(load_dataset("nyc.events"), day_rows("d1", {1, 2})).encode(bytes);
              replace_file(sent, bytes);
            }),
            0);
  EXPECT_EQ(num_snapshots(events), 0u);
  const std::string bytes = make_local_file_io()->read(sent);
  size_t pos = 0;
  Attempt step = world.attempt({});
  append_files(step, events, DataFiles::decode(bytes, pos));
  EXPECT_EQ(ids(events), (Ids{1, 2}));
}

TEST(FileWriter, WritesAFilePerPartitionWithoutCommitting) {
  World world;
  const Table events = world.make_table();
  FileWriter writer(events);
  writer.write(batches_of(R"([{"id": 1, "day": "d1"}, {"id": 2, "day": "d2"}, {"id": 3, "day": "d1"}])"));
  EXPECT_EQ(writer.rows(), 3);
  writer.put(day_rows("d2", {4}).front());
  EXPECT_EQ(writer.rows(), 4);
  const DataFiles files = writer.finish();
  ASSERT_EQ(files.size(), 2u);
  int64_t records = 0;
  for (const DataFile& file : files.files) {
    EXPECT_TRUE(world.store->stat(file.file_path));
    EXPECT_THAT(file.file_path, HasSubstr("mem://w/nyc/events/data/day=d"));
    EXPECT_EQ(file.content, iceberg::FileContent::data);
    records += file.record_count;
  }
  EXPECT_EQ(records, 4);
  EXPECT_EQ(num_snapshots(events), 0u);
}

TEST(FileWriter, WhatIsNotFinishedLeavesNothing) {
  World world;
  const Table events = world.make_table();
  {
    FileWriter writer(events);
    writer.put(day_rows("d1", {1}).front());
  }
  EXPECT_EQ(num_unnamed_files(events), 0u);
}

TEST(FileWriter, HoldsTheSchemaOfItsMakingAndItsEntriesAreCommittedAllTheSame) {
  World world;
  Table events = world.make_table();
  FileWriter writer(events);
  writer.put(day_rows("d1", {1}).front());
  const Schema wider({column(1, "id", primitive(TypeId::long_)), column(2, "day", primitive(TypeId::string)),
                      column(3, "note", primitive(TypeId::string))});
  Attempt step = world.attempt({});
  events = ensure_table(step, "nyc.events", wider);
  writer.put(day_rows("d1", {2}).front());
  append_files(step, events, writer.finish());
  EXPECT_EQ(rows(events), (Lines{R"({"id":1,"day":"d1","note":null})", R"({"id":2,"day":"d1","note":null})"}));
}

TEST(FileWriter, HoldsTheSpecOrderAndPropertiesOfItsMaking) {
  World world;
  Table events = world.make_table();
  const auto write = [](FileWriter& writer) {
    writer.put(day_rows("d1", {2, 1}).front());
    return writer.finish();
  };
  FileWriter early(events);
  iceberg::commit_metadata(*events.operations(), [](iceberg::TableMetadata& next) {
    return iceberg::update_spec(next, {.remove = {"day"}, .rename = {}, .add = {}}) &&
           iceberg::set_sort_order(next, {{.column = "id"}}) &&
           iceberg::update_properties(next, {{"write.data.path", "mem://w/elsewhere"}}, {});
  });
  events.refresh();
  FileWriter late(events);
  const iceberg::DataFile held = write(early).files.at(0), now = write(late).files.at(0);
  EXPECT_EQ(held.partition.size(), 1u);  // by day
  EXPECT_EQ(now.partition.size(), 0u);
  EXPECT_NE(held.partition_spec_id, now.partition_spec_id);
  EXPECT_EQ(held.sort_order_id.value_or(0), 0);
  EXPECT_EQ(now.sort_order_id, events.metadata().default_sort_order_id);
  EXPECT_THAT(held.file_path, HasSubstr("mem://w/nyc/events/data/"));
  EXPECT_THAT(now.file_path, HasSubstr("mem://w/elsewhere/"));
}

TEST(FileWriter, EntriesWhoseFieldIdsMeanOtherColumnsByNowAreRefused) {  // P2
  World world;
  Table events = world.make_table();
  const DataFiles files = write_files(events, day_rows("d1", {1}));
  world.store->remove("mem://w/nyc/events/metadata/version-hint.text");
  for (const std::string& path : world.store->paths()) {
    if (path.find("/metadata/") != std::string::npos) world.store->remove(path);
  }
  const Schema other({column(1, "day", primitive(TypeId::string)), column(2, "id", primitive(TypeId::long_))});
  Attempt step = world.attempt({});
  Table again = ensure_table(step, "nyc.events", other);  // dropped and made anew
  EXPECT_REFUSED(append_files(step, again, files), ErrorKind::schema_mismatch, HasSubstr("id"));
  EXPECT_EQ(num_snapshots(again), 0u);
}

}  // namespace
}  // namespace firn::orca
