// Columns that come, widen, or cannot.
#include <filesystem>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "hyp/cache/cache_box.h"
#include "hyp/cache/table_opens.h"
#include "hyp/cache/visible_schema.h"
#include "support/crash.h"

namespace firn::hyp {
namespace {

using iceberg::Field;
using iceberg::Schema;
using testing::AllOf;
using testing::HasSubstr;

const PartitionId kPartition{"logs", "s"};

Schema schema_of(const std::vector<std::pair<std::string, std::string>>& columns) {
  std::vector<Field> fields;
  int32_t id = 0;
  for (const auto& [name, type] : columns) fields.push_back({++id, name, false, iceberg::parse_primitive_type(type)});
  return Schema(fields);
}

std::string type_of(const Cache& cache, const std::string& column) {
  const auto held = cache.hold(kPartition);
  const Field* field = held->table.metadata->schema().find_field(std::string_view(column));
  return field == nullptr ? "" : field->type->to_string() + (field->required ? " required" : "");
}

std::set<std::string> data_files(const Cache& cache) {
  std::set<std::string> paths;
  const auto held = cache.hold(kPartition);
  const auto& metadata = *held->table.metadata;
  for (const auto& live : iceberg::live_files(metadata, *metadata.current_snapshot(), *cache.io())) {
    paths.insert(live.file.file_path);
  }
  return paths;
}

std::string refusal(const Cache& cache) {
  try {
    check_declared_columns(cache, "logs");
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::config);
    return e.what();
  }
  return "";
}

FlushReport flush_lines(const CacheBox& box, const Lines& lines) {
  Cache cache(box.config);
  return ingest(cache, {make_frame("logs", "s", lines)});
}

TEST(Evolution, NewColumnsComeInPlaceAndAreNullInOldRows) {
  CacheBox box;
  flush_lines(box, {R"({"id":1})", R"({"id":2})"});
  Cache cache(box.config);
  const auto before = data_files(cache);
  const std::string location = cache.hold(kPartition)->operations->location();
  ingest(cache, {make_frame("logs", "s", {R"({"id":3,"text":"x","at":{"x":1}})"})});
  ingest(cache, {make_frame("logs", "s", {R"({"id":4,"at":{"y":[true]}})"})});
  const auto after = data_files(cache);
  EXPECT_TRUE(std::includes(after.begin(), after.end(), before.begin(), before.end()));
  EXPECT_EQ(cache.hold(kPartition)->operations->location(), location);
  EXPECT_EQ(
      read_sequenced(cache, kPartition).rows,
      (Lines{R"({"id":1,"text":null,"at":null})", R"({"id":2,"text":null,"at":null})",
             R"({"id":3,"text":"x","at":{"x":1,"y":null}})", R"({"id":4,"text":null,"at":{"x":null,"y":[true]}})"}));
}

// Parquet's readers stop at a schema 100 levels deep; a list is two.
TEST(Evolution, ARowOfAnyDepthIsARejectOrCanBeRead) {
  CacheBox box;
  Cache cache(box.config);
  int64_t taken = 0, read = 0;
  for (const int depth : {1, 21, 22, 31, 33, 63}) {
    Lines lines;
    for (const auto& [open, close] : {std::pair("[", "]"), std::pair("{\"m\":", "}"), std::pair("[{\"m\":", "}]")}) {
      std::string line = fmt::format("{{\"c{}\":", lines.size());
      for (int i = 0; i < depth; ++i) line += open;
      line += "1";
      for (int i = 0; i < depth; ++i) line += close;
      lines.push_back(line + "}");
    }
    const std::string dataset = fmt::format("depth{}", depth);
    taken += ingest(cache, {make_frame(dataset, "s", lines)}).rows;
    read += static_cast<int64_t>(read_sequenced(cache, {dataset, "s"}).rows.size());
  }
  EXPECT_EQ(taken, 4 + 6 + 2);  // lists to 31, structs to 63, lists of structs to 21
  EXPECT_EQ(read, taken);
}

TEST(Evolution, ATypeThatWidensIsPromotedAndOldRowsKeepTheirValues) {
  CacheBox box;
  DatasetConfig& dataset = box.declare("logs");
  dataset.schema = schema_of({{"i", "int"}, {"f", "float"}, {"d", "decimal(5,2)"}});
  dataset.allow_new_columns = false;
  const std::string old_row = R"({"i":7,"f":0.5,"d":"123.45"})";
  flush_lines(box, {old_row});
  dataset.schema = schema_of({{"i", "long"}, {"f", "double"}, {"d", "decimal(12,2)"}});
  {
    Cache cache(box.config);
    EXPECT_EQ(refusal(cache), "");
  }
  const auto report = flush_lines(box, {R"({"i":3000000000,"f":0.1,"d":"1234567890.12"})", old_row});
  EXPECT_EQ(report.rows, 2);
  Cache cache(box.config);
  EXPECT_EQ(type_of(cache, "i"), "long");
  EXPECT_EQ(type_of(cache, "f"), "double");
  EXPECT_EQ(type_of(cache, "d"), "decimal(12,2)");
  const auto rows = read_sequenced(cache, kPartition).rows;
  ASSERT_EQ(rows.size(), 3u);
  EXPECT_EQ(rows[0], rows[2]);
  EXPECT_EQ(Json::parse(rows[0])["i"], 7);
  EXPECT_EQ(rows[1], R"({"i":3000000000,"f":"0.1","d":"1234567890.12"})");
  // Whether it was written as int or as long: it is the same row.
  const auto held = cache.hold(kPartition);
  iceberg::ScanOptions scan;
  scan.columns = {kIngestSeqColumn, kRowIdColumn};
  std::map<int64_t, std::string> row_ids;
  for (const std::string& text : rows_of(*iceberg::scan(*held->table.metadata, cache.io(), scan),
                                         held->table.metadata->schema().select(scan.columns))) {
    const Json row = Json::parse(text);
    row_ids[row[kIngestSeqColumn].get<int64_t>()] = row[kRowIdColumn].get<std::string>();
  }
  EXPECT_EQ(row_ids.begin()->second, row_ids.rbegin()->second);
  EXPECT_EQ(std::set<std::string>({row_ids.begin()->second, std::next(row_ids.begin())->second}).size(), 2u);
}

TEST(Evolution, NarrowingIsRefusedByNameAndNoRowIsLost) {
  struct Case {
    std::string before, after, good, bad;
  };
  for (const Case& one : {Case{"long", "int", "5", "\"x\""}, Case{"double", "float", "0.5", "\"x\""},
                          Case{"long", "string", "5", "\"x\""}, Case{"string", "long", "\"x\"", "5"},
                          Case{"decimal(9,2)", "decimal(5,2)", "\"12.34\"", "\"x\""},
                          Case{"decimal(9,2)", "decimal(9,3)", "\"12.34\"", "\"12.345\""}}) {
    SCOPED_TRACE(one.before + " to " + one.after);
    CacheBox box;
    DatasetConfig& dataset = box.declare("logs");
    dataset.schema = schema_of({{"id", "long"}, {"v", one.before}});
    flush_lines(box, {fmt::format(R"({{"id":1,"v":{}}})", one.good)});
    dataset.schema = schema_of({{"id", "long"}, {"v", one.after}});
    {
      Cache cache(box.config);
      EXPECT_THAT(refusal(cache), AllOf(HasSubstr("\"v\""), HasSubstr("declared as"), HasSubstr("source=s")));
    }
    // What was spooled under it all the same.
    const std::string bad = fmt::format(R"({{"id":3,"v":{}}})", one.bad);
    const auto report = flush_lines(box, {fmt::format(R"({{"id":2,"v":{}}})", one.good), bad});
    EXPECT_TRUE(report.problems.empty());
    EXPECT_EQ(report.rows, 1);
    Cache cache(box.config);
    EXPECT_EQ(cache.hold(kPartition)->table.metadata->schema().find_field("v")->type->id(),
              iceberg::parse_primitive_type(one.before)->id());
    EXPECT_EQ(read_sequenced(cache, kPartition).rows.size(), 2u);
    const auto rejects = rejects_of(box, "logs");
    ASSERT_EQ(rejects.size(), 1u);
    EXPECT_EQ(rejects[0]["column"], "v");
    EXPECT_EQ(rejects[0]["text"], bad);
  }
}

TEST(Evolution, ANewRequiredColumnIsRefusedByNameAndRowsWithoutItAreRejects) {
  CacheBox box;
  DatasetConfig& dataset = box.declare("logs");
  dataset.schema = schema_of({{"id", "long"}});
  dataset.allow_new_columns = false;
  flush_lines(box, {R"({"id":1})"});
  dataset.schema = Schema({{1, "id", false, iceberg::parse_primitive_type("long")},
                           {2, "must", true, iceberg::parse_primitive_type("string")}});
  {
    Cache cache(box.config);
    EXPECT_THAT(refusal(cache), AllOf(HasSubstr("\"must\""), HasSubstr("required"), HasSubstr("source=s")));
  }
  const Lines lacking = {R"({"id":2})", R"({"id":4,"must":null})"};
  const auto report = flush_lines(box, {lacking[0], R"({"id":3,"must":"x"})", lacking[1]});
  EXPECT_TRUE(report.problems.empty()) << report.problems[0];
  EXPECT_EQ(report.rows, 1);
  EXPECT_EQ(report.rejected, 2);
  EXPECT_EQ(rejected_texts(box, "logs"), lacking);
  for (const Json& reject : rejects_of(box, "logs")) EXPECT_EQ(reject["column"], "must");
  Cache cache(box.config);
  EXPECT_EQ(type_of(cache, "must"), "string");  // the rows before it lack it
  EXPECT_EQ(cached_rows(cache, kPartition), (Lines{R"({"id":1})", R"({"id":3,"must":"x"})"}));
}

// Names that differ only in case are one column (P4.3), at any depth.
TEST(Evolution, ADeclarationThatSpellsAColumnInOtherCaseIsRefusedByNameAndMakesNoSecondColumn) {
  for (const bool takes_others : {true, false}) {
    SCOPED_TRACE(takes_others ? "with additional columns" : "without");
    CacheBox box;
    const std::string first = R"({"id":1,"o":{"a":1},"l":[{"b":1}]})";
    flush_lines(box, {first});
    DatasetConfig& dataset = box.declare("logs");
    dataset.allow_new_columns = takes_others;
    const Schema cached = without_hidden(Cache(box.config).hold(kPartition)->table.metadata->schema());
    const auto declare = [&](const std::string& name, const iceberg::TypePtr& type) {
      std::vector<Field> fields = cached.fields();
      for (Field& field : fields) {
        if (fold_name(field.name) == fold_name(name)) field = {field.id, name, false, type};
      }
      dataset.schema = Schema(std::move(fields));
    };
    const auto number = iceberg::parse_primitive_type("long");
    const auto members = [&](const char* name) { return iceberg::Type::struct_of({{20, name, false, number}}); };
    struct Case {
      std::string name;
      iceberg::TypePtr type;
      std::string declared, known, line;
    };
    for (const Case& one :
         {Case{"ID", number, "ID", "id", R"({"ID":2})"}, Case{"o", members("A"), "o.A", "o.a", R"({"o":{"A":2}})"},
          Case{"l", iceberg::Type::list_of(21, false, members("B")), "l.element.B", "l.element.b",
               R"({"l":[{"B":2}]})"}}) {
      SCOPED_TRACE(one.declared);
      declare(one.name, one.type);
      {
        Cache cache(box.config);
        EXPECT_THAT(refusal(cache), AllOf(HasSubstr("column \"" + one.declared + "\" is declared"),
                                          HasSubstr("has it as \"" + one.known + "\""), HasSubstr("source=s")));
      }
      // What was spooled all the same: as such lines are without a declaration.
      const auto before = rejected_texts(box, "logs").size();
      const auto report = flush_lines(box, {one.line, first});
      EXPECT_TRUE(report.problems.empty());
      EXPECT_EQ(report.rows, 1);
      EXPECT_EQ(rejected_texts(box, "logs").size(), before + 1);
      EXPECT_EQ(rejects_of(box, "logs").back()["text"], one.line);
      Cache cache(box.config);
      EXPECT_EQ(without_hidden(cache.hold(kPartition)->table.metadata->schema()).as_struct()->to_string(),
                cached.as_struct()->to_string());
    }
    dataset.schema.reset();
    dataset.allow_new_columns = true;
    Cache cache(box.config);
    EXPECT_EQ(refusal(cache), "");
    EXPECT_EQ(cached_rows(cache, kPartition), Lines(4, normal(first)));
  }
}

TEST(Evolution, ADeclarationThatOnlyAnotherSourceContradictsMakesNoSecondColumnEither) {
  CacheBox box;
  {
    Cache cache(box.config);
    ingest(cache, {make_frame("logs", "s", {R"({"v":1})"}), make_frame("logs", "other", {R"({"v":1})"})});
    ingest(cache, {make_frame("logs", "other", {R"({"id":1})"})});  // "s" has no such column
  }
  DatasetConfig& dataset = box.declare("logs");
  dataset.schema = schema_of({{"ID", "long"}, {"v", "long"}, {"w", "long"}});
  dataset.allow_new_columns = true;
  Cache cache(box.config);
  EXPECT_THAT(refusal(cache), HasSubstr("\"ID\""));
  const Lines bad = {R"({"ID":2})", R"({"ID":2,"v":2})"};
  const auto report = ingest(cache, {make_frame("logs", "s", {bad[0], R"({"id":2,"w":2})"}),
                                     make_frame("logs", "new", {bad[1], R"({"id":3})"})});
  EXPECT_EQ(report.rows, 2);
  EXPECT_THAT(rejected_texts(box, "logs"), testing::UnorderedElementsAreArray(bad));
  for (const PartitionId& partition : cache.partitions("logs")) {
    for (const Field& field : cache.hold(partition)->table.metadata->schema().fields()) EXPECT_NE(field.name, "ID");
  }
  EXPECT_EQ(cached_rows(cache, {"logs", "s"}), (Lines{R"({"id":2,"w":2})", R"({"v":1})"}));
  EXPECT_EQ(cached_rows(cache, {"logs", "new"}), (Lines{R"({"id":3})"}));
}

TEST(Evolution, APartitionColumnInOtherCaseThanTheRowsMakesNoSecondColumn) {
  CacheBox box;
  box.declare("logs").cache_partitioning = {{.column = "Day", .transform = "identity"}};
  const Lines rows = {R"({"day":"mon"})"};
  const auto report = flush_lines(box, rows);
  ASSERT_EQ(report.problems.size(), 1u);
  EXPECT_THAT(report.problems[0], AllOf(HasSubstr("\"Day\""), HasSubstr("\"day\""), HasSubstr("cachePartitioning")));
  box.declare("logs").cache_partitioning = {{.column = "day", .transform = "identity"}};
  Cache cache(box.config);
  for (const auto& spool : Spool::open_abandoned(box.config.cache_root)) flush(cache, *spool);
  EXPECT_EQ(cached_rows(cache, kPartition), rows);
}

TEST(Evolution, AColumnThatIsRequiredFromTheFirstRowOnStaysSo) {
  CacheBox box;
  DatasetConfig& dataset = box.declare("logs");
  dataset.schema = Schema({{1, "id", true, iceberg::parse_primitive_type("int")}});
  flush_lines(box, {R"({"id":1})", R"({"other":2})"});
  dataset.schema = Schema({{1, "id", true, iceberg::parse_primitive_type("long")}});
  flush_lines(box, {R"({"id":3000000000})", R"({"other":3})"});
  Cache cache(box.config);
  EXPECT_EQ(refusal(cache), "");
  EXPECT_EQ(type_of(cache, "id"), "long required");
  EXPECT_EQ(read_sequenced(cache, kPartition, {.columns = {"id"}}).rows,
            (Lines{R"({"id":1})", R"({"id":3000000000})"}));
  EXPECT_EQ(rejected_texts(box, "logs"), (Lines{R"({"other":2})", R"({"other":3})"}));
}

// Each of several processes brings the column "new" as it sees it, and rows of its own all the time.
TEST(Evolution, ProcessesThatBringTheSameColumnAtOnceAgreeOnOne) {
  constexpr int kProcesses = 3, kRows = 6;
  const std::vector<std::string> values = {"1", "\"x\"", "true"};
  for (const bool is_one_type : {true, false}) {
    SCOPED_TRACE(is_one_type ? "one type" : "a type each");
    CacheBox box;
    flush_lines(box, {R"({"id":-1})"});
    const auto value = [&](int process) { return values[is_one_type ? 0 : static_cast<size_t>(process)]; };
    EXPECT_EQ(run_in_children(kProcesses,
                              [&](int process) {
                                Cache cache(box.config);
                                const auto spool = Spool::open(box.config.cache_root);
                                for (int i = 0; i < kRows; ++i) {
                                  const int id = process * kRows + i;
                                  spool->append({make_frame(
                                      "logs", "s", {fmt::format(R"({{"id":{},"new":{}}})", id, value(process))})});
                                  const auto report = flush(cache, *spool);
                                  if (report.rows + report.rejected != 1 || !report.problems.empty()) {
                                    fail(ErrorKind::internal, "{}", fmt::join(report.problems, "; "));
                                  }
                                }
                              }),
              0);
    Cache cache(box.config);
    const auto& fields = cache.hold(kPartition)->table.metadata->schema().fields();
    EXPECT_EQ(std::count_if(fields.begin(), fields.end(), [](const Field& field) { return field.name == "new"; }), 1);
    std::set<int64_t> ids;
    std::set<std::string> kinds;
    for (const std::string& text : read_sequenced(cache, kPartition).rows) {
      const Json row = Json::parse(text);
      EXPECT_TRUE(ids.insert(row["id"].get<int64_t>()).second);
      if (!row["new"].is_null()) kinds.insert(row["new"].type_name());
      if (row["id"].get<int64_t>() < 0) continue;
      EXPECT_EQ(row["new"].dump(), value(row["id"].get<int>() / kRows)) << text;
    }
    EXPECT_EQ(kinds.size(), 1u);
    for (const Json& reject : rejects_of(box, "logs")) {
      EXPECT_EQ(reject["column"], "new");
      EXPECT_TRUE(ids.insert(Json::parse(reject["text"].get<std::string>())["id"].get<int64_t>()).second);
    }
    EXPECT_EQ(ids.size(), static_cast<size_t>(kProcesses * kRows + 1));
    EXPECT_EQ(rejects_of(box, "logs").empty(), is_one_type);
  }
}

}  // namespace
}  // namespace firn::hyp
