// What an archive table says of one stream: the property firn.offset.<stream> (P3.3, P10.7). Values only.
//
//   {"opens": {"<openId>": "<last>", …}, "forgot": "<number>", "snapshot": <id>, "sequence": <number>,
//    "skipped": [["<since>", "<until>", "<openId>"], …], "rolledBack": true}
//
// "skipped": rows (since, until] of the open that a reset passed over and that were never sent (P10.6), which a reader
// of a queryable archive takes from the cache (P13.1). Ranges of one open that touch are one; of more than
// kSkippedKept the lowest are dropped, whose rows leave the cache first. "rolledBack": the snapshot named was found out
// of main's history, by a sink or by firn's expiry of the table's snapshots (iceberg/maintain/expire_snapshots.h): what
// an expiry takes away is what would tell.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "hyp/cache/table_opens.h"
#include "hyp/sink/watermark.h"
#include "iceberg/metadata/table_metadata.h"

namespace firn::hyp {

constexpr size_t kSkippedKept = 256;

struct SkippedRows {
  int64_t since = 0, until = 0;  // (since, until]
  std::string open_id;
  auto operator<=>(const SkippedRows&) const = default;
};

struct StreamOffsets {
  std::map<std::string, int64_t> opens;  // last number of each, of the latest kOpensKept
  std::optional<int64_t> forgot;         // highest last number of those no longer kept
  std::optional<int64_t> snapshot_id;    // that brought the stream's last rows; nullopt: it had no rows yet
  int64_t sequence = 0;                  // that snapshot's
  std::vector<SkippedRows> skipped;      // ascending
  bool was_rolled_back = false;          // the snapshot was found out of main's history; false once that is settled
};

std::string offset_property(const std::string& stream);
// No opens if the table does not know the stream. Throws corrupt.
StreamOffsets read_offsets(const iceberg::TableMetadata& table, const std::string& stream);
std::string to_text(const StreamOffsets& offsets);

// Whether the rows that `offsets` tells of are no longer in main's history: a rollback keeps properties and loses rows.
// Looks no further down than its sequence number; where the history is cut above that, they are taken as there (P3.3),
// unless it was noted before that they are not.
bool is_rolled_back(const iceberg::TableMetadata& table, const StreamOffsets& offsets);

// What main still has of the stream after a rollback. Its units say in their snapshots' summaries what they brought:
// each open goes down to where it was before the units between the snapshot named and main's history, and one of which
// nothing is left is listed with the number that its rows begin behind. Where those snapshots are not all there, or are
// of opens that are no longer listed, main's history tells, down to its first snapshot. nullopt: that is cut, too, so
// it cannot be told. What a reset said stands, but for skipped rows that come again with those before them.
std::optional<StreamOffsets> offsets_in_history(const iceberg::TableMetadata& table, const std::string& stream,
                                                const StreamOffsets& offsets);

enum class UnitVerdict : uint8_t {
  take,    // the unit comes next
  landed,  // its rows are there
  refuse,  // the open's last number is another than its `since`, or cannot be trusted
};
// Throws destination_forgot naming `where`.
UnitVerdict judge(const StreamOffsets& offsets, bool rolled_back, const PendingUnit& unit, const std::string& where);

// `offsets` once the unit's rows are in. Set snapshot_id and sequence beside it.
StreamOffsets advanced(StreamOffsets offsets, const PendingUnit& unit);

// `offsets` once a reset made `last` the open's last number (P10.6). `open_since` is the open's first number less one:
// an open that ends there is no longer listed. What is passed over is skipped; what comes again no longer is.
StreamOffsets moved(StreamOffsets offsets, const std::string& open_id, int64_t open_since, int64_t last);

}  // namespace firn::hyp
