// Tables of other engines with the rows that every reader must see (expected.json): those in tests/fixtures, or in the
// folder that FIRN_CONFORMANCE names.
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>

#include <gtest/gtest.h>

#include "iceberg/scan/json_text.h"
#include "iceberg/scan/row_json.h"
#include "iceberg/scan/scan.h"

namespace firn::iceberg {
namespace {

struct ConformanceTable {
  std::string folder;  // holds expected.json
  Json expected;
  TableMetadata metadata;
  std::shared_ptr<FileIO> io;  // maps /warehouse/<table> to folder
};

std::string file_text(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

std::string file_name(const std::string& path) { return path.substr(path.rfind('/') + 1); }

std::vector<std::string> read_rows(const ConformanceTable& table, const ScanOptions& options) {
  const auto plan = std::make_shared<const ScanPlan>(plan_scan(table.metadata, table.io, options));
  const auto reader = read_tasks(plan, table.io, options);
  std::vector<std::string> rows;
  std::shared_ptr<arrow::RecordBatch> batch;
  while (reader->ReadNext(&batch).ok() && batch) {
    EXPECT_TRUE(batch->ValidateFull().ok()) << batch->ValidateFull().ToString();
    for (int64_t row = 0; row < batch->num_rows(); ++row)
      append_row_json(*batch, plan->projection, row, rows.emplace_back());
  }
  std::sort(rows.begin(), rows.end());
  return rows;
}

// Floats are compared as values ("1.0E300" is "1e+300"): spelled anew, and pairs of maps sorted again.
void respell(Json& value, const Json& type) {
  if (value.is_null()) return;
  if (type.is_string()) {
    const auto name = type.get<std::string>();
    std::string text;
    if (name == "float") append_json_float(std::strtof(value.get<std::string>().c_str(), nullptr), text);
    if (name == "double") append_json_float(std::strtod(value.get<std::string>().c_str(), nullptr), text);
    if (!text.empty()) value = Json::parse(text);
    return;
  }
  const auto kind = type["type"].get<std::string>();
  if (kind == "struct") {
    for (const Json& field : type["fields"]) {
      if (value.contains(field["name"])) respell(value[field["name"].get<std::string>()], field["type"]);
    }
  } else if (kind == "list") {
    for (Json& element : value) respell(element, type["element"]);
  } else {
    std::vector<std::pair<std::string, Json>> pairs;
    for (Json& pair : value) {
      respell(pair[0], type["key"]);
      respell(pair[1], type["value"]);
      pairs.emplace_back(pair.dump(), pair);
    }
    std::sort(pairs.begin(), pairs.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    value = Json::array();
    for (auto& [text, pair] : pairs) value.push_back(std::move(pair));
  }
}

std::vector<std::string> expected_rows(const Json& rows, const Json& schema) {
  std::vector<std::string> lines;
  for (Json row : rows) {
    respell(row, schema);
    lines.push_back(row.dump());
  }
  std::sort(lines.begin(), lines.end());
  return lines;
}

const Json& entry_of(const Json& expected, const Json& snapshot) {
  for (const Json& entry : expected["snapshots"]) {
    if (entry["snapshot"] == snapshot && !entry.contains("lineage")) return entry;
  }
  throw std::runtime_error("no entry " + snapshot.dump());
}

// The entry with the rows that `entry` says are its own too.
const Json& resolved(const Json& expected, const Json& entry) {
  return entry.contains("same_as") ? resolved(expected, entry_of(expected, entry["same_as"])) : entry;
}

ScanOptions options_for(const Json& snapshot) {
  ScanOptions options;
  if (snapshot.is_string()) options.ref = snapshot.get<std::string>();
  if (snapshot.is_number()) options.snapshot_id = snapshot.get<int64_t>();
  return options;
}

// Folders below `root` that hold expected.json, by name.
std::vector<std::string> conformance_tables(const std::string& root) {
  std::vector<std::string> folders;
  if (!std::filesystem::is_directory(root)) return folders;
  for (const auto& entry : std::filesystem::directory_iterator(root)) {
    if (std::filesystem::exists(entry.path() / "expected.json")) folders.push_back(entry.path().string());
  }
  std::sort(folders.begin(), folders.end());
  return folders;
}

ConformanceTable open_conformance_table(const std::string& folder) {
  ConformanceTable table;
  table.folder = folder;
  table.expected = Json::parse(file_text(folder + "/expected.json"));
  const std::string path = folder + "/" + table.expected["metadata_file"].get<std::string>();
  table.metadata = parse_table_metadata(file_text(path), path);
  table.io =
      make_relocated_file_io(make_local_file_io(), "/warehouse/" + table.expected["table"].get<std::string>(), folder);
  return table;
}

// Every snapshot, ref and lineage entry: the rows as a multiset.
void expect_snapshots_as_recorded(const ConformanceTable& table) {
  for (const Json& entry : table.expected["snapshots"]) {
    SCOPED_TRACE("snapshot " + entry["snapshot"].dump() + (entry.contains("lineage") ? " with lineage" : ""));
    const Json& source = resolved(table.expected, entry);
    const Json& schema = resolved(table.expected, entry_of(table.expected, entry["snapshot"]))["schema"];
    ScanOptions options = options_for(entry["snapshot"]);
    options.row_lineage = entry.value("lineage", false);
    const std::vector<std::string> expected = expected_rows(source["rows"], schema);
    EXPECT_EQ(static_cast<int64_t>(expected.size()), source["row_count"].get<int64_t>());
    try {
      options.threads = 2;
      EXPECT_EQ(read_rows(table, options), expected);
      options.batch_rows_max = 3;
      EXPECT_EQ(read_rows(table, options), expected) << "in batches of three rows";
    } catch (const Error& error) {
      ADD_FAILURE() << error.what();
    }
  }
}

// Every plan: the number of rows with its filter, pruned and not; and no file planned that Java does not plan.
void expect_plans_as_recorded(const ConformanceTable& table) {
  for (const Json& plan : table.expected["plans"]) {
    SCOPED_TRACE("filter " + plan["filter"].dump());
    try {
      ScanOptions options;
      options.threads = 2;
      options.filter = expression_from_json(plan["filter"], "expected.json");
      const std::vector<std::string> pruned = read_rows(table, options);
      std::set<std::string> java_files;
      for (const Json& task : plan["tasks"]) java_files.insert(task["file"].get<std::string>());
      for (const FileScanTask& task : plan_scan(table.metadata, table.io, options).tasks) {
        EXPECT_TRUE(java_files.contains(file_name(task.file.file_path)))
            << task.file.file_path << " is not planned by Java";
      }
      options.prune = false;
      EXPECT_EQ(static_cast<int64_t>(pruned.size()), plan["rows"].get<int64_t>());
      EXPECT_EQ(pruned, read_rows(table, options)) << "pruned and not";
    } catch (const Error& error) {
      ADD_FAILURE() << error.what();
    }
  }
}

class Conformance : public testing::TestWithParam<std::string> {};

TEST_P(Conformance, EverySnapshotAndRefHasTheRowsThatJavaReads) {
  expect_snapshots_as_recorded(open_conformance_table(GetParam()));
}

TEST_P(Conformance, EveryFilterGivesTheRecordedRowsAndPlansNoFileThatJavaPrunes) {
  expect_plans_as_recorded(open_conformance_table(GetParam()));
}

std::string root() {
  const char* named = std::getenv("FIRN_CONFORMANCE");
  return named != nullptr ? named : FIRN_SOURCE_DIR "/tests/fixtures";
}

INSTANTIATE_TEST_SUITE_P(Tables, Conformance, testing::ValuesIn(conformance_tables(root())),
                         [](const auto& info) { return std::filesystem::path(info.param).filename().string(); });

}  // namespace
}  // namespace firn::iceberg
