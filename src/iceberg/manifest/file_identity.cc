#include "iceberg/manifest/file_identity.h"

#include <cmath>
#include <limits>

#include "iceberg/schema.h"

namespace firn::iceberg {

namespace {

// One value, with integers and floats widened: manifests written before and after a promotion say the same partition.
struct AppendKey {
  std::string& out;

  void bytes(char tag, const void* data, size_t size) {
    out.push_back(tag);
    out.append(static_cast<const char*>(data), size);
  }
  void operator()(std::monostate) { out.push_back('n'); }
  void operator()(bool value) { out += value ? "bt" : "bf"; }
  void operator()(int32_t value) { (*this)(static_cast<int64_t>(value)); }
  void operator()(int64_t value) { bytes('i', &value, sizeof(value)); }
  void operator()(float value) { (*this)(static_cast<double>(value)); }
  void operator()(double value) {
    if (std::isnan(value)) value = std::numeric_limits<double>::quiet_NaN();  // one NaN for all
    bytes('f', &value, sizeof(value));
  }
  void operator()(const arrow::Decimal128& value) {
    const auto little_endian = value.ToBytes();
    bytes('d', little_endian.data(), little_endian.size());
  }
  void operator()(const std::string& value) {
    const uint64_t size = value.size();
    bytes('s', &size, sizeof(size));
    out += value;
  }
  void operator()(const NestedJson& value) { (*this)(value.text); }
};

}  // namespace

std::string partition_key(int32_t spec_id, const std::vector<Value>& partition) {
  std::string key;
  AppendKey append{key};
  append(spec_id);
  for (const Value& value : partition) std::visit(append, value);
  return key;
}

bool is_deletion_vector(const DataFile& file) {
  return file.content == FileContent::position_deletes && file.file_format == "PUFFIN";
}

std::string single_data_file(const DataFile& position_deletes) {
  if (!position_deletes.referenced_data_file.empty()) return position_deletes.referenced_data_file;
  const auto lower = position_deletes.lower_bounds.find(kDeleteFilePathFieldId);
  const auto upper = position_deletes.upper_bounds.find(kDeleteFilePathFieldId);
  if (lower == position_deletes.lower_bounds.end() || upper == position_deletes.upper_bounds.end()) return "";
  return lower->second == upper->second ? lower->second : "";  // a truncated upper bound is raised, so it differs
}

bool may_name(const DataFile& position_deletes, const std::string& path) {
  if (!position_deletes.referenced_data_file.empty()) return position_deletes.referenced_data_file == path;
  const auto lower = position_deletes.lower_bounds.find(kDeleteFilePathFieldId);
  const auto upper = position_deletes.upper_bounds.find(kDeleteFilePathFieldId);
  return (lower == position_deletes.lower_bounds.end() || lower->second <= path) &&
         (upper == position_deletes.upper_bounds.end() || path <= upper->second);
}

std::string file_key(const DataFile& file) {
  return file.content_offset ? fmt::format("{}#{}", file.file_path, *file.content_offset) : file.file_path;
}

}  // namespace firn::iceberg
