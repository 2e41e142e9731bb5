#include "hyp/sink/reset.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstring>
#include <functional>
#include <limits>
#include <memory>

#include "base/civil_time.h"
#include "base/clock.h"
#include "base/fault_point.h"
#include "base/log.h"
#include "hyp/cache/legacy_rows.h"
#include "hyp/cache/table_opens.h"
#include "hyp/cache/visible_schema.h"
#include "hyp/sink/destination.h"
#include "hyp/sink/open_places.h"
#include "hyp/sink/sent_numbers.h"
#include "hyp/sink/unit.h"

namespace firn::hyp {
namespace {

// What becomes of an open.
struct OpenReset {
  std::optional<int64_t> to;                    // its last number afterwards; nullopt: as it is
  int64_t unsent_highest = 0, unsent_rows = 0;  // above its last number, at or below the place
  int64_t sent_rows = 0;                        // at or below its last number, above where it would be lowered to
  bool has_sent_above = false;                  // at or below its last number, above the place
  bool has_unsent_above = false;                // above its last number, above the place
  int64_t lowered_to = 0;
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
    if (!asks) choose_steps();
    find_watermark();
    result_.watermark_before = watermark_.seq;
    result_.watermark_after = after_;
    result_.drops_pending = watermark_.pending.has_value();
    const PartitionId& partition = result_.partition;
    result_.rows_to_send = count_rows(cache_, partition, after_, std::nullopt).rows;
    result_.is_start = count_rows(cache_, partition, std::nullopt, after_).rows == 0 || !after_;
    if (asks && watermark_.seq && (!after_ || *after_ < *watermark_.seq)) {
      result_.rows_missed = count_rows(cache_, partition, after_, watermark_.seq).rows;
      note(fmt::format(
          "of the rows with numbers {}, which were confirmed there, the cache still has {}; those that it "
          "no longer has (retention, purge) cannot be sent",
          after_ ? fmt::format("in ({}, {}]", *after_, *watermark_.seq) : fmt::format("up to {}", *watermark_.seq),
          result_.rows_missed));
    }
  }

  void apply() {
    Watermark moved = watermark_;
    moved.stream = stream_;
    moved.seq = after_;
    moved.last_unit = last_unit_;
    moved.pending.reset();
    // Retention trusts the watermark (P8): rows that are to come again must not leave as sent once they count as unsent
    // at the destination. A sink that comes in between goes forward to what is there.
    if (watermark_.seq && (!after_ || *after_ < *watermark_.seq)) {
      fault_point("sink.before-reset-lowered");
      save_watermark(path_, moved);
    }
    if (has_rows()) destination_.trust(unit_of(places_.size() - 1));
    for (size_t i = places_.size(); i-- > 0;) {  // the newest first: whatever is left is a whole beginning
      if (steps_[i].to && *steps_[i].to < places_[i].last()) move(i);
    }
    for (size_t i = 0; i < places_.size(); ++i) {  // the oldest first: where rows of an open are, so are those before
      if (steps_[i].to && *steps_[i].to > places_[i].last()) move(i);
    }
    if (target_.to == ResetTarget::To::destination && !watermark_.seq && after_) {
      moved.exported_row_count = count_rows(cache_, result_.partition, std::nullopt, after_).rows;
      moved.bytes_since = format_timestamp_ms_utc(now_ms());
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
      note(fmt::format("{}; it is written anew", e.what()));
    }
    if (!watermark_.stream.empty() && watermark_.stream != stream_) watermark_ = Watermark();
  }

  void note(const std::string& text) { result_.note += (result_.note.empty() ? "" : "; ") + text; }

  // A unit of the open, from where the destination has it.
  Unit unit_of(size_t i) const {
    Unit unit = whole_open(cache_, result_.partition, places_[i].open);
    unit.range.since = places_[i].last();
    unit.range.until = steps_[i].to.value_or(places_[i].open.until);
    unit.range.start = !places_[i].there;
    return unit;
  }

  bool has_rows() const {
    return std::any_of(places_.begin(), places_.end(), [](const OpenPlace& place) { return place.rows > 0; });
  }

  void find_opens() {
    places_ = find_open_places(cache_, result_.partition, destination_);
    steps_.resize(places_.size());
    count_open_rows(cache_, result_.partition, places_);
    for (const OpenPlace& place : places_) {
      if (place.there) {
        check_not_of_a_copy(cache_, destination_, result_.partition, stream_, place.open.open_id, place.there->last);
      }
    }
    if (!has_rows()) return;
    if (target_.to == ResetTarget::To::destination) {
      destination_.position(unit_of(places_.size() - 1));  // throws where it cannot tell; else a person says it now
    }
    const auto held = cache_.hold(result_.partition);
    if (held && without_hidden(held->table.metadata->schema()).fields().empty()) {
      fail(ErrorKind::invalid_argument,
           "{}: none of its rows has a column with a value yet, so nothing was or will be sent of them; reset it later",
           result_.partition.logical_path());
    }
  }

