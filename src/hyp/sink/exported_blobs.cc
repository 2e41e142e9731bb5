#include "hyp/sink/exported_blobs.h"

#include <algorithm>
#include <charconv>

#include <parquet/arrow/schema.h>
#include <parquet/exception.h>
#include <parquet/file_reader.h>

#include "base/error.h"
#include "base/json.h"
#include "base/parallel.h"
#include "base/uri.h"
#include "hyp/cache/visible_schema.h"
#include "hyp/sink/watermark.h"
#include "iceberg/parquet/arrow_schema.h"

namespace firn::hyp {
namespace {

constexpr int kReadersMax = 16;  // of small files: what they wait for is the disk or the network

std::string claims_root(const SinkConfig& sink) {
  return join_path(iceberg::normal_location(sink.path), "_firn") + "/";
}

// "<cacheId>/<dataset>/<partition key>" of "<cacheId>/<dataset>/<partition key>/<openId>".
std::string stream_of_folder(const std::string& folder) { return folder.substr(0, folder.rfind('/')); }

// The encoded dataset of such a folder.
std::string dataset_of_folder(const std::string& folder) {
  const size_t begin = folder.find('/') + 1;
  return folder.substr(begin, folder.find('/', begin) - begin);
}

bool is_folder_of_open(std::string_view folder) { return std::count(folder.begin(), folder.end(), '/') == 3; }

void add_claim(ClaimList& claims, std::string_view path_below_root) {
  const size_t name_at = path_below_root.rfind('/');
  if (name_at == std::string_view::npos) return;
  std::string_view folder = path_below_root.substr(0, name_at);
  const std::string_view name = path_below_root.substr(name_at + 1);
  if (const std::string old = old_claims_folder(""); folder.ends_with(old)) {
    folder.remove_suffix(old.size());
    const auto range = old_claim_range(name);
    if (range && is_folder_of_open(folder)) claims.old_by_folder[std::string(folder)].insert(*range);
    return;
  }
  if (!is_folder_of_open(folder)) return;
  int64_t since = 0;
  const auto [stop, error] = std::from_chars(name.data(), name.data() + name.size(), since);
  if (error != std::errc() || std::string_view(stop, name.data() + name.size() - stop) != ".json") return;
  claims.since_by_folder[std::string(folder)].insert(since);
}

void list_below(FileIO& io, const std::string& root, const std::string& folder, ClaimList& claims) {
  for (const FileInfo& file : io.list(root.substr(0, root.size() - 1) + (folder.empty() ? "" : "/" + folder), true)) {
    add_claim(claims, std::string_view(file.path).substr(root.size()));
  }
}

// The claims of one open of a stream, one beginning where the one before ends.
class Chain {
 public:
  Chain(FileIO& io, std::string folder) : io_(io), folder_(std::move(folder)) {}

  void add(BlobClaim claim) {
    // A listing taken while claims are put may have a later one without an earlier one.
    while (!claims_.empty() && claims_.back().until < claim.since) {
      const int64_t since = claims_.back().until;
      auto missed = read_blob_claim(io_, fmt::format("{}/{}.json", folder_, since), since);
      if (!missed) {
        fail(ErrorKind::corrupt,
             "{}: there is a claim from {} on, but none that leads to it from {}: claims were removed there, so that "
             "which rows are at the destination cannot be told. Restore them, or take \"queryable\" from the sink",
             folder_, claim.since, since);
      }
      claims_.push_back(std::move(*missed));
    }
    if (!claims_.empty() && claims_.back().until > claim.since) {
      fail(ErrorKind::corrupt,
           "{}: the claim from {} on begins before the one from {} ends, at {}. Run it again if a "
           "reset of the sink is going on",
           folder_, claim.since, claims_.back().since, claims_.back().until);
    }
    claims_.push_back(std::move(claim));
  }

  const std::vector<BlobClaim>& claims() const { return claims_; }

