#include "io/file_io.h"

#include <utility>

#include "base/uri.h"

namespace firn {
namespace {

class RelocatedOutputFile : public OutputFile {
 public:
  RelocatedOutputFile(std::unique_ptr<OutputFile> file, std::string path)
      : file_(std::move(file)), path_(std::move(path)) {}
  const std::string& path() const override { return path_; }
  arrow::io::OutputStream& stream() override { return file_->stream(); }
  void close() override { file_->close(); }

 private:
  std::unique_ptr<OutputFile> file_;
  std::string path_;
};

void strip_slashes(std::string& path) {
  while (path.size() > 1 && path.ends_with('/')) path.pop_back();
}

// What follows `folder` in `path` ("" or "/…"), or nullopt if `path` is not in it.
std::optional<std::string_view> rest_after(std::string_view path, std::string_view folder) {
  if (!path.starts_with(folder)) return std::nullopt;
  path.remove_prefix(folder.size());
  return path.empty() || path.starts_with('/') ? std::optional(path) : std::nullopt;
}

class RelocatedFileIO : public FileIO {
 public:
  RelocatedFileIO(std::shared_ptr<FileIO> io, std::string prefix, std::string folder)
      : io_(std::move(io)), prefix_(std::move(prefix)), local_prefix_(local_path(prefix_)), folder_(std::move(folder)) {
    strip_slashes(prefix_);
    strip_slashes(local_prefix_);
    strip_slashes(folder_);
  }

  std::shared_ptr<arrow::io::RandomAccessFile> open(const std::string& path) override { return io_->open(there(path)); }
  std::unique_ptr<OutputFile> create(const std::string& path) override {
    return std::make_unique<RelocatedOutputFile>(io_->create(there(path)), path);
  }
  std::unique_ptr<OutputFile> create_or_replace(const std::string& path) override {
    return std::make_unique<RelocatedOutputFile>(io_->create_or_replace(there(path)), path);
  }
  std::string read(const std::string& path) override { return io_->read(there(path)); }
  std::optional<std::string> read_if_exists(const std::string& path) override {
    return io_->read_if_exists(there(path));
  }
  bool put_if_absent(const std::string& path, std::string_view bytes) override {
    return io_->put_if_absent(there(path), bytes);
  }
  void replace(const std::string& path, std::string_view bytes) override { io_->replace(there(path), bytes); }
  bool replace_if(const std::string& path, const std::optional<std::string>& version, std::string_view bytes) override {
    return io_->replace_if(there(path), version, bytes);
  }
  std::optional<FileInfo> stat(const std::string& path) override {
    std::optional<FileInfo> info = io_->stat(there(path));
    if (info) info->path = path;
    return info;
  }
  std::vector<FileInfo> list(const std::string& folder, bool recursive) override {
    return as_here(io_->list(there(folder), recursive), folder);
  }
  std::vector<FileInfo> list_leftovers(const std::string& folder) override {
    return as_here(io_->list_leftovers(there(folder)), folder);
  }
  void remove(const std::string& path) override { io_->remove(there(path)); }
  void sync_folder(const std::string& folder) override { io_->sync_folder(there(folder)); }

 private:
  std::string there(const std::string& path) const {
    const std::string local = local_path(path);
    const auto rest = rest_after(local, local_prefix_);
    return rest ? folder_ + std::string(*rest) : path;
  }
  // What was listed of there(folder).
  std::vector<FileInfo> as_here(std::vector<FileInfo> files, const std::string& folder) const {
    if (there(folder) == folder) return files;
    for (FileInfo& file : files) {
      if (const auto rest = rest_after(file.path, folder_)) file.path = prefix_ + std::string(*rest);
    }
    return files;
  }

  std::shared_ptr<FileIO> io_;
  std::string prefix_;        // as given: what list() answers with
  std::string local_prefix_;  // without "file:"
  std::string folder_;
};

}  // namespace

std::shared_ptr<FileIO> make_relocated_file_io(std::shared_ptr<FileIO> io, std::string prefix, std::string folder) {
  return std::make_shared<RelocatedFileIO>(std::move(io), std::move(prefix), std::move(folder));
}

}  // namespace firn
