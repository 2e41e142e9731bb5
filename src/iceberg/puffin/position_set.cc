// PositionSet: one 32-bit CRoaring bitmap per upper half of the positions, as the blob stores them.
#include <bit>
#include <limits>

#include <roaring/roaring.h>

#include "base/error.h"
#include "base/hash.h"
#include "iceberg/puffin/puffin.h"

namespace firn::iceberg {

namespace {

constexpr std::string_view kVectorMagic = "\xD1\xD3\x39\x64";
// Roaring's portable format (RoaringFormatSpec): the two cookies, the bitmap size from which a run bitmap has offsets,
// and the cardinality up to which a container is an array.
constexpr uint32_t kCookieWithoutRuns = 12346;
constexpr uint32_t kCookieWithRuns = 12347;
constexpr uint32_t kOffsetsFromContainers = 4;
constexpr uint32_t kArrayCardinalityMax = 4096;
constexpr size_t kBitsetBytes = 8192;

struct FreeBitmap {
  void operator()(roaring_bitmap_t* bitmap) const { roaring_bitmap_free(bitmap); }
};
using BitmapPtr = std::unique_ptr<roaring_bitmap_t, FreeBitmap>;

BitmapPtr checked(roaring_bitmap_t* bitmap) {
  if (bitmap == nullptr) throw std::bad_alloc();
  return BitmapPtr(bitmap);
}

// Reads a blob front to back; every read is checked against its end.
class ByteReader {
 public:
  ByteReader(std::string_view bytes, std::string_view where) : bytes_(bytes), where_(where) {}

  size_t offset() const { return offset_; }
  size_t left() const { return bytes_.size() - offset_; }
  std::string_view take(uint64_t count, std::string_view what) {
    if (count > left()) {
      fail(ErrorKind::corrupt, "{}: deletion vector ends at byte {} within {} ({} bytes needed, {} left)", where_,
           bytes_.size(), what, count, left());
    }
    std::string_view taken = bytes_.substr(offset_, count);
    offset_ += count;
    return taken;
  }
  template <class T>
  T little_endian(std::string_view what) {
    return load<T>(take(sizeof(T), what).data());
  }
  template <class T>
  static T load(const char* data) {
    T value = 0;
    for (size_t i = 0; i < sizeof(T); ++i)
      value |= static_cast<T>(static_cast<T>(static_cast<uint8_t>(data[i])) << (8 * i));
    return value;
  }
  template <class... Args>
  [[noreturn]] void refuse(fmt::format_string<Args...> format, Args&&... args) const {
    fail(ErrorKind::corrupt, "{}: deletion vector, byte {}: {}", where_, offset_,
         fmt::format(format, std::forward<Args>(args)...));
  }

