#include "hyp/capture/follow.h"

#include <dirent.h>
#include <fnmatch.h>
#include <glob.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <map>
#include <set>
#include <utility>

#include "base/civil_time.h"
#include "base/clock.h"
#include "base/fault_point.h"
#include "base/json.h"
#include "base/log.h"
#include "base/uri.h"
#include "hyp/capture/intake.h"
#include "io/file_io.h"
#include "io/local.h"

namespace firn::hyp {
namespace {

constexpr int64_t kStateVersion = 1;
constexpr size_t kMissedMax = 20;
constexpr int64_t kToldMax = 5;             // lost files that are named, of one poll
constexpr int64_t kLeftMax = 64;            // files that left and may still grow; of more, the oldest are done
constexpr int kHeldMax = 256;               // descriptors kept open between polls, of all registrations
constexpr int64_t kRecentMs = 600'000;      // files that did not change for so long are not kept open
constexpr int64_t kQuietMs = 60'000;        // a file that left and did not grow for so long is done
constexpr int64_t kRemovedQuietMs = 5'000;  // one without a name
constexpr int64_t kRefreshMs =
    7 * 86'400'000;  // positions are kept for a time only: of files that last they are renewed
constexpr int64_t kLookedSaveMs = 60'000;

using Inode = std::pair<dev_t, ino_t>;

std::string state_path(const std::string& cache_root, const std::string& name) {
  return join_path(cache_root, "collect/" + encode_segment(name) + ".json");
}

int64_t modified_ns(const struct stat& info) { return info.st_mtim.tv_sec * 1'000'000'000 + info.st_mtim.tv_nsec; }
int64_t modified_ms(const struct stat& info) { return modified_ns(info) / 1'000'000; }

// By the clock that stamps files, which ticks a few times behind the exact one: what is written later is stamped no
// earlier.
int64_t file_clock_ms() {
  struct timespec now;
  ::clock_gettime(CLOCK_REALTIME_COARSE, &now);
  return now.tv_sec * 1000 + now.tv_nsec / 1'000'000;
}

std::string folder_of(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? "." : slash == 0 ? "/" : path.substr(0, slash);
}
std::string name_of(const std::string& path) { return path.substr(path.rfind('/') + 1); }

// Where the file is, symbolic links resolved: that is where its other names are.
std::string real_path(const std::string& path) {
  char resolved[PATH_MAX];
  return ::realpath(path.c_str(), resolved) != nullptr ? std::string(resolved) : path;
}

std::string_view without_compression(std::string_view name) {
  for (const std::string_view extension : {".gz", ".zst", ".bz2", ".xz"}) {
    if (name.ends_with(extension)) return name.substr(0, name.size() - extension.size());
  }
  return name;
}

// Whether `other` is a name that rotation gives to a file named `name`: a number, a date or "old" behind it, perhaps
// with the extension of a compressed file.
bool is_rotated_name(std::string_view name, std::string_view other) {
  if (other.size() < name.size() + 2 || !other.starts_with(name)) return false;
  std::string_view rest = without_compression(other.substr(name.size()));
  if (rest.size() < 2 || (rest[0] != '.' && rest[0] != '-' && rest[0] != '_')) return false;
  rest.remove_prefix(1);
  return rest == "old" || rest == "prev" || rest.find_first_not_of("0123456789-_.:TZ") == std::string_view::npos;
}

// The name under which `other` was before rotation, if it is one of the pattern; empty: it is not.
std::string name_before_rotation(const std::string& pattern, const std::string& other) {
  for (size_t at = other.find_last_of(".-_"); at != std::string::npos && at > 0;
       at = other.find_last_of(".-_", at - 1)) {
    std::string name = other.substr(0, at);
    if (is_rotated_name(name, other) && ::fnmatch(pattern.c_str(), name.c_str(), FNM_PERIOD) == 0) return name;
  }
  return "";
}

// The number that rotation by numbers gives: the higher, the older. Empty: none, as behind a date.
std::optional<int> rotation_number(std::string_view path) {
  path = without_compression(path);
  const size_t dot = path.find_last_of(".-_");
  if (dot == std::string_view::npos) return std::nullopt;
  const std::string_view digits = path.substr(dot + 1);
  if (digits.empty() || digits.size() > 4 || digits.find_first_not_of("0123456789") != std::string_view::npos) {
    return std::nullopt;
  }
  return std::stoi(std::string(digits));
}

std::vector<std::string> names_in(const std::string& folder) {
  std::vector<std::string> names;
  const std::unique_ptr<DIR, int (*)(DIR*)> entries(::opendir(folder.c_str()), ::closedir);
  if (entries == nullptr) return names;  // gone, with all that was in it
  while (const dirent* entry = ::readdir(entries.get())) names.emplace_back(entry->d_name);
  std::sort(names.begin(), names.end());
  return names;
}

// How many descriptors are kept open between polls.
class HeldCount {
 public:
  HeldCount() = default;
  HeldCount(HeldCount&& other) noexcept : counts_(std::exchange(other.counts_, false)) {}
  HeldCount& operator=(HeldCount&& other) noexcept {
    std::swap(counts_, other.counts_);
    return *this;
  }
  ~HeldCount() {
    if (counts_) --total();
  }
  bool take() {
    if (counts_) return true;
    if (++total() > kHeldMax) {
      --total();
      return false;
    }
    return counts_ = true;
  }

 private:
  static std::atomic<int>& total() {
    static std::atomic<int> held{0};
    return held;
  }
  bool counts_ = false;
};

struct Followed {
  std::string path;  // where it was found last, symbolic links resolved
  Inode inode;
  int64_t born_ns = 0;      // 0: not known
  std::string matched;      // the name in the pattern that led to it
  bool has_left = false;    // no name in the pattern leads to it any more
  bool is_drained = false;  // and it was read since
  bool is_lost = false;     // and it is nowhere to be found
  bool is_met = true;       // a look that found all there was has seen it
  int64_t read_ms = 0;      // when this process last saw that nothing more was in it
  std::string read_as;      // a compressed one: size and time of change when it was read to its end
  Descriptor fd;            // none: opened by its path at each poll
  HeldCount held;

  void hold(Descriptor open) {
    if (!held.take()) return;
    fd = std::move(open);
  }
  void let_go() {
    fd = Descriptor();
    held = HeldCount();
  }
};

struct Found {
  std::string path;
  Descriptor fd;
  struct stat info {};
};

// A regular file at `path`; nullopt: there is none.
std::optional<Found> open_found(const std::string& path) {
  Found found{path, Descriptor(), {}};
  if (::lstat(path.c_str(), &found.info) != 0 || !S_ISREG(found.info.st_mode)) return std::nullopt;
  try {
    found.fd = open_file(path);
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::not_found) return std::nullopt;
    throw;
  }
  if (::fstat(found.fd.get(), &found.info) != 0) fail_errno(errno, "stat " + path);
  return found;
}

// In the order in which they were written: two that were written within a tick of the clock by what rotation calls
// them.
bool is_older(const Found& a, const Found& b) {
  if (modified_ns(a.info) != modified_ns(b.info)) return modified_ns(a.info) < modified_ns(b.info);
  const auto a_number = rotation_number(a.path), b_number = rotation_number(b.path);
  return a_number && b_number ? *a_number > *b_number : a.path < b.path;
}

// A file of that inode in the folder of its last path. Whether it is still the same is not looked at.
std::optional<Found> find_renamed(const Followed& file) {
  const std::string folder = folder_of(file.path);
  const std::unique_ptr<DIR, int (*)(DIR*)> entries(::opendir(folder.c_str()), ::closedir);
  if (entries == nullptr) return std::nullopt;
  while (const dirent* entry = ::readdir(entries.get())) {
    if (entry->d_ino != file.inode.second) continue;
    auto found = open_found(join_path(folder, entry->d_name));
    if (found && Inode(found->info.st_dev, found->info.st_ino) == file.inode) return found;
  }
  return std::nullopt;
}

}  // namespace

struct Follower::State {
  State(std::string root, CollectConfig config) : cache_root(std::move(root)), collect(std::move(config)) {}

