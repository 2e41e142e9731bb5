// The command `firn` as a user runs it, on tables of a folder of the test's own.
#pragma once

#include <algorithm>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/json.h"
#include "iceberg/conformance_tables.h"
#include "support/run_program.h"
#include "support/temp_folder.h"

namespace firn {

using Strings = std::vector<std::string>;

inline ProgramResult run_firn(Strings words, const std::map<std::string, std::string>& env = {},
                              std::string_view input = {}) {
  words.emplace_back(FIRN_PROGRAM);  // not insert: g++ 12 warns of what it inlines there
  std::rotate(words.begin(), words.end() - 1, words.end());
  return run_program(words, env, input);
}

inline std::string words_text(const Strings& words) {
  std::string text = "firn";
  for (const std::string& word : words) text += " " + word;
  return text;
}

// Standard output of a run that must succeed.
inline std::string output_of(const Strings& words, const std::map<std::string, std::string>& env = {},
                             std::string_view input = {}) {
  const ProgramResult result = run_firn(words, env, input);
  EXPECT_EQ(result.status, 0) << words_text(words) << "\n" << result.err;
  return result.out;
}

// The same, as one JSON document.
inline Json json_of(const Strings& words, const std::map<std::string, std::string>& env = {}) {
  const std::string text = output_of(words, env);
  return Json::accept(text) ? Json::parse(text) : (ADD_FAILURE() << words_text(words) << " gave " << text, Json());
}

// Standard error of a run that must fail with `status`, and print nothing else.
inline std::string error_of(const Strings& words, int status = 1) {
  const ProgramResult result = run_firn(words);
  EXPECT_EQ(result.status, status) << words_text(words) << "\n" << result.out << result.err;
  EXPECT_EQ(result.out, "") << words_text(words);
  EXPECT_THAT(result.err, ::testing::StartsWith("firn: "));
  return result.err;
}

inline Strings lines_of(const std::string& text) {
  Strings lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

inline std::string fixture(const std::string& name) { return (iceberg::fixtures_root() / name).string(); }

// JSON rows as a multiset, members in order, whatever their spaces.
inline Strings sorted_rows(const Strings& rows) {
  Strings texts;
  for (const std::string& row : rows) texts.push_back(parse_json(row, "row").dump());
  std::sort(texts.begin(), texts.end());
  return texts;
}

inline Strings rows_of(const std::string& table, const Strings& more = {}) {
  Strings words = {"scan", table, "--json"};
  words.insert(words.end(), more.begin(), more.end());
  return sorted_rows(lines_of(output_of(words)));
}

class FirnCommand : public ::testing::Test {
 protected:
  // Columns id (long, required) and name (string).
  void create(const Strings& more = {}) {
    Strings words = {"create", table_, "--column", "id long required", "--column", "name string"};
    words.insert(words.end(), more.begin(), more.end());
    EXPECT_THAT(output_of(words), ::testing::StartsWith("created " + table_));
  }
  std::string write(const std::string& name, const std::string& text) {
    std::ofstream(folder_ / name) << text;
    return folder_ / name;
  }
  // Appends rows of JSON; returns the snapshot's id.
  int64_t append(const std::string& rows, const Strings& more = {}) {
    Strings words = {"append", table_, "-", "--json"};
    words.insert(words.end(), more.begin(), more.end());
    return parse_json(output_of(words, {}, rows), "append")["snapshot-id"].get<int64_t>();
  }
  std::string count(const Strings& more = {}) {
    Strings words = {"scan", table_, "--count"};
    words.insert(words.end(), more.begin(), more.end());
    return output_of(words);
  }
  // Every file of the table with its bytes: two of them are equal where nothing changed.
  std::map<std::string, std::string> files_of_table() {
    std::map<std::string, std::string> files;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(table_)) {
      if (entry.is_regular_file()) files[entry.path().string()] = iceberg::read_whole(entry.path());
    }
    return files;
  }

  TempFolder folder_;
  std::string table_ = folder_ / "t";
};

}  // namespace firn
