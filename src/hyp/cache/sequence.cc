#include "hyp/cache/sequence.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <filesystem>
#include <limits>

#include "base/civil_time.h"
#include "base/clock.h"
#include "base/fault_point.h"
#include "base/log.h"
#include "base/uri.h"
#include "base/uuid.h"
#include "hyp/cache/layout.h"
#include "hyp/cache/table_opens.h"

namespace firn::hyp {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kBlock = 1024;  // spec §7

std::string state_path(const std::string& cache_root) { return join_path(cache_root, "_hyp_ingest_seq.json"); }

SequenceFile parse_sequence_file(const std::string& text, const std::string& path) {
  const Json json = parse_json(text, path);
  SequenceFile file;
  file.next_seq = get_int64(json, "nextSeq", path);
  file.cache_id = get_string(json, "cacheId", path);
  file.opens = opens_from_json(get_array(json, "opens", path), path);
  const int64_t last_from = file.opens.empty() ? 0 : file.opens.back().from_seq;
  if (file.next_seq < 1 || file.next_seq < last_from || file.cache_id.empty()) {
    fail(ErrorKind::corrupt, "{}: nextSeq {} cannot be, with an open from {}", path, file.next_seq, last_from);
  }
  return file;
}

void write_sequence_file(const std::string& cache_root, const SequenceFile& file) {
  const Json json = {{"v", 1},
                     {"nextSeq", file.next_seq},
                     {"updatedAt", format_timestamp_ms_utc(now_ms())},
                     {"cacheId", file.cache_id},
                     {"opens", opens_to_json(file.opens)}};
  replace_file(state_path(cache_root), json.dump(1) + "\n");
}

// What the rest of the cache proves about the sequence file.
struct Evidence {
  int64_t max_seq = 0;   // highest number in a table or watermark; 0: none
  std::string cache_id;  // empty: no cursor
  std::vector<Open> opens;
  // The first that a table lists of as many as it can: it has dropped those of rows with lower numbers.
  std::vector<Open> first_of_full;
};

void add_table(Evidence& evidence, const std::string& cache_root, const PartitionId& partition) {
  const std::string folder = join_path(cache_root, partition.logical_path());
  try {
    if (evidence.cache_id.empty()) {
      if (const auto cursor = read_cursor(folder)) evidence.cache_id = cursor->cache_id;
    }
    const auto held = hold_generation(folder);
    if (!held) return;
    const auto table = iceberg::open_filesystem_table(make_local_file_io(), held->location)->load();
    const auto& metadata = *table.metadata;
    evidence.max_seq = std::max(evidence.max_seq, metadata.int_property(kMaxSeqProperty, 0));
    if (const std::string text = metadata.property(kOpensProperty, ""); !text.empty()) {
      const auto opens = opens_from_json(parse_json(text, table.metadata_path), table.metadata_path);
      evidence.opens.insert(evidence.opens.end(), opens.begin(), opens.end());
      if (opens.size() >= kOpensKept) evidence.first_of_full.push_back(opens.front());
    }
  } catch (const Error& e) {
    // A table that cannot be read takes no rows either, and once it is repaired reserve() sees its numbers (P5.2).
    if (e.kind() == ErrorKind::io) throw;
    spdlog::warn("the sequence is checked without partition {}: {}", partition.logical_path(), e.what());
  }
}

int64_t highest_in_watermark(const std::string& text, const std::string& path) {
  const Json json = parse_json(text, path);
  int64_t highest = 0;
  if (const Json* continuation = find_member(json, "continuation")) {
    const std::string seq = get_string(*continuation, "seq", path);
    const auto [end, error] = std::from_chars(seq.data(), seq.data() + seq.size(), highest);
    if (error != std::errc() || end != seq.data() + seq.size()) fail(ErrorKind::corrupt, "{}: seq \"{}\"", path, seq);
  }
  if (const Json* pending = find_member(json, "pending")) {
    const Json* until = find_member(*pending, "until");
    if (until && until->is_number_integer()) highest = std::max(highest, until->get<int64_t>());
    if (until && until->is_string()) {
      const auto& digits = until->get_ref<const std::string&>();
      int64_t value = 0;
      std::from_chars(digits.data(), digits.data() + digits.size(), value);
      highest = std::max(highest, value);
    }
  }
  return highest;
}

// <stateDir>/<sink>/watermarks/<dataset>/<partition-key>.json
void add_watermarks(Evidence& evidence, const std::string& state_dir) {
  const auto io = make_local_file_io();
  std::error_code error;
  for (fs::directory_iterator it(state_dir, error), end; !error && it != end; it.increment(error)) {
    const std::string folder = (it->path() / "watermarks").string();
    if (!it->is_directory() || !fs::is_directory(folder)) continue;
    for (const FileInfo& file : io->list(folder, true)) {
      if (!file.path.ends_with(".json")) continue;
      try {
        if (const auto text = io->read_if_exists(file.path)) {
          evidence.max_seq = std::max(evidence.max_seq, highest_in_watermark(*text, file.path));
        }
      } catch (const Error& e) {
        if (e.kind() == ErrorKind::io) throw;
        // Its sink takes it for lost, too, and asks the destination (P10.5).
        spdlog::warn("the sequence is checked without a damaged watermark: {}", e.what());
      }
    }
  }
}

Evidence find_evidence(const std::string& cache_root, const std::string& state_dir) {
  Evidence evidence;
  for (const PartitionId& partition : list_partitions(cache_root)) add_table(evidence, cache_root, partition);
  add_watermarks(evidence, state_dir);
  return evidence;
}

// Both lists' entries, ascending. Where two claim one number the file's (`a`) stands.
std::vector<Open> merge_opens(const std::vector<Open>& a, const std::vector<Open>& b) {
  std::map<int64_t, std::string> by_start;
  for (const Open& open : a) by_start.emplace(open.from_seq, open.open_id);
  for (const Open& open : b) by_start.emplace(open.from_seq, open.open_id);
  std::vector<Open> merged;
  for (const auto& [from, id] : by_start) {
    if (merged.empty() || merged.back().open_id != id) merged.push_back({id, from});
  }
  return merged;
}

// `file` with what the tables repeat. An entry owns all numbers up to the next one: where a table dropped entries that
// the file does not have either, those before its first would own numbers of another open, and are left to the tables.
std::vector<Open> restored_opens(const std::vector<Open>& file, const Evidence& evidence) {
  std::vector<Open> opens = merge_opens(file, evidence.opens);
  int64_t known_from = 0;
  for (const Open& first : evidence.first_of_full) {
    if (std::find(file.begin(), file.end(), first) == file.end()) known_from = std::max(known_from, first.from_seq);
  }
  std::erase_if(opens, [&](const Open& open) { return open.from_seq < known_from; });
  return opens;
}

}  // namespace

