// What an archive's table has at the cut that fits held tables of the cache (P3.3).
#pragma once

#include "hyp/sink/exported_rows.h"

namespace firn::hyp {

// As find_exports.
std::optional<Exports> find_archive(const std::shared_ptr<FileIO>& io, const std::string& location,
                                    const ExportsSeen& before, const std::string& own_streams,
                                    const std::vector<HeldStream>& held);

}  // namespace firn::hyp
