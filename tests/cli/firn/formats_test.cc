// What `scan` prints, `append` takes: in each format, every type.
#include <fstream>

#include "cli/firn/run_firn.h"

namespace firn {
namespace {

using ::testing::HasSubstr;

// A column of each type, version 3.
constexpr const char* kEveryType = R"json({"fields": [
  {"name": "id", "type": "long", "required": true}, {"name": "flag", "type": "boolean"}, {"name": "small", "type": "int"},
  {"name": "f", "type": "float"}, {"name": "d", "type": "double"}, {"name": "price", "type": "decimal(38,9)"},
  {"name": "day", "type": "date"}, {"name": "t", "type": "time"}, {"name": "ts", "type": "timestamp"},
  {"name": "tz", "type": "timestamptz"}, {"name": "ns", "type": "timestamp_ns"}, {"name": "nz", "type": "timestamptz_ns"},
  {"name": "s", "type": "string"}, {"name": "u", "type": "uuid"}, {"name": "fx", "type": "fixed[3]"},
  {"name": "b", "type": "binary"},
  {"name": "st", "type": {"type": "struct", "fields": [{"name": "x", "type": "int"}, {"name": "y", "type": "string"}]}},
  {"name": "li", "type": {"type": "list", "element": "double"}},
  {"name": "ma", "type": {"type": "map", "key": "string", "value": {"type": "list", "element": "date"}}}]})json";

// Spelled as the conformance tables' manifest says under `encoding`.
const Strings kRows = {
    R"({"id":1,"flag":true,"small":-2147483648,"f":"0.1","d":"1e+300","price":"-0.000000001","day":"0001-01-01",)"
    R"("t":"23:59:59.999999","ts":"1969-12-31T23:59:59.999999","tz":"2024-02-29T12:00:00.000000+00:00",)"
    R"("ns":"1969-12-31T23:59:59.999999999","nz":"2024-02-29T12:00:00.000000001+00:00","s":"a\"b\\c\nd, ü😀",)"
    R"("u":"f79c3e09-677c-4bbd-a479-3f349cb785e7","fx":"00ff10","b":"","st":{"x":7,"y":null},"li":["1.5",null,"NaN"],)"
    R"("ma":[["a",["1970-01-01",null]],["b",null]]})",
    R"({"id":9223372036854775807,"flag":false,"small":2147483647,"f":"NaN","d":"-Infinity",)"
    R"("price":"12345678901234567890123456789.123456789","day":"9999-12-31","t":"00:00:00.000000",)"
    R"("ts":"9999-12-31T23:59:59.999999","tz":"1900-01-01T00:00:00.000000+00:00","ns":"2024-02-29T00:00:00.000000000",)"
    R"("nz":"1970-01-01T00:00:00.000000000+00:00","s":"","u":"00000000-0000-0000-0000-000000000000","fx":"000000",)"
    R"("b":"00ff","st":{"x":null,"y":""},"li":[],"ma":[]})",
    R"({"id":3,"flag":null,"small":null,"f":null,"d":null,"price":null,"day":null,"t":null,"ts":null,"tz":null,)"
    R"("ns":null,"nz":null,"s":null,"u":null,"fx":null,"b":null,"st":null,"li":null,"ma":null})",
    R"({"id":4,"flag":null,"small":null,"f":"-0.0","d":"-0.0","price":"0.000000000","day":null,"t":null,"ts":null,)"
    R"("tz":null,"ns":null,"nz":null,"s":"null","u":null,"fx":null,"b":null,"st":null,"li":null,"ma":null})",
};

class RowFormats : public FirnCommand {
 protected:
  void create_every_type(const std::string& table) {
    output_of({"create", table, "--schema", write("schema.json", kEveryType), "--property", "format-version=3"});
  }
  std::string every_row() {
    std::string text;
    for (const std::string& row : kRows) text += row + "\n";
    return text;
  }
};

TEST_F(RowFormats, JsonThatIsAppendedIsPrintedAgain) {
  create_every_type(table_);
  output_of({"append", table_, write("rows.ndjson", every_row())});
  EXPECT_EQ(rows_of(table_), sorted_rows(kRows));
}

