// What this process knows to have sent (P10.7): only it issues numbers of its own open, so others of them at a
// destination come from a copy of this process.
#pragma once

#include <cstdint>
#include <string>

#include "hyp/cache/cache.h"

namespace firn::hyp {

// `stream`'s rows of the open are at `place` up to `last`, by this process's doing. Thread-safe.
void note_sent(const std::string& place, const std::string& stream, const std::string& open_id, int64_t last);

// Throws already_exists if the open is this process's own and `place` has numbers of it that this process did not send.
void check_not_of_a_copy(const Cache& cache, const std::string& place, const PartitionId& partition,
                         const std::string& stream, const std::string& open_id, int64_t last);

}  // namespace firn::hyp
