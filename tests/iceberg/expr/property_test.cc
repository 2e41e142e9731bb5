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

// A number in decimal, of any size: compared digit by digit.
struct Digits {
  bool negative = false;
  std::string digits;  // without point
  int exponent = 0;    // of the last digit
};

int compare_digits(Digits a, Digits b) {
  for (auto* number : {&a, &b}) {
    number->digits += std::string(static_cast<size_t>(number->exponent - std::min(a.exponent, b.exponent)), '0');
  }
  for (auto* number : {&a, &b}) {
    number->digits.erase(0, std::min(number->digits.find_first_not_of('0'), number->digits.size()));
    if (number->digits.empty()) number->negative = false;
  }
  if (a.negative != b.negative) return a.negative ? -1 : 1;
  int order = a.digits.size() < b.digits.size()   ? -1
              : a.digits.size() > b.digits.size() ? 1
                                                  : a.digits.compare(b.digits);
  if (a.negative) order = -order;
  return (order > 0) - (order < 0);
}

std::string random_digits(Generator& g, size_t count) {
  const bool nines = g.one_in(3), zeros = g.one_in(3);
  std::string out;
  while (out.size() < count) out += nines ? '9' : zeros ? '0' : static_cast<char>('0' + g.below(10));
  if (count > 0 && g.one_in(2)) out.back() = static_cast<char>('0' + g.below(10));
  return out;
}

// The text of `number`: plain or with an exponent.
std::string text_of(Generator& g, const Digits& number) {
  std::string text = number.digits;
  int exponent = number.exponent;
  if (exponent < 0 && g.one_in(2)) {
    const auto behind = static_cast<size_t>(-exponent);
    if (text.size() <= behind) text.insert(0, behind + 1 - text.size(), '0');
    text.insert(text.size() - behind, ".");
    exponent = 0;
  } else if (text.size() > 1 && g.one_in(2)) {
    const size_t point = 1 + g.below(text.size() - 1);
    exponent += static_cast<int>(text.size() - point);
    text.insert(point, ".");
  }
  if (exponent != 0 || g.one_in(4)) text += "e" + std::to_string(exponent);
  return (number.negative ? "-" : "") + text;
}

TEST_F(FilterProperty, DecimalsAreComparedExactlyWhateverTheDigitsOfTheLiteral) {
  rounds(3000, [](Generator& g) {
    const auto precision = static_cast<int32_t>(1 + g.below(38));
    const auto scale = static_cast<int32_t>(g.below(static_cast<uint64_t>(precision) + 1));
    const TypePtr type = Type::decimal(precision, scale);
    const Schema schema({{.id = 1, .name = "d", .type = type}});
    std::vector<Row> rows;
    std::vector<Digits> numbers;
    for (int i = 0; i < 4; ++i) {
      const Digits number{g.one_in(2), random_digits(g, 1 + g.below(static_cast<uint64_t>(precision))), -scale};
      numbers.push_back(number);
      const arrow::Decimal128 unscaled((number.negative ? "-" : "") + number.digits);
      rows.push_back({Cell::of(unscaled)});
    }
    rows.push_back({Cell{}});
    // A number near one of the rows', by its digits cut or prolonged, or any.
    Digits literal{g.one_in(2), random_digits(g, 1 + g.below(60)), static_cast<int>(g.below(161)) - 80};
    if (!g.one_in(3)) {
      literal = g.any(numbers);
      if (g.one_in(4)) literal.negative = !literal.negative;
      const std::string more = random_digits(g, g.below(61 - literal.digits.size()));
      literal.digits += more;
      if (!g.one_in(5)) literal.exponent -= static_cast<int>(more.size());
      if (more.empty() && g.one_in(2)) literal.digits.back() = static_cast<char>('0' + g.below(10));
    }
    const std::string number = text_of(g, literal);
    const std::string text = g.one_in(2) ? number : "'" + number + "'";
    static const std::vector<std::string> kOps = {"<", "<=", ">", ">=", "=", "!=", "in", "not in"};
    const std::string op = g.any(kOps);
    const bool negated = g.one_in(3);
    const bool is_set = op == "in" || op == "not in";
    std::string filter = "d " + op + (is_set ? " (" + text + ", " + text + ")" : " " + text);
    if (negated) filter = "not (" + filter + ")";
    SCOPED_TRACE(filter + " of " + type->to_string());
    std::vector<bool> expected;
    for (const Digits& row : numbers) {
      const int order = compare_digits(row, literal);
      const bool is_true = op == "<"                 ? order < 0
                           : op == "<="              ? order <= 0
                           : op == ">"               ? order > 0
                           : op == ">="              ? order >= 0
                           : op == "=" || op == "in" ? order == 0
                                                     : order != 0;
      expected.push_back(is_true != negated);
    }
    expected.push_back(false);  // null
    EXPECT_EQ(evaluated(*bind(*parse_expression(filter), schema), *to_batch(schema, rows)), expected);
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
