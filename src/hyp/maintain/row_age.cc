#include "hyp/maintain/row_age.h"

#include <algorithm>
#include <limits>

#include <fmt/format.h>

#include "base/civil_time.h"
#include "hyp/cache/cache.h"
#include "hyp/cache/partition_flush.h"

namespace firn::hyp {
namespace {

using iceberg::ExpressionPtr;
using iceberg::Op;
using iceberg::predicate;
using iceberg::TypeId;

constexpr int64_t kMsPerDay = 86'400'000;
constexpr int64_t kUuidTimeMax = (int64_t{1} << 48) - 1;

bool is_time(const iceberg::Type& type) {
  return type.id() == TypeId::date || (type.id() >= TypeId::timestamp && type.id() <= TypeId::timestamptz_ns);
}

// `time_ms` in the column's unit: values below it are older. For dates the first day that has not ended before it.
__int128 in_units_of(const iceberg::Type& type, int64_t time_ms) {
  if (type.id() == TypeId::date) return floor_div(time_ms, kMsPerDay);
  return static_cast<__int128>(time_ms) * (iceberg::is_nanos(type) ? 1'000'000 : 1'000);
}

// `column op time`, op being lt or gt_eq.
ExpressionPtr compare_time(Op op, const iceberg::Field& column, int64_t time_ms) {
  const __int128 value = in_units_of(*column.type, time_ms);
  // Nanoseconds reach from 1677 to 2262: such a time is below or above all values.
  if (value < std::numeric_limits<int64_t>::min() || value > std::numeric_limits<int64_t>::max()) {
    const bool is_all = (value < 0) == (op == Op::gt_eq);
    return is_all ? predicate(Op::not_null, column.name) : iceberg::always_false();
  }
  return predicate(op, column.name, {static_cast<int64_t>(value)});
}

// The least text of a UUIDv7 made at `time_ms` or later: its first 48 bits are the time. nullopt: none is made earlier.
std::optional<std::string> batch_id_bound(int64_t time_ms) {
  if (time_ms <= 0) return std::nullopt;
  const std::string digits = fmt::format("{:012x}", std::min(time_ms, kUuidTimeMax));
  return digits.substr(0, 8) + "-" + digits.substr(8);
}

ExpressionPtr ingested_before(int64_t time_ms) {
  const auto bound = batch_id_bound(time_ms);
  return bound ? predicate(Op::lt, kBatchIdColumn, {*bound}) : iceberg::always_false();
}

ExpressionPtr not_ingested_before(int64_t time_ms) {
  const auto bound = batch_id_bound(time_ms);
  if (!bound) return iceberg::always_true();
  return iceberg::or_(predicate(Op::gt_eq, kBatchIdColumn, {*bound}), predicate(Op::is_null, kBatchIdColumn));
}

}  // namespace

std::string RowAge::text() const {
  return timestamp ? fmt::format("{} {}", timestamp->type->to_string(), timestamp->name) : "ingest";
}

RowAge row_age(const iceberg::Schema& schema, const DatasetConfig& config) {
  RowAge age;
  const std::string name = timestamp_column(config);
  if (name.empty()) return age;
  const iceberg::Field* field = schema.find_field(std::string_view(name));
  if (field == nullptr) return age;  // it has not come yet
  if (!is_time(*field->type) || schema.is_nested_below_list_or_map(field->id)) {
    age.note = fmt::format("column {} is {}, no time: its rows age by when they were ingested", name,
                           field->type->to_string());
    return age;
  }
  age.timestamp = *field;
  age.timestamp->name = name;
  return age;
}

ExpressionPtr older_than(const RowAge& age, int64_t time_ms) {
  if (!age.timestamp) return ingested_before(time_ms);
  return iceberg::or_(compare_time(Op::lt, *age.timestamp, time_ms),
                      iceberg::and_(predicate(Op::is_null, age.timestamp->name), ingested_before(time_ms)));
}

ExpressionPtr not_older_than(const RowAge& age, int64_t time_ms) {
  if (!age.timestamp) return not_ingested_before(time_ms);
  return iceberg::or_(compare_time(Op::gt_eq, *age.timestamp, time_ms),
                      iceberg::and_(predicate(Op::is_null, age.timestamp->name), not_ingested_before(time_ms)));
}

// UUIDs are in hexadecimal: what begins otherwise is another system's batch id, and no time.
ExpressionPtr past_grace(const RowAge& age, int64_t age_ms, int64_t arrival_ms) {
  const ExpressionPtr unknown =
      iceberg::or_(predicate(Op::is_null, kBatchIdColumn), predicate(Op::gt_eq, kBatchIdColumn, {std::string("g")}));
  return iceberg::and_(older_than(age, age_ms), iceberg::or_(unknown, ingested_before(arrival_ms)));
}

ExpressionPtr within_grace(const RowAge& age, int64_t age_ms, int64_t arrival_ms) {
  const auto bound = batch_id_bound(arrival_ms);
  const ExpressionPtr is_time = predicate(Op::lt, kBatchIdColumn, {std::string("g")});
  const ExpressionPtr arrived =
      bound ? iceberg::and_(predicate(Op::gt_eq, kBatchIdColumn, {*bound}), is_time) : is_time;
  return iceberg::or_(not_older_than(age, age_ms), arrived);
}

}  // namespace firn::hyp
