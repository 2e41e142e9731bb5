// Expressions, as text and as JSON: what parses is printed and parses again to the same text, and can be bound.
#include "iceberg/expr/expression.h"

#include "base/json.h"
#include "fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace firn::iceberg;
  static const Schema kSchema({Field{.id = 1, .name = "i", .type = Type::primitive(TypeId::int_)},
                               Field{.id = 2, .name = "s", .type = Type::primitive(TypeId::string)},
                               Field{.id = 3, .name = "ts", .type = Type::primitive(TypeId::timestamptz)},
                               Field{.id = 4, .name = "d", .type = Type::primitive(TypeId::double_)},
                               Field{.id = 5, .name = "n", .type = Type::decimal(9, 2)},
                               Field{.id = 6, .name = "u", .type = Type::primitive(TypeId::uuid)},
                               Field{.id = 7, .name = "b", .type = Type::primitive(TypeId::binary)}});
  return firn::fuzz::read_hostile(data, size, [](std::string_view bytes) {
    const bool is_json = bytes.starts_with('{');
    const ExpressionPtr parsed =
        is_json ? expression_from_json(firn::parse_json(bytes, "fuzz"), "fuzz") : parse_expression(bytes);
    const std::string text = to_string(*parsed);
    if (!is_json && to_string(*parse_expression(text)) != text) __builtin_trap();
    bind(*parsed, kSchema);
  });
}
