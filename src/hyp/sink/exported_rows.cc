#include "hyp/sink/exported_rows.h"

#include <algorithm>

#include "hyp/sink/exported_archive.h"
#include "hyp/sink/exported_blobs.h"

namespace firn::hyp {

const SinkConfig* find_queryable_sink(const Config& config, const std::string& dataset) {
  for (const SinkConfig& sink : config.sinks) {
    const bool ships =
        sink.datasets.empty() || std::find(sink.datasets.begin(), sink.datasets.end(), dataset) != sink.datasets.end();
    if (sink.queryable && ships) return &sink;
  }
  return nullptr;
}

ExportsSeen look_at_exports(const std::shared_ptr<FileIO>& io, const SinkConfig& sink, const std::string& dataset,
                            std::shared_ptr<const ClaimList> claims) {
  ExportsSeen seen;
  if (sink.kind == SinkKind::blob) {
    seen.claims = std::move(claims);
  } else if (const std::string location = archive_location(sink, dataset);
             iceberg::filesystem_table_exists(*io, location)) {
    seen.archive = iceberg::open_filesystem_table(io, location);
    seen.archive_before = seen.archive->load();
  }
  return seen;
}

std::optional<Exports> find_exports(const std::shared_ptr<FileIO>& io, const SinkConfig& sink,
                                    const std::string& dataset, const ExportsSeen& before,
                                    const std::string& own_streams, const std::vector<HeldStream>& held) {
  if (sink.kind == SinkKind::blob) return find_blobs(io, sink, dataset, *before.claims, own_streams, held);
  return find_archive(io, archive_location(sink, dataset), before, own_streams, held);
}

void fail_unlisted(const HeldStream& held, const std::string& where) {
  fail(
      ErrorKind::corrupt,
      "{}: the cache has rows of {} with sequence numbers up to {} that no open in its _hyp_ingest_seq.json issued, so "
      "which of them are there cannot be told. That file was lost: restore it from a backup, or take \"queryable\" "
      "from "
      "the sink to read what the cache has",
      where, held.stream, held.unlisted->until);
}

std::vector<SentRange> joined(std::vector<SentRange> ranges) {
  std::erase_if(ranges, [](const SentRange& range) { return range.since_exclusive >= range.until; });
  std::sort(ranges.begin(), ranges.end(),
            [](const SentRange& a, const SentRange& b) { return a.since_exclusive < b.since_exclusive; });
  std::vector<SentRange> apart;
  for (const SentRange& range : ranges) {
    if (apart.empty() || apart.back().until < range.since_exclusive) {
      apart.push_back(range);
    } else {
      apart.back().until = std::max(apart.back().until, range.until);
    }
  }
  return apart;
}

}  // namespace firn::hyp
