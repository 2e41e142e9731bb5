// A cache with sinks, and what is at their destinations.
#pragma once

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include <arrow/io/compressed.h>
#include <gtest/gtest.h>
#include <parquet/arrow/reader.h>

#include "base/uri.h"
#include "hyp/cache/cache_box.h"
#include "hyp/sink/driver.h"
#include "hyp/sink/watermark.h"
#include "iceberg/catalog/catalog.h"
#include "iceberg/parquet/arrow_schema.h"

namespace firn::hyp {

namespace fs = std::filesystem;

inline SinkConfig make_sink(SinkKind kind, const std::string& path, BlobFormat format = BlobFormat::parquet,
                            const std::string& compression = "zstd") {
  SinkConfig sink;
  sink.name = "out";
  sink.kind = kind;
  sink.path = path;
  sink.format = format;
  sink.compression = compression;
  return sink;
}

// Everything below live/, so that it can be copied away and back: cache, state and destination as they were together.
struct SinkBox : CacheBox {
  std::string live = folder / "live";

  SinkBox() { set_root(live); }
  void set_root(const std::string& root) {
    live = root;
    config.cache_root = root + "/cache";
    config.state_dir = root + "/state";
  }
  std::string out() const { return folder / "live/out"; }

  void ingest_lines(const std::string& dataset, const std::string& source, const Lines& lines) const {
    Cache cache(config);
    const FlushReport report = ingest(cache, {make_frame(dataset, source, lines)});
    if (report.rows != static_cast<int64_t>(lines.size()))
      fail(ErrorKind::internal, "{} rows were flushed", report.rows);
  }
  SinkRunReport ship(const SinkConfig& sink) const {
    Cache cache(config);
    return run_sink(cache, sink);
  }
  // Throws what stopped any partition.
  SinkRunReport ship_well(const SinkConfig& sink) const {
    SinkRunReport report = ship(sink);
    for (const PartitionRun& run : report.partitions) {
      if (!run.error.empty()) fail(ErrorKind::internal, "{}: {}", run.partition.logical_path(), run.error);
    }
    return report;
  }
  std::string watermark_file(const SinkConfig& sink, const PartitionId& partition) const {
    return watermark_path(config.state_dir, sink.name, partition);
  }
};

// Two copies of the box's cache and state, of which one at a time is in the box's place: tables are where they were
// made. The destination stays one.
class Copies {
 public:
  explicit Copies(const SinkBox& box) : box_(box) { copy_folder(box.live, box.folder / "other"); }
  // Puts the other one in place.
  void turn() const {
    for (const char* part : {"/cache", "/state"}) {
      const std::string here = box_.live + part, other = box_.folder / "other" + part,
                        between = box_.folder / "between";
      fs::create_directories(here);
      fs::create_directories(other);
      fs::rename(here, between);
      fs::rename(other, here);
      fs::rename(between, other);
    }
  }

