#include "iceberg/write/group_rows.h"

#include <algorithm>
#include <numeric>
#include <random>

#include <arrow/compute/api_vector.h>
#include <gtest/gtest.h>

#include "../parquet/files.h"
#include "support/test_seed.h"

namespace firn::iceberg {
namespace {

Schema every_kind_of_column() {
  return Schema({field(1, "id", primitive(TypeId::long_)), field(2, "i", primitive(TypeId::int_)),
                 field(3, "b", primitive(TypeId::boolean_)), field(4, "s", primitive(TypeId::string)),
                 field(5, "bin", primitive(TypeId::binary)), field(6, "dec", Type::decimal(20, 2)),
                 field(7, "u", primitive(TypeId::uuid)), field(8, "fix", Type::fixed(3)),
                 field(9, "li", Type::list_of(10, false, primitive(TypeId::int_))),
                 field(11, "st", Type::struct_of({field(12, "x", primitive(TypeId::double_))}))});
}

std::shared_ptr<arrow::RecordBatch> random_rows(std::mt19937_64& random, int64_t rows) {
  std::string text = "[";
  for (int64_t row = 0; row < rows; ++row) {
    const auto number = [&] { return std::to_string(static_cast<int64_t>(random() % 2000) - 1000); };
    const auto quoted = [&](size_t size) {
      return '"' + std::string(size, static_cast<char>('a' + random() % 26)) + '"';
    };
    const std::vector<std::string> values = {number(),
                                             number(),
                                             random() % 2 == 0 ? "true" : "false",
                                             quoted(random() % 40),
                                             quoted(random() % 3),
                                             '"' + number() + ".25\"",
                                             quoted(16),
                                             quoted(3),
                                             "[" + number() + ", null]",
                                             "[" + number() + "]"};
    text += row == 0 ? "[" : ",[";
    for (size_t i = 0; i < values.size(); ++i)
      text += (i == 0 ? "" : ",") + (row % 7 == 3 && random() % 3 == 0 ? "null" : values[i]);
    text += "]";
  }
  return batch_of(every_kind_of_column(), text + "]");
}

TEST(GroupRows, EveryRowComesOnceWithItsKeyAndRowsOfAKeyKeepTheirOrder) {
  const uint64_t seed = test_seed();
  SCOPED_TRACE("FIRN_TEST_SEED=" + std::to_string(seed));
  std::mt19937_64 random(seed);
  for (int round = 0; round < 20; ++round) {
    const auto whole = random_rows(random, 1 + static_cast<int64_t>(random() % 300));
    // Also of a slice, whose columns do not begin where their buffers do.
    const int64_t first = random() % 2 == 0 ? whole->num_rows() / 3 : 0;
    const auto batch = whole->Slice(first);
    const size_t key_count = 1 + random() % 50;
    std::vector<uint32_t> keys;
    for (int64_t row = 0; row < batch->num_rows(); ++row) keys.push_back(static_cast<uint32_t>(random() % key_count));
    const GroupedRows grouped = group_rows(*batch, keys, key_count, 1 + static_cast<int>(random() % 3));

    std::vector<int64_t> order(keys.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) { return keys[a] < keys[b]; });
    const auto indices =
        std::make_shared<arrow::Int64Array>(batch->num_rows(), arrow::Buffer::Wrap(order.data(), order.size()));
    const auto expected = check(arrow::compute::Take(batch, indices), "").record_batch();
    ASSERT_TRUE(grouped.rows->ValidateFull().ok()) << grouped.rows->ValidateFull().ToString();
    expect_equal(*grouped.rows, *expected);

    int64_t next = 0;
    for (const GroupedRows::Group& group : grouped.groups) {
      EXPECT_EQ(group.first, next);
      EXPECT_GT(group.count, 0);
      for (; next < group.first + group.count; ++next) EXPECT_EQ(keys[static_cast<size_t>(order[next])], group.key);
    }
    EXPECT_EQ(next, batch->num_rows());
  }
}

}  // namespace
}  // namespace firn::iceberg
