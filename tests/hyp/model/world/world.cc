#include "hyp/model/world/world.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <sstream>

#include "base/arrow_status.h"
#include "base/fault_point.h"
#include "base/test_world.h"
#include "hyp/cache/legacy_table.h"
#include "hyp/capture/ingest.h"
#include "hyp/query/query.h"
#include "iceberg/scan/row_json.h"
#include "io/local.h"
#include "io/temporary_file.h"
#include "io/unsynced.h"
#include "support/crash.h"

namespace firn::hyp::model {
namespace {

namespace fs = std::filesystem;

// 2100-06-01: files are younger than that, whose times are the kernel's.
constexpr int64_t kFirstMs = 4'115'491'200'000;
constexpr int64_t kStepMs = 1'000;
constexpr int64_t kExtraColumnsMax = 12;  // each costs every later file something
constexpr int kKilled = 137;

SinkConfig make_sink(const std::string& name, SinkKind kind, const std::string& path, int64_t unit_rows_max) {
  SinkConfig sink;
  sink.name = name;
  sink.kind = kind;
  sink.path = path;
  sink.unit_rows_max = unit_rows_max;
  sink.parallel_max = 1;  // a run is to be repeated from its seed
  return sink;
}

std::string lines_text(const std::vector<Line>& lines) {
  std::string text;
  for (const Line& line : lines) text += line.text + "\n";
  return text;
}

size_t count_lines(const std::string& text) { return static_cast<size_t>(std::count(text.begin(), text.end(), '\n')); }

struct FoundFrame {
  std::string spool_id;
  size_t lines = 0;
};

// Frames in the spool that no flush has finished with, of sources whose ids have `part`, with lines from `first_line`.
std::vector<FoundFrame> find_frames(Spool& spool, const std::string& part, int64_t first_line) {
  std::vector<FoundFrame> found;
  SpoolReader reader(spool.folder(), spool.progress());
  while (const auto at = reader.next()) {
    const Frame& frame = at->frame;
    if (frame.source_id.find(part) == std::string::npos || frame.first_line < first_line || frame.text.empty())
      continue;
    found.push_back({spool.id(), count_lines(frame.text)});
  }
  return found;
}

void append_rows(const arrow::RecordBatch& batch, const iceberg::Schema& schema, std::vector<std::string>& contents) {
  std::string json;
  for (int64_t row = 0; row < batch.num_rows(); ++row) {
    json.clear();
    iceberg::append_row_json(batch, schema, row, json);
    contents.push_back(canonical_row(json));
  }
}

}  // namespace

// A reader that stays open while other steps are done.
struct World::Reader {
  PartitionId partition;
  std::unique_ptr<SequencedReader> rows;
  std::vector<std::string> expected;  // from the next row on
  std::vector<int64_t> expected_seqs;
  size_t next = 0;

