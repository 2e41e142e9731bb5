#include "iceberg/write/append_writer.h"

#include <algorithm>
#include <filesystem>
#include <limits>
#include <random>
#include <set>

#include <arrow/array.h>
#include <arrow/builder.h>
#include <gtest/gtest.h>

#include "../parquet/files.h"
#include "base/uri.h"
#include "support/test_seed.h"

namespace firn::iceberg {
namespace {

Schema events() {
  return Schema({field(1, "id", primitive(TypeId::long_)), field(2, "ts", primitive(TypeId::timestamp)),
                 field(3, "kind", primitive(TypeId::string)), field(4, "d", primitive(TypeId::double_))});
}

TableMetadata table(const TempFolder& folder, Schema schema, std::vector<PartitionField> partitions = {},
                    std::vector<SortField> order = {}) {
  TableMetadata metadata;
  metadata.location = folder / "table";
  metadata.schemas = {std::move(schema)};
  metadata.partition_specs = {PartitionSpec{.spec_id = 3, .fields = std::move(partitions)}};
  metadata.default_spec_id = 3;
  const int32_t order_id = order.empty() ? 0 : 5;
  metadata.sort_orders = {SortOrder{.order_id = order_id, .fields = std::move(order)}};
  metadata.default_sort_order_id = order_id;
  return metadata;
}

PartitionField partition(int32_t source, const std::string& transform, const std::string& name, int32_t id = 1000) {
  return {.source_ids = {source}, .field_id = id, .name = name, .transform = Transform::parse(transform)};
}
SortField ascending(int32_t source, const std::string& transform = "identity") {
  return {.transform = Transform::parse(transform), .source_ids = {source}};
}
SortField descending(int32_t source) {
  return {.transform = Transform::parse("identity"), .source_ids = {source}, .ascending = false, .nulls_first = false};
}

std::shared_ptr<arrow::RecordBatch> rows_of(const DataFile& file, const Schema& schema) {
  return read_all(file.file_path, {.projection = schema});
}

std::vector<int64_t> ids_of(const DataFile& file, const Schema& schema) {
  const auto rows = rows_of(file, schema);
  std::vector<int64_t> ids;
  for (int64_t i = 0; i < rows->num_rows(); ++i)
    ids.push_back(static_cast<const arrow::Int64Array&>(*rows->column(0)).Value(i));
  return ids;
}

constexpr int64_t kDay = 86'400'000'000;

TEST(AppendWriter, RowsWithoutPartitionOrSortKeepTheirOrder) {
  const TempFolder folder;
  const TableMetadata metadata = table(folder, events());
  AppendWriter writer(make_local_file_io(), metadata);
  writer.write(batch_of(events(), R"([[3, 0, "a", 1], [1, 1, null, 2]])"));
  writer.write(batch_of(events(), R"([[2, null, "b", null]])"));
  const auto files = writer.finish();
  ASSERT_EQ(files.size(), 1U);
  EXPECT_EQ(ids_of(files[0], events()), (std::vector<int64_t>{3, 1, 2}));
  EXPECT_EQ(files[0].record_count, 3);
  EXPECT_EQ(files[0].partition_spec_id, 3);
  EXPECT_EQ(files[0].sort_order_id, 0);
  EXPECT_EQ(files[0].null_value_counts.at(3), 1);
  EXPECT_EQ(std::filesystem::path(files[0].file_path).parent_path().string(), folder / "table/data");
}

TEST(AppendWriter, NoRowsMakeNoFiles) {
  const TempFolder folder;
  AppendWriter writer(make_local_file_io(), table(folder, events()));
  writer.write(batch_of(events(), "[]"));
  EXPECT_TRUE(writer.finish().empty());
}

TEST(AppendWriter, EachPartitionGetsItsFilesWithItsTupleAndPath) {
  const TempFolder folder;
  const TableMetadata metadata =
      table(folder, events(), {partition(2, "day", "ts_day"), partition(3, "identity", "kind", 1001)});
  AppendWriter writer(make_local_file_io(), metadata);
  // −1 µs is the day before 1970.
  writer.write(batch_of(
      events(),
      R"([[1, -1, "a/b", 0], [2, 0, "a/b", 0], [3, 86399999999, "a/b", 0], [4, null, null, 0], [5, -1, "a/b", 0]])"));
  const auto files = writer.finish();
  std::map<std::string, std::vector<int64_t>> by_folder;
  for (const DataFile& file : files) {
    by_folder[std::filesystem::path(file.file_path).parent_path().string().substr((folder / "table/data/").size())] =
        ids_of(file, events());
    ASSERT_EQ(file.partition.size(), 2U);
  }
  EXPECT_EQ(by_folder, (std::map<std::string, std::vector<int64_t>>{{"ts_day=1969-12-31/kind=a%2Fb", {1, 5}},
                                                                    {"ts_day=1970-01-01/kind=a%2Fb", {2, 3}},
                                                                    {"ts_day=null/kind=null", {4}}}));
  EXPECT_EQ(files[0].partition, (std::vector<Value>{Value(int32_t{-1}), Value(std::string("a/b"))}));
}

// Names of folders have 255 bytes at most, on the usual file systems.
TEST(AppendWriter, PartitionValuesOfAnyLengthAreWrittenInFoldersOfTheirOwn) {
  const TempFolder folder;
  std::string cjk;
  for (int i = 0; i < 60; ++i) cjk += "漢";
  // At the limit of what stays as it is, and where an escape would be cut in two.
  const std::vector<std::string> values = {cjk,
                                           cjk + "x",
                                           cjk + "y",
                                           std::string(195, 'a'),
                                           std::string(196, 'a'),
                                           std::string(193, 'b') + "/",
                                           std::string(194, 'b') + "/",
                                           std::string(195, 'b') + "/",
                                           std::string(5000, 'c')};
  for (const bool sorted : {false, true}) {
    SCOPED_TRACE(sorted);
    const TableMetadata metadata = table(folder, events(), {partition(3, "identity", "kind")},
                                         sorted ? std::vector<SortField>{ascending(1)} : std::vector<SortField>{});
    AppendWriter writer(make_local_file_io(), metadata);
    for (size_t i = 0; i < values.size(); ++i)
      writer.write(batch_of(events(), "[[" + std::to_string(i) + ", 0, \"" + values[i] + "\", 0]]"));
    std::set<std::string> folders;
    for (const DataFile& file : writer.finish()) {
      const std::string name = std::filesystem::path(file.file_path).parent_path().filename();
      folders.insert(name);
      const auto id = static_cast<size_t>(ids_of(file, events()).at(0));
      EXPECT_EQ(file.partition, std::vector<Value>{Value(values[id])});
      EXPECT_LE(name.size(), 255U);
      const std::string whole = "kind=" + form_encode(values[id]);
      if (whole.size() <= 200) {
        EXPECT_EQ(name, whole);
        continue;
      }
      const std::string kept = name.substr(0, name.rfind('-'));
      EXPECT_GE(kept.size(), 200U);
      EXPECT_TRUE(whole.starts_with(kept)) << name;
      EXPECT_TRUE(kept.rfind('%') == std::string::npos || kept.rfind('%') + 3 <= kept.size()) << name;
    }
    EXPECT_EQ(folders.size(), values.size());
  }
}

TEST(AppendWriter, RowsOfWhichNoColumnIsStoredAreRefused) {
  const TempFolder folder;
  const Schema schema({field(1, "c", primitive(TypeId::unknown))});
  TableMetadata metadata = table(folder, schema);
  metadata.format_version = 3;
  AppendWriter writer(make_local_file_io(), metadata);
  try {
    writer.write(batch_of(schema, "[[null], [null]]"));
    ADD_FAILURE() << "rows that nothing holds were taken";
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::schema_mismatch);
  }
}

TEST(AppendWriter, EveryTransformGroupsAsItsValuesDo) {
  const TempFolder folder;
  const Schema schema({field(1, "id", primitive(TypeId::long_)), field(2, "ts", primitive(TypeId::timestamptz)),
                       field(3, "date", primitive(TypeId::date)), field(4, "s", primitive(TypeId::string)),
                       field(5, "dec", Type::decimal(9, 2)), field(6, "b", primitive(TypeId::boolean_)),
                       field(7, "ns", primitive(TypeId::timestamp_ns)),
                       field(8, "st", Type::struct_of({field(9, "x", primitive(TypeId::int_))}))});
  std::mt19937_64 random(7);
  std::string text = "[";
  for (int i = 0; i < 300; ++i) {
    const auto number = [&](int64_t step = 1) {
      return std::to_string((static_cast<int64_t>(random() % 6) - 3) * step);
    };
    const auto maybe = [&](std::string value) { return random() % 8 == 0 ? "null" : value; };
    text += (i > 0 ? ",[" : "[") + std::to_string(i) + "," + maybe(number(13333333333333)) + "," + maybe(number(13)) +
            "," + maybe("\"s" + number() + "\"") + "," + maybe("\"" + number() + ".25\"") + "," +
            maybe(random() % 2 == 0 ? "true" : "false") + "," + maybe(number(13333333333333333)) + "," +
            maybe("[" + maybe(number()) + "]") + "]";
  }
  const auto rows = batch_of(schema, text + "]");
  const std::vector<PartitionField> specs = {
      partition(2, "year", "p"),      partition(2, "month", "p"),         partition(2, "day", "p"),
      partition(2, "hour", "p"),      partition(3, "month", "p"),         partition(3, "identity", "p"),
      partition(4, "identity", "p"),  partition(4, "truncate[2]", "p"),   partition(4, "bucket[5]", "p"),
      partition(1, "bucket[7]", "p"), partition(1, "truncate[100]", "p"), partition(5, "identity", "p"),
      partition(5, "bucket[3]", "p"), partition(6, "identity", "p"),      partition(7, "hour", "p"),
      partition(7, "year", "p"),      partition(9, "identity", "p"),      partition(1, "void", "p")};
  const auto source_value = [&](const PartitionField& spec, int64_t row) -> Value {
    const auto column = [&](int index) { return rows->column(index); };
    const auto scalar = [&](const arrow::Array& array) -> Value {
      if (array.IsNull(row)) return {};
      switch (array.type_id()) {
        case arrow::Type::INT64:
        case arrow::Type::TIMESTAMP:
          return array.data()->GetValues<int64_t>(1)[row];
        case arrow::Type::INT32:
        case arrow::Type::DATE32:
          return array.data()->GetValues<int32_t>(1)[row];
        case arrow::Type::STRING:
          return std::string(static_cast<const arrow::StringArray&>(array).GetView(row));
        case arrow::Type::BOOL:
          return static_cast<const arrow::BooleanArray&>(array).Value(row);
        default:
          return arrow::Decimal128(static_cast<const arrow::Decimal128Array&>(array).GetValue(row));
      }
    };
    if (spec.source_id() != 9) return scalar(*column(spec.source_id() - 1));
    const auto& st = static_cast<const arrow::StructArray&>(*column(7));
    return st.IsNull(row) ? Value{} : scalar(*st.field(0));
  };
  for (const PartitionField& spec : specs) {
    SCOPED_TRACE(spec.transform.name + " of " + std::to_string(spec.source_id()));
    AppendWriter writer(make_local_file_io(), table(folder, schema, {spec}));
    writer.write(rows);
    const auto files = writer.finish();
    const Type& source = *schema.find_field(spec.source_id())->type;
    std::set<std::string> seen;
    int64_t total = 0;
    for (const DataFile& file : files) {
      const Type& result = *result_type(spec.transform, schema.find_field(spec.source_id())->type);
      EXPECT_TRUE(seen.insert(is_null(file.partition[0]) ? "" : "v" + to_bytes(file.partition[0], result)).second)
          << "two files of one partition";
      for (int64_t id : ids_of(file, schema))
        EXPECT_EQ(apply(spec.transform, source_value(spec, id), source), file.partition[0]);
      total += file.record_count;
    }
    EXPECT_EQ(total, 300);
  }
}

// Rows sort by seq descending with nulls last, then by d ascending with nulls first and NaN last.
TEST(AppendWriter, SortedRowsComeOutInTheSortOrder) {
  const TempFolder folder;
  const TableMetadata metadata = table(folder, events(), {}, {descending(2), ascending(4)});
  AppendWriter writer(make_local_file_io(), metadata);
  auto rows = batch_of(
      events(),
      R"([[0, null, "", 1], [1, 5, "", 2], [2, 7, "", null], [3, 5, "", 3], [4, 5, "", null], [5, 5, "", 0.0], [6, 5, "", 0], [7, 5, "", 9]])");
  arrow::DoubleBuilder d;
  check(d.AppendValues(
            {1, 2, 0, std::numeric_limits<double>::quiet_NaN(), 0, 0.0, -0.0, -std::numeric_limits<double>::infinity()},
            {true, true, false, true, false, true, true, true}),
        "");
  rows = check(rows->SetColumn(3, rows->schema()->field(3), d.Finish().ValueOrDie()), "");
  writer.write(rows->Slice(0, 5));
  writer.write(rows->Slice(5));
  const auto files = writer.finish();
  ASSERT_EQ(files.size(), 1U);
  EXPECT_EQ(ids_of(files[0], events()), (std::vector<int64_t>{2, 4, 7, 6, 5, 1, 3, 0}));
  EXPECT_EQ(files[0].sort_order_id, 5);
}

struct Row {
  int64_t id;
  std::optional<int64_t> day;
  std::string kind;
};

TEST(AppendWriter, SortedPartitionsAreTheSameWithHardlyAnyMemoryAndWithPlenty) {
  const uint64_t seed = test_seed();
  SCOPED_TRACE("FIRN_TEST_SEED=" + std::to_string(seed));
  std::mt19937_64 random(seed);
  const TempFolder folder;
  std::vector<std::shared_ptr<arrow::RecordBatch>> batches;
  std::vector<Row> rows;
  for (int b = 0; b < 40; ++b) {
    std::string text = "[";
    for (int i = 0; i < 200; ++i) {
      Row row{static_cast<int64_t>(rows.size()),
              random() % 9 == 0 ? std::nullopt : std::optional<int64_t>(random() % 3),
              "k" + std::to_string(random() % 50) + std::string(random() % 20, '-')};
      text += (i > 0 ? ",[" : "[") + std::to_string(row.id) + "," +
              (row.day ? std::to_string(*row.day * kDay + 5) : "null") + ",\"" + row.kind + "\",1]";
      rows.push_back(std::move(row));
    }
    batches.push_back(batch_of(events(), text + "]"));
  }
  std::map<std::optional<int64_t>, std::vector<int64_t>> expected;  // ids of a day, by kind, then as they came
  std::stable_sort(rows.begin(), rows.end(), [](const Row& a, const Row& b) { return a.kind < b.kind; });
  for (const Row& row : rows) expected[row.day].push_back(row.id);
  for (const int64_t memory : {64LL << 20, 100LL << 10, 20LL << 10}) {
    AppendWriter writer(make_local_file_io(), table(folder, events(), {partition(2, "day", "ts_day")}, {ascending(3)}),
                        {.memory_bytes_max = memory, .spill_folder = folder / "spill"});
    for (const auto& batch : batches) writer.write(batch);
    std::map<std::optional<int64_t>, std::vector<int64_t>> actual;
    for (const DataFile& file : writer.finish()) {
      const Value& day = file.partition[0];
      const auto key = is_null(day) ? std::nullopt : std::optional<int64_t>(std::get<int32_t>(day));
      EXPECT_FALSE(actual.contains(key));
      actual[key] = ids_of(file, events());
    }
    EXPECT_EQ(actual, expected) << memory;
  }
  EXPECT_TRUE(!std::filesystem::exists(folder / "spill") || std::filesystem::is_empty(folder / "spill"));
}

TEST(AppendWriter, MorePartitionsThanOpenFilesKeepTheirOrderToo) {
  const TempFolder folder;
  const Schema schema({field(1, "id", primitive(TypeId::long_)), field(2, "p", primitive(TypeId::int_))});
  for (const bool already_sorted : {false, true}) {
    TableMetadata metadata = table(folder, schema, {partition(2, "identity", "p")},
                                   already_sorted ? std::vector<SortField>{ascending(1)} : std::vector<SortField>{});
    AppendWriter writer(make_local_file_io(), metadata,
                        {.memory_bytes_max = 64 << 10, .already_sorted = already_sorted});
    int64_t id = 0;
    for (int b = 0; b < 10; ++b) {
      std::string text = "[";
      for (int i = 0; i < 200; ++i, ++id)
        text += (i > 0 ? ",[" : "[") + std::to_string(id) + "," + std::to_string(id * 7 % 40) + "]";
      writer.write(batch_of(schema, text + "]"));
    }
    const auto files = writer.finish();
    EXPECT_EQ(files.size(), 40U);
    for (const DataFile& file : files) {
      const auto ids = ids_of(file, schema);
      EXPECT_EQ(ids.size(), 50U);
      EXPECT_TRUE(std::is_sorted(ids.begin(), ids.end()));
      for (int64_t one : ids) EXPECT_EQ(one * 7 % 40, std::get<int32_t>(file.partition[0]));
      EXPECT_EQ(file.sort_order_id, already_sorted ? 5 : 0);
    }
  }
}

TEST(AppendWriter, FilesAreRolledAtTheTargetSize) {
  const TempFolder folder;
  std::mt19937_64 random(3);
  TableMetadata metadata = table(folder, events(), {}, {ascending(1)});
  metadata.properties["write.target-file-size-bytes"] = "200000";
  metadata.properties["write.parquet.compression-codec"] = "uncompressed";
  AppendWriter writer(make_local_file_io(), metadata);
  constexpr int64_t kRows = 20000;
  arrow::Int64Builder id, ts;
  arrow::StringBuilder kind;
  arrow::DoubleBuilder d;
  for (int64_t i = 0; i < kRows; ++i) {
    check(id.Append(kRows - i), "");
    check(kind.Append(std::to_string(random()) + std::to_string(random())), "");
    check(d.Append(static_cast<double>(random())), "");
  }
  const auto schema = to_arrow_schema(events());
  auto nulls = check(arrow::MakeArrayOfNull(schema->field(1)->type(), kRows), "");
  writer.write(arrow::RecordBatch::Make(
      schema, kRows, {id.Finish().ValueOrDie(), nulls, kind.Finish().ValueOrDie(), d.Finish().ValueOrDie()}));
  const auto files = writer.finish();
  ASSERT_GE(files.size(), 4U);
  int64_t next = 1;
  for (size_t i = 0; i < files.size(); ++i) {
    if (i + 1 < files.size()) {
      EXPECT_NEAR(static_cast<double>(files[i].file_size_bytes), 230000, 60000);
    }
    for (int64_t one : ids_of(files[i], events())) EXPECT_EQ(one, next++);
  }
  EXPECT_EQ(next, kRows + 1);
}

TEST(AppendWriter, WhatIsNotFinishedIsRemoved) {
  const TempFolder folder;
  TableMetadata metadata = table(folder, events());
  {
    AppendWriter writer(make_local_file_io(), metadata, {.target_file_size_bytes = 1});
    writer.write(batch_of(events(), R"([[1, 0, "a", 1], [2, 0, "b", 1]])"));
  }
  int files = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder.path()))
    files += entry.is_regular_file();
  EXPECT_EQ(files, 0);
}

