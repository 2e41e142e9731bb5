#include "iceberg/metadata/metrics_mode.h"

#include <charconv>

#include "base/error.h"

namespace firn::iceberg {

MetricsMode MetricsMode::parse(std::string_view text, std::string_view property) {
  if (text == "none") return {.counts = false, .bounds = false};
  if (text == "counts") return {.counts = true, .bounds = false};
  if (text == "full") return {};
  constexpr std::string_view kTruncate = "truncate(";
  if (text.starts_with(kTruncate) && text.ends_with(')')) {
    const std::string_view digits = text.substr(kTruncate.size(), text.size() - kTruncate.size() - 1);
    int32_t width = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), width);
    if (error == std::errc() && end == digits.data() + digits.size() && width > 0) return {.truncate_width = width};
  }
  fail(ErrorKind::invalid_argument, "{} = {}: give none, counts, truncate(<length>) or full", property, text);
}

}  // namespace firn::iceberg
