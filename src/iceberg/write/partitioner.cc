#include "iceberg/write/partitioner.h"

#include <cmath>
#include <limits>

#include "base/civil_time.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/uri.h"
#include "iceberg/write/array_values.h"

namespace firn::iceberg {

namespace {

constexpr size_t kFolderBytesMax = 200;
constexpr size_t kHashDigits = 32;

// What is cut is always above the limit, and so never the step of a value that was not.
std::string shortened(std::string_view step) {
  if (step.size() <= kFolderBytesMax) return std::string(step);
  const size_t percent = step.rfind('%', kFolderBytesMax - 1);
  const bool splits_escape = percent != std::string_view::npos && percent + 3 > kFolderBytesMax;
  return fmt::format("{}-{}", step.substr(0, splits_escape ? percent + 3 : kFolderBytesMax),
                     to_hex(sha256(step)).substr(0, kHashDigits));
}

}  // namespace

Partitioner::Partitioner(const PartitionSpec& spec, const Schema& schema) : schema_(schema) {
  for (const PartitionField& field : spec.fields) {
    Coder coder;
    coder.transform = field.transform;
    if (field.transform.kind == TransformKind::unknown || field.source_ids.size() != 1)
      fail(ErrorKind::unsupported, "partition field {}: firn cannot write with the transform {}", field.name,
           field.transform.name);
    coder.source_id = field.source_id();
    const Field* source = schema.find_field(coder.source_id);
    if (field.transform.kind != TransformKind::void_) {
      if (source == nullptr)
        fail(ErrorKind::unsupported, "partition field {}: its source column {} is not in the schema", field.name,
             coder.source_id);
      coder.source = source->type;
      coder.result = result_type(field.transform, source->type);
    }
    coders_.push_back(std::move(coder));
  }
  if (coders_.empty()) partitions_.emplace_back();
}

// Sources that differ by less have one result where they lie in the same step of this width; nullopt: nothing is known.
std::optional<int64_t> Partitioner::Coder::step_width() const {
  const bool nanos = source->id() == TypeId::timestamp_ns || source->id() == TypeId::timestamptz_ns;
  const bool micros = source->id() == TypeId::timestamp || source->id() == TypeId::timestamptz;
  const int64_t second = nanos ? 1'000'000'000 : 1'000'000;
  switch (transform.kind) {
    case TransformKind::identity:
      return 1;
    case TransformKind::hour:
      if (nanos || micros) return 3600 * second;
      return std::nullopt;
    case TransformKind::day:
    case TransformKind::month:
    case TransformKind::year:
      if (nanos || micros) return 86400 * second;
      return 1;
    default:
      return std::nullopt;
  }
}

uint32_t Partitioner::Coder::code_of(const Value& source_value) {
  Value value = apply(transform, source_value, *source);
  if (is_nan(value)) {  // one partition whatever the bits
    if (std::holds_alternative<float>(value))
      value = std::numeric_limits<float>::quiet_NaN();
    else
      value = std::numeric_limits<double>::quiet_NaN();
  }
  std::string key = is_null(value) ? "" : "v" + to_bytes(value, *result);
  const auto [found, added] = codes.try_emplace(std::move(key), static_cast<uint32_t>(values.size()));
  if (added) values.push_back(std::move(value));
  return found->second;
}

void Partitioner::Coder::assign(const arrow::Array& array, std::vector<uint32_t>& out) {
  out.resize(static_cast<size_t>(array.length()));
  const arrow::Type::type id = array.type_id();
  const bool is_int32 = id == arrow::Type::INT32 || id == arrow::Type::DATE32;
  const bool is_int64 = id == arrow::Type::INT64 || id == arrow::Type::TIMESTAMP || id == arrow::Type::TIME64;
  const std::optional<int64_t> width = is_int32 || is_int64 ? step_width() : std::nullopt;
  if (width) {
    const int32_t* narrow = is_int32 ? array.data()->GetValues<int32_t>(1) : nullptr;
    const int64_t* wide = is_int64 ? array.data()->GetValues<int64_t>(1) : nullptr;
    std::optional<int64_t> last_step;
    uint32_t last_code = 0;
    for (int64_t row = 0; row < array.length(); ++row) {
      if (array.IsNull(row)) {
        out[static_cast<size_t>(row)] = code_of(Value{});
        continue;
      }
      const int64_t step = floor_div(is_int32 ? narrow[row] : wide[row], *width);
      if (step != last_step) {
        const auto [found, added] = code_of_step.try_emplace(step, 0);
        if (added) found->second = code_of(value_at(array, *source, row));
        last_step = step;
        last_code = found->second;
      }
      out[static_cast<size_t>(row)] = last_code;
    }
    return;
  }
  // Rows that follow one another often have the same value.
  const bool is_bytes = id == arrow::Type::STRING || id == arrow::Type::BINARY;
  std::string_view last;
  for (int64_t row = 0; row < array.length(); ++row) {
    const size_t at = static_cast<size_t>(row);
    if (is_bytes && array.IsValid(row)) {
      const std::string_view bytes = static_cast<const arrow::BinaryArray&>(array).GetView(row);
      if (row > 0 && array.IsValid(row - 1) && bytes == last) {
        out[at] = out[at - 1];
        continue;
      }
      last = bytes;
    }
    out[at] = code_of(value_at(array, *source, row));
  }
}

std::vector<uint32_t> Partitioner::assign(const arrow::RecordBatch& batch) {
  const auto rows = static_cast<size_t>(batch.num_rows());
  std::vector<uint32_t> result(rows, 0);
  if (coders_.empty()) return result;
  std::vector<std::vector<uint32_t>> codes(coders_.size());
  for (size_t i = 0; i < coders_.size(); ++i) {
    if (coders_[i].transform.kind != TransformKind::void_) {
      coders_[i].assign(*array_of(batch, schema_, coders_[i].source_id), codes[i]);
    } else {
      codes[i].assign(rows, 0);
      if (coders_[i].values.empty()) coders_[i].values.emplace_back();
    }
  }
  std::string key(coders_.size() * sizeof(uint32_t), '\0');
  for (size_t row = 0; row < rows; ++row) {
    bool same = row > 0;
    for (size_t i = 0; i < codes.size() && same; ++i) same = codes[i][row] == codes[i][row - 1];
    if (same) {
      result[row] = result[row - 1];
      continue;
    }
    for (size_t i = 0; i < codes.size(); ++i)
      std::memcpy(key.data() + i * sizeof(uint32_t), &codes[i][row], sizeof(uint32_t));
    const auto [found, added] = partition_of_codes_.try_emplace(key, static_cast<uint32_t>(partitions_.size()));
    if (added) {
      std::vector<Value> values;
      for (size_t i = 0; i < codes.size(); ++i) values.push_back(coders_[i].values[codes[i][row]]);
      partitions_.push_back(std::move(values));
    }
    result[row] = found->second;
  }
  return result;
}

std::string partition_folder(const std::string& data_folder, const PartitionSpec& spec,
                             const std::vector<Value>& values, const Schema& schema) {
  std::string folder = data_folder;
  const std::string path = spec.partition_path(values, schema);
  for (size_t begin = 0; begin < path.size();) {  // a '/' within a name or value is encoded
    const size_t end = std::min(path.find('/', begin), path.size());
    folder = join_path(folder, shortened(std::string_view(path).substr(begin, end - begin)));
    begin = end + 1;
  }
  return folder;
}

}  // namespace firn::iceberg
