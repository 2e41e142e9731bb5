#include "hyp/sink/reset.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstring>
#include <functional>
#include <limits>
#include <memory>

#include <arrow/array.h>

#include "base/arrow_status.h"
#include "base/fault_point.h"
#include "base/log.h"
#include "hyp/cache/legacy_rows.h"
#include "hyp/cache/table_opens.h"
#include "hyp/cache/visible_schema.h"
#include "hyp/sink/destination.h"
#include "hyp/sink/sent_numbers.h"
#include "hyp/sink/unit.h"

namespace firn::hyp {
namespace {

void for_each_number(const Cache& cache, const PartitionId& partition, const std::function<void(int64_t)>& visit) {
  const auto held = cache.hold(partition);
  if (!held) return;
  iceberg::ScanOptions scan;
  scan.columns = {kIngestSeqColumn};
  const auto rows = iceberg::scan(*held->table.metadata, held->operations->io(), scan);
  for (std::shared_ptr<arrow::RecordBatch> batch;;) {
    check(rows->ReadNext(&batch), "read sequence numbers");
    if (!batch) return;
    const auto& numbers = static_cast<const arrow::Int64Array&>(*batch->column(0));
    for (int64_t i = 0; i < numbers.length(); ++i) {
      if (numbers.IsValid(i)) visit(numbers.Value(i));
    }
  }
}

// An open that the cache has rows of, and what becomes of it.
struct OpenReset {
  OpenRange open;
  std::optional<Position> there;
  std::optional<int64_t> to;                    // its last number afterwards; nullopt: as it is
  int64_t unsent_highest = 0, unsent_rows = 0;  // above `there`, at or below the place
  int64_t sent_rows = 0;                        // at or below `there`, above where it would be lowered to
  bool has_sent_above = false;                  // at or below `there`, above the place
  int64_t lowered_to = 0;

  int64_t there_or_start() const { return there ? there->last : open.since_exclusive; }
  int64_t last() const { return to.value_or(there_or_start()); }
};

class PartitionResetter {
 public:
  PartitionResetter(Cache& cache, const SinkConfig& sink, Destination& destination, const ResetTarget& target,
                    PartitionReset& result)
      : cache_(cache),
        sink_(sink),
        destination_(destination),
        target_(target),
        result_(result),
        path_(watermark_path(cache.config().state_dir, sink.name, result.partition)),
        stream_(stream_of(cache.sequence().cache_id(), result.partition)),
        place_(destination.describe(result.partition)) {}

  void plan() {
    number_legacy_rows(cache_, result_.partition);
    load();
    find_opens();
    const bool asks = target_.to == ResetTarget::To::destination;
    if (!asks) {
      choose_place();
      choose_steps();
    }
    find_watermark();
    result_.watermark_before = watermark_.seq;
    result_.watermark_after = after_;
    result_.drops_pending = watermark_.pending.has_value();
    const PartitionId& partition = result_.partition;
    result_.rows_to_send = count_rows(cache_, partition, after_, std::nullopt).rows;
    if (asks && watermark_.seq && (!after_ || *after_ < *watermark_.seq)) {
      result_.rows_missed = count_rows(cache_, partition, after_, watermark_.seq).rows;
    }
  }

  void apply() {
    if (!opens_.empty()) destination_.trust(unit_of(opens_.back()));
    for (size_t i = opens_.size(); i-- > 0;) {  // the newest first: a sink that comes in between stops at once
      if (opens_[i].to && *opens_[i].to < opens_[i].there_or_start()) move(opens_[i]);
    }
    for (OpenReset& open : opens_) {  // the oldest first: where rows of an open are, so are those of the opens before
      if (open.to && *open.to > open.there_or_start()) move(open);
    }
    Watermark moved = watermark_;
    moved.stream = stream_;
    moved.seq = after_;
    moved.last_unit = last_unit_;
    moved.pending.reset();
    if (target_.to == ResetTarget::To::destination && !watermark_.seq && after_) {
      moved.exported_row_count = count_rows(cache_, result_.partition, std::nullopt, after_).rows;
    }
    fault_point("sink.before-reset-watermark");
    save_watermark(path_, moved);
    fault_point("sink.reset");
    note_success(cache_.config().state_dir, sink_.name, result_.partition);
    spdlog::info("{}: {} was reset from {} to {}", place_, result_.partition.logical_path(),
                 watermark_.seq ? std::to_string(*watermark_.seq) : "the start",
                 after_ ? std::to_string(*after_) : "the start");
  }

