#include <algorithm>
#include <set>
#include <tuple>

#include "base/fault_point.h"
#include "base/log.h"
#include "base/span.h"
#include "base/uri.h"
#include "hyp/cache/cache.h"
#include "hyp/cache/flush_rows.h"
#include "hyp/cache/flush_state.h"
#include "hyp/cache/parallel.h"
#include "hyp/cache/partition_flush.h"
#include "hyp/capture/spool_committed.h"

namespace firn::hyp {
namespace {

constexpr size_t kFirstRejectedMax = 20;

// What is worked on at once: consecutive frames, with the place after them.
struct Range {
  std::vector<FrameAt> frames;
  SpoolPosition until;
  int64_t text_bytes = 0;
};

Range read_range(SpoolReader& reader, SpoolPosition end, int64_t bytes_max) {
  Range range;
  range.until = end;
  while (auto at = reader.next()) {
    range.text_bytes += static_cast<int64_t>(at->frame.text.size());
    range.frames.push_back(std::move(*at));
    if (range.text_bytes < bytes_max) continue;
    range.until = range.frames.back().end;
    break;
  }
  return range;
}

std::set<std::string> datasets_of(const Range& range) {
  std::set<std::string> datasets;
  for (const FrameAt& at : range.frames) {
    if (!at.frame.text.empty()) datasets.insert(at.frame.dataset);
  }
  return datasets;
}

// What all flushes of one spool share while it is flushed.
struct SpoolFlush {
  Cache& cache;
  Spool& spool;
  const FlushOptions& options;
  SpoolPosition end;  // of what is flushed
  std::optional<int64_t> received_commits;
  FlushState state;
  FlushReport report;
  std::set<PartitionId> partitions;                         // that took rows
  std::map<std::string, SeenColumns> columns_by_dataset{};  // of the datasets that took new columns

