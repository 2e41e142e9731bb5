// What a blob sink's claims name (P12).
#pragma once

#include "hyp/sink/exported_rows.h"

namespace firn::hyp {

// As find_exports, which has it where the claims were read at `before`.
Exports find_blobs(const std::shared_ptr<FileIO>& io, const SinkConfig& sink, const std::string& dataset,
                   const ClaimList& before, const std::string& own_streams, const std::vector<HeldStream>& held);

}  // namespace firn::hyp
