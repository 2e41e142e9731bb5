#include "support/fake_store.h"

#include <algorithm>

#include <arrow/buffer.h>
#include <arrow/io/memory.h>

#include "base/arrow_status.h"
#include "base/error.h"

namespace firn {
namespace {

class FakeOutputFile : public OutputFile {
 public:
  FakeOutputFile(FakeStore& store, std::string path, bool replaces)
      : store_(store),
        path_(std::move(path)),
        replaces_(replaces),
        stream_(check(arrow::io::BufferOutputStream::Create(), "buffer")) {}
  const std::string& path() const override { return path_; }
  arrow::io::OutputStream& stream() override { return *stream_; }
  void close() override {
    const std::shared_ptr<arrow::Buffer> buffer = check(stream_->Finish(), "finish " + path_);
    if (replaces_) return store_.replace(path_, std::string_view(*buffer));
    if (!store_.put_if_absent(path_, std::string_view(*buffer))) fail(ErrorKind::already_exists, "{} is there", path_);
  }

 private:
  FakeStore& store_;
  std::string path_;
  bool replaces_;
  std::shared_ptr<arrow::io::BufferOutputStream> stream_;
};

}  // namespace

void FakeStore::lie_once(const std::string& suffix, Lie lie) {
  const std::lock_guard lock(mutex_);
  lies_.emplace_back(suffix, lie);
}

void FakeStore::deliver_late() {
  const std::lock_guard lock(mutex_);
  for (const auto& [path, bytes] : late_) put(path, bytes);
  late_.clear();
}

void FakeStore::before_put(std::function<void(const std::string&)> hook) {
  const std::lock_guard lock(mutex_);
  before_put_ = std::move(hook);
}

void FakeStore::break_path(const std::string& suffix, int num_calls) {
  const std::lock_guard lock(mutex_);
  broken_[suffix] = num_calls;
}

std::vector<std::string> FakeStore::paths() {
  const std::lock_guard lock(mutex_);
  std::vector<std::string> paths;
  for (const auto& [path, object] : objects_) paths.push_back(path);
  return paths;
}

int64_t FakeStore::num_reads(const std::string& path_part) {
  const std::lock_guard lock(mutex_);
  int64_t num = 0;
  for (const auto& [path, count] : reads_) {
    if (path.find(path_part) != std::string::npos) num += count;
  }
  return num;
}

std::shared_ptr<arrow::io::RandomAccessFile> FakeStore::open(const std::string& path) {
  return std::make_shared<arrow::io::BufferReader>(arrow::Buffer::FromString(read(path)));
}

std::unique_ptr<OutputFile> FakeStore::create(const std::string& path) {
  return std::make_unique<FakeOutputFile>(*this, path, false);
}

std::unique_ptr<OutputFile> FakeStore::create_or_replace(const std::string& path) {
  return std::make_unique<FakeOutputFile>(*this, path, true);
}

std::string FakeStore::read(const std::string& path) {
  std::optional<std::string> bytes = read_if_exists(path);
  if (!bytes) fail(ErrorKind::not_found, "{} is not there", path);
  return std::move(*bytes);
}

std::optional<std::string> FakeStore::read_if_exists(const std::string& path) {
  const std::lock_guard lock(mutex_);
  check_path(path);
  ++reads_[path];
  const auto found = objects_.find(path);
  return found == objects_.end() ? std::nullopt : std::optional(found->second.bytes);
}

bool FakeStore::put_if_absent(const std::string& path, std::string_view bytes) {
  std::function<void(const std::string&)> hook;
  {
    const std::lock_guard lock(mutex_);
    hook = before_put_;
  }
  if (hook) hook(path);
  const std::lock_guard lock(mutex_);
  check_path(path);
  const auto lie =
      std::find_if(lies_.begin(), lies_.end(), [&](const auto& entry) { return path.ends_with(entry.first); });
  if (lie == lies_.end()) return put(path, bytes);
  const Lie kind = lie->second;
  lies_.erase(lie);
  if (kind == Lie::applied || kind == Lie::twice) put(path, bytes);
  if (kind == Lie::twice) return false;
  if (kind == Lie::late) late_.emplace_back(path, bytes);
  fail(ErrorKind::io, "put {}: connection reset", path);
}

void FakeStore::replace(const std::string& path, std::string_view bytes) {
  const std::lock_guard lock(mutex_);
  check_path(path);
  objects_[path] = {std::string(bytes), next_etag_++};
}

bool FakeStore::replace_if(const std::string& path, const std::optional<std::string>& version, std::string_view bytes) {
  const std::lock_guard lock(mutex_);
  check_path(path);
  const auto found = objects_.find(path);
  const auto there = found == objects_.end() ? std::nullopt : std::optional(info(path, found->second).version);
  if (there != version) return false;
  objects_[path] = {std::string(bytes), next_etag_++};
  return true;
}

std::optional<FileInfo> FakeStore::stat(const std::string& path) {
  const std::lock_guard lock(mutex_);
  check_path(path);
  const auto found = objects_.find(path);
  return found == objects_.end() ? std::nullopt : std::optional(info(path, found->second));
}

std::vector<FileInfo> FakeStore::list(const std::string& folder, bool recursive) {
  const std::lock_guard lock(mutex_);
  const std::string prefix = folder + "/";
  std::vector<FileInfo> files;
  for (auto it = objects_.lower_bound(prefix); it != objects_.end() && it->first.starts_with(prefix); ++it) {
    if (recursive || it->first.find('/', prefix.size()) == std::string::npos)
      files.push_back(info(it->first, it->second));
  }
  return files;
}

void FakeStore::remove(const std::string& path) {
  const std::lock_guard lock(mutex_);
  check_path(path);
  objects_.erase(path);
}

void FakeStore::check_path(const std::string& path) {
  for (auto& [suffix, num_left] : broken_) {
    if (num_left > 0 && path.ends_with(suffix)) {
      --num_left;
      fail(ErrorKind::io, "{}: connection refused", path);
    }
  }
}

bool FakeStore::put(const std::string& path, std::string_view bytes) {
  if (objects_.contains(path)) return false;
  objects_[path] = {std::string(bytes), next_etag_++};
  return true;
}

FileInfo FakeStore::info(const std::string& path, const Object& object) const {
  return {.path = path,
          .size_bytes = static_cast<int64_t>(object.bytes.size()),
          .modified_ms = object.etag,
          .version = "etag-" + std::to_string(object.etag)};
}

}  // namespace firn
