#include "hyp/sink/partition_sink.h"

#include <algorithm>
#include <map>
#include <mutex>

#include "base/civil_time.h"
#include "base/clock.h"
#include "base/fault_point.h"
#include "base/log.h"
#include "hyp/cache/legacy_rows.h"
#include "hyp/cache/table_opens.h"
#include "hyp/cache/visible_schema.h"
#include "hyp/sink/open_places.h"
#include "hyp/sink/reset.h"
#include "hyp/sink/sent_numbers.h"
#include "hyp/sink/unit.h"
#include "hyp/sink/watermark.h"

namespace firn::hyp {
namespace {

constexpr int64_t kHeldBytesMax = 64 << 20;  // of rows, in all partitions that a run ships at once

// What a look at a partition would find unchanged: its head, and how far the sink has come.
struct Look {
  std::string location;  // of the generation
  std::optional<int64_t> snapshot_id;
  std::optional<int64_t> seq;
  bool operator==(const Look&) const = default;
};

// Where a run of this process found nothing new, by watermark file: the next one need not plan a read.
class QuietPartitions {
 public:
  void note(const std::string& watermark, const Look& look) {
    std::lock_guard guard(mutex_);
    looks_[watermark] = look;
  }
  bool knows(const std::string& watermark, const Look& look) {
    std::lock_guard guard(mutex_);
    const auto known = looks_.find(watermark);
    return known != looks_.end() && known->second == look;
  }

 private:
  std::mutex mutex_;
  std::map<std::string, Look> looks_;
};

QuietPartitions& quiet_partitions() {
  static QuietPartitions partitions;
  return partitions;
}

class PartitionSink {
 public:
  PartitionSink(Cache& cache, const SinkConfig& sink, const SinkRunOptions& options, Destination& destination,
                PartitionRun& run)
      : cache_(cache),
        sink_(sink),
        options_(options),
        destination_(destination),
        run_(run),
        path_(watermark_path(cache.config().state_dir, sink.name, run.partition)),
        stream_(stream_of(cache.sequence().cache_id(), run.partition)),
        place_(destination.describe(run.partition)) {}

  void run() {
    load();
    if (is_quiet()) return;
    number_legacy_rows(cache_, run_.partition);  // before anybody asks which opens the partition has
    if (is_lost_) find_lost_watermark();
    check_confirmed(partition_opens(cache_, run_.partition));
    if (watermark_.pending) settle_pending();
    const UnitLimits limits{sink_.unit_rows_max, sink_.unit_bytes_max,
                            kHeldBytesMax / std::clamp<int64_t>(sink_.parallel_max, 1, kParallelMax)};
    while (!is_cancelled()) {
      const Look before = look();
      std::optional<CutUnit> next = cut_unit(cache_, run_.partition, watermark_, limits, options_.counters);
      if (next) {
        UnitLimits shorter = limits;
        shorter.until = destination_.unit_end_max(next->unit, next->first);
        if (*shorter.until < next->unit.range.until) {
          next = cut_unit(cache_, run_.partition, watermark_, shorter, options_.counters);
          if (!next) continue;  // its rows left meanwhile
        }
      }
      if (!next) {
        note_waiting();
        if (run_.note.empty() && watermark_.seq) quiet_partitions().note(path_, before);
        return;
      }
      // A watermark may have been lost, and the first unit of an open is where that shows; later ones are refused
      // (P10.5).
      if (next->unit.range.start) {
        if (const auto there = destination_.position(next->unit); there && there->last > next->unit.range.since) {
          go_forward(next->unit, *there);
          continue;
        }
      }
      if (announce(*next, before)) send(next->unit, next->rows);
    }
  }

 private:
  bool is_cancelled() const { return options_.cancelled != nullptr && *options_.cancelled; }

  Look look() const { return look_at(cache_.hold(run_.partition)); }
  Look look_at(const std::optional<HeldTable>& held) const {
    if (!held) return {"", std::nullopt, watermark_.seq};
    return {held->operations->location(), held->table.metadata->current_snapshot_id, watermark_.seq};
  }

