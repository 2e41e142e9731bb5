// Whether any file still has what should be gone for good.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include <arrow/scalar.h>
#include <arrow/table.h>
#include <gtest/gtest.h>
#include <parquet/arrow/reader.h>

#include "base/arrow_status.h"
#include "iceberg/avro/container.h"
#include "io/file_io.h"

namespace firn::hyp {

inline bool parquet_has(const std::string& path, const std::string& text) {
  std::unique_ptr<parquet::arrow::FileReader> reader =
      check(parquet::arrow::OpenFile(make_local_file_io()->open(path), arrow::default_memory_pool()), path);
  const auto table = check(reader->ReadTable(), path);
  for (const auto& column : table->columns()) {
    for (const auto& chunk : column->chunks()) {
      for (int64_t i = 0; i < chunk->length(); ++i) {
        if (check(chunk->GetScalar(i), path)->ToString().find(text) != std::string::npos) return true;
      }
    }
  }
  return false;
}

inline bool avro_has(const std::string& path, const std::string& bytes, const std::string& text) {
  iceberg::avro::ContainerReader reader(bytes, path);
  while (const auto block = reader.next_block()) {
    if (block->data.find(text) != std::string_view::npos) return true;
  }
  return false;
}

// The files below `folder`, hidden and temporary ones too, in whose name or content `text` is, compressed or not.
inline std::vector<std::string> files_with(const std::string& folder, const std::string& text) {
  std::vector<std::string> paths;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    const std::string path = entry.path().string();
    bool has = entry.path().filename().string().find(text) != std::string::npos;
    if (entry.is_regular_file() && !has) {
      const std::string bytes = make_local_file_io()->read(path);
      has = bytes.find(text) != std::string::npos;
      if (!has && path.ends_with(".parquet")) has = parquet_has(path, text);
      if (!has && path.ends_with(".avro")) has = avro_has(path, bytes, text);
    }
    if (has) paths.push_back(path);
  }
  std::sort(paths.begin(), paths.end());
  return paths;
}

}  // namespace firn::hyp
