#include "iceberg/scan/avro_columns.h"

#include <algorithm>
#include <functional>

#include <arrow/array/builder_binary.h>
#include <arrow/array/builder_decimal.h>
#include <arrow/array/builder_primitive.h>
#include <arrow/array/builder_time.h>
#include <arrow/buffer_builder.h>

#include "base/arrow_status.h"
#include "base/error.h"
#include "base/uuid.h"

namespace firn::iceberg {

// A value that is there, or null, appended to a builder.
class AvroValueDecoder {
 public:
  virtual ~AvroValueDecoder() = default;
  virtual void append(avro::Cursor& cursor) = 0;
  virtual void append_null() = 0;
  virtual std::shared_ptr<arrow::Array> finish() = 0;
};

namespace {

using avro::Cursor;
using avro::Kind;
using avro::Node;

constexpr std::string_view kWhat = "decode Avro values";
constexpr int kDepthMax = 64;
constexpr int kColumnsMax = 100'000;         // a named type may be used again and again within itself
constexpr int64_t kFixedMax = 16 << 20;      // a null of it takes as many bytes
constexpr int64_t kEmptyItemsMax = 1 << 20;  // items that take no bytes, of one batch

// The record of key and value that Iceberg's maps are arrays of; nullptr: `node` is another array.
const Node* map_entry(const Node& node, const std::string& where) {
  if (node.kind != Kind::array || node.logical_type != "map") return nullptr;
  const avro::Nullable items = avro::as_nullable(*node.items, where);
  const bool is_pair = items.branch_count == 0 && items.value != nullptr && items.value->kind == Kind::record &&
                       items.value->fields.size() == 2;
  if (!is_pair) fail(ErrorKind::corrupt, "{}: an Avro map whose items are not pairs of key and value", where);
  return items.value;
}

const MappedField* find_mapped(const NameMapping* mapping, const std::string& name) {
  if (mapping == nullptr) return nullptr;
  for (const MappedField& field : *mapping) {
    if (std::find(field.names.begin(), field.names.end(), name) != field.names.end()) return &field;
  }
  return nullptr;
}

// The writer's schema as FileColumns.
class ColumnMaker {
 public:
  explicit ColumnMaker(const std::string& where) : where_(where) {}

  bool any_id() const { return any_id_; }

  FileColumn make(const Node& node, const std::string& name, std::optional<int32_t> id, const NameMapping* mapping,
                  int depth) {
    if (depth > kDepthMax || ++columns_ > kColumnsMax)
      fail(ErrorKind::unsupported, "{}: its Avro schema nests too deeply, or within itself", where_);
    FileColumn column{.id = id, .name = name};
    any_id_ |= id.has_value();
    const MappedField* mapped = find_mapped(mapping, name);
    if (!id && mapped != nullptr) column.id = mapped->field_id;
    const NameMapping* below = mapped != nullptr ? &mapped->fields : nullptr;
    const Node* value = avro::as_nullable(node, where_).value;
    if (value == nullptr) {
      column.leaf = next_leaf_++;
    } else if (const Node* entry = map_entry(*value, where_)) {
      for (size_t i = 0; i < 2; ++i) {
        const avro::RecordField& field = entry->fields[i];
        column.children.push_back(make(*field.type, i == 0 ? "key" : "value", field.field_id, below, depth + 1));
      }
    } else if (value->kind == Kind::record) {
      for (const avro::RecordField& field : value->fields)
        column.children.push_back(make(*field.type, field.name, field.field_id, below, depth + 1));
    } else if (value->kind == Kind::array) {
      column.children.push_back(make(*value->items, "element", value->element_id, below, depth + 1));
    } else if (value->kind == Kind::map) {
      static const Node kText{.kind = Kind::string};
      column.children.push_back(make(kText, "key", value->key_id, below, depth + 1));
      column.children.push_back(make(*value->items, "value", value->value_id, below, depth + 1));
    } else {
      column.leaf = next_leaf_++;
    }
    return column;
  }