  // False: it is at its end.
  bool read_batch() {
    const auto batch = rows->next();
    if (!batch) {
      if (next < expected.size()) differ("{}: an open reader ends {} rows too early", name(), expected.size() - next);
      return false;
    }
    std::vector<std::string> contents;
    append_rows(*batch->rows, rows->schema(), contents);
    for (size_t i = 0; i < contents.size(); ++i, ++next) {
      if (next >= expected.size()) differ("{}: an open reader has a row too many: {}", name(), contents[i]);
      if (contents[i] != expected[next] || batch->after[i] != expected_seqs[next]) {
        differ("{}: an open reader has {} ({}) where {} ({}) was when it began", name(), contents[i], batch->after[i],
               expected[next], expected_seqs[next]);
      }
    }
    return true;
  }
  std::string name() const { return partition.logical_path(); }
};

World::World(const WorldOptions& options) : options_(options), clock_ms_(kFirstMs) {
  set_random_seed(options.seed);
  set_clock_ms(clock_ms_);
  config_.cache_root = folder_ / "cache";
  config_.state_dir = folder_ / "state";
  config_.compaction.target_file_bytes = 64 << 10;
  config_.compaction.files_min = 6;
  config_.sinks = {make_sink("lines", SinkKind::blob, folder_ / "lines", 20),
                   make_sink("objects", SinkKind::blob, folder_ / "objects", 1000),
                   make_sink("archive", SinkKind::iceberg, folder_ / "archive", 50)};
  config_.sinks[0].format = BlobFormat::jsonl;
  config_.sinks[0].compression = "none";
  config_.sinks[1].datasets = {"events", "typed"};
  fs::create_directory(folder_ / "files");
  for (int i = 0; i < kDatasets; ++i) {
    const auto dataset = static_cast<Dataset>(i);
    config_.datasets[name_of(dataset)] = config_of(dataset, declared_, options.is_partitioned);
  }
  if (options.has_legacy) make_legacy_rows();
  start();
}

World::~World() {
  if (is_program_stopped()) restart_program();
  set_fault_handler(nullptr);
  readers_.clear();
  for (Process& process : processes_) process = {};
  unsynced::drop_ledger();
  forget_durable_folders();
  set_clock_ms(std::nullopt);
  set_random_seed(std::nullopt);
}

void World::run(const Step& step) {
  clock_ms_ += kStepMs;
  set_clock_ms(clock_ms_);
  crashes_of_step_ = 0;
  passes_.clear();
  do_step(step);
}

void World::do_step(const Step& step) {
  static const std::map<std::string, void (World::*)(const Step&)> actions = {
      {"ingest", &World::ingest},
      {"backfill", &World::backfill},
      {"flush", &World::flush_step},
      {"sink", &World::sink_step},
      {"restart", &World::restart_step},
      {"retain", &World::retain},
      {"compact", &World::compact},
      {"sweep", &World::sweep},
      {"maintain", &World::maintain_step},
      {"purge", &World::purge_step},
      {"open_reader", &World::open_reader},
      {"finish_reader", &World::finish_reader},
      {"check", &World::check_step},
      {"check_since", &World::check_since},
      {"query", &World::query},
      {"expire_archive", &World::expire_archive},
  };
  if (step.action == "clock") {
    clock_ms_ += step.arg("minutes") * kMinuteMs;
    set_clock_ms(clock_ms_);
  } else if (step.action == "new_column") {
    extra_columns_ = std::min(extra_columns_ + 1, kExtraColumnsMax);
  } else if (const auto found = actions.find(step.action); found != actions.end()) {
    (this->*found->second)(step);
  } else {
    fail(ErrorKind::invalid_argument, "there is no action {}", step.action);
  }
}

// --- the program, its deaths and restarts ---

// Does `work` in a child that is killed at `crash`, or at its end. Then this process's view of the files is a dead
// one's.
void World::kill_child(const CrashAt& crash, const Work& work) {
  const int status = run_in_child([&] {
    // Other ids than this process makes next: else it would give a file the name that the child gave one.
    set_random_seed(options_.seed + static_cast<uint64_t>(crashes_) + 1);
    int64_t passes = 0;
    std::mutex mutex;
    set_fault_handler([&](const char* name) {
      const std::lock_guard lock(mutex);
      if (crash.point == name && ++passes == crash.pass) ::_exit(kKilled);
    });
    work();
  });
  if (status != 0 && status != kKilled) differ("a child ended with status {}", status);
  if (options_.use != nullptr && status == kKilled) ++options_.use->crashes[crash.point];
  stop_program();
}

bool World::stops(const Step& step, const std::string& action, const Work& work) {
  const CrashAt* const next = crashes_of_step_ < step.crashes.size() ? &step.crashes[crashes_of_step_] : nullptr;
  if (options_.forks && next != nullptr) {
    kill_child(*next, work);
    return true;
  }
  std::mutex mutex;
  const auto before = std::exchange(watch_, [&](const char* name) {
    int64_t pass = 0;
    {
      const std::lock_guard lock(mutex);
      pass = ++passes_[name];
    }
    for (const Meanwhile& other : step.meanwhile) {
      if (crashes_of_step_ == 0 && pass == other.pass && other.point == name) do_meanwhile(other);
    }
    if (next != nullptr && pass == next->pass && next->point == name) stop_program();
  });
  const auto end_watch = [&] {
    watch_ = before;
    set_fault_handler(watch_);
  };
  set_fault_handler(watch_);
  try {
    work();
  } catch (const Stopped&) {  // it died
  } catch (...) {             // passes on; what watches looks at what is about to go
    end_watch();
    throw;
  }
  end_watch();
  if (!meanwhile_problem_.empty()) differ("{}", meanwhile_problem_);
  if (options_.use != nullptr) {
    for (const auto& [name, count] : passes_) {
      int64_t& most = options_.use->passes[action][name];
      most = std::max(most, count);
    }
    if (is_program_stopped()) ++options_.use->crashes[next->point];
  }
  return is_program_stopped();
}

// Another process at work while the step's is at a point where it holds no lock that the other waits for.
void World::do_meanwhile(const Meanwhile& other) {
  if (std::exchange(is_meanwhile_, true)) return;
  std::map<std::string, int64_t> passes;
  passes.swap(passes_);
  try {
    if (running_sink_ != nullptr) note_units_under_way();
    do_step(other.step);
  } catch (const std::exception& e) {
    meanwhile_problem_ = fmt::format("at {} {} by another: {}", other.point, to_text(other.step), e.what());
  }
  passes.swap(passes_);
  is_meanwhile_ = false;
}

bool World::survives(const Step& step, const Work& work) {
  if (!stops(step, step.action, work)) return true;
  do {
    die(step.crashes[crashes_of_step_++].power);
    passes_.clear();
  } while (stops(step, "start", [&] { start(); }));
  check_sequence_file();
  // What was seen set aside may be gone with the power.
  for (int i = 0; i < kDatasets; ++i) look_at_rejects(static_cast<Dataset>(i));
  return false;
}

void World::die(bool power) {
  ++crashes_;
  readers_.clear();
  for (Process& process : processes_) process = {};
  if (power) unsynced::forget_now();
  restart_program();
  forget_durable_folders();
}

// Of the folders below `folder`. What a killed program did last may be there unsynced, and a power cut would take it
// back, which nobody who acts on it allows (P10.8): the model knows one outcome.
void World::make_durable(const std::string& folder) {
  if (!unsynced::enabled() || !fs::exists(folder)) return;
  sync_directory(folder);
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (entry.is_directory()) sync_directory(entry.path());
  }
}

