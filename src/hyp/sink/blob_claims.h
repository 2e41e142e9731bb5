// Claims of a blob sink: which objects count (P12).
//
//   <prefix>/_firn/<stream>/<openId>/<since>.json                         {"until", "object", "rows", "first"}
//   <prefix>/_firn/<stream>/<openId>/old/<first less one>_<until>.json    the same, of one that a reset took back
//
// The claims of an open are a chain, each beginning where the one before ends: how far the sink is. Claims that a reset
// took back are kept as old ones, since the cache may have lost some of their rows by then, or may lose them before
// they are sent again. What comes again never has rows of two old claims in one unit, and never a row that the old one
// lacks: rows of a range only become fewer. So of each old claim's range a reader takes the chain's objects if they
// have as many rows, and else the old object alone; each row once, and none is hidden.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "io/file_io.h"

namespace firn::hyp {

struct ClaimRange {
  int64_t since_exclusive = 0, until = 0;
  auto operator<=>(const ClaimRange&) const = default;
};

struct BlobClaim {
  int64_t since = 0, until = 0;
  std::optional<int64_t> first;  // number of the first row; nullopt: not known, or there are none
  std::string object;            // relative to the prefix; empty: no rows were left of the unit, or it was skipped
  int64_t rows = 0;

  // Its rows have numbers above this.
  int64_t since_of_rows() const { return first ? *first - 1 : since; }
};

std::string to_text(const BlobClaim& claim);
// nullopt: it is not there. Throws corrupt, also for one that ends where it begins: a chain of such would be followed
// for ever.
std::optional<BlobClaim> read_blob_claim(FileIO& io, const std::string& path, int64_t since);

// `folder`: of the open's claims.
std::string old_claims_folder(const std::string& folder);
std::string old_claim_path(const std::string& folder, const BlobClaim& claim);
// The numbers of its rows, of a path of that form; nullopt: it is another file.
std::optional<ClaimRange> old_claim_range(std::string_view path);

}  // namespace firn::hyp
