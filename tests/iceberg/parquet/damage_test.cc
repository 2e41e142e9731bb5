#include <cstring>
#include <fstream>
#include <random>

#include <arrow/io/file.h>
#include <parquet/column_writer.h>
#include <parquet/file_writer.h>

#include "files.h"
#include "support/fake_store.h"
#include "support/test_seed.h"

namespace firn::iceberg {
namespace {

TEST(Damage, AFileWithFlippedBytesIsAnErrorOrRowsAndNothingElse) {
  const uint64_t seed = test_seed();
  SCOPED_TRACE("FIRN_TEST_SEED=" + std::to_string(seed));
  std::mt19937_64 random(seed);
  const TempFolder folder;
  const Schema schema({field(1, "l", primitive(TypeId::long_)), field(2, "s", primitive(TypeId::string)),
                       field(3, "dec", Type::decimal(25, 2)), field(4, "b", primitive(TypeId::boolean_)),
                       field(5, "li", Type::list_of(6, false, primitive(TypeId::int_)))});
  std::string rows = "[";
  for (int i = 0; i < 200; ++i)
    rows +=
        (i > 0 ? ",[" : "[") + std::to_string(i) + R"(,"text )" + std::to_string(i % 9) + R"(","1.25",true,[1,null]])";
  ParquetWriteOptions options;
  options.page_row_limit = 50;
  options.compression = "uncompressed";
  const std::string path = folder / "a.parquet", damaged_path = folder / "b.parquet";
  write_rows(path, schema, rows + "]", options);
  std::ifstream in(path, std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(in), {}};
  const Schema flat = schema.select({"l", "s", "dec", "b"});
  int errors = 0;
  for (int round = 0; round < 400; ++round) {
    std::string damaged = bytes;
    for (uint64_t flips = random() % 4 + 1; flips > 0; --flips)
      damaged[random() % damaged.size()] = static_cast<char>(random());
    std::ofstream(damaged_path, std::ios::binary) << damaged;
    for (const bool nested : {false, true}) {
      try {
        ParquetReadRequest request{.projection = nested ? schema : flat};
        request.filter = bind(*parse_expression("l >= 60 and s != 'text 3'"), request.projection);
        ParquetFileReader reader(*make_local_file_io(), damaged_path, request);
        while (reader.next()) {
        }
      } catch (const Error& error) {
        EXPECT_NE(error.kind(), ErrorKind::internal) << error.what();
        ++errors;
      }
    }
  }
  EXPECT_GT(errors, 0);
}

// 300 and 172 as the footer writes them.
constexpr std::string_view k300 = "\xD8\x04", k172 = "\xD8\x02";

struct WrittenFile {
  std::string bytes;
  DataFile entry;
};

WrittenFile file_of_300_rows(const Schema& schema) {
  const TempFolder folder;
  std::string rows = "[";
  for (int i = 0; i < 300; ++i)
    rows += fmt::format("{}[{},[{}],[{}]]", i > 0 ? "," : "", i, i, i % 5 == 0 ? "null" : "1");
  ParquetWriteOptions options;
  options.page_row_limit = 100;
  WrittenFile file;
  file.entry = write_rows(folder / "a.parquet", schema, rows + "]", options);
  file.bytes = make_local_file_io()->read(folder / "a.parquet");
  return file;
}

size_t footer_at(const std::string& bytes) {
  uint32_t size = 0;
  std::memcpy(&size, bytes.data() + bytes.size() - 8, 4);
  return bytes.size() - 8 - size;
}

// The rows of `bytes`, where `entry` is what the manifest says of them; nullptr and the error in `message`.
std::shared_ptr<arrow::RecordBatch> rows_of(const std::string& bytes, const DataFile& entry, const Schema& projection,
                                            std::string* message = nullptr) {
  FakeStore store;
  store.replace("mem://a.parquet", bytes);
  ParquetReadRequest request{.projection = projection};
  request.entry = &entry;
  try {
    ParquetFileReader reader(store, "mem://a.parquet", request);
    arrow::RecordBatchVector batches;
    while (auto read = reader.next()) batches.push_back(std::move(read->batch));
    const auto table = check(arrow::Table::FromRecordBatches(to_arrow_schema(projection), batches), "rows");
    return check(table->CombineChunksToBatch(), "rows");
  } catch (const Error& error) {
    EXPECT_TRUE(error.kind() == ErrorKind::corrupt || error.kind() == ErrorKind::unsupported) << error.what();
    if (message != nullptr) *message = error.what();
    return nullptr;
  }
}

const Schema& counted_schema() {
  static const Schema schema({field(1, "l", primitive(TypeId::long_)),
                              field(2, "st", Type::struct_of({field(3, "x", primitive(TypeId::int_))})),
                              field(4, "li", Type::list_of(5, false, primitive(TypeId::int_)))});
  return schema;
}

TEST(Damage, ANumberOfRowsThatTheFooterSaysWronglyIsNamedAndNoRowIsLost) {
  const auto [bytes, entry] = file_of_300_rows(counted_schema());
  for (const Schema& projection : {counted_schema().select({"l"}), counted_schema().select({"l", "st"})}) {
    SCOPED_TRACE(projection.fields().size());
    std::string all = bytes;
    int named = 0;
    for (size_t at = footer_at(bytes); (at = bytes.find(k300, at)) != std::string::npos; ++at) {
      std::string damaged = bytes;
      damaged.replace(at, 2, k172);
      all.replace(at, 2, k172);
      std::string message;
      const auto rows = rows_of(damaged, entry, projection, &message);
      if (rows) {
        EXPECT_EQ(rows->num_rows(), 300);  // a statistic, or of a column that is not read
        continue;
      }
      ++named;
      for (const char* part : {"mem://a.parquet", "300", "172"})
        EXPECT_NE(message.find(part), std::string::npos) << message;
    }
    // Of the file, of its row group, of each column.
    EXPECT_EQ(named, 2 + static_cast<int>(projection.fields().size()));
    std::string message;
    EXPECT_EQ(rows_of(all, entry, projection, &message), nullptr) << "only the manifest knows better";
    EXPECT_NE(message.find("it has 172 rows, its manifest entry says 300"), std::string::npos) << message;
  }
}

TEST(Damage, OfAnyBitOfTheFooterChangesNoRowSilently) {
  const auto [bytes, entry] = file_of_300_rows(counted_schema());
  const auto expected = rows_of(bytes, entry, counted_schema());
  ASSERT_TRUE(expected);
  for (size_t at = footer_at(bytes); at < bytes.size(); ++at) {
    for (int bit = 0; bit < 8; ++bit) {
      std::string damaged = bytes;
      damaged[at] = static_cast<char>(damaged[at] ^ (1 << bit));
      const auto rows = rows_of(damaged, entry, counted_schema());
      EXPECT_TRUE(!rows || rows->Equals(*expected)) << "bit " << bit << " of byte " << at - footer_at(bytes);
    }
  }
}

TEST(Damage, OfAPageHeaderIsAnErrorOrChangesNoValue) {
  const Schema schema({field(1, "s", primitive(TypeId::string))});
  const TempFolder folder;
  std::string rows = "[";
  for (int i = 0; i < 150; ++i)
    rows += (i > 0 ? ",[" : "[") + (i % 7 == 0 ? std::string("null]") : "\"v" + std::to_string(i % 5) + "\"]");
  rows += "]";
  ParquetWriteOptions options;
  options.page_row_limit = 50;  // the values of a page end within a packed group: padding follows
  const DataFile entry = write_rows(folder / "a.parquet", schema, rows, options);
  const std::string bytes = make_local_file_io()->read(folder / "a.parquet");
  const auto expected = batch_of(schema, rows);
  for (const char* filter : {"", "s != 'x' or s is null"}) {  // with a filter the page index is read too
    for (size_t at = 4; at < footer_at(bytes); ++at) {
      for (int bit = 0; bit < 8; ++bit) {
        std::string damaged = bytes;
        damaged[at] = static_cast<char>(damaged[at] ^ (1 << bit));
        FakeStore store;
        store.replace("mem://a.parquet", damaged);
        try {
          ParquetReadRequest request{.projection = schema};
          request.entry = &entry;
          if (*filter != '\0') request.filter = bind(*parse_expression(filter), schema);
          ParquetFileReader reader(store, "mem://a.parquet", request);
          int64_t row = 0;
          while (const auto read = reader.next()) {
            EXPECT_TRUE(read->batch->Equals(*expected->Slice(row, read->batch->num_rows())))
                << "bit " << bit << " of byte " << at << " " << filter;
            row += read->batch->num_rows();
          }
          EXPECT_EQ(row, 150) << "bit " << bit << " of byte " << at << " " << filter;
        } catch (const Error& error) {
          EXPECT_NE(error.kind(), ErrorKind::internal) << error.what();
        }
      }
    }
  }
}

// As no engine writes them: a group has members.
TEST(Damage, AGroupWithoutMembersIsNamedWhereItIsRead) {
  namespace pq = parquet::schema;
  const auto integer = pq::PrimitiveNode::Make("id", parquet::Repetition::REQUIRED, parquet::Type::INT32,
                                               parquet::ConvertedType::NONE, -1, -1, -1, 1);
  const auto empty = pq::GroupNode::Make("g", parquet::Repetition::OPTIONAL, {}, nullptr, 2);
  const auto x = pq::PrimitiveNode::Make("x", parquet::Repetition::OPTIONAL, parquet::Type::INT32,
                                         parquet::ConvertedType::NONE, -1, -1, -1, 5);
  const auto empty_member = pq::GroupNode::Make("e", parquet::Repetition::OPTIONAL, {}, nullptr, 4);
  const auto outer = pq::GroupNode::Make("st", parquet::Repetition::OPTIONAL, {empty_member, x}, nullptr, 3);
  const TempFolder folder;
  const std::string path = folder / "a.parquet";
  auto sink = check(arrow::io::FileOutputStream::Open(path), path);
  auto writer =
      parquet::ParquetFileWriter::Open(sink, std::static_pointer_cast<pq::GroupNode>(pq::GroupNode::Make(
                                                 "table", parquet::Repetition::REQUIRED, {integer, empty, outer})));
  auto* group = writer->AppendRowGroup();
  const int32_t value = 7;
  const int16_t level = 2;
  static_cast<parquet::Int32Writer*>(group->NextColumn())->WriteBatch(1, nullptr, nullptr, &value);
  static_cast<parquet::Int32Writer*>(group->NextColumn())->WriteBatch(1, &level, nullptr, &value);
  writer->Close();
  check(sink->Close(), path);

  const Field id = field(1, "id", primitive(TypeId::int_)), x_field = field(5, "x", primitive(TypeId::int_));
  const Field y = field(6, "y", primitive(TypeId::int_));
  expect_equal(*read_all(path, {.projection = Schema({id})}), *batch_of(Schema({id}), "[[7]]"));
  const std::pair<Field, std::string> refused[] = {
      {field(2, "g", primitive(TypeId::string)), "column g "},
      {field(2, "g", Type::struct_of({y})), "column g "},
      {field(2, "g", Type::list_of(6, false, primitive(TypeId::int_))), "column g "},
      {field(3, "st", Type::struct_of({x_field})), "column st.e "},
      {field(3, "st", Type::struct_of({field(4, "e", Type::struct_of({y})), x_field})), "column st.e "},
  };
  for (const auto& [projected, name] : refused) {
    std::string message;
    EXPECT_EQ(kind_of([&] { read_all(path, {.projection = Schema({id, projected})}); }, &message), ErrorKind::corrupt);
    EXPECT_NE(message.find(path), std::string::npos) << message;
    EXPECT_NE(message.find(name + "is a group without members"), std::string::npos) << message;
  }
}

}  // namespace
}  // namespace firn::iceberg