void World::start() {
  for (Process& process : processes_) {
    process.cache = std::make_unique<Cache>(config_);
    process.spool = Spool::open(config_.cache_root);
  }
  for (const auto& [id, lines] : model_.spools) {
    const bool is_open =
        std::any_of(processes_.begin(), processes_.end(), [&](const Process& p) { return p.spool->id() == id; });
    if (!is_open && !lines.empty()) differ("the spool {} was not taken by the next process", id);
  }
}

void World::restart_step(const Step& step) {
  readers_.clear();
  for (Process& process : processes_) process = {};
  forget_durable_folders();
  if (step.arg("declare") != 0) {
    ++declared_;
    config_.datasets["typed"] = config_of(Dataset::typed, declared_, options_.is_partitioned);
  }
  survives(step, [&] { start(); });
}

// A partition as another program left it: no hidden columns, and rows without numbers. They get theirs in the order in
// which they came, up to 0 (P9.3).
void World::make_legacy_rows() {
  constexpr size_t kAppends = 2, kRowsEach = 6;
  const PartitionId id{name_of(Dataset::events), "a"};
  using iceberg::TypeId;
  const Cache cache(config_);
  make_legacy_table(
      cache, id,
      iceberg::Schema({optional_field(1, "id", TypeId::long_), optional_field(2, "k", TypeId::long_),
                       optional_field(3, "s", TypeId::string), optional_field(4, "at", TypeId::timestamptz)}));
  KnownColumns& known = model_.known_of(Dataset::events);
  known.columns = {"id", "k", "s", "at"};
  Partition& partition = model_.partitions[id];
  for (size_t i = 0; i < kAppends; ++i) {
    std::vector<std::string> texts;
    while (texts.size() < kRowsEach) {
      const Line line =
          make_lines(Dataset::events, options_.seed * 100 + ++num_frames_, 1, clock_ms_, known, unique_)[0];
      if (!is_taken(Dataset::events, line, known) || line.find("u") != nullptr) continue;
      texts.push_back(line.text);
      const auto seq = static_cast<int64_t>(partition.log.size() + 1) - static_cast<int64_t>(kAppends * kRowsEach);
      partition.log.push_back(to_row({line, id, clock_ms_}, seq));
      model_.numbers.insert(seq);
    }
    append_as_other(cache, id, texts);
  }
}

