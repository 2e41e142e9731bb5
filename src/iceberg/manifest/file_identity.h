// What files of a table are told apart and brought together by.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "iceberg/manifest/manifest.h"

namespace firn::iceberg {

// Spec id and tuple as bytes, equal where the partitions are.
std::string partition_key(int32_t spec_id, const std::vector<Value>& partition);

// A live file's name: its path, and for the deletion vectors in one Puffin file their offset.
std::string file_key(const DataFile& file);

// True for the deletion vectors among the position deletes: blobs of Puffin files.
bool is_deletion_vector(const DataFile& file);

// The data file that a position delete file is all about, or empty: by its reference, else by equal bounds of its
// paths.
std::string single_data_file(const DataFile& position_deletes);

// Whether a position delete file may name the data file at `path`: by its reference or the bounds of its paths, which
// may be truncated.
bool may_name(const DataFile& position_deletes, const std::string& path);

}  // namespace firn::iceberg