 private:
  void load() {
    try {
      watermark_ = load_watermark(path_).value_or(Watermark());
    } catch (const Error& e) {
      if (e.kind() != ErrorKind::corrupt) throw;
      result_.note = fmt::format("{}; it is written anew", e.what());
    }
    if (!watermark_.stream.empty() && watermark_.stream != stream_) watermark_ = Watermark();
  }

  // A unit of the open, from where the destination has it.
  Unit unit_of(const OpenReset& open) const {
    Unit unit{result_.partition, stream_, {}, open.open.since_exclusive, std::nullopt};
    unit.range.open_id = open.open.open_id;
    unit.range.since = open.there_or_start();
    unit.range.until = open.to.value_or(open.open.until);
    unit.range.start = !open.there;
    return unit;
  }

  void find_opens() {
    const std::vector<OpenRange> all = partition_opens(cache_, result_.partition);
    std::vector<bool> has_rows(all.size(), false);
    for_each_number(cache_, result_.partition, [&](int64_t seq) {
      newest_row_ = std::max(newest_row_.value_or(seq), seq);
      const auto open = std::lower_bound(all.begin(), all.end(), seq,
                                         [](const OpenRange& range, int64_t number) { return range.until < number; });
      if (open != all.end() && open->since_exclusive < seq) has_rows[static_cast<size_t>(open - all.begin())] = true;
    });
    for (size_t i = 0; i < all.size(); ++i) {
      if (!has_rows[i]) continue;
      OpenReset& open = opens_.emplace_back();
      open.open = all[i];
      open.there = position_of(open);
      if (open.there) {
        check_not_of_a_copy(cache_, place_, result_.partition, stream_, open.open.open_id, open.there->last);
      }
    }
    const auto held = cache_.hold(result_.partition);
    if (!opens_.empty() && held && without_hidden(held->table.metadata->schema()).fields().empty()) {
      fail(ErrorKind::invalid_argument,
           "{}: none of its rows has a column with a value yet, so nothing was or will be sent of them; reset it later",
           result_.partition.logical_path());
    }
  }

  std::optional<Position> position_of(const OpenReset& open) {
    try {
      return destination_.position(unit_of(open));
    } catch (const Error& e) {
      // A person says now what it counts as.
      if (e.kind() != ErrorKind::destination_forgot || target_.to == ResetTarget::To::destination) throw;
      return std::nullopt;
    }
  }

  void choose_place() {
    constexpr int64_t kBelowAll = std::numeric_limits<int64_t>::min();
    switch (target_.to) {
      case ResetTarget::To::start:
        place_seq_ = kBelowAll;
        break;
      case ResetTarget::To::number:
        place_seq_ = std::min(target_.seq, newest_row_.value_or(kBelowAll));
        break;
      default:
        place_seq_ = newest_row_.value_or(kBelowAll);
    }
  }

  void choose_steps() {
    for (OpenReset& open : opens_) {
      const int64_t wanted = std::clamp(place_seq_, open.open.since_exclusive, open.open.until);
      open.lowered_to = open.there && open.there->last > wanted ? destination_.end_at_or_below(unit_of(open), wanted)
                                                                : open.there_or_start();
    }
    for_each_number(cache_, result_.partition, [&](int64_t seq) {
      const auto open = std::find_if(opens_.begin(), opens_.end(), [&](const OpenReset& one) {
        return one.open.since_exclusive < seq && seq <= one.open.until;
      });
      if (open == opens_.end()) return;
      if (seq > open->there_or_start()) {
        if (seq > place_seq_) return;
        open->unsent_rows += 1;
        open->unsent_highest = open->unsent_rows == 1 ? seq : std::max(open->unsent_highest, seq);
      } else if (seq > open->lowered_to) {
        open->sent_rows += 1;
        open->has_sent_above = open->has_sent_above || seq > place_seq_;
      }
    });
    for (OpenReset& open : opens_) {
      if (open.unsent_rows > 0) {
        open.to = open.unsent_highest;
        result_.rows_skipped += open.unsent_rows;
      } else if (open.has_sent_above) {
        open.to = open.lowered_to;
        result_.rows_repeated += open.sent_rows;
      }
    }
  }

  // The newest open that the destination then has rows of tells how far the sink is.
  void find_watermark() {
    for (size_t i = opens_.size(); i-- > 0;) {
      const OpenReset& open = opens_[i];
      const int64_t since = open.open.since_exclusive, last = open.last();
      if (last <= since) continue;
      // No further than our own rows of it: numbers above them may yet be those of another open here.
      const RowCount ours = count_rows(cache_, result_.partition, since, std::min(last, open.open.until));
      const bool goes_on =
          last < open.open.until && count_rows(cache_, result_.partition, last, open.open.until).rows > 0;
      after_ = ours.highest == last || goes_on ? last : ours.highest.value_or(since);
      last_unit_ = SentUnit{open.open.open_id, std::nullopt};
      if (!open.to && after_ == last) last_unit_->since = open.there->unit_since;
      if (open.to && *open.to > open.there_or_start()) last_unit_->since = open.there_or_start();
      return;
    }
  }

