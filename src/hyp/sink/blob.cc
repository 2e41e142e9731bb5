// Blobs: one object a unit, and the claim that commits it (P12).
//
//   <prefix>/<dataset>/<partition key>/<openId>_<since>_<until>.<ext>
//   <prefix>/_firn/<stream>/<openId>/<since>.json    the claim: {until, object, rows}
#include <algorithm>
#include <charconv>
#include <set>

#include "base/fault_point.h"
#include "base/json.h"
#include "base/uri.h"
#include "hyp/sink/blob_file.h"
#include "hyp/sink/destination.h"
#include "iceberg/catalog/catalog.h"

namespace firn::hyp {
namespace {

struct UnitClaim {
  int64_t until = 0;
  std::string object;  // relative to the prefix; empty: no rows were left of the unit
  int64_t rows = 0;
};

std::string to_text(const UnitClaim& claim) {
  Json json = {{"until", std::to_string(claim.until)}, {"object", nullptr}, {"rows", claim.rows}};
  if (!claim.object.empty()) json["object"] = claim.object;
  return json.dump() + "\n";
}

UnitClaim parse_claim(const std::string& text, const std::string& path) {
  const Json json = parse_json(text, path);
  return {get_seq(json, "until", path), find_string(json, "object", path).value_or(""), get_int64(json, "rows", path)};
}

class BlobDestination final : public Destination {
 public:
  BlobDestination(const Cache& cache, const SinkConfig& sink)
      : io_(cache.io()),
        prefix_(iceberg::normal_location(sink.path)),
        extension_(blob_extension(sink.format, sink.compression)),
        compression_(sink.compression) {}

  std::string describe(const PartitionId& partition) const override {
    return join_path(prefix_, objects_folder(partition));
  }

  std::string key_of(const Unit& unit) const override {
    return fmt::format("{}/{}_{}_{}{}", objects_folder(unit.partition), encode_segment(unit.range.open_id),
                       unit.range.since, unit.range.until, extension_);
  }

  std::optional<Position> position(const Unit& unit) override {
    if (!unit.open_since) {
      fail(ErrorKind::destination_forgot,
           "{}: the cache no longer knows where open {} began, so its claims cannot be followed",
           describe(unit.partition), unit.range.open_id);
    }
    auto there = follow(unit, *unit.open_since);
    if (const auto beyond = claim_beyond(unit, there ? there->last : *unit.open_since)) {
      there = follow(unit, *unit.open_since);  // another copy may have gone on just now
      if (claim_beyond(unit, there ? there->last : *unit.open_since)) {
        fail(ErrorKind::corrupt,
             "{}: there is a claim from {} on, but none that leads to it from {}: claims were removed there, so that "
             "what "
             "was sent cannot be told. Restore them, or give the sink another name and another path",
             claims_folder(unit), *beyond, there ? there->last : *unit.open_since);
      }
    }
    return there;
  }

  Standing standing(const Unit& confirmed) override {
    const int64_t seq = confirmed.range.until;
    if (ends_at(confirmed, seq)) return {.there = Position{seq, confirmed.previous->since}};
    if (confirmed.open_since) return {.there = follow(confirmed, *confirmed.open_since)};
    const bool has_claims = !io_->list(claims_folder(confirmed), false).empty();
    return {.is_known = !has_claims};
  }

  std::optional<size_t> newest_known(const std::vector<Unit>& opens) override {
    if (opens.empty()) return std::nullopt;
    const std::string folder = fmt::format("{}/_firn/{}/", prefix_, opens.front().stream);
    std::set<std::string> known;  // folders of opens
    for (const FileInfo& file : io_->list(folder.substr(0, folder.size() - 1), true)) {
      known.insert(file.path.substr(0, file.path.rfind('/')));
    }
    for (size_t i = opens.size(); i-- > 0;) {
      if (known.contains(claims_folder(opens[i]))) return i;
    }
    return std::nullopt;
  }

  Delivered deliver(const Unit& unit, UnitRows& rows) override {
    if (const auto taken = read_claim(unit, unit.range.since)) return settle_taken(unit, *taken);
    if (!unit.range.start && !ends_at(unit, unit.range.since)) {
      const auto there = position(unit);
      if (!there || there->last != unit.range.since) return {.outcome = Delivered::Outcome::refused, .there = there};
    }
    const Written written = write_object(unit, rows);
    const std::string& object = unit.range.key;
    fault_point("sink.object-written");
    const UnitClaim claim{unit.range.until, written.rows > 0 ? object : "", written.rows};
    if (io_->put_if_absent(claim_path(unit, unit.range.since), to_text(claim))) {
      fault_point("sink.claimed");
      return {.rows = written.rows, .bytes = written.bytes};
    }
    const auto taken = read_claim(unit, unit.range.since);
    if (!taken) fail(ErrorKind::io, "{} was there and is not", claim_path(unit, unit.range.since));
    // No claim can ever name our object now: its name says since and until, and `since` has another's claim (P12).
    if (written.rows > 0 && taken->object != object) io_->remove(join_path(prefix_, object));
    return settle_taken(unit, *taken);
  }

  int64_t end_at_or_below(const Unit& unit, int64_t last) override {
    int64_t end = *unit.open_since;
    for (auto claim = read_claim(unit, end); claim && claim->until <= last; claim = read_claim(unit, end)) {
      end = claim->until;
    }
    return end;
  }

