#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "base/civil_time.h"
#include "hyp/capture/json_scanner.h"
#include "hyp/capture/row_parser.h"
#include "hyp/config.h"

namespace firn::hyp {
namespace {

using iceberg::Field;
using iceberg::Type;
using iceberg::TypeId;
using iceberg::TypePtr;

// What a value is, before number widths. Integers and fractions are one family, so that they can mix.
enum class Family : uint8_t { boolean, number, timestamp, string, object, array };

// What was seen of one column, in the order of the lines. It grows only, and joining what two texts showed, each part
// keeping its first-seen order, gives what one pass over both would have: that makes inference parallel and still
// deterministic.
struct Observed {
  std::string name;
  std::string quoted;   // with quotes, as the scanner meets it; '\n' if it needs escapes
  bool is_map = false;  // known as one: its values are all observed as `element`
  bool takes_timestamps = false;
  bool has_fraction = false;
  std::vector<Family> families;                          // each once, first seen first
  std::vector<std::unique_ptr<Observed>> fields;         // of objects, first seen first
  std::unordered_map<std::string_view, size_t> by_name;  // views of `name`s
  std::vector<size_t> next;                              // [i + 1]: the field that followed field i
  std::unique_ptr<Observed> element;                     // of arrays, and a known map's values
  uint64_t last_object = 0;                              // the object in which it was last a key
};

Observed& add_field(Observed& parent, std::string name) {
  auto field = std::make_unique<Observed>();
  const bool is_plain = std::none_of(
      name.begin(), name.end(), [](char c) { return c == '"' || c == '\\' || static_cast<unsigned char>(c) < 0x20; });
  field->quoted = is_plain ? "\"" + name + "\"" : "\n";
  field->name = std::move(name);
  parent.by_name.emplace(field->name, parent.fields.size());
  parent.fields.push_back(std::move(field));
  if (parent.next.empty()) parent.next.push_back(0);
  parent.next.push_back(parent.fields.size());
  return *parent.fields.back();
}

// A malformed line must not be seen, and that it is malformed may show at its end only. Changes are rare after the
// first lines, so they are logged and taken back.
struct Change {
  enum class Kind : uint8_t { family, fraction, field, element };
  Observed* observed;
  Kind kind;
};

void undo(const Change& change) {
  Observed& observed = *change.observed;
  switch (change.kind) {
    case Change::Kind::family:
      observed.families.pop_back();
      break;
    case Change::Kind::fraction:
      observed.has_fraction = false;
      break;
    case Change::Kind::element:
      observed.element.reset();
      break;
    case Change::Kind::field:
      observed.by_name.erase(observed.fields.back()->name);
      observed.fields.pop_back();
      observed.next.pop_back();
      for (size_t& next : observed.next) next = std::min(next, observed.fields.size());
      break;
  }
}

void prepare(Observed& observed, const Type& known) {
  switch (known.id()) {
    case TypeId::struct_:
      for (const Field& field : known.fields()) prepare(add_field(observed, field.name), *field.type);
      break;
    case TypeId::list:
      observed.element = std::make_unique<Observed>();
      prepare(*observed.element, *known.element().type);
      break;
    case TypeId::map:
      observed.is_map = true;
      observed.element = std::make_unique<Observed>();
      prepare(*observed.element, *known.value().type);
      break;
    default:
      break;
  }
}

void join(Observed& earlier, Observed&& later) {
  earlier.has_fraction |= later.has_fraction;
  earlier.takes_timestamps |= later.takes_timestamps;
  for (const Family family : later.families) {
    if (std::find(earlier.families.begin(), earlier.families.end(), family) == earlier.families.end()) {
      earlier.families.push_back(family);
    }
  }
  for (std::unique_ptr<Observed>& field : later.fields) {
    const auto found = earlier.by_name.find(field->name);
    if (found != earlier.by_name.end()) {
      join(*earlier.fields[found->second], std::move(*field));
    } else {
      join(add_field(earlier, field->name), std::move(*field));
    }
  }
  if (later.element == nullptr) return;
  if (earlier.element == nullptr) {
    earlier.element = std::move(later.element);
  } else {
    join(*earlier.element, std::move(*later.element));
  }
}

// The schema that `observed` stands for. One use.
class SchemaMaker {
 public:
  explicit SchemaMaker(const iceberg::Schema& known) : last_id_(known.highest_field_id()) {}

  // `known`, and after them the fields that were seen beside them.
  std::vector<Field> merged_fields(const Observed& observed, const std::vector<Field>& known) {
    std::vector<Field> fields;
    std::unordered_set<std::string> lower_names;
    for (const Field& field : known) {
      Field merged = field;
      merged.type = merged_type(*observed.fields[observed.by_name.at(field.name)], field.type);
      fields.push_back(std::move(merged));
      lower_names.insert(fold_name(field.name));
    }
    for (size_t i = known.size(); i < observed.fields.size(); ++i) {
      const Observed& field = *observed.fields[i];
      if (field.name.empty() || is_hidden_column(field.name) || field.name.find('\0') != std::string::npos) continue;
      TypePtr type = seen_type(field);
      if (type == nullptr || !lower_names.insert(fold_name(field.name)).second) continue;
      fields.push_back(Field{.id = ++last_id_, .name = field.name, .required = false, .type = std::move(type)});
    }
    return fields;
  }

