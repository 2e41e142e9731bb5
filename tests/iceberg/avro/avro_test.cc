#include <gtest/gtest.h>

#include "base/error.h"
#include "iceberg/avro/container.h"
#include "iceberg/avro/cursor.h"
#include "iceberg/avro/encoder.h"

namespace firn::iceberg::avro {
namespace {

using namespace std::string_literals;

std::string encoded_long(int64_t value) {
  std::string out;
  put_long(out, value);
  return out;
}

ErrorKind kind_of(const std::function<void()>& work) {
  try {
    work();
  } catch (const Error& e) {
    return e.kind();
  }
  ADD_FAILURE() << "nothing was thrown";
  return ErrorKind::internal;
}

TEST(AvroEncoding, NumbersAreZigzagVarintsAsInTheSpecification) {
  // Avro 1.11 specification, "Binary Encoding", table of examples.
  EXPECT_EQ(encoded_long(0), "\x00"s);
  EXPECT_EQ(encoded_long(-1), "\x01");
  EXPECT_EQ(encoded_long(1), "\x02");
  EXPECT_EQ(encoded_long(-2), "\x03");
  EXPECT_EQ(encoded_long(2), "\x04");
  EXPECT_EQ(encoded_long(-64), "\x7f");
  EXPECT_EQ(encoded_long(64), "\x80\x01");
  EXPECT_EQ(encoded_long(INT64_MIN), "\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01");
}

TEST(AvroEncoding, EveryNumberIsReadBack) {
  for (const int64_t value :
       {int64_t{0}, int64_t{-1}, int64_t{63}, int64_t{-65}, int64_t{1} << 35, INT64_MAX, INT64_MIN}) {
    const std::string bytes = encoded_long(value);
    Cursor cursor(bytes, "test");
    EXPECT_EQ(cursor.read_long(), value);
    EXPECT_EQ(cursor.remaining(), 0u);
  }
}

TEST(AvroEncoding, AStringIsItsLengthAndBytesAsInTheSpecification) {
  std::string out;
  put_bytes(out, "foo");
  EXPECT_EQ(out,
            "\x06"
            "foo");
}

constexpr std::string_view kEverything = R"({"type": "record", "name": "all", "namespace": "n", "fields": [
  {"name": "a", "type": "null"}, {"name": "b", "type": "boolean"}, {"name": "c", "type": "int"},
  {"name": "d", "type": {"type": "long", "logicalType": "timestamp-micros", "adjust-to-utc": false}, "field-id": 4},
  {"name": "e", "type": "float"}, {"name": "f", "type": "double"}, {"name": "g", "type": "bytes"},
  {"name": "h", "type": "string"}, {"name": "i", "type": {"type": "fixed", "name": "four", "size": 4}},
  {"name": "j", "type": {"type": "enum", "name": "suit", "symbols": ["x", "y"]}},
  {"name": "k", "type": {"type": "array", "items": ["null", "n.four"], "element-id": 12}},
  {"name": "l", "type": {"type": "map", "values": "int", "key-id": 13, "value-id": 14}},
  {"name": "m", "type": {"type": "array", "items": {"type": "record", "name": "pair", "fields": [
      {"name": "key", "type": "int", "field-id": 15}, {"name": "value", "type": "string", "field-id": 16}]},
      "logicalType": "map"}},
  {"name": "n", "type": {"type": "array", "items": "null"}},
  {"name": "last", "type": "int"}]})";

TEST(AvroSchema, IdsAndLogicalTypesAreKept) {
  const auto schema = WriterSchema::parse(kEverything, "test");
  const auto& fields = schema.root().fields;
  ASSERT_EQ(fields.size(), 15u);
  EXPECT_EQ(fields[3].field_id, 4);
  EXPECT_EQ(fields[3].type->logical_type, "timestamp-micros");
  EXPECT_FALSE(fields[3].type->adjust_to_utc);
  EXPECT_FALSE(fields[2].field_id.has_value());
  EXPECT_EQ(fields[10].type->element_id, 12);
  EXPECT_EQ(fields[10].type->items->branches[1]->size, 4) << "a name refers to the type declared before";
  EXPECT_EQ(fields[11].type->key_id, 13);
  EXPECT_EQ(fields[11].type->value_id, 14);
  EXPECT_EQ(fields[12].type->items->fields[1].field_id, 16);
}

