#include <gtest/gtest.h>

#include "iceberg/avro/container.h"
#include "iceberg/avro/encoder.h"
#include "iceberg/manifest/manifest_samples.h"

namespace firn::iceberg {
namespace {

const Schema kIds({column(1, "id", Type::primitive(TypeId::long_))});

WrittenManifest write(const std::vector<ManifestEntry>& entries, int32_t version = 2,
                      ManifestContent content = ManifestContent::data) {
  return write_manifest(entries, "/t/m.avro", 50, {}, kIds, content, version);
}

std::vector<ManifestEntry> read(const WrittenManifest& written, bool live_only = false) {
  return read_manifest(written.bytes, written.file, {}, kIds, live_only);
}

class EveryCodec : public testing::TestWithParam<const char*> {};

TEST_P(EveryCodec, EveryMemberAndPartitionTypeComesBack) {
  const Sample sample = every_type();
  std::vector<ManifestEntry> entries = {full_entry(every_value()),
                                        full_entry(std::vector<Value>(sample.spec.fields.size()))};
  entries[1].file.nan_value_counts.clear();
  entries[1].status = EntryStatus::deleted;
  for (const int32_t version : {2, 3}) {
    SCOPED_TRACE(version);
    if (version == 3) entries[0].file.first_row_id = 4000;
    const WrittenManifest written = write_manifest(entries, "/t/m.avro", 50, sample.spec, sample.schema,
                                                   ManifestContent::data, version, GetParam());
    const auto again = read_manifest(written.bytes, written.file, sample.spec, sample.schema, false);
    ASSERT_EQ(again.size(), 2u);
    for (size_t i = 0; i < 2; ++i) {
      EXPECT_EQ(again[i].status, entries[i].status);
      EXPECT_EQ(again[i].snapshot_id, 77);
      EXPECT_EQ(again[i].sequence_number, 3);
      EXPECT_EQ(again[i].file_sequence_number, 4);
      EXPECT_EQ(again[i].file.partition_spec_id, 4);
      expect_equal(again[i].file, entries[i].file);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Codecs, EveryCodec, testing::Values("null", "deflate", "snappy", "zstandard"),
                         [](const auto& info) { return std::string(info.param); });

TEST(WriteManifest, DeleteFilesAndVectorsComeBack) {
  ManifestEntry vector = small_entry("/t/dv.puffin", EntryStatus::added, 31);
  vector.file.content = FileContent::position_deletes;
  vector.file.file_format = "PUFFIN";
  vector.file.referenced_data_file = "/t/a.parquet";
  vector.file.content_offset = 4;
  vector.file.content_size_bytes = 79;
  ManifestEntry equality = small_entry("/t/eq.parquet", EntryStatus::added, 2);
  equality.file.content = FileContent::equality_deletes;
  equality.file.equality_ids = {1, 7};
  const WrittenManifest written = write({vector, equality}, 3, ManifestContent::deletes);
  EXPECT_EQ(written.file.content, ManifestContent::deletes);
  const auto again = read(written);
  ASSERT_EQ(again.size(), 2u);
  expect_equal(again[0].file, vector.file);
  expect_equal(again[1].file, equality.file);
  EXPECT_EQ(kind_of([&] { write({vector}, 2, ManifestContent::deletes); }), ErrorKind::invalid_argument);
}

TEST(WriteManifest, CountsAndSummariesDescribeTheEntries) {
  const Sample sample = every_type();
  std::vector<Value> low = every_value(), high = every_value();
  high[1] = int32_t{9};
  high[3] = std::numeric_limits<float>::quiet_NaN();
  high[11] = Value();
  std::vector<ManifestEntry> entries = {full_entry(low), full_entry(high), full_entry(low), full_entry(low)};
  entries[1].status = EntryStatus::added;
  entries[1].sequence_number = 2;
  entries[2].status = entries[3].status = EntryStatus::deleted;
  entries[2].sequence_number = 1;
  const ManifestFile file =
      write_manifest(entries, "/t/m.avro", 50, sample.spec, sample.schema, ManifestContent::data, 2).file;
  EXPECT_EQ(file.added_files_count, 1);
  EXPECT_EQ(file.existing_files_count, 1);
  EXPECT_EQ(file.deleted_files_count, 2);
  EXPECT_EQ(file.added_rows_count, 1000);
  EXPECT_EQ(file.existing_rows_count, 1000);
  EXPECT_EQ(file.deleted_rows_count, 2000);
  EXPECT_EQ(file.added_snapshot_id, 50);
  EXPECT_EQ(file.partition_spec_id, 4);
  EXPECT_FALSE(file.sequence_number.has_value());
  EXPECT_EQ(file.min_sequence_number, 2) << "deleted entries do not count (spec: of all live files)";
  ASSERT_TRUE(file.partitions.has_value());
  const auto& summaries = *file.partitions;
  ASSERT_EQ(summaries.size(), sample.spec.fields.size());
  EXPECT_EQ(summaries[1].lower_bound, std::string("\xf9\xff\xff\xff", 4));  // -7, little-endian
  EXPECT_EQ(summaries[1].upper_bound, std::string("\x09\x00\x00\x00", 4));
  EXPECT_FALSE(summaries[1].contains_null);
  EXPECT_EQ(summaries[3].contains_nan, true);
  EXPECT_EQ(summaries[3].upper_bound, std::string("\x00\x00\xc0\x3f", 4)) << "1.5: NaN is in no bound";
  EXPECT_EQ(summaries[5].lower_bound, "\x80") << "-1.28";
  EXPECT_TRUE(summaries[11].contains_null);
  EXPECT_EQ(summaries[14].lower_bound, "") << "an empty binary is a bound";
}

TEST(WriteManifest, UuidBoundsThatJavaWouldOrderOtherwiseAreLeftOut) {
  const Schema schema({column(1, "u", Type::primitive(TypeId::uuid))});
  PartitionSpec spec;
  spec.fields.push_back({.source_ids = {1}, .field_id = 1000, .name = "u", .transform = Transform::parse("identity")});
  const auto partitions_of = [&](const std::vector<std::string>& uuids) {
    std::vector<ManifestEntry> entries;
    for (const std::string& uuid : uuids) {
      entries.push_back(small_entry("/t/" + std::to_string(entries.size()), EntryStatus::added, 1));
      entries.back().file.partition = {uuid};
    }
    return write_manifest(entries, "/m", 1, spec, schema, ManifestContent::data, 2).file.partitions;
  };
  const std::string low(16, '\x01'), middle(16, '\x7f'), high(16, '\xf7');
  ASSERT_TRUE(partitions_of({middle, low}).has_value());
  EXPECT_EQ(partitions_of({middle, low})->at(0).lower_bound, low);
  EXPECT_EQ(partitions_of({middle, low})->at(0).upper_bound, middle);
  EXPECT_TRUE(partitions_of({high, high}).has_value());
  EXPECT_FALSE(partitions_of({low, high, middle}).has_value());
  EXPECT_FALSE(partitions_of({high, low}).has_value());
  std::string between = low;  // same first half as `low`, its second half negative to Java
  between[8] = '\xf0';
  EXPECT_FALSE(partitions_of({between, middle, low}).has_value());
}

TEST(WriteManifest, WhatReadersWouldMisreadIsRefused) {
  const auto refused = [](ManifestEntry entry, ManifestContent content = ManifestContent::data) {
    return kind_of([&] { write({entry}, 2, content); }) == ErrorKind::invalid_argument;
  };
  ManifestEntry entry = small_entry("/t/a", EntryStatus::existing, 1);
  EXPECT_TRUE(refused(entry, ManifestContent::deletes));
  entry.sequence_number.reset();
  EXPECT_TRUE(refused(entry)) << "an existing file inherits nothing";
  entry = small_entry("", EntryStatus::added, 1);
  EXPECT_TRUE(refused(entry));
  entry = small_entry("/t/a", EntryStatus::added, 1);
  entry.file.partition = {int32_t{1}};
  EXPECT_TRUE(refused(entry)) << "the spec has no field";
  entry = small_entry("/t/a", EntryStatus::added, 1);
  entry.file.content = FileContent::equality_deletes;
  EXPECT_TRUE(refused(entry, ManifestContent::deletes)) << "no equality ids";
  EXPECT_EQ(kind_of([&] { write({}, 1); }), ErrorKind::unsupported);
  const Sample sample = every_type();
  std::vector<Value> values = every_value();
  values[1] = std::string("text");
  EXPECT_EQ(kind_of([&] {
              write_manifest({full_entry(values)}, "/m", 1, sample.spec, sample.schema, ManifestContent::data, 2);
            }),
            ErrorKind::invalid_argument);
}

TEST(ReadManifest, EntriesInheritFromTheirManifest) {
  WrittenManifest written =
      write({small_entry("/t/new", EntryStatus::added, 5), small_entry("/t/old", EntryStatus::existing, 6)});
  written.file.sequence_number = 9;
  written.file.partition_spec_id = 3;
  const auto entries = read(written);
  ASSERT_EQ(entries.size(), 2u);
  EXPECT_EQ(entries[0].snapshot_id, 50);
  EXPECT_EQ(entries[0].sequence_number, 9);
  EXPECT_EQ(entries[0].file_sequence_number, 9);
  EXPECT_EQ(entries[0].file.partition_spec_id, 3);
  EXPECT_EQ(entries[1].sequence_number, 1);
  EXPECT_EQ(entries[1].file_sequence_number, 1);
}

TEST(ReadManifest, RowIdsAddUpOverFilesThatHaveNone) {
  std::vector<ManifestEntry> entries = {
      small_entry("/t/a", EntryStatus::added, 5), small_entry("/t/gone", EntryStatus::deleted, 100),
      small_entry("/t/b", EntryStatus::existing, 6), small_entry("/t/c", EntryStatus::existing, 7),
      small_entry("/t/d", EntryStatus::added, 8)};
  entries[2].file.first_row_id = 3;
  WrittenManifest written = write(entries, 3);
  written.file.sequence_number = 2;
  written.file.first_row_id = 1000;
  for (const bool live_only : {false, true}) {
    std::map<std::string, std::optional<int64_t>> ids;
    for (const ManifestEntry& entry : read(written, live_only)) ids[entry.file.file_path] = entry.file.first_row_id;
    EXPECT_EQ(ids.size(), live_only ? 4u : 5u);
    EXPECT_EQ(ids["/t/a"], 1000);
    EXPECT_EQ(ids["/t/b"], 3);
    EXPECT_EQ(ids["/t/c"], 1005);
    EXPECT_EQ(ids["/t/d"], 1012);
    EXPECT_EQ(ids["/t/gone"], std::nullopt);
  }
  written.file.first_row_id.reset();
  EXPECT_EQ(read(written)[0].file.first_row_id, std::nullopt);
}

TEST(ReadManifest, OnlyTheColumnsWantedKeepStatistics) {
  const Sample sample = every_type();
  const auto written =
      write_manifest({full_entry(every_value())}, "/m", 1, sample.spec, sample.schema, ManifestContent::data, 2);
  const std::vector<int32_t> two = {2}, none;
  auto file = read_manifest(written.bytes, written.file, sample.spec, sample.schema, true, &two).at(0).file;
  EXPECT_EQ(file.null_value_counts, (std::map<int32_t, int64_t>{{2, 7}}));
  EXPECT_EQ(file.upper_bounds, (std::map<int32_t, std::string>{{2, "zz"}}));
  EXPECT_TRUE(file.nan_value_counts.empty());
  EXPECT_EQ(file.split_offsets.size(), 2u);
  file = read_manifest(written.bytes, written.file, sample.spec, sample.schema, true, &none).at(0).file;
  EXPECT_TRUE(file.lower_bounds.empty());
  EXPECT_TRUE(file.value_counts.empty());
  EXPECT_EQ(file.partition, every_value());
}

TEST(ReadManifest, PartitionValuesFollowPromotedColumns) {
  const auto spec_of = [](int32_t fields) {
    PartitionSpec spec;
    for (int32_t i = 1; i <= fields; ++i)
      spec.fields.push_back({.source_ids = {i},
                             .field_id = 999 + i,
                             .name = "p" + std::to_string(i),
                             .transform = Transform::parse("identity")});
    return spec;
  };
  const Schema before({column(1, "a", Type::primitive(TypeId::int_)), column(2, "b", Type::primitive(TypeId::float_)),
                       column(3, "c", Type::decimal(5, 2)), column(4, "d", Type::primitive(TypeId::date))});
  const Schema after({column(1, "a", Type::primitive(TypeId::long_)), column(2, "b", Type::primitive(TypeId::double_)),
                      column(3, "c", Type::decimal(20, 2)), column(4, "d", Type::primitive(TypeId::timestamp))});
  ManifestEntry entry = small_entry("/t/a", EntryStatus::added, 1);
  entry.file.partition = {int32_t{-5}, 0.5F, arrow::Decimal128(-327), int32_t{-1}};
  const auto written = write_manifest({entry}, "/m", 1, spec_of(4), before, ManifestContent::data, 2);
  const auto again = read_manifest(written.bytes, written.file, spec_of(4), after, true);
  EXPECT_EQ(again.at(0).file.partition,
            (std::vector<Value>{int64_t{-5}, 0.5, arrow::Decimal128(-327), int64_t{-86'400'000'000}}));
}

TEST(ReadManifest, PartitionValuesOutliveTheirColumnAndAnotherRewrite) {
  const Sample sample = every_type();
  const Schema emptied({column(99, "other", Type::primitive(TypeId::int_))});
  ManifestEntry entry = full_entry(every_value());
  auto written = write_manifest({entry}, "/m", 1, sample.spec, sample.schema, ManifestContent::data, 2);
  for (int rewrite = 0; rewrite < 2; ++rewrite) {
    const auto again = read_manifest(written.bytes, written.file, sample.spec, emptied, true);
    EXPECT_EQ(again.at(0).file.partition, every_value());
    written = write_manifest(again, "/m", 1, sample.spec, emptied, ManifestContent::data, 2);
  }
}

TEST(ReadManifest, FieldsOfASpecThatTheFileLacksAreNull) {
  const auto written = write({small_entry("/t/a", EntryStatus::added, 1)});
  PartitionSpec spec;
  spec.fields.push_back({.source_ids = {1}, .field_id = 1000, .name = "id", .transform = Transform::parse("identity")});
  const auto entries = read_manifest(written.bytes, written.file, spec, kIds, true);
  EXPECT_EQ(entries.at(0).file.partition, std::vector<Value>(1));
}

// Java puts a length before the fixed values of partitions, which Avro does not have; both kinds are read.
TEST(ReadManifest, FixedPartitionValuesAreReadWithAndWithoutALength) {
  const Schema schema({column(1, "f", Type::fixed(3))});
  PartitionSpec spec;
  spec.fields.push_back({.source_ids = {1}, .field_id = 1000, .name = "f", .transform = Transform::parse("identity")});
  for (const bool with_length : {false, true}) {
    avro::ContainerWriter writer(
        R"({"type": "record", "name": "manifest_entry", "fields": [
          {"name": "status", "type": "int", "field-id": 0},
          {"name": "data_file", "field-id": 2, "type": {"type": "record", "name": "r2", "fields": [
            {"name": "file_path", "type": "string", "field-id": 100},
            {"name": "partition", "field-id": 102, "type": {"type": "record", "name": "r102", "fields": [
              {"name": "f", "type": ["null", {"type": "fixed", "name": "fixed_3", "size": 3}], "field-id": 1000}]}},
            {"name": "record_count", "type": "long", "field-id": 103}]}}]})",
        {}, avro::CodecKind::null);
    const std::vector<std::string> values = {std::string("\x00\x00\x00", 3), "\x06\x02\x06", "xyz"};
    for (const std::string& value : values) {
      std::string& out = writer.record();
      avro::put_long(out, 1);
      avro::put_bytes(out, "/t/a");
      avro::put_long(out, 1);
      if (with_length) avro::put_long(out, 3);
      out += value;
      avro::put_long(out, 5);
      writer.end_record();
    }
    const auto entries =
        read_manifest(writer.finish(), {.manifest_path = "/m", .sequence_number = 0}, spec, schema, true);
    ASSERT_EQ(entries.size(), 3u);
    for (size_t i = 0; i < 3; ++i) EXPECT_EQ(entries[i].file.partition, std::vector<Value>{values[i]});
  }
}

// Case 10: v1 knows no sequence numbers, so existing and deleted entries have 0.
TEST(ReadManifest, V1EntriesHaveSequenceNumberZeroWhateverTheirStatus) {
  avro::ContainerWriter writer(
      R"({"type": "record", "name": "manifest_entry", "fields": [
        {"name": "status", "type": "int", "field-id": 0},
        {"name": "snapshot_id", "type": "long", "field-id": 1},
        {"name": "data_file", "field-id": 2, "type": {"type": "record", "name": "r2", "fields": [
          {"name": "file_path", "type": "string", "field-id": 100},
          {"name": "file_format", "type": "string", "field-id": 101},
          {"name": "partition", "type": {"type": "record", "name": "r102", "fields": []}, "field-id": 102},
          {"name": "record_count", "type": "long", "field-id": 103},
          {"name": "file_size_in_bytes", "type": "long", "field-id": 104},
          {"name": "block_size_in_bytes", "type": "long", "field-id": 105},
          {"name": "file_ordinal", "type": ["null", "int"], "field-id": 106}]}}]})",
      {}, avro::CodecKind::null);
  for (int64_t status = 0; status < 3; ++status) {
    std::string& out = writer.record();
    for (const int64_t number : {status, int64_t{600}}) avro::put_long(out, number);
    avro::put_bytes(out, "/t/" + std::to_string(status));
    avro::put_bytes(out, "parquet");
    for (const int64_t number : {10, 20, 67108864, 1, 5}) avro::put_long(out, number);
    writer.end_record();
  }
  ManifestFile manifest{.manifest_path = "/t/m.avro", .sequence_number = 0, .added_snapshot_id = 600};
  const auto entries = read_manifest(writer.finish(), manifest, {}, kIds, false);
  ASSERT_EQ(entries.size(), 3u);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(entries[i].status, static_cast<EntryStatus>(i));
    EXPECT_EQ(entries[i].sequence_number, 0);
    EXPECT_EQ(entries[i].file_sequence_number, 0);
    EXPECT_EQ(entries[i].file.content, FileContent::data);
    EXPECT_EQ(entries[i].file.file_format, "PARQUET");
    EXPECT_EQ(entries[i].file.record_count, 10);
  }
}

}  // namespace
}  // namespace firn::iceberg
