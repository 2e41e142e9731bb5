// Avro data and delete files (Iceberg spec, Appendix A, "Avro"). tests/conformance reads those that Java wrote.
#include <fstream>
#include <random>

#include "base/arrow_status.h"
#include "iceberg/avro/container.h"
#include "iceberg/avro/encoder.h"
#include "iceberg/scan/data_file_reader.h"
#include "iceberg/scan/test_table.h"
#include "support/test_seed.h"

namespace firn::iceberg {
namespace {

using avro::put_bytes;
using avro::put_long;

// An Avro file of records that `encode` appends one by one, as a data file that is not committed yet.
DataFile avro_file(TestTable& table, const std::string& name, const std::string& schema, int64_t rows,
                   const std::function<void(int64_t row, std::string& out)>& encode,
                   avro::CodecKind codec = avro::CodecKind::deflate) {
  avro::ContainerWriter writer(schema, {}, codec);
  for (int64_t row = 0; row < rows; ++row) {
    encode(row, writer.record());
    writer.end_record();
  }
  const std::string bytes = writer.finish();
  table.io()->replace(table.path(name), bytes);
  DataFile file;
  file.file_path = table.path(name);
  file.file_format = "AVRO";
  file.record_count = rows;
  file.file_size_bytes = static_cast<int64_t>(bytes.size());
  return file;
}

constexpr const char* kIdSchema =
    R"({"type":"record","name":"table","fields":[{"name":"id","type":"long","field-id":1}]})";
void encode_id(int64_t row, std::string& out) { put_long(out, row); }
const Schema& id_schema() {
  static const Schema kSchema({optional(1, "id", long_type())});
  return kSchema;
}

// A new table numbers its columns anew; these keep their ids.
void keep_ids(TestTable& table, const Schema& schema) { set_current_schema(table.metadata(), schema.with_id(1), 100); }

Error error_of(const std::function<void()>& work) {
  try {
    work();
  } catch (const Error& error) {
    return error;
  }
  ADD_FAILURE() << "nothing was thrown";
  return Error(ErrorKind::internal, "");
}

DataFile committed_copy(TestTable& table, const std::string& source) {
  std::ifstream in(source, std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(in), {}};
  table.io()->replace(table.path("a.avro"), bytes);
  DataFile file;
  file.file_path = table.path("a.avro");
  file.file_format = "AVRO";
  file.record_count = 202;
  file.file_size_bytes = static_cast<int64_t>(bytes.size());
  table.commit({file});
  return file;
}

Schema fastavro_schema() {
  const auto of = [](TypeId id) { return Type::primitive(id); };
  return Schema({
      optional(1, "id", long_type()),
      optional(2, "i", long_type()),               // int in the file: promoted
      optional(3, "f", of(TypeId::double_)),       // float in the file; null second in its union
      optional(4, "dec_b", Type::decimal(30, 3)),  // 20 digits in the file
      optional(5, "dec_f", Type::decimal(9, 2)),   // fixed
      optional(6, "d", of(TypeId::date)),
      optional(7, "t", of(TypeId::time)),
      optional(8, "ts", of(TypeId::timestamp)),
      optional(9, "tz", of(TypeId::timestamptz)),
      optional(10, "local", of(TypeId::timestamp)),  // local-timestamp-micros
      optional(11, "ms", of(TypeId::timestamptz)),   // timestamp-millis
      optional(12, "s", string_type()),
      optional(13, "u", of(TypeId::uuid)),
      optional(14, "us", of(TypeId::uuid)),  // Avro's own uuid, a string
      optional(15, "fx", Type::fixed(3)),
      optional(16, "bin", of(TypeId::binary)),
      optional(17, "b", of(TypeId::boolean_)),
      optional(18, "li", Type::list_of(19, false, long_type())),
      optional(20, "m", Type::map_of(21, string_type(), 22, false, int_type())),   // Avro's map
      optional(23, "mi", Type::map_of(24, int_type(), 25, false, string_type())),  // an array of pairs
      optional(26, "st",
               Type::struct_of({optional(28, "why", Type::list_of(29, false, string_type())),  // renamed, moved
                                optional(27, "x", long_type()), optional(40, "added", int_type())})),
      optional(30, "nothing", of(TypeId::unknown)),
      optional(31, "e", string_type()),  // an enum
      optional(32, "ns", of(TypeId::timestamp_ns)),
      optional(41, "late", int_type()),
  });
}

TEST(AvroDataFile, EveryTypeThatFastavroWroteIsRead) {
  TestTable table(fastavro_schema(), 3);
  keep_ids(table, fastavro_schema());
  committed_copy(table, FIRN_SOURCE_DIR "/tests/iceberg/scan/written_by_fastavro.avro");
  const Lines rows = table.rows();
  ASSERT_EQ(rows.size(), 202u);
  EXPECT_EQ(rows[0],
            R"({"id":1,"i":-7,"f":"1.5","dec_b":"-12345678901234567.891","dec_f":"-1.28","d":"1969-12-31",)"
            R"("t":"23:59:59.999999","ts":"1969-12-31T23:59:59.999999","tz":"2024-02-29T01:02:03.000004+00:00",)"
            R"("local":"2024-02-29T01:02:03.000004","ms":"2024-02-29T01:02:03.005000+00:00","s":"grün",)"
            R"("u":"f79c3e09-677c-4bbd-a479-3f349cb785e7","us":"f79c3e09-677c-4bbd-a479-3f349cb785e7","fx":"00ff01",)"
            R"("bin":"dead","b":true,"li":[1,null,-3],"m":[["a",null],["b",2]],"mi":[[-5,null],[5,"five"]],)"
            R"("st":{"why":["p","q"],"x":null,"added":null},"nothing":null,"e":"hearts",)"
            R"("ns":"1969-12-31T23:59:59.999999999","late":null})");
  EXPECT_EQ(rows[1],
            R"({"id":2,"i":null,"f":null,"dec_b":null,"dec_f":null,"d":null,"t":null,"ts":null,"tz":null,)"
            R"("local":null,"ms":null,"s":null,"u":null,"us":null,"fx":null,"bin":null,"b":null,"li":null,"m":null,)"
            R"("mi":null,"st":null,"nothing":null,"e":"clubs","ns":null,"late":null})");
  ScanOptions options;
  options.columns = {"s"};
  options.filter = parse_expression("id between 101 and 102 or dec_f = -1.28");
  EXPECT_EQ(table.rows(options), (Lines{R"({"s":"grün"})", R"({"s":"row 101"})", R"({"s":"row 102"})"}));
}

class EveryAvroCodec : public testing::TestWithParam<avro::CodecKind> {};
INSTANTIATE_TEST_SUITE_P(Codecs, EveryAvroCodec,
                         testing::Values(avro::CodecKind::null, avro::CodecKind::deflate, avro::CodecKind::snappy,
                                         avro::CodecKind::zstandard),
                         [](const auto& info) { return std::string(avro::to_string(info.param)); });

TEST_P(EveryAvroCodec, IsReadBlockByBlockWithPositionsOverTheWholeFile) {
  TestTable table(id_schema());
  constexpr int64_t kRows = 100'000;  // some five blocks
  const DataFile file = avro_file(table, "a.avro", kIdSchema, kRows, encode_id, GetParam());
  ReadCounters counters;
  ParquetReadRequest request;
  request.projection = id_schema();
  request.batch_rows_max = 1000;
  request.counters = &counters;
  const auto reader = open_data_file(*table.io(), file, request);
  int64_t next = 0;
  while (const auto batch = reader->next()) {
    EXPECT_EQ(batch->first_position, next);
    EXPECT_LE(batch->batch->num_rows(), 1000);
    const auto& ids = static_cast<const arrow::Int64Array&>(*batch->batch->column(0));
    for (int64_t i = 0; i < ids.length(); ++i) ASSERT_EQ(ids.Value(i), next + i);
    next += ids.length();
  }
  EXPECT_EQ(next, kRows);
  EXPECT_EQ(counters.rows_decoded, kRows);
  EXPECT_EQ(counters.bytes_read, file.file_size_bytes);
}

TEST(AvroDataFile, LongRowsComeInSmallBatches) {
  TestTable table(Schema({optional(1, "s", string_type())}));
  const DataFile file =
      avro_file(table, "a.avro", R"({"type":"record","name":"t","fields":[{"name":"s","type":"string","field-id":1}]})",
                40, [](int64_t, std::string& out) { put_bytes(out, std::string(1 << 20, 'x')); });
  ParquetReadRequest request;
  request.projection = table.metadata().schema();
  const auto reader = open_data_file(*table.io(), file, request);
  int64_t rows = 0, batches = 0;
  while (const auto batch = reader->next()) {
    EXPECT_LE(batch->batch->num_rows(), 9);
    rows += batch->batch->num_rows();
    ++batches;
  }
  EXPECT_EQ(rows, 40);
  EXPECT_GE(batches, 5);
}

TEST(AvroDataFile, LacksAColumnAsParquetDoes) {
  Field with_default = optional(2, "d", string_type());
  with_default.initial_default = std::string("given");
  TestTable table(Schema({optional(1, "id", long_type()), with_default}), 3);
  table.commit({avro_file(table, "a.avro", kIdSchema, 1, encode_id)});
  EXPECT_EQ(table.rows(), Lines{R"({"id":0,"d":"given"})"});

  Field required = optional(2, "r", string_type());
  required.required = true;
  TestTable strict(Schema({optional(1, "id", long_type()), required}), 3);
  strict.commit({avro_file(strict, "b.avro", kIdSchema, 1, encode_id)});
  const Error error = error_of([&] { strict.rows(); });
  EXPECT_EQ(error.kind(), ErrorKind::corrupt);
  EXPECT_NE(std::string(error.what()).find("b.avro"), std::string::npos) << error.what();
}

// Case 11.
TEST(AvroDataFile, WithoutIdsIsReadByTheNameMappingAtEveryDepthOrRefused) {
  constexpr const char* kNoIds = R"({"type":"record","name":"t","fields":[{"name":"number","type":"long"},
      {"name":"st","type":["null",{"type":"record","name":"inner","fields":[{"name":"x","type":"int"},
        {"name":"li","type":{"type":"array","items":"string"}}]}]},
      {"name":"m","type":{"type":"map","values":"int"}}]})";
  const Schema schema({optional(1, "id", long_type()),
                       optional(2, "st",
                                Type::struct_of({optional(3, "y", int_type()),
                                                 optional(4, "li", Type::list_of(5, false, string_type()))})),
                       optional(6, "m", Type::map_of(7, string_type(), 8, false, int_type()))});
  const auto encode = [](int64_t row, std::string& out) {
    put_long(out, row);
    put_long(out, 1);  // the record's branch
    put_long(out, 5);
    put_long(out, 1);
    put_bytes(out, "e");
    put_long(out, 0);
    put_long(out, -1);  // one item, and the block's size in bytes
    put_long(out, 3);
    put_bytes(out, "k");
    put_long(out, 9);
    put_long(out, 0);
  };
  TestTable table(schema);
  keep_ids(table, schema);
  table.commit({avro_file(table, "a.avro", kNoIds, 1, encode)});
  const Error error = error_of([&] { table.rows(); });
  EXPECT_EQ(error.kind(), ErrorKind::unsupported);
  EXPECT_NE(std::string(error.what()).find("schema.name-mapping.default"), std::string::npos) << error.what();

  table.metadata().properties["schema.name-mapping.default"] =
      R"([{"field-id":1,"names":["id","number"]},
          {"field-id":2,"names":["st"],"fields":[{"field-id":3,"names":["y","x"]},
             {"field-id":4,"names":["li"],"fields":[{"field-id":5,"names":["element"]}]}]},
          {"field-id":6,"names":["m"],"fields":[{"field-id":7,"names":["key"]},{"field-id":8,"names":["value"]}]}])";
  EXPECT_EQ(table.rows(), Lines{R"({"id":0,"st":{"y":5,"li":["e"]},"m":[["k",9]]})"});
}

