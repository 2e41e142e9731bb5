// Bloom filters: written where the table's properties ask for them, and row groups pruned by them.
#include <map>
#include <random>
#include <set>

#include <parquet/bloom_filter.h>
#include <parquet/bloom_filter_reader.h>
#include <parquet/file_reader.h>

#include "files.h"
#include "support/test_seed.h"

namespace firn::iceberg {
namespace {

// Column 1 of `type` in row groups of 500 rows; the even ones of its values are there, and the least and the greatest
// in each group, so that statistics prune nothing.
struct BloomColumn {
  std::string name;
  TypePtr stored;
  TypePtr read;                               // promoted since, or as stored
  std::function<std::string(int i)> json;     // of value i in rows
  std::function<std::string(int i)> literal;  // of value i in a filter
};

std::string hex(const std::string& bytes) {
  std::string out;
  for (const unsigned char byte : bytes) out += fmt::format("{:02x}", byte);
  return out;
}

std::vector<BloomColumn> bloom_columns() {
  const auto plain = [](int i) { return std::to_string(i); };
  const auto text = [](int i) { return fmt::format("\"k{:06}\"", i); };
  const auto sql_text = [](int i) { return fmt::format("'k{:06}'", i); };
  const auto uuid_bytes = [](int i) { return fmt::format("{:016}", i); };
  const auto of = [](TypeId id) { return Type::primitive(id); };
  const auto decimal_json = [](int i) { return fmt::format("\"{}.{:02}\"", i / 100, i % 100); };
  const auto decimal_literal = [](int i) { return fmt::format("{}.{:02}", i / 100, i % 100); };
  const auto uuid_literal = [=](int i) {
    const std::string digits = hex(uuid_bytes(i));
    return fmt::format("'{}-{}-{}-{}-{}'", digits.substr(0, 8), digits.substr(8, 4), digits.substr(12, 4),
                       digits.substr(16, 4), digits.substr(20));
  };
  const auto half = [](int i) { return fmt::format("{}.5", i); };
  return {
      {"int", of(TypeId::int_), of(TypeId::int_), plain, plain},
      {"int as long", of(TypeId::int_), of(TypeId::long_), plain, plain},
      {"long", of(TypeId::long_), of(TypeId::long_), plain, plain},
      {"date", of(TypeId::date), of(TypeId::date), plain,
       [](int i) { return "'" + to_display(Value(int32_t{i}), *Type::primitive(TypeId::date)) + "'"; }},
      {"date as timestamp", of(TypeId::date), of(TypeId::timestamp), plain,
       [](int i) { return "'" + to_display(Value(int32_t{i}), *Type::primitive(TypeId::date)) + "T00:00:00'"; }},
      {"timestamp", of(TypeId::timestamp), of(TypeId::timestamp), plain,
       [](int i) { return fmt::format("'1970-01-01T00:00:00.{:06}'", i); }},
      {"timestamp_ns", of(TypeId::timestamp_ns), of(TypeId::timestamp_ns), plain,
       [](int i) { return fmt::format("'1970-01-01T00:00:00.{:09}'", i); }},
      {"float", of(TypeId::float_), of(TypeId::float_), half, half},
      {"float as double", of(TypeId::float_), of(TypeId::double_), half, half},
      {"double", of(TypeId::double_), of(TypeId::double_), half, half},
      {"string", of(TypeId::string), of(TypeId::string), text, sql_text},
      {"binary", of(TypeId::binary), of(TypeId::binary), text,
       [](int i) { return "x'" + hex(fmt::format("k{:06}", i)) + "'"; }},
      {"fixed", Type::fixed(7), Type::fixed(7), text, [](int i) { return "x'" + hex(fmt::format("k{:06}", i)) + "'"; }},
      {"uuid", of(TypeId::uuid), of(TypeId::uuid), [=](int i) { return "\"" + uuid_bytes(i) + "\""; }, uuid_literal},
      {"decimal(9,2)", Type::decimal(9, 2), Type::decimal(9, 2), decimal_json, decimal_literal},
      {"decimal(9,2) as (18,2)", Type::decimal(9, 2), Type::decimal(18, 2), decimal_json, decimal_literal},
      {"decimal(18,2)", Type::decimal(18, 2), Type::decimal(18, 2), decimal_json, decimal_literal},
      {"decimal(30,2)", Type::decimal(30, 2), Type::decimal(30, 2), decimal_json, decimal_literal},
      {"decimal(30,2) as (38,2)", Type::decimal(30, 2), Type::decimal(38, 2), decimal_json, decimal_literal},
  };
}

constexpr int kValues = 3000;  // 0 to 2999, of which the even ones are in the file

class Bloom : public testing::TestWithParam<BloomColumn> {};
INSTANTIATE_TEST_SUITE_P(Types, Bloom, testing::ValuesIn(bloom_columns()), [](const auto& info) {
  std::string name = info.param.name;
  std::replace_if(
      name.begin(), name.end(), [](char c) { return std::isalnum(c) == 0; }, '_');
  return name;
});

TEST_P(Bloom, APrunedReadHasExactlyTheMatchingRowsOfAWholeOne) {
  const BloomColumn& column = GetParam();
  const uint64_t seed = test_seed();
  SCOPED_TRACE("FIRN_TEST_SEED=" + std::to_string(seed));
  std::mt19937_64 random(seed);
  const Schema stored({field(1, "c", column.stored), field(2, "n", primitive(TypeId::long_))});
  const Schema read({field(1, "c", column.read), field(2, "n", primitive(TypeId::long_))});
  const TempFolder folder;
  const std::string path = folder / "a.parquet";
  ParquetWriteOptions options;
  options.bloom_filters[1] = {};
  ParquetFileWriter writer(*make_local_file_io(), path, stored, options);
  std::map<int, int> group_of;  // value -> row group
  for (int group = 0; group < 3; ++group) {
    std::string rows = "[[" + column.json(0) + ",0],[null,0],[" + column.json(kValues) + ",0]";
    for (int i = 2; i < kValues; i += 2) {
      if (random() % 3 != 0 || group_of.contains(i)) continue;
      group_of[i] = group;
      rows += ",[" + column.json(i) + "," + std::to_string(i) + "]";
    }
    writer.write(*batch_of(stored, rows + "]"));
    writer.end_row_group();
  }
  writer.close();

  int pruned = 0;
  const auto count = [&](const std::string& text, bool prune) {
    ReadCounters counters;
    ParquetReadRequest request{.projection = read};
    if (prune) request.filter = bind(*parse_expression(text), read);
    request.counters = &counters;
    std::multiset<int64_t> values;
    for (const auto& batch : read_batches(path, request)) {
      const auto& numbers = static_cast<const arrow::Int64Array&>(*batch.batch->column(1));
      for (int64_t i = 0; i < numbers.length(); ++i) values.insert(numbers.Value(i));
    }
    if (prune) pruned += static_cast<int>(counters.row_groups_pruned_by_bloom);
    EXPECT_LE(counters.row_groups_pruned_by_bloom, counters.row_groups_pruned);
    return values;
  };
  const std::multiset<int64_t> whole = count("", false);
  EXPECT_EQ(whole.size(), group_of.size() + 9);
  for (int round = 0; round < 60; ++round) {
    const int i = static_cast<int>(random() % (kValues - 1)) + 1;
    const int j = static_cast<int>(random() % (kValues - 1)) + 1;
    SCOPED_TRACE(column.literal(i) + " and " + column.literal(j));
    for (const std::string& filter :
         {"c = " + column.literal(i), fmt::format("c in ({}, {})", column.literal(i), column.literal(j))}) {
      // A filter in the request only prunes: the rows that match must be among those that come.
      const std::multiset<int64_t> rows = count(filter, true);
      const bool asks_for_j = filter.find(" in ") != std::string::npos;
      EXPECT_TRUE(rows.contains(i) || !group_of.contains(i)) << filter;
      EXPECT_TRUE(rows.contains(j) || !group_of.contains(j) || !asks_for_j) << filter;
    }
  }
  // Most of these values are in no group or in one of three. A date's hash says nothing of a timestamp.
  if (column.name == "date as timestamp") {
    EXPECT_EQ(pruned, 0);
  } else {
    EXPECT_GT(pruned, 100);
  }
}

TEST(BloomPruning, OrNeedsBothAndAndNeedsOne) {
  const TempFolder folder;
  const Schema schema({field(1, "a", primitive(TypeId::long_)), field(2, "b", primitive(TypeId::long_))});
  ParquetWriteOptions options;
  options.bloom_filters[1] = {};
  write_rows(folder / "a.parquet", schema, "[[0,0],[2,1],[9,9]]", options);
  const auto groups_read = [&](const char* filter) {
    ReadCounters counters;
    ParquetReadRequest request{.projection = schema, .filter = bind(*parse_expression(filter), schema)};
    request.counters = &counters;
    read_batches(folder / "a.parquet", request);
    return counters.row_groups_read.load();
  };
  EXPECT_EQ(groups_read("a = 3"), 0);
  EXPECT_EQ(groups_read("a = 3 or a = 4"), 0);
  EXPECT_EQ(groups_read("a = 3 or a = 2"), 1);
  EXPECT_EQ(groups_read("a = 3 or b = 1"), 1);
  EXPECT_EQ(groups_read("a = 3 and b = 1"), 0);
  EXPECT_EQ(groups_read("a in (3, 4, 5)"), 0);
  EXPECT_EQ(groups_read("a != 3"), 1);
  EXPECT_EQ(groups_read("not (a = 3)"), 1);
  EXPECT_EQ(groups_read("b = 3"), 1);             // no filter
  EXPECT_EQ(groups_read("bucket(4, a) = 1"), 1);  // the literal is no value of a
}

TEST(BloomPruning, ZeroIsFoundUnderEitherSign) {
  const TempFolder folder;
  const Schema schema({field(1, "d", primitive(TypeId::double_))});
  ParquetWriteOptions options;
  options.bloom_filters[1] = {};
  write_rows(folder / "a.parquet", schema, "[[-1],[-0.0],[1]]", options);
  for (const char* filter : {"d = 0.0", "d = -0.0"}) {
    EXPECT_EQ(
        read_batches(folder / "a.parquet", {.projection = schema, .filter = bind(*parse_expression(filter), schema)})
            .size(),
        1u)
        << filter;
  }
}

TEST(BloomWriting, FollowsTheTablesProperties) {
  const TempFolder folder;
  const Schema schema({field(1, "id", primitive(TypeId::long_)), field(2, "s", primitive(TypeId::string)),
                       field(3, "st", Type::struct_of({field(4, "u", primitive(TypeId::uuid))})),
                       field(5, "b", primitive(TypeId::boolean_)), field(6, "plain", primitive(TypeId::long_))});
  TableMetadata metadata = new_table_metadata(folder.path(), schema, {}, {}, {}, 1);
  const Schema& numbered = metadata.schema();
  metadata.properties = {{"write.parquet.bloom-filter-enabled.column.id", "true"},
                         {"write.parquet.bloom-filter-enabled.column.s", "true"},
                         {"write.parquet.bloom-filter-enabled.column.st.u", "true"},
                         {"write.parquet.bloom-filter-enabled.column.b", "true"},  // has none, and that is no error
                         {"write.parquet.bloom-filter-enabled.column.plain", "false"},
                         {"write.parquet.bloom-filter-enabled.column.gone", "true"},
                         {"write.parquet.bloom-filter-fpp.column.s", "0.001"},
                         {"write.parquet.bloom-filter-ndv.column.id", "10"},
                         {"write.parquet.bloom-filter-max-bytes", "4096"}};
  std::string rows = "[";
  for (int i = 0; i < 5000; ++i)
    rows += fmt::format(R"({}[{},"s{}",["{:016}"],true,{}])", i > 0 ? "," : "", i, i, i, i);
  write_rows(folder / "a.parquet", numbered, rows + "]", ParquetWriteOptions::from_properties(metadata));
  const auto file = parquet::ParquetFileReader::OpenFile(folder / "a.parquet");
  const auto size_of = [&](int leaf) {
    const auto bloom = file->GetBloomFilterReader().RowGroup(0)->GetColumnBloomFilter(leaf);
    return bloom == nullptr ? 0u : bloom->GetBitsetSize();
  };
  EXPECT_GT(size_of(0), 0u);
  EXPECT_LE(size_of(0), 64u);  // ten values
  EXPECT_EQ(size_of(1), 4096u);
  EXPECT_EQ(size_of(2), 4096u);
  EXPECT_EQ(size_of(3), 0u);
  EXPECT_EQ(size_of(4), 0u);

  for (const auto& [key, value] : std::map<std::string, std::string>{{"write.parquet.bloom-filter-fpp.column.s", "1"},
                                                                     {"write.parquet.bloom-filter-fpp.column.s", "x"},
                                                                     {"write.parquet.bloom-filter-ndv.column.s", "-3"},
                                                                     {"write.parquet.bloom-filter-max-bytes", "0"}}) {
    TableMetadata wrong = metadata;
    wrong.properties[key] = value;
    std::string message;
    EXPECT_EQ(kind_of([&] { ParquetWriteOptions::from_properties(wrong); }, &message), ErrorKind::invalid_argument);
    EXPECT_NE(message.find(key), std::string::npos) << message;
  }
}

// sorted_bloom: Java's filters on s and id.
TEST(BloomPruning, JavasFiltersPruneAndLoseNothing) {
  const std::string root = FIRN_SOURCE_DIR "/tests/fixtures/sorted_bloom/data/";
  const Schema schema({field(1, "id", primitive(TypeId::int_)), field(2, "s", primitive(TypeId::string))});
  int64_t pruned = 0, found = 0;
  for (const auto& entry : std::filesystem::directory_iterator(root)) {
    const auto stored = parquet::ParquetFileReader::OpenFile(entry.path().string());
    const parquet::schema::GroupNode& columns = *stored->metadata()->schema()->group_node();
    int32_t s_id = 0;
    for (int i = 0; i < columns.field_count(); ++i)
      if (columns.field(i)->name() == "s") s_id = columns.field(i)->field_id();
    ASSERT_GT(s_id, 0);
    const Schema read({field(s_id, "s", primitive(TypeId::string))});
    std::set<std::string> values;
    for (const auto& batch : read_batches(entry.path().string(), {.projection = read})) {
      const auto& texts = static_cast<const arrow::StringArray&>(*batch.batch->column(0));
      for (int64_t i = 0; i < texts.length(); ++i)
        if (texts.IsValid(i)) values.insert(texts.GetString(i));
    }
    for (int i = 0; i < 60; ++i) {
      for (const std::string& value : {"k" + std::to_string(i), "k" + std::to_string(i) + "x"}) {
        ReadCounters counters;
        ParquetReadRequest request{.projection = read, .filter = bind(*parse_expression("s = '" + value + "'"), read)};
        request.counters = &counters;
        std::set<std::string> rows;
        for (const auto& batch : read_batches(entry.path().string(), request)) {
          const auto& texts = static_cast<const arrow::StringArray&>(*batch.batch->column(0));
          for (int64_t row = 0; row < texts.length(); ++row)
            if (texts.IsValid(row)) rows.insert(texts.GetString(row));
        }
        EXPECT_EQ(rows.contains(value), values.contains(value)) << value;
        found += rows.contains(value) ? 1 : 0;
        pruned += counters.row_groups_pruned_by_bloom;
      }
    }
  }
  EXPECT_GT(found, 10);
  EXPECT_GT(pruned, 10);
}

TEST(BloomPruning, ADamagedFilterProvesNothing) {
  const TempFolder folder;
  const Schema schema({field(1, "id", primitive(TypeId::long_))});
  ParquetWriteOptions options;
  options.bloom_filters[1] = {};
  const std::string path = folder / "a.parquet";
  write_rows(path, schema, "[[1],[3],[9]]", options);
  int64_t offset = 0;
  {
    const auto file = parquet::ParquetFileReader::OpenFile(path);
    offset = *file->metadata()->RowGroup(0)->ColumnChunk(0)->bloom_filter_offset();
  }
  const auto io = make_local_file_io();
  std::string bytes = io->read(path);
  for (int i = 0; i < 8; ++i) bytes[static_cast<size_t>(offset + i)] = '\xff';
  io->replace(path, bytes);
  const auto filter = bind(*parse_expression("id = 3"), schema);
  EXPECT_EQ(read_batches(path, {.projection = schema, .filter = filter}).size(), 1u);
}

}  // namespace
}  // namespace firn::iceberg
