#include "hyp/http/wire.h"

#include <charconv>

#include "base/error.h"
#include "base/hash.h"

namespace firn::hyp {
namespace {

int64_t parse_number(std::string_view text, std::string_view whole) {
  int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error == std::errc::result_out_of_range)
    fail(ErrorKind::invalid_argument, "range \"{}\": {} does not fit into 64 bits", whole, text);
  if (error != std::errc() || end != text.data() + text.size())
    fail(ErrorKind::invalid_argument, "range \"{}\": \"{}\" is no number", whole, text);
  return number;
}

}  // namespace

std::string to_text(const SeqRange& range) {
  std::string text = fmt::format("{},{}", range.since, range.until);
  if (range.start) text += ";start";
  if (range.reset) text += fmt::format(";reset={}", *range.reset);
  return text;
}

SeqRange parse_seq_range(std::string_view text) {
  constexpr std::string_view kReset = "reset=";
  SeqRange range;
  const size_t comma = text.find(','), mark_at = text.find(';');
  if (comma == std::string_view::npos || comma > mark_at)
    fail(ErrorKind::invalid_argument, "range \"{}\": it must be <since>,<until>[;start|;reset=<last>]", text);
  range.since = parse_number(text.substr(0, comma), text);
  range.until = parse_number(text.substr(comma + 1, std::min(mark_at, text.size()) - comma - 1), text);
  if (mark_at != std::string_view::npos) {
    const std::string_view mark = text.substr(mark_at + 1);
    if (mark == "start") {
      range.start = true;
    } else if (mark.starts_with(kReset)) {
      range.reset = parse_number(mark.substr(kReset.size()), text);
    } else {
      fail(ErrorKind::invalid_argument, "range \"{}\": \"{}\" is neither start nor reset=<last>", text, mark);
    }
  }
  if (range.since > range.until) fail(ErrorKind::invalid_argument, "range \"{}\": it ends before it begins", text);
  if (range.reset && range.since != range.until)
    fail(ErrorKind::invalid_argument, "range \"{}\": a reset names one number twice", text);
  if (!range.reset && range.since == range.until)
    fail(ErrorKind::invalid_argument, "range \"{}\": it is empty; only a reset may be", text);
  return range;
}

std::string batch_id_of(std::string_view signal, std::string_view stream, std::string_view open_id,
                        const SeqRange& range, std::string_view body) {
  const std::string range_text = to_text(range);
  Sha256 hash;
  // Lengths first, so that no two lists of parts are the same bytes.
  for (const std::string_view part : {signal, stream, open_id, std::string_view(range_text), body}) {
    hash.update(fmt::format("{}:", part.size()));
    hash.update(part);
  }
  return to_hex(hash.finish());
}

}  // namespace firn::hyp
