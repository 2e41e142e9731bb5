#include "iceberg/avro/writer_schema.h"

#include <algorithm>
#include <list>
#include <map>
#include <mutex>

#include "base/error.h"
#include "base/json.h"

namespace firn::iceberg::avro {

namespace {

constexpr int kSchemaDepthMax = 64;

const std::map<std::string, Kind, std::less<>> kPrimitives = {
    {"null", Kind::null},    {"boolean", Kind::boolean}, {"int", Kind::int_},    {"long", Kind::long_},
    {"float", Kind::float_}, {"double", Kind::double_},  {"bytes", Kind::bytes}, {"string", Kind::string},
};

// The schemas that were parsed last.
class KnownSchemas {
 public:
  std::optional<WriterSchema> find(std::string_view json) {
    const std::lock_guard lock(mutex_);
    const auto found = std::find_if(known_.begin(), known_.end(), [&](const Known& one) { return one.json == json; });
    if (found == known_.end()) return std::nullopt;
    known_.splice(known_.begin(), known_, found);
    return found->schema;
  }
  void add(std::string_view json, const WriterSchema& schema) {
    if (json.size() > kBytesMax) return;
    const std::lock_guard lock(mutex_);
    known_.push_front({std::string(json), schema});
    if (known_.size() > kCountMax) known_.pop_back();
  }

 private:
  static constexpr size_t kCountMax = 32, kBytesMax = 64 << 10;
  struct Known {
    std::string json;
    WriterSchema schema;
  };
  std::mutex mutex_;
  std::list<Known> known_;  // the one used last in front
};

KnownSchemas& known_schemas() {
  static KnownSchemas* known = new KnownSchemas;  // never destroyed: used by threads while the process exits
  return *known;
}

}  // namespace

// Turns the JSON into nodes, resolving names as it goes.
class SchemaParser {
 public:
  explicit SchemaParser(std::string_view where) : where_(where) {}

  WriterSchema parse(const Json& json) {
    graph_.root = parse(json, "", 0);
    WriterSchema schema;
    schema.graph_ = std::make_shared<const WriterSchema::Graph>(std::move(graph_));
    return schema;
  }

 private:
  const Node* parse(const Json& json, const std::string& name_space, int depth) {
    if (depth > kSchemaDepthMax)
      fail(ErrorKind::corrupt, "{}: the Avro schema nests deeper than {}", where_, kSchemaDepthMax);
    if (json.is_string()) return named(json.get<std::string>(), name_space);
    if (json.is_array()) return union_of(json, name_space, depth);
    if (!json.is_object()) fail(ErrorKind::corrupt, "{}: a type in the Avro schema is neither name nor object", where_);
    const Json* type = find_member(json, "type");
    if (type == nullptr) fail(ErrorKind::corrupt, "{}: a type in the Avro schema has no \"type\"", where_);
    // {"type": {"type": …}} is how some writers attach attributes; the inner type is the one.
    if (!type->is_string()) return parse(*type, name_space, depth + 1);
    return complex(json, type->get<std::string>(), name_space, depth);
  }

  Node* make(Kind kind) {
    graph_.nodes.push_back(std::make_unique<Node>());
    graph_.nodes.back()->kind = kind;
    return graph_.nodes.back().get();
  }

  Node* make_primitive(Kind kind) {
    Node* node = make(kind);
    node->is_empty = kind == Kind::null;
    node->varint_count = kind == Kind::int_ || kind == Kind::long_ ? 1 : 0;
    return node;
  }

  const Node* named(const std::string& name, const std::string& name_space) {
    if (auto primitive = kPrimitives.find(name); primitive != kPrimitives.end())
      return make_primitive(primitive->second);
    auto found = names_.find(full_name(name, name_space));
    if (found == names_.end()) found = names_.find(name);
    if (found == names_.end()) fail(ErrorKind::corrupt, "{}: the Avro schema names an unknown type '{}'", where_, name);
    return found->second;
  }

  const Node* union_of(const Json& json, const std::string& name_space, int depth) {
    Node* node = make(Kind::union_);
    for (const Json& branch : json) node->branches.push_back(parse(branch, name_space, depth + 1));
    if (node->branches.empty()) fail(ErrorKind::corrupt, "{}: the Avro schema has an empty union", where_);
    return node;
  }

  const Node* complex(const Json& json, const std::string& type, const std::string& name_space, int depth) {
    if (type == "record" || type == "error") return record(json, name_space, depth);
    if (type == "enum") return enumeration(json, name_space);
    if (type == "fixed") return fixed(json, name_space);
    if (type == "array") {
      Node* node = make(Kind::array);
      node->items = parse(member(json, "items"), name_space, depth + 1);
      node->element_id = find_int32(json, "element-id", where_);
      set_logical_type(*node, json);
      return node;
    }
    if (type == "map") {
      Node* node = make(Kind::map);
      node->items = parse(member(json, "values"), name_space, depth + 1);
      node->key_id = find_int32(json, "key-id", where_);
      node->value_id = find_int32(json, "value-id", where_);
      return node;
    }
    auto primitive = kPrimitives.find(type);
    if (primitive == kPrimitives.end()) return named(type, name_space);
    Node* node = make_primitive(primitive->second);
    set_logical_type(*node, json);
    return node;
  }

