#include "iceberg/type.h"

#include <array>
#include <charconv>

#include <fmt/format.h>

#include "base/error.h"

namespace firn::iceberg {
namespace {

constexpr const char* kDefaultCrs = "OGC:CRS84";
constexpr const char* kDefaultAlgorithm = "spherical";

struct PrimitiveName {
  TypeId id;
  std::string_view name;
};
constexpr PrimitiveName kPrimitives[] = {
    {TypeId::boolean_, "boolean"},
    {TypeId::int_, "int"},
    {TypeId::long_, "long"},
    {TypeId::float_, "float"},
    {TypeId::double_, "double"},
    {TypeId::date, "date"},
    {TypeId::time, "time"},
    {TypeId::timestamp, "timestamp"},
    {TypeId::timestamptz, "timestamptz"},
    {TypeId::timestamp_ns, "timestamp_ns"},
    {TypeId::timestamptz_ns, "timestamptz_ns"},
    {TypeId::string, "string"},
    {TypeId::uuid, "uuid"},
    {TypeId::binary, "binary"},
    {TypeId::unknown, "unknown"},
    {TypeId::variant, "variant"},
};

std::string_view trim(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

// The text between `open` and `close` of "name<open>…<close>", white space around it dropped; nullopt if `text` is not
// so.
std::optional<std::string_view> parameters(std::string_view text, std::string_view name, char open, char close) {
  if (!text.starts_with(name)) return std::nullopt;
  text = trim(text.substr(name.size()));
  if (text.size() < 2 || text.front() != open || text.back() != close) return std::nullopt;
  return trim(text.substr(1, text.size() - 2));
}

std::optional<int32_t> number(std::string_view text) {
  text = trim(text);
  int32_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::string field_to_string(const Field& field) {
  return fmt::format("{}: {}: {} {}", field.id, field.name, field.required ? "required" : "optional",
                     field.type->to_string());
}

bool same_field(const Field& a, const Field& b) {
  return a.id == b.id && a.name == b.name && a.required == b.required && a.doc == b.doc &&
         a.initial_default == b.initial_default && a.write_default == b.write_default && same_type(*a.type, *b.type);
}

}  // namespace

TypePtr Type::primitive(TypeId id) {
  // One shared object for each: schemas are full of them.
  static const std::array<TypePtr, static_cast<size_t>(TypeId::map) + 1> kShared = [] {
    std::array<TypePtr, static_cast<size_t>(TypeId::map) + 1> types;
    for (const PrimitiveName& primitive : kPrimitives) {
      auto type = std::make_shared<Type>();
      type->id_ = primitive.id;
      types[static_cast<size_t>(primitive.id)] = std::move(type);
    }
    return types;
  }();
  const TypePtr& type = kShared.at(static_cast<size_t>(id));
  if (!type) fail(ErrorKind::internal, "Type::primitive: type id {} has parameters", static_cast<int>(id));
  return type;
}

TypePtr Type::decimal(int32_t precision, int32_t scale) {
  if (precision < 1 || precision > 38 || scale < 0 || scale > precision)
    fail(ErrorKind::invalid_argument, "decimal({},{}): the precision must be 1 to 38 and the scale 0 to the precision",
         precision, scale);
  auto type = std::make_shared<Type>();
  type->id_ = TypeId::decimal;
  type->precision_ = precision;
  type->scale_ = scale;
  return type;
}

TypePtr Type::fixed(int32_t length) {
  if (length < 0) fail(ErrorKind::invalid_argument, "fixed[{}]: the length must not be negative", length);
  auto type = std::make_shared<Type>();
  type->id_ = TypeId::fixed;
  type->precision_ = length;
  return type;
}

TypePtr Type::geometry(std::string crs) {
  auto type = std::make_shared<Type>();
  type->id_ = TypeId::geometry;
  type->crs_ = crs.empty() ? kDefaultCrs : std::move(crs);
  return type;
}

TypePtr Type::geography(std::string crs, std::string algorithm) {
  auto type = std::make_shared<Type>();
  type->id_ = TypeId::geography;
  type->crs_ = crs.empty() ? kDefaultCrs : std::move(crs);
  type->algorithm_ = algorithm.empty() ? kDefaultAlgorithm : std::move(algorithm);
  return type;
}

TypePtr Type::struct_of(std::vector<Field> fields) {
  auto type = std::make_shared<Type>();
  type->id_ = TypeId::struct_;
  type->fields_ = std::move(fields);
  return type;
}

TypePtr Type::list_of(int32_t element_id, bool element_required, TypePtr element) {
  auto type = std::make_shared<Type>();
  type->id_ = TypeId::list;
  type->fields_ = {{.id = element_id, .name = "element", .required = element_required, .type = std::move(element)}};
  return type;
}

TypePtr Type::map_of(int32_t key_id, TypePtr key, int32_t value_id, bool value_required, TypePtr value) {
  auto type = std::make_shared<Type>();
  type->id_ = TypeId::map;
  type->fields_ = {{.id = key_id, .name = "key", .required = true, .type = std::move(key)},
                   {.id = value_id, .name = "value", .required = value_required, .type = std::move(value)}};
  return type;
}

std::string Type::to_string() const {
  for (const PrimitiveName& primitive : kPrimitives)
    if (primitive.id == id_) return std::string(primitive.name);
  switch (id_) {
    case TypeId::decimal:
      return fmt::format("decimal({},{})", precision_, scale_);
    case TypeId::fixed:
      return fmt::format("fixed[{}]", precision_);
    case TypeId::geometry:
      return crs_ == kDefaultCrs ? "geometry" : fmt::format("geometry({})", crs_);
    case TypeId::geography:
      if (algorithm_ != kDefaultAlgorithm) return fmt::format("geography({}, {})", crs_, algorithm_);
      return crs_ == kDefaultCrs ? "geography" : fmt::format("geography({})", crs_);
    case TypeId::list:
      return fmt::format("list<{}>", element().type->to_string());
    case TypeId::map:
      return fmt::format("map<{}, {}>", key().type->to_string(), value().type->to_string());
    default:
      break;
  }
  std::string text = "struct<";
  for (const Field& field : fields_) {
    if (text.size() > 7) text += ", ";
    text += field_to_string(field);
  }
  return text + ">";
}

bool needs_v3(TypeId id) {
  switch (id) {
    case TypeId::timestamp_ns:
    case TypeId::timestamptz_ns:
    case TypeId::unknown:
    case TypeId::variant:
    case TypeId::geometry:
    case TypeId::geography:
      return true;
    default:
      return false;
  }
}

TypePtr parse_primitive_type(std::string_view text) {
  text = trim(text);
  for (const PrimitiveName& primitive : kPrimitives)
    if (primitive.name == text) return Type::primitive(primitive.id);
  if (auto inner = parameters(text, "decimal", '(', ')')) {
    const size_t comma = inner->find(',');
    if (comma == std::string_view::npos) return nullptr;
    const auto precision = number(inner->substr(0, comma)), scale = number(inner->substr(comma + 1));
    return precision && scale ? Type::decimal(*precision, *scale) : nullptr;
  }
  if (auto inner = parameters(text, "fixed", '[', ']')) {
    const auto length = number(*inner);
    return length ? Type::fixed(*length) : nullptr;
  }
  if (text == "geometry") return Type::geometry("");
  if (auto inner = parameters(text, "geometry", '(', ')')) return Type::geometry(std::string(*inner));
  if (text == "geography") return Type::geography("", "");
  if (auto inner = parameters(text, "geography", '(', ')')) {
    const size_t comma = inner->rfind(',');
    if (comma == std::string_view::npos) return Type::geography(std::string(*inner), "");
    return Type::geography(std::string(trim(inner->substr(0, comma))), std::string(trim(inner->substr(comma + 1))));
  }
  return nullptr;
}

bool same_type(const Type& a, const Type& b) {
  if (a.id() != b.id() || a.precision() != b.precision() || a.scale() != b.scale() || a.crs() != b.crs() ||
      a.algorithm() != b.algorithm() || a.fields().size() != b.fields().size())
    return false;
  for (size_t i = 0; i < a.fields().size(); ++i)
    if (!same_field(a.fields()[i], b.fields()[i])) return false;
  return true;
}

bool can_promote(const Type& from, const Type& to, int32_t format_version) {
  if (from.id() == to.id()) {
    if (from.id() == TypeId::decimal) return from.scale() == to.scale() && from.precision() <= to.precision();
    return same_type(from, to);
  }
  switch (from.id()) {
    case TypeId::unknown:
      return format_version >= 3;
    case TypeId::int_:
      return to.id() == TypeId::long_;
    case TypeId::float_:
      return to.id() == TypeId::double_;
    case TypeId::date:
      return format_version >= 3 && (to.id() == TypeId::timestamp || to.id() == TypeId::timestamp_ns);
    default:
      return false;
  }
}

}  // namespace firn::iceberg