 private:
  std::string_view bytes_;
  std::string_view where_;
  size_t offset_ = 0;
};

void check_array(ByteReader& in, uint32_t cardinality) {
  const std::string_view values = in.take(2 * static_cast<uint64_t>(cardinality), "an array container");
  int32_t last = -1;
  for (size_t i = 0; i < values.size(); i += 2) {
    const int32_t value = ByteReader::load<uint16_t>(values.data() + i);
    if (value <= last) in.refuse("array container is not ascending ({} after {})", value, last);
    last = value;
  }
}

void check_bitset(ByteReader& in, uint32_t cardinality) {
  const std::string_view words = in.take(kBitsetBytes, "a bitset container");
  uint32_t count = 0;
  for (size_t i = 0; i < words.size(); i += 8) {
    count += static_cast<uint32_t>(std::popcount(ByteReader::load<uint64_t>(words.data() + i)));
  }
  if (count != cardinality) in.refuse("bitset container has {} values, its header says {}", count, cardinality);
}

void check_runs(ByteReader& in, uint32_t cardinality) {
  const uint32_t runs = in.little_endian<uint16_t>("the number of runs");
  const std::string_view pairs = in.take(4 * static_cast<uint64_t>(runs), "a run container");
  int64_t last_end = -1;  // the last value of the run before
  uint32_t count = 0;
  for (size_t i = 0; i < pairs.size(); i += 4) {
    const int64_t start = ByteReader::load<uint16_t>(pairs.data() + i);
    const int64_t length_less_one = ByteReader::load<uint16_t>(pairs.data() + i + 2);
    if (start <= last_end) in.refuse("run at {} overlaps the one that ends at {}", start, last_end);
    last_end = start + length_less_one;
    if (last_end > std::numeric_limits<uint16_t>::max())
      in.refuse("run at {} ends at {}, past its container", start, last_end);
    count += static_cast<uint32_t>(length_less_one) + 1;
  }
  if (count != cardinality) in.refuse("run container has {} values, its header says {}", count, cardinality);
}

// Checks one bitmap of the portable format and returns its bytes. libroaring believes what it reads (0.2.66: lengths
// are checked, contents are not), so a bitmap that passes here is one that it could have written itself.
std::string_view take_checked_bitmap(ByteReader& in, std::string_view blob) {
  const size_t begin = in.offset();
  const auto cookie = in.little_endian<uint32_t>("a bitmap's cookie");
  uint32_t containers = 0;
  std::string_view run_flags;
  bool has_offsets = true;
  if ((cookie & 0xFFFF) == kCookieWithRuns) {
    containers = (cookie >> 16) + 1;
    run_flags = in.take((containers + 7) / 8, "the run flags");
    has_offsets = containers >= kOffsetsFromContainers;
  } else if (cookie == kCookieWithoutRuns) {
    containers = in.little_endian<uint32_t>("the number of containers");
    if (containers > 65536) in.refuse("a bitmap has {} containers, 65536 at most", containers);
  } else {
    in.refuse("no roaring bitmap: cookie {:#x}", cookie);
  }
  const std::string_view headers = in.take(4 * static_cast<uint64_t>(containers), "the container headers");
  const std::string_view offsets =
      has_offsets ? in.take(4 * static_cast<uint64_t>(containers), "the container offsets") : std::string_view();
  int32_t last_key = -1;
  for (uint32_t i = 0; i < containers; ++i) {
    const int32_t key = ByteReader::load<uint16_t>(headers.data() + 4 * i);
    const uint32_t cardinality = ByteReader::load<uint16_t>(headers.data() + 4 * i + 2) + 1U;
    if (key <= last_key) in.refuse("container keys are not ascending ({} after {})", key, last_key);
    last_key = key;
    if (has_offsets && ByteReader::load<uint32_t>(offsets.data() + 4 * i) != in.offset() - begin) {
      in.refuse("container {} is said to lie at {}, not at {}", i, ByteReader::load<uint32_t>(offsets.data() + 4 * i),
                in.offset() - begin);
    }
    if (!run_flags.empty() && (static_cast<uint8_t>(run_flags[i / 8]) >> (i % 8) & 1) != 0) {
      check_runs(in, cardinality);
    } else if (cardinality <= kArrayCardinalityMax) {
      check_array(in, cardinality);
    } else {
      check_bitset(in, cardinality);
    }
  }
  return blob.substr(begin, in.offset() - begin);
}

uint32_t upper_half(int64_t position) { return static_cast<uint32_t>(position >> 32); }
uint32_t lower_half(int64_t position) { return static_cast<uint32_t>(position); }

void append_big_endian(uint32_t value, std::string& out) {
  for (int shift = 24; shift >= 0; shift -= 8) out.push_back(static_cast<char>(value >> shift));
}
template <class T>
void append_little_endian(T value, std::string& out) {
  for (size_t i = 0; i < sizeof(T); ++i) out.push_back(static_cast<char>(value >> (8 * i)));
}
uint32_t load_big_endian(const char* data) { return __builtin_bswap32(ByteReader::load<uint32_t>(data)); }

}  // namespace

struct PositionSet::State {
  std::map<uint32_t, BitmapPtr> bitmaps;  // by upper half; none is empty

