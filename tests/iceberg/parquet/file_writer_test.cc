#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <limits>

#include <arrow/array.h>
#include <arrow/builder.h>
#include <arrow/io/file.h>
#include <parquet/file_reader.h>
#include <parquet/page_index.h>

#include "files.h"

namespace firn::iceberg {
namespace {

std::string int_bytes(int32_t value) { return to_bytes(Value(value), *primitive(TypeId::int_)); }

TEST(FileWriter, ParquetTypesAreThoseOfTheSpecification) {
  const TempFolder folder;
  const Schema schema(
      {field(1, "i", primitive(TypeId::int_), true), field(2, "dec9", Type::decimal(9, 2)),
       field(3, "dec18", Type::decimal(18, 2)), field(4, "dec19", Type::decimal(19, 2)),
       field(5, "ts", primitive(TypeId::timestamp)), field(6, "tstz", primitive(TypeId::timestamptz)),
       field(7, "ns", primitive(TypeId::timestamptz_ns)), field(8, "u", primitive(TypeId::uuid)),
       field(9, "t", primitive(TypeId::time)), field(10, "fix", Type::fixed(5)),
       field(11, "li", Type::list_of(12, true, primitive(TypeId::string))),
       field(13, "m", Type::map_of(14, primitive(TypeId::string), 15, false, primitive(TypeId::double_))),
       field(16, "nothing", primitive(TypeId::unknown))});
  const std::string path = folder / "a.parquet";
  write_rows(path, schema, "[]");
  const auto file = parquet::ParquetFileReader::OpenFile(path);
  std::ostringstream out;
  parquet::schema::PrintSchema(file->metadata()->schema()->schema_root().get(), out);
  EXPECT_EQ(out.str(), R"(required group field_id=-1 table {
  required int32 field_id=1 i;
  optional int32 field_id=2 dec9 (Decimal(precision=9, scale=2));
  optional int64 field_id=3 dec18 (Decimal(precision=18, scale=2));
  optional fixed_len_byte_array(9) field_id=4 dec19 (Decimal(precision=19, scale=2));
  optional int64 field_id=5 ts (Timestamp(isAdjustedToUTC=false, timeUnit=microseconds, is_from_converted_type=false, force_set_converted_type=false));
  optional int64 field_id=6 tstz (Timestamp(isAdjustedToUTC=true, timeUnit=microseconds, is_from_converted_type=false, force_set_converted_type=false));
  optional int64 field_id=7 ns (Timestamp(isAdjustedToUTC=true, timeUnit=nanoseconds, is_from_converted_type=false, force_set_converted_type=false));
  optional fixed_len_byte_array(16) field_id=8 u (UUID);
  optional int64 field_id=9 t (Time(isAdjustedToUTC=false, timeUnit=microseconds));
  optional fixed_len_byte_array(5) field_id=10 fix;
  optional group field_id=11 li (List) {
    repeated group field_id=-1 list {
      required binary field_id=12 element (String);
    }
  }
  optional group field_id=13 m (Map) {
    repeated group field_id=-1 key_value {
      required binary field_id=14 key (String);
      optional double field_id=15 value;
    }
  }
}
)");
  EXPECT_EQ(file->metadata()->key_value_metadata(), nullptr);
}

TEST(FileWriter, MetricsCountValuesNullsAndNaNsAndBoundTheRest) {
  const TempFolder folder;
  const Schema schema({field(1, "i", primitive(TypeId::int_)), field(2, "d", primitive(TypeId::double_)),
                       field(3, "s", primitive(TypeId::string)), field(4, "none", primitive(TypeId::long_))});
  auto rows = batch_of(
      schema,
      R"([[3, 0.0, "b", null], [null, 1.5, null, null], [-7, 2, "aaaaaaaaaaaaaaaaz", null], [5, null, "bb", null]])");
  const double nan = std::numeric_limits<double>::quiet_NaN();
  arrow::DoubleBuilder doubles;
  ASSERT_TRUE(doubles.AppendValues({0.0, nan, 1.5}).ok());
  ASSERT_TRUE(doubles.AppendNull().ok());
  rows = check(rows->SetColumn(1, rows->schema()->field(1), doubles.Finish().ValueOrDie()), "rows");
  const std::string path = folder / "a.parquet";
  ParquetFileWriter writer(*make_local_file_io(), path, schema, {});
  writer.write(*rows);
  EXPECT_EQ(writer.rows_written(), 4);
  EXPECT_GT(writer.bytes_written(), 0);
  const DataFile file = writer.close();

  EXPECT_EQ(file.file_path, path);
  EXPECT_EQ(file.file_size_bytes, static_cast<int64_t>(std::filesystem::file_size(path)));
  EXPECT_EQ(file.record_count, 4);
  EXPECT_EQ(file.value_counts, (std::map<int32_t, int64_t>{{1, 4}, {2, 4}, {3, 4}, {4, 4}}));
  EXPECT_EQ(file.null_value_counts, (std::map<int32_t, int64_t>{{1, 1}, {2, 1}, {3, 1}, {4, 4}}));
  EXPECT_EQ(file.nan_value_counts, (std::map<int32_t, int64_t>{{2, 1}}));
  EXPECT_EQ(file.lower_bounds.at(1), int_bytes(-7));
  EXPECT_EQ(file.upper_bounds.at(1), int_bytes(5));
  EXPECT_EQ(file.upper_bounds.at(2), to_bytes(Value(1.5), *primitive(TypeId::double_)));
  // A zero bound is written as -0.0 below and +0.0 above, since readers may order them.
  EXPECT_EQ(file.lower_bounds.at(2), to_bytes(Value(-0.0), *primitive(TypeId::double_)));
  EXPECT_EQ(file.lower_bounds.at(3), "aaaaaaaaaaaaaaaa");
  EXPECT_EQ(file.upper_bounds.at(3), "bb");
  EXPECT_FALSE(file.lower_bounds.contains(4));
  EXPECT_EQ(file.column_sizes.size(), 4U);
  EXPECT_EQ(file.split_offsets, (std::vector<int64_t>{4}));
}

TEST(FileWriter, NestedLeavesAreCountedAndOnlyThoseOfStructsAreBounded) {
  const TempFolder folder;
  const Schema schema(
      {field(1, "st",
             Type::struct_of({field(2, "x", primitive(TypeId::int_)), field(3, "s", primitive(TypeId::string))})),
       field(4, "li", Type::list_of(5, false, primitive(TypeId::double_)))});
  const DataFile file = write_rows(folder / "a.parquet", schema,
                                   R"([[[1, "q"], [1, null]], [null, []], [[null, "p"], null], [[4, null], [2, 3]]])");
  // An empty or null list takes a place among the levels that Parquet counts, and so do Java's metrics.
  EXPECT_EQ(file.value_counts, (std::map<int32_t, int64_t>{{2, 4}, {3, 4}, {5, 6}}));
  EXPECT_EQ(file.null_value_counts, (std::map<int32_t, int64_t>{{2, 2}, {3, 2}, {5, 3}}));
  EXPECT_EQ(file.nan_value_counts, (std::map<int32_t, int64_t>{{5, 0}}));
  EXPECT_EQ(file.lower_bounds, (std::map<int32_t, std::string>{{2, int_bytes(1)}, {3, "p"}}));
  EXPECT_EQ(file.upper_bounds, (std::map<int32_t, std::string>{{2, int_bytes(4)}, {3, "q"}}));
}

TEST(FileWriter, AllNaNColumnsHaveNoBounds) {
  const TempFolder folder;
  const Schema schema({field(1, "f", primitive(TypeId::float_))});
  const std::string path = folder / "a.parquet";
  ParquetFileWriter writer(*make_local_file_io(), path, schema, {});
  arrow::FloatBuilder floats;
  ASSERT_TRUE(floats.AppendValues({NAN, NAN}).ok());
  writer.write(*arrow::RecordBatch::Make(to_arrow_schema(schema), 2, {floats.Finish().ValueOrDie()}));
  // The second row group has bounds; the file's are its.
  writer.end_row_group();
  ASSERT_TRUE(floats.AppendValues({2.0F, NAN}).ok());
  writer.write(*arrow::RecordBatch::Make(to_arrow_schema(schema), 2, {floats.Finish().ValueOrDie()}));
  const DataFile file = writer.close();
  EXPECT_EQ(file.nan_value_counts.at(1), 3);
  EXPECT_EQ(file.lower_bounds.at(1), to_bytes(Value(2.0F), *primitive(TypeId::float_)));
  EXPECT_EQ(file.split_offsets.size(), 2U);
}

TEST(FileWriter, StringBoundsAreCutAtCodePointsEvenOfTextTooLongForTheFooter) {
  const TempFolder folder;
  const Schema schema({field(1, "s", primitive(TypeId::string)), field(2, "b", primitive(TypeId::binary))});
  const std::string long_text = "{\"name\":\"John O\xe2\x80\x99" + std::string(100000, 'x');
  const DataFile file =
      write_rows(folder / "a.parquet", schema, "[[" + Json(long_text).dump() + ", \"" + std::string(20, 'k') + "\"]]");
  EXPECT_EQ(file.lower_bounds.at(1), "{\"name\":\"John O\xe2\x80\x99");  // 16 code points, 18 bytes (cases.md 2)
  EXPECT_EQ(file.upper_bounds.at(1), "{\"name\":\"John O\xe2\x80\x9a");
  EXPECT_EQ(file.lower_bounds.at(2), std::string(16, 'k'));
  EXPECT_EQ(file.upper_bounds.at(2), std::string(15, 'k') + "l");
}

TEST(FileWriter, MetricsModesOfTheTablePropertiesAreHonoured) {
  TableMetadata metadata;
  metadata.schemas = {Schema({field(1, "a", primitive(TypeId::string)), field(2, "b", primitive(TypeId::string)),
                              field(3, "c", primitive(TypeId::string)), field(4, "d", primitive(TypeId::string))})};
  metadata.partition_specs = {PartitionSpec{}};
  metadata.sort_orders = {SortOrder{}};
  metadata.properties = {
      {"write.metadata.metrics.default", "none"},         {"write.metadata.metrics.column.b", "counts"},
      {"write.metadata.metrics.column.c", "truncate(2)"}, {"write.metadata.metrics.column.d", "full"},
      {"write.parquet.compression-codec", "snappy"},      {"write.parquet.page-row-limit", "7"}};
  const ParquetWriteOptions options = ParquetWriteOptions::from_properties(metadata);
  EXPECT_EQ(options.page_row_limit, 7);
  const TempFolder folder;
  const DataFile file = write_rows(folder / "a.parquet", metadata.schema(),
                                   R"([["wwww", "xxxx", "yyyy", "zzzzzzzzzzzzzzzzzzzz"]])", options);
  EXPECT_EQ(file.value_counts, (std::map<int32_t, int64_t>{{2, 1}, {3, 1}, {4, 1}}));
  EXPECT_EQ(file.lower_bounds, (std::map<int32_t, std::string>{{3, "yy"}, {4, "zzzzzzzzzzzzzzzzzzzz"}}));
  EXPECT_EQ(file.upper_bounds, (std::map<int32_t, std::string>{{3, "yz"}, {4, "zzzzzzzzzzzzzzzzzzzz"}}));
  const auto reader = parquet::ParquetFileReader::OpenFile(folder / "a.parquet");
  EXPECT_EQ(reader->metadata()->RowGroup(0)->ColumnChunk(0)->compression(), arrow::Compression::SNAPPY);

  metadata.properties["write.metadata.metrics.column.b"] = "truncate(x)";
  std::string message;
  EXPECT_EQ(kind_of([&] { ParquetWriteOptions::from_properties(metadata); }, &message), ErrorKind::invalid_argument);
  EXPECT_NE(message.find("write.metadata.metrics.column.b"), std::string::npos) << message;
}

TEST(FileWriter, ColumnsWithoutStatisticsAreToldByTheTableProperties) {
  const TempFolder folder;
  TableMetadata metadata = new_table_metadata(
      folder.path(), Schema({field(1, "a", primitive(TypeId::long_)), field(2, "b", primitive(TypeId::long_))}), {}, {},
      {{"write.parquet.stats-enabled.default", "false"}, {"write.parquet.stats-enabled.column.b", "true"}}, 1);
  const DataFile file = write_rows(folder / "a.parquet", metadata.schema(), "[[1,1],[2,null]]",
                                   ParquetWriteOptions::from_properties(metadata));
  EXPECT_EQ(file.value_counts, (std::map<int32_t, int64_t>{{1, 2}, {2, 2}}));
  EXPECT_EQ(file.null_value_counts, (std::map<int32_t, int64_t>{{2, 1}}));  // of a nothing is known
  EXPECT_FALSE(file.lower_bounds.contains(1));
  EXPECT_TRUE(file.lower_bounds.contains(2));
  const auto stored = parquet::ParquetFileReader::OpenFile(folder / "a.parquet");
  EXPECT_FALSE(stored->metadata()->RowGroup(0)->ColumnChunk(0)->is_stats_set());
  EXPECT_TRUE(stored->metadata()->RowGroup(0)->ColumnChunk(1)->is_stats_set());
  const auto filter = bind(*parse_expression("a = 2"), metadata.schema());
  EXPECT_EQ(read_all(folder / "a.parquet", {.projection = metadata.schema(), .filter = filter})->num_rows(), 1);
}

TEST(FileWriter, DeleteFilesHavePropertiesOfTheirOwn) {
  TableMetadata metadata = new_table_metadata("/t", Schema({field(1, "a", primitive(TypeId::long_))}), {}, {},
                                              {{"write.parquet.compression-codec", "gzip"},
                                               {"write.parquet.page-row-limit", "7"},
                                               {"write.delete.parquet.compression-codec", "snappy"}},
                                              1);
  EXPECT_EQ(ParquetWriteOptions::from_properties(metadata).compression, "gzip");
  const auto deletes = ParquetWriteOptions::from_properties(metadata, FileContent::position_deletes);
  EXPECT_EQ(deletes.compression, "snappy");
  EXPECT_EQ(deletes.page_row_limit, 7);
}

TEST(FileWriter, PagesEndAtTheRowLimitAndAreIndexed) {
  const TempFolder folder;
  const Schema schema({field(1, "l", primitive(TypeId::long_)), field(2, "s", primitive(TypeId::string))});
  arrow::Int64Builder longs;
  arrow::StringBuilder strings;
  for (int64_t i = 0; i < 5000; ++i) {
    ASSERT_TRUE(longs.Append(i).ok());
    ASSERT_TRUE(strings.Append(std::to_string(i % 17)).ok());
  }
  const std::string path = folder / "a.parquet";
  ParquetWriteOptions options;
  options.page_row_limit = 1000;
  ParquetFileWriter writer(*make_local_file_io(), path, schema, options);
  writer.write(*arrow::RecordBatch::Make(to_arrow_schema(schema), 5000,
                                         {longs.Finish().ValueOrDie(), strings.Finish().ValueOrDie()}));
  writer.close();
  const auto file = parquet::ParquetFileReader::OpenFile(path);
  const auto index = file->GetPageIndexReader()->RowGroup(0);
  for (int column = 0; column < 2; ++column) {
    std::vector<int64_t> firsts;
    const auto offsets = index->GetOffsetIndex(column);
    for (const auto& page : offsets->page_locations()) firsts.push_back(page.first_row_index);
    EXPECT_EQ(firsts, (std::vector<int64_t>{0, 1000, 2000, 3000, 4000}));
    EXPECT_EQ(index->GetColumnIndex(column)->null_counts(), (std::vector<int64_t>{0, 0, 0, 0, 0}));
  }
}

TEST(FileWriter, RowGroupsAreRolledByBytes) {
  const TempFolder folder;
  const Schema schema({field(1, "s", primitive(TypeId::string))});
  ParquetWriteOptions options;
  options.row_group_size_bytes = 200000;
  options.compression = "uncompressed";
  const std::string path = folder / "a.parquet";
  ParquetFileWriter writer(*make_local_file_io(), path, schema, options);
  for (int batch = 0; batch < 10; ++batch) {
    arrow::StringBuilder strings;
    for (int i = 0; i < 1000; ++i)
      ASSERT_TRUE(strings.Append(std::to_string(batch * 1000 + i) + std::string(90, 'y')).ok());
    writer.write(*arrow::RecordBatch::Make(to_arrow_schema(schema), 1000, {strings.Finish().ValueOrDie()}));
  }
  const int64_t estimate = writer.bytes_written();
  const DataFile file = writer.close();
  EXPECT_EQ(file.record_count, 10000);
  EXPECT_GE(file.split_offsets.size(), 4U);
  EXPECT_LE(file.split_offsets.size(), 6U);
  EXPECT_NEAR(static_cast<double>(estimate), static_cast<double>(file.file_size_bytes),
              0.2 * static_cast<double>(file.file_size_bytes));
}

TEST(FileWriter, WithoutCloseNothingIsLeftBehind) {
  const TempFolder folder;
  const Schema schema({field(1, "l", primitive(TypeId::long_))});
  {
    ParquetFileWriter writer(*make_local_file_io(), folder / "data/a.parquet", schema, {});
    writer.write(*batch_of(schema, "[[1]]"));
  }
  int files = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder.path()))
    files += entry.is_regular_file();
  EXPECT_EQ(files, 0);
}

