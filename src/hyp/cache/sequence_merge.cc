#include "hyp/cache/sequence_merge.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <queue>
#include <unordered_map>

#include <arrow/compute/api_vector.h>
#include <arrow/io/file.h>
#include <arrow/ipc/reader.h>
#include <arrow/ipc/writer.h>
#include <arrow/table.h>

#include "base/arrow_compute.h"
#include "base/arrow_status.h"
#include "io/local.h"

namespace firn::hyp {
namespace {

using arrow::RecordBatch;
using BatchPtr = std::shared_ptr<RecordBatch>;

const int64_t* numbers_of(const RecordBatch& batch, int seq_column) {
  return static_cast<const arrow::Int64Array&>(*batch.column(seq_column)).raw_values();
}

BatchPtr take(const BatchPtr& batch, const std::shared_ptr<arrow::Array>& indices) {
  initialize_compute();
  return check(arrow::compute::Take(batch, indices), "order rows").record_batch();
}

// A file without a name: whatever happens to the process, nothing is left behind.
Descriptor make_temporary_file() {
  std::string path = (std::filesystem::temp_directory_path() / "hyp-merge-XXXXXX").string();
  Descriptor file(::mkostemp(path.data(), O_CLOEXEC));
  if (!file) fail_errno(errno, "create the temporary file " + path);
  ::unlink(path.c_str());
  return file;
}

// A run on disk: written once, then read once.
class Spill {
 public:
  explicit Spill(const std::shared_ptr<arrow::Schema>& schema) : file_(make_temporary_file()) {
    sink_ = check(arrow::io::FileOutputStream::Open(duplicate()), "write a temporary file");
    writer_ = check(arrow::ipc::MakeStreamWriter(sink_, schema), "write a temporary file");
  }
  void write(const RecordBatch& batch, int seq_column) {
    if (batch.num_rows() == 0) return;
    const int64_t* numbers = numbers_of(batch, seq_column);
    lower_ = std::min(lower_, numbers[0]);
    upper_ = std::max(upper_, numbers[batch.num_rows() - 1]);
    check(writer_->WriteRecordBatch(batch), "write a temporary file");
  }
  SequencedRun finish(std::string name) && {
    check(writer_->Close(), "write a temporary file");
    check(sink_->Close(), "write a temporary file");
    SequencedRun run{lower_, upper_, {}, std::move(name)};
    run.open = [file = std::make_shared<Spill>(std::move(*this))] { return file->read(); };
    return run;
  }
  Spill(Spill&&) = default;

 private:
  int duplicate() const {
    const int fd = ::fcntl(file_.get(), F_DUPFD_CLOEXEC, 0);
    if (fd < 0) fail_errno(errno, "duplicate a descriptor");
    return fd;
  }
  std::shared_ptr<arrow::RecordBatchReader> read() const {
    if (::lseek(file_.get(), 0, SEEK_SET) < 0) fail_errno(errno, "read a temporary file");
    auto file = check(arrow::io::ReadableFile::Open(duplicate()), "read a temporary file");
    return check(arrow::ipc::RecordBatchStreamReader::Open(file), "read a temporary file");
  }

  Descriptor file_;
  std::shared_ptr<arrow::io::FileOutputStream> sink_;
  std::shared_ptr<arrow::ipc::RecordBatchWriter> writer_;
  int64_t lower_ = std::numeric_limits<int64_t>::max();
  int64_t upper_ = std::numeric_limits<int64_t>::min();
};

// An open run, at one of its rows.
struct RunCursor {
  std::shared_ptr<arrow::RecordBatchReader> reader;
  std::string name;
  size_t order = 0;  // among equal numbers the earlier run comes first
  BatchPtr batch;
  const int64_t* numbers = nullptr;
  int64_t row = 0;

  int64_t number() const { return numbers[row]; }

