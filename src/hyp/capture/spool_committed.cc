#include "hyp/capture/spool_committed.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "base/error.h"
#include "base/log.h"
#include "base/uri.h"
#include "hyp/capture/spool_format.h"
#include "hyp/capture/spool_sources.h"
#include "io/sqlite.h"

namespace firn::hyp {

std::string receiver_folder(const std::string& cache_root) { return join_path(cache_root, "receiver"); }

std::vector<std::string> list_receiver_spools(const std::string& cache_root) {
  return list_folders(receiver_folder(cache_root));
}

bool is_receiver_spool(const std::string& spool_folder) {
  return spool_folder.substr(0, spool_folder.rfind('/')).ends_with("/receiver");
}

std::string ledger_path(const std::string& spool_folder) { return join_path(spool_folder, "ledger.db"); }

std::optional<SpoolPosition> committed_end(const std::string& spool_folder) {
  if (!is_receiver_spool(spool_folder)) return std::nullopt;
  const std::string path = ledger_path(spool_folder);
  const auto fail_unreadable = [&](const std::string& what) {
    fail(ErrorKind::corrupt,
         "{}: it says which of the received rows in {} are acknowledged, and where the senders' streams stand. Restore "
         "it with the segments beside it from one backup; or, to give up the rows that are in no table yet, move that "
         "folder away: the senders then stop with destination_behind",
         what, spool_folder);
  };
  if (::access(path.c_str(), F_OK) != 0) {
    if (errno != ENOENT) fail_errno(errno, "look for " + path);
    fail_unreadable(path + " is missing");
  }
  try {
    SqliteFile file(path, SqliteFile::Open::existing);
    if (const int64_t version = file.integer("pragma user_version"); version > kLedgerVersion) {
      fail(ErrorKind::unsupported, "{} has version {}; this firn reads version {}", path, version, kLedgerVersion);
    }
    SqliteStatement select(file, "select segment, \"offset\" from committed where only_row = 0");
    if (!select.step()) fail(ErrorKind::corrupt, "{} has no committed length", path);
    return SpoolPosition{select.integer(0), select.integer(1)};
  } catch (const Error& e) {
    if (e.kind() != ErrorKind::corrupt) throw;
    fail_unreadable(e.what());
  }
  return std::nullopt;
}

namespace {

// A frame, and what it says was acknowledged before it was appended.
struct Witness {
  SpoolPosition acknowledged;
  std::string path;
  int64_t offset = 0;
};

// Each group of frames is appended once the one before it is committed, and says so. Frames past `committed` that know
// of a later place are therefore of groups that were committed: the ledger was restored, and they were not. The one
// that knows of the latest; nullopt: none.
std::optional<Witness> find_witness(const Segment& segment, SpoolPosition committed) {
  std::optional<Witness> found;
  int64_t offset = segment.number == committed.segment ? committed.offset : 0;
  while (auto frame = read_frame(segment, offset, segment.size_bytes)) {
    if (frame->kind == FrameKind::rows && frame->synced > (found ? found->acknowledged : committed))
      found = Witness{frame->synced, segment.path, offset};
    offset = frame->next_offset;
  }
  return found;
}

[[noreturn]] void fail_older(const std::string& folder, const Witness& witness) {
  fail(ErrorKind::corrupt,
       "{} is older than {}, whose frame at offset {} was appended once all before segment {}, offset {} was "
       "acknowledged. Restore the ledger and the segments from one backup; or, to give up the rows of the frame and "
       "of those after it, move {} away",
       ledger_path(folder), witness.path, witness.offset, witness.acknowledged.segment, witness.acknowledged.offset,
       witness.path);
}

}  // namespace

int64_t ledger_commits(const std::string& spool_folder) {
  SqliteFile file(ledger_path(spool_folder), SqliteFile::Open::existing);
  return file.integer("select commits from committed where only_row = 0");
}

void check_ledger_knows_frames(const std::string& folder) {
  const std::optional<SpoolPosition> committed = committed_end(folder);
  if (!committed) return;
  for (const int64_t number : list_segments(folder)) {
    if (number < committed->segment) continue;
    const auto segment = open_segment(folder, number);
    const auto witness = segment ? find_witness(*segment, *committed) : std::nullopt;
    // What a receiver at work committed since is in its ledger before any frame says so.
    if (witness && witness->acknowledged > *committed_end(folder)) fail_older(folder, *witness);
  }
}

void cut_uncommitted(const std::string& folder, SpoolPosition committed) {
  if (const int64_t flushed = load_progress_commits(folder), commits = ledger_commits(folder); commits < flushed) {
    fail(
        ErrorKind::corrupt,
        "{} has seen {} commits, and rows of {} were flushed into the tables: it is older than these (a copy without "
        "the ledger.db-wal beside it, or another backup's), and senders would send again what the tables have. Restore "
        "the ledger, its -wal file, the segments and the tables from one backup",
        ledger_path(folder), commits, flushed);
  }
  const auto cut = [&](const Segment& segment, int64_t size_bytes) {
    if (segment.size_bytes > size_bytes) {
      spdlog::info("{}: cut {} bytes that were never acknowledged", segment.path, segment.size_bytes - size_bytes);
    }
    AppendFile::open(segment.path, size_bytes);
  };
  std::vector<int64_t> numbers = list_segments(folder);
  std::erase_if(numbers, [&](int64_t number) { return number < committed.segment; });
  const bool has_committed = !numbers.empty() && numbers.front() == committed.segment;
  if (!has_committed && committed > load_progress(folder)) {
    fail(ErrorKind::corrupt,
         "{} is missing: it held received rows, up to offset {}, that were acknowledged and are in no table yet. "
         "Restore it; or, to go on without those rows, put an empty file in its place",
         segment_path(folder, committed.segment), committed.offset);
  }
  std::vector<Segment> segments;
  for (const int64_t number : numbers) {
    if (auto segment = open_segment(folder, number)) segments.push_back(std::move(*segment));
  }
  for (const Segment& segment : segments) {
    if (const auto witness = find_witness(segment, committed)) fail_older(folder, *witness);
  }
  // The last first: while one is there, it says where the one before it ends.
  std::reverse(segments.begin(), segments.end());
  for (const Segment& segment : segments) {
    if (segment.number > committed.segment) {
      cut(segment, 0);
    } else if (segment.size_bytes == 0) {
      // Someone's word that its rows are given up.
    } else if (segment.size_bytes < committed.offset) {
      fail(
          ErrorKind::corrupt,
          "{} has {} bytes and {} says that received rows up to offset {} are acknowledged. Restore the ledger and the "
          "segments from one backup",
          segment.path, segment.size_bytes, ledger_path(folder), committed.offset);
    } else {
      cut(segment, committed.offset);
    }
  }
}

}  // namespace firn::hyp
