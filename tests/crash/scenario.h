// The real `hyp` in a folder of its own: a scenario of commands, and whether every row of its input came through once.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "hyp/sink/sink_box.h"
#include "support/crash.h"
#include "support/run_program.h"
#include "support/temp_folder.h"

namespace firn::hyp {

struct Step {
  std::string name;
  std::vector<std::string> words;  // the command line of hyp
  std::string input = {};          // standard input
  bool ships = false;              // a sink run
};

// Files that the scenarios read: beside the sites and never copied, since a source is known by its inode (P4.2).
class Inputs {
 public:
  Inputs() {
    write("first.ndjson", 0, 200, "", kBroken);
    write("second.ndjson", 150, 260, "", kBrokenToo);  // the half of them equal to rows of the first
    write("third.ndjson", 0, 60, R"(,"later":true)", "");
    write("fresh.ndjson", 0, 5, "", "");
  }

  std::string path(const std::string& name) const { return folder_ / name; }
  std::string text(const std::string& name) const { return make_local_file_io()->read(path(name)); }

  std::vector<Step> steps() const {
    return {{"ingest of a file", {"ingest", "events", path("first.ndjson")}},
            {"ingest of a pipe", {"ingest", "events", "-", "--id", "readings"}, text("second.ndjson")},
            {"sink run", {"sink", "run"}, {}, true},
            {"ingest without a flush", {"ingest", "events", path("third.ndjson"), "--source", "web", "--no-flush"}},
            {"flush", {"flush"}},
            {"second sink run", {"sink", "run"}, {}, true}};
  }
  // Five rows, two of them equal to earlier ones, that come between a crash and the next sink run (case 20).
  Step fresh() const { return {"ingest of five new rows", {"ingest", "events", path("fresh.ndjson")}}; }

  Lines rows(bool with_fresh) const {
    Lines rows;
    for (const char* name : {"first.ndjson", "second.ndjson", "third.ndjson", "fresh.ndjson"}) {
      if (std::string(name) == "fresh.ndjson" && !with_fresh) continue;
      for (const std::string& line : lines_of_jsonl(path(name))) {
        if (line != kBroken && line != kBrokenToo) rows.push_back(line);
      }
    }
    return rows;
  }
  static Lines rejects() { return {kBroken, kBrokenToo}; }

 private:
  static constexpr const char* kBroken = R"({"at": "2024-03-01)";
  static constexpr const char* kBrokenToo = R"({"at": broken})";

  // Rows [begin, end) of one endless sequence, with nulls, nested values and repetitions.
  void write(const std::string& name, int begin, int end, const std::string& more, const std::string& broken) const {
    std::string text;
    for (int i = begin; i < end; ++i) {
      const int k = i % 40;
      text += fmt::format(R"({{"at":"2024-03-{:02}T{:02}:00:00Z","n":{},"name":"row {}","tags":{},"at_home":{})",
                          1 + k % 3, k % 24, k % 5 == 0 ? "null" : std::to_string(i / 80), k,
                          k % 4 == 0 ? "[]" : fmt::format("[{},null]", k),
                          fmt::format(R"({{"town":"t{}","floor":{}}})", k % 7, k % 3 == 0 ? "null" : "2"));
      text += more + "}\n";
      if (i == (begin + end) / 2 && !broken.empty()) text += broken + "\n";
    }
    replace_file(path(name), text);
  }

  TempFolder folder_;
};

// A row that compares whatever wrote it: no nulls, keys sorted, one spelling of timestamps.
inline std::string canonical(const std::string& row) {
  Json json = without_nulls(Json::parse(row));
  if (const auto at = json.find("at"); at != json.end()) {
    std::string text = at->get<std::string>().substr(0, 19);
    if (text.size() > 10) text[10] = ' ';
    *at = text;
  }
  return json.dump();
}

inline Lines canonical_rows(Lines rows) {
  for (std::string& row : rows) row = canonical(row);
  std::sort(rows.begin(), rows.end());
  return rows;
}

inline Lines lines_of(const std::string& text) {
  Lines lines;
  for (size_t begin = 0, end; (end = text.find('\n', begin)) != std::string::npos; begin = end + 1) {
    lines.push_back(text.substr(begin, end - begin));
  }
  return lines;
}

// Empty if equal.
inline std::string difference(const std::string& place, const Lines& found, const Lines& expected) {
  Lines missing, more;
  std::set_difference(expected.begin(), expected.end(), found.begin(), found.end(), std::back_inserter(missing));
  std::set_difference(found.begin(), found.end(), expected.begin(), expected.end(), std::back_inserter(more));
  std::string text;
  if (!missing.empty()) text += fmt::format("{} lacks {} rows, such as {}\n", place, missing.size(), missing[0]);
  if (!more.empty()) text += fmt::format("{} has {} rows too many, such as {}\n", place, more.size(), more[0]);
  return text;
}

