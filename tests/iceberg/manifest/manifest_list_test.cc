#include <gtest/gtest.h>

#include "iceberg/avro/container.h"
#include "iceberg/avro/encoder.h"
#include "iceberg/manifest/manifest_samples.h"

namespace firn::iceberg {
namespace {

Snapshot snapshot(int64_t sequence_number) {
  Snapshot result;
  result.snapshot_id = 50;
  result.sequence_number = sequence_number;
  result.manifest_list = "/t/snap.avro";
  return result;
}

ManifestFile manifest(const std::string& path, int64_t added_rows, int64_t existing_rows = 0) {
  ManifestFile file{
      .manifest_path = path, .manifest_length = 5'000'000'000, .partition_spec_id = 2, .added_snapshot_id = 50};
  file.added_files_count = added_rows > 0 ? 1 : 0;
  file.existing_files_count = existing_rows > 0 ? 1 : 0;
  file.deleted_files_count = 0;
  file.added_rows_count = added_rows;
  file.existing_rows_count = existing_rows;
  file.deleted_rows_count = 0;
  file.partitions.emplace();
  return file;
}

TEST(ManifestList, EveryMemberComesBackWithEveryCodec) {
  ManifestFile staged = manifest("/t/a.avro", 3);
  staged.key_metadata = "key";
  staged.partitions = {{.contains_null = true, .contains_nan = false, .lower_bound = "", .upper_bound = "zz"},
                       {.contains_null = false}};
  ManifestFile old = manifest("/t/b.avro", 0, 4);
  old.content = ManifestContent::deletes;
  old.sequence_number = 2;
  old.min_sequence_number = 1;
  old.added_snapshot_id = 40;
  old.partitions.reset();
  for (const char* codec : {"null", "deflate", "snappy", "zstandard"}) {
    std::vector<ManifestFile> manifests = {staged, old};
    const std::string bytes = write_manifest_list(manifests, snapshot(7), 2, 0, codec);
    const auto again = read_manifest_list(bytes, "/t/snap.avro");
    ASSERT_EQ(again.size(), 2u);
    for (size_t i = 0; i < 2; ++i) {
      EXPECT_EQ(again[i].manifest_path, manifests[i].manifest_path);
      EXPECT_EQ(again[i].manifest_length, 5'000'000'000);
      EXPECT_EQ(again[i].partition_spec_id, 2);
      EXPECT_EQ(again[i].content, manifests[i].content);
      EXPECT_EQ(again[i].added_snapshot_id, manifests[i].added_snapshot_id);
      EXPECT_EQ(again[i].added_rows_count, manifests[i].added_rows_count);
      EXPECT_EQ(again[i].existing_rows_count, manifests[i].existing_rows_count);
      EXPECT_EQ(again[i].deleted_rows_count, 0);
      EXPECT_EQ(again[i].added_files_count, manifests[i].added_files_count);
      EXPECT_EQ(again[i].existing_files_count, manifests[i].existing_files_count);
      EXPECT_EQ(again[i].deleted_files_count, 0);
      EXPECT_EQ(again[i].key_metadata, manifests[i].key_metadata);
      EXPECT_FALSE(again[i].first_row_id.has_value());
    }
    EXPECT_EQ(again[0].sequence_number, 7) << "staged manifests take the snapshot's";
    EXPECT_EQ(again[0].min_sequence_number, 7);
    EXPECT_EQ(again[1].sequence_number, 2);
    EXPECT_EQ(again[1].min_sequence_number, 1);
    ASSERT_EQ(again[0].partitions->size(), 2u);
    EXPECT_EQ(again[0].partitions->at(0).lower_bound, "");
    EXPECT_EQ(again[0].partitions->at(0).upper_bound, "zz");
    EXPECT_EQ(again[0].partitions->at(0).contains_nan, false);
    EXPECT_EQ(again[0].partitions->at(1).contains_nan, std::nullopt);
    EXPECT_EQ(again[0].partitions->at(1).lower_bound, std::nullopt);
    EXPECT_FALSE(again[1].partitions.has_value());
  }
}

TEST(ManifestList, V3DataManifestsGetRowIdsByAddedAndExistingRows) {
  ManifestFile deletes = manifest("/t/d.avro", 5);
  deletes.content = ManifestContent::deletes;
  ManifestFile numbered = manifest("/t/n.avro", 0, 9);
  numbered.sequence_number = numbered.min_sequence_number = 1;
  numbered.first_row_id = 17;
  std::vector<ManifestFile> manifests = {manifest("/t/a.avro", 3, 4), deletes, numbered, manifest("/t/b.avro", 2)};
  const auto again = read_manifest_list(write_manifest_list(manifests, snapshot(2), 3, 100), "/t/snap.avro");
  ASSERT_EQ(again.size(), 4u);
  EXPECT_EQ(again[0].first_row_id, 100);
  EXPECT_EQ(again[1].first_row_id, std::nullopt);
  EXPECT_EQ(again[2].first_row_id, 17);
  EXPECT_EQ(again[3].first_row_id, 107);
  EXPECT_EQ(manifests[3].first_row_id, 107);
}

TEST(ManifestList, WhatV2CannotSayIsRefused) {
  std::vector<ManifestFile> manifests = {manifest("/t/a.avro", 3)};
  manifests[0].existing_files_count.reset();
  EXPECT_EQ(kind_of([&] { write_manifest_list(manifests, snapshot(2), 2, 0); }), ErrorKind::invalid_argument);
  manifests = {manifest("/t/a.avro", 3)};
  manifests[0].added_snapshot_id = 49;
  EXPECT_EQ(kind_of([&] { write_manifest_list(manifests, snapshot(2), 2, 0); }), ErrorKind::invalid_argument)
      << "another snapshot's manifest without its number";
  manifests = {manifest("/t/a.avro", 3)};
  EXPECT_EQ(kind_of([&] { write_manifest_list(manifests, snapshot(2), 1, 0); }), ErrorKind::unsupported);
}

TEST(ManifestList, CountsAreThoseOfTheEntries) {
  ManifestFile file = manifest("/t/a.avro", 1);
  set_counts(file, {small_entry("/a", EntryStatus::deleted, 3), small_entry("/b", EntryStatus::deleted, 4),
                    small_entry("/c", EntryStatus::existing, 5)});
  EXPECT_EQ(file.added_files_count, 0);
  EXPECT_EQ(file.existing_files_count, 1);
  EXPECT_EQ(file.deleted_files_count, 2);
  EXPECT_EQ(file.existing_rows_count, 5);
  EXPECT_EQ(file.deleted_rows_count, 7);
}

// Case 9: fields are found by id, or by their old names where there are none; what is absent is data, sequence 0, and
// counts unknown.
TEST(ManifestList, OldWritersListsAreReadByIdAndByOldName) {
  const std::string with_ids = R"({"type": "record", "name": "manifest_file", "fields": [
    {"name": "manifest_path", "type": "string", "field-id": 500},
    {"name": "manifest_length", "type": "long", "field-id": 501},
    {"name": "partition_spec_id", "type": "int", "field-id": 502},
    {"name": "added_snapshot_id", "type": ["null", "long"], "default": null, "field-id": 503},
    {"name": "added_data_files_count", "type": ["null", "int"], "default": null, "field-id": 504},
    {"name": "existing_data_files_count", "type": ["int", "null"], "field-id": 505},
    {"name": "something_new", "type": ["null", {"type": "map", "values": "bytes"}], "field-id": 9999}]})";
  std::string without_ids = with_ids;
  for (size_t at = 0; (at = without_ids.find(", \"field-id\"", at)) != std::string::npos;)
    without_ids.erase(at, without_ids.find_first_of("}", at) - at);
  for (const std::string& schema : {with_ids, without_ids}) {
    avro::ContainerWriter writer(schema, {}, avro::CodecKind::deflate);
    std::string& out = writer.record();
    avro::put_bytes(out, "/t/m.avro");
    avro::put_long(out, 1234);
    avro::put_long(out, 6);
    avro::put_long(out, 1);  // added_snapshot_id, present
    avro::put_long(out, 42);
    avro::put_long(out, 0);  // added_data_files_count, null
    avro::put_long(out, 0);  // existing_data_files_count, present: its branches are the other way round
    avro::put_long(out, 8);
    avro::put_long(out, 1);
    avro::put_long(out, 1);
    avro::put_bytes(out, "key");
    avro::put_bytes(out, "value");
    avro::put_long(out, 0);
    writer.end_record();
    const auto manifests = read_manifest_list(writer.finish(), "old");
    ASSERT_EQ(manifests.size(), 1u);
    EXPECT_EQ(manifests[0].manifest_path, "/t/m.avro");
    EXPECT_EQ(manifests[0].manifest_length, 1234);
    EXPECT_EQ(manifests[0].partition_spec_id, 6);
    EXPECT_EQ(manifests[0].added_snapshot_id, 42);
    EXPECT_EQ(manifests[0].content, ManifestContent::data);
    EXPECT_EQ(manifests[0].sequence_number, 0);
    EXPECT_EQ(manifests[0].min_sequence_number, 0);
    EXPECT_EQ(manifests[0].added_files_count, std::nullopt);
    EXPECT_EQ(manifests[0].existing_files_count, 8);
    EXPECT_EQ(manifests[0].deleted_files_count, std::nullopt);
    EXPECT_EQ(manifests[0].added_rows_count, std::nullopt);
    EXPECT_FALSE(manifests[0].partitions.has_value());
  }
}

}  // namespace
}  // namespace firn::iceberg