std::optional<SequenceFile> read_sequence_file(const std::string& cache_root) {
  const std::string path = state_path(cache_root);
  const auto text = make_local_file_io()->read_if_exists(path);
  if (!text) return std::nullopt;
  return parse_sequence_file(*text, path);
}

struct SequenceAllocator::State {
  std::string cache_root, state_dir;
  std::string open_id = uuid_v4();
  std::mutex mutex;
  std::string cache_id;
  int64_t block_next = 0, block_end = 0;  // numbers reserved and unused: [next, end)
  bool checked = false;                   // against tables and watermarks, in this process

  std::shared_ptr<const SequenceFile> known;  // the file as it was last read
  std::string known_version;                  // FileInfo::version of that file

  std::string lock_path() const { return join_path(cache_root, "_hyp_ingest_seq.lock"); }

  FileLock lock_file() const {
    make_directories(cache_root);
    return FileLock::acquire(lock_path(), FileLock::Mode::exclusive);
  }

  // nullptr if there is none. Throws as read_sequence_file. Parsed once while it stays: a cache of many short-lived
  // processes has many opens, and each commit of a flush or a sink asks for them. Requires the file's lock.
  std::shared_ptr<const SequenceFile> read() {
    const auto info = make_local_file_io()->stat(state_path(cache_root));
    if (known && info && info->version == known_version) return known;
    std::optional<SequenceFile> file = read_sequence_file(cache_root);
    known = file ? std::make_shared<const SequenceFile>(std::move(*file)) : nullptr;
    known_version = info ? info->version : "";
    return known;
  }

