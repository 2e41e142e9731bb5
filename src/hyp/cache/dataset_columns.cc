#include "hyp/cache/dataset_columns.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include "base/error.h"
#include "base/uri.h"
#include "base/uuid.h"
#include "hyp/cache/visible_schema.h"

namespace firn::hyp {
namespace {

constexpr size_t kMarkBytes = 36;  // a UUID

std::string lock_path(const Cache& cache, const std::string& dataset) {
  return fmt::format("{}/datasets/{}/schema.lock", cache.config().cache_root, encode_segment(dataset));
}

}  // namespace

DatasetColumns::DatasetColumns(const Cache& cache, std::string dataset, SeenColumns& seen)
    : cache_(cache),
      dataset_(std::move(dataset)),
      path_(lock_path(cache_, dataset_)),
      seen_(seen),
      lock_(FileLock::acquire(path_, FileLock::Mode::exclusive)) {}

const iceberg::Schema& DatasetColumns::schema() {
  std::string mark = read_mark();
  if (mark.empty() || mark != seen_.mark) {
    seen_.mark.clear();
    seen_.schema = cache_.dataset_schema(dataset_);
    seen_.mark = std::move(mark);
  }
  return seen_.schema;
}

void DatasetColumns::begin_change() {
  seen_.mark.clear();
  mark_ = uuid_v4();
  const Descriptor fd(::open(path_.c_str(), O_WRONLY | O_CLOEXEC));
  if (!fd || ::pwrite(fd.get(), mark_.data(), mark_.size(), 0) != static_cast<ssize_t>(mark_.size())) {
    fail_errno(errno, "write " + path_);
  }
}

void DatasetColumns::end_change(const iceberg::Schema& visible) {
  const bool is_first = seen_.schema.fields().empty();
  seen_.schema = is_first ? visible : merge_schemas(seen_.schema, visible, dataset_, Stands::second);
  seen_.mark = mark_;
}

std::string DatasetColumns::read_mark() const {
  const Descriptor fd(::open(path_.c_str(), O_RDONLY | O_CLOEXEC));
  std::array<char, kMarkBytes> bytes;
  const ssize_t size = fd ? ::pread(fd.get(), bytes.data(), bytes.size(), 0) : -1;
  if (size < 0) fail_errno(errno, "read " + path_);
  return {bytes.data(), static_cast<size_t>(size)};
}

}  // namespace firn::hyp