// Case 15: the id decides, not the name.
TEST(AvroDataFile, DroppedAndAddedAgainUnderTheirNameHaveNoOldValues) {
  TestTable table(id_schema());
  keep_ids(table, Schema({optional(9, "id", long_type())}));
  table.commit({avro_file(table, "a.avro", kIdSchema, 2, encode_id)});
  EXPECT_EQ(table.rows(), (Lines{R"({"id":null})", R"({"id":null})"}));
}

TEST(AvroDataFile, HasRowLineageAndPositionsAsParquetDoes) {
  TestTable table(id_schema(), 3);
  table.commit({avro_file(table, "a.avro", kIdSchema, 2, encode_id)});
  table.commit({avro_file(table, "b.avro", kIdSchema, 2, encode_id)});
  ScanOptions options;
  options.columns = {"_pos"};
  options.row_lineage = true;
  options.filter = parse_expression("id = 1");
  EXPECT_EQ(table.rows(options), (Lines{R"({"_pos":1,"_row_id":1,"_last_updated_sequence_number":1})",
                                        R"({"_pos":1,"_row_id":3,"_last_updated_sequence_number":2})"}));
}

TEST(AvroDeletes, ApplyToFilesOfEitherFormat) {
  TestTable table(id_schema());
  const DataFile parquet = table.data_file("a.parquet", id_schema(), R"([{"id":10},{"id":11},{"id":12}])");
  const DataFile avro = avro_file(table, "b.avro", kIdSchema, 5, encode_id);
  table.commit({parquet, avro});
  DataFile positions =
      avro_file(table, "d.avro",
                R"({"type":"record","name":"d","fields":[{"name":"file_path","type":"string","field-id":2147483546},
         {"name":"pos","type":"long","field-id":2147483545}]})",
                2, [&](int64_t row, std::string& out) {
                  put_bytes(out, row == 0 ? parquet.file_path : avro.file_path);
                  put_long(out, row == 0 ? 2 : 0);
                });
  positions.content = FileContent::position_deletes;
  DataFile keys = avro_file(
      table, "e.avro", R"({"type":"record","name":"d","fields":[{"name":"k","type":["null","int"],"field-id":1}]})", 2,
      [](int64_t row, std::string& out) {
        put_long(out, 1);
        put_long(out, row == 0 ? 11 : 3);
      });
  keys.content = FileContent::equality_deletes;
  keys.equality_ids = {1};
  table.commit({positions, keys});
  EXPECT_EQ(table.rows(), (Lines{R"({"id":10})", R"({"id":1})", R"({"id":2})", R"({"id":4})"}));
}

