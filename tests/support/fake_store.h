// An object store in memory that keeps the rules of FileIO and can lie about them.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "io/file_io.h"

namespace firn {

// What a store may do to a put_if_absent. All but `twice` throw io: the caller hears no answer.
enum class Lie : uint8_t {
  lost,     // it never arrives
  applied,  // it is done, and the answer is lost
  late,     // it arrives at deliver_late(), by the rules of that moment
  twice,    // it is done, and a second arrival of it is answered: false
};

// Paths are opaque; a folder is a prefix that ends with '/'. Thread-safe.
class FakeStore : public FileIO {
 public:
  // The next put_if_absent of a path that ends with `suffix` is treated so. Several queue up.
  void lie_once(const std::string& suffix, Lie lie);
  void deliver_late();
  // Runs before each put_if_absent, outside the lock: what another writer does just then.
  void before_put(std::function<void(const std::string& path)> hook);
  // The next `num_calls` calls that would touch a path ending with `suffix` throw io.
  void break_path(const std::string& suffix, int num_calls);
  std::vector<std::string> paths();                 // of all files, sorted
  int64_t num_reads(const std::string& path_part);  // of files whose path holds `path_part`

  std::shared_ptr<arrow::io::RandomAccessFile> open(const std::string& path) override;
  std::unique_ptr<OutputFile> create(const std::string& path) override;
  std::unique_ptr<OutputFile> create_or_replace(const std::string& path) override;
  std::string read(const std::string& path) override;
  std::optional<std::string> read_if_exists(const std::string& path) override;
  bool put_if_absent(const std::string& path, std::string_view bytes) override;
  void replace(const std::string& path, std::string_view bytes) override;
  bool replace_if(const std::string& path, const std::optional<std::string>& version, std::string_view bytes) override;
  std::optional<FileInfo> stat(const std::string& path) override;
  std::vector<FileInfo> list(const std::string& folder, bool recursive) override;
  std::vector<FileInfo> list_leftovers(const std::string&) override { return {}; }
  void remove(const std::string& path) override;
  void sync_folder(const std::string&) override {}

 private:
  struct Object {
    std::string bytes;
    int64_t etag = 0;
  };
  void check_path(const std::string& path);  // the lock is held
  bool put(const std::string& path, std::string_view bytes);
  FileInfo info(const std::string& path, const Object& object) const;

  std::mutex mutex_;
  std::map<std::string, Object> objects_;
  std::map<std::string, int64_t> reads_;
  std::vector<std::pair<std::string, Lie>> lies_;
  std::vector<std::pair<std::string, std::string>> late_;
  std::map<std::string, int> broken_;  // calls left, by suffix
  std::function<void(const std::string&)> before_put_;
  int64_t next_etag_ = 1;
};

}  // namespace firn