TEST(FileWriter, PyarrowReadsEveryType) {
  const std::string python = std::string(FIRN_SOURCE_DIR) + "/.deps/venv/bin/python";
  if (!std::filesystem::exists(python)) GTEST_SKIP() << "no Python environment";
  const TempFolder folder;
  const Schema schema(
      {field(1, "b", primitive(TypeId::boolean_)), field(2, "i", primitive(TypeId::int_)),
       field(3, "l", primitive(TypeId::long_)), field(4, "f", primitive(TypeId::float_)),
       field(5, "d", primitive(TypeId::double_)), field(6, "dec9", Type::decimal(9, 2)),
       field(7, "dec18", Type::decimal(18, 3)), field(8, "dec38", Type::decimal(38, 10)),
       field(9, "date", primitive(TypeId::date)), field(10, "time", primitive(TypeId::time)),
       field(11, "ts", primitive(TypeId::timestamp)), field(12, "tstz", primitive(TypeId::timestamptz)),
       field(13, "s", primitive(TypeId::string)), field(14, "u", primitive(TypeId::uuid)),
       field(15, "bin", primitive(TypeId::binary)),
       field(16, "st", Type::struct_of({field(17, "x", primitive(TypeId::int_))})),
       field(18, "li", Type::list_of(19, false, primitive(TypeId::string))),
       field(20, "m", Type::map_of(21, primitive(TypeId::string), 22, false, primitive(TypeId::long_)))});
  write_rows(
      folder / "a.parquet", schema,
      R"([[true, -5, 1099511627776, 1.5, 2.25, "1234567.89", "-123456789012345.678", "-1.5000000000", -1, 86399999999, -1, 0,
                  "é", "0123456789abcdef", "x", [7], ["a", null], [["k", 1], ["z", null]]],
                 [null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null]])");
  std::ofstream(folder / "read.py") << R"(
