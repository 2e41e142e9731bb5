#include <fstream>
#include <random>

#include <arrow/array.h>
#include <arrow/builder.h>
#include <arrow/io/file.h>
#include <parquet/arrow/writer.h>

#include "files.h"
#include "iceberg/expr/expression.h"
#include "support/test_seed.h"

namespace firn::iceberg {
namespace {

ParquetReadRequest request(Schema projection, const std::string& filter = "") {
  ParquetReadRequest result{.projection = std::move(projection)};
  if (!filter.empty()) result.filter = bind(*parse_expression(filter), result.projection);
  return result;
}

// A file as another program writes it: no field ids.
void write_plain(
    const std::string& path, const std::shared_ptr<arrow::RecordBatch>& batch,
    const std::shared_ptr<parquet::ArrowWriterProperties>& properties = parquet::default_arrow_writer_properties()) {
  auto sink = check(arrow::io::FileOutputStream::Open(path), path);
  auto table = check(arrow::Table::FromRecordBatches({batch}), path);
  check(parquet::arrow::WriteTable(*table, arrow::default_memory_pool(), sink, 1 << 20,
                                   parquet::default_writer_properties(), properties),
        path);
  check(sink->Close(), path);
}

const Schema& every_type() {
  static const Schema schema(
      {field(1, "b", primitive(TypeId::boolean_)), field(2, "i", primitive(TypeId::int_)),
       field(3, "l", primitive(TypeId::long_)), field(4, "f", primitive(TypeId::float_)),
       field(5, "d", primitive(TypeId::double_)), field(6, "dec9", Type::decimal(9, 2)),
       field(7, "dec18", Type::decimal(18, 3)), field(8, "dec38", Type::decimal(38, 10)),
       field(9, "date", primitive(TypeId::date)), field(10, "time", primitive(TypeId::time)),
       field(11, "ts", primitive(TypeId::timestamp)), field(12, "tstz", primitive(TypeId::timestamptz)),
       field(13, "ns", primitive(TypeId::timestamp_ns)), field(14, "s", primitive(TypeId::string)),
       field(15, "u", primitive(TypeId::uuid)), field(16, "bin", primitive(TypeId::binary)),
       field(17, "fix", Type::fixed(2)), field(18, "req", primitive(TypeId::long_), true),
       field(19, "unk", primitive(TypeId::unknown))});
  return schema;
}
constexpr const char* kEveryRow =
    R"([[true, -5, 1099511627776, 1.5, 2.25, "1234567.89", "-123456789012345.678", "-1.5000000000", -1, 86399999999, -1, 0, -9,
         "é", "0123456789abcdef", "x", "ab", 1, null],
        [null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, 2, null],
        [false, 2147483647, -1, -0.0, -0.0, "-0.01", "0.001", "9999999999999999999999999999.9999999999", 0, 0, 253402300799999999, -62135596800000000,
         9223372036854775807, "", "ffffffffffffffff", "", "  ", 3, null]])";

TEST(FileReader, EveryFlatTypeComesBackAsItWasWritten) {
  const TempFolder folder;
  const std::string path = folder / "a.parquet";
  write_rows(path, every_type(), kEveryRow);
  expect_equal(*read_all(path, request(every_type())), *batch_of(every_type(), kEveryRow));
}

TEST(FileReader, NestedColumnsComeBackAsTheyWereWritten) {
  const TempFolder folder;
  const std::string path = folder / "a.parquet";
  const Schema schema(
      {field(1, "id", primitive(TypeId::long_), true),
       field(2, "st",
             Type::struct_of({field(3, "x", primitive(TypeId::int_)), field(4, "u", primitive(TypeId::uuid)),
                              field(5, "deep", Type::struct_of({field(6, "y", primitive(TypeId::string), true)}))})),
       field(7, "li", Type::list_of(8, false, Type::list_of(9, true, primitive(TypeId::double_)))),
       field(10, "m",
             Type::map_of(11, primitive(TypeId::string), 12, false,
                          Type::struct_of({field(13, "v", Type::decimal(5, 1))})))});
  const std::string rows = R"([[1, [1, "0123456789abcdef", ["q"]], [[1.5], [], null], [["k", ["1.5"]], ["z", null]]],
                               [2, null, null, null],
                               [3, [null, null, null], [], []],
                               [4, [4, null, ["r"]], [null], [["k", [null]]]]])";
  write_rows(path, schema, rows);
  expect_equal(*read_all(path, request(schema)), *batch_of(schema, rows));
}