  const Node* record(const Json& json, const std::string& outer_space, int depth) {
    Node* node = make(Kind::record);
    const std::string name_space = declare(node, json, outer_space);
    for (const Json& field : get_array(json, "fields", where_)) {
      if (!field.is_object()) fail(ErrorKind::corrupt, "{}: a field in the Avro schema is no object", where_);
      RecordField parsed;
      parsed.name = get_string(field, "name", where_);
      parsed.field_id = find_int32(field, "field-id", where_);
      parsed.type = parse(member(field, "type"), name_space, depth + 1);
      node->fields.push_back(std::move(parsed));
    }
    // A record still being declared counts as not empty, so one that holds only itself is caught by the depth limit.
    node->is_empty = std::all_of(node->fields.begin(), node->fields.end(),
                                 [](const RecordField& field) { return field.type->is_empty; });
    const bool is_varints = std::all_of(node->fields.begin(), node->fields.end(),
                                        [](const RecordField& field) { return field.type->varint_count == 1; });
    node->varint_count = is_varints ? static_cast<int32_t>(node->fields.size()) : 0;
    set_logical_type(*node, json);
    return node;
  }

  const Node* enumeration(const Json& json, const std::string& name_space) {
    Node* node = make(Kind::enum_);
    declare(node, json, name_space);
    for (const Json& symbol : get_array(json, "symbols", where_)) {
      if (!symbol.is_string()) fail(ErrorKind::corrupt, "{}: an enum symbol in the Avro schema is no string", where_);
      node->symbols.push_back(symbol.get<std::string>());
    }
    return node;
  }

  const Node* fixed(const Json& json, const std::string& name_space) {
    Node* node = make(Kind::fixed);
    declare(node, json, name_space);
    node->size = get_int64(json, "size", where_);
    if (node->size < 0) fail(ErrorKind::corrupt, "{}: fixed '{}' of negative size", where_, node->name);
    node->is_empty = node->size == 0;
    set_logical_type(*node, json);
    return node;
  }

  // Registers a named type; returns the namespace that holds inside it.
  std::string declare(Node* node, const Json& json, const std::string& outer_space) {
    const std::string name = get_string(json, "name", where_);
    const std::string name_space = find_string(json, "namespace", where_).value_or(outer_space);
    node->name = full_name(name, name_space);
    if (!names_.emplace(node->name, node).second)
      fail(ErrorKind::corrupt, "{}: the Avro schema declares '{}' twice", where_, node->name);
    const size_t dot = node->name.rfind('.');
    return dot == std::string::npos ? std::string() : node->name.substr(0, dot);
  }

  void set_logical_type(Node& node, const Json& json) {
    // Unknown logical types are to be ignored (Avro spec, "Logical Types"), so none is refused here.
    if (const Json* logical = find_member(json, "logicalType"); logical != nullptr && logical->is_string())
      node.logical_type = logical->get<std::string>();
    if (const Json* utc = find_member(json, "adjust-to-utc"); utc != nullptr && utc->is_boolean())
      node.adjust_to_utc = utc->get<bool>();
    if (node.logical_type == "decimal") {
      node.precision = get_int32(json, "precision", where_);
      node.scale = find_int32(json, "scale", where_).value_or(0);
    }
  }

  const Json& member(const Json& json, const char* key) {
    const Json* found = find_member(json, key);
    if (found == nullptr) fail(ErrorKind::corrupt, "{}: the Avro schema lacks a \"{}\"", where_, key);
    return *found;
  }

  static std::string full_name(const std::string& name, const std::string& name_space) {
    if (name_space.empty() || name.find('.') != std::string::npos) return name;
    return name_space + "." + name;
  }

  WriterSchema::Graph graph_;
  std::string where_;
  std::map<std::string, const Node*> names_;
};

WriterSchema WriterSchema::parse(std::string_view json, std::string_view where) {
  if (auto known = known_schemas().find(json)) return std::move(*known);
  WriterSchema schema = SchemaParser(where).parse(parse_json(json, where));
  known_schemas().add(json, schema);
  return schema;
}

Nullable as_nullable(const Node& node, std::string_view where) {
  if (node.kind == Kind::null) return {};
  if (node.kind != Kind::union_) return {.value = &node};
  Nullable nullable;
  nullable.branch_count = static_cast<int64_t>(node.branches.size());
  for (size_t i = 0; i < node.branches.size(); ++i) {
    if (node.branches[i]->kind == Kind::null) continue;
    if (nullable.value != nullptr) fail(ErrorKind::unsupported, "{}: an Avro union of several types", where);
    nullable.value = node.branches[i];
    nullable.value_branch = static_cast<int64_t>(i);
  }
  return nullable;
}

}  // namespace firn::iceberg::avro