TEST(AvroDataFile, WhatItsSchemaSaysBeyondReasonIsRefused) {
  const auto kind = [](const std::string& type, const TypePtr& column) {
    TestTable table(Schema({optional(1, "c", column)}), 3);
    table.commit({avro_file(table, "a.avro",
                            R"({"type":"record","name":"t","fields":[{"name":"c","field-id":1,"type":)" + type + "}]}",
                            1, [](int64_t, std::string& out) { out += '\0'; })});
    return error_of([&] { table.rows(); }).kind();
  };
  EXPECT_EQ(kind(R"(["int","string"])", int_type()), ErrorKind::unsupported);
  EXPECT_EQ(kind(R"(["null","t"])", int_type()), ErrorKind::unsupported);  // within itself
  EXPECT_EQ(kind(R"({"type":"bytes","logicalType":"decimal","precision":77})", Type::decimal(38, 0)),
            ErrorKind::unsupported);
  EXPECT_EQ(kind(R"({"type":"fixed","name":"f","size":2000000000})", Type::primitive(TypeId::binary)),
            ErrorKind::unsupported);
  EXPECT_EQ(kind(R"("string")", int_type()), ErrorKind::corrupt);  // not the column's type
  EXPECT_EQ(kind(R"({"type":"array","items":"int"})", int_type()), ErrorKind::corrupt);
}

