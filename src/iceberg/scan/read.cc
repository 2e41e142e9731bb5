// read_task, read_tasks and scan: task readers as streams, one or many at once.
#include <condition_variable>
#include <deque>
#include <exception>
#include <map>
#include <mutex>
#include <thread>

#include "base/error.h"
#include "base/parallel.h"
#include "base/threads.h"
#include "iceberg/parquet/arrow_schema.h"
#include "iceberg/scan/task_reader.h"

namespace firn::iceberg {

namespace {

class OneTaskReader : public arrow::RecordBatchReader {
 public:
  OneTaskReader(std::shared_ptr<const ScanPlan> plan, size_t task_index, std::shared_ptr<FileIO> io,
                const ScanOptions& options)
      : plan_(std::move(plan)),
        io_(std::move(io)),
        options_(options),
        schema_(to_arrow_schema(plan_->projection)),
        reader_(std::make_unique<TaskReader>(*plan_, plan_->tasks.at(task_index), *io_, options_)) {}

  std::shared_ptr<arrow::Schema> schema() const override { return schema_; }
  arrow::Status ReadNext(std::shared_ptr<arrow::RecordBatch>* batch) override {
    *batch = reader_ ? reader_->next() : nullptr;
    if (!*batch) reader_ = nullptr;
    return arrow::Status::OK();
  }
  arrow::Status Close() override {
    reader_ = nullptr;
    return arrow::Status::OK();
  }

 private:
  std::shared_ptr<const ScanPlan> plan_;
  std::shared_ptr<FileIO> io_;
  ScanOptions options_;
  std::shared_ptr<arrow::Schema> schema_;
  std::unique_ptr<TaskReader> reader_;
};

// Threads take tasks in the plan's order, within a window past the consumer's, and queue their batches per task; the
// consumer drains the queues in that order. What is queued is bounded for each task and for all together, but the
// consumer's task may always add to its own: it has a thread or is done, so nobody waits for each other.
class ReadAhead : public arrow::RecordBatchReader {
 public:
  ReadAhead(std::shared_ptr<const ScanPlan> plan, std::shared_ptr<FileIO> io, const ScanOptions& options)
      : plan_(std::move(plan)),
        io_(std::move(io)),
        options_(options),
        schema_(to_arrow_schema(plan_->projection)),
        thread_max_(std::min(static_cast<size_t>(thread_count(options.threads)), plan_->tasks.size())) {}
  ~ReadAhead() override { stop(); }

  std::shared_ptr<arrow::Schema> schema() const override { return schema_; }

  arrow::Status ReadNext(std::shared_ptr<arrow::RecordBatch>* batch) override {
    batch->reset();
    start();
    std::unique_lock lock(mutex_);
    while (!stopped_ && head_ < plan_->tasks.size()) {
      Queue& queue = queues_[head_];
      produced_.wait(lock, [&] { return !queue.batches.empty() || queue.done; });
      if (!queue.batches.empty()) {
        *batch = std::move(queue.batches.front());
        queue.batches.pop_front();
        --queued_;
        consumed_.notify_all();
        return arrow::Status::OK();
      }
      const std::exception_ptr error = queue.error;
      queues_.erase(head_++);
      consumed_.notify_all();
      if (error) {
        lock.unlock();
        stop();
        std::rethrow_exception(error);
      }
    }
    lock.unlock();
    stop();
    return arrow::Status::OK();
  }

  arrow::Status Close() override {
    stop();
    return arrow::Status::OK();
  }

 private:
  static constexpr size_t kQueuedBatchesMax = 2;  // of one task

  struct Queue {
    std::deque<std::shared_ptr<arrow::RecordBatch>> batches;
    bool done = false;
    std::exception_ptr error;
  };

  void start() {
    if (started_) return;
    started_ = true;
    if (thread_max_ == 0) return;
    const auto work = [this] { read_tasks_in_turn(); };
    threads_.push_back(begin_thread(work));
    begin_helpers(threads_, thread_max_ - 1, work);
  }

  void stop() {
    {
      const std::lock_guard lock(mutex_);
      stopped_ = true;
    }
    consumed_.notify_all();
    threads_.clear();  // joins
    queues_.clear();
  }

  void read_tasks_in_turn() {
    while (const std::optional<size_t> task = take_task()) {
      std::exception_ptr error;
      try {
        read_one(*task);
      } catch (...) {  // the consumer gets it in this task's place
        error = std::current_exception();
      }
      const std::lock_guard lock(mutex_);
      Queue& queue = queues_[*task];
      queue.done = true;
      queue.error = error;
      produced_.notify_one();
      if (error) next_task_ = plan_->tasks.size();  // what comes after it is not read
    }
  }

  std::optional<size_t> take_task() {
    std::unique_lock lock(mutex_);
    consumed_.wait(
        lock, [&] { return stopped_ || next_task_ >= plan_->tasks.size() || next_task_ < head_ + 2 * thread_max_; });
    if (stopped_ || next_task_ >= plan_->tasks.size()) return std::nullopt;
    return next_task_++;
  }

  void read_one(size_t task) {
    TaskReader reader(*plan_, plan_->tasks[task], *io_, options_);
    while (std::shared_ptr<arrow::RecordBatch> batch = reader.next()) {
      std::unique_lock lock(mutex_);
      Queue& queue = queues_[task];
      consumed_.wait(lock, [&] {
        return stopped_ || (queue.batches.size() < kQueuedBatchesMax && (task == head_ || queued_ < 2 * thread_max_));
      });
      if (stopped_) return;
      queue.batches.push_back(std::move(batch));
      ++queued_;
      produced_.notify_one();
    }
  }

  const std::shared_ptr<const ScanPlan> plan_;
  const std::shared_ptr<FileIO> io_;
  const ScanOptions options_;
  const std::shared_ptr<arrow::Schema> schema_;
  const size_t thread_max_;
  bool started_ = false;  // the consumer's

  std::mutex mutex_;  // guards what follows
  std::condition_variable produced_, consumed_;
  std::map<size_t, Queue> queues_;  // references stay valid while others come and go
  size_t queued_ = 0;               // batches of all queues
  size_t head_ = 0;                 // the consumer's task
  size_t next_task_ = 0;            // the first that no thread has taken
  bool stopped_ = false;
  std::vector<std::jthread> threads_;  // the consumer's; last, so that they end before what they use
};

}  // namespace

std::shared_ptr<arrow::RecordBatchReader> read_task(const std::shared_ptr<const ScanPlan>& plan, size_t task_index,
                                                    const std::shared_ptr<FileIO>& io, const ScanOptions& options) {
  return std::make_shared<OneTaskReader>(plan, task_index, io, options);
}

std::shared_ptr<arrow::RecordBatchReader> read_tasks(const std::shared_ptr<const ScanPlan>& plan,
                                                     const std::shared_ptr<FileIO>& io, const ScanOptions& options) {
  // What is one batch is read sooner than a thread begins.
  const bool is_small = plan->tasks.size() == 1 && plan->tasks[0].file.record_count <= options.batch_rows_max;
  if (is_small) return read_task(plan, 0, io, options);
  return std::make_shared<ReadAhead>(plan, io, options);
}

std::shared_ptr<arrow::RecordBatchReader> scan(const TableMetadata& metadata, const std::shared_ptr<FileIO>& io,
                                               const ScanOptions& options) {
  return read_tasks(std::make_shared<const ScanPlan>(plan_scan(metadata, io, options)), io, options);
}

}  // namespace firn::iceberg
