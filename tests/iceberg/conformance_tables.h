// Tables of other engines.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

namespace firn::iceberg {

inline std::filesystem::path fixtures_root() { return std::filesystem::path(FIRN_SOURCE_DIR) / "tests/fixtures"; }

// Where the tables of other engines lie: tests/fixtures, or the folder that FIRN_CONFORMANCE names.
inline std::filesystem::path conformance_root() {
  const char* named = std::getenv("FIRN_CONFORMANCE");
  return named != nullptr ? std::filesystem::path(named) : fixtures_root();
}

// Folders of tables, each with metadata of some kind in it.
inline std::vector<std::filesystem::path> table_folders() {
  std::vector<std::filesystem::path> folders;
  for (const auto& entry : std::filesystem::directory_iterator(conformance_root())) {
    if (entry.is_directory()) folders.push_back(entry.path());
  }
  return folders;
}

inline std::vector<std::filesystem::path> metadata_files(const std::filesystem::path& table) {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(table)) {
    if (entry.path().filename().string().find(".metadata.json") != std::string::npos) files.push_back(entry.path());
  }
  return files;
}

inline std::string read_whole(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

// Where the file lies that the metadata name as [file:]/warehouse/<table>/….
inline std::filesystem::path moved_path(const std::filesystem::path& table, std::string_view path) {
  const std::string prefix = "/warehouse/" + table.filename().string() + "/";
  const size_t at = path.find(prefix);
  return at == std::string_view::npos ? std::filesystem::path(path) : table / path.substr(at + prefix.size());
}

}  // namespace firn::iceberg