TEST(AvroDataFile, FalseCountsAllocateNothing) {
  // One block that claims rows or items which take no bytes, without end.
  const auto kind = [](const std::string& type, const std::string& block, int64_t count) {
    TestTable table(Schema({optional(1, "c", Type::list_of(2, false, int_type()))}));
    std::string bytes = "Obj\1";
    put_long(bytes, 1);
    put_bytes(bytes, "avro.schema");
    put_bytes(bytes, R"({"type":"record","name":"t","fields":[{"name":"c","field-id":1,"type":)" + type + "}]}");
    put_long(bytes, 0);
    const std::string sync(16, 's');
    bytes += sync;
    put_long(bytes, count);
    put_bytes(bytes, block);
    bytes += sync;
    table.io()->replace(table.path("a.avro"), bytes);
    DataFile file;
    file.file_path = table.path("a.avro");
    file.file_format = "AVRO";
    file.file_size_bytes = static_cast<int64_t>(bytes.size());
    table.commit({file});
    const Error error = error_of([&] { table.rows(); });
    EXPECT_NE(std::string(error.what()).find("a.avro"), std::string::npos) << error.what();
    return error.kind();
  };
  std::string items;
  put_long(items, int64_t{1} << 40);
  EXPECT_EQ(kind(R"({"type":"array","items":"null","element-id":2})", items, 1), ErrorKind::corrupt);
  EXPECT_EQ(kind(R"({"type":"array","items":"int","element-id":2})", items, 1), ErrorKind::corrupt);
  EXPECT_EQ(kind(R"("null")", "", int64_t{1} << 40), ErrorKind::corrupt);
}

