// The local disk as a FileIO of which a test overrides what it wants to see or to fail.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "io/file_io.h"

namespace firn {

class LocalDisk : public FileIO {
 public:
  std::shared_ptr<arrow::io::RandomAccessFile> open(const std::string& path) override { return io_->open(path); }
  std::unique_ptr<OutputFile> create(const std::string& path) override { return io_->create(path); }
  std::unique_ptr<OutputFile> create_or_replace(const std::string& path) override {
    return io_->create_or_replace(path);
  }
  std::string read(const std::string& path) override { return io_->read(path); }
  std::optional<std::string> read_if_exists(const std::string& path) override { return io_->read_if_exists(path); }
  bool put_if_absent(const std::string& path, std::string_view bytes) override {
    return io_->put_if_absent(path, bytes);
  }
  void replace(const std::string& path, std::string_view bytes) override { io_->replace(path, bytes); }
  bool replace_if(const std::string& path, const std::optional<std::string>& version, std::string_view bytes) override {
    return io_->replace_if(path, version, bytes);
  }
  std::optional<FileInfo> stat(const std::string& path) override { return io_->stat(path); }
  std::vector<FileInfo> list(const std::string& folder, bool recursive) override {
    return io_->list(folder, recursive);
  }
  std::vector<FileInfo> list_leftovers(const std::string& folder) override { return io_->list_leftovers(folder); }
  void remove(const std::string& path) override { io_->remove(path); }
  void sync_folder(const std::string& folder) override { io_->sync_folder(folder); }

 private:
  std::shared_ptr<FileIO> io_ = make_local_file_io();
};

}  // namespace firn
