// Parquet data files: footer, schema, statistics, page index, pages.
#include "fuzz.h"
#include "iceberg/parquet/file_reader.h"
#include "support/fake_store.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace firn::iceberg;
  static const Schema kSchema({Field{.id = 1, .name = "id", .type = Type::primitive(TypeId::long_)},
                               Field{.id = 2, .name = "name", .type = Type::primitive(TypeId::string)},
                               Field{.id = 3, .name = "ts", .type = Type::primitive(TypeId::timestamptz)}});
  static const ExpressionPtr kFilter = bind(*parse_expression("id >= 3 and name != 'x'"), kSchema);
  return firn::fuzz::read_hostile(data, size, [](std::string_view bytes) {
    firn::FakeStore store;
    store.replace("mem://fuzz.parquet", bytes);
    for (const bool is_filtered : {false, true}) {
      ParquetReadRequest request;
      request.projection = kSchema;
      if (is_filtered) request.filter = kFilter;
      ParquetFileReader reader(store, "mem://fuzz.parquet", std::move(request));
      while (reader.next()) {
      }
    }
  });
}