// --- capture ---

void World::note_spooled(const std::string& spool_id, const std::vector<Line>& lines, Dataset dataset,
                         const std::string& source) {
  ++num_frames_;
  for (const Line& line : lines) {
    const PartitionId partition{name_of(dataset), source_of(dataset, line, source)};
    model_.spools[spool_id].push_back({line, partition, clock_ms_, num_frames_});
  }
}

// Captures `lines` by `capture`, which is done again after each crash until it succeeds; then all are there once.
void World::capture(const Step& step, size_t process_index, std::vector<Line> lines, Dataset dataset,
                    const std::string& source, const std::string& source_part, int64_t first_line,
                    const std::function<CaptureReport(Spool&)>& capture) {
  const auto note_first = [&](const std::string& spool_id, size_t count) {
    if (count > lines.size()) differ("the spool {} took {} lines of {}", spool_id, count, lines.size());
    note_spooled(spool_id, {lines.begin(), lines.begin() + static_cast<ptrdiff_t>(count)}, dataset, source);
    lines.erase(lines.begin(), lines.begin() + static_cast<ptrdiff_t>(count));
    first_line += static_cast<int64_t>(count);
  };
  for (;;) {
    CaptureReport report;
    Process& process = processes_[process_index];
    if (survives(step, [&] { report = capture(*process.spool); })) {
      if (report.lines != static_cast<int64_t>(lines.size())) {
        differ("{} lines were taken of {} that were not taken before", report.lines, lines.size());
      }
      if (!lines.empty()) note_first(process.spool->id(), lines.size());
      return;
    }
    for (Process& other : processes_) {
      for (const FoundFrame& found : find_frames(*other.spool, source_part, first_line)) {
        note_first(found.spool_id, found.lines);
      }
    }
  }
}

void World::ingest(const Step& step) {
  const auto dataset = static_cast<Dataset>(step.arg("dataset"));
  KnownColumns known = known_of(dataset);
  const std::vector<Line> lines =
      make_lines(dataset, static_cast<uint64_t>(step.arg("seed")), step.arg("rows"), clock_ms_, known, unique_);
  CaptureOptions options;
  options.dataset = name_of(dataset);
  options.source = step.arg("source") == 0 ? "a" : "b";
  const std::string batch_id = fmt::format("batch-{}", ++num_batches_), body = lines_text(lines);
  capture(step, static_cast<size_t>(step.arg("process")), lines, dataset, options.source, fmt::format(":{}:", batch_id),
          1, [&](Spool& spool) { return ingest_body(spool, body, batch_id, options); });
}