  // Moves to the next batch if this one is used up; false at the end.
  bool settle(int seq_column) {
    while (!batch || row == batch->num_rows()) {
      const std::optional<int64_t> last = batch ? std::optional(numbers[row - 1]) : std::nullopt;
      check(reader->ReadNext(&batch), "read " + name);
      if (!batch) return false;
      row = 0;
      numbers = numbers_of(*batch, seq_column);
      const int64_t rows = batch->num_rows();
      const bool ascends = std::is_sorted(numbers, numbers + rows) && (rows == 0 || !last || *last <= numbers[0]);
      if (!ascends)
        fail(ErrorKind::corrupt, "{}: its rows are not in the order of _hyp_ingest_seq, as its sort order says", name);
      if (rows == 0) batch = nullptr;
    }
    return true;
  }
};

// Consecutive rows of one batch.
struct Piece {
  BatchPtr batch;
  int64_t begin = 0, count = 0;
};

BatchPtr join_few(const std::vector<Piece>& pieces) {
  std::vector<BatchPtr> slices;
  for (const Piece& piece : pieces) slices.push_back(piece.batch->Slice(piece.begin, piece.count));
  return slices.size() == 1 ? slices[0] : check(arrow::ConcatenateRecordBatches(slices), "join rows");
}

// Many small pieces of few batches: cheaper by index.
BatchPtr join_many(const std::vector<Piece>& pieces) {
  struct Span {
    BatchPtr batch;
    int64_t begin, end, base;
  };
  std::vector<Span> spans;
  std::unordered_map<const RecordBatch*, size_t> span_of;
  for (const Piece& piece : pieces) {
    const auto [at, is_new] = span_of.emplace(piece.batch.get(), spans.size());
    if (is_new) spans.push_back({piece.batch, piece.begin, piece.begin, 0});
    spans[at->second].end = piece.begin + piece.count;  // a batch's pieces ascend
  }
  std::vector<BatchPtr> slices;
  int64_t base = 0;
  for (Span& span : spans) {
    slices.push_back(span.batch->Slice(span.begin, span.end - span.begin));
    span.base = base - span.begin;
    base += span.end - span.begin;
  }
  arrow::Int64Builder indices;
  for (const Piece& piece : pieces) {
    const int64_t offset = spans[span_of.at(piece.batch.get())].base + piece.begin;
    for (int64_t i = 0; i < piece.count; ++i) check(indices.Append(offset + i), "order rows");
  }
  return take(check(arrow::ConcatenateRecordBatches(slices), "join rows"), check(indices.Finish(), "order rows"));
}

BatchPtr join(const std::vector<Piece>& pieces) {
  constexpr size_t kFewPieces = 32;
  return pieces.size() <= kFewPieces ? join_few(pieces) : join_many(pieces);
}

// The most runs that share a number.
size_t overlap_depth(const std::vector<SequencedRun>& runs) {
  std::priority_queue<int64_t, std::vector<int64_t>, std::greater<>> uppers;
  size_t depth = 0;
  for (const SequencedRun& run : runs) {
    while (!uppers.empty() && uppers.top() < run.lower) uppers.pop();
    uppers.push(run.upper);
    depth = std::max(depth, uppers.size());
  }
  return depth;
}

void sort_runs(std::vector<SequencedRun>& runs) {
  std::stable_sort(runs.begin(), runs.end(), [](const SequencedRun& a, const SequencedRun& b) {
    return std::pair(a.lower, a.upper) < std::pair(b.lower, b.upper);
  });
}

}  // namespace

struct SequenceMerge::State {
  std::vector<SequencedRun> runs;  // sorted, not yet begun with
  size_t next_run = 0;
  std::shared_ptr<arrow::Schema> schema;
  int seq_column = 0;
  int64_t batch_rows_max = 0;

  std::vector<SequencedRun> cluster;  // runs that overlap in a chain, being merged
  size_t next_in_cluster = 0;
  size_t num_opened = 0;
  struct Later {
    bool operator()(const std::unique_ptr<RunCursor>& a, const std::unique_ptr<RunCursor>& b) const {
      return std::pair(a->number(), a->order) > std::pair(b->number(), b->order);
    }
  };
  std::vector<std::unique_ptr<RunCursor>> heap;

  void push(std::unique_ptr<RunCursor> cursor) {
    if (!cursor->settle(seq_column)) return;
    heap.push_back(std::move(cursor));
    std::push_heap(heap.begin(), heap.end(), Later());
  }

  std::unique_ptr<RunCursor> pop() {
    std::pop_heap(heap.begin(), heap.end(), Later());
    auto cursor = std::move(heap.back());
    heap.pop_back();
    return cursor;
  }

  void open(const SequencedRun& run) {
    auto cursor = std::make_unique<RunCursor>();
    cursor->reader = run.open();
    cursor->name = run.name;
    cursor->order = num_opened++;
    push(std::move(cursor));
  }