  // Nothing came since a run of this process found nothing new: that costs the watermark, the cursor and the metadata,
  // and a look whether the destination still has what it confirmed.
  bool is_quiet() {
    if (watermark_.pending || !watermark_.seq) return false;
    const auto held = cache_.hold(run_.partition);
    if (!held || !quiet_partitions().knows(path_, look_at(held))) return false;
    check_confirmed(table_opens(*held->table.metadata, cache_.sequence().opens()));
    return true;
  }

  void load() {
    watermark_ = load_watermark(path_).value_or(Watermark());
    if (!watermark_.stream.empty() && watermark_.stream != stream_) {
      // Its numbers say nothing about this cache's rows. What is at the destination is another stream there, too.
      spdlog::warn("{} is of stream {}; this cache is {}: the sink begins anew", path_, watermark_.stream, stream_);
      watermark_ = Watermark();
    }
    is_confirmed_here_ = !watermark_.stream.empty();
    is_lost_ = !watermark_.seq && !watermark_.pending && !is_confirmed_here_;  // else a reset set it to the start
    watermark_.stream = stream_;
    run_.watermark = watermark_.seq;
  }

  // The destination may have rows all the same.
  void find_lost_watermark() {
    const auto newest = newest_sent();
    if (!newest) return;
    go_forward(whole_open(cache_, run_.partition, newest->open), *newest->there);
    watermark_.exported_row_count = count_rows(cache_, run_.partition, std::nullopt, watermark_.seq).rows;
    watermark_.bytes_since = format_timestamp_ms_utc(now_ms());
    save();
  }

  // What a sink without a watermark goes on from.
  std::optional<OpenPlace> newest_sent() const {
    std::vector<OpenPlace> places = find_open_places(cache_, run_.partition, destination_);
    const auto has_some = [](const OpenPlace& place) { return place.there.has_value(); };
    if (std::none_of(places.begin(), places.end(), has_some)) return std::nullopt;
    count_open_rows(cache_, run_.partition, places);
    const auto newest = newest_sent_open(places);
    return newest ? std::optional(places[*newest]) : std::nullopt;
  }

  // What was confirmed must still be there (P10.6). The first unit of an open would not show it: each process that
  // captures begins one, and a destination that was made anew takes it.
  void check_confirmed(const std::vector<OpenRange>& opens) {
    if (!watermark_.seq || !is_confirmed_here_) return;
    Unit confirmed{run_.partition, stream_, {}, std::nullopt, watermark_.last_unit};
    confirmed.range.since = confirmed.range.until = *watermark_.seq;
    if (watermark_.last_unit) confirmed.range.open_id = watermark_.last_unit->open_id;
    for (const OpenRange& open : opens) {
      const bool is_it = watermark_.last_unit ? open.open_id == confirmed.range.open_id
                                              : open.since_exclusive < *watermark_.seq && *watermark_.seq <= open.until;
      if (!is_it) continue;
      confirmed.range.open_id = open.open_id;
      confirmed.open_since = open.since_exclusive;
    }
    if (confirmed.range.open_id.empty()) return;  // a watermark of old, of an open that the cache no longer lists
    const Destination::Standing standing = destination_.standing(confirmed);
    if (!standing.is_known || (standing.there && standing.there->last >= *watermark_.seq)) return;
    fail_behind(confirmed, standing.there);
  }

  // Rows without any column are nothing that could be sent.
  void note_waiting() {
    const auto held = cache_.hold(run_.partition);
    if (!held || !without_hidden(held->table.metadata->schema()).fields().empty()) return;
    const int64_t rows = count_rows(cache_, run_.partition, watermark_.seq, std::nullopt).rows;
    if (rows > 0) run_.note = fmt::format("{} rows wait: none of them has a column with a value yet", rows);
  }

