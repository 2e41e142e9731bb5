// What removes rows, and what must leave them as they are.
#include <algorithm>
#include <filesystem>
#include <set>
#include <utility>

#include <parquet/arrow/reader.h>

#include "base/arrow_status.h"
#include "base/civil_time.h"
#include "hyp/cache/generations.h"
#include "hyp/maintain/compaction.h"
#include "hyp/maintain/maintain.h"
#include "hyp/maintain/purge.h"
#include "hyp/maintain/retention.h"
#include "hyp/model/world/world.h"
#include "hyp/sink/watermark.h"

namespace firn::hyp::model {
namespace {

namespace fs = std::filesystem;

using Counts = std::map<std::string, int64_t>;

void add(Counts& counts, const std::string& sink, int64_t rows) {
  if (rows > 0) counts[sink] += rows;
}

std::string to_text(const Counts& counts) {
  std::string text;
  for (const auto& [sink, rows] : counts) text += fmt::format("{}: {} ", sink, rows);
  return text;
}

void expect_counts(const std::string& what, const Counts& found, const Counts& expected) {
  if (found != expected) differ("{}: {}where {}should be", what, to_text(found), to_text(expected));
}

}  // namespace

// How far the sinks of a partition's dataset are, from their files.
struct World::Positions {
  std::map<std::string, std::optional<int64_t>> passed;
  std::map<std::string, std::pair<int64_t, int64_t>> pending;