 private:
  const std::string& where_;
  bool any_id_ = false;
  int columns_ = 0, next_leaf_ = 0;
};

// A value and whether it is there.
struct Slot {
  avro::Nullable nullable;
  std::unique_ptr<AvroValueDecoder> decoder;

  void append(Cursor& cursor) {
    if (cursor.enter(nullable)) {
      decoder->append(cursor);
    } else {
      decoder->append_null();
    }
  }
};

class NullDecoder : public AvroValueDecoder {
 public:
  void append(Cursor&) override { ++length_; }
  void append_null() override { ++length_; }
  std::shared_ptr<arrow::Array> finish() override {
    return std::make_shared<arrow::NullArray>(std::exchange(length_, 0));
  }

 private:
  int64_t length_ = 0;
};

template <class Builder, class Read>
class LeafDecoder : public AvroValueDecoder {
 public:
  LeafDecoder(const std::shared_ptr<arrow::DataType>& type, Read read)
      : builder_(type, arrow::default_memory_pool()), read_(std::move(read)) {}
  void append(Cursor& cursor) override { check(builder_.Append(read_(cursor)), kWhat); }
  void append_null() override { check(builder_.AppendNull(), kWhat); }
  std::shared_ptr<arrow::Array> finish() override { return check(builder_.Finish(), kWhat); }

 private:
  Builder builder_;
  Read read_;
};

template <class Builder, class Read>
std::unique_ptr<AvroValueDecoder> leaf(const std::shared_ptr<arrow::DataType>& type, Read read) {
  return std::make_unique<LeafDecoder<Builder, Read>>(type, std::move(read));
}

// Which values of a nested type are there.
class Validity {
 public:
  void append(bool valid) { check(bits_.Append(valid), kWhat); }
  // And starts anew.
  std::shared_ptr<arrow::ArrayData> finish(std::shared_ptr<arrow::DataType> type,
                                           std::vector<std::shared_ptr<arrow::Buffer>> buffers,
                                           std::vector<std::shared_ptr<arrow::ArrayData>> children) {
    const int64_t length = bits_.length(), null_count = bits_.false_count();
    auto bits = check(bits_.Finish(), kWhat);
    buffers.insert(buffers.begin(), null_count > 0 ? std::move(bits) : nullptr);
    return arrow::ArrayData::Make(std::move(type), length, std::move(buffers), std::move(children), null_count);
  }

 private:
  arrow::TypedBufferBuilder<bool> bits_;
};

class StructDecoder : public AvroValueDecoder {
 public:
  struct Member {
    std::string name;
    const Node* node = nullptr;
    std::optional<Slot> slot;  // nullopt: read over
  };
  explicit StructDecoder(std::vector<Member> members) : members_(std::move(members)) {}

  void append(Cursor& cursor) override {
    validity_.append(true);
    for (Member& member : members_) {
      if (member.slot) {
        member.slot->append(cursor);
      } else {
        cursor.skip(*member.node);
      }
    }
  }
  void append_null() override {
    validity_.append(false);
    for (Member& member : members_) {
      if (member.slot) member.slot->decoder->append_null();
    }
  }
  std::shared_ptr<arrow::Array> finish() override {
    arrow::FieldVector fields;
    std::vector<std::shared_ptr<arrow::ArrayData>> children;
    for (Member& member : members_) {
      if (!member.slot) continue;
      const auto array = member.slot->decoder->finish();
      fields.push_back(arrow::field(member.name, array->type()));
      children.push_back(array->data());
    }
    return arrow::MakeArray(validity_.finish(arrow::struct_(fields), {}, std::move(children)));
  }

 private:
  std::vector<Member> members_;
  Validity validity_;
};

// Offsets of a list's or map's values, and the walk through Avro's blocks of items.
class ItemsDecoder : public AvroValueDecoder {
 public:
  // `items` is what the writer's blocks hold.
  explicit ItemsDecoder(const Node& items) : items_(items) {}