TEST(FileReader, ColumnsAreResolvedByIdThroughRenameReorderAndDrop) {
  const TempFolder folder;
  const std::string path = folder / "a.parquet";
  write_rows(path,
             Schema({field(1, "a", primitive(TypeId::int_)), field(2, "value", primitive(TypeId::string)),
                     field(3, "st",
                           Type::struct_of({field(4, "inner", primitive(TypeId::int_)),
                                            field(5, "kept", primitive(TypeId::int_))}))}),
             R"([[1, "old", [10, 100]], [2, "old", null]])");
  // `value` and `st.inner` were dropped and added again: new ids, so no old value (cases.md 15).
  const Schema now({field(3, "renamed",
                          Type::struct_of({field(8, "inner", primitive(TypeId::int_)),
                                           field(5, "moved", primitive(TypeId::long_))})),
                    field(7, "value", primitive(TypeId::string)), field(1, "a", primitive(TypeId::long_))});
  expect_equal(*read_all(path, request(now)), *batch_of(now, "[[[null, 100], null, 1], [null, null, 2]]"));
  // Only the new member is asked for: the struct's own nulls still show.
  const Schema only_new({field(3, "st", Type::struct_of({field(8, "inner", primitive(TypeId::int_))}))});
  expect_equal(*read_all(path, request(only_new)), *batch_of(only_new, "[[[null]], [null]]"));
}

TEST(FileReader, PromotedTypesComeAsTheProjections) {
  const TempFolder folder;
  const std::string path = folder / "a.parquet";
  write_rows(path,
             Schema({field(1, "i", primitive(TypeId::int_)), field(2, "f", primitive(TypeId::float_)),
                     field(3, "dec", Type::decimal(9, 2)), field(4, "date", primitive(TypeId::date)),
                     field(5, "dec2", Type::decimal(20, 2)),
                     field(6, "li", Type::list_of(7, false, primitive(TypeId::int_)))}),
             R"([[-1, 0.5, "1.23", -1, "-5.00", [1, null]], [null, null, null, null, null, null]])");
  const Schema now({field(1, "i", primitive(TypeId::long_)), field(2, "f", primitive(TypeId::double_)),
                    field(3, "dec", Type::decimal(20, 2)), field(4, "date", primitive(TypeId::timestamp)),
                    field(5, "dec2", Type::decimal(38, 2))});
  const std::string rows = R"([[-1, 0.5, "1.23", -86400000000, "-5.00"], [null, null, null, null, null]])";
  expect_equal(*read_all(path, request(now)), *batch_of(now, rows));
  const Schema nested({field(4, "date", primitive(TypeId::timestamp_ns)),
                       field(6, "li", Type::list_of(7, false, primitive(TypeId::long_)))});
  expect_equal(*read_all(path, request(nested)), *batch_of(nested, "[[-86400000000000, [1, null]], [null, null]]"));
}

TEST(FileReader, MissingColumnsComeAsTheirInitialDefault) {
  const TempFolder folder;
  const std::string path = folder / "a.parquet";
  write_rows(path,
             Schema({field(1, "id", primitive(TypeId::int_)),
                     field(2, "st", Type::struct_of({field(3, "x", primitive(TypeId::int_))}))}),
             "[[1, [5]], [2, null]]");
  Field with_default = field(10, "n", primitive(TypeId::long_), true);
  with_default.initial_default = Value(int64_t{34});
  Field text = field(11, "t", primitive(TypeId::string));
  text.initial_default = Value(std::string("héllo"));
  Field in_struct = field(12, "y", primitive(TypeId::double_));
  in_struct.initial_default = Value(1.5);
  Field in_missing_struct = in_struct;
  in_missing_struct.id = 17;
  Field whole = field(13, "z", Type::struct_of({in_missing_struct, field(14, "w", primitive(TypeId::int_))}));
  whole.initial_default = Value(NestedJson{"{}"});
  const Schema now(
      {field(1, "id", primitive(TypeId::int_)), with_default, text, field(15, "none", primitive(TypeId::date))});
  expect_equal(*read_all(path, request(now)), *batch_of(now, R"([[1, 34, "héllo", null], [2, 34, "héllo", null]])"));
  const Schema nested({field(2, "st", Type::struct_of({field(3, "x", primitive(TypeId::int_)), in_struct})), whole});
  expect_equal(*read_all(path, request(nested)), *batch_of(nested, "[[[5, 1.5], [1.5, null]], [null, [1.5, null]]]"));

  const Schema required({field(16, "must", primitive(TypeId::long_), true)});
  std::string message;
  EXPECT_EQ(kind_of([&] { read_all(path, request(required)); }, &message), ErrorKind::corrupt);
  EXPECT_NE(message.find("must"), std::string::npos);
  EXPECT_NE(message.find(path), std::string::npos);
}