TEST(AvroSchema, WhatIsNoSchemaIsCorrupt) {
  for (const char* text :
       {"", "3", "\"nothing\"", "[]", "{}", R"({"type":"record","name":"r"})", R"({"type":"array"})",
        R"({"type":"fixed","name":"f","size":-1})", R"({"type":"record","name":"r","fields":[{"name":"a"}]})",
        R"({"type":"record","name":"r","fields":[{"name":"a","type":{"type":"fixed","name":"r","size":1}}]})"}) {
    EXPECT_EQ(kind_of([&] { WriterSchema::parse(text, "test"); }), ErrorKind::corrupt) << text;
  }
  std::string deep(1000, '[');
  EXPECT_EQ(kind_of([&] { WriterSchema::parse(deep + "\"int\"" + std::string(1000, ']'), "test"); }),
            ErrorKind::corrupt);
}

TEST(AvroCursor, SkipsAValueOfEveryKindExactly) {
  const auto schema = WriterSchema::parse(kEverything, "test");
  std::string bytes;
  put_boolean(bytes, true);
  put_long(bytes, 7);
  put_long(bytes, 1LL << 40);
  put_floating(bytes, 1.5F);
  put_floating(bytes, 2.5);
  put_bytes(bytes, "bytes");
  put_bytes(bytes, "text");
  bytes += "1234";
  put_long(bytes, 1);
  put_long(bytes, 2);  // array of two
  put_long(bytes, 0);
  put_long(bytes, 1);
  bytes += "abcd";
  put_long(bytes, 0);
  put_long(bytes, -1);  // a map block with its size
  put_long(bytes, 3);
  put_bytes(bytes, "k");
  put_long(bytes, 5);
  put_long(bytes, 0);
  put_long(bytes, 1);
  put_long(bytes, 9);
  put_bytes(bytes, "v");
  put_long(bytes, 0);
  put_long(bytes, INT64_MAX);  // nulls take no bytes, and no time
  put_long(bytes, 0);
  put_long(bytes, 42);
  {
    Cursor cursor(bytes, "test");
    cursor.skip(schema.root());
    EXPECT_EQ(cursor.remaining(), 0u);
  }
  for (size_t size = 0; size < bytes.size(); ++size) {
    Cursor cursor(std::string_view(bytes).substr(0, size), "test");
    EXPECT_EQ(kind_of([&] { cursor.skip(schema.root()); }), ErrorKind::corrupt) << size;
  }
}

TEST(AvroCursor, LengthsAndCountsThatCannotBeAreCorrupt) {
  const auto ints = WriterSchema::parse(R"({"type": "array", "items": "int"})", "test");
  for (const int64_t count : {int64_t{2}, INT64_MAX, INT64_MIN, int64_t{-2}}) {
    std::string bytes = encoded_long(count) + (count < 0 ? encoded_long(1) : ""s) + "\x02";
    Cursor counting(bytes, "test");
    EXPECT_EQ(kind_of([&] { counting.next_item_count(*ints.root().items); }), ErrorKind::corrupt) << count;
    Cursor skipping(bytes, "test");
    EXPECT_EQ(kind_of([&] { skipping.skip(ints.root()); }), ErrorKind::corrupt) << count;
  }
  for (const int64_t length : {int64_t{-1}, int64_t{5}, INT64_MAX}) {
    const std::string bytes = encoded_long(length) + "abcd";
    Cursor cursor(bytes, "test");
    EXPECT_EQ(kind_of([&] { cursor.read_bytes(); }), ErrorKind::corrupt) << length;
  }
  const std::string endless(11, '\xff');
  Cursor cursor(endless, "test");
  EXPECT_EQ(kind_of([&] { cursor.read_long(); }), ErrorKind::corrupt);
}

TEST(AvroCursor, ARecordWithinItselfEndsAtTheDepthLimit) {
  const auto list = WriterSchema::parse(
      R"({"type": "record", "name": "list", "fields": [{"name": "next", "type": ["null", "list"]}]})", "test");
  const std::string bytes(100000, '\x02');
  Cursor cursor(bytes, "test");
  EXPECT_EQ(kind_of([&] { cursor.skip(list.root()); }), ErrorKind::corrupt);
  const auto itself =
      WriterSchema::parse(R"({"type": "record", "name": "r", "fields": [{"name": "again", "type": "r"}]})", "test");
  EXPECT_EQ(kind_of([&] { cursor.skip(itself.root()); }), ErrorKind::corrupt);
}

class AvroContainer : public testing::TestWithParam<CodecKind> {};

std::string container_of(const std::vector<std::string>& records, CodecKind codec) {
  ContainerWriter writer("\"string\"", {{"title", "it's"}}, codec);
  for (const std::string& record : records) {
    put_bytes(writer.record(), record);
    writer.end_record();
  }
  return writer.finish();
}

