// Blobs: one object a unit, and the claim that commits it (P12).
//
//   <prefix>/<dataset>/<partition key>/<openId>_<since>_<until>.<ext>
//   <prefix>/_firn/<stream>/<openId>/<since>.json    the claim: {until, object, rows, first}
//   <prefix>/_firn/<stream>/<openId>/old/…           claims that a reset took back (blob_claims.h)
#include <algorithm>
#include <charconv>
#include <set>

#include "base/fault_point.h"
#include "base/uri.h"
#include "base/uuid.h"
#include "hyp/sink/blob_claims.h"
#include "hyp/sink/blob_file.h"
#include "hyp/sink/destination.h"
#include "iceberg/catalog/catalog.h"

namespace firn::hyp {
namespace {

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
    const std::string name = fmt::format("{}/{}_{}_{}", objects_folder(unit.partition),
                                         encode_segment(unit.range.open_id), unit.range.since, unit.range.until);
    // An old claim may name that object, which has rows that the cache no longer has.
    if (!io_->stat(join_path(prefix_, name + extension_))) return name + extension_;
    return fmt::format("{}_{}{}", name, uuid_v4().substr(0, 8), extension_);
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

  std::vector<Standing> standings(const std::vector<Unit>& opens) override {
    std::set<std::string> known;  // folders of opens
    for (const FileInfo& file : io_->list(fmt::format("{}/_firn/{}", prefix_, opens.at(0).stream), true)) {
      known.insert(file.path.substr(0, file.path.rfind('/')));
    }
    std::vector<Standing> standings(opens.size());
    for (size_t i = 0; i < opens.size(); ++i) {
      if (known.contains(claims_folder(opens[i]))) standings[i].there = position(opens[i]);
    }
    return standings;
  }

  // A unit has rows of one old claim alone or of none, so that either the one or the other has all rows of that range.
  int64_t unit_end_max(const Unit& unit, int64_t first) override {
    int64_t end = std::numeric_limits<int64_t>::max();
    for (const ClaimRange& old : old_ranges(unit)) {
      if (first <= old.until) end = std::min(end, first > old.since_exclusive ? old.until : old.since_exclusive);
    }
    return end;
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
    BlobClaim claim{unit.range.since, unit.range.until, written.first, "", written.rows};
    if (written.rows > 0) claim.object = object;
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

  std::optional<BlobClaim> read_claim(const Unit& unit, int64_t since) {
    return read_blob_claim(*io_, claim_path(unit, since), since);
  }

  std::vector<ClaimRange> old_ranges(const Unit& unit) {
    std::vector<ClaimRange> ranges;
    for (const FileInfo& file : io_->list(old_claims_folder(claims_folder(unit)), false)) {
      if (const auto range = old_claim_range(file.path)) ranges.push_back(*range);
    }
    return ranges;
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

  Delivered settle_taken(const Unit& unit, const BlobClaim& taken) {
    const auto there = follow(unit, unit.range.since);
    const bool is_there = there && there->last >= unit.range.until;
    if (is_there && !taken.object.empty()) io_->sync_folder(describe(unit.partition));
    return {.outcome = is_there ? Delivered::Outcome::already_there : Delivered::Outcome::refused, .there = there};
  }

  // Rows (since, until] count as sent without being there: a claim without an object.
  bool skip(const Unit& unit, int64_t since, int64_t until) {
    fault_point("sink.before-skip");
    const bool is_taken =
        !io_->put_if_absent(claim_path(unit, since), to_text(BlobClaim{since, until, std::nullopt, "", 0}));
    fault_point("sink.skipped");
    return !is_taken;
  }

  // Claims above `last` go, from the top down: what is left is a chain at every moment. Objects stay.
  void withdraw(const Unit& unit, int64_t last) {
    std::vector<BlobClaim> claims;
    for (auto claim = read_claim(unit, last); claim; claim = read_claim(unit, claims.back().until)) {
      claims.push_back(std::move(*claim));
    }
    drop_old_claims_without_object(unit);
    const std::vector<ClaimRange> old = old_ranges(unit);
    for (size_t i = claims.size(); i-- > 0;) {
      fault_point("sink.before-withdraw");
      keep_as_old(unit, claims[i], old);
      io_->remove(claim_path(unit, claims[i].since));
      fault_point("sink.withdrawn");
    }
    if (const auto beyond = claim_beyond(unit, last)) {
      fail(ErrorKind::busy,
           "{}: while claims above {} were withdrawn another copy of the cache made one at {}: stop it, remove that "
           "claim, and reset again",
           claims_folder(unit), last, *beyond);
    }
  }

  // Readers find the rows there until others have all of them, since the cache may no longer have them when they would
  // be sent again. Durable before the claim goes.
  void keep_as_old(const Unit& unit, const BlobClaim& claim, const std::vector<ClaimRange>& old) {
    if (claim.object.empty() || !io_->stat(join_path(prefix_, claim.object))) return;
    const auto has_its_rows = [&](const ClaimRange& range) {  // it was sent again, maybe without some of them
      return range.since_exclusive <= claim.since_of_rows() && claim.until <= range.until;
    };
    if (std::any_of(old.begin(), old.end(), has_its_rows)) return;
    io_->put_if_absent(old_claim_path(claims_folder(unit), claim), to_text(claim));
    fault_point("sink.kept-as-old");
  }

  // So that what was sent again for them is not taken for a part of them.
  void drop_old_claims_without_object(const Unit& unit) {
    for (const ClaimRange& range : old_ranges(unit)) {
      BlobClaim name{range.since_exclusive, range.until, std::nullopt, "", 0};
      const std::string path = old_claim_path(claims_folder(unit), name);
      const auto claim = read_blob_claim(*io_, path, range.since_exclusive);
      if (claim && !io_->stat(join_path(prefix_, claim->object))) io_->remove(path);
    }
  }

  struct Written {
    int64_t rows = 0, bytes = 0;
    std::optional<int64_t> first;  // number of the first row
  };
  // Published whole; a file of an earlier attempt is replaced by the same rows. No rows: no object.
  Written write_object(const Unit& unit, UnitRows& rows) {
    std::unique_ptr<BlobFile> file;
    std::optional<int64_t> first;
    while (const auto batch = rows.next_numbered()) {
      if (!file) file = create_blob_file(*io_, join_path(prefix_, unit.range.key), rows.schema(), compression_);
      if (!first) first = batch->after.front();
      file->write(*batch->rows);
    }
    return {rows.rows_read(), file ? file->close() : 0, first};
  }

  std::shared_ptr<FileIO> io_;
  std::string prefix_, extension_, compression_;
};

}  // namespace

std::unique_ptr<Destination> make_blob_destination(const Cache& cache, const SinkConfig& sink) {
  return std::make_unique<BlobDestination>(cache, sink);
}

}  // namespace firn::hyp
