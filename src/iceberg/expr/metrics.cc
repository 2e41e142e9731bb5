// What column metrics prove.
#include "iceberg/expr/prove.h"

namespace firn::iceberg {
namespace {

Proof prove_by_bounds(const Expression& e, const BoundsLookup& bounds) {
  if (!e.field_id) return prove(e, {});
  ColumnBounds known = bounds(*e.field_id);
  if (e.transform) {  // they bound the column, not its bucket
    known.lower.reset();
    known.upper.reset();
  }
  return prove(e, facts_from(known, *e.type));
}

template <class Map>
std::optional<typename Map::mapped_type> find(const Map& map, int32_t id) {
  const auto found = map.find(id);
  if (found == map.end()) return std::nullopt;
  return found->second;
}

Proof prove_by_file(const Expression& e, const DataFile& file) {
  if (!e.field_id) return prove(e, {});
  const int32_t id = *e.field_id;
  ColumnBounds known;
  // A filter's columns lie in no list or map, so each row has a value; counts of a file that says otherwise are not
  // used.
  if (file.record_count >= 0 && find(file.value_counts, id).value_or(file.record_count) == file.record_count) {
    known.value_count = file.record_count;
    known.null_count = find(file.null_value_counts, id);
    known.nan_count = find(file.nan_value_counts, id);
  }
  if (!e.transform) {
    if (const auto lower = file.lower_bounds.find(id); lower != file.lower_bounds.end())
      known.lower = from_bytes(lower->second, *e.type);
    if (const auto upper = file.upper_bounds.find(id); upper != file.upper_bounds.end())
      known.upper = from_bytes(upper->second, *e.type);
  }
  return prove(e, facts_from(known, *e.type));
}

}  // namespace

bool file_might_match(const Expression& bound, const DataFile& file) {
  if (file.record_count == 0) return false;
  return prove_all(bound, [&](const Expression& e) { return prove_by_file(e, file); }) != Proof::no_row;
}

bool file_must_match(const Expression& bound, const DataFile& file) {
  if (file.record_count == 0) return true;
  return prove_all(bound, [&](const Expression& e) { return prove_by_file(e, file); }) == Proof::every_row;
}

bool bounds_might_match(const Expression& bound, const BoundsLookup& bounds) {
  return prove_all(bound, [&](const Expression& e) { return prove_by_bounds(e, bounds); }) != Proof::no_row;
}

}  // namespace firn::iceberg