TEST(AppendWriter, ABatchThatDoesNotFitIsRefusedWhole) {
  const TempFolder folder;
  AppendWriter writer(make_local_file_io(), table(folder, events()));
  writer.write(batch_of(events(), R"([[1, 0, "a", 1]])"));
  EXPECT_EQ(kind_of([&] { writer.write(batch_of(arrow::schema({arrow::field("id", arrow::utf8())}), R"([["x"]])")); }),
            ErrorKind::schema_mismatch);
  writer.write(batch_of(events(), R"([[2, 0, "b", 1]])"));
  const auto files = writer.finish();
  ASSERT_EQ(files.size(), 1U);
  EXPECT_EQ(ids_of(files[0], events()), (std::vector<int64_t>{1, 2}));
}

TEST(AppendWriter, TheDataPathPropertyIsHonoured) {
  const TempFolder folder;
  TableMetadata metadata = table(folder, events());
  metadata.properties["write.data.path"] = folder / "elsewhere";
  AppendWriter writer(make_local_file_io(), metadata);
  writer.write(batch_of(events(), R"([[1, 0, "a", 1]])"));
  EXPECT_TRUE(writer.finish().at(0).file_path.starts_with(folder / "elsewhere/"));
}

}  // namespace
}  // namespace firn::iceberg
