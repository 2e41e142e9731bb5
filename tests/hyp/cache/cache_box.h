// A cache of its own for one test, and what is in it.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/arrow_status.h"
#include "base/clock.h"
#include "base/uuid.h"
#include "hyp/cache/cache.h"
#include "iceberg/scan/row_json.h"
#include "support/temp_folder.h"

namespace firn::hyp {

using Lines = std::vector<std::string>;

struct CacheBox {
  TempFolder folder;
  Config config;

  CacheBox() {
    config.cache_root = folder / "cache";
    config.state_dir = folder / "state";
  }
  DatasetConfig& declare(const std::string& name) {
    DatasetConfig& dataset = config.datasets[name];
    dataset.name = name;
    return dataset;
  }
  std::string rejects_path(const std::string& dataset) const {
    return config.cache_root + "/rejects/" + dataset + ".ndjson";
  }
};

inline Frame make_frame(const std::string& dataset, const std::string& source, const Lines& lines,
                        int64_t first_line = 1) {
  Frame frame;
  frame.dataset = dataset;
  frame.source = source;
  frame.first_line = first_line;
  frame.batch_id = uuid_v7(now_ms());
  for (const std::string& line : lines) frame.text += line + "\n";
  return frame;
}

// One JSON row without its nulls and with its keys sorted, so that rows compare whatever columns came later.
inline Json without_nulls(const Json& value) {
  if (!value.is_object()) return value;
  std::map<std::string, Json> sorted;
  for (const auto& [key, member] : value.items()) {
    if (!member.is_null()) sorted[key] = without_nulls(member);
  }
  Json result = Json::object();
  for (const auto& [key, member] : sorted) result[key] = member;
  return result;
}

inline std::string normal(const std::string& row) { return without_nulls(Json::parse(row)).dump(); }

inline Lines sorted_rows(Lines rows) {
  for (std::string& row : rows) row = normal(row);
  std::sort(rows.begin(), rows.end());
  return rows;
}

inline Lines rows_of(arrow::RecordBatchReader& reader, const iceberg::Schema& schema) {
  Lines rows;
  for (std::shared_ptr<arrow::RecordBatch> batch;;) {
    check(reader.ReadNext(&batch), "read");
    if (!batch) return rows;
    for (int64_t i = 0; i < batch->num_rows(); ++i) iceberg::append_row_json(*batch, schema, i, rows.emplace_back());
  }
}

// The rows of a partition without order, normal and sorted.
inline Lines cached_rows(const Cache& cache, const PartitionId& partition) {
  const SequencedReader columns(cache, partition, {});
  return sorted_rows(rows_of(*read_rows(cache, partition, {}), columns.schema()));
}

// The rows in sequence order, as they are.
struct SequencedRows {
  Lines rows;
  std::vector<int64_t> after;
};
inline SequencedRows read_sequenced(const Cache& cache, const PartitionId& partition, const ReadOptions& options = {}) {
  SequencedRows result;
  SequencedReader reader(cache, partition, options);
  while (const auto batch = reader.next()) {
    EXPECT_EQ(batch->after.size(), static_cast<size_t>(batch->rows->num_rows()));
    for (int64_t i = 0; i < batch->rows->num_rows(); ++i) {
      iceberg::append_row_json(*batch->rows, reader.schema(), i, result.rows.emplace_back());
    }
    result.after.insert(result.after.end(), batch->after.begin(), batch->after.end());
  }
  return result;
}

inline std::vector<Json> rejects_of(const CacheBox& box, const std::string& dataset) {
  std::vector<Json> rejects;
  const auto text = make_local_file_io()->read_if_exists(box.rejects_path(dataset)).value_or("");
  for (size_t begin = 0, end; (end = text.find('\n', begin)) != std::string::npos; begin = end + 1) {
    rejects.push_back(Json::parse(text.substr(begin, end - begin)));
  }
  return rejects;
}

inline Lines rejected_texts(const CacheBox& box, const std::string& dataset) {
  Lines texts;
  for (const Json& reject : rejects_of(box, dataset)) texts.push_back(reject.value("text", ""));
  std::sort(texts.begin(), texts.end());
  return texts;
}

// Spools the frames and flushes all that is spooled.
inline FlushReport ingest(Cache& cache, const std::vector<Frame>& frames) {
  const auto spool = Spool::open(cache.config().cache_root);
  spool->append(frames);
  return flush(cache, *spool);
}

}  // namespace firn::hyp
