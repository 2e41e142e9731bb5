// Schemas of cache tables with and without the hidden columns, and of datasets over several tables.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "iceberg/schema.h"

namespace firn::hyp {

// The columns that leave the cache; ids kept.
iceberg::Schema without_hidden(const iceberg::Schema& table_schema);
// `visible` with the three hidden columns at its end, under ids above its own.
iceberg::Schema with_hidden(const iceberg::Schema& visible);
// The ids of hidden columns in a table's schema. Throws corrupt naming `where` if one is missing or of another type.
struct HiddenIds {
  int32_t ingest_seq = 0, row_id = 0, batch_id = 0;
};
HiddenIds hidden_ids(const iceberg::Schema& table_schema, std::string_view where);

// Columns of either, by name, `a`'s first, at any depth; of two types the one that the other may be promoted to. Where
// neither may, `a`'s stands (or `b`'s, if so asked) and the log says so under `where`. All optional but those that both
// require. Ids are fresh.
enum class Stands : uint8_t { first, second };
iceberg::Schema merge_schemas(const iceberg::Schema& a, const iceberg::Schema& b, std::string_view where,
                              Stands stands = Stands::first);

// The first column, at any depth, that has a type in one schema and one in another of which neither may be promoted to
// the other. nullopt: there is none.
struct TypeConflict {
  std::string column;  // dotted
  iceberg::TypePtr a, b;
};
std::optional<TypeConflict> find_conflict(const iceberg::Schema& a, const iceberg::Schema& b);

// `schema` with columns required where `declared` says so, through structs: rows that lack them are rejects.
iceberg::Schema with_required(const iceberg::Schema& schema, const iceberg::Schema& declared);

// `declared` without the columns, at any depth, that `cached` has under a name which differs in case alone: both would
// be one column to SQL (P4.3), and the cached one stands.
iceberg::Schema without_other_case(const iceberg::Schema& declared, const iceberg::Schema& cached);

// A column of `declared` that a table with the columns `table` can never have so: under a name that differs from one of
// its own in case alone, of a type that its own cannot be promoted to, or required where rows may lack it. nullopt:
// there is none.
struct RefusedColumn {
  std::string column;  // dotted
  iceberg::TypePtr declared;
  iceberg::TypePtr cached;   // nullptr: the table lacks it, and it is declared as required or `spelled` otherwise
  bool is_required = false;  // the types agree, and the table's is optional
  std::string spelled;       // dotted, as the table has it in other case; empty: it does not
};
std::optional<RefusedColumn> find_refused(const iceberg::Schema& declared, const iceberg::Schema& table);

}  // namespace firn::hyp