  // The file, above `above_exclusive` and all that was ever issued as far as can be told. Requires the mutex and the
  // file's lock. `is_saved` is false where it differs from what is on disk.
  std::shared_ptr<const SequenceFile> load(int64_t above_exclusive, bool& is_saved) {
    std::shared_ptr<const SequenceFile> file;
    std::string trouble;
    try {
      file = read();
    } catch (const Error& e) {
      if (e.kind() != ErrorKind::corrupt) throw;  // an unreadable disk is no reason to begin anew
      trouble = e.what();
    }
    is_saved = file != nullptr;
    const int64_t issued = std::max(above_exclusive, block_end - 1);
    if (!checked || !file || file->next_seq <= issued) {
      const Evidence evidence = find_evidence(cache_root, state_dir);
      const int64_t highest = std::max(issued, evidence.max_seq);
      if (file && file->next_seq <= highest) trouble = fmt::format("nextSeq is {}", file->next_seq);
      const bool was_lost = !file && (highest > 0 || !evidence.cache_id.empty());
      if (was_lost && trouble.empty()) trouble = "the file is missing";
      if (!file || !trouble.empty()) {
        file = std::make_shared<const SequenceFile>(rebuilt(file.get(), evidence, highest, trouble));
        is_saved = false;
      }
      checked = true;
    }
    cache_id = file->cache_id;
    return file;
  }

  // The file as it is on disk, made or put right first where it has to be. Who may not write it can read it all the
  // same. Requires the mutex.
  std::shared_ptr<const SequenceFile> load_saved() {
    const bool is_reader = ::access(lock_path().c_str(), W_OK) != 0 && (errno == EROFS || errno == EACCES);
    const FileLock lock = is_reader ? FileLock::acquire(lock_path(), FileLock::Mode::shared) : lock_file();
    bool is_saved = true;
    auto file = load(0, is_saved);
    if (is_saved) return file;
    if (is_reader) {
      fail(ErrorKind::io, "{} has to be written anew, and its folder is read-only: run a hyp command that may write it",
           state_path(cache_root));
    }
    write_sequence_file(cache_root, *file);
    return file;
  }

  // `trouble`: what is wrong with the file; empty: there never was one.
  SequenceFile rebuilt(const SequenceFile* read, const Evidence& evidence, int64_t highest,
                       const std::string& trouble) {
    SequenceFile file;
    if (read != nullptr) {
      file = *read;
    } else {
      file.cache_id = !evidence.cache_id.empty() ? evidence.cache_id : !cache_id.empty() ? cache_id : uuid_v4();
    }
    if (trouble.empty()) return file;
    file.opens = restored_opens(file.opens, evidence);
    const int64_t last_from = file.opens.empty() ? 0 : file.opens.back().from_seq;
    file.next_seq = std::max({file.next_seq, highest + 1, last_from + 1});
    block_next = block_end = 0;  // its numbers may have lost their entry among the opens
    spdlog::warn("{}: {}; tables and watermarks hold numbers up to {}: continuing at {}", state_path(cache_root),
                 trouble, highest, file.next_seq);
    return file;
  }

  // Whether the numbers left are, in the file, those of an entry of ours.
  bool is_block_ours(const SequenceFile& file) const {
    const Open* entry = nullptr;
    for (const Open& open : file.opens) {
      if (open.from_seq <= block_next) entry = &open;
    }
    return entry != nullptr && entry->open_id == open_id;
  }
};

SequenceAllocator::SequenceAllocator(std::string cache_root, std::string state_dir)
    : state_(std::make_unique<State>()) {
  state_->cache_root = std::move(cache_root);
  state_->state_dir = std::move(state_dir);
}

SequenceAllocator::~SequenceAllocator() = default;

