// The values of write.metadata.metrics.default and write.metadata.metrics.column.<name>.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace firn::iceberg {

// How much of a column goes into the manifest ("none", "counts", "truncate(n)", "full").
struct MetricsMode {
  bool counts = true;
  bool bounds = true;
  std::optional<int32_t> truncate_width;  // code points or bytes; nullopt: whole

  // Throws invalid_argument naming `property`.
  static MetricsMode parse(std::string_view text, std::string_view property);
};

}  // namespace firn::iceberg
