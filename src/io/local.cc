#include "io/local.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <mutex>
#include <optional>
#include <set>
#include <vector>

#include "base/error.h"
#include "base/fault_point.h"
#include "io/not_put.h"
#include "io/temporary_file.h"
#include "io/unsynced.h"

namespace firn {
namespace {

// Folders whose name in their parent this process has synced, by device and inode: a path may come to mean another
// folder.
class DurableFolders {
 public:
  bool contains(const struct stat& info) {
    std::lock_guard lock(mutex_);
    return known_.contains({info.st_dev, info.st_ino});
  }
  void insert(const struct stat& info) {
    std::lock_guard lock(mutex_);
    known_.insert({info.st_dev, info.st_ino});
  }
  void erase(const struct stat& info) {
    std::lock_guard lock(mutex_);
    known_.erase({info.st_dev, info.st_ino});
  }
  void clear() {
    std::lock_guard lock(mutex_);
    known_.clear();
  }

 private:
  std::mutex mutex_;
  std::set<std::pair<dev_t, ino_t>> known_;
};

DurableFolders& durable_folders() {
  static DurableFolders* folders = new DurableFolders;  // never destroyed: used by threads while the process exits
  return *folders;
}

void stat_folder(const std::string& folder, struct stat& info) {
  if (::stat(folder.c_str(), &info) != 0) fail_errno(errno, "stat " + folder);
  if (!S_ISDIR(info.st_mode)) fail_errno(ENOTDIR, "make directory " + folder);
}

// Of a parent above the first folder made by us: one that may not be opened was not made by the like of us.
void sync_older_parent(const std::string& folder) {
  check_program_runs();
  const Descriptor fd(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd) return;
  if (::fsync(fd.get()) == 0) {
    unsynced::synced_directory(folder);
  } else if (errno != EINVAL && errno != EROFS) {
    fail_errno(errno, "sync directory " + folder);
  }
}

void remove_folder_content(const std::string& folder, const std::string& synced_folder);

void remove_entry(const std::string& path, const struct stat& info, const std::string& synced_folder) {
  const bool is_folder = S_ISDIR(info.st_mode);
  if (is_folder) remove_folder_content(path, synced_folder);
  if (!survives_fault_point("io.remove_tree.before_entry")) return;
  unsynced::Step step;
  const std::string kept = is_folder ? std::string() : unsynced::keep(path, synced_folder);
  if ((is_folder ? ::rmdir(path.c_str()) : ::unlink(path.c_str())) != 0) {
    const int error = errno;
    unsynced::drop_kept(kept);
    if (error != ENOENT) fail_errno(error, "remove " + path);
    return;
  }
  // Its inode number may be given to a folder that nobody has synced.
  if (is_folder) durable_folders().erase(info);
  is_folder ? unsynced::removed_directory(path, synced_folder) : unsynced::removed(path, synced_folder, kept);
}

void remove_folder_content(const std::string& folder, const std::string& synced_folder) {
  DIR* const handle = ::opendir(folder.c_str());
  if (handle == nullptr) {
    if (errno == ENOENT) return;
    fail_errno(errno, "open directory " + folder);
  }
  std::vector<std::string> names;
  while (const dirent* entry = ::readdir(handle)) {
    const std::string_view name = entry->d_name;
    if (name != "." && name != "..") names.emplace_back(name);
  }
  ::closedir(handle);
  for (const std::string& name : names) {
    const std::string path = fmt::format("{}/{}", folder, name);
    struct stat info;
    if (::lstat(path.c_str(), &info) == 0) remove_entry(path, info, synced_folder);
  }
}

std::optional<Descriptor> lock_file(const std::string& path, FileLock::Mode mode, bool waits) {
  check_program_runs();
  make_directories(parent_folder(path));
  Descriptor fd(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666));
  if (const int error = errno; !fd) {
    // A shared lock needs no more than to read the file: on a read-only file system, or another user's.
    const bool may_be_enough = mode == FileLock::Mode::shared && (error == EROFS || error == EACCES);
    if (may_be_enough) fd = Descriptor(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (!fd) fail_errno(error, "open lock file " + path);
  }
  struct flock lock = {};
  lock.l_type = mode == FileLock::Mode::exclusive ? F_WRLCK : F_RDLCK;
  lock.l_whence = SEEK_SET;  // the whole file
  while (::fcntl(fd.get(), waits ? F_OFD_SETLKW : F_OFD_SETLK, &lock) != 0) {
    if (errno == EINTR) continue;
    if (!waits && (errno == EAGAIN || errno == EACCES)) return std::nullopt;
    fail_errno(errno, "lock " + path);
  }
  return fd;
}

}  // namespace

void forget_durable_folders() { durable_folders().clear(); }

void sync_directory_now(const std::string& folder) {
  check_program_runs();
  const Descriptor fd(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd) fail_errno(errno, "open directory " + folder);
  if (::fsync(fd.get()) != 0) fail_errno(errno, "sync directory " + folder);
  unsynced::synced_directory(folder);
}

void rename_now(const std::string& from, const std::string& to) {
  check_program_runs();
  unsynced::Step step;
  const std::string kept = unsynced::keep(to, parent_folder(to));
  if (::rename(from.c_str(), to.c_str()) != 0) {
    const int error = errno;
    unsynced::drop_kept(kept);
    fail_errno(error, fmt::format("rename {} to {}", from, to));
  }
  unsynced::renamed(from, to, kept);
}

void make_directories(const std::string& folder) {
  struct stat info;
  const bool exists = ::stat(folder.c_str(), &info) == 0;
  if (!exists && errno != ENOENT) fail_errno(errno, "stat " + folder);
  if (exists && !S_ISDIR(info.st_mode)) fail_errno(ENOTDIR, "make directory " + folder);
  if (exists && durable_folders().contains(info)) return;
  const std::string parent = parent_folder(folder);
  if (exists && (parent == folder || parent == ".")) return;
  make_directories(parent);
  if (exists) {
    sync_older_parent(parent);
    durable_folders().insert(info);
    return;
  }
  fault_point("io.make_directory.before_mkdir");
  {
    unsynced::Step step;
    if (::mkdir(folder.c_str(), 0777) == 0) {
      unsynced::created(folder);
    } else if (errno != EEXIST) {
      fail_errno(errno, "make directory " + folder);
    }
  }
  fault_point("io.make_directory.before_directory_sync");
  // Also where another process was first: its own sync may still be to come.
  sync_directory_now(parent);
  stat_folder(folder, info);
  durable_folders().insert(info);
}

void sync_directory(const std::string& folder) {
  fault_point("io.sync_directory.before_sync");
  sync_directory_now(folder);
}

void replace_file(const std::string& path, std::string_view bytes) {
  TemporaryFile file(path);
  file.write(bytes);
  file.rename_over_path({.before_name = "io.replace.before_rename",
                         .before_temporary_unlink = nullptr,
                         .before_directory_sync = "io.replace.before_directory_sync"});
}

bool link_new_file(const std::string& path, std::string_view bytes) {
  // Spares the write where the answer is clear; link(2) decides.
  if (struct stat info; ::lstat(path.c_str(), &info) == 0) return false;
  std::optional<TemporaryFile> file;
  try {
    file.emplace(path);
    file->write(bytes);
  } catch (const Error& e) {
    throw NotPut(e);
  }
  return file->link_to_path({.before_name = "io.put_if_absent.before_link",
                             .before_temporary_unlink = "io.put_if_absent.before_temporary_unlink",
                             .before_directory_sync = "io.put_if_absent.before_directory_sync"});
}

void remove_file(const std::string& path) {
  const std::string folder = parent_folder(path);
  if (!survives_fault_point("io.remove.before_unlink")) return;
  {
    unsynced::Step step;
    const std::string kept = unsynced::keep(path, folder);
    if (::unlink(path.c_str()) == 0) {
      unsynced::removed(path, folder, kept);
    } else {
      const int error = errno;
      unsynced::drop_kept(kept);
      if (error != ENOENT) fail_errno(error, "remove " + path);
      if (::access(folder.c_str(), F_OK) != 0) return;
      // Gone already: by a process, perhaps, that died before its sync. Ours makes it last.
    }
  }
  if (survives_fault_point("io.remove.before_directory_sync")) sync_directory_now(folder);
}

void remove_tree(const std::string& folder) {
  struct stat info;
  if (::lstat(folder.c_str(), &info) != 0) {
    if (errno == ENOENT) return;
    fail_errno(errno, "stat " + folder);
  }
  const std::string parent = parent_folder(folder);
  remove_entry(folder, info, parent);
  if (survives_fault_point("io.remove_tree.before_directory_sync")) sync_directory_now(parent);
}

void rename_file(const std::string& from, const std::string& to) {
  const std::string to_folder = parent_folder(to);
  const std::string from_folder = parent_folder(from);
  make_directories(to_folder);
  fault_point("io.rename.before_rename");
  rename_now(from, to);
  fault_point("io.rename.before_directory_sync");
  sync_directory_now(to_folder);
  if (from_folder != to_folder) sync_directory_now(from_folder);
}

Descriptor::~Descriptor() {
  if (fd_ >= 0) ::close(fd_);
}

Descriptor& Descriptor::operator=(Descriptor&& other) noexcept {
  if (this != &other) {
    if (fd_ >= 0) ::close(fd_);
    fd_ = other.release();
  }
  return *this;
}

FileLock FileLock::acquire(const std::string& path, Mode mode) { return FileLock(*lock_file(path, mode, true)); }

std::optional<FileLock> FileLock::try_acquire(const std::string& path, Mode mode) {
  std::optional<Descriptor> fd = lock_file(path, mode, false);
  if (!fd) return std::nullopt;
  return FileLock(std::move(*fd));
}

AppendFile AppendFile::open(const std::string& path, std::optional<int64_t> size_bytes) {
  const std::string folder = parent_folder(path);
  make_directories(folder);
  Descriptor fd(::open(path.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC));
  if (!fd && errno != ENOENT) fail_errno(errno, "open " + path);
  if (!fd) {
    fault_point("io.append.before_create");
    {
      unsynced::Step step;
      fd = Descriptor(::open(path.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666));
      if (!fd) fail_errno(errno, "create " + path);
      unsynced::created(path);
    }
    fault_point("io.append.before_directory_sync");
  }
  // Also for a file that was there: the process that made it may have died before its sync.
  sync_directory_now(folder);
  struct stat info;
  if (::fstat(fd.get(), &info) != 0) fail_errno(errno, "stat " + path);
  const int64_t size = size_bytes.value_or(info.st_size);
  if (info.st_size < size) fail(ErrorKind::corrupt, "{} has {} bytes and should have {}", path, info.st_size, size);
  if (info.st_size > size) {
    fault_point("io.append.before_cut");
    if (::ftruncate(fd.get(), size) != 0) fail_errno(errno, fmt::format("cut {} to {} bytes", path, size));
  }
  if (info.st_size > 0) {  // what is built on next are bytes that a dead process may have left unsynced
    check_program_runs();
    if (::fsync(fd.get()) != 0) fail_errno(errno, "sync " + path);
    unsynced::synced_file(path);
  }
  return AppendFile(path, std::move(fd), size);
}

void AppendFile::check_usable() const {
  if (failed_) fail(ErrorKind::io, "{} failed before: abandon it and write what was not acknowledged anew", path_);
}

void AppendFile::append(std::string_view bytes) {
  check_program_runs();
  check_usable();
  failed_ = true;
  unsynced::Step step;
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd_.get(), bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail_errno(errno, "append to " + path_);
    if (synced_size_ == size_) unsynced::wrote(path_, synced_size_);
    size_ += written;
    bytes.remove_prefix(static_cast<size_t>(written));
  }
  failed_ = false;
}

void AppendFile::sync() {
  check_usable();
  if (synced_size_ == size_) return;
  failed_ = true;
  fault_point("io.append.before_sync");
  if (::fdatasync(fd_.get()) != 0) fail_errno(errno, "sync " + path_);
  unsynced::synced_file(path_);
  synced_size_ = size_;
  failed_ = false;
}

}  // namespace firn