 private:
  TypePtr merged_type(const Observed& observed, const TypePtr& known) {
    switch (known->id()) {
      case TypeId::struct_:
        return Type::struct_of(merged_fields(observed, known->fields()));
      case TypeId::list: {
        const Field& element = known->element();
        return Type::list_of(element.id, element.required, merged_type(*observed.element, element.type));
      }
      case TypeId::map: {
        const Field& value = known->value();
        return Type::map_of(known->key().id, known->key().type, value.id, value.required,
                            merged_type(*observed.element, value.type));
      }
      default:
        return known;
    }
  }

  // nullptr: nothing decides it. Empty objects and arrays do not, so the first family that has a type does.
  TypePtr seen_type(const Observed& observed) {
    for (const Family family : observed.families) {
      switch (family) {
        case Family::boolean:
          return Type::primitive(TypeId::boolean_);
        case Family::number:
          return Type::primitive(observed.has_fraction ? TypeId::double_ : TypeId::long_);
        case Family::timestamp:
          return Type::primitive(TypeId::timestamptz);
        case Family::string:
          return Type::primitive(TypeId::string);
        case Family::object:
          if (std::vector<Field> fields = merged_fields(observed, {}); !fields.empty()) {
            return Type::struct_of(std::move(fields));
          }
          break;
        case Family::array:
          if (observed.element == nullptr) break;
          if (TypePtr element = seen_type(*observed.element))
            return Type::list_of(++last_id_, false, std::move(element));
          break;
      }
    }
    return nullptr;
  }

  int32_t last_id_;  // the ids are made anew at the end; until then they need only differ
};

}  // namespace

struct SchemaInference::State {
  iceberg::Schema known;
  int64_t row_bytes_max;
  Observed root;
  JsonScanner scanner;
  std::string timestamp_column;
  std::string key_scratch, text_scratch;
  std::vector<Change> changes;  // of the current line
  uint64_t num_objects = 0;

  bool observe_line(const LineReader& lines);
  bool observe_value(Observed& observed, int depth);
  bool observe_object(Observed& observed, int depth);
  bool observe_array(Observed& observed, int depth);
  bool observe_text(Observed& observed);
  void note(Observed& observed, Family family) {
    for (const Family seen : observed.families) {
      if (seen == family) return;
    }
    observed.families.push_back(family);
    changes.push_back({&observed, Change::Kind::family});
  }
  Observed& element_of(Observed& observed) {
    if (observed.element == nullptr) {
      observed.element = std::make_unique<Observed>();
      changes.push_back({&observed, Change::Kind::element});
    }
    return *observed.element;
  }
};

bool SchemaInference::State::observe_value(Observed& observed, int depth) {
  switch (scanner.peek()) {
    case '"':
      return observe_text(observed);
    case '{':
      return observe_object(observed, depth);
    case '[':
      return observe_array(observed, depth);
    case 'n':
      return scanner.take_null();
    case 't':
    case 'f':
      if (!scanner.take_true() && !scanner.take_false()) return false;
      note(observed, Family::boolean);
      return true;
    default: {
      JsonNumber number;
      const char c = scanner.peek();
      if ((c != '-' && (c < '0' || c > '9')) || !scanner.take_number(number)) return false;
      note(observed, Family::number);
      if (!number.is_integer && !observed.has_fraction) {
        observed.has_fraction = true;
        changes.push_back({&observed, Change::Kind::fraction});
      }
      return true;
    }
  }
}

bool SchemaInference::State::observe_text(Observed& observed) {
  JsonString string;
  if (!scanner.take_string(string)) return false;
  std::string_view text = string.raw;
  if (string.has_escapes) {
    text_scratch.clear();
    if (!unescape_json(string.raw, text_scratch)) return false;
    text = text_scratch;
  }
  note(observed, observed.takes_timestamps && parse_timestamp_us(text) ? Family::timestamp : Family::string);
  return true;
}

bool SchemaInference::State::observe_array(Observed& observed, int depth) {
  if (depth >= kJsonDepthMax) return false;
  note(observed, Family::array);
  scanner.advance(1);
  scanner.skip_space();
  if (scanner.take(']')) return true;
  Observed& element = element_of(observed);
  for (;;) {
    if (!observe_value(element, depth + kJsonDepthOfArray)) return false;
    scanner.skip_space();
    if (scanner.take(']')) return true;
    if (!scanner.take(',')) return false;
    scanner.skip_space();
  }
}

bool SchemaInference::State::observe_object(Observed& observed, int depth) {
  if (depth >= kJsonDepthMax) return false;
  note(observed, Family::object);
  const uint64_t object = ++num_objects;
  size_t previous = static_cast<size_t>(-1);
  std::vector<std::string> entry_keys;  // of a map
  scanner.advance(1);
  scanner.skip_space();
  if (scanner.take('}')) return true;
  for (;;) {
    if (scanner.peek() != '"') return false;
    Observed* field = nullptr;
    size_t index = observed.next.empty() ? 0 : observed.next[previous + 1];
    if (index < observed.fields.size() && scanner.take_text(observed.fields[index]->quoted)) {
      field = observed.fields[index].get();
    } else {
      JsonString key;
      std::string_view name;
      if (!scanner.take_string(key) || !scanner.key_text(key, key_scratch, name)) return false;
      if (observed.is_map) {
        entry_keys.emplace_back(name);
        field = observed.element.get();
      } else if (const auto found = observed.by_name.find(name); found != observed.by_name.end()) {
        index = observed.next[previous + 1] = found->second;
        field = observed.fields[index].get();
      } else {
        index = observed.fields.size();
        field = &add_field(observed, std::string(name));
        field->takes_timestamps = &observed == &root && field->name == timestamp_column;
        changes.push_back({&observed, Change::Kind::field});
        observed.next[previous + 1] = index;
      }
    }
    if (!observed.is_map) {
      if (field->last_object == object) return false;
      field->last_object = object;
      previous = index;
    }
    scanner.skip_space();
    if (!scanner.take(':')) return false;
    scanner.skip_space();
    if (!observe_value(*field, depth + 1)) return false;
    scanner.skip_space();
    if (scanner.take('}')) break;
    if (!scanner.take(',')) return false;
    scanner.skip_space();
  }
  std::sort(entry_keys.begin(), entry_keys.end());
  return std::adjacent_find(entry_keys.begin(), entry_keys.end()) == entry_keys.end();
}

namespace {

// Leaves out what has the full name of a column before it: other engines refuse a table where two columns have one
// ("a.b", and the member b of a struct a).
class FullNames {
 public:
  explicit FullNames(const iceberg::Schema& known) { add(known.fields(), ""); }