TEST(FileReader, AProjectionOfNothingInTheFileStillCountsItsRows) {
  const TempFolder folder;
  const std::string path = folder / "a.parquet";
  write_rows(path, Schema({field(1, "id", primitive(TypeId::int_))}), "[[1], [2], [3]]");
  ReadCounters counters;
  ParquetReadRequest empty = request(Schema());
  empty.counters = &counters;
  const auto batches = read_batches(path, std::move(empty));
  ASSERT_EQ(batches.size(), 1U);
  EXPECT_EQ(batches[0].batch->num_rows(), 3);
  EXPECT_EQ(counters.values_decoded, 0);
}

NameMapping mapping(const std::string& json) { return name_mapping_from_json(parse_json(json, "mapping"), "mapping"); }

TEST(FileReader, FilesWithoutIdsGoThroughTheNameMappingAtEveryDepth) {
  const TempFolder folder;
  const std::string path = folder / "a.parquet";
  const auto plain = arrow::schema(
      {arrow::field("a", arrow::int32()), arrow::field("old_b", arrow::utf8()),
       arrow::field("li", arrow::list(arrow::field("item", arrow::struct_({arrow::field("x", arrow::int32()),
                                                                           arrow::field("y", arrow::int32())})))),
       arrow::field("m", arrow::map(arrow::utf8(), arrow::struct_({arrow::field("v", arrow::int64())})))});
  write_plain(path, batch_of(plain, R"([[1, "q", [[1, 2], null], [["k", [7]]]], [null, null, null, null]])"));
  ParquetReadRequest read =
      request(Schema({field(1, "a", primitive(TypeId::long_)), field(2, "b", primitive(TypeId::string)),
                      field(3, "li",
                            Type::list_of(4, false,
                                          Type::struct_of({field(5, "y", primitive(TypeId::int_)),
                                                           field(6, "gone", primitive(TypeId::int_))}))),
                      field(7, "m",
                            Type::map_of(8, primitive(TypeId::string), 9, false,
                                         Type::struct_of({field(10, "v", primitive(TypeId::long_))})))}));
  read.name_mapping = mapping(R"([{"field-id": 1, "names": ["a"]}, {"field-id": 2, "names": ["b", "old_b"]},
      {"field-id": 3, "names": ["li"], "fields": [{"field-id": 4, "names": ["element"], "fields": [{"field-id": 5, "names": ["y"]}]}]},
      {"field-id": 7, "names": ["m"], "fields": [{"field-id": 8, "names": ["key"]}, {"field-id": 9, "names": ["value"], "fields": [{"field-id": 10, "names": ["v"]}]}]}])");
  const Schema projection = read.projection;
  expect_equal(*read_all(path, read),
               *batch_of(projection, R"([[1, "q", [[2, null], null], [["k", [7]]]], [null, null, null, null]])"));
}

TEST(FileReader, AFileWithoutIdsAndWithoutAMappingIsRefusedRatherThanRead) {
  const TempFolder folder;
  const std::string path = folder / "a.parquet";
  write_plain(path, batch_of(arrow::schema({arrow::field("a", arrow::int32())}), "[[1]]"));
  std::string message;
  EXPECT_EQ(kind_of([&] { read_all(path, request(Schema({field(1, "a", primitive(TypeId::int_))}))); }, &message),
            ErrorKind::unsupported);
  EXPECT_NE(message.find("schema.name-mapping.default"), std::string::npos) << message;
}

TEST(FileReader, IdsInTheFileWinOverTheMapping) {
  const TempFolder folder;
  const std::string path = folder / "a.parquet";
  write_rows(path, Schema({field(1, "a", primitive(TypeId::int_))}), "[[1]]");
  ParquetReadRequest read =
      request(Schema({field(1, "x", primitive(TypeId::int_)), field(2, "a", primitive(TypeId::int_))}));
  read.name_mapping = mapping(R"([{"field-id": 2, "names": ["a"]}])");
  const Schema projection = read.projection;
  expect_equal(*read_all(path, read), *batch_of(projection, "[[1, null]]"));
}