  // P10.4: what an earlier attempt announced is sent again or found there, and nothing beside it.
  void settle_pending() {
    const Unit unit = pending_unit(cache_, run_.partition, watermark_);
    spdlog::info("sink {}: {}: settling rows ({}, {}] of an earlier run", sink_.name, run_.partition.logical_path(),
                 unit.range.since, unit.range.until);
    UnitRows rows(cache_, run_.partition, unit.range, options_.counters);
    is_settling_ = true;
    send(unit, rows);
    is_settling_ = false;
  }

  // The intent, durable before anything is sent (P10.1). What it announces is what a retry would send: rows that left
  // since they were read are left out, for only the intent makes the others stay (P8). False: none is left.
  bool announce(CutUnit& next, const Look& before) {
    PendingUnit& range = next.unit.range;
    range.key = destination_.key_of(next.unit);
    range.announced_at = format_timestamp_ms_utc(now_ms());
    fault_point("sink.before-intent");
    const FileLock partition_lock = cache_.lock(run_.partition);
    if (look() != before) {
      const int64_t rows = count_rows(cache_, run_.partition, range.since, range.until).rows;
      if (rows == 0) return false;
      if (rows != range.rows) next.rows = UnitRows(cache_, run_.partition, range, options_.counters);
      range.rows = rows;
    }
    watermark_.pending = range;
    save();
    fault_point("sink.intent-written");
    return true;
  }

  void send(const Unit& unit, UnitRows& rows) {
    const Delivered delivered = destination_.deliver(unit, rows);
    switch (delivered.outcome) {
      case Delivered::Outcome::landed:
        run_.units += 1;
        run_.rows += delivered.rows;
        run_.bytes += delivered.bytes;
        watermark_.exported_bytes += delivered.bytes;
        run_.rows_put_aside += delivered.rows_put_aside;
        if (!delivered.note.empty()) run_.note = delivered.note;
        move_to(unit, unit.range.until, unit.range.since, delivered.rows + delivered.rows_found);
        break;
      case Delivered::Outcome::already_there:
        check_not_a_copy(unit, delivered.there);
        run_.recognised_units += 1;
        move_to(unit, unit.range.until, unit.range.since, unit.range.rows);
        break;
      case Delivered::Outcome::refused:
        if (!delivered.there || delivered.there->last <= unit.range.since) fail_behind(unit, delivered.there);
        go_forward(unit, *delivered.there);
        return;
    }
    note_sent(destination_, run_.partition, stream_, unit.range.open_id, unit.range.until);
    if (options_.progress) options_.progress(run_.partition, unit.range.rows);
  }

  // The watermark and the end of the intent in one rename (P10.3).
  void move_to(const Unit& unit, int64_t seq, std::optional<int64_t> unit_since, int64_t rows) {
    watermark_.seq = std::max(seq, watermark_.seq.value_or(seq));
    watermark_.exported_row_count += rows;
    watermark_.last_unit = {unit.range.open_id, unit_since};
    watermark_.pending.reset();
    watermark_.shipped_at = format_timestamp_ms_utc(now_ms());
    fault_point("sink.before-watermark");
    save();
    fault_point("sink.watermark-moved");
    run_.watermark = watermark_.seq;
  }

  void save() { save_watermark(path_, watermark_); }

  // The destination has more of the open than we knew (P10.6): a lost watermark, a restored backup, a copy of the
  // cache.
  void go_forward(const Unit& unit, const Position& there) {
    check_not_a_copy(unit, there);
    const OpenRange open = open_of(unit);
    const int64_t seq =
        watermark_of({open.open_id, unit.range.since, open.until}, there.last, max_seq_of(cache_, run_.partition));
    const RowCount ours = count_rows(cache_, run_.partition, unit.range.since, std::min(seq, there.last));
    spdlog::warn("sink {}: {} has rows of {} up to {} already; going forward from {} to {}", sink_.name, place_,
                 run_.partition.logical_path(), there.last, unit.range.since, seq);
    run_.recognised_units += 1;
    move_to(unit, seq, seq == there.last ? there.unit_since : std::nullopt, ours.rows);
  }

