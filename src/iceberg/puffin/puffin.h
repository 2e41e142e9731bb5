// Puffin files and deletion vectors (Puffin spec; Iceberg spec, "Deletion Vectors").
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <arrow/io/interfaces.h>

#include "base/json.h"

namespace firn::iceberg {

// Row positions deleted from one data file; values below 2^63. Value type over a 64-bit roaring bitmap. A const one may
// be read from several threads.
class PositionSet {
 public:
  PositionSet();
  ~PositionSet();
  PositionSet(PositionSet&&) noexcept;
  PositionSet& operator=(PositionSet&&) noexcept;
  void add(int64_t position);  // throws invalid_argument below 0
  void add_all(const PositionSet& other);
  bool contains(int64_t position) const;
  bool empty() const;
  int64_t size() const;
  int64_t memory_bytes() const;  // about; what a cache is charged
  // Calls back for each member in [begin, end), ascending.
  void for_each_in(int64_t begin, int64_t end, const std::function<void(int64_t)>& visit) const;

  // The blob's framing: length, magic D1D33964, vector, CRC-32 (spec, "deletion-vector-v1"). from_blob checks
  // everything that a hostile blob could break before CRoaring sees it; throws corrupt naming `where`.
  std::string to_blob() const;
  static PositionSet from_blob(std::string_view blob, std::string_view where);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

struct PuffinBlob {
  std::string type;
  std::vector<int32_t> fields;
  int64_t snapshot_id = -1, sequence_number = -1;
  int64_t offset = 0, length = 0;
  std::string compression_codec;  // "", "lz4" or "zstd"
  std::map<std::string, std::string> properties;
};
struct PuffinFile {
  std::vector<PuffinBlob> blobs;
  std::map<std::string, std::string> properties;
};

constexpr std::string_view kDeletionVectorBlobType = "deletion-vector-v1";

constexpr std::string_view kPuffinMagic = "PFA1";  // at the start, and around the footer
constexpr int64_t kPuffinFooterEndBytes = 12;      // payload size, flags, magic
// Bytes of the whole footer, told by the last kPuffinFooterEndBytes of a file. Throws corrupt naming `where`.
int64_t puffin_footer_size_bytes(std::string_view file_end, int64_t file_size_bytes, std::string_view where);
// The footer of a file, given all of its bytes or a tail that holds the footer. Blobs are checked to lie between header
// and footer. Throws corrupt naming `where`, also if the tail is too short.
PuffinFile parse_puffin_footer(std::string_view whole_file_or_tail, int64_t file_size_bytes, std::string_view where);

// The content of `blob`, whose stored bytes are `stored`. Throws corrupt naming `where` if they do not decompress, or
// to more than size_bytes_max; unsupported for a codec that is none of the specification's.
std::string decode_puffin_blob(const PuffinBlob& blob, std::string_view stored, std::string_view where,
                               int64_t size_bytes_max = int64_t{1} << 30);

// Writes one file to a stream, blob by blob. One thread.
class PuffinWriter {
 public:
  // `out` is at its beginning and must outlive it; `where` names it in errors.
  PuffinWriter(arrow::io::OutputStream& out, std::string where);
  // Appends `content`, compressed as blob.compression_codec says ("": as it is, "zstd" or "lz4"; throws
  // invalid_argument for others). Returns `blob` with offset and length set.
  PuffinBlob add(PuffinBlob blob, std::string_view content);
  // Writes the footer (compressed with LZ4 if so asked); the file has its returned size then. Once.
  int64_t finish(const std::map<std::string, std::string>& properties, bool compress_footer = false);

 private:
  void write(std::string_view bytes);

  arrow::io::OutputStream& out_;
  std::string where_;
  std::vector<PuffinBlob> blobs_;
  int64_t offset_ = 0;
};

}  // namespace firn::iceberg
