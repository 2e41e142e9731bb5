// Answers of statements over a test's cache.
#pragma once

#include <algorithm>
#include <sstream>
#include <string>

#include "hyp/cache/cache_box.h"
#include "hyp/query/query.h"

namespace firn::hyp {

inline std::string text_result(const Cache& cache, const std::string& sql, OutputFormat format,
                               const QueryOptions& options = {}) {
  std::ostringstream out;
  const auto rows = run_query(cache, sql, options);
  write_result(*rows, format, out);
  return out.str();
}

// The result's rows as JSON, as they come.
inline Lines json_rows(const Cache& cache, const std::string& sql, const QueryOptions& options = {}) {
  Lines lines;
  std::istringstream text(text_result(cache, sql, OutputFormat::json, options));
  for (std::string line; std::getline(text, line);) lines.push_back(line);
  return lines;
}

inline Lines sorted(Lines lines) {
  std::sort(lines.begin(), lines.end());
  return lines;
}

// The one value of a result of one row and column, as JSON.
inline std::string single_value(const Cache& cache, const std::string& sql, const QueryOptions& options = {}) {
  const Lines rows = json_rows(cache, sql, options);
  if (rows.size() != 1) return fmt::format("{} rows", rows.size());
  return Json::parse(rows[0]).begin()->dump();
}

// What the statement fails with.
struct Failure {
  ErrorKind kind = ErrorKind::internal;
  std::string message;
};
inline Failure failure_of(const Cache& cache, const std::string& sql, const QueryOptions& options = {}) {
  try {
    json_rows(cache, sql, options);
  } catch (const Error& e) {
    return {e.kind(), e.what()};
  }
  ADD_FAILURE() << "no error from: " << sql;
  return {};
}

}  // namespace firn::hyp