void World::backfill(const Step& step) {
  if (!growing_ || step.arg("grow") == 0) {
    if (growing_) fs::remove(growing_->path);
    growing_ = Growing();
    growing_->path = folder_ / fmt::format("files/{}.ndjson", ++num_files_);
    growing_->dataset = static_cast<Dataset>(step.arg("dataset"));
    // A running process does not look for what others take meanwhile: the daemon is the only one.
    growing_->process = static_cast<size_t>(step.arg("process"));
    growing_->source = step.arg("source") == 0 ? "a" : "b";
  }
  Growing& file = *growing_;
  const KnownColumns known = known_of(file.dataset);
  const std::vector<Line> lines =
      make_lines(file.dataset, static_cast<uint64_t>(step.arg("seed")), step.arg("rows"), clock_ms_, known, unique_);
  std::ofstream(file.path, std::ios::app) << lines_text(lines);
  CaptureOptions options;
  options.dataset = name_of(file.dataset);
  options.source = file.source;
  options.atomic = step.arg("atomic") != 0;
  struct stat info;
  if (::stat(file.path.c_str(), &info) != 0) fail_errno(errno, "stat " + file.path);
  capture(step, file.process, lines, file.dataset, file.source, fmt::format(":{}:", info.st_ino), file.lines + 1,
          [&](Spool& spool) { return ingest_file(spool, file.path, options); });
  file.lines += static_cast<int64_t>(lines.size());
}

KnownColumns World::known_of(Dataset dataset) const {
  KnownColumns known = model_.known[static_cast<size_t>(dataset)];
  known.extra = extra_columns_;
  known.declared = declared_;
  return known;
}

// --- flush ---

void World::flush_step(const Step& step) { flush_spool(step, processes_[static_cast<size_t>(step.arg("process"))]); }

bool World::flush_spool(const Step& step, Process& process) {
  const std::string id = process.spool->id();
  FlushOptions options;
  if (step.arg("by_frame") != 0) options.range_bytes_max = 1;
  FlushReport report;
  if (survives(step, [&] { report = flush(*process.cache, *process.spool, options); })) {
    note_flushed(id, report);
    return true;
  }
  find_flushed(id);
  return false;
}

void World::note_row(Partition& partition, const Spooled& spooled, int64_t seq) {
  if (!model_.numbers.insert(seq).second)
    differ("{}: number {} is another row's", spooled.partition.logical_path(), seq);
  partition.log.push_back(to_row(spooled, seq));
  partition.last_seq = seq;
  for (const Value& value : spooled.line.values) {
    model_.known_of(dataset_of(spooled.partition.dataset)).columns.insert(value.column);
  }
}

// All that the spool had is in tables or rejects now.
void World::note_flushed(const std::string& spool_id, const FlushReport& report) {
  if (!report.problems.empty()) differ("the flush had a problem: {}", report.problems.front());
  std::map<PartitionId, std::vector<const Spooled*>> rows;
  std::array<std::vector<std::string>, kDatasets> rejected;
  int64_t num_rows = 0, num_rejected = 0;
  std::deque<Spooled> spooled = std::move(model_.spools[spool_id]);
  model_.spools.erase(spool_id);
  for (const Spooled& one : spooled) {
    const Dataset dataset = dataset_of(one.partition.dataset);
    if (!one.is_rejected && is_taken(dataset, one.line, known_of(dataset))) {
      rows[one.partition].push_back(&one);
      ++num_rows;
    } else {
      rejected[static_cast<size_t>(dataset)].push_back(one.line.text);
      num_rejected += one.is_rejected ? 0 : 1;
    }
  }
  if (report.rows != num_rows) differ("the flush reports {} rows where {} should be", report.rows, num_rows);
  if (report.rejected != num_rejected) differ("the flush reports {} rejects, not {}", report.rejected, num_rejected);
  for (const auto& [id, lines] : rows) {
    Partition& partition = model_.partitions[id];
    const std::vector<Row> found = read_rows_of(id, partition.last_seq);
    std::vector<std::string> contents, expected;
    for (const Row& row : found) contents.push_back(row.content);
    for (const Spooled* line : lines) expected.push_back(line->line.content());
    expect_equal(id.logical_path() + " after the flush", contents, expected);
    for (size_t i = 0; i < lines.size(); ++i) note_row(partition, *lines[i], found[i].seq);
  }
  check_sequence_file();
  for (int i = 0; i < kDatasets; ++i) {
    if (rejected[static_cast<size_t>(i)].empty()) continue;
    Rejects& rejects = model_.rejects[static_cast<size_t>(i)];
    rejects.settled.insert(rejected[static_cast<size_t>(i)].begin(), rejected[static_cast<size_t>(i)].end());
    look_at_rejects(static_cast<Dataset>(i));
  }
}