// One cache with its sinks. Tables know where they are, so a state is put back where it was taken.
class Site {
 public:
  // `listen`: of the daemon.
  explicit Site(const std::string& listen = "") {
    fs::create_directory(live_);
    replace_file(live_ + "/hyp.json", fmt::format(R"({{
      "cacheRoot": "cache", "stateDir": "state", "listen": "{}", "flushIntervalMs": 50,
      "datasets": {{"events": {{"primaryTimestampColumn": "at"}}}},
      "sinks": [
        {{"name": "objects", "type": "blob", "path": "objects"}},
        {{"name": "lines", "type": "blob", "path": "lines", "format": "jsonl", "compression": "none", "maxRows": 200}},
        {{"name": "archive", "type": "iceberg", "path": "archive", "maxRows": 200}}
      ]}})",
                                                  listen));
  }

  std::vector<std::string> command(const std::vector<std::string>& words) const {
    std::vector<std::string> argv = {FIRN_HYP_PROGRAM, "--config", live_ + "/hyp.json"};
    argv.insert(argv.end(), words.begin(), words.end());
    return argv;
  }
  ProgramResult run(const Step& step, const std::map<std::string, std::string>& env = {}) const {
    return run_program(command(step.words), env, step.input);
  }
  // Empty if it ended well; rejected rows are no failure.
  std::string run_well(const Step& step) const {
    const ProgramResult result = run(step);
    if (result.status == 0 || result.status == 3) return "";
    return fmt::format("{} ended with status {}: {}\n", step.name, result.status, result.err);
  }
  // Whether it was killed; if not it ended well, or `problem` says how else.
  bool run_killed(const Step& step, size_t pass, Crash crash, std::string& problem) const {
    std::map<std::string, std::string> env = {{"FIRN_FAULT_KILL_AT", std::to_string(pass)}};
    if (crash == Crash::power) env["FIRN_FAULT_FORGET"] = "1";
    const ProgramResult result = run(step, env);
    if (result.status == 137) return true;
    if (result.status != 0 && result.status != 3) {
      problem += fmt::format("{} ended with status {}: {}\n", step.name, result.status, result.err);
    }
    return false;
  }
  std::vector<std::string> points_of(const Step& step) const {
    const std::string log = folder_ / "points";
    fs::remove(log);
    const ProgramResult result = run(step, {{"FIRN_FAULT_LOG", log}});
    if (result.status != 0 && result.status != 3) fail(ErrorKind::internal, "{}: {}", step.name, result.err);
    return lines_of(make_local_file_io()->read(log));
  }

  void save(size_t number) const { copy_folder(live_, saved(number)); }
  void restore(size_t number) const { copy_folder(saved(number), live_); }
  const std::string& live() const { return live_; }

  // What differs from each of `rows` being in the cache and at each destination once, and each of `rejects` set aside
  // once. Empty if nothing does.
  std::string check_rows(const Lines& rows, const Lines& rejects) const {
    const Lines expected = canonical_rows(rows);
    const Step query = {"query", {"query", "select * from events", "--format", "json"}};
    const ProgramResult cached = run(query);
    const ProgramResult archived = run_program({FIRN_FIRN_PROGRAM, "scan", live_ + "/archive/hyp/events", "--json"});
    std::string problem = cached.status == 0 ? "" : "query: " + cached.err;
    if (archived.status != 0) problem += "firn scan: " + archived.err;
    problem += difference("the cache", canonical_rows(lines_of(cached.out)), expected);
    problem += difference("the archive", canonical_rows(lines_of(archived.out)), expected);
    for (const char* blobs : {"objects", "lines"}) {
      problem += difference(blobs, canonical_rows(blob_rows(live_ + "/" + blobs)), expected);
    }
    problem += difference("the rejects file", rejected(), sorted(rejects));
    return problem + check_sinks(rows.size());
  }

 private:
  std::string saved(size_t number) const { return folder_ / fmt::format("saved-{}", number); }

  static Lines sorted(Lines lines) {
    std::sort(lines.begin(), lines.end());
    return lines;
  }

  Lines rejected() const {
    Lines texts;
    const std::string file = live_ + "/cache/rejects/events.ndjson";
    for (const std::string& line : lines_of(make_local_file_io()->read_if_exists(file).value_or(""))) {
      texts.push_back(Json::parse(line).value("text", ""));
    }
    return sorted(texts);
  }

  std::string check_sinks(size_t num_rows) const {
    const ProgramResult status = run({"sink status", {"sink", "status", "--json"}});
    if (status.status != 0) return "sink status: " + status.err;
    std::map<std::string, size_t> shipped;
    std::string problem;
    for (const Json& one : Json::parse(status.out)) {
      shipped[one["sink"].get<std::string>()] += one["exportedRows"].get<size_t>();
      if (one["rowsBehind"] != 0 || !one["pending"].is_null() || !one["lastError"].is_null()) {
        problem += "not at its end: " + one.dump() + "\n";
      }
    }
    for (const auto& [sink, rows] : shipped) {
      if (rows != num_rows) problem += fmt::format("{} counts {} rows of {}\n", sink, rows, num_rows);
    }
    return problem;
  }

  TempFolder folder_;
  std::string live_ = folder_ / "live";
};

}  // namespace firn::hyp
