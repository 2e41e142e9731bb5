#include "iceberg/metadata/properties.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <vector>

#include <fmt/ranges.h>

#include "base/error.h"
#include "base/log.h"
#include "base/uri.h"
#include "iceberg/metadata/metrics_mode.h"

namespace firn::iceberg {
namespace {

struct NumberProperty {
  std::string_view key;  // of columns, with the dot that their name follows
  int64_t min = 0;
  int64_t max = std::numeric_limits<int64_t>::max();
};

constexpr int64_t kInt32Max = std::numeric_limits<int32_t>::max();

constexpr NumberProperty kNumbers[] = {
    {"commit.manifest.min-count-to-merge"},
    {"commit.manifest.target-size-bytes", 1},
    {"commit.retry.max-wait-ms"},
    {"commit.retry.min-wait-ms"},
    {"commit.retry.num-retries"},
    {"commit.retry.total-timeout-ms"},
    {"commit.status-check.max-wait-ms"},
    {"commit.status-check.min-wait-ms"},
    {"commit.status-check.num-retries"},
    {"commit.status-check.total-timeout-ms"},
    {"history.expire.max-ref-age-ms"},
    {"history.expire.max-snapshot-age-ms"},
    {"history.expire.min-snapshots-to-keep", 1, kInt32Max},
    {"write.metadata.metrics.max-inferred-column-defaults"},
    {"write.metadata.previous-versions-max"},
    {"write.parquet.bloom-filter-max-bytes", 1},
    {"write.parquet.bloom-filter-ndv.column.", 1},
    {"write.parquet.dict-size-bytes", 1},
    {"write.parquet.page-row-limit", 1},
    {"write.parquet.page-size-bytes", 1},
    {"write.parquet.row-group-size-bytes", 1},
    {"write.target-file-size-bytes", 1},
};

struct WordProperty {
  std::string_view key;
  std::vector<std::string_view> words;
};

const std::vector<WordProperty>& word_properties() {
  static const std::vector<std::string_view> kModes = {"copy-on-write", "merge-on-read"};
  static const std::vector<std::string_view> kIsolations = {"serializable", "snapshot"};
  static const std::vector<WordProperty> kWords = {
      {"write.delete.granularity", {"file", "partition"}},
      {"write.delete.isolation-level", kIsolations},
      {"write.delete.mode", kModes},
      {"write.merge.isolation-level", kIsolations},
      {"write.merge.mode", kModes},
      {"write.parquet.compression-codec",
       {"zstd", "gzip", "snappy", "lz4", "lz4_raw", "brotli", "uncompressed", "none"}},
      {"write.update.isolation-level", kIsolations},
      {"write.update.mode", kModes},
  };
  return kWords;
}

[[noreturn]] void fail_value(std::string_view key, std::string_view value, std::string_view wanted) {
  fail(ErrorKind::invalid_argument, "Property {} is '{}': give {}", key, value, wanted);
}

template <class Number>
std::optional<Number> number_of(std::string_view text) {
  Number number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size() ? std::optional(number) : std::nullopt;
}

void check_number(const std::string& key, const std::string& value, int64_t min, int64_t max) {
  const std::optional<int64_t> number = number_of<int64_t>(value);
  if (number && *number >= min && *number <= max) return;
  fail_value(key, value,
             max == std::numeric_limits<int64_t>::max() ? fmt::format("a whole number from {} on", min)
                                                        : fmt::format("a whole number from {} to {}", min, max));
}

void check_property(const std::string& key, const std::string& value) {
  // Position delete files have their own where these are set.
  constexpr std::string_view kOfDeletes = "write.delete.parquet.";
  const std::string name = key.starts_with(kOfDeletes) ? "write.parquet." + key.substr(kOfDeletes.size()) : key;
  for (const NumberProperty& number : kNumbers) {
    if (number.key.ends_with('.') ? name.starts_with(number.key) : name == number.key)
      check_number(key, value, number.min, number.max);
  }
  for (const auto& [word_key, words] : word_properties()) {
    if (name != word_key) continue;
    std::string lower = value;  // of the codecs, which are taken in any case
    if (name == "write.parquet.compression-codec")
      std::transform(lower.begin(), lower.end(), lower.begin(), [](unsigned char c) { return std::tolower(c); });
    if (std::find(words.begin(), words.end(), lower) == words.end())
      fail_value(key, value, fmt::format("one of {}", fmt::join(words, ", ")));
  }
  if (name == "write.parquet.compression-level" && value != "null")
    check_number(key, value, std::numeric_limits<int32_t>::min(), kInt32Max);
  if (name.starts_with("write.parquet.bloom-filter-fpp.column.")) {
    const std::optional<double> share = number_of<double>(value);
    if (!share || !(*share > 0 && *share < 1)) fail_value(key, value, "a number between 0 and 1");
  }
  if (key == "write.metadata.metrics.default" || key.starts_with("write.metadata.metrics.column."))
    MetricsMode::parse(value, key);
  // Relative to what, another process could not tell.
  if ((key == "write.data.path" || key == "write.metadata.path") && !local_path(value).starts_with('/') &&
      value.find("://") == std::string::npos)
    fail_value(key, value, "an absolute path or a URI");
  if (key == "schema.name-mapping.default") {
    try {
      name_mapping_from_json(parse_json(value, "its value"), "its value");
    } catch (const Error& e) {
      throw Error(ErrorKind::invalid_argument, "Property " + key, e);
    }
  }
}

}  // namespace

void check_properties(const std::map<std::string, std::string>& properties) {
  for (const auto& [key, value] : properties) check_property(key, value);
}

int64_t wait_property(const TableMetadata& metadata, std::string_view key, int64_t fallback) {
  const auto found = metadata.properties.find(std::string(key));
  if (found == metadata.properties.end()) return fallback;
  const std::optional<int64_t> number = number_of<int64_t>(found->second);
  if (number && *number >= 0) return *number;
  spdlog::warn("table {}: property {} is '{}', no whole number from 0 on: {} is taken; set another value",
               metadata.location, key, found->second, fallback);
  return fallback;
}

}  // namespace firn::iceberg