// Whole lines of the dataset's rejects file that are not settled yet.
std::vector<std::string> World::read_rejects(Dataset dataset, int64_t& end_bytes) const {
  const std::string path = config_.cache_root + "/rejects/" + name_of(dataset) + ".ndjson";
  std::ifstream file(path, std::ios::binary);
  file.seekg(model_.rejects[static_cast<size_t>(dataset)].settled_bytes);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  std::vector<std::string> texts;
  size_t begin = 0;
  for (size_t end; (end = text.find('\n', begin)) != std::string::npos; begin = end + 1) {
    texts.push_back(Json::parse(text.substr(begin, end - begin)).value("text", ""));
  }
  end_bytes = model_.rejects[static_cast<size_t>(dataset)].settled_bytes + static_cast<int64_t>(begin);
  return texts;
}

// What is in the rejects file must be settled, or a line that is still in a spool: then it is decided.
void World::look_at_rejects(Dataset dataset) {
  Rejects& rejects = model_.rejects[static_cast<size_t>(dataset)];
  int64_t end_bytes = 0;
  std::multiset<std::string> open;
  for (std::string& text : read_rejects(dataset, end_bytes)) open.insert(std::move(text));
  for (const std::string& text : rejects.settled) {
    const auto found = open.find(text);
    if (found == open.end()) differ("{}: a reject is not set aside: {}", name_of(dataset), text);
    open.erase(found);
  }
  bool is_all_settled = true;
  for (auto& [id, lines] : model_.spools) {
    for (Spooled& line : lines) {
      if (line.partition.dataset != name_of(dataset)) continue;
      const auto found = open.find(line.line.text);
      line.is_rejected = found != open.end();
      if (!line.is_rejected) continue;
      open.erase(found);
      is_all_settled = false;
    }
  }
  if (!open.empty()) {
    differ("{}: {} lines are set aside that should not be, such as {}", name_of(dataset), open.size(), *open.begin());
  }
  if (!is_all_settled) return;
  rejects.settled_bytes = end_bytes;
  rejects.settled.clear();
}

// After a crash: some frames, or those of some partitions, may be where they belong.
void World::find_flushed(const std::string& spool_id) {
  std::map<PartitionId, std::vector<Row>> found;
  for (const PartitionId& id : partitions()) {
    make_durable(processes_[0].cache->folder(id));
    if (auto rows = read_rows_of(id, model_.partitions[id].last_seq); !rows.empty()) found[id] = std::move(rows);
  }
  std::deque<Spooled>& spooled = model_.spools[spool_id];
  for (const auto& [id, rows] : found) {
    size_t num_rows = 0;
    int64_t last_frame = 0;
    for (Spooled& one : spooled) {
      if (one.partition != id) continue;
      const Dataset dataset = dataset_of(id.dataset);
      const bool is_row = !one.is_rejected && is_taken(dataset, one.line, known_of(dataset));
      if (num_rows == rows.size()) {
        if (is_row && one.frame == last_frame) {
          differ("{}: a flush that died left a part of a frame: {} is not there", id.logical_path(), one.line.text);
        }
        continue;
      }
      if (!is_row && !one.is_rejected) {
        differ("{}: rows of after {} are there, and it is not set aside", id.logical_path(), one.line.text);
      }
      one.is_done = true;
      if (!is_row) {
        model_.rejects_of(dataset).settled.insert(one.line.text);
        continue;
      }
      const Row& row = rows[num_rows++];
      if (row.content != one.line.content()) {
        differ("{}: after a flush that died {} is where {} should be", id.logical_path(), row.content, one.line.text);
      }
      note_row(model_.partitions[id], one, row.seq);
      last_frame = one.frame;
    }
    if (num_rows < rows.size()) {
      differ("{}: after a flush that died there are rows that nobody sent: {}", id.logical_path(),
             rows[num_rows].content);
    }
  }
  std::erase_if(spooled, [](const Spooled& one) { return one.is_done; });
  if (spooled.empty()) model_.spools.erase(spool_id);
  check_sequence_file();
}

