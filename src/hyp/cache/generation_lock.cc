#include "hyp/cache/generation_lock.h"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <limits>

#include "base/error.h"

namespace firn::hyp {
namespace {

struct flock lock_of(short type, int64_t start, int64_t size) {
  struct flock lock = {};
  lock.l_type = type;
  lock.l_whence = SEEK_SET;
  lock.l_start = start;
  lock.l_len = size;  // 0: to the end, however far
  return lock;
}

// Ids are positive. Should two fall on one byte, each snapshot is kept for the other's readers too.
struct flock lock_of_snapshot(short type, int64_t snapshot_id) {
  return lock_of(type, std::max<int64_t>(1, snapshot_id & std::numeric_limits<int64_t>::max()), 1);
}

// False: another holds it, and `command` does not wait.
bool set_lock(const Descriptor& fd, int command, struct flock lock, const std::string& path) {
  if (!fd) return true;
  while (::fcntl(fd.get(), command, &lock) != 0) {
    if (errno == EINTR) continue;
    if (command == F_OFD_SETLK && (errno == EAGAIN || errno == EACCES)) return false;
    fail_errno(errno, "lock " + path);
  }
  return true;
}

}  // namespace

GenerationLock::GenerationLock(const std::string& path)
    : fd_(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666)), path_(path) {
  if (fd_) return;
  const int error = errno;
  if (error == EROFS || error == EACCES) fd_ = Descriptor(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd_ && (error != EROFS || errno != ENOENT)) fail_errno(error, "open lock file " + path);
}

void GenerationLock::share() { set_lock(fd_, F_OFD_SETLKW, lock_of(F_RDLCK, 0, 1), path_); }

void GenerationLock::share_snapshot(int64_t snapshot_id) {
  set_lock(fd_, F_OFD_SETLKW, lock_of_snapshot(F_RDLCK, snapshot_id), path_);
}

void GenerationLock::release_snapshot(int64_t snapshot_id) {
  set_lock(fd_, F_OFD_SETLK, lock_of_snapshot(F_UNLCK, snapshot_id), path_);
}

bool GenerationLock::try_own() { return set_lock(fd_, F_OFD_SETLK, lock_of(F_WRLCK, 0, 0), path_); }

bool GenerationLock::try_own_snapshot(int64_t snapshot_id) {
  return set_lock(fd_, F_OFD_SETLK, lock_of_snapshot(F_WRLCK, snapshot_id), path_);
}

bool GenerationLock::is_snapshot_shared(int64_t snapshot_id) const {
  if (!fd_) return false;
  struct flock lock = lock_of_snapshot(F_WRLCK, snapshot_id);
  if (::fcntl(fd_.get(), F_OFD_GETLK, &lock) != 0) fail_errno(errno, "look at the locks of " + path_);
  return lock.l_type != F_UNLCK;
}

}  // namespace firn::hyp
