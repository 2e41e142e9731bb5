// Manifests, under a schema and spec of every transform.
#include "iceberg/manifest/manifest.h"

#include "fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace firn::iceberg;
  static const Schema kSchema({Field{.id = 1, .name = "id", .type = Type::primitive(TypeId::long_)},
                               Field{.id = 2, .name = "name", .type = Type::primitive(TypeId::string)},
                               Field{.id = 3, .name = "ts", .type = Type::primitive(TypeId::timestamptz)}});
  static const PartitionSpec kSpec = make_partition_spec(
      {{"id", "bucket[16]"}, {"name", "truncate[2]"}, {"ts", "day"}, {"name", "identity"}}, kSchema);
  return firn::fuzz::read_hostile(data, size, [](std::string_view bytes) {
    ManifestFile manifest;
    manifest.manifest_path = "fuzz.avro";
    manifest.sequence_number = 7;
    manifest.first_row_id = 100;
    read_manifest(bytes, manifest, kSpec, kSchema, /*live_only=*/false);
  });
}