// Numbers are the file's before they are rows' (P5.1).
void World::check_sequence_file() const {
  if (model_.numbers.empty()) return;
  const auto file = read_sequence_file(config_.cache_root);
  const int64_t next = file ? file->next_seq : 1;
  if (const int64_t highest = *model_.numbers.rbegin(); highest >= next) {
    differ("a row has the number {}, and the sequence file would give {} next", highest, next);
  }
}

// --- looking ---

std::vector<PartitionId> World::partitions() const {
  std::vector<PartitionId> ids;
  for (int i = 0; i < kDatasets; ++i) {
    const auto some = processes_[0].cache->partitions(name_of(static_cast<Dataset>(i)));
    ids.insert(ids.end(), some.begin(), some.end());
  }
  return ids;
}

std::vector<PartitionId> World::partitions_of(const Step& step) const {
  std::vector<PartitionId> ids = partitions();
  const int64_t which = step.arg("partition");
  if (which == 0 || ids.empty()) return ids;
  return {ids[static_cast<size_t>(which - 1) % ids.size()]};
}

std::vector<Row> World::read_rows_of(const PartitionId& id, int64_t since, std::optional<int64_t> until) const {
  ReadOptions options;
  options.since_exclusive = since;
  options.until = until;
  SequencedReader reader(*processes_[0].cache, id, options);
  std::vector<Row> rows;
  int64_t last = since;
  while (const auto batch = reader.next()) {
    std::vector<std::string> contents;
    append_rows(*batch->rows, reader.schema(), contents);
    for (size_t i = 0; i < contents.size(); ++i) {
      if (batch->after[i] <= last) differ("{}: number {} comes after {}", id.logical_path(), batch->after[i], last);
      last = batch->after[i];
      Row& row = rows.emplace_back();
      row.content = std::move(contents[i]);
      row.seq = last;
    }
  }
  return rows;
}

namespace {

std::vector<std::string> numbered(const std::vector<Row>& rows) {
  std::vector<std::string> texts;
  for (const Row& row : rows) texts.push_back(fmt::format("{}: {}", row.seq, row.content));
  return texts;
}

std::vector<std::string> numbered(const std::vector<const Row*>& rows) {
  std::vector<std::string> texts;
  for (const Row* row : rows) texts.push_back(fmt::format("{}: {}", row->seq, row->content));
  return texts;
}

}  // namespace

void World::check_partition(const PartitionId& id) {
  expect_equal(id.logical_path(), numbered(read_rows_of(id, kBeforeAll)), numbered(model_.partitions[id].live()));
}

void World::check_unordered(const PartitionId& id) {
  const SequencedReader columns(*processes_[0].cache, id, {});
  const auto rows = read_rows(*processes_[0].cache, id, {});
  std::vector<std::string> contents, expected;
  for (std::shared_ptr<arrow::RecordBatch> batch;;) {
    check(rows->ReadNext(&batch), "read");
    if (!batch) break;
    append_rows(*batch, columns.schema(), contents);
  }
  for (const Row* row : model_.partitions[id].live()) expected.push_back(row->content);
  expect_same(id.logical_path() + " without order", std::move(contents), std::move(expected));
}

