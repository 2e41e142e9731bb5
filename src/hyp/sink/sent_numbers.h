// What this process knows to have sent (P10.7): only it issues numbers of its own open, so others of them at a
// destination come from a copy of this process.
#pragma once

#include <cstdint>
#include <string>

#include "hyp/cache/cache.h"
#include "hyp/sink/destination.h"

namespace firn::hyp {

// `stream`'s rows of the open are at the destination up to `last`, by this process's doing. Thread-safe.
void note_sent(Destination& destination, const PartitionId& partition, const std::string& stream,
               const std::string& open_id, int64_t last);

// Throws already_exists if the open is this process's own and the destination has numbers of it that this process did
// not send there: that it sent them elsewhere is no proof, a copy may have been first here with others.
void check_not_of_a_copy(const Cache& cache, Destination& destination, const PartitionId& partition,
                         const std::string& stream, const std::string& open_id, int64_t last);

}  // namespace firn::hyp
