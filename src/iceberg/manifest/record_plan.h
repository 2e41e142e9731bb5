// How a record of an Avro file is read: one step a field of the writer, by field id, straight into our structs.
// Internal to manifest/.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "iceberg/avro/cursor.h"

namespace firn::iceberg {

enum class Shape : uint8_t { boolean, integer, bytes, integer_list, integer_map, bytes_map, record, record_list };

// A field that a reader knows. Writers that leave field ids out are resolved by the names.
template <class Slot>
struct FieldRule {
  int32_t id = 0;
  std::string_view name;
  Slot slot;
  Shape shape;
  std::string_view old_name = {};
};

template <class Slot>
struct Step {
  bool wanted = false;
  Slot slot{};                       // if wanted
  const avro::Node* node = nullptr;  // as the writer has it: what a skip reads over
  avro::Nullable value;              // if wanted: has a value node, or is null always
  avro::Nullable map_value;          // of maps: each pair's value
};

// Whether `value` can be read as `shape`. Nullable's node is never null here.
bool fits(const avro::Node& value, Shape shape);
[[noreturn]] void fail_shape(std::string_view name, std::string_view where);

// The steps for a record of the writer. Throws corrupt naming `where` if a known field has a type it cannot have.
template <class Slot>
std::vector<Step<Slot>> plan_record(const avro::Node& record, std::span<const FieldRule<Slot>> rules,
                                    std::string_view where) {
  if (record.kind != avro::Kind::record) fail_shape("the record", where);
  std::vector<Step<Slot>> steps;
  for (const avro::RecordField& field : record.fields) {
    Step<Slot> step;
    step.node = field.type;
    for (const FieldRule<Slot>& rule : rules) {
      const bool is_it =
          field.field_id ? *field.field_id == rule.id : field.name == rule.name || field.name == rule.old_name;
      if (!is_it) continue;
      step.wanted = true;
      step.slot = rule.slot;
      step.value = avro::as_nullable(*field.type, where);
      if (step.value.value == nullptr) break;
      if (!fits(*step.value.value, rule.shape)) fail_shape(field.name, where);
      if (rule.shape == Shape::integer_map || rule.shape == Shape::bytes_map)
        step.map_value = avro::as_nullable(*step.value.value->items->fields[1].type, where);
      break;
    }
    steps.push_back(step);
  }
  return steps;
}

// Readers of the shapes; each follows a successful Cursor::enter.
int64_t read_count(avro::Cursor& cursor);  // a long that is not negative
inline std::string_view read_bytes(avro::Cursor& cursor, const avro::Node& node) {
  return node.kind == avro::Kind::fixed ? cursor.read_fixed(node.size) : cursor.read_bytes();
}

}  // namespace firn::iceberg