  roaring_bitmap_t* at(uint32_t key) {
    BitmapPtr& bitmap = bitmaps[key];
    if (!bitmap) bitmap = checked(roaring_bitmap_create());
    return bitmap.get();
  }
};

PositionSet::PositionSet() : state_(std::make_unique<State>()) {}
PositionSet::~PositionSet() = default;
PositionSet::PositionSet(PositionSet&&) noexcept = default;
PositionSet& PositionSet::operator=(PositionSet&&) noexcept = default;

void PositionSet::add(int64_t position) {
  if (position < 0) fail(ErrorKind::invalid_argument, "row position {} is negative", position);
  roaring_bitmap_add(state_->at(upper_half(position)), lower_half(position));
}

void PositionSet::add_all(const PositionSet& other) {
  for (const auto& [key, bitmap] : other.state_->bitmaps) roaring_bitmap_or_inplace(state_->at(key), bitmap.get());
}

bool PositionSet::contains(int64_t position) const {
  if (position < 0) return false;
  const auto found = state_->bitmaps.find(upper_half(position));
  return found != state_->bitmaps.end() && roaring_bitmap_contains(found->second.get(), lower_half(position));
}

bool PositionSet::empty() const { return state_->bitmaps.empty(); }

int64_t PositionSet::size() const {
  uint64_t count = 0;
  for (const auto& [key, bitmap] : state_->bitmaps) count += roaring_bitmap_get_cardinality(bitmap.get());
  return static_cast<int64_t>(count);
}

int64_t PositionSet::memory_bytes() const {
  size_t bytes = 0;
  for (const auto& [key, bitmap] : state_->bitmaps) bytes += 64 + roaring_bitmap_size_in_bytes(bitmap.get());
  return static_cast<int64_t>(bytes);
}

void PositionSet::for_each_in(int64_t begin, int64_t end, const std::function<void(int64_t)>& visit) const {
  begin = std::max<int64_t>(begin, 0);
  if (begin >= end) return;
  for (auto it = state_->bitmaps.lower_bound(upper_half(begin)); it != state_->bitmaps.end(); ++it) {
    const int64_t base = static_cast<int64_t>(it->first) << 32;
    if (base >= end) return;
    roaring_uint32_iterator_t cursor;
    roaring_init_iterator(it->second.get(), &cursor);
    bool has_value = cursor.has_value;
    if (has_value && base < begin) has_value = roaring_move_uint32_iterator_equalorlarger(&cursor, lower_half(begin));
    for (; has_value; has_value = roaring_advance_uint32_iterator(&cursor)) {
      const int64_t position = base + cursor.current_value;
      if (position >= end) return;
      visit(position);
    }
  }
}

std::string PositionSet::to_blob() const {
  std::string body(kVectorMagic);
  append_little_endian<uint64_t>(state_->bitmaps.size(), body);
  for (const auto& [key, bitmap] : state_->bitmaps) {
    const BitmapPtr compact = checked(roaring_bitmap_copy(bitmap.get()));
    roaring_bitmap_run_optimize(compact.get());
    append_little_endian<uint32_t>(key, body);
    const size_t size_bytes = roaring_bitmap_portable_size_in_bytes(compact.get());
    const size_t offset = body.size();
    body.resize(offset + size_bytes);
    roaring_bitmap_portable_serialize(compact.get(), body.data() + offset);
  }
  std::string blob;
  blob.reserve(body.size() + 8);
  append_big_endian(static_cast<uint32_t>(body.size()), blob);
  blob += body;
  append_big_endian(crc32(body), blob);
  return blob;
}

PositionSet PositionSet::from_blob(std::string_view blob, std::string_view where) {
  constexpr size_t kFrameBytes = 4 + 4 + 8 + 4;  // length, magic, number of bitmaps, CRC
  if (blob.size() < kFrameBytes) {
    fail(ErrorKind::corrupt, "{}: deletion vector has {} bytes, {} are the least", where, blob.size(), kFrameBytes);
  }
  const uint32_t length = load_big_endian(blob.data());
  if (length != blob.size() - 8) {
    fail(ErrorKind::corrupt, "{}: deletion vector says {} bytes of magic and vector, {} are there", where, length,
         blob.size() - 8);
  }
  const std::string_view body = blob.substr(4, length);
  if (body.substr(0, kVectorMagic.size()) != kVectorMagic)
    fail(ErrorKind::corrupt, "{}: no deletion vector: wrong magic", where);
  const uint32_t stored_crc = load_big_endian(blob.data() + 4 + length);
  if (const uint32_t crc = crc32(body); crc != stored_crc) {
    fail(ErrorKind::corrupt, "{}: deletion vector has CRC-32 {:08x}, {:08x} is stored", where, crc, stored_crc);
  }
  ByteReader in(body, where);
  in.take(kVectorMagic.size(), "the magic");
  const auto count = in.little_endian<uint64_t>("the number of bitmaps");
  if (count > in.left() / 8) in.refuse("{} bitmaps cannot fit into {} bytes", count, in.left());
  PositionSet set;
  int64_t last_key = -1;
  for (uint64_t i = 0; i < count; ++i) {
    const int64_t key = in.little_endian<uint32_t>("a bitmap's key");
    if (key <= last_key) in.refuse("bitmap keys are not ascending ({} after {})", key, last_key);
    if (key > std::numeric_limits<int32_t>::max()) in.refuse("bitmap key {} is past 2^31 - 1", key);
    last_key = key;
    const std::string_view bytes = take_checked_bitmap(in, body);
    BitmapPtr bitmap(roaring_bitmap_portable_deserialize_safe(bytes.data(), bytes.size()));
    if (!bitmap) in.refuse("CRoaring refuses the bitmap of key {}", key);
    if (!roaring_bitmap_is_empty(bitmap.get())) {
      set.state_->bitmaps.emplace_hint(set.state_->bitmaps.end(), static_cast<uint32_t>(key), std::move(bitmap));
    }
  }
  if (in.left() != 0) in.refuse("{} bytes follow the last bitmap", in.left());
  return set;
}

}  // namespace firn::iceberg