TEST(FileReader, OlderTimestampFormsAreRead) {
  const TempFolder folder;
  const std::string path = folder / "a.parquet";
  const auto plain = arrow::schema({arrow::field("t", arrow::timestamp(arrow::TimeUnit::MICRO)),
                                    arrow::field("ms", arrow::timestamp(arrow::TimeUnit::MILLI))});
  const auto rows = batch_of(plain, "[[-1, -1], [null, null], [253402300799999999, 253402300799999]]");
  parquet::ArrowWriterProperties::Builder int96;
  write_plain(path, rows, int96.enable_deprecated_int96_timestamps()->build());
  write_plain(folder / "b.parquet", rows);
  for (const char* name : {"a.parquet", "b.parquet"}) {
    ParquetReadRequest read =
        request(Schema({field(1, "t", primitive(TypeId::timestamptz)), field(2, "ms", primitive(TypeId::timestamp))}));
    read.name_mapping = mapping(R"([{"field-id": 1, "names": ["t"]}, {"field-id": 2, "names": ["ms"]}])");
    const Schema projection = read.projection;
    expect_equal(*read_all(folder / name, read),
                 *batch_of(projection, "[[-1, -1000], [null, null], [253402300799999999, 253402300799999000]]"));
  }
}

TEST(FileReader, ANullInARequiredColumnIsCorrupt) {
  const TempFolder folder;
  const std::string path = folder / "a.parquet";
  write_rows(path, Schema({field(1, "a", primitive(TypeId::int_))}), "[[1], [null]]");
  EXPECT_EQ(kind_of([&] { read_all(path, request(Schema({field(1, "a", primitive(TypeId::int_), true)}))); }),
            ErrorKind::corrupt);
}

TEST(FileReader, AnotherTypeThanTheColumnsIsCorrupt) {
  const TempFolder folder;
  const std::string path = folder / "a.parquet";
  write_rows(path, Schema({field(1, "a", primitive(TypeId::string)), field(2, "l", primitive(TypeId::long_))}),
             R"([["x", 1]])");
  EXPECT_EQ(kind_of([&] { read_all(path, request(Schema({field(1, "a", primitive(TypeId::long_))}))); }),
            ErrorKind::corrupt);
  EXPECT_EQ(kind_of([&] { read_all(path, request(Schema({field(2, "l", primitive(TypeId::int_))}))); }),
            ErrorKind::corrupt);
  EXPECT_EQ(kind_of([&] {
              read_all(path, request(Schema({field(2, "l", Type::list_of(3, false, primitive(TypeId::long_)))})));
            }),
            ErrorKind::corrupt);
}

TEST(FileReader, DamagedFilesAreCorruptAndAbsentOnesNotFound) {
  const TempFolder folder;
  const std::string path = folder / "a.parquet";
  const Schema schema({field(1, "s", primitive(TypeId::string))});
  write_rows(path, schema, R"([["abcdefghijklmnopqrstuvwxyz"], ["0123456789"]])");
  EXPECT_EQ(kind_of([&] { read_all(folder / "none.parquet", request(schema)); }), ErrorKind::not_found);
  std::ifstream in(path, std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(in), {}};
  const auto damaged = [&](std::string changed) {
    std::ofstream(folder / "b.parquet", std::ios::binary) << changed;
    return kind_of([&] { read_all(folder / "b.parquet", request(schema)); });
  };
  EXPECT_EQ(damaged(""), ErrorKind::corrupt);
  EXPECT_EQ(damaged(bytes.substr(0, bytes.size() / 2)), ErrorKind::corrupt);
  EXPECT_EQ(damaged("PAR1" + std::string(100, '\0') + "PAR1"), ErrorKind::corrupt);
  std::string flipped = bytes;
  flipped[40] = static_cast<char>(flipped[40] ^ 0x55);  // in the dictionary page: its checksum tells
  EXPECT_EQ(damaged(flipped), ErrorKind::corrupt);
}

TEST(FileReader, PositionsAreFileWideAlsoAfterPrunedRowGroups) {
  const TempFolder folder;
  const std::string path = folder / "a.parquet";
  const Schema schema(
      {field(1, "id", primitive(TypeId::long_)), field(2, "li", Type::list_of(3, false, primitive(TypeId::int_)))});
  ParquetFileWriter writer(*make_local_file_io(), path, schema, {});
  for (const char* rows : {"[[0, null], [1, null]]", "[[10, []], [11, [1]], [12, null]]", "[[20, null], [21, null]]"}) {
    writer.write(*batch_of(schema, rows));
    writer.end_row_group();
  }
  writer.close();
  for (const bool nested : {false, true}) {
    ReadCounters counters;
    ParquetReadRequest read = request(nested ? schema : schema.select({"id"}), "id >= 11");
    read.counters = &counters;
    const auto batches = read_batches(path, std::move(read));
    std::vector<std::pair<int64_t, int64_t>> seen;  // position, id
    for (const auto& batch : batches) {
      for (int64_t i = 0; i < batch.batch->num_rows(); ++i)
        seen.emplace_back(batch.first_position + i,
                          static_cast<const arrow::Int64Array&>(*batch.batch->column(0)).Value(i));
    }
    EXPECT_EQ(seen, (std::vector<std::pair<int64_t, int64_t>>{{2, 10}, {3, 11}, {4, 12}, {5, 20}, {6, 21}}));
    EXPECT_EQ(counters.row_groups_pruned, 1);
    EXPECT_EQ(counters.row_groups_read, 2);
    EXPECT_EQ(counters.rows_decoded, 5);
  }
}

