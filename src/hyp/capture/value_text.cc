#include "hyp/capture/value_text.h"

#include <array>

namespace firn::hyp {
namespace {

constexpr std::string_view kBase64Digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

constexpr std::array<int8_t, 256> make_base64_values() {
  std::array<int8_t, 256> values{};
  for (int8_t& value : values) value = -1;
  for (size_t i = 0; i < kBase64Digits.size(); ++i) {
    values[static_cast<unsigned char>(kBase64Digits[i])] = static_cast<int8_t>(i);
  }
  return values;
}

constexpr std::array<int8_t, 256> kBase64Values = make_base64_values();

bool take_digits(std::string_view& text, std::string& digits) {
  const size_t count = std::min(text.find_first_not_of("0123456789"), text.size());
  digits.append(text.substr(0, count));
  text.remove_prefix(count);
  return count > 0;
}

}  // namespace

std::optional<arrow::Decimal128> parse_decimal(std::string_view text, int32_t precision, int32_t scale) {
  const bool is_negative = text.starts_with('-');
  if (is_negative) text.remove_prefix(1);
  std::string digits;
  if (!take_digits(text, digits)) return std::nullopt;
  int64_t exponent = 0;
  if (text.starts_with('.')) {
    text.remove_prefix(1);
    const size_t num_integer_digits = digits.size();
    if (!take_digits(text, digits)) return std::nullopt;
    exponent = -static_cast<int64_t>(digits.size() - num_integer_digits);
  }
  if (text.starts_with('e') || text.starts_with('E')) {
    text.remove_prefix(1);
    const bool is_small = text.starts_with('-');
    if (is_small || text.starts_with('+')) text.remove_prefix(1);
    std::string power;
    if (!take_digits(text, power)) return std::nullopt;
    power.erase(0, std::min(power.find_first_not_of('0'), power.size() - 1));
    if (power.size() > 9) power = "999999999";
    exponent += is_small ? -std::stoll(power) : std::stoll(power);
  }
  if (!text.empty()) return std::nullopt;
  digits.erase(0, std::min(digits.find_first_not_of('0'), digits.size()));
  if (digits.empty()) return arrow::Decimal128(0);
  // The unscaled value is digits * 10^zeros.
  int64_t zeros = exponent + scale;
  for (; zeros < 0; ++zeros) {
    if (digits.empty() || digits.back() != '0') return std::nullopt;
    digits.pop_back();
  }
  if (static_cast<int64_t>(digits.size()) + zeros > precision) return std::nullopt;
  digits.append(static_cast<size_t>(zeros), '0');
  arrow::Decimal128 value(0);
  for (const char digit : digits) value = value * arrow::Decimal128(10) + arrow::Decimal128(digit - '0');
  if (is_negative) value.Negate();
  return value;
}

bool append_base64_decoded(std::string_view text, std::string& out) {
  if (text.size() % 4 != 0) return false;
  const size_t size = out.size();
  for (size_t i = 0; i < text.size(); i += 4) {
    const bool is_last = i + 4 == text.size();
    const size_t num_digits = is_last && text[i + 3] == '=' ? (text[i + 2] == '=' ? 2 : 3) : 4;
    uint32_t bits = 0;
    for (size_t k = 0; k < 4; ++k) {
      const int8_t value = k < num_digits ? kBase64Values[static_cast<unsigned char>(text[i + k])] : int8_t{0};
      if (value < 0) {
        out.resize(size);
        return false;
      }
      bits = bits << 6 | static_cast<uint32_t>(value);
    }
    for (size_t k = 0; k + 1 < num_digits; ++k) out += static_cast<char>(bits >> (16 - 8 * k) & 0xFF);
  }
  return true;
}

}  // namespace firn::hyp
