#include "io/unsynced.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <mutex>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/fault_point.h"
#include "io/temporary_file.h"

namespace firn::unsynced {
namespace {

namespace fs = std::filesystem;

enum class Change : uint8_t { append, create, rename, remove, remove_directory };

struct Entry {
  Change change;
  std::string path;          // the name that changed; a rename's target
  std::string folder;        // whose sync makes it last; unused for append
  std::string from = {};     // rename: the old name
  std::string kept = {};     // rename, remove: a hidden link to what `path` was
  int64_t synced_bytes = 0;  // append
};

struct Ledger {
  std::recursive_mutex mutex;
  std::vector<Entry> entries;  // in order of time
};

Ledger& ledger() {
  static Ledger* ledger = new Ledger;  // never destroyed: a kill may come while the process exits
  return *ledger;
}

enum class Mode : uint8_t { unread, off, on };
std::atomic<Mode> g_mode{Mode::unread};

// One spelling a path, so that records about it meet.
std::string normal(const std::string& path) {
  std::string text = fs::absolute(path).lexically_normal().string();
  while (text.size() > 1 && text.ends_with('/')) text.pop_back();
  return text;
}

// Nothing is reported here: the change may not have reached the disk, or a later undo may have taken its object away.
void undo(const Entry& entry) {
  std::error_code ignored;
  switch (entry.change) {
    case Change::append:
      if (struct stat info; ::stat(entry.path.c_str(), &info) == 0 && info.st_size > entry.synced_bytes) {
        if (::truncate(entry.path.c_str(), entry.synced_bytes) != 0) std::perror("firn: unsynced: truncate");
      }
      break;
    case Change::create:
      fs::remove_all(entry.path, ignored);
      break;
    case Change::rename:
      fs::rename(entry.path, entry.from, ignored);
      if (!entry.kept.empty()) fs::rename(entry.kept, entry.path, ignored);
      break;
    case Change::remove:
      if (!entry.kept.empty()) fs::rename(entry.kept, entry.path, ignored);
      break;
    case Change::remove_directory:
      fs::create_directory(entry.path, ignored);
      break;
  }
}

void undo_all() {
  Ledger& l = ledger();
  for (auto entry = l.entries.rbegin(); entry != l.entries.rend(); ++entry) undo(*entry);
  l.entries.clear();
}

// At a kill: other threads stay out of io/ from here on, so that nothing they do next survives.
void forget_and_hold() {
  ledger().mutex.lock();
  undo_all();
}

bool read_environment() {
  const char* text = std::getenv("FIRN_FAULT_FORGET");
  if (text != nullptr && std::string_view(text) == "1") {
    enable();
  } else {
    Mode expected = Mode::unread;  // an enable() meanwhile stands
    g_mode.compare_exchange_strong(expected, Mode::off);
  }
  return g_mode.load() == Mode::on;
}

void record(Entry entry) {
  Ledger& l = ledger();
  std::lock_guard lock(l.mutex);
  l.entries.push_back(std::move(entry));
}

}  // namespace

bool enabled() {
  const Mode mode = g_mode.load(std::memory_order_relaxed);
  return mode == Mode::unread ? read_environment() : mode == Mode::on;
}

void enable() {
  set_forget_hook(forget_and_hold);
  g_mode.store(Mode::on);
}

void forget_now() {
  std::lock_guard lock(ledger().mutex);
  undo_all();
}

void drop_ledger() {
  std::lock_guard lock(ledger().mutex);
  ledger().entries.clear();
}

Step::Step() : is_held_(enabled()) {
  if (is_held_) ledger().mutex.lock();
}

Step::~Step() {
  if (is_held_) ledger().mutex.unlock();
}

void wrote(const std::string& path, int64_t synced_size_bytes) {
  if (!enabled()) return;
  const std::string name = normal(path);
  Ledger& l = ledger();
  std::lock_guard lock(l.mutex);
  for (Entry& entry : l.entries) {
    if (entry.change == Change::append && entry.path == name) {
      entry.synced_bytes = std::min(entry.synced_bytes, synced_size_bytes);
      return;
    }
  }
  l.entries.push_back({.change = Change::append, .path = name, .folder = {}, .synced_bytes = synced_size_bytes});
}

void synced_file(const std::string& path) {
  if (!enabled()) return;
  const std::string name = normal(path);
  std::lock_guard lock(ledger().mutex);
  std::erase_if(ledger().entries, [&](const Entry& e) { return e.change == Change::append && e.path == name; });
}

void created(const std::string& path) {
  if (!enabled()) return;
  const std::string name = normal(path);
  record({.change = Change::create, .path = name, .folder = parent_folder(name)});
}

std::string keep(const std::string& path, const std::string& folder) {
  if (!enabled()) return {};
  const std::string kept = folder + "/" + temporary_name_for(std::string_view(path).substr(path.rfind('/') + 1));
  // Directories cannot be linked; an absent file needs nothing kept.
  return ::link(path.c_str(), kept.c_str()) == 0 ? normal(kept) : std::string();
}

void drop_kept(const std::string& kept) {
  if (!kept.empty()) ::unlink(kept.c_str());
}

void renamed(const std::string& from, const std::string& to, const std::string& kept) {
  if (!enabled()) return;
  const std::string name = normal(to);
  record({.change = Change::rename, .path = name, .folder = parent_folder(name), .from = normal(from), .kept = kept});
}

void removed(const std::string& path, const std::string& folder, const std::string& kept) {
  if (!enabled()) return;
  record({.change = Change::remove, .path = normal(path), .folder = normal(folder), .kept = kept});
}

void removed_directory(const std::string& path, const std::string& folder) {
  if (!enabled()) return;
  record({.change = Change::remove_directory, .path = normal(path), .folder = normal(folder)});
}

void synced_directory(const std::string& folder) {
  if (!enabled()) return;
  const std::string name = normal(folder);
  Ledger& l = ledger();
  std::lock_guard lock(l.mutex);
  for (const Entry& entry : l.entries) {
    if (entry.change == Change::append || entry.folder != name) continue;
    drop_kept(entry.kept);
    if (entry.change != Change::rename) continue;
    // Unsynced bytes follow the file to the name it now keeps.
    for (Entry& other : l.entries) {
      if (other.change == Change::append && other.path == entry.from) other.path = entry.path;
    }
  }
  std::erase_if(l.entries, [&](const Entry& e) { return e.change != Change::append && e.folder == name; });
}

}  // namespace firn::unsynced
