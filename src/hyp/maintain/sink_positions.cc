#include "hyp/maintain/sink_positions.h"

#include <algorithm>

#include "base/uri.h"
#include "hyp/cache/layout.h"
#include "hyp/sink/unit.h"
#include "hyp/sink/watermark.h"

namespace firn::hyp {
namespace {

bool exports(const SinkConfig& sink, const std::string& dataset) {
  return sink.datasets.empty() || std::find(sink.datasets.begin(), sink.datasets.end(), dataset) != sink.datasets.end();
}

}  // namespace

std::vector<SinkPosition> sink_positions(const Config& config, const PartitionId& partition) {
  std::vector<SinkPosition> positions;
  std::optional<std::string> stream;
  for (const SinkConfig& sink : config.sinks) {
    if (!exports(sink, partition.dataset)) continue;
    SinkPosition& position = positions.emplace_back();
    position.sink = sink.name;
    try {
      const auto watermark = load_watermark(watermark_path(config.state_dir, sink.name, partition));
      if (!watermark) continue;
      if (!stream) {
        const auto cursor = read_cursor(join_path(config.cache_root, partition.logical_path()));
        stream = cursor ? stream_of(cursor->cache_id, partition) : "";
      }
      // Of another cache: the sink passes it over and begins anew.
      if (!watermark->stream.empty() && watermark->stream != *stream) continue;
      position.passed = watermark->seq;
      if (watermark->pending) position.pending = {watermark->pending->since, watermark->pending->until};
    } catch (const Error& e) {
      position.problem = e.what();
    }
  }
  std::sort(positions.begin(), positions.end(),
            [](const SinkPosition& a, const SinkPosition& b) { return a.sink < b.sink; });
  return positions;
}

}  // namespace firn::hyp