  void move(OpenReset& open) {
    const std::optional<int64_t> from = open.there ? std::optional(open.there->last) : std::nullopt;
    int64_t last = *open.to;
    if (!destination_.reset(unit_of(open), from, last) || last != *open.to) {
      fail(ErrorKind::busy,
           "{}: what it has of {}, open {}, changed while the sink was being reset: another copy of this cache sends "
           "there. Look again, with --dry-run",
           place_, result_.partition.logical_path(), open.open.open_id);
    }
    note_sent(place_, stream_, open.open.open_id, last);
  }

  Cache& cache_;
  const SinkConfig& sink_;
  Destination& destination_;
  const ResetTarget& target_;
  PartitionReset& result_;
  const std::string path_, stream_, place_;
  Watermark watermark_;
  std::vector<OpenReset> opens_;  // that the cache has rows of, ascending
  std::optional<int64_t> newest_row_;
  int64_t place_seq_ = 0;
  std::optional<int64_t> after_;
  std::optional<SentUnit> last_unit_;
};

// What stops one partition stops no other.
void guarded(PartitionReset& result, const std::function<void()>& work) {
  try {
    work();
  } catch (const Error& e) {
    result.error_kind = to_string(e.kind());
    result.error = e.what();
  }
}

// Quoted where a shell would not take it as it is.
std::string shell_word(const std::string& word) {
  const auto is_plain = [](unsigned char c) { return std::isalnum(c) != 0 || (c != 0 && std::strchr("_./=-", c)); };
  if (!word.empty() && std::all_of(word.begin(), word.end(), is_plain)) return word;
  std::string quoted = "'";
  for (const char c : word) quoted += c == '\'' ? "'\\''" : std::string(1, c);
  return quoted + "'";
}

}  // namespace

ResetTarget parse_reset_target(const std::string& text) {
  if (text == "start") return {ResetTarget::To::start};
  if (text == "now") return {ResetTarget::To::now};
  if (text == "destination") return {ResetTarget::To::destination};
  ResetTarget target{ResetTarget::To::number};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), target.seq);
  if (text.empty() || error != std::errc() || end != text.data() + text.size()) {
    fail(ErrorKind::invalid_argument, "--to \"{}\": give a sequence number, start, now or destination", text);
  }
  return target;
}

bool SinkReset::failed() const {
  return std::any_of(partitions.begin(), partitions.end(),
                     [](const PartitionReset& one) { return !one.error.empty(); });
}

SinkReset reset_sink(Cache& cache, const SinkConfig& sink, const ResetTarget& target, const ResetOptions& options) {
  const std::unique_ptr<Destination> destination = make_destination(cache, sink, options.cancelled);
  std::optional<SinkReset> confirmed;
  for (;;) {
    std::optional<FileLock> lock = lock_sink(cache.config().state_dir, sink.name);
    const std::vector<PartitionId> partitions = sink_partitions(cache, sink, options.partition);
    SinkReset reset;
    reset.sink = sink.name;
    reset.partitions.resize(partitions.size());
    std::vector<std::unique_ptr<PartitionResetter>> resetters;
    for (size_t i = 0; i < partitions.size(); ++i) {
      PartitionReset& one = reset.partitions[i];
      one.partition = partitions[i];
      resetters.push_back(std::make_unique<PartitionResetter>(cache, sink, *destination, target, one));
      guarded(one, [&] { resetters.back()->plan(); });
    }
    if (options.dry_run) return reset;
    if (!options.confirm || (confirmed && confirmed->partitions == reset.partitions)) {
      for (size_t i = 0; i < partitions.size(); ++i) {
        PartitionReset& one = reset.partitions[i];
        if (one.error.empty()) guarded(one, [&] { resetters[i]->apply(); });
      }
      reset.is_done = true;
      return reset;
    }
    lock.reset();  // nobody waits for a person
    if (!options.confirm(reset)) return reset;
    confirmed = std::move(reset);
  }
}

std::string reset_command(const std::string& sink, const PartitionId& partition) {
  return fmt::format("hyp sink reset --sink {} --partition {}", shell_word(sink),
                     shell_word(partition.dataset + "/" + partition.source));
}

}  // namespace firn::hyp