  void append(Cursor& cursor) override {
    begin(true);
    while (const int64_t count = cursor.next_item_count(items_)) {
      if (items_.is_empty) empty_items_ += count;
      if (empty_items_ > kEmptyItemsMax || count > kEmptyItemsMax * 1024 - length_)
        cursor.fail_corrupt("more items than a list can have");
      length_ += count;
      for (int64_t i = 0; i < count; ++i) append_item(cursor);
    }
  }
  void append_null() override { begin(false); }

 protected:
  virtual void append_item(Cursor& cursor) = 0;

  std::shared_ptr<arrow::Array> finish_as(std::shared_ptr<arrow::DataType> type,
                                          std::shared_ptr<arrow::ArrayData> items) {
    check(offsets_.Append(static_cast<int32_t>(length_)), kWhat);
    auto offsets = check(offsets_.Finish(), kWhat);
    length_ = empty_items_ = 0;
    return arrow::MakeArray(validity_.finish(std::move(type), {std::move(offsets)}, {std::move(items)}));
  }

 private:
  void begin(bool valid) {
    validity_.append(valid);
    check(offsets_.Append(static_cast<int32_t>(length_)), kWhat);
  }

  const Node& items_;
  Validity validity_;
  arrow::TypedBufferBuilder<int32_t> offsets_;
  int64_t length_ = 0, empty_items_ = 0;  // items so far
};

class ListDecoder : public ItemsDecoder {
 public:
  ListDecoder(const Node& items, Slot element) : ItemsDecoder(items), element_(std::move(element)) {}
  std::shared_ptr<arrow::Array> finish() override {
    const auto elements = element_.decoder->finish();
    return finish_as(arrow::list(elements->type()), elements->data());
  }

 private:
  void append_item(Cursor& cursor) override { element_.append(cursor); }
  Slot element_;
};

class MapDecoder : public ItemsDecoder {
 public:
  MapDecoder(const Node& items, Slot key, Slot value)
      : ItemsDecoder(items), key_(std::move(key)), value_(std::move(value)) {}
  std::shared_ptr<arrow::Array> finish() override {
    const auto keys = key_.decoder->finish(), values = value_.decoder->finish();
    auto type = arrow::map(keys->type(), values->type());
    auto entries =
        arrow::ArrayData::Make(type->field(0)->type(), keys->length(), {nullptr}, {keys->data(), values->data()}, 0);
    return finish_as(std::move(type), std::move(entries));
  }

 private:
  void append_item(Cursor& cursor) override {
    key_.append(cursor);
    value_.append(cursor);
  }
  Slot key_, value_;
};

// Makes the decoders of selected columns.
class DecoderMaker {
 public:
  explicit DecoderMaker(const std::string& where) : where_(where) {}

  int64_t leaf_count = 0, row_width_bytes = 0;

  Slot slot(const Node& node, const FileColumn& column) {
    Slot made{.nullable = avro::as_nullable(node, where_)};
    made.decoder = made.nullable.value == nullptr ? count(std::make_unique<NullDecoder>(), 0)
                                                  : decoder(*made.nullable.value, column);
    return made;
  }

 private:
  std::unique_ptr<AvroValueDecoder> count(std::unique_ptr<AvroValueDecoder> made, int64_t width_bytes) {
    ++leaf_count;
    row_width_bytes += width_bytes;
    return made;
  }

