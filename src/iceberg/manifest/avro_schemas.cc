#include "iceberg/manifest/avro_schemas.h"

#include <cmath>
#include <set>
#include <utility>

#include "base/error.h"
#include "base/json.h"

namespace firn::iceberg {

namespace {

Json required(int32_t id, const char* name, Json type) {
  return Json{{"name", name}, {"type", std::move(type)}, {"field-id", id}};
}

Json optional(int32_t id, const char* name, Json type) {
  return Json{{"name", name}, {"type", Json::array({"null", std::move(type)})}, {"default", nullptr}, {"field-id", id}};
}

Json record(std::string name, Json fields) {
  return Json{{"type", "record"}, {"name", std::move(name)}, {"fields", std::move(fields)}};
}

// Maps whose keys are no strings are arrays of pairs (Appendix A, "Maps with non-string keys").
Json map_of(int32_t key_id, int32_t value_id, const char* value_type) {
  Json pair = record(fmt::format("k{}_v{}", key_id, value_id),
                     Json::array({required(key_id, "key", "int"), required(value_id, "value", value_type)}));
  return Json{{"type", "array"}, {"items", std::move(pair)}, {"logicalType", "map"}};
}

Json list_of(int32_t element_id, Json element) {
  return Json{{"type", "array"}, {"items", std::move(element)}, {"element-id", element_id}};
}

Json logical(const char* type, const char* logical_type) { return Json{{"type", type}, {"logicalType", logical_type}}; }

Json timestamp(const char* logical_type, bool adjust_to_utc) {
  return Json{{"type", "long"}, {"logicalType", logical_type}, {"adjust-to-utc", adjust_to_utc}};
}

Json fixed(std::string name, int32_t size, int32_t field_id, std::set<std::string>& declared) {
  // Two fields of one type need two names: PyIceberg 0.11 does not follow a name to a type declared before.
  if (!declared.insert(name).second) name += fmt::format("_{}", field_id);
  return Json{{"type", "fixed"}, {"name", std::move(name)}, {"size", size}};
}

Json partition_value_type(const Type& type, int32_t field_id, std::set<std::string>& declared) {
  switch (type.id()) {
    case TypeId::boolean_:
      return "boolean";
    case TypeId::int_:
      return "int";
    case TypeId::long_:
      return "long";
    case TypeId::float_:
      return "float";
    case TypeId::double_:
      return "double";
    case TypeId::date:
      return logical("int", "date");
    case TypeId::time:
      return logical("long", "time-micros");
    case TypeId::timestamp:
      return timestamp("timestamp-micros", false);
    case TypeId::timestamptz:
      return timestamp("timestamp-micros", true);
    case TypeId::timestamp_ns:
      return timestamp("timestamp-nanos", false);
    case TypeId::timestamptz_ns:
      return timestamp("timestamp-nanos", true);
    case TypeId::string:
      return "string";
    case TypeId::binary:
      return "bytes";
    case TypeId::fixed:
      // Not Avro's fixed: Java's reader takes a length before it there, which Avro does not have, and so reads no other
      // writer's. Bytes are read alike by all.
      return "bytes";
    case TypeId::uuid: {
      Json json = fixed("uuid_fixed", 16, field_id, declared);
      json["logicalType"] = "uuid";
      return json;
    }
    case TypeId::decimal: {
      Json json = fixed(fmt::format("decimal_{}_{}", type.precision(), type.scale()),
                        decimal_size_bytes(type.precision()), field_id, declared);
      json["logicalType"] = "decimal";
      json["precision"] = type.precision();
      json["scale"] = type.scale();
      return json;
    }
    case TypeId::unknown:
      return "null";
    default:
      fail(ErrorKind::invalid_argument, "a partition field cannot be of type {}", type.to_string());
  }
}

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }

// `name` as Avro allows one: other characters become _x and their hex code, as Java does it, and a leading digit gets a
// _. Readers go by field id.
std::string avro_name(std::string_view name) {
  std::string result;
  for (const char c : name) {
    if (is_letter(c) || (is_digit(c) && !result.empty())) {
      result += c;
    } else if (is_digit(c)) {
      result += '_';
      result += c;
    } else {
      result += fmt::format("_x{:X}", static_cast<unsigned char>(c));
    }
  }
  return result;
}

Json partition_record(const Type& partition_type) {
  std::set<std::string> declared, names;
  Json fields = Json::array();
  for (const Field& field : partition_type.fields()) {
    std::string name = avro_name(field.name);
    while (!names.insert(name).second) name += '_';
    Json type = partition_value_type(*field.type, field.id, declared);
    if (type != "null") type = Json::array({"null", std::move(type)});
    Json json{{"name", name}, {"type", std::move(type)}, {"default", nullptr}, {"field-id", field.id}};
    if (name != field.name) json["iceberg-field-name"] = field.name;
    fields.push_back(std::move(json));
  }
  return record("r102", std::move(fields));
}

}  // namespace