std::string SequenceAllocator::open_id() const {
  std::lock_guard guard(state_->mutex);
  return state_->open_id;
}

std::string SequenceAllocator::cache_id() {
  std::lock_guard guard(state_->mutex);
  if (state_->cache_id.empty()) state_->load_saved();
  return state_->cache_id;
}

int64_t SequenceAllocator::reserve(int64_t count, int64_t above_exclusive) {
  if (count < 1) fail(ErrorKind::internal, "{} sequence numbers were asked for", count);
  State& s = *state_;
  std::lock_guard guard(s.mutex);
  const FileLock lock = s.lock_file();
  bool is_saved = true;
  const auto read = s.load(above_exclusive, is_saved);
  if (s.block_next > above_exclusive && s.block_end - s.block_next >= count && s.is_block_ours(*read)) {
    return std::exchange(s.block_next, s.block_next + count);
  }
  SequenceFile file = *read;
  const int64_t first = file.next_seq;
  const int64_t size = std::max(kBlock, count);
  if (first > std::numeric_limits<int64_t>::max() - size) {
    fail(
        ErrorKind::corrupt,
        "{}: nextSeq is {}, and no numbers are left after it. No cache counts so far, so the file was damaged: move it "
        "away, and the numbers go on above those that tables and watermarks have",
        state_path(s.cache_root), first);
  }
  file.next_seq = first + size;
  if (file.opens.empty() || file.opens.back().open_id != s.open_id) {
    // One range of numbers an open, so that a destination's last number of it says which rows it has (P10.5): a process
    // that reserves again after another opens anew.
    const auto is_used = [&](const Open& open) { return open.open_id == s.open_id; };
    if (std::any_of(file.opens.begin(), file.opens.end(), is_used)) s.open_id = uuid_v4();
    file.opens.push_back({s.open_id, first});
  }
  write_sequence_file(s.cache_root, file);
  fault_point("sequence.reserved");
  s.block_next = first + count;
  s.block_end = first + size;
  return first;
}

std::vector<Open> SequenceAllocator::opens() {
  std::lock_guard guard(state_->mutex);
  return state_->load_saved()->opens;
}

void SequenceAllocator::prune_opens(int64_t oldest_seq_kept) {
  std::lock_guard guard(state_->mutex);
  const FileLock lock = state_->lock_file();
  bool is_saved = true;
  SequenceFile file = *state_->load(0, is_saved);
  size_t dropped = 0;
  while (dropped + 1 < file.opens.size() && file.opens[dropped + 1].from_seq <= oldest_seq_kept) ++dropped;
  file.opens.erase(file.opens.begin(), file.opens.begin() + dropped);
  if (dropped > 0 || !is_saved) write_sequence_file(state_->cache_root, file);
}

std::vector<OpenRange> open_ranges(const std::vector<Open>& opens) {
  std::vector<OpenRange> ranges;
  for (size_t i = 0; i < opens.size(); ++i) {
    const bool is_last = i + 1 == opens.size();
    ranges.push_back({opens[i].open_id, opens[i].from_seq - 1,
                      is_last ? std::numeric_limits<int64_t>::max() : opens[i + 1].from_seq - 1});
  }
  return ranges;
}

Json opens_to_json(const std::vector<Open>& opens) {
  Json array = Json::array();
  for (const Open& open : opens) array.push_back({{"openId", open.open_id}, {"fromSeq", open.from_seq}});
  return array;
}

std::vector<Open> opens_from_json(const Json& array, std::string_view where) {
  if (!array.is_array()) fail(ErrorKind::corrupt, "{}: the opens are no array", where);
  std::vector<Open> opens;
  for (const Json& entry : array) {
    opens.push_back({get_string(entry, "openId", where), get_int64(entry, "fromSeq", where)});
    const int64_t before = opens.size() > 1 ? opens[opens.size() - 2].from_seq : 0;
    if (opens.back().from_seq <= before) {
      fail(ErrorKind::corrupt, "{}: an open from {} follows one from {}", where, opens.back().from_seq, before);
    }
  }
  return opens;
}

}  // namespace firn::hyp
