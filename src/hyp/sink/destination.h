// Where units go. Every destination keeps, per stream, the last number of each open, and takes a unit iff that number
// is the unit's `since`, or the open is new to it and the unit says `start` (P10.5).
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "hyp/config.h"
#include "hyp/sink/unit.h"

namespace firn::hyp {

// How far a destination has an open.
struct Position {
  int64_t last = 0;
  std::optional<int64_t> unit_since;  // of the unit that ends there, where the destination keeps units apart
};

struct Delivered {
  enum class Outcome : uint8_t {
    landed,         // it is there now, durable
    already_there,  // its rows were there already: an earlier attempt's, or another copy's of the cache
    refused,        // `there` is not the unit's `since`; nothing of it is there
  };
  Outcome outcome = Outcome::landed;
  int64_t rows = 0, bytes = 0;    // landed: what was written
  int64_t rows_found = 0;         // landed: of the unit's rows, those that an earlier attempt had brought
  int64_t rows_put_aside = 0;     // landed: of the unit's rows, those that can never be taken (dead_letters.h)
  std::string note;               // landed: what else a person should know; empty: nothing
  std::optional<Position> there;  // not landed: the open's position; nullopt: none that can be trusted
};

inline constexpr int64_t kParallelMax = 64;  // partitions that a run ships at once, whatever "maxParallel" says

// Thread-safe: partitions are shipped at once, each by one thread.
class Destination {
 public:
  virtual ~Destination() = default;
  // For messages: the table or folder that takes the partition's rows.
  virtual std::string describe(const PartitionId& partition) const = 0;
  // The same place has one of these, however its address is spelled; to be asked once it answered.
  virtual std::string identity(const PartitionId& partition) { return describe(partition); }
  // What the intent keeps so that a retry writes to the same place; empty: nothing.
  virtual std::string key_of(const Unit& unit) const = 0;
  // How far the destination has the unit's open; durable there. nullopt: it has nothing of it. Throws
  // destination_forgot where it cannot tell.
  virtual std::optional<Position> position(const Unit& unit) = 0;
  // The same for `confirmed`, an empty unit at the end of what was confirmed earlier: is_known is false where the
  // destination cannot tell, since it no longer keeps so old an open.
  struct Standing {
    bool is_known = true;
    std::optional<Position> there;
  };
  virtual Standing standing(const Unit& confirmed) = 0;
  // The same for each of `opens`, units of one stream that begin their opens: the destination is asked once.
  virtual std::vector<Standing> standings(const std::vector<Unit>& opens) = 0;
  // Where a unit that is about to be announced must end at the latest, if the first of its rows has this number.
  virtual int64_t unit_end_max(const Unit&, int64_t /*first*/) { return std::numeric_limits<int64_t>::max(); }
  // Sends the unit, or finds it there. Throws destination_forgot; commit_unknown or io where it may have landed: the
  // same unit is then to be delivered again.
  virtual Delivered deliver(const Unit& unit, UnitRows& rows) = 0;
  // Makes `last` the last number of the unit's open, if it is `from` now (nullopt: it has none of the open); false:
  // it is not (P10.6). A higher one skips the rows between, a lower one lets them come again; what is there stays.
  // Durable when it returns. Where the destination can only end where a unit ended, `last` is lowered to there.
  virtual bool reset(const Unit& unit, std::optional<int64_t> from, int64_t& last) = 0;
  // What reset would lower a `last` to: the highest place at or below it where the unit's open can end.
  virtual int64_t end_at_or_below(const Unit&, int64_t last) { return last; }
  // Before a reset: what is there now is from now on taken for what there is, also where a rollback took rows away.
  // The unit is one of the stream. Durable when it returns.
  virtual void trust(const Unit&) {}
  // `tell` is called with what a wait is for and how long it takes, before it begins; from several threads. Before the
  // first delivery.
  virtual void tell_waits(const std::function<void(const std::string& text)>& /*tell*/) {}
};

// Throw config for a sink that cannot be run. `cancelled`, which may be null, ends waits.
std::unique_ptr<Destination> make_destination(const Cache& cache, const SinkConfig& sink,
                                              const std::atomic<bool>* cancelled);
std::unique_ptr<Destination> make_blob_destination(const Cache& cache, const SinkConfig& sink);
std::unique_ptr<Destination> make_iceberg_destination(const Cache& cache, const SinkConfig& sink);
std::unique_ptr<Destination> make_forward_destination(const Cache& cache, const SinkConfig& sink,
                                                      const std::atomic<bool>* cancelled);

}  // namespace firn::hyp
