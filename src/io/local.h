// What only a local disk has: locks, append-only files, renames, links. All of it durable as P15 says, and each durable
// step passes a fault point.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace firn {

// Creates `folder` and its missing parents, and syncs each parent in which one was made. Safe among processes: a folder
// that another process made and may not have synced yet is made durable too, by syncing the parents of each folder
// once.
void make_directories(const std::string& folder);
void sync_directory(const std::string& folder);  // throws not_found

// What follows makes the missing folders of the path it creates.

// Writes a temporary file beside `path`, syncs it, renames it over `path`, syncs the directory. A crash leaves the old
// content or the new. Throws io; then the old content stands, or the new where only the directory's sync failed.
void replace_file(const std::string& path, std::string_view bytes);
// Synced temporary, link(2) to `path`, directory synced; false if `path` was taken. Throws NotPut where the temporary
// cannot be written.
bool link_new_file(const std::string& path, std::string_view bytes);
void remove_file(const std::string& path);                         // absent is fine; the directory is synced
void remove_tree(const std::string& folder);                       // absent is fine; a crash leaves a part of it
void rename_file(const std::string& from, const std::string& to);  // replaces `to`; both directories synced

// A descriptor's owner.
class Descriptor {
 public:
  explicit Descriptor(int fd = -1) : fd_(fd) {}
  ~Descriptor();
  Descriptor(Descriptor&& other) noexcept : fd_(other.release()) {}
  Descriptor& operator=(Descriptor&& other) noexcept;
  int get() const { return fd_; }
  int release() { return std::exchange(fd_, -1); }
  explicit operator bool() const { return fd_ >= 0; }

 private:
  int fd_;
};

// An advisory lock on a file that is created if missing and never removed, held until destruction; between processes
// and between holders in one process alike (open file description locks). The kernel drops it when its process dies.
class FileLock {
 public:
  enum class Mode : uint8_t { shared, exclusive };
  static FileLock acquire(const std::string& path, Mode mode);                     // waits
  static std::optional<FileLock> try_acquire(const std::string& path, Mode mode);  // nullopt: held by another
  FileLock(FileLock&&) noexcept = default;
  FileLock& operator=(FileLock&&) noexcept = default;

 private:
  explicit FileLock(Descriptor fd) : fd_(std::move(fd)) {}
  Descriptor fd_;
};

// An append-only file. Bytes are durable after sync() only. After a failed append or sync every call throws: the file
// is to be abandoned (P15). One thread at a time.
class AppendFile {
 public:
  // Creates it (synced directory) or opens it and cuts it to `size_bytes` if given; what it then holds is synced.
  // Throws corrupt if it has less.
  static AppendFile open(const std::string& path, std::optional<int64_t> size_bytes = std::nullopt);
  void append(std::string_view bytes);
  void sync();
  int64_t size_bytes() const { return size_; }
  const std::string& path() const { return path_; }

 private:
  AppendFile(std::string path, Descriptor fd, int64_t size)
      : path_(std::move(path)), fd_(std::move(fd)), size_(size), synced_size_(size) {}
  void check_usable() const;

  std::string path_;
  Descriptor fd_;
  int64_t size_ = 0;
  int64_t synced_size_ = 0;
  bool failed_ = false;
};

}  // namespace firn
