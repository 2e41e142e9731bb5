#include "iceberg/catalog/version_files.h"

#include <charconv>

#include <fmt/format.h>

#include "base/error.h"

namespace firn::iceberg {
namespace {

// The leading decimal digits of `text`, taken off it. 18 digits at most: no version is larger, and none overflows.
std::optional<int64_t> take_number(std::string_view& text) {
  int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || text.front() == '-' || end - text.data() > 18) return std::nullopt;
  text.remove_prefix(static_cast<size_t>(end - text.data()));
  return number;
}

bool take_suffix(std::string_view& text, std::string_view suffix) {
  if (!text.ends_with(suffix)) return false;
  text.remove_suffix(suffix.size());
  return true;
}

}  // namespace

std::optional<MetadataFileName> parse_metadata_file_name(std::string_view name) {
  if (!take_suffix(name, ".gz.metadata.json") && !take_suffix(name, ".metadata.json.gz") &&
      !take_suffix(name, ".metadata.json")) {
    return std::nullopt;
  }
  const bool is_numbered = name.starts_with('v');
  if (is_numbered) name.remove_prefix(1);
  if (name.empty()) return std::nullopt;
  const std::optional<int64_t> version = take_number(name);
  if (!version) return std::nullopt;
  if (is_numbered ? !name.empty() : (name.size() < 2 || name.front() != '-')) return std::nullopt;
  return MetadataFileName{*version, is_numbered};
}

void check_may_publish(const std::string& location, const std::string& metadata_path) {
  const std::optional<MetadataFileName> name = parse_metadata_file_name(base_name(metadata_path));
  if (name && name->is_numbered && metadata_path.starts_with(location + "/metadata/")) return;
  fail(ErrorKind::unsupported,
       "table {}: {} was written by another catalog, which would not see a commit made beside it; commit there",
       location, metadata_path);
}

std::string version_file_name(int64_t version) { return fmt::format("v{}.metadata.json", version); }

std::array<std::string, 3> version_file_names(int64_t version) {
  return {version_file_name(version), fmt::format("v{}.gz.metadata.json", version),
          fmt::format("v{}.metadata.json.gz", version)};
}

std::optional<VersionHint> parse_version_hint(std::string_view text) {
  constexpr std::string_view kSpace(" \t\r\n\0", 5);
  const size_t begin = text.find_first_not_of(kSpace);
  if (begin == std::string_view::npos) return std::nullopt;
  text = text.substr(begin, text.find_last_not_of(kSpace) + 1 - begin);

  std::string_view digits = text;
  if (const auto number = take_number(digits); number && digits.empty()) return VersionHint{*number, ""};
  if (const size_t slash = text.rfind('/'); slash != std::string_view::npos) text.remove_prefix(slash + 1);
  for (const std::string& name : {std::string(text), std::string(text) + ".metadata.json"}) {
    if (const auto parsed = parse_metadata_file_name(name)) return VersionHint{parsed->version, name};
  }
  return std::nullopt;
}

}  // namespace firn::iceberg
