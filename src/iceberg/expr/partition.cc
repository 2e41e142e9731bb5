// What partition values prove: by facts about the source columns that follow from them.
#include <limits>

#include "iceberg/bounds.h"
#include "iceberg/expr/literal.h"
#include "iceberg/expr/prove.h"
#include "iceberg/expr/transform_term.h"

namespace firn::iceberg {
namespace {

using arrow::Decimal128;

// A partition value as a value of `type`; it may come from before a promotion. nullopt: it is of another alternative.
std::optional<Value> as_type(const Value& value, const Type& type) {
  TypeId from = type.id();
  if (std::holds_alternative<int32_t>(value))
    from = type.id() == TypeId::long_                                            ? TypeId::int_
           : type.id() == TypeId::timestamp || type.id() == TypeId::timestamp_ns ? TypeId::date
                                                                                 : type.id();
  if (std::holds_alternative<float>(value)) from = TypeId::float_;
  if (from != type.id()) return promote(value, *Type::primitive(from), type);
  const bool fits = [&] {
    switch (type.id()) {
      case TypeId::boolean_:
        return std::holds_alternative<bool>(value);
      case TypeId::int_:
      case TypeId::date:
        return std::holds_alternative<int32_t>(value);
      case TypeId::float_:
        return std::holds_alternative<float>(value);
      case TypeId::double_:
        return std::holds_alternative<double>(value);
      case TypeId::decimal:
        return std::holds_alternative<Decimal128>(value);
      case TypeId::string:
      case TypeId::uuid:
      case TypeId::fixed:
      case TypeId::binary:
        return std::holds_alternative<std::string>(value);
      default:
        return std::holds_alternative<int64_t>(value);
    }
  }();
  return fits ? std::optional(value) : std::nullopt;
}

void set_time_range(const Transform& transform, int64_t low, int64_t high, const Type& source, ColumnFacts& facts) {
  // Old Java writers cut toward zero before 1970 (cases.md 4): there a value may belong to the unit before. Days of
  // dates were always right.
  const bool exact = source.id() == TypeId::date && transform.kind == TransformKind::day;
  if (low <= 0 && !exact) --low;
  const PlacedLiteral first = place_integer(time_unit_start(transform.kind, low, source), source);
  const PlacedLiteral end = place_integer(time_unit_start(transform.kind, high + 1, source), source);
  // hour() saturates at the ends of int32.
  if (first.place == Place::exact && low > std::numeric_limits<int32_t>::min()) facts.lower = first.value;
  if (end.place == Place::exact && high < std::numeric_limits<int32_t>::max()) {
    facts.upper = end.value;
    facts.upper_exclusive = true;
  }
}

template <class T>
void set_truncated_range(T low, T high, int32_t width, ColumnFacts& facts) {
  // A value that is no multiple wrapped around at the type's least values: it says nothing.
  if (low % width != 0 || high % width != 0) return;
  facts.lower = low;
  T last = 0;
  if (!__builtin_add_overflow(high, static_cast<T>(width - 1), &last)) facts.upper = last;
}

void set_prefix_range(const std::string& low, const std::string& high, const Type& source, int32_t width,
                      ColumnFacts& facts) {
  const bool text = source.id() == TypeId::string;
  if (text && (!is_utf8(low) || !is_utf8(high))) return;
  facts.lower = low;
  if (high.size() < static_cast<size_t>(width)) {
    facts.upper = high;  // not cut, whichever unit the writer cuts by
  } else if (auto next = next_bytes(high)) {
    facts.upper = std::move(*next);
    facts.upper_exclusive = true;
  }
}

void set_truncate_range(const Transform& transform, const Value& low, const Value& high, const Type& source,
                        ColumnFacts& facts) {
  const int32_t width = transform.parameter;
  const auto first = as_type(low, source), last = as_type(high, source);
  if (!first || !last) return;
  switch (source.id()) {
    case TypeId::int_:
      return set_truncated_range(std::get<int32_t>(*first), std::get<int32_t>(*last), width, facts);
    case TypeId::long_:
      return set_truncated_range(std::get<int64_t>(*first), std::get<int64_t>(*last), width, facts);
    case TypeId::decimal:
      facts.lower = *first;
      facts.upper = std::get<Decimal128>(*last) + Decimal128(width - 1);
      return;
    default:
      set_prefix_range(std::get<std::string>(*first), std::get<std::string>(*last), source, width, facts);
  }
}

// What partition values of a field from `low` to `high` (neither null nor NaN) say of the source column's values.
void set_range(const Transform& transform, const Value& low, const Value& high, const Type& source,
               ColumnFacts& facts) {
  switch (transform.kind) {
    case TransformKind::identity:
      facts.lower = as_type(low, source);
      facts.upper = as_type(high, source);
      return;
    case TransformKind::truncate:
      return set_truncate_range(transform, low, high, source, facts);
    case TransformKind::year:
    case TransformKind::month:
    case TransformKind::day:
    case TransformKind::hour:
    case TransformKind::bucket: {
      const auto *first = std::get_if<int32_t>(&low), *last = std::get_if<int32_t>(&high);
      if (!first || !last) return;
      if (transform.kind == TransformKind::bucket)
        facts.buckets = {transform, *first, *last};
      else
        set_time_range(transform, *first, *last, source, facts);
      return;
    }
    case TransformKind::void_:
    case TransformKind::unknown:
      return;
  }
}

bool says_nothing(const PartitionField& field) {
  return field.transform.kind == TransformKind::void_ || field.transform.kind == TransformKind::unknown ||
         field.source_ids.size() != 1;
}

bool is_term_of(const Expression& e, const PartitionField& field) {
  return e.transform && *e.transform == field.transform;
}

// A null in the tuple is a null of the column, but where the column's default may stand in for it (cases.md 16).
bool null_may_be_default(const PartitionField& field, const Schema& schema) {
  const Field* source = schema.find_field(field.source_id());
  return !source || (source->initial_default && !is_null(*source->initial_default));
}

ColumnFacts partition_facts(const Expression& e, const PartitionField& field, const Schema& schema,
                            const Value& value) {
  ColumnFacts facts;
  if (says_nothing(field)) return facts;
  if (is_null(value)) {
    if (!null_may_be_default(field, schema)) facts.nulls = Share::all;
    return facts;
  }
  facts.nulls = Share::none;
  if (is_nan(value)) {
    facts.nans = Share::all;
    return facts;
  }
  facts.nans = Share::none;
  if (is_term_of(e, field))
    facts.lower = facts.upper = value;
  else if (!e.transform)
    set_range(field.transform, value, value, *e.type, facts);
  return facts;
}

Proof prove_by_partition(const Expression& e, const PartitionSpec& spec, const Schema& schema,
                         const std::vector<Value>& partition) {
  if (!e.field_id) return prove(e, {});
  for (size_t i = 0; i < spec.fields.size() && i < partition.size(); ++i) {
    if (spec.fields[i].source_id() != *e.field_id) continue;
    const Proof proof = prove(e, partition_facts(e, spec.fields[i], schema, partition[i]));
    if (proof != Proof::open) return proof;
  }
  return Proof::open;
}

ColumnFacts manifest_facts(const Expression& e, const PartitionField& field, const Type& field_type,
                           const FieldSummary& summary) {
  ColumnFacts facts;
  if (says_nothing(field)) return facts;
  if (!summary.contains_null) facts.nulls = Share::none;
  if (summary.contains_nan == false) facts.nans = Share::none;
  if (!summary.lower_bound || !summary.upper_bound) return facts;
  const auto low = from_bytes(*summary.lower_bound, field_type), high = from_bytes(*summary.upper_bound, field_type);
  if (!low || !high || low->index() != high->index() || is_nan(*low) || is_nan(*high) || compare(*low, *high) > 0)
    return facts;
  if (is_term_of(e, field)) {
    facts.lower = low;
    facts.upper = high;
  } else if (!e.transform) {
    set_range(field.transform, *low, *high, *e.type, facts);
  }
  return facts;
}

ExpressionPtr reduce(const ExpressionPtr& bound, const PartitionSpec& spec, const Schema& schema,
                     const std::vector<Value>& partition) {
  if (bound->op == Op::and_ || bound->op == Op::or_) {
    auto left = reduce(bound->children[0], spec, schema, partition);
    auto right = reduce(bound->children[1], spec, schema, partition);
    if (left == bound->children[0] && right == bound->children[1]) return bound;
    return bound->op == Op::and_ ? and_(std::move(left), std::move(right)) : or_(std::move(left), std::move(right));
  }
  switch (prove_by_partition(*bound, spec, schema, partition)) {
    case Proof::every_row:
      return always_true();
    case Proof::no_row:
      return always_false();
    case Proof::open:
      break;
  }
  return bound;
}

}  // namespace

bool partition_might_match(const Expression& bound, const PartitionSpec& spec, const Schema& schema,
                           const std::vector<Value>& partition) {
  return prove_all(bound, [&](const Expression& e) { return prove_by_partition(e, spec, schema, partition); }) !=
         Proof::no_row;
}

bool manifest_might_match(const Expression& bound, const PartitionSpec& spec, const Schema& schema,
                          const ManifestFile& manifest) {
  const auto leaf = [&](const Expression& e) {
    if (!e.field_id) return prove(e, {});
    if (!manifest.partitions) return Proof::open;
    for (size_t i = 0; i < spec.fields.size() && i < manifest.partitions->size(); ++i) {
      const PartitionField& field = spec.fields[i];
      if (field.source_id() != *e.field_id) continue;
      const Field* source = schema.find_field(field.source_id());
      if (!source || !can_transform(field.transform, *source->type)) continue;
      const TypePtr field_type = result_type(field.transform, source->type);
      const Proof proof = prove(e, manifest_facts(e, field, *field_type, (*manifest.partitions)[i]));
      if (proof != Proof::open) return proof;
    }
    return Proof::open;
  };
  return prove_all(bound, leaf) != Proof::no_row;
}

ExpressionPtr residual(const ExpressionPtr& bound, const PartitionSpec& spec, const Schema& schema,
                       const std::vector<Value>& partition) {
  return reduce(bound, spec, schema, partition);
}

}  // namespace firn::iceberg
