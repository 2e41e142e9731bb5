#include "hyp/capture/source_identity.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <string_view>

#include "base/error.h"
#include "base/hash.h"
#include "hyp/capture/byte_stream.h"

namespace firn::hyp {
namespace {

std::string read_head(int fd, const std::string& path, size_t size) {
  std::string head(size, '\0');
  size_t filled = 0;
  while (filled < head.size()) {
    const ssize_t got = ::pread(fd, head.data() + filled, head.size() - filled, static_cast<off_t>(filled));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail_errno(errno, "read " + path);
    if (got == 0) break;
    filled += static_cast<size_t>(got);
  }
  head.resize(filled);
  return head;
}

std::string read_decompressed_head(int fd, const std::string& path, size_t size) {
  if (::lseek(fd, 0, SEEK_SET) < 0) fail_errno(errno, "seek in " + path);
  const auto stream = decompressed(read_descriptor(fd, path, -1), path);
  std::string head(size, '\0');
  size_t filled = 0;
  while (filled < size) {
    const ByteStream::Read read = stream->read(head.data() + filled, size - filled);
    if (read.is_end) break;
    filled += read.count;
  }
  head.resize(filled);
  return head;
}

struct stat stat_of(int fd, const std::string& path) {
  struct stat info;
  if (::fstat(fd, &info) != 0) fail_errno(errno, "stat " + path);
  return info;
}

int64_t statx_born_ns(int fd, const char* path, int flags) {
  struct statx info;
  if (::statx(fd, path, flags, STATX_BTIME, &info) != 0 || (info.stx_mask & STATX_BTIME) == 0) return 0;
  return info.stx_btime.tv_sec * 1'000'000'000 + info.stx_btime.tv_nsec;
}

// "@<ns>"; empty where the file system does not keep it. An inode's number is used again, its birth time is not.
std::string birth_of(int fd) {
  const int64_t ns = born_ns(fd);
  return ns == 0 ? "" : fmt::format("@{}", ns);
}

std::string id_prefix(const std::string& dataset) { return fmt::format("file:{}:", dataset); }
std::string id_prefix(const std::string& dataset, dev_t device, ino_t inode) {
  return fmt::format("{}{}:{}:", id_prefix(dataset), device, inode);
}

struct Identity {
  size_t head_bytes = 0;
  std::string_view head_sha256, birth;  // birth: empty if it is not known
};

std::optional<Identity> parse_identity(std::string_view text) {
  Identity identity;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, identity.head_bytes);
  if (error != std::errc() || stop == end || *stop != '-') return std::nullopt;
  const std::string_view rest(stop + 1, static_cast<size_t>(end - stop) - 1);
  const size_t at = std::min(rest.find('@'), rest.size());
  identity.head_sha256 = rest.substr(0, at);
  identity.birth = rest.substr(at);
  return identity;
}

std::string head_sha256(std::string_view head, size_t count) { return to_hex(sha256(head.substr(0, count))); }

}  // namespace

FileSource identify_file(Spool& spool, const std::string& dataset, int fd, const std::string& path) {
  const struct stat before = stat_of(fd, path);
  const std::string prefix = id_prefix(dataset, before.st_dev, before.st_ino);
  FileSource source;
  source.claim = spool.claim_source(prefix);
  const struct stat info = stat_of(fd, path);
  const std::string head = read_head(fd, path, kHeadBytes);
  const std::string birth = birth_of(fd);
  source.id = fmt::format("{}{}-{}{}", prefix, head.size(), head_sha256(head, head.size()), birth);
  source.is_compressed = is_compressed(head);
  source.size_bytes = info.st_size;
  source.modified_ns = info.st_mtim.tv_sec * 1'000'000'000 + info.st_mtim.tv_nsec;

  // Only the last one counts: what an inode held before has no claim any more.
  std::string last_id;
  SourcePosition last;
  for (const auto& [id, position] : spool.source_positions(prefix)) {
    if (!parse_identity(std::string_view(id).substr(prefix.size()))) continue;
    if (id != source.id) source.others_updated_ms = std::max(source.others_updated_ms, position.updated_ms);
    if (!last_id.empty() && position.updated_ms <= last.updated_ms) continue;
    last = position;
    last_id = id;
  }
  if (last_id.empty()) return source;
  const Identity known = *parse_identity(std::string_view(last_id).substr(prefix.size()));
  source.is_other = known.head_bytes > head.size() || head_sha256(head, known.head_bytes) != known.head_sha256 ||
                    (!known.birth.empty() && !birth.empty() && known.birth != birth) ||
                    (!source.is_compressed && last.bytes > info.st_size);
  if (!source.is_other) source.position = last;
  return source;
}

std::optional<TakenFile> last_taken(const Spool& spool, const std::string& dataset, dev_t device, ino_t inode) {
  const std::string prefix = id_prefix(dataset, device, inode);
  std::optional<TakenFile> last;
  for (const auto& [id, position] : spool.source_positions(prefix)) {
    const auto identity = parse_identity(std::string_view(id).substr(prefix.size()));
    if (!identity || (last && position.updated_ms <= last->position.updated_ms)) continue;
    last = {id, position, identity->head_bytes, std::string(identity->head_sha256)};
  }
  return last;
}

std::shared_ptr<void> claim_file(Spool& spool, const std::string& dataset, dev_t device, ino_t inode) {
  return spool.claim_source(id_prefix(dataset, device, inode));
}

bool is_copy(int fd, const std::string& path, const TakenFile& taken) {
  if (taken.head_bytes == 0 || taken.position.bytes == 0) return false;
  const std::string head = read_head(fd, path, taken.head_bytes);
  if (head.size() == taken.head_bytes && head_sha256(head, head.size()) == taken.head_sha256) {
    return is_compressed(head) || stat_of(fd, path).st_size >= taken.position.bytes;
  }
  if (!is_compressed(head)) return false;
  try {
    const std::string inner = read_decompressed_head(fd, path, taken.head_bytes);
    return inner.size() == taken.head_bytes && head_sha256(inner, inner.size()) == taken.head_sha256;
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::corrupt) return false;
    throw;
  }
}

bool is_copy_of_taken(const Spool& spool, const std::string& dataset, int fd, const std::string& path) {
  const std::string prefix = id_prefix(dataset);
  for (const auto& [id, position] : spool.source_positions(prefix)) {
    const auto identity = parse_identity(std::string_view(id).substr(id.rfind(':') + 1));
    if (identity && is_copy(fd, path, {id, position, identity->head_bytes, std::string(identity->head_sha256)})) {
      return true;
    }
  }
  return false;
}

int64_t born_ns(int fd) { return statx_born_ns(fd, "", AT_EMPTY_PATH); }
int64_t born_ns(const std::string& path) { return statx_born_ns(AT_FDCWD, path.c_str(), 0); }

bool is_compressed_file(int fd, const std::string& path) { return is_compressed(read_head(fd, path, kHeadBytes)); }

}  // namespace firn::hyp
