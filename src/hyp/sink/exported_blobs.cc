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

void add_claim(ClaimList& claims, std::string_view path_below_root) {
  const size_t name_at = path_below_root.rfind('/');
  if (name_at == std::string_view::npos) return;
  const std::string_view folder = path_below_root.substr(0, name_at), name = path_below_root.substr(name_at + 1);
  if (std::count(folder.begin(), folder.end(), '/') != 3) return;
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

struct Claim {
  int64_t since = 0, until = 0;
  std::string object;  // relative to the prefix; empty: the range was skipped, or nothing was left of it
  int64_t rows = 0;
};

std::optional<Claim> read_claim(FileIO& io, const std::string& path, int64_t since) {
  const auto text = io.read_if_exists(path);
  if (!text) return std::nullopt;
  const Json json = parse_json(*text, path);
  Claim claim{since, get_seq(json, "until", path), find_string(json, "object", path).value_or(""),
              get_int64(json, "rows", path)};
  if (claim.until <= since) fail(ErrorKind::corrupt, "{}: its until, {}, is not above {}", path, claim.until, since);
  return claim;
}

// The claims of one open of a stream, one beginning where the one before ends.
class Chain {
 public:
  Chain(FileIO& io, std::string folder) : io_(io), folder_(std::move(folder)) {}

  void add(Claim claim) {
    // A listing taken while claims are put may have a later one without an earlier one.
    while (!claims_.empty() && claims_.back().until < claim.since) {
      const int64_t since = claims_.back().until;
      auto missed = read_claim(io_, fmt::format("{}/{}.json", folder_, since), since);
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

  const std::vector<Claim>& claims() const { return claims_; }

 private:
  FileIO& io_;
  std::string folder_;
  std::vector<Claim> claims_;
};

// The columns of the last object of each open. Columns are only ever added to a partition, and a process that writes it
// sees those of the objects before: the last one has the columns of all.
iceberg::Schema columns_of(FileIO& io, const std::vector<std::string>& last_objects, const std::string& dataset) {
  std::vector<iceberg::Schema> schemas(last_objects.size());
  parallel_for(last_objects.size(), kReadersMax, [&](size_t i) { schemas[i] = read_blob_schema(io, last_objects[i]); });
  iceberg::Schema merged;
  std::set<std::string> known;  // most are alike
  for (size_t i = 0; i < schemas.size(); ++i) {
    if (!known.insert(schemas[i].as_struct()->to_string()).second) continue;
    merged = known.size() == 1 ? schemas[i] : merge_schemas(merged, schemas[i], dataset + ", " + last_objects[i]);
  }
  return merged;
}

}  // namespace

std::set<std::string> ClaimList::datasets() const {
  std::set<std::string> names;
  for (const auto& [folder, since] : since_by_folder) names.insert(decode_segment(dataset_of_folder(folder)));
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
  list_below(*io, root, own_streams.substr(0, own_streams.size() - 1), claims);

  struct Listed {
    const std::string* folder;
    int64_t since;
  };
  std::vector<Listed> listed;
  for (const auto& [folder, some] : claims.since_by_folder) {
    for (const int64_t since : some) listed.push_back({&folder, since});
  }
  std::vector<std::optional<Claim>> read(listed.size());
  parallel_for(listed.size(), kReadersMax, [&](size_t i) {
    read[i] = read_claim(*io, fmt::format("{}{}/{}.json", root, *listed[i].folder, listed[i].since), listed[i].since);
  });

  std::map<std::string, const HeldStream*> held_by_stream;
  for (const HeldStream& one : held) held_by_stream[one.stream] = &one;
  // What came after the first look has rows that were spooled when the tables were held, if it passes their last
  // number.
  const auto came_too_late = [&](const std::string& folder, const Claim& claim) {
    const auto known = before.since_by_folder.find(folder);
    if (known != before.since_by_folder.end() && known->second.contains(claim.since)) return false;
    if (!folder.starts_with(own_streams)) return false;
    const auto stream = held_by_stream.find(stream_of_folder(folder));
    return stream == held_by_stream.end() || claim.until > stream->second->max_seq;
  };

  Exports exports;
  std::vector<std::string> last_objects;
  const std::string prefix = iceberg::normal_location(sink.path);
  for (size_t i = 0; i < listed.size();) {
    const std::string& folder = *listed[i].folder;
    Chain chain(*io, root + folder);
    for (; i < listed.size() && listed[i].folder == &folder; ++i) {
      if (read[i]) chain.add(std::move(*read[i]));  // absent: a reset has just removed it
    }
    const auto stream = held_by_stream.find(stream_of_folder(folder));
    std::vector<SentRange> ranges;
    const size_t first_object = exports.objects.size();
    for (const Claim& claim : chain.claims()) {
      if (came_too_late(folder, claim)) break;
      if (claim.object.empty()) continue;
      exports.objects.push_back({join_path(prefix, claim.object), claim.rows});
      exports.rows += claim.rows;
      ranges.push_back({claim.since, claim.until});
    }
    if (exports.objects.size() > first_object) last_objects.push_back(exports.objects.back().path);
    if (stream == held_by_stream.end()) continue;
    const std::string open_segment = folder.substr(folder.rfind('/') + 1);
    std::vector<SentRange>& sent = exports.sent[stream->first];
    for (const OpenRange& open : stream->second->opens) {
      if (encode_segment(open.open_id) != open_segment) continue;
      for (const SentRange& range : ranges) {  // numbers beyond our rows of the open are another copy's
        sent.push_back({std::max(range.since_exclusive, open.since_exclusive), std::min(range.until, open.until)});
      }
    }
  }
  for (auto& [stream, sent] : exports.sent) sent = joined(std::move(sent));
  exports.schema = columns_of(*io, last_objects, dataset);
  return exports;
}

iceberg::Schema read_blob_schema(FileIO& io, const std::string& path) {
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
