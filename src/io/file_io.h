// Files of tables: what a local disk and an object store both can do. Paths are local paths or URIs.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <arrow/io/interfaces.h>

namespace firn {

struct FileInfo {
  std::string path;  // as it is opened
  int64_t size_bytes = 0;
  int64_t modified_ms = 0;  // since 1970
  std::string version;      // changes whenever the content may have: inode, size and mtime in ns; an ETag
};

// A new file, visible under its path only after close(). Not thread-safe.
class OutputFile {
 public:
  virtual ~OutputFile() = default;  // without close(): nothing is left behind, empty folders aside
  virtual const std::string& path() const = 0;
  virtual arrow::io::OutputStream& stream() = 0;  // do not Close() it
  // Syncs the bytes, publishes the file under path(), syncs its directory and every directory made for it (P15). Throws
  // io. A failed call leaves no file under the path that a later reader would take for whole.
  virtual void close() = 0;
};

// Thread-safe. Every write is durable when the call returns (P15), and passes fault points.
class FileIO {
 public:
  virtual ~FileIO() = default;

  // Throws not_found.
  virtual std::shared_ptr<arrow::io::RandomAccessFile> open(const std::string& path) = 0;
  // Throws already_exists on close() if the path was taken meanwhile.
  virtual std::unique_ptr<OutputFile> create(const std::string& path) = 0;
  // As create, but close() replaces what is at `path` in one step: a reader sees the old file or the new.
  virtual std::unique_ptr<OutputFile> create_or_replace(const std::string& path) = 0;
  virtual std::string read(const std::string& path) = 0;  // whole; throws not_found
  // nullopt: absent. Throws io if it is there and unreadable.
  virtual std::optional<std::string> read_if_exists(const std::string& path) = 0;
  // Publishes `bytes` under `path` unless something is there; false if so. Atomic among all writers (P1.2). Throws io
  // where the outcome is not known.
  virtual bool put_if_absent(const std::string& path, std::string_view bytes) = 0;
  // Replaces or creates `path` in one step: a reader sees the old bytes or the new.
  virtual void replace(const std::string& path, std::string_view bytes) = 0;
  // Replaces `path` only while its FileInfo::version is `version` (nullopt: while nothing is there); false if not.
  // Atomic among all callers of replace_if on that path (P1.4: a lock on "<path>.lock" around stat and rename on disk,
  // If-Match on S3).
  virtual bool replace_if(const std::string& path, const std::optional<std::string>& version,
                          std::string_view bytes) = 0;
  virtual std::optional<FileInfo> stat(const std::string& path) = 0;  // nullopt: absent
  // Files directly in `folder` (recursive: below it too), in byte order of path, spelled as `folder` is; empty if the
  // folder is absent. On disk, ".<name>.tmp-<random>" is a killed writer's leftover and is not listed.
  virtual std::vector<FileInfo> list(const std::string& folder, bool recursive) = 0;
  // Those leftovers, in `folder` and below, likewise. A young one may be a writer's that is at work. Object stores have
  // none.
  virtual std::vector<FileInfo> list_leftovers(const std::string& folder) = 0;
  virtual void remove(const std::string& path) = 0;  // absent is fine
  // Makes durable what other processes published in `folder` (P10.8). Object stores need nothing.
  virtual void sync_folder(const std::string& folder) = 0;
};

// The local disk.
std::shared_ptr<FileIO> make_local_file_io();

// Reads and writes `prefix`-ed paths under `folder` instead, e.g. "/warehouse/t" at "/tmp/x/t": tables that were moved.
// Handles "file:" spellings of the prefix too.
std::shared_ptr<FileIO> make_relocated_file_io(std::shared_ptr<FileIO> io, std::string prefix, std::string folder);

}  // namespace firn
