#include "hyp/cache/rejects.h"

#include <openssl/evp.h>

#include "base/arrow_status.h"
#include "base/civil_time.h"
#include "base/clock.h"
#include "base/fault_point.h"
#include "base/uri.h"
#include "iceberg/bounds.h"
#include "io/file_io.h"
#include "io/local.h"
#include "io/synced_append.h"

namespace firn::hyp {
namespace {

std::string base64(std::string_view bytes) {
  std::string text(4 * ((bytes.size() + 2) / 3), '\0');
  EVP_EncodeBlock(reinterpret_cast<unsigned char*>(text.data()), reinterpret_cast<const unsigned char*>(bytes.data()),
                  static_cast<int>(bytes.size()));
  return text;
}

// The place after the last newline of the file, looked for from its end.
int64_t end_of_lines(const std::string& path, int64_t size_bytes) {
  constexpr int64_t kStep = 1 << 16;
  if (size_bytes == 0) return 0;
  const auto file = make_local_file_io()->open(path);
  for (int64_t end = size_bytes; end > 0;) {
    const int64_t begin = std::max<int64_t>(0, end - kStep);
    const auto bytes = check(file->ReadAt(begin, end - begin), "read " + path);
    const std::string_view text(reinterpret_cast<const char*>(bytes->data()), static_cast<size_t>(bytes->size()));
    if (const size_t at = text.rfind('\n'); at != std::string_view::npos) return begin + static_cast<int64_t>(at) + 1;
    end = begin;
  }
  return 0;
}

std::string to_line(const std::string& dataset, const std::string& spool_id, const std::string& time,
                    const RejectedRow& row) {
  Json json = {{"time", time},
               {"dataset", dataset},
               {"source", row.source},
               {"line", row.line},
               {"column", row.column},
               {"reason", row.reason},
               {"spool", spool_id},
               {"segment", row.place.frame.segment},
               {"offset", row.place.frame.offset},
               {"lineOffset", row.place.line_offset}};
  if (iceberg::is_utf8(row.text)) {
    json["text"] = row.text;
  } else {
    json["textBase64"] = base64(row.text);
  }
  if (row.cut_bytes > 0) {
    json["cut"] = true;
    json["lineBytes"] = row.cut_bytes;
  }
  // Reasons and sources may quote bytes of the line.
  return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace

RejectsFile::RejectsFile(const std::string& cache_root, const std::string& dataset)
    : path_(join_path(join_path(cache_root, "rejects"), encode_segment(dataset) + ".ndjson")),
      lock_path_(join_path(join_path(cache_root, "rejects"), encode_segment(dataset) + ".lock")),
      dataset_(dataset) {}

int64_t RejectsFile::size_bytes() const {
  const auto info = make_local_file_io()->stat(path_);
  return info ? info->size_bytes : 0;
}

// visit(where a line begins in the file, the place that it decides): the lines for `spool_id` in [begin_bytes,
// end_bytes).
void RejectsFile::for_each_decided(const std::string& spool_id, int64_t begin_bytes, int64_t end_bytes,
                                   const std::function<void(int64_t, const LinePlace&)>& visit) const {
  if (end_bytes <= begin_bytes) return;
  const auto file = make_local_file_io()->open(path_);
  constexpr int64_t kStep = 4 << 20;
  std::string carried;  // a line cut by a step's end
  for (int64_t at = begin_bytes; at < end_bytes;) {
    const auto bytes = check(file->ReadAt(at, std::min(kStep, end_bytes - at)), "read " + path_);
    const int64_t carried_from = at - static_cast<int64_t>(carried.size());
    at += bytes->size();
    carried.append(reinterpret_cast<const char*>(bytes->data()), static_cast<size_t>(bytes->size()));
    size_t begin = 0;
    for (size_t newline; (newline = carried.find('\n', begin)) != std::string::npos; begin = newline + 1) {
      const std::string_view line = std::string_view(carried).substr(begin, newline - begin);
      if (line.find(spool_id) == std::string_view::npos) continue;
      const Json json = Json::parse(line, nullptr, /*allow_exceptions=*/false);
      if (!json.is_object() || json.value("spool", "") != spool_id) continue;  // a user's edit, or another spool's
      visit(carried_from + static_cast<int64_t>(begin),
            {{get_int64(json, "segment", path_), get_int64(json, "offset", path_)},
             get_int64(json, "lineOffset", path_)});
    }
    carried.erase(0, begin);
  }
}

std::set<LinePlace> RejectsFile::decided(const std::string& spool_id, SpoolPosition from, int64_t begin_bytes) const {
  std::set<LinePlace> places;
  if (size_bytes() <= begin_bytes) return places;
  for_each_decided(spool_id, begin_bytes, settle(), [&](int64_t, const LinePlace& place) {
    if (place.frame >= from) places.insert(place);
  });
  return places;
}

int64_t RejectsFile::length_before(const std::string& spool_id, SpoolPosition from, int64_t begin_bytes) const {
  const int64_t end = settle();
  int64_t length = end;
  for_each_decided(spool_id, begin_bytes, end, [&](int64_t begin, const LinePlace& place) {
    if (place.frame >= from) length = std::min(length, begin);
  });
  return length;
}

void RejectsFile::append(const std::string& spool_id, const std::vector<RejectedRow>& rows) const {
  if (rows.empty()) return;
  const std::string time = format_timestamp_ms_utc(now_ms());
  std::string lines;
  for (const RejectedRow& row : rows) lines += to_line(dataset_, spool_id, time, row);
  make_directories(path_.substr(0, path_.rfind('/')));
  const FileLock lock = FileLock::acquire(lock_path_, FileLock::Mode::exclusive);
  const int64_t size = end_of_lines(path_, size_bytes());
  append_synced(path_, size, lines);
  fault_point("rejects.decided");
}

int64_t RejectsFile::settle() const {
  const int64_t size = size_bytes();
  if (size == 0) return 0;
  const FileLock lock = FileLock::acquire(lock_path_, FileLock::Mode::exclusive);
  AppendFile file = AppendFile::open(path_, end_of_lines(path_, size_bytes()));
  file.sync();
  return file.size_bytes();
}

}  // namespace firn::hyp
