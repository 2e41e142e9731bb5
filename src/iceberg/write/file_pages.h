// Pages to fit the size that files are to have.
#pragma once

#include <cstdint>

#include "iceberg/metadata/table_metadata.h"

namespace firn::iceberg {

// `metadata` for an AppendWriter of files of about `file_bytes`: a page counts when it is full, so small files want
// small ones; else they come out smaller than asked for, and a rewrite that gathers small files would take them again.
TableMetadata with_pages_for(TableMetadata metadata, int64_t file_bytes);

}  // namespace firn::iceberg