  bool reset(const Unit& unit, std::optional<int64_t> from, int64_t& last) override {
    const auto there = position(unit);
    const int64_t end = there ? there->last : *unit.open_since;
    if (end != from.value_or(*unit.open_since)) return false;
    if (last > end) return skip(unit, end, last);
    last = end_at_or_below(unit, last);
    withdraw(unit, last);
    return true;
  }

 private:
  static std::string objects_folder(const PartitionId& partition) {
    return join_path(encode_segment(partition.dataset), partition.key());
  }

  std::string claims_folder(const Unit& unit) const {
    return fmt::format("{}/_firn/{}/{}", prefix_, unit.stream, encode_segment(unit.range.open_id));
  }
  std::string claim_path(const Unit& unit, int64_t since) const {
    return fmt::format("{}/{}.json", claims_folder(unit), since);
  }

  std::optional<UnitClaim> read_claim(const Unit& unit, int64_t since) {
    const std::string path = claim_path(unit, since);
    const auto text = io_->read_if_exists(path);
    if (!text) return std::nullopt;
    const UnitClaim claim = parse_claim(*text, path);
    // Each claim begins where the one before ends, so a chain that does not rise would be followed for ever.
    if (claim.until <= since) fail(ErrorKind::corrupt, "{}: its until, {}, is not above {}", path, claim.until, since);
    return claim;
  }

  // Whether the unit before, as the watermark remembers it, is there and ends at `seq`: then so are all before it.
  bool ends_at(const Unit& unit, int64_t seq) {
    if (!unit.previous || !unit.previous->since || unit.previous->open_id != unit.range.open_id) return false;
    const auto claim = read_claim(unit, *unit.previous->since);
    return claim && claim->until == seq;
  }

  // The lowest `since` of a claim at or above `seq`.
  std::optional<int64_t> claim_beyond(const Unit& unit, int64_t seq) {
    std::optional<int64_t> lowest;
    for (const FileInfo& file : io_->list(claims_folder(unit), false)) {
      const std::string name = file.path.substr(file.path.rfind('/') + 1);
      int64_t since = 0;
      const auto [stop, error] = std::from_chars(name.data(), name.data() + name.size(), since);
      if (error != std::errc() || std::string_view(stop) != ".json" || since < seq) continue;
      lowest = std::min(lowest.value_or(since), since);
    }
    return lowest;
  }

  // The end of the claims that follow one another from `since`.
  std::optional<Position> follow(const Unit& unit, int64_t since) {
    std::optional<Position> there;
    while (const auto claim = read_claim(unit, since)) {
      there = {claim->until, since};
      since = claim->until;
    }
    // Another process may have made the last ones just now: the watermark must not outlive them (P10.8).
    if (there) io_->sync_folder(claims_folder(unit));
    return there;
  }

  Delivered settle_taken(const Unit& unit, const UnitClaim& taken) {
    const auto there = follow(unit, unit.range.since);
    const bool is_there = there && there->last >= unit.range.until;
    if (is_there && !taken.object.empty()) io_->sync_folder(describe(unit.partition));
    return {.outcome = is_there ? Delivered::Outcome::already_there : Delivered::Outcome::refused, .there = there};
  }

  // Rows (since, until] count as sent without being there: a claim without an object.
  bool skip(const Unit& unit, int64_t since, int64_t until) {
    fault_point("sink.before-skip");
    const bool is_taken = !io_->put_if_absent(claim_path(unit, since), to_text(UnitClaim{until, "", 0}));
    fault_point("sink.skipped");
    return !is_taken;
  }

  // Claims above `last` go, from the top down: what is left is a chain at every moment. Objects stay.
  void withdraw(const Unit& unit, int64_t last) {
    std::vector<int64_t> sinces;
    int64_t since = last;
    for (auto claim = read_claim(unit, since); claim; claim = read_claim(unit, since)) {
      sinces.push_back(since);
      since = claim->until;
    }
    for (size_t i = sinces.size(); i-- > 0;) {
      fault_point("sink.before-withdraw");
      io_->remove(claim_path(unit, sinces[i]));
      fault_point("sink.withdrawn");
    }
    if (const auto beyond = claim_beyond(unit, last)) {
      fail(ErrorKind::busy,
           "{}: while claims above {} were withdrawn another copy of the cache made one at {}: stop it, remove that "
           "claim, and reset again",
           claims_folder(unit), last, *beyond);
    }
  }

  struct Written {
    int64_t rows = 0, bytes = 0;
  };
  // Published whole; a file of an earlier attempt is replaced by the same rows. No rows: no object.
  Written write_object(const Unit& unit, UnitRows& rows) {
    std::unique_ptr<BlobFile> file;
    while (const auto batch = rows.next()) {
      if (!file) file = create_blob_file(*io_, join_path(prefix_, unit.range.key), rows.schema(), compression_);
      file->write(*batch);
    }
    return {rows.rows_read(), file ? file->close() : 0};
  }

  std::shared_ptr<FileIO> io_;
  std::string prefix_, extension_, compression_;
};

}  // namespace

std::unique_ptr<Destination> make_blob_destination(const Cache& cache, const SinkConfig& sink) {
  return std::make_unique<BlobDestination>(cache, sink);
}

}  // namespace firn::hyp