void World::check_step(const Step& step) {
  for (const PartitionId& id : partitions_of(step)) {
    step.arg("unordered") != 0 ? check_unordered(id) : check_partition(id);
  }
}

void World::check_since(const Step& step) {
  for (const PartitionId& id : partitions_of(step)) {
    const Partition& partition = model_.partitions[id];
    if (partition.log.empty()) continue;
    const auto seq_at = [&](const char* arg) {
      return partition.log[static_cast<size_t>(step.arg(arg)) % partition.log.size()].seq;
    };
    const int64_t since = std::min(seq_at("from"), seq_at("to")), until = std::max(seq_at("from"), seq_at("to"));
    std::vector<const Row*> expected = partition.live(since);
    std::erase_if(expected, [&](const Row* row) { return row->seq > until; });
    expect_equal(fmt::format("{} in ({}, {}]", id.logical_path(), since, until),
                 numbered(read_rows_of(id, since, until)), numbered(expected));
  }
}

void World::open_reader(const Step& step) {
  const std::vector<PartitionId> ids = partitions_of(step);
  if (ids.empty() || readers_.size() >= 4) return;
  auto reader = std::make_unique<Reader>();
  reader->partition = ids.front();
  const Partition& partition = model_.partitions[ids.front()];
  const int64_t since = partition.log.empty() || step.arg("whole") != 0
                            ? kBeforeAll
                            : partition.log[static_cast<size_t>(step.arg("from")) % partition.log.size()].seq;
  for (const Row* row : partition.live(since)) {
    reader->expected.push_back(row->content);
    reader->expected_seqs.push_back(row->seq);
  }
  ReadOptions options;
  options.since_exclusive = since;
  options.batch_rows_max = 4;
  reader->rows = std::make_unique<SequencedReader>(cache(step), ids.front(), options);
  if (step.arg("begun") != 0) reader->read_batch();
  readers_.push_back(std::move(reader));
}

void World::finish_reader(const Step& step) {
  if (readers_.empty()) return;
  const auto at = readers_.begin() + step.arg("reader") % static_cast<int64_t>(readers_.size());
  const std::unique_ptr<Reader> reader = std::move(*at);
  readers_.erase(at);
  while (step.arg("dropped") == 0 && reader->read_batch()) {
  }
}

void World::query(const Step& step) {
  const auto dataset = static_cast<Dataset>(step.arg("dataset"));
  std::vector<std::string> contents, expected;
  for (const PartitionId& id : partitions()) {
    if (id.dataset != name_of(dataset)) continue;
    for (const Row* row : model_.partitions[id].live()) expected.push_back(row->content);
  }
  for (const auto& [id, lines] : model_.spools) {
    for (const Spooled& line : lines) {
      if (line.partition.dataset != name_of(dataset)) continue;
      if (!line.is_rejected && is_taken(dataset, line.line, known_of(dataset))) expected.push_back(line.line.content());
    }
  }
  if (expected.empty()) return;  // perhaps it is not there
  QueryOptions options;
  options.threads = 1;
  const auto rows = run_query(cache(step), "select * from " + name_of(dataset), options);
  std::ostringstream out;
  write_result(*rows, OutputFormat::json, out);
  std::istringstream lines(out.str());
  for (std::string line; std::getline(lines, line);) contents.push_back(canonical_row(line));
  expect_same("the query of " + name_of(dataset), std::move(contents), std::move(expected));
}

void World::check_all() {
  for (const PartitionId& id : partitions()) {
    check_partition(id);
    check_unordered(id);
  }
  for (int i = 0; i < kDatasets; ++i) look_at_rejects(static_cast<Dataset>(i));
  check_exports();
  while (!readers_.empty()) finish_reader({});
}

}  // namespace firn::hyp::model
