// A metadata file's JSON text, for checks of what parsing forgives.
#pragma once

#include <string>
#include <string_view>

namespace firn::iceberg {

// `bytes`, unpacked if they are gzip. Throws corrupt naming `where`.
std::string metadata_text(std::string_view bytes, std::string_view where);

}  // namespace firn::iceberg