  bool lacks(const std::string& sink, int64_t seq) const {
    const auto& last = passed.at(sink);
    return !last || seq > *last;
  }
  bool has_announced(const std::string& sink, int64_t seq) const {
    const auto found = pending.find(sink);
    return found != pending.end() && seq > found->second.first && seq <= found->second.second;
  }
  bool is_announced(int64_t seq) const {
    return std::any_of(passed.begin(), passed.end(), [&](const auto& one) { return has_announced(one.first, seq); });
  }
};

World::Positions World::positions_of(const PartitionId& id) const {
  Positions positions;
  for (const SinkConfig& sink : config_.sinks) {
    if (!sink.datasets.empty() &&
        std::find(sink.datasets.begin(), sink.datasets.end(), id.dataset) == sink.datasets.end())
      continue;
    auto& passed = positions.passed[sink.name];
    const auto watermark = load_watermark(watermark_path(config_.state_dir, sink.name, id));
    if (!watermark) continue;
    passed = watermark->seq;
    if (watermark->pending) positions.pending[sink.name] = {watermark->pending->since, watermark->pending->until};
  }
  return positions;
}

// The rows that retention takes now, and what it is to report.
std::vector<Row*> World::overdue(const PartitionId& id, const Positions& positions, RetentionReport& expected) {
  const RetentionConfig retention = config_.datasets.at(id.dataset).retention;
  const int64_t cutoff_ms = floor_div(clock_ms_ - *retention.days * kDayMs, kHourMs) * kHourMs;
  const int64_t grace_cutoff_ms = cutoff_ms - retention.grace_days * kDayMs;
  const int64_t arrival_cutoff_ms = floor_div(clock_ms_ - retention.grace_days * kDayMs, kHourMs) * kHourMs;
  expected.cutoff_ms = cutoff_ms;
  std::vector<Row*> rows;
  for (Row& row : model_.partitions[id].log) {
    if (!row.is_live || row.age_from_ms >= cutoff_ms) continue;
    const bool is_past_grace = row.age_from_ms < grace_cutoff_ms && row.arrived_ms < arrival_cutoff_ms;
    bool stays = false;
    for (const auto& [sink, passed] : positions.passed) {
      const bool waits =
          (retention.wait_for_sink_ack && positions.lacks(sink, row.seq)) || positions.has_announced(sink, row.seq);
      stays = stays || (waits && !is_past_grace);
    }
    for (const auto& [sink, passed] : positions.passed) {
      const bool waits =
          (retention.wait_for_sink_ack && positions.lacks(sink, row.seq)) || positions.has_announced(sink, row.seq);
      if (stays) add(expected.rows_waiting, sink, waits ? 1 : 0);
      if (!stays) add(expected.rows_forced_out, sink, positions.lacks(sink, row.seq) ? 1 : 0);
    }
    if (!stays) rows.push_back(&row);
  }
  expected.rows_removed = static_cast<int64_t>(rows.size());
  return rows;
}

// The rows that a compaction leaves out: equal to an earlier one, and not announced.
std::vector<Row*> World::duplicates(const PartitionId& id, const Positions& positions) {
  std::vector<Row*> rows;
  if (!config_.datasets.at(id.dataset).dedupe_content) return rows;
  std::set<std::string_view> seen;
  for (Row& row : model_.partitions[id].log) {
    if (!row.is_live || seen.insert(row.content).second) continue;
    if (!positions.is_announced(row.seq)) rows.push_back(&row);
  }
  return rows;
}

// The partition must be as one of the outcomes says: each lists the rows that are gone. The first that fits is taken.
size_t World::settle_removal(const PartitionId& id, const std::vector<std::vector<Row*>>& outcomes) {
  if (outcomes.size() > 1) make_durable(processes_[0].cache->folder(id));
  Partition& partition = model_.partitions[id];
  const std::vector<Row> found = read_rows_of(id, kBeforeAll);
  std::string problem;
  for (size_t i = 0; i < outcomes.size(); ++i) {
    for (Row* row : outcomes[i]) row->is_live = false;
    const std::vector<const Row*> live = partition.live();
    const bool fits = std::equal(found.begin(), found.end(), live.begin(), live.end(),
                                 [](const Row& a, const Row* b) { return a.seq == b->seq && a.content == b->content; });
    if (fits) return i;
    std::vector<int64_t> missing, more;
    std::set<int64_t> is, should_be;
    for (const Row& row : found) is.insert(row.seq);
    for (const Row* row : live) should_be.insert(row->seq);
    std::set_difference(should_be.begin(), should_be.end(), is.begin(), is.end(), std::back_inserter(missing));
    std::set_difference(is.begin(), is.end(), should_be.begin(), should_be.end(), std::back_inserter(more));
    problem += fmt::format("; outcome {}: {} rows missing (from {}), {} too many (from {})", i, missing.size(),
                           missing.empty() ? 0 : missing[0], more.size(), more.empty() ? 0 : more[0]);
    for (Row* row : outcomes[i]) row->is_live = true;
  }
  differ("{}: {} rows are there{}", id.logical_path(), found.size(), problem);
}

void World::retain(const Step& step) {
  for (const PartitionId& id : partitions_of(step)) {
    const Positions positions = positions_of(id);
    RetentionReport report, expected;
    const std::vector<Row*> rows = overdue(id, positions, expected);
    const bool is_done = survives(step, [&] { report = apply_retention(cache(step), id, clock_ms_); });
    if (!is_done) {
      settle_removal(id, {{}, rows});
      return;
    }
    if (!rows.empty()) settle_removal(id, {rows});
    const std::string name = "retention of " + id.logical_path();
    if (report.cutoff_ms != expected.cutoff_ms && !model_.partitions[id].log.empty()) {
      differ("{}: the cutoff is {} where {} should be", name, report.cutoff_ms.value_or(0), *expected.cutoff_ms);
    }
    if (report.rows_removed != expected.rows_removed) {
      differ("{}: {} rows are reported removed where {} should be", name, report.rows_removed, expected.rows_removed);
    }
    expect_counts(name + ", forced out", report.rows_forced_out, expected.rows_forced_out);
    expect_counts(name + ", waiting", report.rows_waiting, expected.rows_waiting);
  }
}

void World::compact(const Step& step) {
  if (is_compacting_) return;
  for (const PartitionId& id : partitions_of(step)) {
    std::vector<Row*> rows = duplicates(id, positions_of(id));
    CompactionReport report;
    is_compacting_ = true;
    const bool is_done = survives(step, [&] { report = compact_partition(cache(step), id); });
    is_compacting_ = false;
    // Others may have announced some of them meanwhile, which then stay, or have removed them.
    const Positions positions = positions_of(id);
    std::erase_if(rows, [&](const Row* row) { return positions.is_announced(row->seq); });
    const auto num_dropped = static_cast<int64_t>(rows.size());
    std::erase_if(rows, [](const Row* row) { return !row->is_live; });
    if (!is_done) {
      settle_removal(id, {{}, rows});
      return;
    }
    if (!report.swapped && !rows.empty()) differ("{}: duplicates stay, since {}", id.logical_path(), report.note);
    if (report.swapped) settle_removal(id, {rows});
    if (report.duplicates_dropped != num_dropped) {
      differ("{}: {} duplicates are reported where {} should be", id.logical_path(), report.duplicates_dropped,
             num_dropped);
    }
  }
}

void World::sweep(const Step& step) {
  const Sweep how = step.arg("all") != 0 ? Sweep::all : Sweep::when_due;
  for (const PartitionId& id : partitions_of(step)) {
    const bool is_done = survives(step, [&] { sweep_partition(cache(step), id, how); });
    if (!is_done) {
      check_partition(id);
      return;
    }
    if (how == Sweep::all && is_unread()) check_no_leftovers(id);
  }
}

// Of a partition that was swept while nobody read: one generation, with one snapshot and nothing that it does not name.
void World::check_no_leftovers(const PartitionId& id) const {
  const auto held = processes_[0].cache->hold(id);
  if (!held) return;
  for (const auto& entry : fs::directory_iterator(processes_[0].cache->folder(id))) {
    if (entry.is_directory() && entry.path() != held->operations->location()) {
      differ("{} is left after a sweep", entry.path().string());
    }
  }
  const iceberg::TableMetadata& metadata = *held->table.metadata;
  if (metadata.snapshots.size() > 1) differ("{}: {} snapshots are left", id.logical_path(), metadata.snapshots.size());
  std::set<std::string> named;
  if (const auto* snapshot = metadata.current_snapshot()) {
    for (const auto& live : iceberg::live_files(metadata, *snapshot, *held->operations->io())) {
      named.insert(live.file.file_path);
    }
  }
  for (const FileInfo& file : make_local_file_io()->list(held->operations->location() + "/data", true)) {
    if (!named.contains(file.path)) differ("{} is left after a sweep, and the head does not name it", file.path);
  }
}

void World::maintain_step(const Step& step) {
  if (is_compacting_) return;
  struct Before {
    RetentionReport retention;
    std::vector<std::vector<Row*>> outcomes;  // most removed first: retention and compaction, retention, neither
  };
  std::map<PartitionId, Before> all;
  for (const PartitionId& id : partitions()) {
    const Positions positions = positions_of(id);
    Before& before = all[id];
    std::vector<Row*> gone = overdue(id, positions, before.retention);
    for (Row* row : gone) row->is_live = false;
    const std::vector<Row*> equal = duplicates(id, positions);
    for (Row* row : gone) row->is_live = true;
    std::vector<Row*> both = gone;
    both.insert(both.end(), equal.begin(), equal.end());
    before.outcomes = {std::move(both), std::move(gone)};
  }
  MaintainReport report;
  const bool is_done = survives(step, [&] { report = maintain(cache(step)); });
  if (is_done && !report.problems.empty()) differ("upkeep: {}", report.problems.front());
  for (auto& [id, before] : all) {
    if (!is_done) before.outcomes.push_back({});
    settle_removal(id, before.outcomes);
  }
  if (!is_done) return;
  // Where nothing came since, there is nothing to do.
  const MaintainReport again = maintain(cache(step));
  if (!again.problems.empty()) differ("upkeep again: {}", again.problems.front());
  for (const CompactionReport& one : again.compaction) {
    differ("{} is compacted again at once: {} files to {}", one.partition.logical_path(), one.files_before,
           one.files_after);
  }
  for (const RetentionReport& one : again.retention) {
    if (one.rows_removed > 0)
      differ("{}: {} rows go with a second upkeep", one.partition.logical_path(), one.rows_removed);
  }
}

void World::purge_step(const Step& step) {
  if (is_compacting_) return;  // it would wait
  const std::string& dataset = name_of(static_cast<Dataset>(step.arg("dataset")));
  const int64_t k = step.arg("k");
  for (Process& process : processes_) {
    if (!flush_spool(step, process)) return;
  }
  if (cache(step).partitions(dataset).empty()) return;
  std::map<PartitionId, std::vector<Row*>> doomed;
  PurgeReport expected;
  for (const PartitionId& id : cache(step).partitions(dataset)) {
    const Positions positions = positions_of(id);
    for (Row& row : model_.partitions[id].log) {
      if (!row.is_live || row.k != k) continue;
      doomed[id].push_back(&row);
      ++expected.rows;
      for (const auto& [sink, passed] : positions.passed) {
        const bool is_sent = !positions.lacks(sink, row.seq);
        add(expected.sent_rows, sink, is_sent ? 1 : 0);
        const bool is_running = running_sink_ != nullptr && running_sink_->name == sink;
        add(expected.maybe_sent_rows, sink, !is_sent && (is_running || positions.has_announced(sink, row.seq)) ? 1 : 0);
      }
    }
  }
  PurgeReport report;
  const auto where = iceberg::predicate(iceberg::Op::eq, "k", {k});
  const bool is_done = survives(step, [&] { report = purge(cache(step), dataset, where); });
  for (const auto& [id, rows] : doomed) {
    is_done ? settle_removal(id, {rows}) : settle_removal(id, {rows, {}});
  }
  if (!is_done) return;
  if (!report.problems.empty()) differ("purge: {}", report.problems.front());
  if (report.rows != expected.rows) differ("purge: {} rows reported, not {}", report.rows, expected.rows);
  expect_counts("purge: sent", report.sent_rows, expected.sent_rows);
  expect_counts("purge: under way", report.maybe_sent_rows, expected.maybe_sent_rows);
  if (is_unread()) {
    if (!report.waiting.empty()) differ("purge: it waits although nobody reads: {}", report.waiting.front());
    if (step.arg("look") != 0) check_purged(dataset, k);
  }
}

// No file of the dataset has such a row.
void World::check_purged(const std::string& dataset, int64_t k) const {
  for (const FileInfo& file : make_local_file_io()->list(config_.cache_root + "/datasets/" + dataset, true)) {
    if (!file.path.ends_with(".parquet")) continue;
    std::unique_ptr<parquet::arrow::FileReader> reader =
        check(parquet::arrow::OpenFile(make_local_file_io()->open(file.path), arrow::default_memory_pool()), file.path);
    const auto table = check(reader->ReadTable(), file.path);
    const auto column = table->GetColumnByName("k");
    if (!column) continue;
    for (const auto& chunk : column->chunks()) {
      const auto& numbers = static_cast<const arrow::Int64Array&>(*chunk);
      for (int64_t i = 0; i < numbers.length(); ++i) {
        if (numbers.IsValid(i) && numbers.Value(i) == k) differ("{} has a purged row (k = {})", file.path, k);
      }
    }
  }
}

}  // namespace firn::hyp::model