  DatasetConfig config_of(const std::string& dataset) const {
    DatasetConfig config = cache.dataset_config(dataset);
    config.source_column = state.routing.at(dataset);
    return config;
  }
};

// A dataset's frames go on being routed as they were when the first of them was (FlushState::routing).
void settle_routing(SpoolFlush& flush, const std::set<std::string>& datasets) {
  const FlushState before = flush.state;
  for (const std::string& dataset : datasets) {
    flush.state.routing.emplace(dataset, flush.cache.dataset_config(dataset).source_column);
  }
  if (flush.state != before) save_flush_state(flush.spool.folder(), flush.state);
}

void count_rejected(FlushReport& report, const std::string& dataset, const std::vector<RejectedRow>& rows) {
  if (rows.empty()) return;
  report.rejected += static_cast<int64_t>(rows.size());
  report.rejected_by_dataset[dataset] += static_cast<int64_t>(rows.size());
  auto& first = report.first_rejected;
  for (const RejectedRow& row : rows) {
    Rejected one{dataset, row.source, row.place.frame, row.line, row.column, row.reason};
    const auto comes_before = [](const Rejected& a, const Rejected& b) {
      return std::tie(a.frame, a.line) < std::tie(b.frame, b.line);
    };
    first.insert(std::upper_bound(first.begin(), first.end(), one, comes_before), std::move(one));
    if (first.size() > kFirstRejectedMax) first.pop_back();
  }
}

// `lines` without those that are decided already, in order.
void add_undecided(std::vector<LineRange>& ranges, const FrameAt& at, const RoutedLines& lines,
                   const std::set<LinePlace>& decided) {
  int64_t begin = lines.begin;
  for (auto place = decided.lower_bound({at.begin, lines.begin});
       place != decided.end() && place->frame == at.begin && place->line_offset < lines.end; ++place) {
    if (place->line_offset > begin) ranges.push_back({&at, begin, place->line_offset});
    const size_t newline = at.frame.text.find('\n', static_cast<size_t>(place->line_offset));
    begin = newline == std::string::npos ? lines.end : static_cast<int64_t>(newline) + 1;
  }
  if (begin < lines.end) ranges.push_back({&at, begin, lines.end});
}

// The range's undecided lines by partition. Lines whose partition cannot be told become rejects here.
std::map<PartitionId, std::vector<LineRange>> route(SpoolFlush& flush, const Range& range,
                                                    const std::set<std::string>& datasets) {
  std::map<std::string, DatasetConfig> configs;
  std::map<std::string, std::set<LinePlace>> decided;
  for (const std::string& dataset : datasets) {
    configs.emplace(dataset, flush.config_of(dataset));
    decided[dataset] = RejectsFile(flush.cache.config().cache_root, dataset)
                           .decided(flush.spool.id(), flush.spool.progress(), flush.state.rejects_bytes[dataset]);
  }
  std::vector<RoutedFrame> routed(range.frames.size());
  run_parallel(range.frames.size(), [&](size_t i) {
    const Frame& frame = range.frames[i].frame;
    if (!frame.text.empty()) routed[i] = route_lines(frame, configs.at(frame.dataset));
  });
  std::map<PartitionId, std::vector<LineRange>> work;
  std::map<std::string, std::vector<RejectedRow>> rejected;
  for (size_t i = 0; i < routed.size(); ++i) {
    const FrameAt& at = range.frames[i];
    for (const RoutedLines& lines : routed[i].lines) {
      add_undecided(work[{at.frame.dataset, lines.source}], at, lines, decided.at(at.frame.dataset));
    }
    for (RejectedRow& row : describe_rejected(at, routed[i].rejected)) {
      if (!decided.at(at.frame.dataset).contains(row.place)) rejected[at.frame.dataset].push_back(std::move(row));
    }
  }
  for (const auto& [dataset, rows] : rejected) {
    RejectsFile(flush.cache.config().cache_root, dataset).append(flush.spool.id(), rows);
    count_rejected(flush.report, dataset, rows);
  }
  return work;
}

// True if every partition has the range's rows.
bool flush_range(SpoolFlush& flush, const Range& range) {
  const std::set<std::string> datasets = datasets_of(range);
  settle_routing(flush, datasets);
  const SpoolPart part{flush.spool.id(), range.until, flush.end, flush.received_commits, flush.options.give_way};
  bool all_committed = true;
  for (const auto& [partition, lines] : route(flush, range, datasets)) {
    if (lines.empty()) continue;
    try {
      const PartitionFlushed done = flush_partition(flush.cache, flush.config_of(partition.dataset), partition, part,
                                                    lines, flush.columns_by_dataset[partition.dataset]);
      count_rejected(flush.report, partition.dataset, done.rejected);
      if (done.rows == 0) continue;
      flush.report.rows += done.rows;
      flush.report.rows_by_dataset[partition.dataset] += done.rows;
      flush.report.commits += 1;
      flush.partitions.insert(partition);
      flush.report.partitions = static_cast<int64_t>(flush.partitions.size());
    } catch (const Error& e) {
      if (dynamic_cast<const SpoolIsOlder*>(&e) != nullptr && !flush.state.older_until) {
        flush.state.older_until = flush.end;
        save_flush_state(flush.spool.folder(), flush.state);
      }
      // The others are exact by their own markers (P6.4), so they go on.
      flush.report.problems.push_back(fmt::format("{}: {}", partition.logical_path(), e.what()));
      spdlog::error("flush of {}: {}", partition.logical_path(), e.what());
      all_committed = false;
    }
  }
  return all_committed;
}

// Where the next flush begins to look for decisions in each rejects file (FlushState::rejects_bytes). Only after the
// progress is saved.
void remember_rejects(SpoolFlush& flush, const std::set<std::string>& datasets) {
  const FlushState before = flush.state;
  for (const std::string& dataset : datasets) {
    const RejectsFile file(flush.cache.config().cache_root, dataset);
    int64_t& remembered = flush.state.rejects_bytes[dataset];
    if (file.size_bytes() != remembered)
      remembered = file.length_before(flush.spool.id(), flush.spool.progress(), remembered);
  }
  if (flush.state != before) save_flush_state(flush.spool.folder(), flush.state);
}

// True if all before the end is in its partitions.
bool flush_until_end(SpoolFlush& flush) {
  if (flush.spool.progress() >= flush.end) return true;
  SpoolReader reader(flush.spool, flush.spool.progress(), flush.end);
  while (flush.spool.progress() < flush.end) {
    const Range range = read_range(reader, flush.end, flush.options.range_bytes_max);
    if (!flush_range(flush, range)) return false;
    flush.spool.advance(range.until);
    fault_point("flush.advanced");
    flush.report.bytes += range.text_bytes;
    remember_rejects(flush, datasets_of(range));
  }
  return true;
}

// Nothing is half-way in: a changed configuration may route what is spooled from now on.
void take_configured_routing(const Cache& cache, const Spool& spool, FlushState& state) {
  const FlushState before = state;
  for (auto& [dataset, column] : state.routing) column = cache.dataset_config(dataset).source_column;
  if (state != before) save_flush_state(spool.folder(), state);
}

}  // namespace

FlushReport flush(Cache& cache, Spool& spool, const FlushOptions& options) {
  Span span("hyp.flush");
  std::lock_guard guard(spool.flush_mutex());
  SpoolFlush flush{cache, spool, options, spool.end(), {}, load_flush_state(spool.folder()), {}, {}};
  if (spool.progress() < flush.end && is_receiver_spool(spool.folder())) {
    flush.received_commits = ledger_commits(spool.folder());
  }
  if (flush.state.older_until) {
    flush.end = *flush.state.older_until;
    if (!flush_until_end(flush)) return flush.report;
    flush.state.older_until.reset();
    save_flush_state(spool.folder(), flush.state);
    flush.end = spool.end();
  }
  if (!flush_until_end(flush)) return flush.report;
  take_configured_routing(cache, spool, flush.state);
  span.set("rows", flush.report.rows);
  span.set("rejected", flush.report.rejected);
  return flush.report;
}

void take_configured_routing(const Cache& cache, const Spool& spool) {
  if (spool.unflushed_bytes() > 0) return;
  FlushState state = load_flush_state(spool.folder());
  take_configured_routing(cache, spool, state);
}

}  // namespace firn::hyp