  // As far as the cache still lists it.
  OpenRange open_of(const Unit& unit) const {
    for (OpenRange& open : partition_opens(cache_, run_.partition)) {
      if (open.open_id == unit.range.open_id) return std::move(open);
    }
    return {unit.range.open_id, unit.range.since, unit.range.until};
  }

  void check_not_a_copy(const Unit& unit, const std::optional<Position>& there) const {
    if (is_settling_ || !there) return;
    check_not_of_a_copy(cache_, destination_, run_.partition, stream_, unit.range.open_id, there->last);
  }

  // How far the destination is, if it can tell.
  std::optional<int64_t> last_known() const {
    try {
      const auto newest = newest_sent();
      return newest ? std::optional(newest->last()) : std::nullopt;
    } catch (const Error&) {  // another error is being told
      return std::nullopt;
    }
  }

  // P10.6: less than was confirmed.
  [[noreturn]] void fail_behind(const Unit& unit, const std::optional<Position>& there) const {
    const std::optional<int64_t> from = there ? std::optional(there->last) : last_known();
    const RowCount lost = count_rows(cache_, run_.partition, from, watermark_.seq);
    const RowCount after = count_rows(cache_, run_.partition, watermark_.seq, std::nullopt);
    const auto numbers = [](const RowCount& count) {
      return count.lowest ? fmt::format("{} (numbers {} to {})", count.rows, *count.lowest, *count.highest)
                          : std::to_string(count.rows);
    };
    const int64_t confirmed = watermark_.seq.value_or(unit.range.since);
    const std::string command = reset_command(sink_.name, run_.partition);
    const std::string found = fmt::format(
        "{}: of {}, open {}, {}, but rows up to {} were confirmed there: it was {}. Nothing is sent, so that no row is "
        "missed or doubled. Of the rows that it lacks the cache still has {}, and {} that were not sent yet",
        place_, run_.partition.logical_path(), unit.range.open_id,
        there ? fmt::format("it has rows up to {}", there->last) : "it has no rows that can be trusted", confirmed,
        sink_.kind == SinkKind::forward ? "restored from a backup, or lost its ledger"
                                        : "removed, rolled back, restored or made anew",
        numbers(lost), numbers(after));
    if (sink_.kind == SinkKind::forward) {
      // Its tables are not its ledger: rows that it flushed before may be in them all the same.
      fail(ErrorKind::destination_behind,
           "{}. Look there first: its tables may have rows that its ledger does not know; a `hyp query` of {} on the "
           "receiver, of this gateway's rows alone, shows them. If they are not there, `{} --to destination` goes on "
           "from what its ledger has, and sends both. If they are, they would be there twice: `--to {}` counts all "
           "that was confirmed as sent, and `--to NUMBER` what is in its tables",
           found, run_.partition.dataset, command, confirmed);
    }
    fail(ErrorKind::destination_behind,
         "{}. `{} --to destination` goes on from what is there, and sends both; to send all that the cache has to an "
         "empty place, give the sink another name and another path",
         found, command);
  }

  Cache& cache_;
  const SinkConfig& sink_;
  const SinkRunOptions& options_;
  Destination& destination_;
  PartitionRun& run_;
  const std::string path_, stream_, place_;
  Watermark watermark_;
  bool is_confirmed_here_ = false;  // the watermark names its stream: another system's file says nothing of our offsets
  bool is_lost_ = false;            // there is no watermark, and no reset said so
  bool is_settling_ = false;        // the unit at hand is of an earlier run's intent
};

}  // namespace

void run_partition(Cache& cache, const SinkConfig& sink, const SinkRunOptions& options, Destination& destination,
                   PartitionRun& run) {
  PartitionSink(cache, sink, options, destination, run).run();
}

}  // namespace firn::hyp