int32_t decimal_size_bytes(int32_t precision) {
  // 10^precision - 1 and its sign: precision * log2(10) + 1 bits.
  return static_cast<int32_t>(std::ceil((precision * std::log2(10.0) + 1) / 8));
}

std::string manifest_avro_schema(const Type& partition_type, int32_t format_version) {
  Json file = Json::array({
      required(134, "content", "int"),
      required(100, "file_path", "string"),
      required(101, "file_format", "string"),
      required(102, "partition", partition_record(partition_type)),
      required(103, "record_count", "long"),
      required(104, "file_size_in_bytes", "long"),
      optional(108, "column_sizes", map_of(117, 118, "long")),
      optional(109, "value_counts", map_of(119, 120, "long")),
      optional(110, "null_value_counts", map_of(121, 122, "long")),
      optional(137, "nan_value_counts", map_of(138, 139, "long")),
      optional(125, "lower_bounds", map_of(126, 127, "bytes")),
      optional(128, "upper_bounds", map_of(129, 130, "bytes")),
      optional(131, "key_metadata", "bytes"),
      optional(132, "split_offsets", list_of(133, "long")),
      optional(135, "equality_ids", list_of(136, "int")),
      optional(140, "sort_order_id", "int"),
  });
  if (format_version >= 3) file.push_back(optional(142, "first_row_id", "long"));
  file.push_back(optional(143, "referenced_data_file", "string"));
  if (format_version >= 3) {
    file.push_back(optional(144, "content_offset", "long"));
    file.push_back(optional(145, "content_size_in_bytes", "long"));
  }
  return record("manifest_entry", Json::array({
                                      required(0, "status", "int"),
                                      optional(1, "snapshot_id", "long"),
                                      optional(3, "sequence_number", "long"),
                                      optional(4, "file_sequence_number", "long"),
                                      required(2, "data_file", record("r2", std::move(file))),
                                  }))
      .dump();
}

std::string manifest_list_avro_schema(int32_t format_version) {
  Json summary = record("r508", Json::array({
                                    required(509, "contains_null", "boolean"),
                                    optional(518, "contains_nan", "boolean"),
                                    optional(510, "lower_bound", "bytes"),
                                    optional(511, "upper_bound", "bytes"),
                                }));
  Json fields = Json::array({
      required(500, "manifest_path", "string"),
      required(501, "manifest_length", "long"),
      required(502, "partition_spec_id", "int"),
      required(517, "content", "int"),
      required(515, "sequence_number", "long"),
      required(516, "min_sequence_number", "long"),
      required(503, "added_snapshot_id", "long"),
      required(504, "added_files_count", "int"),
      required(505, "existing_files_count", "int"),
      required(506, "deleted_files_count", "int"),
      required(512, "added_rows_count", "long"),
      required(513, "existing_rows_count", "long"),
      required(514, "deleted_rows_count", "long"),
      optional(507, "partitions", list_of(508, std::move(summary))),
      optional(519, "key_metadata", "bytes"),
  });
  if (format_version >= 3) fields.push_back(optional(520, "first_row_id", "long"));
  return record("manifest_file", std::move(fields)).dump();
}

}  // namespace firn::iceberg
