// _hyp_cache_row_id: what makes two rows the same row (protocols P5.3).
#pragma once

#include <memory>

#include <arrow/array.h>
#include <arrow/record_batch.h>

namespace firn::hyp {

// One lower-case hex SHA-256 a row of `batch`, as a utf8 array. It covers the row's non-null columns sorted by name,
// each with name, kind and value, nested values likewise; so neither the order of keys nor columns that are null or
// came later change it, nor do an int that became long, a float that became double or a wider decimal precision. Stored
// ids stay comparable only while this stays as it is: it must never change.
std::shared_ptr<arrow::Array> make_row_ids(const arrow::RecordBatch& batch);

}  // namespace firn::hyp
