// What a data file's metadata say of its _hyp_ingest_seq.
#pragma once

#include <cstdint>
#include <optional>

#include "iceberg/manifest/manifest.h"

namespace firn::hyp {

// Bounds of its rows' numbers, inclusive, that need not be tight; nullopt: unknown.
std::optional<int64_t> lowest_number(const iceberg::DataFile& file, int32_t seq_id);
std::optional<int64_t> highest_number(const iceberg::DataFile& file, int32_t seq_id);
// False proves that no row lacks a number.
bool may_lack_numbers(const iceberg::DataFile& file, int32_t seq_id);
// Whether the file says that its rows ascend by number.
bool is_in_sequence(const iceberg::DataFile& file, const iceberg::TableMetadata& metadata, int32_t seq_id);

}  // namespace firn::hyp