  // Of `fields` those that `known`, their like in the schema, has, and of the others those whose names are still free.
  std::vector<Field> without_repeated(const std::vector<Field>& fields, const std::vector<Field>& known,
                                      const std::string& prefix = "") {
    std::vector<Field> kept;
    for (Field field : fields) {
      const auto same_name = [&](const Field& other) { return other.name == field.name; };
      const auto old = std::find_if(known.begin(), known.end(), same_name);
      if (old == known.end()) {
        if (is_any_taken(field, prefix)) continue;
        add({field}, prefix);
      } else if (field.type->id() == TypeId::struct_ && old->type->id() == TypeId::struct_) {
        field.type =
            Type::struct_of(without_repeated(field.type->fields(), old->type->fields(), prefix + field.name + "."));
      }
      kept.push_back(std::move(field));
    }
    return kept;
  }

 private:
  void add(const std::vector<Field>& fields, const std::string& prefix) {
    for (const Field& field : fields) {
      names_.insert(prefix + field.name);
      add(field.type->fields(), prefix + field.name + ".");
    }
  }
  bool is_any_taken(const Field& field, const std::string& prefix) const {
    const std::string name = prefix + field.name;
    const std::vector<Field>& members = field.type->fields();
    return names_.contains(name) || std::any_of(members.begin(), members.end(),
                                                [&](const Field& member) { return is_any_taken(member, name + "."); });
  }

  std::unordered_set<std::string> names_;
};

}  // namespace

bool SchemaInference::State::observe_line(const LineReader& lines) {
  scanner.start(lines.line().data(), lines.line().data() + lines.line().size(), lines.readable_end());
  scanner.skip_space();
  if (scanner.peek() != '{' || !observe_object(root, 0)) return false;
  scanner.skip_space();
  return scanner.at_end();
}

SchemaInference::SchemaInference(const iceberg::Schema& known, int64_t row_bytes_max, std::string timestamp_column)
    : state_(std::make_unique<State>()) {
  state_->known = known;
  state_->row_bytes_max = row_bytes_max;
  prepare(state_->root, *known.as_struct());
  state_->timestamp_column = std::move(timestamp_column);
}

SchemaInference::~SchemaInference() = default;

void SchemaInference::observe(std::string_view text) {
  State& state = *state_;
  const bool all_utf8 = is_valid_utf8(text);
  for (LineReader lines(text); lines.next();) {
    if (static_cast<int64_t>(lines.line().size()) > state.row_bytes_max) continue;
    if (!all_utf8 && !is_valid_utf8(lines.line())) continue;
    state.changes.clear();
    if (state.observe_line(lines)) continue;
    for (auto change = state.changes.rbegin(); change != state.changes.rend(); ++change) undo(*change);
  }
}

void SchemaInference::merge(SchemaInference&& later) { join(state_->root, std::move(later.state_->root)); }

iceberg::Schema SchemaInference::schema() const {
  SchemaMaker maker(state_->known);
  const std::vector<Field>& known = state_->known.fields();
  const std::vector<Field> seen = maker.merged_fields(state_->root, known);
  return iceberg::assign_fresh_ids(iceberg::Schema(FullNames(state_->known).without_repeated(seen, known)));
}

}  // namespace firn::hyp
