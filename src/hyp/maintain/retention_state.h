// What a cache table remembers of its retention, in properties that are set with the commit they tell of. Values only.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "hyp/maintain/sink_positions.h"
#include "iceberg/metadata/table_metadata.h"

namespace firn::hyp {

inline constexpr const char* kRetentionProperty = "firn.retention";   // RetentionState as JSON
inline constexpr const char* kForcedOutProperty = "firn.forced-out";  // {"<sink>": rows} that left before it had them

using RowsBySink = std::map<std::string, int64_t>;

// Rows' numbers from the lowest to the highest. Rows without a number are taken as the lowest of all.
struct NumberRange {
  int64_t lowest = 0, highest = 0;  // inclusive
  bool operator==(const NumberRange&) const = default;
};

// Up to which age the table's rows were looked at, and what was left of those past it.
struct RetentionState {
  std::string table_uuid;  // of the table that was looked at: numbers of another say nothing
  int64_t sequence = 0;    // files added with it or before were looked at
  std::string age;         // RowAge::text()
  bool waits_for_sinks = false;
  // Older rows go; of those that wait, older ones that came before arrival_cutoff_ms.
  int64_t cutoff_ms = 0, grace_cutoff_ms = 0, arrival_cutoff_ms = 0;
  std::string positions;               // of the sinks: positions_text()
  RowsBySink rows_waiting;             // past their age, and kept for this sink
  std::optional<NumberRange> waiting;  // of such rows

  // Whether both looked for the same rows in the same table, whatever the sinks' positions.
  bool is_same_look(const RetentionState& other) const;
};

// nullopt: the table was not looked at, or what it says of it cannot be read.
std::optional<RetentionState> read_retention_state(const iceberg::TableMetadata& metadata);
std::string to_text(const RetentionState& state);

// Equal where the positions are.
std::string positions_text(const std::vector<SinkPosition>& positions);

// Throws corrupt naming table and property.
RowsBySink rows_forced_out(const iceberg::TableMetadata& metadata);
std::string forced_out_text(const RowsBySink& rows);

}  // namespace firn::hyp
