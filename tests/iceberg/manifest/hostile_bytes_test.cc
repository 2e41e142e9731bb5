// Damaged manifests: whatever the bytes, an Error or an answer, and memory in proportion.
#include <gtest/gtest.h>

#include <random>

#include "iceberg/avro/container.h"
#include "iceberg/avro/encoder.h"
#include "iceberg/conformance_tables.h"
#include "iceberg/manifest/manifest_samples.h"
#include "support/test_seed.h"

namespace firn::iceberg {
namespace {

struct Input {
  std::string title;
  std::string bytes;
  std::function<void(std::string_view)> read;
};

std::vector<Input> inputs() {
  std::vector<Input> inputs;
  const Sample sample = every_type();
  for (const char* codec : {"null", "deflate", "snappy", "zstandard"}) {
    const auto written = write_manifest({full_entry(every_value()), full_entry(every_value())}, "/m", 1, sample.spec,
                                        sample.schema, ManifestContent::data, 3, codec);
    ManifestFile file = written.file;
    file.sequence_number = 5;
    file.first_row_id = 10;
    inputs.push_back({std::string("manifest ") + codec, written.bytes, [sample, file](std::string_view bytes) {
                        read_manifest(bytes, file, sample.spec, sample.schema, false);
                      }});
    std::vector<ManifestFile> manifests = {written.file};
    manifests[0].added_snapshot_id = 9;
    Snapshot snapshot{.snapshot_id = 9, .sequence_number = 1};
    inputs.push_back({std::string("list ") + codec, write_manifest_list(manifests, snapshot, 3, 0, codec),
                      [](std::string_view bytes) { read_manifest_list(bytes, "list"); }});
  }
  const auto table = fixtures_root() / "part_void_v1";
  const TableMetadata metadata = parse_table_metadata(read_whole(table / "metadata/v8.metadata.json"), "v8");
  const Snapshot& snapshot = *metadata.current_snapshot();
  const std::string list = read_whole(moved_path(table, snapshot.manifest_list));
  inputs.push_back({"v1 list", list, [](std::string_view bytes) { read_manifest_list(bytes, "list"); }});
  for (const ManifestFile& manifest : read_manifest_list(list, "list")) {
    inputs.push_back({"v1 manifest", read_whole(moved_path(table, manifest.manifest_path)),
                      [metadata, manifest](std::string_view bytes) {
                        read_manifest(bytes, manifest, metadata.spec(manifest.partition_spec_id), metadata.schema(),
                                      true);
                      }});
  }
  return inputs;
}

// Only firn's own error may come out, of the kinds for what is stored.
void read_damaged(const Input& input, std::string_view bytes) {
  try {
    input.read(bytes);
  } catch (const Error& e) {
    EXPECT_TRUE(e.kind() == ErrorKind::corrupt || e.kind() == ErrorKind::unsupported) << e.what();
  }
}

TEST(HostileBytes, TruncatedAndFlippedFilesGiveAnErrorOrAnAnswer) {
  std::mt19937_64 random(test_seed());
  for (const Input& input : inputs()) {
    SCOPED_TRACE(input.title);
    ASSERT_NO_THROW(input.read(input.bytes));
    for (int i = 0; i < 30; ++i)
      read_damaged(input, std::string_view(input.bytes).substr(0, random() % input.bytes.size()));
    for (int i = 0; i < 120; ++i) {
      std::string damaged = input.bytes;
      // Half of the damage goes to the blocks, which lie at the end.
      const size_t from = i % 2 == 0 ? 0 : damaged.size() - std::min<size_t>(damaged.size(), 700);
      for (uint64_t flips = 1 + random() % 3; flips > 0; --flips) {
        const size_t at = from + random() % (damaged.size() - from);
        damaged[at] = static_cast<char>(i % 3 == 0 ? random() : damaged[at] ^ (1 << random() % 8));
      }
      read_damaged(input, damaged);
    }
  }
}

// A count believed would end the process at the larger ones.
TEST(HostileBytes, FalseCountsReserveNothing) {
  const std::string schema = R"({"type": "record", "name": "manifest_entry", "fields": [
    {"name": "status", "type": "int", "field-id": 0},
    {"name": "data_file", "field-id": 2, "type": {"type": "record", "name": "r2", "fields": [
      {"name": "file_path", "type": "string", "field-id": 100},
      {"name": "split_offsets", "type": {"type": "array", "items": "long"}, "field-id": 132}]}}]})";
  for (const int64_t count : {int64_t{1} << 20, int64_t{1} << 40, INT64_MAX}) {
    avro::ContainerWriter writer(schema, {}, avro::CodecKind::null);
    avro::put_long(writer.record(), 1);
    avro::put_bytes(writer.record(), "/t/a");
    avro::put_long(writer.record(), count);
    writer.end_record();
    const std::string bytes = writer.finish();
    EXPECT_EQ(kind_of([&] { read_manifest(bytes, {.manifest_path = "/m"}, {}, Schema(), true); }), ErrorKind::corrupt);
  }
}

}  // namespace
}  // namespace firn::iceberg
