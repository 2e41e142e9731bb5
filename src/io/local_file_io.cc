#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include <arrow/buffer.h>
#include <arrow/io/file.h>

#include "base/arrow_status.h"
#include "base/civil_time.h"
#include "base/error.h"
#include "base/uri.h"
#include "io/file_io.h"
#include "io/local.h"
#include "io/temporary_file.h"

namespace firn {
namespace {

constexpr int64_t kBufferBytes = 256 * 1024;

std::string to_local(std::string_view uri) {
  if (!is_local(uri)) fail(ErrorKind::unsupported, "{}: only local paths and file: URIs can be opened here", uri);
  return local_path(uri);
}

FileInfo make_info(std::string path, const struct stat& info) {
  const int64_t nanos = info.st_mtim.tv_sec * int64_t{1'000'000'000} + info.st_mtim.tv_nsec;
  return {.path = std::move(path),
          .size_bytes = info.st_size,
          .modified_ms = floor_div(nanos, 1'000'000),
          .version = fmt::format("{}-{}-{}", info.st_ino, info.st_size, nanos)};
}

// Buffers small writes (Parquet headers, Avro blocks) into the temporary file.
class TemporaryFileStream : public arrow::io::OutputStream {
 public:
  explicit TemporaryFileStream(TemporaryFile& file) : file_(file) { set_mode(arrow::io::FileMode::WRITE); }

  using arrow::io::OutputStream::Write;
  arrow::Status Write(const void* data, int64_t nbytes) override {
    const std::string_view bytes(static_cast<const char*>(data), static_cast<size_t>(nbytes));
    if (static_cast<int64_t>(buffer_.size()) + nbytes > kBufferBytes) ARROW_RETURN_NOT_OK(Flush());
    if (nbytes >= kBufferBytes) {
      ARROW_RETURN_NOT_OK(write_through(bytes));
    } else {
      buffer_ += bytes;
    }
    position_ += nbytes;
    return arrow::Status::OK();
  }
  arrow::Status Flush() override {
    ARROW_RETURN_NOT_OK(write_through(buffer_));
    buffer_.clear();
    return arrow::Status::OK();
  }
  arrow::Result<int64_t> Tell() const override { return position_; }
  arrow::Status Close() override {
    is_closed_ = true;
    return Flush();
  }
  bool closed() const override { return is_closed_; }

 private:
  arrow::Status write_through(std::string_view bytes) {
    try {
      file_.write(bytes);
      return arrow::Status::OK();
    } catch (const Error& e) {
      return arrow::Status::IOError(e.what());  // Arrow's writers expect a Status, not an exception
    }
  }

  TemporaryFile& file_;
  std::string buffer_;
  int64_t position_ = 0;
  bool is_closed_ = false;
};

class LocalOutputFile : public OutputFile {
 public:
  LocalOutputFile(std::string path, const std::string& local, bool replaces)
      : path_(std::move(path)), replaces_(replaces), file_(local), stream_(file_) {}

  const std::string& path() const override { return path_; }
  arrow::io::OutputStream& stream() override { return stream_; }
  void close() override {
    check(stream_.Flush(), "write " + path_);
    if (replaces_) {
      file_.rename_over_path({.before_name = "io.create.before_rename",
                              .before_temporary_unlink = nullptr,
                              .before_directory_sync = "io.create.before_directory_sync"});
      return;
    }
    const bool is_published = file_.link_to_path({.before_name = "io.create.before_link",
                                                  .before_temporary_unlink = "io.create.before_temporary_unlink",
                                                  .before_directory_sync = "io.create.before_directory_sync"});
    if (!is_published) fail(ErrorKind::already_exists, "{} was made by another writer meanwhile", path_);
  }

 private:
  std::string path_;
  bool replaces_;
  TemporaryFile file_;
  TemporaryFileStream stream_;
};

class LocalFileIO : public FileIO {
 public:
  std::shared_ptr<arrow::io::RandomAccessFile> open(const std::string& path) override {
    return check(arrow::io::ReadableFile::Open(to_local(path)), "open " + path);
  }

  std::unique_ptr<OutputFile> create(const std::string& path) override {
    return std::make_unique<LocalOutputFile>(path, to_local(path), false);
  }

  std::unique_ptr<OutputFile> create_or_replace(const std::string& path) override {
    return std::make_unique<LocalOutputFile>(path, to_local(path), true);
  }

  std::string read(const std::string& path) override {
    std::optional<std::string> bytes = read_if_exists(path);
    if (!bytes) fail_errno(ENOENT, "open " + path);
    return std::move(*bytes);
  }

  std::optional<std::string> read_if_exists(const std::string& path) override {
    const Descriptor fd(::open(to_local(path).c_str(), O_RDONLY | O_CLOEXEC));
    if (!fd && errno == ENOENT) return std::nullopt;
    if (!fd) fail_errno(errno, "open " + path);
    struct stat info;
    if (::fstat(fd.get(), &info) != 0) fail_errno(errno, "stat " + path);
    std::string bytes(static_cast<size_t>(info.st_size) + 1, '\0');  // one more, to see the end at once
    size_t size = 0;
    while (true) {
      if (size == bytes.size()) bytes.resize(bytes.size() * 2);
      const ssize_t got = ::read(fd.get(), bytes.data() + size, bytes.size() - size);
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) fail_errno(errno, "read " + path);
      if (got == 0) break;
      size += static_cast<size_t>(got);
    }
    bytes.resize(size);
    return bytes;
  }

  bool put_if_absent(const std::string& path, std::string_view bytes) override {
    return link_new_file(to_local(path), bytes);
  }

  void replace(const std::string& path, std::string_view bytes) override { replace_file(to_local(path), bytes); }

  bool replace_if(const std::string& path, const std::optional<std::string>& version, std::string_view bytes) override {
    const std::string local = to_local(path);
    const FileLock lock = FileLock::acquire(local + ".lock", FileLock::Mode::exclusive);
    if (!version) return link_new_file(local, bytes);
    const std::optional<FileInfo> there = stat(path);
    if (!there || there->version != *version) return false;
    replace_file(local, bytes);
    return true;
  }

  std::optional<FileInfo> stat(const std::string& path) override {
    struct stat info;
    if (::stat(to_local(path).c_str(), &info) != 0) {
      if (errno == ENOENT) return std::nullopt;
      fail_errno(errno, "stat " + path);
    }
    if (!S_ISREG(info.st_mode)) return std::nullopt;  // folders are no files, as in an object store
    return make_info(path, info);
  }

  std::vector<FileInfo> list(const std::string& folder, bool recursive) override {
    return sorted_files(folder, recursive, [](std::string_view name) { return !is_temporary_name(name); });
  }

  std::vector<FileInfo> list_leftovers(const std::string& folder) override {
    return sorted_files(folder, /*recursive=*/true, is_own_temporary_name);
  }

  void remove(const std::string& path) override { remove_file(to_local(path)); }
  void sync_folder(const std::string& folder) override { sync_directory(to_local(folder)); }

 private:
  using IsWanted = bool (*)(std::string_view name);

  std::vector<FileInfo> sorted_files(const std::string& folder, bool recursive, IsWanted is_wanted) {
    std::vector<FileInfo> files;
    collect(folder, recursive, is_wanted, files);
    std::sort(files.begin(), files.end(), [](const FileInfo& a, const FileInfo& b) { return a.path < b.path; });
    return files;
  }

  // Links to files count as files; links to folders are not followed, since they may lead in circles.
  void collect(const std::string& folder, bool recursive, IsWanted is_wanted, std::vector<FileInfo>& files) {
    DIR* const raw = ::opendir(to_local(folder).c_str());
    if (raw == nullptr) {
      if (errno == ENOENT) return;
      fail_errno(errno, "list " + folder);
    }
    const std::unique_ptr<DIR, int (*)(DIR*)> handle(raw, &::closedir);
    std::vector<std::string> folders;
    while (true) {
      errno = 0;
      const dirent* entry = ::readdir(raw);
      if (entry == nullptr && errno != 0) fail_errno(errno, "list " + folder);
      if (entry == nullptr) break;
      const std::string_view name = entry->d_name;
      if (name == "." || name == "..") continue;
      struct stat info;
      if (::fstatat(::dirfd(raw), entry->d_name, &info, AT_SYMLINK_NOFOLLOW) != 0) continue;  // gone meanwhile
      if (S_ISLNK(info.st_mode) && (::fstatat(::dirfd(raw), entry->d_name, &info, 0) != 0 || S_ISDIR(info.st_mode))) {
        continue;
      }
      if (S_ISDIR(info.st_mode) && recursive && !is_temporary_name(name)) folders.push_back(join_path(folder, name));
      if (S_ISREG(info.st_mode) && is_wanted(name)) files.push_back(make_info(join_path(folder, name), info));
    }
    for (const std::string& below : folders) collect(below, recursive, is_wanted, files);
  }
};

}  // namespace

std::shared_ptr<FileIO> make_local_file_io() { return std::make_shared<LocalFileIO>(); }

}  // namespace firn