  // One file for each kMergeOpenMax of the cluster's runs: each row is written once a pass.
  void spill_pass() {
    std::vector<SequencedRun> merged;
    for (size_t begin = 0; begin < cluster.size(); begin += kMergeOpenMax) {
      const size_t end = std::min(cluster.size(), begin + kMergeOpenMax);
      std::vector<SequencedRun> group(cluster.begin() + static_cast<ptrdiff_t>(begin),
                                      cluster.begin() + static_cast<ptrdiff_t>(end));
      if (group.size() == 1) {
        merged.push_back(std::move(group[0]));
        continue;
      }
      Spill spill(schema);
      SequenceMerge merge(std::move(group), schema, seq_column, batch_rows_max);
      while (BatchPtr batch = merge.next()) spill.write(*batch, seq_column);
      merged.push_back(std::move(spill).finish("a merged temporary file"));
    }
    sort_runs(merged);
    cluster = std::move(merged);
  }

  void begin_cluster() {
    cluster.clear();
    next_in_cluster = 0;
    int64_t upper = std::numeric_limits<int64_t>::min();
    while (next_run < runs.size() && (cluster.empty() || runs[next_run].lower <= upper)) {
      upper = std::max(upper, runs[next_run].upper);
      cluster.push_back(std::move(runs[next_run++]));
    }
    while (overlap_depth(cluster) > kMergeOpenMax) spill_pass();
  }

  // Opens what may hold the next row; false at the end.
  bool settle() {
    for (;;) {
      while (next_in_cluster < cluster.size() &&
             (heap.empty() || cluster[next_in_cluster].lower <= heap.front()->number())) {
        const SequencedRun run = std::move(cluster[next_in_cluster++]);
        open(run);
      }
      if (!heap.empty()) return true;
      if (next_run == runs.size()) return false;
      begin_cluster();
    }
  }

  // The greatest number up to which the first cursor may go on, now that it is popped.
  int64_t limit() const {
    int64_t limit = std::numeric_limits<int64_t>::max();
    if (!heap.empty()) limit = heap.front()->number();
    if (next_in_cluster < cluster.size()) limit = std::min(limit, cluster[next_in_cluster].lower);
    return limit;
  }
};

SequenceMerge::SequenceMerge(std::vector<SequencedRun> runs, std::shared_ptr<arrow::Schema> schema, int seq_column,
                             int64_t batch_rows_max)
    : state_(std::make_unique<State>()) {
  sort_runs(runs);
  state_->runs = std::move(runs);
  state_->schema = std::move(schema);
  state_->seq_column = seq_column;
  state_->batch_rows_max = std::max<int64_t>(1, batch_rows_max);
}

SequenceMerge::~SequenceMerge() = default;

std::shared_ptr<arrow::RecordBatch> SequenceMerge::next() {
  State& s = *state_;
  std::vector<Piece> pieces;
  int64_t rows = 0;
  while (rows < s.batch_rows_max && s.settle()) {
    auto cursor = s.pop();
    const int64_t limit = s.limit();
    const int64_t begin = cursor->row;
    const int64_t end = std::min(cursor->batch->num_rows(), begin + s.batch_rows_max - rows);
    do ++cursor->row;
    while (cursor->row < end && cursor->numbers[cursor->row] <= limit);
    pieces.push_back({cursor->batch, begin, cursor->row - begin});
    rows += cursor->row - begin;
    s.push(std::move(cursor));
    // A single run streams through: its batches are handed on as they are.
    if (pieces.size() == 1 && s.heap.size() <= 1 && rows * 2 >= s.batch_rows_max) break;
  }
  return pieces.empty() ? nullptr : join(pieces);
}

std::vector<SequencedRun> sort_into_runs(const SequencedRun& unsorted, int seq_column) {
  std::vector<SequencedRun> runs;
  const auto reader = unsorted.open();
  for (BatchPtr batch;;) {
    check(reader->ReadNext(&batch), "read " + unsorted.name);
    if (!batch) return runs;
    if (batch->num_rows() == 0) continue;
    initialize_compute();
    const auto order = check(arrow::compute::SortIndices(*batch->column(seq_column)), "sort " + unsorted.name);
    Spill spill(batch->schema());
    spill.write(*take(batch, order), seq_column);
    runs.push_back(std::move(spill).finish(unsorted.name));
  }
}

}  // namespace firn::hyp