  std::unique_ptr<AvroValueDecoder> decoder(const Node& node, const FileColumn& column) {
    if (const Node* entry = map_entry(node, where_)) {
      return std::make_unique<MapDecoder>(*node.items, slot(*entry->fields[0].type, column.children.at(0)),
                                          slot(*entry->fields[1].type, column.children.at(1)));
    }
    switch (node.kind) {
      case Kind::record: {
        std::vector<StructDecoder::Member> members;
        for (size_t i = 0; i < node.fields.size(); ++i) {
          const FileColumn& child = column.children.at(i);
          StructDecoder::Member member{.name = node.fields[i].name, .node = node.fields[i].type};
          if (child.selected) member.slot = slot(*member.node, child);
          members.push_back(std::move(member));
        }
        return std::make_unique<StructDecoder>(std::move(members));
      }
      case Kind::array:
        return std::make_unique<ListDecoder>(*node.items, slot(*node.items, column.children.at(0)));
      case Kind::map: {
        Slot key{
            .nullable = {.value = &kText},
            .decoder = count(leaf<arrow::StringBuilder>(arrow::utf8(), [](Cursor& c) { return c.read_bytes(); }), 16)};
        return std::make_unique<MapDecoder>(node, std::move(key), slot(*node.items, column.children.at(1)));
      }
      case Kind::fixed:
        return count(leaf_decoder(node), node.size);
      default:
        return count(leaf_decoder(node), 16);
    }
  }

  std::unique_ptr<AvroValueDecoder> leaf_decoder(const Node& node) {
    switch (node.kind) {
      case Kind::null:
        return std::make_unique<NullDecoder>();
      case Kind::boolean:
        return leaf<arrow::BooleanBuilder>(arrow::boolean(), [](Cursor& c) { return c.read_boolean(); });
      case Kind::int_:
        if (node.logical_type == "date")
          return leaf<arrow::Date32Builder>(arrow::date32(), [](Cursor& c) { return c.read_int(); });
        if (node.logical_type == "time-millis")
          return leaf<arrow::Time32Builder>(arrow::time32(arrow::TimeUnit::MILLI),
                                            [](Cursor& c) { return c.read_int(); });
        return leaf<arrow::Int32Builder>(arrow::int32(), [](Cursor& c) { return c.read_int(); });
      case Kind::long_:
        return long_decoder(node);
      case Kind::float_:
        return leaf<arrow::FloatBuilder>(arrow::float32(), [](Cursor& c) { return c.read_float(); });
      case Kind::double_:
        return leaf<arrow::DoubleBuilder>(arrow::float64(), [](Cursor& c) { return c.read_double(); });
      case Kind::bytes:
        if (node.logical_type == "decimal") return decimal_decoder(node);
        return leaf<arrow::BinaryBuilder>(arrow::binary(), [](Cursor& c) { return c.read_bytes(); });
      case Kind::string:
        if (node.logical_type == "uuid") {  // Avro's own spelling; Iceberg writes fixed[16]
          return leaf<arrow::FixedSizeBinaryBuilder>(arrow::fixed_size_binary(16), [](Cursor& c) {
            const std::optional<std::string> bytes = uuid_to_bytes(c.read_bytes());
            if (!bytes) c.fail_corrupt("an ill-formed uuid");
            return *bytes;
          });
        }
        return leaf<arrow::StringBuilder>(arrow::utf8(), [](Cursor& c) { return c.read_bytes(); });
      case Kind::enum_:
        return leaf<arrow::StringBuilder>(arrow::utf8(), [&node](Cursor& c) -> std::string_view {
          const int64_t symbol = c.read_long();
          if (symbol < 0 || symbol >= static_cast<int64_t>(node.symbols.size()))
            c.fail_corrupt("a symbol that its enum lacks");
          return node.symbols[static_cast<size_t>(symbol)];
        });
      case Kind::fixed:
        if (node.logical_type == "decimal") return decimal_decoder(node);
        if (node.size > kFixedMax)
          fail(ErrorKind::unsupported, "{}: fixed values of {} bytes; firn reads up to {}", where_, node.size,
               kFixedMax);
        return leaf<arrow::FixedSizeBinaryBuilder>(arrow::fixed_size_binary(static_cast<int32_t>(node.size)),
                                                   [&node](Cursor& c) { return c.read_fixed(node.size); });
      default:
        fail(ErrorKind::internal, "{}: an Avro leaf that is none", where_);
    }
  }

