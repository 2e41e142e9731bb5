// Deletion vectors: what other engines wrote is read, what we write is read back, and no bytes break the reader.
#include <fstream>
#include <random>
#include <set>
#include <sstream>

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/hash.h"
#include "iceberg/puffin/puffin.h"
#include "support/test_seed.h"

namespace firn::iceberg {
namespace {

std::string fixture(const std::string& name) {
  std::ifstream in(std::string(FIRN_SOURCE_DIR "/tests/fixtures/dv_v3/data/") + name, std::ios::binary);
  std::ostringstream bytes;
  bytes << in.rdbuf();
  return bytes.str();
}

std::vector<int64_t> members(const PositionSet& set, int64_t begin = 0, int64_t end = INT64_MAX) {
  std::vector<int64_t> values;
  set.for_each_in(begin, end, [&](int64_t value) { values.push_back(value); });
  return values;
}

template <class Values>
PositionSet set_of(const Values& values) {
  PositionSet set;
  for (const int64_t value : values) set.add(value);
  return set;
}

// A blob around `body` (magic and vector) whose length and CRC are right, so that the checks behind them are reached.
std::string framed(const std::string& body) {
  const auto big_endian = [](uint32_t value) {
    return std::string{static_cast<char>(value >> 24), static_cast<char>(value >> 16), static_cast<char>(value >> 8),
                       static_cast<char>(value)};
  };
  return big_endian(static_cast<uint32_t>(body.size())) + body + big_endian(crc32(body));
}

std::string body_of(const std::string& blob) { return blob.substr(4, blob.size() - 8); }

// Arrays, bitsets and runs, in two upper halves.
std::set<int64_t> varied_positions() {
  std::set<int64_t> positions;
  for (int64_t i = 0; i < 100; ++i) positions.insert(i * 7);                // an array
  for (int64_t i = 0; i < 30000; ++i) positions.insert(65536 + 2 * i);      // a bitset
  for (int64_t i = 0; i < 20000; ++i) positions.insert(3 * 65536 + 5 + i);  // a run
  for (int64_t i = 0; i < 10; ++i) positions.insert((int64_t{5} << 32) + i * 100000);
  positions.insert((int64_t{1} << 62) + 12345);
  return positions;
}

TEST(DeletionVector, OfJavaIcebergIsReadAsPyIcebergReadsIt) {
  const std::string file = fixture("00000-122-92bbdee1-ff21-4e43-930a-e69d6816c8ce-00001-deletes.puffin");
  const PuffinFile puffin = parse_puffin_footer(file, static_cast<int64_t>(file.size()), "fixture");
  ASSERT_EQ(puffin.blobs.size(), 2U);
  EXPECT_EQ(puffin.blobs[1].type, "deletion-vector-v1");
  EXPECT_EQ(puffin.blobs[1].offset, 46);
  EXPECT_EQ(puffin.blobs[1].length, 87);
  EXPECT_EQ(puffin.blobs[1].properties.at("cardinality"), "33");
  const auto blob = [&](size_t i) { return file.substr(puffin.blobs[i].offset, puffin.blobs[i].length); };
  EXPECT_EQ(members(PositionSet::from_blob(blob(0), "fixture")), (std::vector<int64_t>{2}));
  EXPECT_EQ(members(PositionSet::from_blob(blob(1), "fixture")),
            (std::vector<int64_t>{0,  3,  13, 23, 33, 40, 41, 42, 43, 44, 45, 46, 47, 48,  49,  50, 51,
                                  52, 53, 54, 55, 56, 57, 58, 59, 60, 63, 73, 83, 93, 103, 113, 119}));
}

TEST(DeletionVector, IsWrittenByteForByteAsJavaWritesIt) {
  const std::string file = fixture("00000-119-04b626aa-0f06-43f5-baa1-92d1c49d153b-00001-deletes.puffin");
  const std::string blob = file.substr(4, 79);
  EXPECT_EQ(to_hex(PositionSet::from_blob(blob, "fixture").to_blob()), to_hex(blob));
}

TEST(DeletionVector, OfEveryKindOfContainerIsReadBack) {
  const std::set<int64_t> positions = varied_positions();
  const PositionSet set = PositionSet::from_blob(set_of(positions).to_blob(), "test");
  EXPECT_EQ(members(set), std::vector<int64_t>(positions.begin(), positions.end()));
  EXPECT_EQ(set.size(), static_cast<int64_t>(positions.size()));
  EXPECT_TRUE(PositionSet::from_blob(PositionSet().to_blob(), "test").empty());
}

TEST(PositionSet, VisitsTheMembersOfARangeInOrder) {
  const std::set<int64_t> positions = varied_positions();
  const PositionSet set = set_of(positions);
  const int64_t high = int64_t{5} << 32;
  for (const auto& [begin, end] : std::vector<std::pair<int64_t, int64_t>>{{0, 0},
                                                                           {-5, 8},
                                                                           {7, 8},
                                                                           {8, 14},
                                                                           {65535, 65537},
                                                                           {70000, high + 1},
                                                                           {high, high + 100001},
                                                                           {high + 1, INT64_MAX}}) {
    const std::vector<int64_t> expected(positions.lower_bound(begin), positions.lower_bound(end));
    EXPECT_EQ(members(set, begin, end), expected) << begin << " to " << end;
  }
  EXPECT_TRUE(set.contains(high + 100000));
  EXPECT_FALSE(set.contains(high + 100001));
  EXPECT_FALSE(set.contains(-1));
}

TEST(PositionSet, UnitesWithAnother) {
  PositionSet set = set_of(std::vector<int64_t>{1, 5});
  set.add_all(set_of(std::vector<int64_t>{5, 6, int64_t{7} << 32}));
  EXPECT_EQ(members(set), (std::vector<int64_t>{1, 5, 6, int64_t{7} << 32}));
  EXPECT_THROW(set.add(-1), Error);
}

void expect_corrupt(const std::string& blob, const char* why) {
  try {
    PositionSet::from_blob(blob, "x.puffin");
    ADD_FAILURE() << why << " was accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::corrupt) << why;
    EXPECT_NE(std::string(error.what()).find("x.puffin"), std::string::npos) << error.what();
  }
}

TEST(DeletionVector, ThatBreaksTheFormatIsRefused) {
  const std::string body = body_of(set_of(std::vector<int64_t>{1, 2, 4}).to_blob());
  // Magic 0–3, bitmaps 4–11, key 12–15, cookie 16–19, containers 20–23, container key and cardinality 24–27, offset
  // 28–31, values from 32.
  ASSERT_EQ(body.size(), 38U);
  const auto changed = [&](size_t offset, const std::string& bytes) {
    return framed(std::string(body).replace(offset, bytes.size(), bytes));
  };
  const auto bytes = [](std::initializer_list<int> values) { return std::string(values.begin(), values.end()); };
  EXPECT_EQ(PositionSet::from_blob(framed(body), "x.puffin").size(), 3);
  expect_corrupt("", "nothing");
  expect_corrupt(changed(0, "abcd"), "another magic");
  expect_corrupt(changed(4, bytes({2})), "a bitmap count above the bitmaps");
  expect_corrupt(changed(4, bytes({0})), "a bitmap count below the bitmaps");
  expect_corrupt(changed(11, bytes({0x7f})), "a huge bitmap count");
  expect_corrupt(changed(15, bytes({0x80})), "a key above 2^31 - 1");
  expect_corrupt(changed(16, bytes({0})), "an unknown cookie");
  expect_corrupt(changed(20, bytes({0, 0, 2})), "more than 65536 containers");
  expect_corrupt(changed(26, bytes({3})), "a cardinality above the values");
  expect_corrupt(changed(26, bytes({1})), "a cardinality below the values");
  expect_corrupt(changed(26, bytes({0xff, 0xff})), "a bitset that is not there");
  expect_corrupt(changed(28, bytes({17})), "a wrong container offset");
  expect_corrupt(changed(34, bytes({1})), "a repeated value");
  expect_corrupt(changed(34, bytes({9})), "values out of order");
  std::string wrong_crc = framed(body);
  wrong_crc.back() = static_cast<char>(wrong_crc.back() ^ 1);
  expect_corrupt(wrong_crc, "a wrong CRC");
  expect_corrupt(framed(body) + "x", "a byte too many");
}

TEST(DeletionVector, WithRunsOutOfBoundsIsRefused) {
  PositionSet set;
  for (int64_t i = 10; i < 200; ++i) set.add(i);
  const std::string body = body_of(set.to_blob());
  // Cookie with runs 16–19, flags 20, key and cardinality 21–24, runs 25–26, start 27–28, length less one 29–30.
  ASSERT_EQ(body.size(), 31U);
  EXPECT_EQ(PositionSet::from_blob(framed(body), "x.puffin").size(), 190);
  const auto changed = [&](size_t offset, const std::string& bytes) {
    return framed(std::string(body).replace(offset, bytes.size(), bytes));
  };
  expect_corrupt(changed(25, std::string("\x02", 1)), "a run that is not there");
  expect_corrupt(changed(27, "\xff\xff"), "a run past its container");
  expect_corrupt(changed(29, std::string(1, '\0')), "a cardinality that the runs do not have");
  expect_corrupt(changed(29, "\xff\xff"), "a run longer than its container");
}

// Whatever is accepted must be a set that can be used and written again: CRoaring never gets bytes that break it.
TEST(DeletionVector, SurvivesFlippedAndMissingBytes) {
  std::set<int64_t> positions = varied_positions();
  const std::string body = body_of(set_of(positions).to_blob());
  SCOPED_TRACE("FIRN_TEST_SEED=" + std::to_string(test_seed()));
  std::mt19937_64 random(test_seed());
  int refused = 0;
  for (int round = 0; round < 3000; ++round) {
    std::string broken = body;
    if (round % 4 == 0) broken.resize(random() % broken.size());
    // Most damage to the headers: values within containers matter less.
    const size_t area = round % 2 == 0 ? std::min<size_t>(broken.size(), 200) : broken.size();
    for (uint64_t flips = 1 + random() % 3; flips > 0 && area > 0; --flips) {
      broken[random() % area] ^= static_cast<char>(1U << (random() % 8));
    }
    try {
      const PositionSet set = PositionSet::from_blob(framed(broken), "x.puffin");
      EXPECT_EQ(PositionSet::from_blob(set.to_blob(), "again").size(), set.size());
      EXPECT_EQ(static_cast<int64_t>(members(set).size()), set.size());
    } catch (const Error& error) {
      ++refused;
      EXPECT_EQ(error.kind(), ErrorKind::corrupt);
    }
  }
  EXPECT_GT(refused, 1000);
}

}  // namespace
}  // namespace firn::iceberg