TEST_F(RowFormats, EachFormatThatIsPrintedCanBeAppended) {
  create_every_type(table_);
  output_of({"append", table_, "-"}, {}, every_row());
  for (const char* name : {"x.ndjson", "x.csv", "x.arrow", "x.arrows", "x.parquet"}) {
    SCOPED_TRACE(name);
    const std::string copy = folder_ / (std::string("copy-") + name), file = folder_ / name;
    create_every_type(copy);
    EXPECT_EQ(output_of({"scan", table_, "--output", file}), "");
    output_of({"append", copy, file});
    EXPECT_EQ(rows_of(copy), sorted_rows(kRows));
  }
}

TEST_F(RowFormats, EachFormatGoesThroughAPipe) {
  create_every_type(table_);
  output_of({"append", table_, "-"}, {}, every_row());
  for (const char* format : {"json", "csv", "arrow", "parquet"}) {
    SCOPED_TRACE(format);
    const std::string copy = folder_ / (std::string("copy-") + format);
    create_every_type(copy);
    const std::string bytes = output_of({"scan", table_, "--format", format});
    output_of({"append", copy, "-", "--format", format}, {}, bytes);
    EXPECT_EQ(rows_of(copy), sorted_rows(kRows));
  }
}

TEST_F(RowFormats, VariantsOfAnotherEngineGoThroughEachFormat) {
  const Strings expected = rows_of(fixture("variant_v3"));
  const std::string schema = write("schema.json", output_of({"schema", fixture("variant_v3"), "--json"}));
  for (const char* format : {"json", "csv", "arrow", "parquet"}) {
    SCOPED_TRACE(format);
    const std::string copy = folder_ / (std::string("copy-") + format);
    output_of({"create", copy, "--schema", schema, "--property", "format-version=3"});
    output_of({"append", copy, "-", "--format", format}, {},
              output_of({"scan", fixture("variant_v3"), "--format", format}));
    EXPECT_EQ(rows_of(copy), expected);
  }
}

TEST_F(RowFormats, NestedRowsOfAnotherEngineGoThroughEachFormat) {
  const Strings expected = rows_of(fixture("nested_v2"));
  const std::string schema = write("schema.json", output_of({"schema", fixture("nested_v2"), "--json"}));
  for (const char* format : {"json", "csv", "arrow", "parquet"}) {
    SCOPED_TRACE(format);
    const std::string copy = folder_ / (std::string("copy-") + format);
    output_of({"create", copy, "--schema", schema});
    output_of({"append", copy, "-", "--format", format}, {},
              output_of({"scan", fixture("nested_v2"), "--format", format}));
    EXPECT_EQ(rows_of(copy), expected);
  }
}

TEST_F(RowFormats, NumbersMayBeNumbersAndRowsMayLackColumns) {
  output_of({"create", table_, "--column", "a double", "--column", "b decimal(9,2)", "--column", "c long", "--property",
             "format-version=3"});
  output_of({"alter", "add-column", table_, "e", "int", "--default", "7"});
  append("{\"a\": 1.5, \"b\": 2.5, \"c\": \"12\"}\r\n\n  {\"c\": 3, \"e\": null}");
  EXPECT_EQ(rows_of(table_),
            sorted_rows({R"({"a":"1.5","b":"2.50","c":12,"e":7})", R"({"a":null,"b":null,"c":3,"e":null})"}));
  output_of({"append", table_, write("x.csv", "c\n4\n")});
  EXPECT_EQ(rows_of(table_, {"--where", "c = 4"}), (Strings{R"({"a":null,"b":null,"c":4,"e":7})"}));
}