import sys, pyarrow.parquet as pq
rows = pq.read_table(sys.argv[1]).to_pylist()
print(rows[0]); print(set(map(str, rows[1].values())))
)";
  ASSERT_EQ(
      std::system(
          (python + " " + (folder / "read.py") + " " + (folder / "a.parquet") + " > " + (folder / "out")).c_str()),
      0);
  std::ifstream in(folder / "out");
  const std::string out{std::istreambuf_iterator<char>(in), {}};
  EXPECT_EQ(out,
            "{'b': True, 'i': -5, 'l': 1099511627776, 'f': 1.5, 'd': 2.25, 'dec9': Decimal('1234567.89'), "
            "'dec18': Decimal('-123456789012345.678'), 'dec38': Decimal('-1.5000000000'), 'date': datetime.date(1969, "
            "12, 31), "
            "'time': datetime.time(23, 59, 59, 999999), 'ts': datetime.datetime(1969, 12, 31, 23, 59, 59, 999999), "
            "'tstz': datetime.datetime(1970, 1, 1, 0, 0, tzinfo=zoneinfo.ZoneInfo(key='UTC')), 's': 'é', "
            "'u': UUID('30313233-3435-3637-3839-616263646566'), 'bin': b'x', 'st': {'x': 7}, 'li': ['a', None], "
            "'m': [('k', 1), ('z', None)]}\n{'None'}\n");
}

}  // namespace
}  // namespace firn::iceberg