  const std::string cache_root;
  const CollectConfig collect;
  bool is_loaded = false;
  std::vector<Followed> files;
  std::vector<MissedLines> missed;
  // When the last look began that found all there was. None: there was no look yet, or by an older version.
  std::optional<int64_t> looked_ms;
  std::string saved;  // the state file's text, but for the time of the look
  std::optional<int64_t> saved_looked_ms;
  bool is_looked_saved = false;  // by this process

  void load();
  void save();
};

namespace {

// One look at all files of a registration.
class Poll {
 public:
  Poll(std::vector<Followed>& files, std::optional<int64_t>& looked_ms, const CollectConfig& collect, Spool& spool,
       const CaptureOptions& options, std::function<void()> save)
      : files_(files),
        looked_ms_(looked_ms),
        collect_(collect),
        spool_(spool),
        options_(options),
        sink_(spool, false),
        save_(std::move(save)) {}

  FollowReport run() {
    since_ms_ = looked_ms_;
    const int64_t begun_ms = file_clock_ms();
    if (!match()) return std::move(report_);
    if (!looked_ms_) looked_ms_ = begun_ms;
    find_left();
    // What is followed is known, durable, before anything of it is taken: a restart looks for it.
    save_();
    fault_point("follow.files-saved");
    take_left();
    take_current();
    finish();
    if (has_found_all_) {
      looked_ms_ = begun_ms;
      for (Followed& file : files_) file.is_met = true;
    }
    return std::move(report_);
  }