TEST_F(RowFormats, CsvTellsNullFromEmptyText) {
  create();
  output_of({"append", table_, write("x.csv", "name,id\n,1\n\"\",2\n\"a, \"\"b\"\"\nc\",3\nnull,4\n")});
  EXPECT_EQ(rows_of(table_), sorted_rows({R"({"id":1,"name":null})", R"({"id":2,"name":""})",
                                          R"({"id":3,"name":"a, \"b\"\nc"})", R"({"id":4,"name":"null"})"}));
  const std::string csv = output_of({"scan", table_, "--csv", "--select", "id,name", "--where", "id < 4"});
  EXPECT_THAT(csv, HasSubstr("\n1,\n"));
  EXPECT_THAT(csv, HasSubstr("\n2,\"\"\n"));
  EXPECT_THAT(csv, HasSubstr("\n3,\"a, \"\"b\"\"\nc\"\n"));
}

TEST_F(RowFormats, CsvWhoseQuotesAreWrongIsRefusedByTheirLine) {
  create();
  const auto refused = [&](const std::string& text, const std::string& message) {
    EXPECT_THAT(error_of({"append", table_, write("x.csv", text)}), HasSubstr(message));
  };
  refused("id,name\n1,\"unterminated\n2,3\n3,4\n", "line 2: the quote that opens there is never closed");
  refused("id,name\n1,x\n2,\"a\"b\n", "line 3: text follows the quote");
  refused("id,name\r\n1,\"a\r\nb\"\r\n2,\"a\" \r\n", "line 4: text follows the quote");
  refused("\xEF\xBB\xBF\"id\",\"name\n1,a\n", "line 1: the quote that opens there is never closed");
  std::string many = "id,name\n";  // beyond a block
  for (int i = 0; i < 300'000; ++i) many += std::to_string(i) + ",abc\n";
  refused(many + "7,\"a\"b\n", "line 300002: text follows the quote");
  refused("id,name\n1,\"open\n" + many, "line 2");
  EXPECT_EQ(count(), "0\n");
  output_of({"append", table_, write("x.csv", "\xEF\xBB\xBF\"id\",name\n1,5\" pipe\n2,\"\"\"\"\n3,\"a\n\"\"b\"")});
  EXPECT_EQ(rows_of(table_),
            sorted_rows({R"({"id":1,"name":"5\" pipe"})", R"({"id":2,"name":"\""})", R"({"id":3,"name":"a\n\"b"})"}));
}

TEST_F(RowFormats, NewColumnsOfCsvKeepWhatTheirTextSays) {
  create();
  const ProgramResult result =
      run_firn({"append", table_,
                write("x.csv",
                      "id,zip,n,d,big,day,ts,tz,ok,none\n"
                      "1,01234,7,1.5,9223372036854775808,2024-02-29,2024-02-29 12:00:00,2024-02-29T12:00:00Z,true,\n"
                      "2,99999,-8,3,1,2024-03-01,2024-03-01T00:00:00.5,2024-03-01T00:00:00+01:00,false,\n"),
                "--add-columns"});
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_THAT(result.err, HasSubstr("column 'none' has no value in the first rows, and is left out"));
  std::map<std::string, std::string> types;
  const Json schema = json_of({"schema", table_, "--json"});
  for (const Json& field : schema["fields"]) types[field["name"]] = field["type"];
  EXPECT_EQ(types, (std::map<std::string, std::string>{{"id", "long"},
                                                       {"name", "string"},
                                                       {"zip", "string"},
                                                       {"n", "long"},
                                                       {"d", "double"},
                                                       {"big", "string"},
                                                       {"day", "date"},
                                                       {"ts", "timestamp"},
                                                       {"tz", "timestamptz"},
                                                       {"ok", "boolean"}}));
  EXPECT_EQ(output_of({"scan", table_, "--json", "--select", "zip,n,d,big", "--where", "id = 1"}),
            R"({"zip":"01234","n":7,"d":"1.5","big":"9223372036854775808"})"
            "\n");
  EXPECT_THAT(error_of({"append", table_, write("x.csv", "id,n\n3,99999999999999999999\n")}), HasSubstr("no long"));
}

TEST_F(RowFormats, ANewColumnOfCsvDoesNotChangeItsKindLater) {
  create();
  std::string text = "id,n,late\n";
  for (int i = 0; i < 200'000; ++i) text += std::to_string(i) + ",12,\n";
  EXPECT_THAT(run_firn({"append", table_, write("x.csv", text + "1,012,\n"), "--add-columns"}).err,
              HasSubstr("row 200001: the new column 'n' has '012', and in the first rows long alone"));
  EXPECT_THAT(run_firn({"append", table_, write("x.csv", text + "1,12,x\n"), "--add-columns"}).err,
              HasSubstr("the new column 'late' has 'x', and in the first rows no value"));
  EXPECT_EQ(count(), "0\n");
}

TEST_F(RowFormats, AddingColumnsWidensNone) {
  output_of({"create", table_, "--column", "id int", "--column", "s struct<x: float>"});
  const std::string wide = folder_ / "wide";
  output_of({"create", wide, "--column", "id long", "--column", "s struct<x: double>", "--column", "more string"});
  output_of({"append", wide, "-"}, {}, R"({"id":1,"s":{"x":0.5},"more":"m"})");
  for (const char* name : {"x.parquet", "x.arrow"}) {
    const std::string file = folder_ / name, half = folder_ / (std::string("half-") + name);
    output_of({"scan", wide, "--output", file});
    const std::vector<Strings> both = {{"append", table_, file, "--add-columns"}, {"append", table_, file}};
    for (const Strings& words : both) {
      const std::string error = error_of(words);
      EXPECT_THAT(error, HasSubstr("column id is long in the rows and int in the table"));
      EXPECT_THAT(error, HasSubstr("alter promote-column"));
    }
    output_of({"scan", wide, "--select", "s", "--output", half});
    EXPECT_THAT(error_of({"append", table_, half, "--add-columns"}), HasSubstr("column s.x is double"));
  }
  EXPECT_EQ(json_of({"schema", table_, "--json"})["fields"][0]["type"], "int");
  EXPECT_EQ(json_of({"schema", table_, "--json"})["fields"].size(), 2u);
}

TEST_F(RowFormats, AParquetFileThatSaysOfItsRowsWhatIsNotSoIsRefused) {
  output_of({"create", table_, "--column", "id int"});
  std::string rows;
  for (int i = 0; i < 300; ++i) rows += "{\"id\":" + std::to_string(i) + "}\n";
  output_of({"append", table_, write("x.ndjson", rows)});
  const std::string path = folder_ / "x.parquet";
  output_of({"scan", table_, "--output", path});
  std::ifstream in(path, std::ios::binary);
  std::string bytes{std::istreambuf_iterator<char>(in), {}};
  const size_t at = bytes.rfind("\xD8\x04");  // 300 as the footer writes it; the row group's comes last
  ASSERT_NE(at, std::string::npos);
  EXPECT_THAT(error_of({"append", table_, write("y.parquet", bytes.replace(at, 2, "\xD8\x02"))}),
              ::testing::AllOf(HasSubstr("y.parquet"), HasSubstr("172 rows"), HasSubstr("300")));
}

TEST_F(RowFormats, AnAppendIsTriedDry) {
  create();
  const std::string file = write("x.ndjson", "{\"id\":1,\"extra\":\"x\"}\n");
  const auto before = files_of_table();
  const Json would = json_of({"append", table_, file, "--add-columns", "--dry-run", "--json"});
  EXPECT_EQ(would["rows"], 1);
  EXPECT_EQ(would["files"], 1);
  EXPECT_TRUE(would["dry-run"]);
  EXPECT_THAT(error_of({"append", table_, file, "--dry-run"}), HasSubstr("extra"));
  EXPECT_EQ(files_of_table(), before);
}

TEST_F(RowFormats, AWrongValueIsNamedWithItsPlace) {
  create_every_type(table_);
  const auto refused = [&](const std::string& name, const std::string& text, const std::string& message) {
    EXPECT_THAT(error_of({"append", table_, write(name, text)}), HasSubstr(message));
  };
  refused("x.ndjson", "{\"id\":1}\n{\"id\":\"x\"}\n", "x.ndjson line 2: column id: 'x' is no long");
  refused("x.ndjson", "{\"id\":1}\n\n{\"id\":1", "x.ndjson line 3");
  refused("x.ndjson", "[1]\n", "line 1: a row is a JSON object");
  refused("x.ndjson", "{\"name\":1}\n", "no column 'name'");
  refused("x.ndjson", "{\"flag\":true}\n", "line 1: column id: it is required");
  refused("x.ndjson", "{\"id\":1.5}\n", "'1.5' is no long");
  refused("x.ndjson", "{\"id\":1,\"small\":2147483648}\n", "column small: '2147483648' is no int");
  refused("x.ndjson", "{\"id\":1,\"s\":1}\n", "column s: '1' is no string");
  refused("x.ndjson", "{\"id\":1,\"tz\":\"2024-01-01T00:00:00\"}\n", "needs an offset");
  refused("x.ndjson", "{\"id\":1,\"tz\":\"2024-01-01T00:00:00.1234567Z\"}\n", "more than 6 digits");
  refused("x.ndjson", "{\"id\":1,\"ts\":\"2024-01-01T00:00:00Z\"}\n", "it has an offset");
  refused("x.ndjson", "{\"id\":1,\"day\":\"2023-02-29\"}\n", "'2023-02-29' is no date");
  refused("x.ndjson", "{\"id\":1,\"price\":\"0.0000000001\"}\n", "is no decimal(38,9)");
  refused("x.ndjson", "{\"id\":1,\"price\":\"340282366920938463463374607431768211457\"}\n", "is no decimal(38,9)");
  refused("x.ndjson", "{\"id\":1,\"price\":3.402823669209385e+38}\n", "is no decimal(38,9)");
  refused("x.ndjson", "{\"id\":1,\"st\":{\"x\":\"a\"}}\n", "column st.x: 'a' is no int");
  refused("x.ndjson", "{\"id\":[1]}\n", "column id: 'an array' is no long");
  refused("x.ndjson", "{\"id\":" + std::string(1'000'000, '[') + std::string(1'000'000, ']') + "}\n",
          "x.ndjson line 1");
  refused("x.ndjson", "{\"id\":1,\"st\":{\"z\":1}}\n", "column st: the struct has no field 'z'");
  refused("x.ndjson", "{\"id\":1,\"fx\":\"00\"}\n", "column fx: '00' is no fixed[3]");
  refused("x.csv", "id,day\n1,2024-01-01\n2,soon\n", "x.csv row 2: column day: 'soon' is no date");
  refused("x.csv", "id,id\n1,1\n", "titled 'id'");
  refused("x.csv", "id,who\n1,1\n", "no column 'who'");
  refused("x.txt", "id\n1\n", "the name tells no format");
  refused("x.parquet", "not parquet", "x.parquet");
  refused("x.arrow", "not arrow", "x.arrow");
  EXPECT_EQ(count(), "0\n");
}

TEST_F(RowFormats, NewColumnsOfTextGetTheirTypesFromTheFirstRows) {
  create();
  output_of({"append", table_, "-", "--add-columns"}, {},
            "{\"id\":1,\"n\":null}\n{\"id\":2,\"n\":5,\"x\":1}\n{\"id\":3,\"x\":1.5,\"ok\":true,\"who\":\"me\"}\n");
  const Json schema = json_of({"schema", table_, "--json"});
  std::map<std::string, std::string> types;
  for (const Json& field : schema["fields"]) types[field["name"]] = field["type"];
  EXPECT_EQ(
      types,
      (std::map<std::string, std::string>{
          {"id", "long"}, {"name", "string"}, {"n", "long"}, {"x", "double"}, {"ok", "boolean"}, {"who", "string"}}));
  EXPECT_TRUE(schema["fields"][0]["required"]);
  EXPECT_EQ(output_of({"scan", table_, "--json", "--where", "id = 2"}),
            "{\"id\":2,\"name\":null,\"n\":5,\"x\":\"1.0\",\"ok\":null,\"who\":null}\n");
  EXPECT_THAT(error_of({"append", table_, write("x.ndjson", "{\"id\":4,\"deep\":{}}\n"), "--add-columns"}),
              HasSubstr("alter add-column"));
}

TEST_F(RowFormats, ANewColumnWithTheFullNameOfAnotherIsRefused) {
  create();
  output_of({"alter", "add-column", table_, "s", "struct<x: int>"});
  EXPECT_THAT(error_of({"append", table_, write("x.ndjson", "{\"id\":4,\"s.x\":5}\n"), "--add-columns"}),
              HasSubstr("s.x"));
  EXPECT_EQ(count(), "0\n");
}

TEST_F(RowFormats, PackedTextIsRead) {
  create();
  const std::string plain = write("x.ndjson", "{\"id\":1}\n{\"id\":2}\n");
  ASSERT_EQ(run_program({"gzip", "-k", plain}).status, 0);
  output_of({"append", table_, plain + ".gz"});
  EXPECT_EQ(count(), "2\n");
}

TEST_F(RowFormats, AFileIsThereOnlyOnceItIsWhole) {
  create();
  append("{\"id\":1}\n");
  for (const char* name : {"x.csv", "x.parquet"}) {
    const std::string file = write(name, "old");
    EXPECT_EQ(run_firn({"scan", table_, "--output", file, "--where", "nope = 1"}).status, 1);
    EXPECT_EQ(iceberg::read_whole(file), "old");
  }
  EXPECT_THAT(error_of({"scan", table_, "--output", folder_ / "none/x.csv"}), HasSubstr("there is no folder"));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "none"));
  EXPECT_THAT(error_of({"scan", table_, "--output", folder_ / "x.xyz"}, 2), HasSubstr("--format"));
  EXPECT_EQ(output_of({"scan", table_, "--output", folder_ / "y.csv"}), "");
  EXPECT_EQ(iceberg::read_whole(folder_ / "y.csv"), "id,name\n1,\n");
}

}  // namespace
}  // namespace firn
