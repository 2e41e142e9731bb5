// Partition values in Avro (Iceberg spec, Appendix A). Internal to manifest/.
#pragma once

#include <string>

#include "iceberg/avro/cursor.h"
#include "iceberg/type.h"
#include "iceberg/value.h"

namespace firn::iceberg {

// How a writer encoded Avro's fixed without a logical type in partitions: as Avro says, or with its length before it,
// as Java does since 1.8 (its InternalWriter). Nothing in a file says which.
enum class FixedEncoding : uint8_t { plain, with_length };
bool is_ambiguous(const avro::Node& node);  // it is such a fixed

// A value of `node` as one of `target`, which may have been promoted since it was written. Where `target` is unknown
// (the source column is gone), the value as Avro has it. Throws corrupt if it is no such value.
Value read_partition_value(avro::Cursor& cursor, const avro::Node& node, const Type& target, FixedEncoding encoding);

// Appends a non-null `value` of `type`. Throws invalid_argument, with `name` of its field, if it is not of the type.
void put_partition_value(std::string& out, const Value& value, const Type& type, const std::string& name);

// The type to write `value` as where its column is gone and its type with it.
TypePtr natural_type(const Value& value);

}  // namespace firn::iceberg
