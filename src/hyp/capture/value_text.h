// Values that JSON spells as strings, as their column's type has them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include <arrow/util/decimal.h>

namespace firn::hyp {

// `text` (a JSON number's spelling) exactly, at `scale`; nullopt if it is no number, needs more decimals than `scale`,
// or more digits than `precision`.
std::optional<arrow::Decimal128> parse_decimal(std::string_view text, int32_t precision, int32_t scale);

// Base64 (RFC 4648) with padding and nothing else, appended to `out`. False leaves `out` as it was.
bool append_base64_decoded(std::string_view text, std::string& out);

}  // namespace firn::hyp
