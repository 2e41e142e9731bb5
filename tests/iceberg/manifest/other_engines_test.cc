// Manifests that firn wrote, read by fastavro and PyIceberg.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "iceberg/manifest/manifest_samples.h"
#include "support/run_program.h"
#include "support/temp_folder.h"

namespace firn::iceberg {
namespace {

void save(const std::string& path, const std::string& bytes) { std::ofstream(path, std::ios::binary) << bytes; }

TEST(OtherEngines, ReadTheManifestsThatFirnWrites) {
  const std::string python = std::string(FIRN_SOURCE_DIR) + "/.deps/venv/bin/python";
  if (!std::filesystem::exists(python)) GTEST_SKIP() << "no " << python << "; scripts/setup makes it";
  const TempFolder folder;
  Sample sample = every_type();
  // Without timestamp_ns, which PyIceberg 0.11 cannot read in Avro.
  std::vector<Value> values = every_value();
  sample.spec.fields.erase(sample.spec.fields.begin() + 10);
  values.erase(values.begin() + 10);
  for (const int32_t version : {2, 3}) {
    SCOPED_TRACE(version);
    const auto data = write_manifest({full_entry(values), full_entry(std::vector<Value>(values.size()))},
                                     folder / "d.avro", 50, sample.spec, sample.schema, ManifestContent::data, version);
    ManifestEntry equality = small_entry("/t/eq.parquet", EntryStatus::added, 2);
    equality.file.content = FileContent::equality_deletes;
    equality.file.equality_ids = {1, 7};
    const auto deletes =
        write_manifest({equality}, folder / "e.avro", 50, {}, sample.schema, ManifestContent::deletes, version);
    save(folder / "d.avro", data.bytes);
    save(folder / "e.avro", deletes.bytes);
    std::vector<ManifestFile> manifests = {data.file, deletes.file};
    save(folder / "list.avro", write_manifest_list(manifests, {.snapshot_id = 50, .sequence_number = 9}, version, 0));

    const ProgramResult result = run_program(
        {python, std::string(FIRN_SOURCE_DIR) + "/tests/iceberg/manifest/read_back.py", folder / "list.avro"});
    ASSERT_EQ(result.status, 0) << result.err;
    std::vector<std::string> lines;
    std::istringstream out(result.out);
    for (std::string line; std::getline(out, line);) lines.push_back(line);
    ASSERT_EQ(lines.size(), 12u) << result.out;
    const std::string file = "0, 's3://bucket/t/data/a b%20c.parquet', 'PARQUET', ";
    const std::string metrics =
        ", 1000, 123456789012, {1: '10', 2: '20', 2147483540: '5'}, {1: '0', 2: '7'}, "
        "{1: '01', 2: '7a7a'}, [4, 5000000000], None, 1)";
    EXPECT_EQ(lines[0], "by_fastavro");
    EXPECT_THAT(lines[1], testing::HasSubstr(", 4, 0, 9, 3, 50, 0, 2000, [(True, False, '01', '01'), (True, False, "
                                             "'f9ffffff', 'f9ffffff'), "));
    EXPECT_EQ(lines[2], "(0, 77, " + file +
                            "['True', '-7', '1099511627776', '1.5', '-2.25', '-1.28', '1969-12-31', '23:59:59.999999', "
                            "'1969-12-31 23:59:59.999999+00:00', '2023-11-14 22:13:20+00:00', 'O\u2019Brien', "
                            "'000102030405060708090a0b0c0d0e0f', 'ff007f', '', '9999999.99', "
                            "'-12345678901234567890.0123456789']" +
                            metrics);
    EXPECT_THAT(lines[3], testing::HasSubstr(file + "['None', 'None', "));
    EXPECT_THAT(lines[4], testing::MatchesRegex(R"(\('e.avro', [0-9]+, 0, 1, 9, 9, 50, 1, 0, \[\]\))"));
    EXPECT_EQ(lines[5], "(1, None, 2, '/t/eq.parquet', 'PARQUET', [], 2, 20, {}, {}, {}, None, [1, 7], None)");
    EXPECT_EQ(lines[6], "by_pyiceberg");
    EXPECT_EQ(lines[7], lines[1]);
    EXPECT_EQ(lines[8], "(0, 77, " + file +
                            "['True', '-7', '1099511627776', '1.5', '-2.25', '-1.28', '-1', '86399999999', '-1', "
                            "'1700000000000000', 'O\u2019Brien', '00010203-0405-0607-0809-0a0b0c0d0e0f', 'ff007f', '', "
                            "'9999999.99', '-12345678901234567890.0123456789']" +
                            metrics);
    EXPECT_EQ(lines[9], lines[3]);
    EXPECT_EQ(lines[10], lines[4]);
    EXPECT_EQ(lines[11], "(50, None, 2, '/t/eq.parquet', 'PARQUET', [], 2, 20, {}, {}, {}, None, [1, 7], None)")
        << "PyIceberg inherits the status's snapshot";
  }
}

}  // namespace
}  // namespace firn::iceberg
