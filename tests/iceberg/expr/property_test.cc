// Random rows and random filters: every route to an answer gives the same one as a plain three-valued evaluation.
#include <gtest/gtest.h>

#include "base/civil_time.h"
#include "iceberg/expr/random_rows.h"
#include "support/test_seed.h"

namespace firn::iceberg {
namespace {

// The seed of each round is printed when it fails: FIRN_TEST_SEED then gives that round first.
class FilterProperty : public testing::Test {
 protected:
  template <class Body>
  void rounds(int count, const Body& body) {
    const uint64_t seed = test_seed();
    for (int i = 0; i < count && !HasFailure(); ++i) {
      SCOPED_TRACE("FIRN_TEST_SEED=" + std::to_string(seed + i));
      Generator g(seed + i);
      body(g);
    }
  }
};

TEST_F(FilterProperty, RowsOfABatchMatchAsInThreeValuedLogic) {
  rounds(500, [](Generator& g) {
    const auto rows = random_rows(g, 1 + g.below(40));
    const auto batch = to_batch(test_schema(), rows, g.one_in(2));
    const auto expression = g.tree(3, leaf_ids());
    SCOPED_TRACE(to_string(*expression));
    const auto bound = bind(*expression, test_schema());
    SCOPED_TRACE(to_string(*bound));
    const auto expected = truths(*expression, rows);
    EXPECT_EQ(evaluated(*bound, *batch), expected);
    const size_t skip = g.below(rows.size());
    EXPECT_EQ(evaluated(*bound, *batch->Slice(static_cast<int64_t>(skip))),
              std::vector<bool>(expected.begin() + static_cast<int64_t>(skip), expected.end()));
  });
}

TEST_F(FilterProperty, TheTextOfABoundFilterBindsToTheSameFilter) {
  rounds(500, [](Generator& g) {
    g.extremes = false;
    const auto bound = bind(*g.tree(3, leaf_ids()), test_schema());
    const std::string text = to_string(*bound);
    EXPECT_EQ(to_string(*bind(*parse_expression(text), test_schema())), text);
  });
}

TEST_F(FilterProperty, MetricsNeverPruneAMatchNorPromiseTooMuch) {
  int pruned = 0, proven = 0;
  rounds(2500, [&](Generator& g) {
    const auto rows = random_rows(g, 1 + g.below(g.one_in(2) ? 2 : 8));
    const DataFile file = metrics_of(g, rows, static_cast<int32_t>(1 + g.below(3)));
    const auto expression = g.tree(2, leaf_ids());
    SCOPED_TRACE(to_string(*expression));
    const auto bound = bind(*expression, test_schema());
    const auto matches = truths(*expression, rows);
    const bool any = std::find(matches.begin(), matches.end(), true) != matches.end();
    const bool all = std::find(matches.begin(), matches.end(), false) == matches.end();
    const bool might = file_might_match(*bound, file), must = file_must_match(*bound, file);
    EXPECT_TRUE(might || !any);
    EXPECT_TRUE(!must || all);
    const bool bounds_might = bounds_might_match(*bound, [&](int32_t id) {
      const Type& type = *test_schema().find_field(id)->type;
      ColumnBounds known{.value_count = file.record_count};
      if (file.null_value_counts.contains(id)) known.null_count = file.null_value_counts.at(id);
      if (file.nan_value_counts.contains(id)) known.nan_count = file.nan_value_counts.at(id);
      if (file.lower_bounds.contains(id)) known.lower = from_bytes(file.lower_bounds.at(id), type);
      if (file.upper_bounds.contains(id)) known.upper = from_bytes(file.upper_bounds.at(id), type);
      return known;
    });
    EXPECT_TRUE(bounds_might || !any);
    pruned += might ? 0 : 1;
    proven += must ? 1 : 0;
  });
  EXPECT_GT(pruned, 100) << "the test proves something only if much is pruned";
  EXPECT_GT(proven, 30);
}

TEST_F(FilterProperty, PartitionsNeverPruneAMatchAndResidualsSelectTheSameRows) {
  int pruned = 0, reduced = 0;
  rounds(2500, [&](Generator& g) {
    const PartitionSpec spec = random_spec(g);
    const bool old_java = g.one_in(3);
    const auto all_rows = random_rows(g, 12);
    const auto tuple = tuple_of(spec, all_rows[0], old_java);
    std::vector<Row> rows;
    for (const Row& row : all_rows)
      if (same_tuple(tuple_of(spec, row, old_java), tuple)) rows.push_back(row);
    const auto expression = g.tree(2, g.one_in(4) ? leaf_ids() : source_ids(spec));
    SCOPED_TRACE(to_string(*expression) + " of " + spec.to_display(test_schema()));
    const auto bound = bind(*expression, test_schema());
    const auto matches = truths(*expression, rows);
    const bool any = std::find(matches.begin(), matches.end(), true) != matches.end();
    const bool might = partition_might_match(*bound, spec, test_schema(), tuple);
    EXPECT_TRUE(might || !any);
    const auto rest = residual(bound, spec, test_schema(), tuple);
    SCOPED_TRACE(to_string(*rest));
    EXPECT_EQ(evaluated(*rest, *to_batch(test_schema(), rows)), matches);
    pruned += might ? 0 : 1;
    reduced += to_string(*rest) != to_string(*bound) ? 1 : 0;
  });
  EXPECT_GT(pruned, 200);
  EXPECT_GT(reduced, 200);
}

TEST_F(FilterProperty, ManifestSummariesNeverPruneAMatch) {
  int pruned = 0;
  rounds(2500, [&](Generator& g) {
    const PartitionSpec spec = random_spec(g);
    const TypePtr tuple_type = spec.partition_type(test_schema());
    const auto rows = random_rows(g, 1 + g.below(4));
    ManifestFile manifest;
    manifest.partitions.emplace();
    for (size_t f = 0; f < spec.fields.size(); ++f) {
      FieldSummary summary{.contains_null = false, .contains_nan = false};
      std::optional<Value> low, high;
      for (const Row& row : rows) {
        const Value value = tuple_of(spec, row, false)[f];
        if (is_null(value)) summary.contains_null = true;
        if (is_nan(value)) summary.contains_nan = true;
        if (is_null(value) || is_nan(value)) continue;
        if (!low || compare(value, *low) < 0) low = value;
        if (!high || compare(value, *high) > 0) high = value;
      }
      if (low) summary.lower_bound = to_bytes(*low, *tuple_type->fields()[f].type);
      if (high) summary.upper_bound = to_bytes(*high, *tuple_type->fields()[f].type);
      if (g.one_in(4)) summary.contains_nan.reset();
      manifest.partitions->push_back(summary);
    }
    const auto expression = g.tree(2, source_ids(spec));
    SCOPED_TRACE(to_string(*expression) + " of " + spec.to_display(test_schema()));
    const auto bound = bind(*expression, test_schema());
    const auto matches = truths(*expression, rows);
    const bool any = std::find(matches.begin(), matches.end(), true) != matches.end();
    const bool might = manifest_might_match(*bound, spec, test_schema(), manifest);
    EXPECT_TRUE(might || !any);
    pruned += might ? 0 : 1;
  });
  EXPECT_GT(pruned, 100);
}

TEST_F(FilterProperty, TermsOfTransformsSelectWhatTheTransformsValuesDo) {
  rounds(1200, [](Generator& g) {
    g.extremes = false;
    static const std::vector<std::string> kTransforms = {"bucket[3]", "truncate[2]", "truncate[10]", "year",
                                                         "month",     "day",         "hour"};
    const int32_t id = g.any(leaf_ids());
    const Field& field = *test_schema().find_field(id);
    const Transform transform = Transform::parse(g.any(kTransforms));
    if (!can_transform(transform, *field.type)) return;
    const auto rows = random_rows(g, 20);
    const TypePtr result = result_type(transform, field.type);
    // A result near those that occur, or one that cannot occur.
    Value literal = apply(transform, g.value(*field.type), *field.type);
    if (result->id() == TypeId::int_ && g.one_in(3)) literal = static_cast<int32_t>(g.below(5)) - 2;
    if (g.one_in(5) && result->id() == field.type->id()) literal = g.value(*field.type);
    const Op op = g.any<Op>({Op::lt, Op::lt_eq, Op::gt, Op::gt_eq, Op::eq, Op::not_eq_, Op::in, Op::not_in});
    const auto expression = predicate(op, transform, test_schema().full_name(id), {literal});
    SCOPED_TRACE(to_string(*expression));
    const auto bound = bind(*expression, test_schema());
    SCOPED_TRACE(to_string(*bound));
    std::vector<bool> expected;
    for (const Row& row : rows) {
      const Cell& cell = cell_of(test_schema(), row, id);
      if (cell.null) {
        expected.push_back(false);
        continue;
      }
      const auto order = compare(apply(transform, cell.value, *field.type), literal);
      expected.push_back(op == Op::lt      ? order < 0
                         : op == Op::lt_eq ? order <= 0
                         : op == Op::gt    ? order > 0
                         : op == Op::gt_eq ? order >= 0
                                           : (order == 0) == (op == Op::eq || op == Op::in));
    }
    EXPECT_EQ(evaluated(*bound, *to_batch(test_schema(), rows)), expected);
  });
}

}  // namespace
}  // namespace firn::iceberg
