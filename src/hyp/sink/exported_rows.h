// What the destination of a queryable sink holds of a dataset, so that a reader of the cache takes from there what the
// cache may no longer have, each row once (P13.1, P12's last sentence).
//
// Rows only move from the cache to a destination. A reader looks at the destination, holds the cache's tables, and then
// asks what the destination gives: what it had at the first look, and of what came since what the held tables had (the
// rest has rows that were spooled when the tables were held, and is left to the cache). Of a stream of this cache that
// is a set of numbers, by open (P10.5); the cache gives all others. Rows of other streams, of another cache or of a
// partition that is gone, come from the destination alone.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "hyp/cache/sequence.h"
#include "hyp/config.h"
#include "hyp/sink/blob_claims.h"
#include "iceberg/catalog/catalog.h"
#include "iceberg/schema.h"
#include "io/file_io.h"

namespace firn::hyp {

// The sink whose destination a query of the dataset reads: the first configured one that is queryable and ships it. Of
// several, one is read: a row may be at each of them. nullptr: none.
const SinkConfig* find_queryable_sink(const Config& config, const std::string& dataset);

// Where an Iceberg sink has the dataset's table.
std::string archive_location(const SinkConfig& sink, const std::string& dataset);

// The claims below a blob sink's prefix, of all datasets.
struct ClaimList {
  // By folder, "<stream>/<openId>" encoded as in the path: the number that each claim there begins behind.
  std::map<std::string, std::set<int64_t>> since_by_folder;
  // By the same folder: the ranges of claims that a reset took back (blob_claims.h).
  std::map<std::string, std::set<ClaimRange>> old_by_folder;

  std::set<std::string> datasets() const;
};
ClaimList list_claims(FileIO& io, const SinkConfig& sink);

// The destination at the first look. What it needs of a blob sink is the same for all datasets.
struct ExportsSeen {
  std::shared_ptr<const ClaimList> claims;             // blobs
  std::shared_ptr<iceberg::TableOperations> archive;   // nullptr: no table was there
  std::optional<iceberg::LoadedTable> archive_before;  // its head
};
ExportsSeen look_at_exports(const std::shared_ptr<FileIO>& io, const SinkConfig& sink, const std::string& dataset,
                            std::shared_ptr<const ClaimList> claims);

// Numbers (since_exclusive, until].
struct SentRange {
  int64_t since_exclusive = 0;
  int64_t until = 0;
  bool operator==(const SentRange&) const = default;
};

// A partition of this cache as the reader holds it.
struct HeldStream {
  std::string stream;            // stream_of()
  std::vector<OpenRange> opens;  // ascending; all that its rows may belong to, but for those of `unlisted`
  int64_t max_seq = 0;           // rows that come to it later have higher numbers (P5.2)
  // It has rows of these numbers, below all of `opens`, whose opens nobody lists: the sequence file was lost.
  std::optional<SentRange> unlisted;
};

struct ExportedObject {
  std::string path;
  int64_t rows = 0;
  std::string claim;  // the path of the claim that says so
};

struct Exports {
  iceberg::Schema schema;  // the columns that the rows may have; ids are of no table
  int64_t rows = 0;        // about
  // One of the two, or neither where nothing was exported.
  std::vector<ExportedObject> objects;
  std::shared_ptr<iceberg::TableOperations> archive;
  std::shared_ptr<const iceberg::TableMetadata> archive_metadata;
  std::optional<int64_t> archive_snapshot;  // to be read; nullopt: the head, under the table's schema
  // By stream of the held ones: the numbers whose rows the destination gives; ascending, apart from each other.
  std::map<std::string, std::vector<SentRange>> sent;
};

// `own_streams` begins the streams of this cache in the dataset, held or not: "<cacheId>/<dataset>/". nullopt: the
// destination changed so that no cut of it fits the held tables; let them go, look again, and hold them anew. Throws
// corrupt where claims are missing between others, and where it cannot be told which of the unlisted rows are there;
// destination_behind and destination_forgot where an archive no longer
// tells whether rows are there (P10.6, P10.7).
std::optional<Exports> find_exports(const std::shared_ptr<FileIO>& io, const SinkConfig& sink,
                                    const std::string& dataset, const ExportsSeen& before,
                                    const std::string& own_streams, const std::vector<HeldStream>& held);

// The columns of a blob in Parquet, as the file has them. Throws not_found, corrupt (also where it has another number
// of rows than its claim says), unsupported naming it.
iceberg::Schema read_blob_schema(FileIO& io, const ExportedObject& object);

// Of the stream's unlisted rows it cannot be told which are at `where`.
[[noreturn]] void fail_unlisted(const HeldStream& held, const std::string& where);

// Joins ranges that touch or overlap; ascending.
std::vector<SentRange> joined(std::vector<SentRange> ranges);

}  // namespace firn::hyp