TEST(AvroDataFile, OfAnotherNumberOfRowsThanItsEntrySaysIsAnErrorThatNamesBoth) {
  TestTable table(id_schema());
  DataFile file = avro_file(table, "a.avro", kIdSchema, 3, encode_id);
  file.record_count = 4;
  table.commit({file});
  const Error error = error_of([&] {
    const auto plan = std::make_shared<const ScanPlan>(plan_scan(table.metadata(), table.io(), {}));
    const auto reader = read_tasks(plan, table.io(), {});
    std::shared_ptr<arrow::RecordBatch> batch;
    do check(reader->ReadNext(&batch), "read");
    while (batch);
  });
  EXPECT_EQ(error.kind(), ErrorKind::corrupt);
  EXPECT_NE(std::string(error.what()).find("a.avro has 3 rows, its manifest entry says 4"), std::string::npos)
      << error.what();
}

TEST(AvroDataFile, DamagedIsAnErrorThatNamesItOrRowsAndNothingElse) {
  const uint64_t seed = test_seed();
  SCOPED_TRACE("FIRN_TEST_SEED=" + std::to_string(seed));
  std::mt19937_64 random(seed);
  std::ifstream in(FIRN_SOURCE_DIR "/tests/iceberg/scan/written_by_fastavro.avro", std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(in), {}};
  TestTable table(fastavro_schema(), 3);
  DataFile file;
  file.file_path = table.path("a.avro");
  file.file_format = "AVRO";
  ParquetReadRequest request;
  request.projection = fastavro_schema();
  int errors = 0;
  for (int round = 0; round < 1500; ++round) {
    std::string damaged = bytes;
    if (round % 3 == 0) {
      damaged.resize(random() % bytes.size());
    } else {
      for (uint64_t flips = random() % 4 + 1; flips > 0; --flips)
        damaged[random() % damaged.size()] = static_cast<char>(random());
    }
    std::ofstream(file.file_path, std::ios::binary) << damaged;
    try {
      const auto reader = open_data_file(*table.io(), file, request);
      while (const auto batch = reader->next()) EXPECT_TRUE(batch->batch->Validate().ok());
    } catch (const Error& error) {
      EXPECT_TRUE(error.kind() == ErrorKind::corrupt || error.kind() == ErrorKind::unsupported) << error.what();
      EXPECT_NE(std::string(error.what()).find("a.avro"), std::string::npos) << error.what();
      ++errors;
    }
  }
  EXPECT_GT(errors, 500);
}

}  // namespace
}  // namespace firn::iceberg