  std::unique_ptr<AvroValueDecoder> long_decoder(const Node& node) {
    const auto read = [](Cursor& c) { return c.read_long(); };
    std::string_view name = node.logical_type;
    if (name == "time-micros") return leaf<arrow::Time64Builder>(arrow::time64(arrow::TimeUnit::MICRO), read);
    const bool is_local = name.starts_with("local-");
    if (is_local) name.remove_prefix(6);
    const char* zone = is_local || !node.adjust_to_utc ? "" : "UTC";
    const auto timestamps = [&](arrow::TimeUnit::type unit) {
      return leaf<arrow::TimestampBuilder>(arrow::timestamp(unit, zone), read);
    };
    if (name == "timestamp-millis") return timestamps(arrow::TimeUnit::MILLI);
    if (name == "timestamp-micros") return timestamps(arrow::TimeUnit::MICRO);
    if (name == "timestamp-nanos") return timestamps(arrow::TimeUnit::NANO);
    return leaf<arrow::Int64Builder>(arrow::int64(), read);
  }

  std::unique_ptr<AvroValueDecoder> decimal_decoder(const Node& node) {
    if (node.precision < 1 || node.precision > 38)
      fail(ErrorKind::unsupported, "{}: a decimal of {} digits; Iceberg has 1 to 38", where_, node.precision);
    return leaf<arrow::Decimal128Builder>(arrow::decimal128(node.precision, node.scale), [&node](Cursor& c) {
      const std::string_view bytes = node.kind == Kind::fixed ? c.read_fixed(node.size) : c.read_bytes();
      const auto value = arrow::Decimal128::FromBigEndian(reinterpret_cast<const uint8_t*>(bytes.data()),
                                                          static_cast<int32_t>(std::min<size_t>(bytes.size(), 17)));
      if (!value.ok()) c.fail_corrupt("a decimal of no or too many bytes");
      return *value;
    });
  }

  static inline const Node kText{.kind = Kind::string};
  const std::string& where_;
};

}  // namespace

std::vector<FileColumn> avro_file_columns(const Node& root, const std::optional<NameMapping>& mapping,
                                          const std::string& where) {
  if (root.kind != Kind::record) fail(ErrorKind::corrupt, "{}: its Avro schema is no record", where);
  ColumnMaker maker(where);
  std::vector<FileColumn> columns;
  for (const avro::RecordField& field : root.fields)
    columns.push_back(maker.make(*field.type, field.name, field.field_id, mapping ? &*mapping : nullptr, 1));
  if (!maker.any_id() && !mapping && !columns.empty())
    fail(ErrorKind::unsupported,
         "{} has no field ids, so its columns cannot be told apart: set the table property schema.name-mapping.default",
         where);
  return columns;
}

AvroRowDecoder::AvroRowDecoder(const Node& root, const std::vector<FileColumn>& columns, const std::string& where) {
  DecoderMaker maker(where);
  for (size_t i = 0; i < root.fields.size(); ++i) {
    Step step{.node = root.fields[i].type};
    if (columns.at(i).selected) {
      Slot slot = maker.slot(*step.node, columns[i]);
      step.value = slot.nullable;
      step.decoder = std::move(slot.decoder);
    }
    steps_.push_back(std::move(step));
  }
  leaf_count_ = maker.leaf_count;
  row_width_bytes_ = maker.row_width_bytes;
}

AvroRowDecoder::~AvroRowDecoder() = default;

void AvroRowDecoder::append(Cursor& cursor) {
  for (Step& step : steps_) {
    if (!step.decoder) {
      cursor.skip(*step.node);
    } else if (cursor.enter(step.value)) {
      step.decoder->append(cursor);
    } else {
      step.decoder->append_null();
    }
  }
}

arrow::ArrayVector AvroRowDecoder::finish() {
  arrow::ArrayVector arrays;
  for (Step& step : steps_) {
    if (step.decoder) arrays.push_back(step.decoder->finish());
  }
  return arrays;
}

}  // namespace firn::iceberg