 private:
  static void copy_folder(const std::string& from, const std::string& to) {
    fs::copy(from, to, fs::copy_options::recursive);
  }
  const SinkBox& box_;
};

inline void copy_folder(const std::string& from, const std::string& to) {
  fs::remove_all(to);
  fs::create_directories(fs::path(to).parent_path());
  fs::copy(from, to, fs::copy_options::recursive);
}

inline std::vector<std::string> files_below(const std::string& folder) {
  std::vector<std::string> paths;
  for (const FileInfo& file : make_local_file_io()->list(folder, true)) paths.push_back(file.path);
  return paths;
}

inline Lines rows_of_parquet(const std::string& path) {
  std::unique_ptr<parquet::arrow::FileReader> reader =
      check(parquet::arrow::OpenFile(make_local_file_io()->open(path), arrow::default_memory_pool()), path);
  const auto table = check(reader->ReadTable(), path);
  const iceberg::Schema schema = iceberg::from_arrow_schema(*table->schema());
  arrow::TableBatchReader batches(*table);
  return rows_of(batches, schema);
}

inline Lines lines_of_jsonl(const std::string& path) {
  std::shared_ptr<arrow::io::InputStream> stream = make_local_file_io()->open(path);
  std::unique_ptr<arrow::util::Codec> codec;
  if (path.ends_with(".gz")) codec = check(arrow::util::Codec::Create(arrow::Compression::GZIP), path);
  if (path.ends_with(".zst")) codec = check(arrow::util::Codec::Create(arrow::Compression::ZSTD), path);
  if (codec) stream = check(arrow::io::CompressedInputStream::Make(codec.get(), stream), path);
  std::string text;
  while (const auto part = check(stream->Read(1 << 16), path)) {
    if (part->size() == 0) break;
    text += part->ToString();
  }
  Lines lines;
  for (size_t begin = 0, end; (end = text.find('\n', begin)) != std::string::npos; begin = end + 1) {
    lines.push_back(text.substr(begin, end - begin));
  }
  return lines;
}

// UTC is spelled +00:00 in rows of tables, Z in JSONL.
inline Lines rows_of_blob(const std::string& path) {
  if (path.ends_with(".parquet")) return rows_of_parquet(path);
  Lines lines = lines_of_jsonl(path);
  for (std::string& line : lines) {
    for (size_t at; (at = line.find("00Z\"")) != std::string::npos;) line.replace(at, 4, "00+00:00\"");
  }
  return lines;
}

// The claims below a blob prefix that were not taken back, by path.
inline std::map<std::string, Json> claims_of(const std::string& prefix) {
  std::map<std::string, Json> claims;
  for (const std::string& path : files_below(prefix + "/_firn")) {
    if (path.find("/old/") == std::string::npos) claims[path] = Json::parse(make_local_file_io()->read(path));
  }
  return claims;
}

// What a reader of a blob sink takes: the objects that claims name (P12). Normal and sorted.
inline Lines blob_rows(const std::string& prefix) {
  Lines rows;
  for (const auto& [path, claim] : claims_of(prefix)) {
    const std::string object = claim["object"].is_null() ? "" : claim["object"].get<std::string>();
    Lines some = object.empty() ? Lines() : rows_of_blob(prefix + "/" + object);
    EXPECT_EQ(static_cast<int64_t>(some.size()), claim["rows"].get<int64_t>()) << path;
    rows.insert(rows.end(), some.begin(), some.end());
  }
  return sorted_rows(rows);
}

// Hundreds of runs, each with dozens of syncs: in memory where that can be had. Call before the first box is made.
inline void prefer_memory() {
  if (::access("/dev/shm", W_OK) == 0) ::setenv("TMPDIR", "/dev/shm", 0);
}

inline iceberg::LoadedTable archive_table(const std::string& warehouse, const std::string& dataset) {
  return iceberg::open_filesystem_table(make_local_file_io(), warehouse + "/hyp/" + dataset)->load();
}

// Normal and sorted.
inline Lines archive_rows(const std::string& warehouse, const std::string& dataset) {
  if (!iceberg::filesystem_table_exists(*make_local_file_io(), warehouse + "/hyp/" + dataset)) return {};
  const auto table = archive_table(warehouse, dataset);
  return sorted_rows(rows_of(*iceberg::scan(*table.metadata, make_local_file_io(), {}), table.metadata->schema()));
}

// All rows at the destination of `sink`, of all datasets.
inline Lines delivered_rows(const SinkConfig& sink) {
  if (sink.kind == SinkKind::blob) return blob_rows(sink.path);
  Lines rows;
  std::error_code none;
  for (const auto& entry : fs::directory_iterator(sink.path + "/hyp", none)) {
    const Lines some = archive_rows(sink.path, entry.path().filename().string());
    rows.insert(rows.end(), some.begin(), some.end());
  }
  std::sort(rows.begin(), rows.end());
  return rows;
}

inline Lines operator+(Lines a, const Lines& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

}  // namespace firn::hyp
