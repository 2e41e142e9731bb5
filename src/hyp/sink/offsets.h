// What an archive table says of one stream: the property firn.offset.<stream> (P3.3, P10.7). Values only.
//
//   {"opens": {"<openId>": "<last>", …}, "forgot": "<number>", "snapshot": <id>, "sequence": <number>}
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "hyp/sink/watermark.h"
#include "iceberg/metadata/table_metadata.h"

namespace firn::hyp {

constexpr size_t kOpensKeptMax = 64;  // P10.7

struct StreamOffsets {
  std::map<std::string, int64_t> opens;  // last number of each, of the latest kOpensKeptMax
  std::optional<int64_t> forgot;         // highest last number of those no longer kept
  std::optional<int64_t> snapshot_id;    // that brought the stream's last rows; nullopt: it had no rows yet
  int64_t sequence = 0;                  // that snapshot's
};

std::string offset_property(const std::string& stream);
// No opens if the table does not know the stream. Throws corrupt.
StreamOffsets read_offsets(const iceberg::TableMetadata& table, const std::string& stream);
std::string to_text(const StreamOffsets& offsets);

// Whether the rows that `offsets` tells of are no longer in main's history: a rollback keeps properties and loses rows.
// Looks no further down than its sequence number; where the history is cut above that, they are taken as there.
bool is_rolled_back(const iceberg::TableMetadata& table, const StreamOffsets& offsets);

enum class UnitVerdict : uint8_t {
  take,    // the unit comes next
  landed,  // its rows are there
  refuse,  // the open's last number is another than its `since`, or cannot be trusted
};
// Throws destination_forgot naming `where`.
UnitVerdict judge(const StreamOffsets& offsets, bool rolled_back, const PendingUnit& unit, const std::string& where);

// `offsets` once the unit's rows are in. Set snapshot_id and sequence beside it.
StreamOffsets advanced(StreamOffsets offsets, const PendingUnit& unit);

}  // namespace firn::hyp
