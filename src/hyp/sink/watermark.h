// How far a sink has come in one partition, and the unit that it is about to send (spec/incremental-sink-reads.md §3,
// P10).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "hyp/cache/cache.h"
#include "iceberg/type.h"

namespace firn::hyp {

struct UnitColumn {
  std::string name;
  iceberg::TypePtr type;
};

// The intent: rows (since, until] of one open, as they were cut before anything of them was sent (P10.1).
struct PendingUnit {
  std::string open_id;
  int64_t since = 0;                    // exclusive
  int64_t until = 0;                    // inclusive: the number of the unit's last row
  bool start = false;                   // the first unit of its open: `since` is the open's first number less one
  int64_t rows = 0;                     // when it was cut
  std::string key;                      // of a blob: its object, relative to the prefix; else empty
  int64_t rows_max = 0, bytes_max = 0;  // the limits that it was cut by
  std::vector<UnitColumn> columns;      // in order; a retry leaves out columns that came since
  std::string announced_at;             // ISO 8601; empty: an intent that does not say
};

// What ends at the watermark: rows of this open, and where it is known, of the unit that begins behind `since`.
struct SentUnit {
  std::string open_id;
  std::optional<int64_t> since;
};

struct Watermark {
  std::optional<int64_t> seq;  // every row at or below it is at the destination; nullopt: nothing yet
  int64_t exported_row_count = 0;
  int64_t exported_bytes = 0;
  std::string bytes_since;  // ISO 8601: exported_bytes counts from here on, when the destination told how far the sink
                            // was; empty: from the first row on
  std::string updated_at;   // ISO 8601
  std::string shipped_at;   // ISO 8601: when a unit was last confirmed; empty: never, or a file that does not say
  std::string stream;       // P10.5; empty: a file without one, as the specification alone has it
  std::optional<SentUnit> last_unit;
  std::optional<PendingUnit> pending;
};

// <stateDir>/<sink>: a sink's own folder.
std::string sink_folder(const std::string& state_dir, const std::string& sink);
// <stateDir>/<sink>/watermarks/<dataset>/<partition-key>.json
std::string watermark_path(const std::string& state_dir, const std::string& sink, const PartitionId& partition);

// nullopt: there is none. Throws corrupt, unsupported (a later version) or io if it is there and unreadable: taking
// that for none would be safe, since the destination is asked then, but only a person knows whether the file matters.
std::optional<Watermark> load_watermark(const std::string& path);
// One atomic rename: the watermark moves and its intent goes, or neither (P10.3). Durable when it returns.
void save_watermark(const std::string& path, const Watermark& watermark);

// A sequence number as our files have it: a decimal string (spec §2), read from a JSON integer too.
int64_t get_seq(const Json& object, const char* key, std::string_view where);

}  // namespace firn::hyp
