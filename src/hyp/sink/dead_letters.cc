#include "hyp/sink/dead_letters.h"

#include <charconv>

#include "base/arrow_status.h"
#include "base/civil_time.h"
#include "base/clock.h"
#include "base/fault_point.h"
#include "base/json.h"
#include "base/uri.h"
#include "hyp/sink/watermark.h"
#include "io/file_io.h"
#include "io/local.h"
#include "io/synced_append.h"

namespace firn::hyp {
namespace {

constexpr int64_t kStepBytes = 1 << 20;
constexpr size_t kBeginBytesMax = 512;  // of a line: its open and number

// Calls visit(begin of the line, at most kBeginBytesMax) for each whole line; returns the place behind the last of
// them. Lines are as long as rows are, so no more of one is kept.
template <class Visit>
int64_t for_each_line(const std::string& path, const Visit& visit) {
  const auto info = make_local_file_io()->stat(path);
  if (!info) return 0;
  const auto file = make_local_file_io()->open(path);
  std::string begin;
  int64_t end_of_lines = 0;
  for (int64_t at = 0; at < info->size_bytes;) {
    const auto bytes = check(file->ReadAt(at, std::min(kStepBytes, info->size_bytes - at)), "read " + path);
    if (bytes->size() == 0) break;
    std::string_view text(reinterpret_cast<const char*>(bytes->data()), static_cast<size_t>(bytes->size()));
    // What a power cut left unwritten reads as zeros.
    const size_t zeros = text.find('\0');
    text = text.substr(0, zeros);
    for (size_t newline; (newline = text.find('\n')) != std::string_view::npos; text.remove_prefix(newline + 1)) {
      begin += text.substr(0, std::min(newline, kBeginBytesMax - begin.size()));
      visit(begin);
      begin.clear();
      end_of_lines =
          at + (text.data() - reinterpret_cast<const char*>(bytes->data())) + static_cast<int64_t>(newline) + 1;
    }
    begin += text.substr(0, kBeginBytesMax - begin.size());
    if (zeros != std::string_view::npos) break;
    at += bytes->size();
  }
  return end_of_lines;
}

}  // namespace

std::string dead_letters_path(const std::string& state_dir, const std::string& sink, const PartitionId& partition) {
  return fmt::format("{}/dead-letters/{}/{}.ndjson", sink_folder(state_dir, sink), encode_segment(partition.dataset),
                     partition.key());
}

DeadLetters::DeadLetters(std::string path, std::string open_id, int64_t since, int64_t until)
    : path_(std::move(path)), open_id_(std::move(open_id)), since_(since), until_(until) {}

void DeadLetters::look() {
  if (known_) return;
  const std::string prefix = fmt::format(R"({{"open":{},"number":")", Json(open_id_).dump());
  std::map<int64_t, int64_t> known;
  end_of_lines_ = for_each_line(path_, [&](std::string_view line) {
    if (!line.starts_with(prefix)) return;
    int64_t number = 0;
    const auto parsed = std::from_chars(line.data() + prefix.size(), line.data() + line.size(), number);
    if (parsed.ec == std::errc() && since_ < number && number <= until_) known[number] += 1;
  });
  if (!known.empty()) AppendFile::open(path_, end_of_lines_);  // syncs what a killed process may not have
  known_ = std::move(known);
}

bool DeadLetters::take(int64_t number) {
  look();
  const auto known = known_->find(number);
  if (known == known_->end() || known->second == 0) return false;
  known->second -= 1;
  return true;
}

void DeadLetters::add(const std::vector<DeadLetter>& letters) {
  const std::string time = format_timestamp_ms_utc(now_ms());
  const auto replace = Json::error_handler_t::replace;  // reasons come from elsewhere
  std::string lines;
  for (const DeadLetter& letter : letters) {
    if (take(letter.number)) continue;
    lines += fmt::format("{{\"open\":{},\"number\":\"{}\",\"time\":\"{}\",\"status\":{},\"reason\":{},\"row\":{}}}\n",
                         Json(open_id_).dump(), letter.number, time, letter.status,
                         Json(letter.reason).dump(-1, ' ', false, replace), letter.row);
  }
  if (lines.empty()) return;
  fault_point("forward.dead-letter");
  const bool is_there = make_local_file_io()->stat(path_).has_value();
  end_of_lines_ = append_synced(path_, is_there ? std::optional(end_of_lines_) : std::nullopt, lines);
  fault_point("forward.dead-lettered");
}

}  // namespace firn::hyp
