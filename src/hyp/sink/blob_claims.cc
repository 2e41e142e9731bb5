#include "hyp/sink/blob_claims.h"

#include <charconv>

#include "base/error.h"
#include "base/json.h"
#include "hyp/sink/watermark.h"

namespace firn::hyp {

std::string to_text(const BlobClaim& claim) {
  Json json = {{"until", std::to_string(claim.until)}, {"object", nullptr}, {"rows", claim.rows}};
  if (!claim.object.empty()) {
    json["object"] = claim.object;
    if (claim.first) json["first"] = std::to_string(*claim.first);
  }
  return json.dump() + "\n";
}

std::optional<BlobClaim> read_blob_claim(FileIO& io, const std::string& path, int64_t since) {
  const auto text = io.read_if_exists(path);
  if (!text) return std::nullopt;
  const Json json = parse_json(*text, path);
  BlobClaim claim;
  claim.since = since;
  claim.until = get_seq(json, "until", path);
  claim.object = find_string(json, "object", path).value_or("");
  claim.rows = get_int64(json, "rows", path);
  if (find_member(json, "first") != nullptr) claim.first = get_seq(json, "first", path);
  if (claim.until <= since) fail(ErrorKind::corrupt, "{}: its until, {}, is not above {}", path, claim.until, since);
  return claim;
}

std::string old_claims_folder(const std::string& folder) { return folder + "/old"; }

std::string old_claim_path(const std::string& folder, const BlobClaim& claim) {
  return fmt::format("{}/{}_{}.json", old_claims_folder(folder), claim.since_of_rows(), claim.until);
}

std::optional<ClaimRange> old_claim_range(std::string_view path) {
  const std::string_view name = path.substr(path.rfind('/') + 1);
  ClaimRange range;
  const char* const end = name.data() + name.size();
  const auto [since_end, since_error] = std::from_chars(name.data(), end, range.since_exclusive);
  if (since_error != std::errc() || since_end == end || *since_end != '_') return std::nullopt;
  const auto [until_end, until_error] = std::from_chars(since_end + 1, end, range.until);
  if (until_error != std::errc() || std::string_view(until_end, static_cast<size_t>(end - until_end)) != ".json") {
    return std::nullopt;
  }
  return range;
}

}  // namespace firn::hyp
