// The Avro schema a file was written with, as a graph of nodes (Avro 1.11 spec, "Schema Declaration"; Iceberg spec,
// Appendix A).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace firn::iceberg::avro {

enum class Kind : uint8_t {
  null,
  boolean,
  int_,
  long_,
  float_,
  double_,
  bytes,
  string,
  fixed,
  enum_,
  record,
  array,
  map,
  union_,
};

struct Node;

struct RecordField {
  std::string name;
  std::optional<int32_t> field_id;  // Iceberg's "field-id"
  const Node* type = nullptr;
};

// Only the members that its kind needs are set. Nodes are shared where a named type is used again, and a record may
// reach itself.
struct Node {
  Kind kind = Kind::null;
  std::string name;                         // record, enum, fixed: full name
  std::string logical_type;                 // empty: none
  bool adjust_to_utc = true;                // timestamps; Avro's own meaning where Iceberg's attribute is absent
  int32_t precision = 0, scale = 0;         // decimal
  int64_t size = 0;                         // fixed
  std::vector<std::string> symbols;         // enum
  std::vector<RecordField> fields;          // record
  std::vector<const Node*> branches;        // union
  const Node* items = nullptr;              // array: elements; map: values
  std::optional<int32_t> element_id;        // array
  std::optional<int32_t> key_id, value_id;  // map
  bool is_empty = false;                    // every value of it is encoded in no byte at all
  int32_t varint_count = 0;                 // every value of it is this many varints and nothing else; 0: it is not so
};

// Shares the nodes with its copies; they stay where they are while any of them lives.
class WriterSchema {
 public:
  // `json` is the text of "avro.schema". The latest few texts are known again, since a table's manifests all have one
  // of two and are small beside it. Thread-safe. Throws corrupt naming `where`.
  static WriterSchema parse(std::string_view json, std::string_view where);

  const Node& root() const { return *graph_->root; }

 private:
  struct Graph {
    std::vector<std::unique_ptr<Node>> nodes;
    const Node* root = nullptr;
  };
  std::shared_ptr<const Graph> graph_;
  friend class SchemaParser;
};

// A value that may be null, as writers spell it: a plain type, or a union of null and that type in either order.
struct Nullable {
  const Node* value = nullptr;  // nullptr: always null
  int64_t value_branch = -1;    // the union's index of `value`; -1: no union, nothing precedes the value
  int64_t branch_count = 0;
};
// Throws unsupported naming `where` for unions of several types.
Nullable as_nullable(const Node& node, std::string_view where);

}  // namespace firn::iceberg::avro
