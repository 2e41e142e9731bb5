#include "hyp/capture/source_identity.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <optional>
#include <string_view>

#include "base/error.h"
#include "base/hash.h"
#include "hyp/capture/byte_stream.h"

namespace firn::hyp {
namespace {

constexpr size_t kHeadBytes = 4096;

std::string read_head(int fd, const std::string& path) {
  std::string head(kHeadBytes, '\0');
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

std::string fingerprint(std::string_view head) { return fmt::format("{}-{}", head.size(), to_hex(sha256(head))); }

// The number of bytes that a fingerprint is of.
std::optional<size_t> hashed_bytes(std::string_view fingerprint) {
  size_t count = 0;
  const auto [stop, error] = std::from_chars(fingerprint.data(), fingerprint.data() + fingerprint.size(), count);
  if (error != std::errc() || stop == fingerprint.data() + fingerprint.size() || *stop != '-') return std::nullopt;
  return count;
}

}  // namespace

FileSource identify_file(Spool& spool, const std::string& dataset, int fd, const std::string& path) {
  struct stat info;
  if (::fstat(fd, &info) != 0) fail_errno(errno, "stat " + path);
  const std::string prefix = fmt::format("file:{}:{}:{}:", dataset, info.st_dev, info.st_ino);
  FileSource source;
  source.claim = spool.claim_source(prefix);
  if (::fstat(fd, &info) != 0) fail_errno(errno, "stat " + path);
  const std::string head = read_head(fd, path);
  source.id = prefix + fingerprint(head);
  source.is_compressed = is_compressed(head);
  source.size_bytes = info.st_size;
  source.modified_ms = info.st_mtim.tv_sec * 1000 + info.st_mtim.tv_nsec / 1'000'000;

  // Only the last one counts: what an inode held before has no claim any more.
  std::optional<std::pair<size_t, SourcePosition>> last;  // bytes hashed, position
  std::string last_fingerprint;
  for (const auto& [id, position] : spool.source_positions(prefix)) {
    const std::string_view known = std::string_view(id).substr(prefix.size());
    const std::optional<size_t> count = hashed_bytes(known);
    if (!count) continue;
    if (id != source.id) source.others_updated_ms = std::max(source.others_updated_ms, position.updated_ms);
    if (last && position.updated_ms <= last->second.updated_ms) continue;
    last = {*count, position};
    last_fingerprint = known;
  }
  if (!last || last->first > head.size()) return source;
  if (fingerprint(std::string_view(head).substr(0, last->first)) != last_fingerprint) return source;
  if (!source.is_compressed && last->second.bytes > info.st_size) return source;
  source.position = last->second;
  return source;
}

}  // namespace firn::hyp