 private:
  bool match();
  void find_left();
  bool is_same(const Followed& file, const Found& found);
  void take_left();
  struct Left {
    std::string path;
    Inode inode;
    int64_t modified_ms;
  };
  void take_lost(std::vector<Left>& between);
  void find_between(const Left& left);
  void find_unmet(const std::vector<Left>& between);
  bool came_since(const Found& found) const;
  void take_found(std::vector<Found> candidates, const std::optional<TakenFile>& left);
  void take_current();
  void take_file(Followed& file, int fd, bool is_last);
  void take_rest_of_cut(const Followed& file, const TakenFile& taken);
  bool take_from_copy(const std::string& original, const TakenFile& taken);
  void miss_lines(std::string message) { report_.missed.push_back(collect_.name + ": " + std::move(message)); }
  void report(const Error& error) { report_.problems.push_back(fmt::format("{}: {}", collect_.name, error.what())); }
  bool is_known(const Inode& inode) const {
    // The number of a lost one may be another's by now.
    return std::any_of(files_.begin(), files_.end(),
                       [&](const Followed& file) { return file.inode == inode && !file.is_lost; });
  }
  void finish() {
    if (sink_.has_unsynced()) sink_.finish();
  }

  std::vector<Followed>& files_;
  std::optional<int64_t>& looked_ms_;
  const CollectConfig& collect_;
  Spool& spool_;
  const CaptureOptions& options_;
  FrameSink sink_;
  std::function<void()> save_;
  FollowReport report_;
  std::set<Inode> new_;              // found by this poll
  std::optional<int64_t> since_ms_;  // the look before
  bool has_found_all_ = true;        // that came since
};

// The pattern's files, as files_. False: the pattern cannot be read.
bool Poll::match() {
  glob_t matches{};
  const int status = ::glob(collect_.glob.c_str(), 0, nullptr, &matches);
  const std::unique_ptr<glob_t, void (*)(glob_t*)> owner(&matches, [](glob_t* g) { ::globfree(g); });
  if (status != 0 && status != GLOB_NOMATCH) {
    report_.problems.push_back(fmt::format("{}: the pattern {} cannot be read", collect_.name, collect_.glob));
    return false;
  }
  std::set<Inode> seen;  // two names of one file
  std::map<Inode, size_t> known_at;
  for (size_t i = 0; i < files_.size(); ++i) {
    files_[i].has_left = true;
    known_at[files_[i].inode] = i;
  }
  for (size_t i = 0; i < matches.gl_pathc; ++i) {
    const std::string path = matches.gl_pathv[i];
    struct stat info;
    if (::stat(path.c_str(), &info) != 0) {
      if (errno == ENOENT && ::lstat(path.c_str(), &info) != 0) continue;  // renamed just now
      report_.problems.push_back(fmt::format("{}: stat {}: {}", collect_.name, path, std::strerror(errno)));
      continue;
    }
    const Inode inode(info.st_dev, info.st_ino);
    if (!S_ISREG(info.st_mode) || !seen.insert(inode).second) continue;
    const int64_t born = born_ns(path);
    const auto known = known_at.find(inode);
    // The number of a file that was removed is given again.
    const bool is_another = known != known_at.end() && born != 0 && files_[known->second].born_ns != 0 &&
                            born != files_[known->second].born_ns;
    if (known == known_at.end() || is_another) {
      Followed& file = files_.emplace_back();
      file.path = real_path(path);
      file.inode = inode;
      file.born_ns = born;
      file.matched = path;
      file.is_met = false;
      new_.insert(inode);
    } else {
      Followed& file = files_[known->second];
      if (file.matched != path) file.path = real_path(path);
      file.born_ns = born;
      file.matched = path;
      file.has_left = file.is_drained = file.is_lost = false;
    }
  }
  return true;
}

// The inode of `file` may be another's by now: what was taken of it tells, or where nothing was, the name.
bool Poll::is_same(const Followed& file, const Found& found) {
  const auto taken = last_taken(spool_, collect_.dataset, file.inode.first, file.inode.second);
  if (!taken) return found.path == file.path || is_rotated_name(name_of(file.path), name_of(found.path));
  return !identify_file(spool_, collect_.dataset, found.fd.get(), found.path).is_other;
}

// Opens the files that left since the last poll, or marks them as lost.
void Poll::find_left() {
  for (Followed& file : files_) {
    if (!file.has_left || file.fd) continue;
    auto found = find_renamed(file);
    file.is_lost = !found || !is_same(file, *found);
    if (!file.is_lost) file.fd = std::move(found->fd);
  }
}

// What left comes first: its lines are older than those of the file that took its name.
void Poll::take_left() {
  const int64_t now = now_ms();
  auto num_too_many =
      std::count_if(files_.begin(), files_.end(), [](const Followed& f) { return f.has_left && f.fd; }) - kLeftMax;
  std::vector<Left> between;
  for (Followed& file : files_) {
    if (!file.has_left || !file.fd || is_cancelled(options_)) continue;
    try {
      struct stat info;
      if (::fstat(file.fd.get(), &info) != 0) fail_errno(errno, "stat " + file.path);
      const int64_t quiet_ms = now - modified_ms(info);
      const bool is_last = num_too_many-- > 0 || quiet_ms > (info.st_nlink == 0 ? kRemovedQuietMs : kQuietMs);
      take_file(file, file.fd.get(), is_last);
      if (!std::exchange(file.is_drained, true)) between.push_back({file.path, file.inode, modified_ms(info)});
      if (is_last) file.let_go();
    } catch (const Error& error) {
      report(error);
    }
  }
  take_lost(between);
  finish();
  for (const Left& left : between) {
    try {
      find_between(left);
    } catch (const Error& error) {
      report(error);
      for (Followed& file : files_) {
        if (file.inode == left.inode) file.is_drained = false;  // the next poll looks again
      }
    }
  }
  try {
    find_unmet(between);
    if (is_cancelled(options_)) has_found_all_ = false;
  } catch (const Error& error) {
    report(error);
    has_found_all_ = false;  // the next poll looks again
  }
  finish();
  std::erase_if(files_,
                [](const Followed& file) { return file.has_left && !file.fd && (file.is_drained || file.is_lost); });
}

void Poll::take_lost(std::vector<Left>& between) {
  int64_t num_told = 0, num_missed = 0;
  for (const Followed& file : files_) {
    if (!file.is_lost || file.is_drained) continue;
    const auto taken = last_taken(spool_, collect_.dataset, file.inode.first, file.inode.second);
    between.push_back({file.path, file.inode, taken ? taken->position.updated_ms : now_ms()});
    std::string why = "what else was in it, if anything, is missed";
    try {
      if (taken && take_from_copy(file.path, *taken)) continue;
    } catch (const Error& error) {
      why = error.what();
    }
    const int64_t bytes = taken ? taken->position.bytes : 0, lines = taken ? taken->position.lines : 0;
    if (now_ms() - file.read_ms < kQuietMs) {  // an old file, read to its end a moment ago
      spdlog::info("{}: {} is gone; its {} lines were taken", collect_.name, file.path, lines);
    } else if (++num_missed; num_told < kToldMax) {
      ++num_told;
      miss_lines(
          fmt::format("{} is gone and not found under another name beside it: {} of its bytes ({} lines) were "
                      "taken; {}",
                      file.path, bytes, lines, why));
    }
  }
  if (num_missed > num_told) miss_lines(fmt::format("… and {} more files", num_missed - num_told));
}

// Files that took the place of `left` and left it again between two polls.
void Poll::find_between(const Left& left) {
  const auto taken = last_taken(spool_, collect_.dataset, left.inode.first, left.inode.second);
  const std::string folder = folder_of(left.path), name = name_of(left.path);
  std::vector<Found> candidates;
  for (const std::string& other : names_in(folder)) {
    if (!is_rotated_name(name, other)) continue;
    auto found = open_found(join_path(folder, other));
    if (!found || is_known({found->info.st_dev, found->info.st_ino})) continue;
    if (modified_ms(found->info) >= left.modified_ms) candidates.push_back(std::move(*found));
  }
  take_found(std::move(candidates), taken);
}

bool Poll::came_since(const Found& found) const {
  return modified_ms(found.info) >= *since_ms_ || born_ns(found.fd.get()) / 1'000'000 >= *since_ms_;
}

// Files that came and went since the look before under a name of the pattern that led to no file then. Rotated files
// that were there at the first look are older than the registration, and not its own.
void Poll::find_unmet(const std::vector<Left>& between) {
  if (!since_ms_) return;
  std::set<std::string> met;  // what happened under these names is known
  for (const Left& left : between) met.insert(left.path);
  for (const Followed& file : files_) {
    if (file.has_left || !file.is_met) continue;
    met.insert(file.path);
    met.insert(file.matched);
  }
  std::map<std::string, Found> candidates;  // by path
  const auto add = [&](const std::string& folder, const std::string& name) {
    auto found = open_found(join_path(folder, name));
    if (!found || is_known({found->info.st_dev, found->info.st_ino}) || !came_since(*found)) return;
    const std::string path = found->path;
    candidates.emplace(path, std::move(*found));
  };
  glob_t folders{};
  const int status = ::glob(folder_of(collect_.glob).c_str(), GLOB_ONLYDIR, nullptr, &folders);
  const std::unique_ptr<glob_t, void (*)(glob_t*)> owner(&folders, [](glob_t* g) { ::globfree(g); });
  const std::string pattern = name_of(collect_.glob);
  for (size_t i = 0; status == 0 && i < folders.gl_pathc; ++i) {
    struct stat info;
    // No name was added to or taken from it since.
    if (::stat(folders.gl_pathv[i], &info) != 0 || modified_ms(info) < *since_ms_) continue;
    const std::string folder = real_path(folders.gl_pathv[i]);
    for (const std::string& other : names_in(folder)) {
      const std::string name = name_before_rotation(pattern, other);
      if (name.empty() || met.contains(join_path(folder, name)) || met.contains(join_path(folders.gl_pathv[i], name))) {
        continue;
      }
      add(folder, other);
    }
  }
  // Behind symbolic links.
  for (const Followed& file : files_) {
    if (file.has_left || file.is_met || file.path == file.matched || met.contains(file.path)) continue;
    for (const std::string& other : names_in(folder_of(file.path))) {
      if (is_rotated_name(name_of(file.path), other)) add(folder_of(file.path), other);
    }
  }
  std::vector<Found> found;
  for (auto& [path, one] : candidates) found.push_back(std::move(one));
  take_found(std::move(found), std::nullopt);
}

// Files that came and went: `left` is the file whose place they took.
void Poll::take_found(std::vector<Found> candidates, const std::optional<TakenFile>& left) {
  std::sort(candidates.begin(), candidates.end(), is_older);
  for (Found& found : candidates) {
    if (is_compressed_file(found.fd.get(), found.path)) {
      // Of a file that was read to its end.
      if (left ? is_copy(found.fd.get(), found.path, *left)
               : is_copy_of_taken(spool_, collect_.dataset, found.fd.get(), found.path)) {
        continue;
      }
      if (last_taken(spool_, collect_.dataset, found.info.st_dev, found.info.st_ino)) continue;
      miss_lines(fmt::format(
          "{} ({} bytes, compressed) was written, rotated and compressed between two looks, and is not taken: if its "
          "lines are wanted, `hyp ingest {} {} --source {}` takes them",
          found.path, found.info.st_size, collect_.dataset, found.path, collect_.name));
      continue;
    }
    Followed& file = files_.emplace_back();
    file.path = found.path;
    file.inode = {found.info.st_dev, found.info.st_ino};
    file.born_ns = born_ns(found.fd.get());
    file.has_left = true;
    new_.insert(file.inode);
    save_();
    file.fd = std::move(found.fd);
    take_file(file, file.fd.get(), false);
    file.is_drained = true;
  }
}

void Poll::take_current() {
  const int64_t now = now_ms();
  for (Followed& file : files_) {
    if (is_cancelled(options_)) return;
    if (file.has_left) continue;
    try {
      Descriptor opened;
      if (!file.fd) opened = open_file(file.path);
      const int fd = file.fd ? file.fd.get() : opened.get();
      struct stat info;
      if (::fstat(fd, &info) != 0) fail_errno(errno, "stat " + file.path);
      if (Inode(info.st_dev, info.st_ino) != file.inode) continue;  // rotated just now: the next poll's
      take_file(file, fd, false);
      if (now - modified_ms(info) > kRecentMs) {
        file.let_go();
      } else if (!file.fd) {
        file.hold(std::move(opened));
      }
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::not_found) report(error);
    }
  }
}

// What was appended. `is_last`: it does not grow any more, so a line without newline is one.
void Poll::take_file(Followed& file, int fd, bool is_last) {
  const std::string& path = file.path;
  FileSource source = identify_file(spool_, collect_.dataset, fd, path);
  if (source.is_other && !new_.contains(file.inode)) {
    // Known, and not what it was: cut or written anew in place (a removed file's inode is not used again while ours is
    // open, but may be where it was not).
    const auto taken = last_taken(spool_, collect_.dataset, file.inode.first, file.inode.second);
    if (taken) take_rest_of_cut(file, *taken);
    source.claim.reset();
    source = identify_file(spool_, collect_.dataset, fd, path);
    Intake anew{.options = options_, .dataset = collect_.dataset, .source = collect_.name, .source_id = source.id};
    anew.updated_after_ms = source.others_updated_ms;
    sink_.append(anew.make_position_frame());
    source.others_updated_ms = anew.position.updated_ms;
  }
  Intake intake{.options = options_, .dataset = collect_.dataset, .source = collect_.name, .source_id = source.id};
  intake.position = source.position;
  intake.updated_after_ms = source.others_updated_ms;
  intake.torn_line = is_last ? TornLine::taken : TornLine::left;
  // To look at a compressed file is to decompress it, so that waits until it was written to.
  const std::string as = fmt::format("{}@{}", source.size_bytes, source.modified_ns);
  const bool is_unchanged =
      source.is_compressed ? !source.is_other && file.read_as == as : source.size_bytes == source.position.bytes;
  if (is_unchanged) {
    const bool is_old = source.position.updated_ms > 0 && source.position.updated_ms + kRefreshMs < now_ms();
    if (is_old) sink_.append(intake.make_position_frame());
    file.read_ms = now_ms();
    return;
  }
  const OpenedFile opened = open_source(fd, path, source, intake);
  if (take(*opened.blocks, intake, sink_, false)) {
    if (source.is_compressed && intake.report.bytes > 0) sink_.append(intake.make_end_frame());
    if (source.is_compressed) file.read_as = as;
    file.read_ms = now_ms();
  }
  report_.total.lines += intake.report.lines;
  report_.total.bytes += intake.report.bytes;
  if (options_.progress) options_.progress(report_.total);
}

// Rotation by copying: the copy may have lines that the file lost when it was cut.
void Poll::take_rest_of_cut(const Followed& file, const TakenFile& taken) {
  if (taken.position.bytes == 0 || take_from_copy(file.path, taken)) return;
  miss_lines(fmt::format(
      "{} was cut or written anew in place, after {} bytes ({} lines) of it were taken, and no copy of it is "
      "beside it: lines that were written to it since the look before are missed",
      file.path, taken.position.bytes, taken.position.lines));
}

// What a copy of `original`, compressed or not, has beyond what was taken of it. False: there is none beside it.
bool Poll::take_from_copy(const std::string& original, const TakenFile& taken) {
  const std::string folder = folder_of(original), name = name_of(original);
  for (const std::string& other : names_in(folder)) {
    if (!is_rotated_name(name, other)) continue;
    auto found = open_found(join_path(folder, other));
    if (!found || !is_copy(found->fd.get(), found->path, taken)) continue;
    Intake intake{.options = options_, .dataset = collect_.dataset, .source = collect_.name, .source_id = taken.id};
    intake.position = taken.position;
    intake.updated_after_ms = taken.position.updated_ms;
    const auto opened =
        open_at_position(found->fd.get(), found->path, is_compressed_file(found->fd.get(), found->path), intake);
    if (!opened) continue;  // shorter than what was taken: of another time
    take(*opened->blocks, intake, sink_, false);
    spdlog::info("{}: took {} lines from {}, a copy of {}", collect_.name, intake.report.lines, found->path, original);
    report_.total.lines += intake.report.lines;
    report_.total.bytes += intake.report.bytes;
    return true;
  }
  return false;
}

}  // namespace

