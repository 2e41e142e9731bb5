#include "iceberg/scan/delete_cache.h"

#include <algorithm>

#include <arrow/array.h>
#include <arrow/buffer.h>

#include "base/arrow_status.h"
#include "iceberg/scan/data_file_reader.h"
#include "iceberg/scan/delete_index.h"
#include "iceberg/scan/equality_key.h"

namespace firn::iceberg {

namespace {

constexpr int64_t kCacheBytesMax = 256 << 20;
// A position delete file with more rows is read for each data file anew, with its path as the filter: all of it might
// not fit.
constexpr int64_t kSharedPositionRowsMax = 20'000'000;
constexpr int64_t kVectorBytesMax = int64_t{1} << 30;

ExpressionPtr path_equals(const std::string& path) {
  Expression expression;
  expression.op = Op::eq;
  expression.column = "file_path";
  expression.field_id = kDeleteFilePathFieldId;
  expression.type = Type::primitive(TypeId::string);
  expression.literals = {path};
  return std::make_shared<const Expression>(std::move(expression));
}

// Calls back with path and position for each row of a position delete file; `path_filter` (or nullptr) prunes only.
template <class Visit>
void for_each_deleted_position(const DataFile& file, FileIO& io, ExpressionPtr path_filter, const Visit& visit) {
  ParquetReadRequest request;
  request.projection = Schema({Field{kDeleteFilePathFieldId, "file_path", true, Type::primitive(TypeId::string)},
                               Field{kDeletePosFieldId, "pos", true, Type::primitive(TypeId::long_)}});
  request.filter = std::move(path_filter);
  request.entry = &file;
  const auto reader = open_data_file(io, file, std::move(request));
  while (std::optional<PositionedBatch> read = reader->next()) {
    const auto& paths = static_cast<const arrow::StringArray&>(*read->batch->column(0));
    const auto& positions = static_cast<const arrow::Int64Array&>(*read->batch->column(1));
    for (int64_t row = 0; row < read->batch->num_rows(); ++row) {
      if (positions.Value(row) < 0) {
        fail(ErrorKind::corrupt, "{}: row {} deletes position {}", file.file_path, read->first_position + row,
             positions.Value(row));
      }
      visit(paths.GetView(row), positions.Value(row));
    }
  }
}

LoadedDeletes load_position_file(const DataFile& file, FileIO& io) {
  LoadedDeletes loaded;
  PositionSet* current = nullptr;
  std::string current_path;
  for_each_deleted_position(file, io, nullptr, [&](std::string_view path, int64_t position) {
    if (current == nullptr || path != current_path) {  // rows are sorted by path and position
      current_path = path;
      current = &loaded.positions_by_path[current_path];
    }
    current->add(position);
  });
  for (const auto& [path, positions] : loaded.positions_by_path) {
    loaded.memory_bytes += 128 + static_cast<int64_t>(path.size()) + positions.memory_bytes();
  }
  return loaded;
}

PositionSet read_deletion_vector(const DataFile& file, const DataFile& data_file, FileIO& io) {
  const std::string where = fmt::format("{}, deletion vector of {}", file.file_path, data_file.file_path);
  if (!file.content_offset || !file.content_size_bytes) {
    fail(ErrorKind::corrupt, "{}: content_offset or content_size_in_bytes is missing", where);
  }
  const std::shared_ptr<arrow::io::RandomAccessFile> input = io.open(file.file_path);
  const int64_t size_bytes = check(input->GetSize(), file.file_path);
  const int64_t offset = *file.content_offset;
  const int64_t length = *file.content_size_bytes;
  if (offset < 0 || length < 0 || length > kVectorBytesMax || offset > size_bytes || length > size_bytes - offset) {
    fail(ErrorKind::corrupt, "{}: {} bytes at {} do not lie in the file's {}", where, length, offset, size_bytes);
  }
  const std::shared_ptr<arrow::Buffer> buffer = check(input->ReadAt(offset, length), where);
  if (buffer->size() != length) fail(ErrorKind::io, "{}: {} of {} bytes were read", where, buffer->size(), length);
  PositionSet positions =
      PositionSet::from_blob({reinterpret_cast<const char*>(buffer->data()), static_cast<size_t>(length)}, where);
  if (positions.size() != file.record_count) {
    fail(ErrorKind::corrupt, "{}: {} positions are in it, the manifest says {}", where, positions.size(),
         file.record_count);
  }
  return positions;
}

void add_position_file(const DataFile& file, const FileScanTask& task, FileIO& io, DeleteCache* cache,
                       PositionSet& deleted) {
  const std::string& path = task.file.file_path;
  if (cache == nullptr || !single_data_file(file).empty() || file.record_count > kSharedPositionRowsMax) {
    for_each_deleted_position(file, io, path_equals(path), [&](std::string_view row_path, int64_t position) {
      if (row_path == path) deleted.add(position);
    });
    return;
  }
  const auto loaded = cache->get(file.file_path, [&] { return load_position_file(file, io); });
  const auto found = loaded->positions_by_path.find(path);
  if (found != loaded->positions_by_path.end()) deleted.add_all(found->second);
}

LoadedDeletes load_equality_file(const DataFile& file, const std::vector<int32_t>& ids, const Schema& columns,
                                 const std::optional<NameMapping>& name_mapping, FileIO& io) {
  ParquetReadRequest request;
  request.projection = columns;
  request.name_mapping = name_mapping;
  request.entry = &file;
  const auto reader = open_data_file(io, file, std::move(request));
  LoadedDeletes loaded;
  std::string key;
  while (std::optional<PositionedBatch> read = reader->next()) {
    const EqualityKeys keys(*read->batch, columns, ids);
    for (int64_t row = 0; row < read->batch->num_rows(); ++row) {
      key.clear();
      keys.append_key(row, key);
      if (loaded.equality_keys.insert(key).second) loaded.memory_bytes += 64 + static_cast<int64_t>(key.size());
    }
  }
  return loaded;
}

}  // namespace

std::shared_ptr<const LoadedDeletes> DeleteCache::get(const std::string& key,
                                                      const std::function<LoadedDeletes()>& load) {
  std::shared_ptr<Entry> entry;
  {
    const std::lock_guard lock(mutex_);
    const auto found = slots_.find(key);
    if (found != slots_.end()) {
      entry = found->second.entry;
      by_recency_.splice(by_recency_.begin(), by_recency_, found->second.recency);
    } else {
      entry = std::make_shared<Entry>();
      by_recency_.push_front(key);
      slots_.emplace(key, Slot{entry, by_recency_.begin()});
    }
  }
  const std::lock_guard loading(entry->loading);
  if (!entry->value) {
    entry->value = std::make_shared<const LoadedDeletes>(load());
    charge(key, entry, entry->value->memory_bytes);
  }
  return entry->value;
}

void DeleteCache::charge(const std::string& key, const std::shared_ptr<Entry>& entry, int64_t bytes) {
  const std::lock_guard lock(mutex_);
  const auto found = slots_.find(key);
  if (found == slots_.end() || found->second.entry != entry) return;  // evicted while it was loaded
  entry->charged_bytes = bytes;
  bytes_ += bytes;
  while (bytes_ > bytes_max_ && !by_recency_.empty()) {
    const auto oldest = slots_.find(by_recency_.back());
    bytes_ -= oldest->second.entry->charged_bytes;
    slots_.erase(oldest);
    by_recency_.pop_back();
  }
}

std::shared_ptr<DeleteCache> make_delete_cache() { return std::make_shared<DeleteCache>(kCacheBytesMax); }

PositionSet load_deleted_positions(const FileScanTask& task, FileIO& io, DeleteCache* cache) {
  PositionSet deleted;
  for (const auto& file : task.deletes) {
    if (file->content != FileContent::position_deletes) continue;
    if (is_deletion_vector(*file)) {
      deleted.add_all(read_deletion_vector(*file, task.file, io));
    } else {
      add_position_file(*file, task, io, cache, deleted);
    }
  }
  return deleted;
}

std::shared_ptr<const LoadedDeletes> load_equality_keys(const DataFile& file, const Schema& columns,
                                                        const std::optional<NameMapping>& name_mapping, FileIO& io,
                                                        DeleteCache* cache) {
  std::vector<int32_t> ids = file.equality_ids;
  std::sort(ids.begin(), ids.end());
  const auto load = [&] { return load_equality_file(file, ids, columns, name_mapping, io); };
  return cache != nullptr ? cache->get(file.file_path, load) : std::make_shared<const LoadedDeletes>(load());
}

}  // namespace firn::iceberg
