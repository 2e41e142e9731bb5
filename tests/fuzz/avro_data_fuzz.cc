// Avro data and delete files: header, writer's schema, codecs, blocks, values of every type.
#include "fuzz.h"
#include "iceberg/scan/avro_file_reader.h"
#include "support/fake_store.h"

namespace {

using namespace firn::iceberg;

// The columns of tests/iceberg/scan/written_by_fastavro.avro, from which the corpus begins.
Schema every_type() {
  const auto column = [](int32_t id, const char* name, TypePtr type) {
    return Field{.id = id, .name = name, .type = std::move(type)};
  };
  const auto of = [](TypeId id) { return Type::primitive(id); };
  return Schema({column(1, "id", of(TypeId::long_)),
                 column(2, "i", of(TypeId::long_)),
                 column(3, "f", of(TypeId::double_)),
                 column(4, "dec_b", Type::decimal(30, 3)),
                 column(5, "dec_f", Type::decimal(9, 2)),
                 column(6, "d", of(TypeId::date)),
                 column(7, "t", of(TypeId::time)),
                 column(8, "ts", of(TypeId::timestamp)),
                 column(9, "tz", of(TypeId::timestamptz)),
                 column(11, "ms", of(TypeId::timestamptz)),
                 column(12, "s", of(TypeId::string)),
                 column(13, "u", of(TypeId::uuid)),
                 column(14, "us", of(TypeId::uuid)),
                 column(15, "fx", Type::fixed(3)),
                 column(16, "bin", of(TypeId::binary)),
                 column(17, "b", of(TypeId::boolean_)),
                 column(18, "li", Type::list_of(19, false, of(TypeId::long_))),
                 column(20, "m", Type::map_of(21, of(TypeId::string), 22, false, of(TypeId::int_))),
                 column(23, "mi", Type::map_of(24, of(TypeId::int_), 25, false, of(TypeId::string))),
                 column(26, "st",
                        Type::struct_of({column(28, "why", Type::list_of(29, false, of(TypeId::string))),
                                         column(27, "x", of(TypeId::long_)), column(40, "added", of(TypeId::int_))})),
                 column(30, "nothing", of(TypeId::unknown)),
                 column(31, "e", of(TypeId::string)),
                 column(32, "ns", of(TypeId::timestamp_ns))});
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const Schema kSchema = every_type();
  return firn::fuzz::read_hostile(data, size, [](std::string_view bytes) {
    firn::FakeStore store;
    store.replace("mem://fuzz.avro", bytes);
    ParquetReadRequest request;
    request.projection = kSchema;
    AvroFileReader reader(store, "mem://fuzz.avro", std::move(request));
    while (reader.next()) {
    }
  });
}