void Follower::State::load() {
  const std::string path = state_path(cache_root, collect.name);
  const auto text = make_local_file_io()->read_if_exists(path);
  is_loaded = true;
  if (!text) return;
  const Json json = parse_json(*text, path);
  if (const int64_t version = get_int64(json, "v", path); version != kStateVersion) {
    fail(ErrorKind::unsupported, "{} has version {}; this firn reads version {}", path, version, kStateVersion);
  }
  missed = load_missed(cache_root, collect.name);
  // Of another registration that had the name.
  if (get_string(json, "dataset", path) != collect.dataset || get_string(json, "glob", path) != collect.glob) return;
  looked_ms = saved_looked_ms = find_int64(json, "lookedMs", path);
  for (const Json& entry : get_array(json, "files", path)) {
    Followed file;
    file.path = get_string(entry, "path", path);
    file.inode = {static_cast<dev_t>(get_int64(entry, "device", path)),
                  static_cast<ino_t>(get_int64(entry, "inode", path))};
    file.is_drained = get_bool(entry, "left", path);
    file.born_ns = find_int64(entry, "bornNs", path).value_or(0);
    file.read_as = find_string(entry, "readAs", path).value_or("");
    file.is_met = !entry.contains("new");
    files.push_back(std::move(file));
  }
}