std::vector<std::string> records_of(std::string_view bytes) {
  ContainerReader reader(bytes, "test");
  std::vector<std::string> records;
  while (auto block = reader.next_block()) {
    Cursor cursor(block->data, "test");
    for (int64_t i = 0; i < block->record_count; ++i) records.emplace_back(cursor.read_bytes());
    EXPECT_EQ(cursor.remaining(), 0u);
  }
  return records;
}

TEST_P(AvroContainer, EveryRecordComesBackOverManyBlocks) {
  std::vector<std::string> records;
  for (int i = 0; i < 3000; ++i) records.push_back(std::string(static_cast<size_t>(i % 97), 'x') + std::to_string(i));
  const std::string bytes = container_of(records, GetParam());
  EXPECT_EQ(records_of(bytes), records);
  EXPECT_EQ(container_of(records, GetParam()), bytes) << "equal input gives equal bytes";
  ContainerReader reader(bytes, "test");
  EXPECT_EQ(reader.metadata().find("title")->second, "it's");
  EXPECT_EQ(reader.metadata().find("avro.codec")->second, to_string(GetParam()));
}

TEST_P(AvroContainer, NoRecordsAndOneEmptyRecordComeBack) {
  EXPECT_TRUE(records_of(container_of({}, GetParam())).empty());
  EXPECT_EQ(records_of(container_of({""}, GetParam())), std::vector<std::string>{""});
}

TEST_P(AvroContainer, AnyTruncationIsCorruptOrEndsAtABlock) {
  const std::string bytes = container_of({"one", "two", std::string(300, 'z')}, GetParam());
  const size_t header_size = container_of({}, GetParam()).size();
  for (size_t size = 0; size < bytes.size(); ++size) {
    if (size == header_size) continue;
    EXPECT_EQ(kind_of([&] { records_of(std::string_view(bytes).substr(0, size)); }), ErrorKind::corrupt) << size;
  }
}

INSTANTIATE_TEST_SUITE_P(Codecs, AvroContainer,
                         testing::Values(CodecKind::null, CodecKind::deflate, CodecKind::snappy, CodecKind::zstandard),
                         [](const auto& info) { return std::string(to_string(info.param)); });

TEST(AvroCodec, NamesAreThoseOfFilesAndOfTableProperties) {
  EXPECT_EQ(codec_from_name("zstandard", "t"), CodecKind::zstandard);
  EXPECT_EQ(codec_from_name("zstd", "t"), CodecKind::zstandard);
  EXPECT_EQ(codec_from_name("gzip", "t"), CodecKind::deflate);
  EXPECT_EQ(codec_from_name("uncompressed", "t"), CodecKind::null);
  EXPECT_EQ(kind_of([] { codec_from_name("xz", "t"); }), ErrorKind::unsupported);
}

TEST(AvroCodec, ADeflatedBlockMayEndWithTheRestOfAZlibChecksum) {
  // As PyIceberg 0.11 and fastavro write it: zlib.compress(b"some text")[2:-1].
  const std::string stored = "\x2b\xce\xcf\x4d\x55\x28\x49\xad\x28\x01\x00\x11\xe8\x03"s;
  BlockCodec codec(CodecKind::deflate);
  EXPECT_EQ(codec.decompress(stored, "t"), "some text");
  EXPECT_EQ(kind_of([&] { codec.decompress(stored + "more", "t"); }), ErrorKind::corrupt);
}

TEST(AvroCodec, ASnappyBlockWithAnotherChecksumIsCorrupt) {
  BlockCodec codec(CodecKind::snappy);
  std::string stored = codec.compress("some text");
  EXPECT_EQ(codec.decompress(stored, "t"), "some text");
  stored.back() ^= 1;
  EXPECT_EQ(kind_of([&] { codec.decompress(stored, "t"); }), ErrorKind::corrupt);
}

TEST(AvroCodec, AFewBytesThatUnpackToAHundredMegabytesAreRefused) {
  BlockCodec codec(CodecKind::zstandard);
  const std::string stored = codec.compress(std::string(100 << 20, '\0'));
  ASSERT_LT(stored.size(), 60000u);
  EXPECT_EQ(kind_of([&] { codec.decompress(stored, "t"); }), ErrorKind::corrupt);
  BlockCodec snappy(CodecKind::snappy);
  EXPECT_EQ(kind_of([&] { snappy.decompress("\xff\xff\xff\xff\x0f....", "t"); }), ErrorKind::corrupt);
}

}  // namespace
}  // namespace firn::iceberg::avro
