#include "io/temporary_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <ctime>
#include <system_error>

#include "base/error.h"
#include "base/fault_point.h"
#include "base/uuid.h"
#include "io/unsynced.h"

namespace firn {
namespace {

constexpr std::string_view kTemporaryMark = ".tmp-";
constexpr size_t kNameBytesMax = 200;  // of the destination's name, so that the whole stays below NAME_MAX (255)

// Publishing knows one kind of failure, whatever the errno: ENOENT here is no answer to "is it there?".
[[noreturn]] void fail_io(int error_number, const std::string& what) {
  fail(ErrorKind::io, "{}: {}", what, std::generic_category().message(error_number));
}

}  // namespace

bool is_temporary_name(std::string_view name) {
  return name.starts_with('.') && name.find(kTemporaryMark) != std::string_view::npos;
}

bool is_own_temporary_name(std::string_view name) {
  constexpr size_t kDigits = 16;
  if (!name.starts_with('.') || name.size() <= 1 + kTemporaryMark.size() + kDigits) return false;
  const std::string_view digits = name.substr(name.size() - kDigits);
  return name.substr(0, name.size() - kDigits).ends_with(kTemporaryMark) &&
         digits.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

std::string temporary_name_for(std::string_view name) {
  return fmt::format(".{}{}{:016x}", name.substr(0, kNameBytesMax), kTemporaryMark, random_id());
}

std::string parent_folder(const std::string& path) {
  const size_t end = path.find_last_not_of('/');
  const size_t slash = end == std::string::npos ? end : path.rfind('/', end);
  if (slash == std::string::npos) return path.starts_with('/') ? "/" : ".";
  const size_t last = path.find_last_not_of('/', slash);
  return last == std::string::npos ? "/" : path.substr(0, last + 1);
}

TemporaryFile::TemporaryFile(const std::string& path) : path_(path) {
  check_program_runs();
  const std::string folder = parent_folder(path);
  make_directories(folder);
  temporary_path_ = folder + "/" + temporary_name_for(std::string_view(path).substr(path.rfind('/') + 1));
  fd_ = Descriptor(::open(temporary_path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
  if (!fd_) fail_errno(errno, "create " + temporary_path_);
}

TemporaryFile::~TemporaryFile() {
  if (is_temporary_ && !is_program_stopped()) ::unlink(temporary_path_.c_str());  // best effort: a leftover is ignored
}

void TemporaryFile::write(std::string_view bytes) {
  check_program_runs();
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd_.get(), bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail_io(errno, "write " + temporary_path_);
    bytes.remove_prefix(static_cast<size_t>(written));
  }
}

void TemporaryFile::sync() {
  check_program_runs();
  // The kernel's own stamps move every few milliseconds, and a freed inode is soon used again: two contents of one size
  // could then have one FileInfo::version. The exact time tells them apart (P1.3).
  std::array<timespec, 2> times;
  ::clock_gettime(CLOCK_REALTIME, &times[0]);
  times[1] = times[0];
  if (::futimens(fd_.get(), times.data()) != 0) fail_io(errno, "stamp " + temporary_path_);
  if (::fsync(fd_.get()) != 0) fail_io(errno, "sync " + temporary_path_);
}

bool TemporaryFile::link_to_path(const PublishPoints& points) {
  sync();
  fault_point(points.before_name);
  {
    unsynced::Step step;
    if (::link(temporary_path_.c_str(), path_.c_str()) != 0) {
      const int error = errno;
      if (error != EEXIST) fail_io(error, fmt::format("link {} to {}", temporary_path_, path_));
      // A network file system may answer EEXIST to the repetition of our own link; the inode tells (P1.6).
      struct stat ours;
      struct stat there;
      if (::fstat(fd_.get(), &ours) != 0) fail_io(errno, "stat " + temporary_path_);
      const bool landed =
          ::lstat(path_.c_str(), &there) == 0 && there.st_dev == ours.st_dev && there.st_ino == ours.st_ino;
      if (!landed) return false;
    }
    unsynced::created(path_);
  }
  fault_point(points.before_temporary_unlink);
  ::unlink(temporary_path_.c_str());  // best effort, as in the destructor
  is_temporary_ = false;
  fault_point(points.before_directory_sync);
  sync_directory_now(parent_folder(path_));
  return true;
}

void TemporaryFile::rename_over_path(const PublishPoints& points) {
  sync();
  fault_point(points.before_name);
  rename_now(temporary_path_, path_);
  is_temporary_ = false;
  fault_point(points.before_directory_sync);
  sync_directory_now(parent_folder(path_));
}

}  // namespace firn