void Follower::State::save() {
  Json entries = Json::array();
  for (const Followed& file : files) {
    entries.push_back({{"path", file.path},
                       {"device", static_cast<int64_t>(file.inode.first)},
                       {"inode", static_cast<int64_t>(file.inode.second)},
                       {"left", file.has_left && file.is_drained}});
    if (file.born_ns != 0) entries.back()["bornNs"] = file.born_ns;
    if (!file.read_as.empty()) entries.back()["readAs"] = file.read_as;
    if (!file.is_met) entries.back()["new"] = true;
  }
  Json lines = Json::array();
  for (const MissedLines& one : missed) lines.push_back({{"at", one.at}, {"message", one.message}});
  Json json = {{"v", kStateVersion},
               {"dataset", collect.dataset},
               {"glob", collect.glob},
               {"files", std::move(entries)},
               {"missed", std::move(lines)}};
  // A path may be no UTF-8.
  const auto text = [&json] { return json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n"; };
  std::string without_look = text();
  // An older time has the next process look at more files, which it then finds taken: the time alone is written now and
  // then.
  const bool is_look_due =
      looked_ms != saved_looked_ms && (!is_looked_saved || *looked_ms >= saved_looked_ms.value_or(0) + kLookedSaveMs);
  if (without_look == saved && !is_look_due) return;
  if (looked_ms) json["lookedMs"] = *looked_ms;
  replace_file(state_path(cache_root, collect.name), text());
  saved = std::move(without_look);
  is_looked_saved = is_looked_saved || is_look_due;
  saved_looked_ms = looked_ms;
}

Follower::Follower(const std::string& cache_root, const CollectConfig& collect)
    : state_(std::make_unique<State>(cache_root, collect)) {}
Follower::~Follower() = default;
Follower::Follower(Follower&&) noexcept = default;

const CollectConfig& Follower::config() const { return state_->collect; }

FollowReport Follower::poll(Spool& spool, const CaptureOptions& options) {
  State& state = *state_;
  if (!state.is_loaded) state.load();
  FollowReport report = Poll(state.files, state.looked_ms, state.collect, spool, options, [&] { state.save(); }).run();
  for (const std::string& message : report.missed) {
    state.missed.push_back({format_timestamp_ms_utc(now_ms()), message});
  }
  if (state.missed.size() > kMissedMax) state.missed.erase(state.missed.begin(), state.missed.end() - kMissedMax);
  state.save();
  return report;
}

std::vector<MissedLines> load_missed(const std::string& cache_root, const std::string& name) {
  const std::string path = state_path(cache_root, name);
  std::vector<MissedLines> missed;
  const auto text = make_local_file_io()->read_if_exists(path);
  if (!text) return missed;
  const Json json = parse_json(*text, path);
  for (const Json& entry : get_array(json, "missed", path)) {
    missed.push_back({get_string(entry, "at", path), get_string(entry, "message", path)});
  }
  return missed;
}

void forget_followed(const std::string& cache_root, const std::string& name) {
  remove_file(state_path(cache_root, name));
}

}  // namespace firn::hyp