TEST(FileReader, BatchesAreNoLongerThanAskedFor) {
  const TempFolder folder;
  const std::string path = folder / "a.parquet";
  const Schema schema({field(1, "id", primitive(TypeId::long_))});
  write_rows(path, schema, "[[0], [1], [2], [3], [4], [5], [6]]");
  ParquetReadRequest read = request(schema);
  read.batch_rows_max = 3;
  std::vector<std::pair<int64_t, int64_t>> seen;
  for (const auto& batch : read_batches(path, std::move(read)))
    seen.emplace_back(batch.first_position, batch.batch->num_rows());
  EXPECT_EQ(seen, (std::vector<std::pair<int64_t, int64_t>>{{0, 3}, {3, 3}, {6, 1}}));
}

TEST(FileReader, StringsOfAnyLengthComeBackFromEveryEncodingInBatchesOfAnySize) {
  const uint64_t seed = test_seed();
  SCOPED_TRACE("FIRN_TEST_SEED=" + std::to_string(seed));
  std::mt19937_64 random(seed);
  const TempFolder folder;
  const Schema schema({field(1, "s", primitive(TypeId::string)), field(2, "req", primitive(TypeId::string), true)});
  using parquet::Encoding;
  for (int round = 0; round < 24; ++round) {
    SCOPED_TRACE(round);
    // First rows without a null, so that the first one comes in the middle of a page or of a batch.
    const int64_t rows = 1 + static_cast<int64_t>(random() % 6000);
    const int64_t first_null = static_cast<int64_t>(random() % 4000);
    const size_t size_max = std::array{0, 9, 40, 3000}[random() % 4];
    const size_t distinct = std::array{3, 1 << 20}[random() % 2];
    arrow::StringBuilder optional, required;
    for (int64_t row = 0; row < rows; ++row) {
      const auto text = [&] {
        const size_t value = random() % distinct;
        return std::string(size_max == 0 ? 0 : value * 7919 % (size_max + 1), static_cast<char>('a' + value % 26));
      };
      check(row >= first_null && random() % 3 == 0 ? optional.AppendNull() : optional.Append(text()), "");
      check(required.Append(text()), "");
    }
    const auto batch = arrow::RecordBatch::Make(to_arrow_schema(schema), rows,
                                                {check(optional.Finish(), ""), check(required.Finish(), "")});
    parquet::WriterProperties::Builder properties;
    properties.data_pagesize(std::array{100, 5000, 1 << 20}[random() % 3]);
    if (random() % 2 == 0) {
      properties.dictionary_pagesize_limit(std::array{100, 1 << 20}[random() % 2]);  // dictionary, then plain
    } else {
      properties.disable_dictionary()->encoding(
          std::array{Encoding::PLAIN, Encoding::DELTA_LENGTH_BYTE_ARRAY, Encoding::DELTA_BYTE_ARRAY}[random() % 3]);
    }
    properties.data_page_version(
        std::array{parquet::ParquetDataPageVersion::V1, parquet::ParquetDataPageVersion::V2}[random() % 2]);
    const std::string path = folder / ("a" + std::to_string(round) + ".parquet");
    auto sink = check(arrow::io::FileOutputStream::Open(path), path);
    check(
        parquet::arrow::WriteTable(*check(arrow::Table::FromRecordBatches({batch}), path), arrow::default_memory_pool(),
                                   sink, 500 + static_cast<int64_t>(random() % 9000), properties.build()),
        path);
    check(sink->Close(), path);
    ParquetReadRequest read = request(schema);
    read.batch_rows_max = std::array{1, 100, 2048, 5000, 1 << 20}[random() % 5];
    read.column_threads = 1 + static_cast<int>(random() % 3);
    expect_equal(*read_all(path, std::move(read)), *batch);
  }
}

}  // namespace
}  // namespace firn::iceberg