 private:
  FileIO& io_;
  std::string folder_;
  std::vector<BlobClaim> claims_;
};

struct FolderClaims {
  std::vector<BlobClaim> chain, old;  // ascending
};

struct ListedClaim {
  const std::string* folder;
  int64_t since;
  std::string path;
};
std::vector<std::optional<BlobClaim>> read_listed(FileIO& io, const std::vector<ListedClaim>& listed) {
  std::vector<std::optional<BlobClaim>> read(listed.size());
  parallel_for(listed.size(), kReadersMax,
               [&](size_t i) { read[i] = read_blob_claim(io, listed[i].path, listed[i].since); });
  return read;
}

std::map<std::string, FolderClaims> read_claims(FileIO& io, const std::string& root, ClaimList& claims) {
  std::map<std::string, FolderClaims> folders;
  std::vector<ListedClaim> listed;
  for (const auto& [folder, some] : claims.since_by_folder) {
    for (const int64_t since : some)
      listed.push_back({&folder, since, fmt::format("{}{}/{}.json", root, folder, since)});
  }
  std::vector<std::optional<BlobClaim>> read = read_listed(io, listed);
  for (size_t i = 0; i < listed.size();) {
    const std::string& folder = *listed[i].folder;
    Chain chain(io, root + folder);
    bool is_reset = false;
    for (; i < listed.size() && listed[i].folder == &folder; ++i) {
      is_reset = is_reset || !read[i];
      if (read[i]) chain.add(std::move(*read[i]));
    }
    folders[folder].chain = chain.claims();
    if (is_reset) list_below(io, root, old_claims_folder(folder), claims);  // what went is there by now
  }
  listed.clear();
  for (const auto& [folder, some] : claims.old_by_folder) {
    for (const ClaimRange& range : some) {
      const BlobClaim name{range.since_exclusive, range.until, std::nullopt, "", 0};
      listed.push_back({&folder, range.since_exclusive, old_claim_path(root + folder, name)});
    }
  }
  read = read_listed(io, listed);
  for (size_t i = 0; i < listed.size(); ++i) {
    if (read[i]) folders[*listed[i].folder].old.push_back(std::move(*read[i]));
  }
  return folders;
}

// The claims of one open whose objects give the rows (blob_claims.h).
struct Visible {
  std::vector<BlobClaim> chain, old;
};

// The first of `claims`, which are ascending and apart from each other, that ends above `seq`.
std::vector<BlobClaim>::const_iterator first_above(const std::vector<BlobClaim>& claims, int64_t seq) {
  return std::upper_bound(claims.begin(), claims.end(), seq,
                          [](int64_t number, const BlobClaim& claim) { return number < claim.until; });
}

Visible visible_claims(const std::vector<BlobClaim>& chain, std::vector<BlobClaim> old) {
  Visible visible;
  std::erase_if(old, [&](const BlobClaim& range) {
    int64_t rows = 0;
    for (auto claim = first_above(chain, range.since_of_rows());
         claim != chain.end() && claim->since_of_rows() < range.until; ++claim) {
      rows += claim->rows;
    }
    return rows >= range.rows;
  });
  for (const BlobClaim& claim : chain) {
    if (claim.object.empty()) continue;
    const auto range = first_above(old, claim.since_of_rows());
    if (range == old.end() || range->since_of_rows() >= claim.until) visible.chain.push_back(claim);
  }
  visible.old = std::move(old);
  return visible;
}

// What claims say of opens that nobody lists, of one held stream (HeldStream::unlisted).
struct UnlistedOpens {
  std::vector<SentRange> opens;  // from the first number of each, less one, to the last one claimed
  std::vector<SentRange> ranges;
  bool is_passed = false;  // there are claims of a listed open: all before it went the same way
};

// Throws where they may be those of a copy of the cache, that issued the same numbers.
void add_unlisted(std::vector<SentRange>& sent, const HeldStream& held, UnlistedOpens found, const std::string& where) {
  const auto clip = [&](std::vector<SentRange>& ranges) {
    for (SentRange& range : ranges) {
      range.since_exclusive = std::max(range.since_exclusive, held.unlisted->since_exclusive);
      range.until = std::min(range.until, held.unlisted->until);
    }
    std::erase_if(ranges, [](const SentRange& range) { return range.since_exclusive >= range.until; });
    std::sort(ranges.begin(), ranges.end(),
              [](const SentRange& a, const SentRange& b) { return a.since_exclusive < b.since_exclusive; });
  };
  clip(found.opens);
  if (found.opens.empty()) return;
  const auto overlaps = [](const SentRange& a, const SentRange& b) { return b.since_exclusive < a.until; };
  const bool is_of_copies = std::adjacent_find(found.opens.begin(), found.opens.end(), overlaps) != found.opens.end();
  if (is_of_copies || !found.is_passed) fail_unlisted(held, where);
  clip(found.ranges);
  sent.insert(sent.end(), found.ranges.begin(), found.ranges.end());
}

// Of the columns of these objects, for each open the last of its chain and of its old claims. Columns are only ever
// added to a partition, and a process that writes it sees those of the objects before: the last one has the columns of
// all.
iceberg::Schema columns_of(FileIO& io, const std::vector<ExportedObject>& last_objects, const std::string& dataset) {
  std::vector<iceberg::Schema> schemas(last_objects.size());
  parallel_for(last_objects.size(), kReadersMax, [&](size_t i) { schemas[i] = read_blob_schema(io, last_objects[i]); });
  iceberg::Schema merged;
  std::set<std::string> known;  // most are alike
  for (size_t i = 0; i < schemas.size(); ++i) {
    if (!known.insert(schemas[i].as_struct()->to_string()).second) continue;
    merged = known.size() == 1 ? schemas[i] : merge_schemas(merged, schemas[i], dataset + ", " + last_objects[i].path);
  }
  return merged;
}

}  // namespace

std::set<std::string> ClaimList::datasets() const {
  std::set<std::string> names;
  for (const auto& [folder, since] : since_by_folder) names.insert(decode_segment(dataset_of_folder(folder)));
  for (const auto& [folder, old] : old_by_folder) names.insert(decode_segment(dataset_of_folder(folder)));
  return names;
}

ClaimList list_claims(FileIO& io, const SinkConfig& sink) {
  ClaimList claims;
  list_below(io, claims_root(sink), "", claims);
  return claims;
}

Exports find_blobs(const std::shared_ptr<FileIO>& io, const SinkConfig& sink, const std::string& dataset,
                   const ClaimList& before, const std::string& own_streams, const std::vector<HeldStream>& held) {
  const std::string root = claims_root(sink), dataset_segment = encode_segment(dataset);
  ClaimList claims;
  for (const auto& [folder, since] : before.since_by_folder) {
    if (dataset_of_folder(folder) == dataset_segment) claims.since_by_folder.emplace(folder, since);
  }
  for (const auto& [folder, old] : before.old_by_folder) {
    if (dataset_of_folder(folder) == dataset_segment) claims.old_by_folder.emplace(folder, old);
  }
  list_below(*io, root, own_streams.substr(0, own_streams.size() - 1), claims);
  std::map<std::string, FolderClaims> folders = read_claims(*io, root, claims);

  std::map<std::string, const HeldStream*> held_by_stream;
  for (const HeldStream& one : held) held_by_stream[one.stream] = &one;
  // What came after the first look has rows that were spooled when the tables were held, if it passes their last
  // number.
  const auto came_too_late = [&](const std::string& folder, const BlobClaim& claim) {
    const auto known = before.since_by_folder.find(folder);
    if (known != before.since_by_folder.end() && known->second.contains(claim.since)) return false;
    if (!folder.starts_with(own_streams)) return false;
    const auto stream = held_by_stream.find(stream_of_folder(folder));
    return stream == held_by_stream.end() || claim.until > stream->second->max_seq;
  };
  const auto old_came_too_late = [&](const std::string& folder, const BlobClaim& claim) {
    const auto known = before.old_by_folder.find(folder);
    const ClaimRange range{claim.since_of_rows(), claim.until};
    const bool is_known = known != before.old_by_folder.end() && known->second.contains(range);
    return !is_known && came_too_late(folder, claim);
  };

  Exports exports;
  std::vector<ExportedObject> last_objects;
  std::map<std::string, UnlistedOpens> unlisted;
  const std::string prefix = iceberg::normal_location(sink.path);
  for (auto& [folder, some] : folders) {
    std::vector<BlobClaim> taken;
    for (const BlobClaim& claim : some.chain) {
      if (came_too_late(folder, claim)) break;
      taken.push_back(claim);
    }
    std::erase_if(some.old, [&, &of = folder](const BlobClaim& claim) { return old_came_too_late(of, claim); });
    const Visible visible = visible_claims(taken, std::move(some.old));
    std::vector<SentRange> ranges;
    for (const auto* part : {&visible.chain, &visible.old}) {
      for (const BlobClaim& claim : *part) {
        const std::string path = part == &visible.old ? old_claim_path(root + folder, claim)
                                                      : fmt::format("{}{}/{}.json", root, folder, claim.since);
        exports.objects.push_back({join_path(prefix, claim.object), claim.rows, path});
        exports.rows += claim.rows;
        ranges.push_back({claim.since_of_rows(), claim.until});
      }
      if (!part->empty()) last_objects.push_back(exports.objects.back());
    }
    const auto stream = held_by_stream.find(stream_of_folder(folder));
    if (stream == held_by_stream.end()) continue;
    const std::string open_segment = folder.substr(folder.rfind('/') + 1);
    std::vector<SentRange>& sent = exports.sent[stream->first];
    bool is_listed = false;
    for (const OpenRange& open : stream->second->opens) {
      if (encode_segment(open.open_id) != open_segment) continue;
      is_listed = true;
      for (const SentRange& range : ranges) {  // numbers beyond our rows of the open are another copy's
        sent.push_back({std::max(range.since_exclusive, open.since_exclusive), std::min(range.until, open.until)});
      }
    }
    if (!stream->second->unlisted || (taken.empty() && ranges.empty())) continue;
    UnlistedOpens& found = unlisted[stream->first];
    found.is_passed = found.is_passed || is_listed;
    if (is_listed) continue;
    std::vector<SentRange> whole = ranges;
    for (const BlobClaim& claim : taken) whole.push_back({claim.since, claim.until});
    const std::vector<SentRange> all = joined(std::move(whole));
    found.opens.push_back({all.front().since_exclusive, all.back().until});
    found.ranges.insert(found.ranges.end(), ranges.begin(), ranges.end());
  }
  for (auto& [stream, found] : unlisted) {
    add_unlisted(exports.sent[stream], *held_by_stream.at(stream), std::move(found), sink.path);
  }
  for (auto& [stream, sent] : exports.sent) sent = joined(std::move(sent));
  exports.schema = columns_of(*io, last_objects, dataset);
  return exports;
}

iceberg::Schema read_blob_schema(FileIO& io, const ExportedObject& object) {
  const std::string& path = object.path;
  if (!path.ends_with(".parquet")) {
    fail(ErrorKind::unsupported,
         "{} is no Parquet: queries read Parquet blobs alone. Give the Parquet sink another path, or take "
         "\"queryable\" from it",
         path);
  }
  std::shared_ptr<arrow::io::RandomAccessFile> file;
  try {
    file = io.open(path);
  } catch (const Error& e) {
    if (e.kind() != ErrorKind::not_found) throw;
    throw Error(ErrorKind::not_found,
                fmt::format("{} is gone, although its claim says that it was exported: its rows cannot be read. "
                            "Restore it, or take \"queryable\" from the sink to read what the cache has",
                            path),
                e);
  }
  try {
    const auto footer = parquet::ReadMetaData(file);
    if (footer->num_rows() != object.rows) {
      fail(ErrorKind::corrupt,
           "{} has {} rows, and its claim {} says {}: it was changed after it was exported. Restore it, or take "
           "\"queryable\" from the sink to read what the cache has",
           path, footer->num_rows(), object.claim, object.rows);
    }
    parquet::ArrowReaderProperties properties;
    properties.set_arrow_extensions_enabled(true);  // else a uuid is like any 16 bytes
    std::shared_ptr<arrow::Schema> columns;
    PARQUET_THROW_NOT_OK(parquet::arrow::FromParquetSchema(footer->schema(), properties, &columns));
    return iceberg::from_arrow_schema(*columns);
  } catch (const parquet::ParquetException& e) {
    throw Error(ErrorKind::corrupt, "read " + path, e);
  }
}

}  // namespace firn::hyp
