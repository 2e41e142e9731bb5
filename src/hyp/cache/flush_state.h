// What a spool's flushes must remember across processes, beside the markers in the tables.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "hyp/capture/spool.h"

namespace firn::hyp {

// <spool folder>/flush.json: {v, routing, rejects, older_until?}. It goes with the spool.
struct FlushState {
  // The sourceColumn (or "") by which each dataset's frames are routed. A range may be committed in some partitions
  // only; if its rows went elsewhere the next time, they would arrive twice. So a change of configuration waits until
  // all that was spooled before it is flushed: it is taken where a flush leaves nothing, and where a process opens a
  // spool that has nothing (take_configured_routing).
  std::map<std::string, std::string> routing;
  // Of each dataset's rejects file, the length before which no line of this spool at or past its progress lies.
  std::map<std::string, int64_t> rejects_bytes;
  // Where the spool ended when a table was seen to have more of it (SpoolIsOlder). Frames before it may lie below that
  // table's marker and be new all the same, so nothing past it is flushed, whatever the clock says of later segments,
  // until all before it is.
  std::optional<SpoolPosition> older_until;

  bool operator==(const FlushState&) const = default;
};

FlushState load_flush_state(const std::string& spool_folder);  // empty if absent; throws corrupt, io
void save_flush_state(const std::string& spool_folder, const FlushState& state);

}  // namespace firn::hyp
