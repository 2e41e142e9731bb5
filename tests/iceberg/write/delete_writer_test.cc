// Delete files as the specification has them, read back by firn's own readers of deletes.
#include "iceberg/write/delete_writer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "../parquet/files.h"
#include "base/clock.h"
#include "support/fake_store.h"

namespace firn::iceberg {
namespace {

using ::testing::ElementsAre;
using ::testing::SizeIs;

Schema events() {
  return Schema(
      {field(1, "id", primitive(TypeId::long_)), field(2, "kind", primitive(TypeId::string)),
       field(3, "at",
             Type::struct_of({field(4, "x", primitive(TypeId::int_)), field(5, "y", primitive(TypeId::int_))}))});
}

TableMetadata table(int32_t version, const std::vector<PartitionDeclaration>& partitions = {},
                    std::map<std::string, std::string> properties = {}) {
  properties["format-version"] = std::to_string(version);
  return new_table_metadata("mem://t", events(), make_partition_spec(partitions, events()), {}, properties, now_ms());
}

DataFile data_file(const std::string& path, const std::string& kind = "") {
  DataFile file;
  file.file_path = path;
  if (!kind.empty()) file.partition = {Value(kind)};
  return file;
}

PositionSet positions(const std::vector<int64_t>& values) {
  PositionSet set;
  for (const int64_t value : values) set.add(value);
  return set;
}

// "path:position" of each row, in the file's order.
std::vector<std::string> rows_of(FileIO& io, const std::string& path) {
  ParquetReadRequest request;
  request.projection = Schema({field(kDeleteFilePathFieldId, "file_path", primitive(TypeId::string), true),
                               field(kDeletePosFieldId, "pos", primitive(TypeId::long_), true)});
  ParquetFileReader reader(io, path, std::move(request));
  std::vector<std::string> rows;
  while (auto read = reader.next()) {
    for (int64_t row = 0; row < read->batch->num_rows(); ++row) {
      rows.push_back(fmt::format("{}:{}", static_cast<const arrow::StringArray&>(*read->batch->column(0)).GetView(row),
                                 static_cast<const arrow::Int64Array&>(*read->batch->column(1)).Value(row)));
    }
  }
  return rows;
}

TEST(PositionDeletes, AreAFileForEachDataFileByDefault) {
  const auto store = std::make_shared<FakeStore>();
  PositionDeleteWriter writer(store, table(2, {{"kind"}}));
  const std::string long_path = "mem://t/data/kind=b/" + std::string(100, 'x') + ".parquet";
  writer.add(data_file(long_path, "b"), positions({7, 3, 20000}));
  writer.add(data_file("mem://t/data/kind=a/1.parquet", "a"), positions({0}));
  writer.add(data_file("mem://t/data/kind=a/2.parquet", "a"), positions({}));
  const auto files = writer.finish();
  ASSERT_THAT(files, SizeIs(2));
  EXPECT_THAT(rows_of(*store, files[0].file_path), ElementsAre("mem://t/data/kind=a/1.parquet:0"));
  EXPECT_THAT(rows_of(*store, files[1].file_path),
              ElementsAre(long_path + ":3", long_path + ":7", long_path + ":20000"));
  EXPECT_EQ(files[1].content, FileContent::position_deletes);
  EXPECT_EQ(files[1].record_count, 3);
  EXPECT_EQ(files[1].partition, std::vector<Value>{Value(std::string("b"))});
  EXPECT_EQ(files[1].referenced_data_file, long_path);
  // Whole paths, however long: readers find the data file by equal bounds.
  EXPECT_EQ(files[1].lower_bounds.at(kDeleteFilePathFieldId), long_path);
  EXPECT_EQ(files[1].upper_bounds.at(kDeleteFilePathFieldId), long_path);
  EXPECT_FALSE(files[1].sort_order_id);
  EXPECT_NE(files[1].file_path.find("/kind=b/"), std::string::npos);
  EXPECT_NE(files[0].file_path, files[1].file_path);
}

TEST(PositionDeletes, ShareAFileInAPartitionWhereTheTableSaysSo) {
  const auto store = std::make_shared<FakeStore>();
  PositionDeleteWriter writer(store, table(2, {{"kind"}}, {{"write.delete.granularity", "partition"}}));
  writer.add(data_file("a/2", "a"), positions({5, 1}));
  writer.add(data_file("b/1", "b"), positions({9}));
  writer.add(data_file("a/1", "a"), positions({4}));
  const auto files = writer.finish();
  ASSERT_THAT(files, SizeIs(2));
  EXPECT_THAT(rows_of(*store, files[0].file_path), ElementsAre("a/1:4", "a/2:1", "a/2:5"));
  EXPECT_EQ(files[0].referenced_data_file, "");
  EXPECT_EQ(files[0].lower_bounds.at(kDeleteFilePathFieldId), "a/1");
  EXPECT_EQ(files[0].upper_bounds.at(kDeleteFilePathFieldId), "a/2");
  EXPECT_EQ(files[1].referenced_data_file, "b/1");
  TableMetadata wrong = table(2);
  wrong.properties["write.delete.granularity"] = "row";
  EXPECT_THROW(delete_granularity(wrong), Error);
}

TEST(PositionDeletes, LieInTheSpecOfTheirDataFile) {
  TableMetadata metadata = table(2, {{"kind"}});
  metadata.partition_specs.push_back({.spec_id = 1});
  metadata.default_spec_id = 1;
  const auto store = std::make_shared<FakeStore>();
  PositionDeleteWriter writer(store, metadata);
  writer.add(data_file("old", "a"), positions({1}));
  DataFile unpartitioned = data_file("new");
  unpartitioned.partition_spec_id = 1;
  writer.add(unpartitioned, positions({1}));
  EXPECT_THROW(writer.add(unpartitioned, positions({2})), Error);
  const auto files = writer.finish();
  ASSERT_THAT(files, SizeIs(2));
  EXPECT_EQ(files[0].partition_spec_id, 1);
  EXPECT_EQ(files[0].partition, std::vector<Value>{});
  EXPECT_EQ(files[1].partition_spec_id, 0);
  EXPECT_EQ(files[1].partition, std::vector<Value>{Value(std::string("a"))});
}

TEST(DeletionVectors, AreBlobsOfOnePuffinFile) {
  const auto store = std::make_shared<FakeStore>();
  PositionDeleteWriter writer(store, table(3, {{"kind"}}));
  writer.add(data_file("b", "b"), positions({1, 2, 3, int64_t{1} << 40}));
  writer.add(data_file("a", "a"), positions({70000}));
  const auto files = writer.finish();
  ASSERT_THAT(files, SizeIs(2));
  EXPECT_EQ(files[0].file_path, files[1].file_path);
  const std::string bytes = store->read(files[0].file_path);
  const PuffinFile puffin = parse_puffin_footer(bytes, static_cast<int64_t>(bytes.size()), "puffin");
  ASSERT_THAT(puffin.blobs, SizeIs(2));
  for (size_t i = 0; i < 2; ++i) {
    const DataFile& file = files[i];
    const PuffinBlob& blob = puffin.blobs[i];
    EXPECT_EQ(file.file_format, "PUFFIN");
    EXPECT_EQ(file.content, FileContent::position_deletes);
    EXPECT_EQ(file.referenced_data_file, i == 0 ? "a" : "b");
    EXPECT_EQ(file.partition, std::vector<Value>{Value(file.referenced_data_file)});
    EXPECT_EQ(file.file_size_bytes, static_cast<int64_t>(bytes.size()));
    EXPECT_EQ(file.content_offset, blob.offset);
    EXPECT_EQ(file.content_size_bytes, blob.length);
    // Puffin spec, "deletion-vector-v1 blob type".
    EXPECT_EQ(blob.type, "deletion-vector-v1");
    EXPECT_EQ(blob.compression_codec, "");
    EXPECT_EQ(blob.snapshot_id, -1);
    EXPECT_EQ(blob.sequence_number, -1);
    EXPECT_EQ(blob.properties.at("referenced-data-file"), file.referenced_data_file);
    EXPECT_EQ(blob.properties.at("cardinality"), std::to_string(file.record_count));
    const PositionSet set = PositionSet::from_blob(
        std::string_view(bytes).substr(static_cast<size_t>(blob.offset), static_cast<size_t>(blob.length)), "blob");
    EXPECT_EQ(set.size(), file.record_count);
    EXPECT_TRUE(set.contains(i == 0 ? 70000 : int64_t{1} << 40));
  }
}

TEST(DeleteWriter, WithoutFinishLeavesNothing) {
  const auto store = std::make_shared<FakeStore>();
  {
    PositionDeleteWriter writer(store, table(2));
    writer.add(data_file("a"), positions({1}));
  }
  PositionDeleteWriter nothing(store, table(3));
  EXPECT_TRUE(nothing.finish().empty());
  EXPECT_TRUE(store->paths().empty());
  EXPECT_THROW(PositionDeleteWriter(store,
                                    [] {
                                      TableMetadata old = table(2);
                                      old.format_version = 1;
                                      return old;
                                    }()),
               Error);
}

TEST(EqualityDeletes, StoreTheKeysAndThePartitionsSources) {
  const auto store = std::make_shared<FakeStore>();
  const TableMetadata metadata = table(2, {{"kind"}});
  const Schema schema = equality_delete_schema(metadata, {4, 1});
  ASSERT_THAT(schema.fields(), SizeIs(3));
  EXPECT_EQ(schema.fields()[1].name, "kind");
  EXPECT_EQ(schema.fields()[2].type->fields().size(), 1u);
  AppendWriter writer(store, metadata, {.equality_ids = {4, 1}});
  writer.write(batch_of(schema, R"([[1, "a", [5]], [null, "b", null], [2, "a", [null]]])"));
  const auto files = writer.finish();
  ASSERT_THAT(files, SizeIs(2));
  for (const DataFile& file : files) {
    EXPECT_EQ(file.content, FileContent::equality_deletes);
    EXPECT_EQ(file.equality_ids, (std::vector<int32_t>{4, 1}));
    EXPECT_FALSE(file.sort_order_id);
  }
  EXPECT_EQ(files[0].partition, std::vector<Value>{Value(std::string("a"))});
  EXPECT_EQ(files[0].record_count, 2);
  EXPECT_EQ(files[1].null_value_counts.at(1), 1);
  EXPECT_THROW(equality_delete_schema(metadata, {3}), Error);
  EXPECT_THROW(equality_delete_schema(metadata, {9}), Error);
}

}  // namespace
}  // namespace firn::iceberg
