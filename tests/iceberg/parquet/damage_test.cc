#include <fstream>
#include <random>

#include "files.h"
#include "support/test_seed.h"

namespace firn::iceberg {
namespace {

TEST(Damage, AFileWithFlippedBytesIsAnErrorOrRowsAndNothingElse) {
  const uint64_t seed = test_seed();
  SCOPED_TRACE("FIRN_TEST_SEED=" + std::to_string(seed));
  std::mt19937_64 random(seed);
  const TempFolder folder;
  const Schema schema({field(1, "l", primitive(TypeId::long_)), field(2, "s", primitive(TypeId::string)),
                       field(3, "dec", Type::decimal(25, 2)), field(4, "b", primitive(TypeId::boolean_)),
                       field(5, "li", Type::list_of(6, false, primitive(TypeId::int_)))});
  std::string rows = "[";
  for (int i = 0; i < 200; ++i)
    rows +=
        (i > 0 ? ",[" : "[") + std::to_string(i) + R"(,"text )" + std::to_string(i % 9) + R"(","1.25",true,[1,null]])";
  ParquetWriteOptions options;
  options.page_row_limit = 50;
  options.compression = "uncompressed";
  const std::string path = folder / "a.parquet", damaged_path = folder / "b.parquet";
  write_rows(path, schema, rows + "]", options);
  std::ifstream in(path, std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(in), {}};
  const Schema flat = schema.select({"l", "s", "dec", "b"});
  int errors = 0;
  for (int round = 0; round < 400; ++round) {
    std::string damaged = bytes;
    for (uint64_t flips = random() % 4 + 1; flips > 0; --flips)
      damaged[random() % damaged.size()] = static_cast<char>(random());
    std::ofstream(damaged_path, std::ios::binary) << damaged;
    for (const bool nested : {false, true}) {
      try {
        ParquetReadRequest request{.projection = nested ? schema : flat};
        request.filter = bind(*parse_expression("l >= 60 and s != 'text 3'"), request.projection);
        ParquetFileReader reader(*make_local_file_io(), damaged_path, request);
        while (reader.next()) {
        }
      } catch (const Error& error) {
        EXPECT_NE(error.kind(), ErrorKind::internal) << error.what();
        ++errors;
      }
    }
  }
  EXPECT_GT(errors, 0);
}

}  // namespace
}  // namespace firn::iceberg
