#include "iceberg/write/row_sorter.h"

#include <algorithm>
#include <limits>
#include <queue>

#include <arrow/array/concatenate.h>
#include <arrow/compute/api_vector.h>
#include <arrow/util/byte_size.h>

#include "base/arrow_status.h"
#include "base/error.h"

namespace firn::iceberg {

namespace {

constexpr size_t kMergeRunsMax = 64;
constexpr int64_t kPieceRowsMax = 65536;
constexpr int64_t kBufferBytesMax = 1 << 30;  // one buffer of strings holds 2 GiB

unsigned __int128 prefix_of(std::string_view key) {
  unsigned __int128 prefix = 0;
  const size_t size = std::min<size_t>(key.size(), 16);
  for (size_t i = 0; i < size; ++i) prefix = (prefix << 8) | static_cast<unsigned char>(key[i]);
  return size == 16 ? prefix : prefix << (8 * (16 - size));
}

int64_t piece_rows(const arrow::RecordBatch& batch, int64_t piece_bytes) {
  const int64_t bytes = check(arrow::util::ReferencedBufferSize(batch), "measure rows");
  return std::clamp<int64_t>(piece_bytes / std::max<int64_t>(1, bytes / std::max<int64_t>(1, batch.num_rows())), 1,
                             kPieceRowsMax);
}

std::shared_ptr<arrow::RecordBatch> take(const std::shared_ptr<arrow::RecordBatch>& batch,
                                         const std::vector<uint32_t>& rows, size_t first, size_t count) {
  const arrow::UInt32Array indices(static_cast<int64_t>(count), arrow::Buffer::Wrap(rows.data() + first, count));
  return check(arrow::compute::Take(batch, indices.Slice(0), arrow::compute::TakeOptions::NoBoundsCheck()), "sort rows")
      .record_batch();
}

}  // namespace

RowSorter::RowSorter(std::shared_ptr<arrow::Schema> schema, KeysOf keys_of, int64_t memory_bytes_max,
                     std::string spill_folder)
    : schema_(std::move(schema)),
      keys_of_(std::move(keys_of)),
      buffer_bytes_max_(std::clamp<int64_t>(memory_bytes_max / 2, 1, kBufferBytesMax)),
      piece_bytes_(std::clamp<int64_t>(memory_bytes_max / static_cast<int64_t>(4 * kMergeRunsMax), 4 << 10, 4 << 20)),
      spill_folder_(std::move(spill_folder)) {}

RowSorter::~RowSorter() = default;

void RowSorter::add(const std::shared_ptr<arrow::RecordBatch>& batch) {
  if (batch->num_rows() == 0) return;
  // Row numbers within the buffer have 32 bits.
  if (buffered_rows_ + batch->num_rows() > std::numeric_limits<uint32_t>::max()) spill();
  SortKeys keys = keys_of_(*batch);
  buffered_bytes_ += check(arrow::util::ReferencedBufferSize(*batch), "measure rows") + keys.memory_bytes();
  buffered_rows_ += batch->num_rows();
  batches_.push_back(batch);
  keys_.push_back(std::move(keys));
  if (buffered_bytes_ >= buffer_bytes_max_) spill();
}

void RowSorter::emit_buffered(const Emit& emit) {
  struct Entry {
    unsigned __int128 prefix;
    std::string_view key;
    uint32_t row;
  };
  std::vector<Entry> entries;
  entries.reserve(static_cast<size_t>(buffered_rows_));
  for (const SortKeys& keys : keys_) {
    for (size_t i = 0; i < keys.size(); ++i)
      entries.push_back({prefix_of(keys[i]), keys[i], static_cast<uint32_t>(entries.size())});
  }
  const auto less = [](const Entry& a, const Entry& b) {
    if (a.prefix != b.prefix) return a.prefix < b.prefix;
    const int order = a.key.size() > 16 || b.key.size() > 16 ? a.key.compare(b.key) : 0;
    return order != 0 ? order < 0 : a.row < b.row;
  };
  const bool sorted = std::is_sorted(entries.begin(), entries.end(), less);
  std::vector<uint32_t> order;
  if (!sorted) {
    std::sort(entries.begin(), entries.end(), less);
    order.reserve(entries.size());
    for (const Entry& entry : entries) order.push_back(entry.row);
  }
  entries = {};
  keys_.clear();
  std::vector<std::shared_ptr<arrow::RecordBatch>> batches = std::move(batches_);
  batches_.clear();
  buffered_bytes_ = buffered_rows_ = 0;
  if (sorted) {
    for (const auto& batch : batches) {
      const int64_t rows = piece_rows(*batch, piece_bytes_);
      for (int64_t first = 0; first < batch->num_rows(); first += rows) emit(batch->Slice(first, rows));
    }
    return;
  }
  const auto all = batches.size() == 1 ? batches[0] : check(arrow::ConcatenateRecordBatches(batches), "sort rows");
  batches.clear();
  const auto rows = static_cast<size_t>(piece_rows(*all, piece_bytes_));
  for (size_t first = 0; first < order.size(); first += rows)
    emit(take(all, order, first, std::min(rows, order.size() - first)));
}

std::unique_ptr<SpillFile> RowSorter::write_run(const std::function<void(const Emit&)>& produce) {
  auto run = std::make_unique<SpillFile>(spill_folder_, schema_);
  produce([&](const std::shared_ptr<arrow::RecordBatch>& piece) { run->write(*piece); });
  run->finish();
  return run;
}

void RowSorter::spill() {
  if (batches_.empty()) return;
  std::unique_ptr<SpillFile> run = write_run([this](const Emit& emit) { emit_buffered(emit); });
  ++runs_spilled_;
  for (size_t level = 0;; ++level) {
    if (levels_.size() == level) levels_.emplace_back();
    levels_[level].push_back(std::move(run));
    if (levels_[level].size() < kMergeRunsMax) return;
    std::vector<std::unique_ptr<SpillFile>> full = std::move(levels_[level]);
    levels_[level].clear();
    run = write_run([&](const Emit& emit) { merge(std::move(full), emit); });
  }
}

void RowSorter::finish(const Emit& emit) {
  if (levels_.empty()) return emit_buffered(emit);
  spill();
  std::vector<std::unique_ptr<SpillFile>> runs;  // oldest first: of equal rows the first comes first
  for (auto level = levels_.rbegin(); level != levels_.rend(); ++level)
    std::move(level->begin(), level->end(), std::back_inserter(runs));
  levels_.clear();
  while (runs.size() > kMergeRunsMax) {
    // The newest are the shortest.
    const auto first =
        runs.end() - static_cast<std::ptrdiff_t>(std::min(kMergeRunsMax, runs.size() - kMergeRunsMax + 1));
    std::vector<std::unique_ptr<SpillFile>> newest(std::make_move_iterator(first), std::make_move_iterator(runs.end()));
    runs.erase(first, runs.end());
    runs.push_back(write_run([&](const Emit& out) { merge(std::move(newest), out); }));
  }
  merge(std::move(runs), emit);
}

void RowSorter::merge(std::vector<std::unique_ptr<SpillFile>> runs, const Emit& emit) const {
  struct Cursor {
    std::unique_ptr<SpillFile> run;
    std::shared_ptr<arrow::ipc::RecordBatchFileReader> reader;
    int next_batch = 0;
    std::shared_ptr<arrow::RecordBatch> batch;
    SortKeys keys;
    int64_t row = 0;
    int64_t piece_first = 0;          // rows before it have left
    arrow::RecordBatchVector slices;  // of earlier batches, for the piece being built

    bool load() {
      if (next_batch >= reader->num_record_batches()) return false;
      batch = check(reader->ReadRecordBatch(next_batch++), "read a spill file");
      row = piece_first = 0;
      return true;
    }
  };
  std::vector<Cursor> cursors(runs.size());
  const auto greater = [&](size_t a, size_t b) {
    const int order = cursors[a].keys[static_cast<size_t>(cursors[a].row)].compare(
        cursors[b].keys[static_cast<size_t>(cursors[b].row)]);
    return order != 0 ? order > 0 : a > b;
  };
  std::priority_queue<size_t, std::vector<size_t>, decltype(greater)> queue(greater);
  int64_t rows_max = kPieceRowsMax;
  for (size_t i = 0; i < runs.size(); ++i) {
    Cursor& cursor = cursors[i];
    cursor.run = std::move(runs[i]);
    cursor.reader = cursor.run->read();
    if (!cursor.load()) continue;
    cursor.keys = keys_of_(*cursor.batch);
    rows_max = std::min(rows_max, piece_rows(*cursor.batch, piece_bytes_));
    queue.push(i);
  }
  std::vector<uint32_t> picks;  // the cursor of each row of the piece
  const auto flush = [&] {
    if (picks.empty()) return;
    arrow::RecordBatchVector slices;
    std::vector<uint32_t> next(cursors.size(), 0);  // where each cursor's rows begin among the slices
    uint32_t total = 0;
    for (size_t i = 0; i < cursors.size(); ++i) {
      Cursor& cursor = cursors[i];
      next[i] = total;
      if (cursor.batch && cursor.row > cursor.piece_first)
        cursor.slices.push_back(cursor.batch->Slice(cursor.piece_first, cursor.row - cursor.piece_first));
      cursor.piece_first = cursor.row;
      for (auto& slice : cursor.slices) {
        total += static_cast<uint32_t>(slice->num_rows());
        slices.push_back(std::move(slice));
      }
      cursor.slices.clear();
    }
    const auto all = slices.size() == 1 ? slices[0] : check(arrow::ConcatenateRecordBatches(slices), "merge rows");
    if (slices.size() == 1) {
      emit(all);
    } else {
      std::vector<uint32_t> order;
      order.reserve(picks.size());
      for (uint32_t cursor : picks) order.push_back(next[cursor]++);
      emit(take(all, order, 0, order.size()));
    }
    picks.clear();
  };
  while (!queue.empty()) {
    const size_t top = queue.top();
    queue.pop();
    Cursor& cursor = cursors[top];
    picks.push_back(static_cast<uint32_t>(top));
    if (++cursor.row == cursor.batch->num_rows()) {
      cursor.slices.push_back(cursor.batch->Slice(cursor.piece_first));
      if (cursor.load()) {
        cursor.keys = keys_of_(*cursor.batch);
        queue.push(top);
      } else {
        cursor.batch.reset();
        cursor.row = cursor.piece_first = 0;
      }
    } else {
      queue.push(top);
    }
    if (static_cast<int64_t>(picks.size()) >= rows_max) flush();
  }
  flush();
}

}  // namespace firn::iceberg