  // Rows at or below it count as sent.
  int64_t place() const {
    switch (target_.to) {
      case ResetTarget::To::start:
        return std::numeric_limits<int64_t>::min();
      case ResetTarget::To::number:
        break;
      default:
        return std::numeric_limits<int64_t>::max();
    }
    const int64_t first = places_.empty() ? 1 : std::min<int64_t>(1, places_.front().open.since_exclusive + 1);
    if (target_.seq < first) {
      fail(ErrorKind::invalid_argument,
           "--to {}: the first number of {} is {}; to send all that the cache has, say --to start", target_.seq,
           result_.partition.logical_path(), first);
    }
    return target_.seq;
  }

  void choose_steps() {
    const int64_t place_seq = place();
    for (size_t i = 0; i < places_.size(); ++i) {
      const OpenPlace& place = places_[i];
      const int64_t wanted = std::clamp(place_seq, place.open.since_exclusive, place.open.until);
      const bool may_be_lowered = place.there && place.there->last > wanted && place.rows > 0;
      steps_[i].lowered_to = may_be_lowered ? destination_.end_at_or_below(unit_of(i), wanted) : place.last();
    }
    for_each_number(cache_, result_.partition, [&](int64_t seq) {
      OpenPlace* place = open_of(places_, seq);
      if (place == nullptr) return;
      OpenReset& step = steps_[static_cast<size_t>(place - places_.data())];
      if (seq > place->last()) {
        if (seq > place_seq) {
          step.has_unsent_above = true;
          return;
        }
        step.unsent_rows += 1;
        step.unsent_highest = step.unsent_rows == 1 ? seq : std::max(step.unsent_highest, seq);
      } else if (seq > step.lowered_to) {
        step.sent_rows += 1;
        step.has_sent_above = step.has_sent_above || seq > place_seq;
      }
    });
    int64_t rows_forgotten = 0;
    for (size_t i = 0; i < places_.size(); ++i) {
      OpenReset& step = steps_[i];
      if (!places_[i].is_known) {
        if (step.has_unsent_above) fail_forgotten(places_[i]);
        rows_forgotten += step.unsent_rows;
      } else if (step.unsent_rows > 0) {
        step.to = step.unsent_highest;
        result_.rows_skipped += step.unsent_rows;
      } else if (step.has_sent_above) {
        step.to = step.lowered_to;
        result_.rows_repeated += step.sent_rows;
      }
    }
    if (rows_forgotten > 0) {
      note(fmt::format("{} rows are of processes that the destination no longer lists: they count as sent",
                       rows_forgotten));
    }
  }

  [[noreturn]] void fail_forgotten(const OpenPlace& place) const {
    fail(ErrorKind::destination_forgot,
         "{}: it keeps the latest {} opens of a stream, and takes no rows of open {} (up to {}) any more, which it no "
         "longer lists. Reset to a number that is not below these; or send all to another place, under another name",
         place_, kOpensKept, place.open.open_id, place.highest_row.value_or(place.open.since_exclusive));
  }

  // The newest open that the destination then has rows of tells how far the sink is.
  void find_watermark() {
    std::vector<OpenPlace> after = places_;
    for (size_t i = 0; i < after.size(); ++i) {
      OpenPlace& place = after[i];
      if (steps_[i].to) {
        std::optional<int64_t> unit_since;
        if (*steps_[i].to > place.last()) unit_since = place.last();
        place.there = Position{*steps_[i].to, unit_since};
      } else if (!place.is_known && place.highest_row && target_.to != ResetTarget::To::destination) {
        place.there = Position{*place.highest_row, std::nullopt};  // it counts as sent
      }
    }
    count_open_rows(cache_, result_.partition, after);
    const auto newest = newest_sent_open(after);
    if (!newest) return;
    const OpenPlace& place = after[*newest];
    after_ = watermark_of(place.open, place.last(), max_seq_of(cache_, result_.partition));
    last_unit_ = SentUnit{place.open.open_id, std::nullopt};
    if (after_ == place.last()) last_unit_->since = place.there->unit_since;
  }

  void move(size_t i) {
    const OpenPlace& place = places_[i];
    const std::optional<int64_t> from = place.there ? std::optional(place.there->last) : std::nullopt;
    const int64_t to = *steps_[i].to;
    int64_t last = to;
    if (!destination_.reset(unit_of(i), from, last) || last != to) {
      fail(ErrorKind::busy,
           "{}: what it has of {}, open {}, changed while the sink was being reset: another copy of this cache sends "
           "there. Look again, with --dry-run",
           place_, result_.partition.logical_path(), place.open.open_id);
    }
    note_sent(destination_, result_.partition, stream_, place.open.open_id, last);
  }

  Cache& cache_;
  const SinkConfig& sink_;
  Destination& destination_;
  const ResetTarget& target_;
  PartitionReset& result_;
  const std::string path_, stream_, place_;
  Watermark watermark_;
  std::vector<OpenPlace> places_;  // ascending
  std::vector<OpenReset> steps_;   // one each
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

void fail_if_interrupted(const ResetOptions& options) {
  if (options.cancelled != nullptr && *options.cancelled)
    fail(ErrorKind::cancelled, "interrupted; nothing was changed");
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
  if (options.waiting) destination->tell_waits(options.waiting);
  std::optional<SinkReset> confirmed;
  for (;;) {
    std::optional<FileLock> lock = lock_sink(cache.config().state_dir, sink.name, options.cancelled, options.waiting);
    fail_if_interrupted(options);
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
    fail_if_interrupted(options);
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
