// What sinks have delivered, read as a reader of the destination would.
#include <algorithm>
#include <fstream>
#include <sstream>

#include "base/arrow_status.h"
#include "base/uri.h"
#include "hyp/cache/table_opens.h"
#include "hyp/model/world/world.h"
#include "hyp/sink/driver.h"
#include "hyp/sink/offsets.h"
#include "hyp/sink/sink_box.h"
#include "hyp/sink/unit.h"
#include "hyp/sink/watermark.h"
#include "iceberg/maintain/expire_snapshots.h"
#include "iceberg/scan/appends.h"
#include "iceberg/scan/row_json.h"

namespace firn::hyp::model {
namespace {

bool takes(const SinkConfig& sink, const std::string& dataset) {
  return sink.datasets.empty() || std::find(sink.datasets.begin(), sink.datasets.end(), dataset) != sink.datasets.end();
}

std::vector<std::string> contents_of(arrow::RecordBatchReader& rows, const iceberg::Schema& schema) {
  std::vector<std::string> contents;
  for (const std::string& row : rows_of(rows, schema)) contents.push_back(canonical_row(row));
  return contents;
}

}  // namespace

void World::sink_step(const Step& step) {
  const SinkConfig& sink = config_.sinks[static_cast<size_t>(step.arg("sink"))];
  if (running_sink_ == &sink) return;  // it would wait
  SinkRunOptions options;
  if (step.arg("partition") != 0) {
    const std::vector<PartitionId> ids = partitions_of(step);
    if (ids.empty() || !takes(sink, ids.front().dataset)) return;
    options.partition = ids.front();
  }
  std::map<PartitionId, int64_t> last_seqs;
  for (const auto& [id, partition] : model_.partitions) last_seqs[id] = partition.last_seq;
  SinkRunReport report;
  const auto* const outer_sink = std::exchange(running_sink_, &sink);
  const bool is_done = survives(step, [&] { report = run_sink(cache(step), sink, options); });
  running_sink_ = outer_sink;
  if (!is_done) make_durable(sink.path);
  read_exports(sink);
  for (auto& [id, state] : model_.exports[sink.name]) state.under_way.clear();
  if (!is_done) return;
  for (const PartitionRun& run : report.partitions) {
    const std::string name = fmt::format("sink {}, {}", sink.name, run.partition.logical_path());
    if (!run.error.empty()) differ("{}: {} ({})", name, run.error, run.error_kind);
    const Export& state = model_.exports[sink.name][run.partition];
    const auto left = model_.partitions[run.partition].live(state.until);
    if (!left.empty() && left[0]->seq <= last_seqs[run.partition])
      differ("{}: after its run {} rows were not sent, the first {}", name, left.size(), left[0]->seq);
  }
}

// Reads what came since it was last read.
void World::read_exports(const SinkConfig& sink) {
  if (sink.kind == SinkKind::blob) {
    for (const PartitionId& id : partitions()) {
      if (takes(sink, id.dataset)) read_blobs(sink, id);
    }
    return;
  }
  for (const std::string& dataset : processes_[0].cache->datasets()) {
    if (takes(sink, dataset)) read_archive(sink, dataset);
  }
}

// What the running sink has announced and not committed yet, as its rows are now. Before others remove some of them.
void World::note_units_under_way() {
  read_exports(*running_sink_);
  for (const PartitionId& id : partitions()) {
    const auto watermark = load_watermark(watermark_path(config_.state_dir, running_sink_->name, id));
    if (!watermark || !watermark->pending) continue;
    Export& state = model_.exports[running_sink_->name][id];
    Export::UnderWay& unit = state.under_way.emplace_back();
    unit.until = watermark->pending->until;
    for (const Row* row : model_.partitions[id].live(state.until)) {
      if (row->seq <= unit.until) unit.contents.push_back(row->content);
    }
  }
}

// A unit ends at `until`: it must hold what was live after the unit before it.
void World::take_unit(const SinkConfig& sink, const PartitionId& id, int64_t until, std::vector<std::string> rows,
                      bool is_ordered) {
  Export& state = model_.exports[sink.name][id];
  const std::string name = fmt::format("sink {}, {} in ({}, {}]", sink.name, id.logical_path(), state.until, until);
  if (until <= state.until) differ("{}: units go back", name);
  std::vector<std::string> expected;
  for (const Row* row : model_.partitions[id].live(state.until)) {
    if (row->seq <= until) expected.push_back(row->content);
  }
  for (const Export::UnderWay& unit : state.under_way) {
    if (unit.until == until && unit.contents.size() == rows.size()) expected = unit.contents;
  }
  is_ordered ? expect_equal(name, rows, expected) : expect_same(name, rows, expected);
  state.contents.insert(state.contents.end(), expected.begin(), expected.end());
  state.until = until;
  ++state.units;
}

void World::read_blobs(const SinkConfig& sink, const PartitionId& id) {
  Export& state = model_.exports[sink.name][id];
  SequenceAllocator& sequence = processes_[0].cache->sequence();
  const std::string claims = fmt::format("{}/_firn/{}", sink.path, stream_of(sequence.cache_id(), id));
  const auto io = make_local_file_io();
  bool is_past = state.last_open.empty();
  const std::vector<OpenRange> opens = partition_opens(*processes_[0].cache, id);
  const bool is_known =
      std::any_of(opens.begin(), opens.end(), [&](const OpenRange& open) { return open.open_id == state.last_open; });
  for (const OpenRange& open : opens) {
    is_past = is_past || !is_known || open.open_id == state.last_open;
    if (!is_past) continue;
    int64_t since = open.open_id == state.last_open ? state.until : open.since_exclusive;
    while (const auto text = io->read_if_exists(fmt::format("{}/{}/{}.json", claims, open.open_id, since))) {
      const Json claim = Json::parse(*text);
      std::vector<std::string> rows;
      if (!claim["object"].is_null()) {
        for (const std::string& row : rows_of_blob(sink.path + "/" + claim["object"].get<std::string>())) {
          rows.push_back(canonical_row(row));
        }
      }
      since = get_seq(claim, "until", "a claim");
      take_unit(sink, id, since, std::move(rows), /*is_ordered=*/true);
      state.last_open = open.open_id;
    }
  }
}

void World::read_archive(const SinkConfig& sink, const std::string& dataset) {
  const auto io = make_local_file_io();
  const std::string location = fmt::format("{}/{}/{}", sink.path, sink.iceberg_namespace, dataset);
  if (!iceberg::filesystem_table_exists(*io, location)) return;
  const auto operations = iceberg::open_filesystem_table(io, location);
  const auto metadata = operations->load().metadata;
  std::vector<const iceberg::Snapshot*> fresh;
  int64_t& last = last_archived_[dataset];
  for (const auto* snapshot = metadata->current_snapshot(); snapshot != nullptr && snapshot->snapshot_id != last;) {
    fresh.push_back(snapshot);
    snapshot = snapshot->parent_snapshot_id ? metadata->find_snapshot(*snapshot->parent_snapshot_id) : nullptr;
  }
  std::reverse(fresh.begin(), fresh.end());
  const std::string cache_id = processes_[0].cache->sequence().cache_id();
  for (const iceberg::Snapshot* snapshot : fresh) {
    const auto id = [&]() -> PartitionId {
      for (const PartitionId& one : partitions()) {
        if (stream_of(cache_id, one) == snapshot->summary.at("firn.stream")) return one;
      }
      differ("{}: a snapshot of the stream {}", location, snapshot->summary.at("firn.stream"));
    }();
    iceberg::AppendRange range;
    range.from_snapshot_id = range.to_snapshot_id = snapshot->snapshot_id;
    range.from_inclusive = true;
    iceberg::ScanOptions options;
    options.threads = 1;
    const auto plan = std::make_shared<const iceberg::ScanPlan>(iceberg::plan_appends(*metadata, io, range, options));
    const auto rows = iceberg::read_tasks(plan, io, options);
    take_unit(sink, id, std::stoll(snapshot->summary.at("firn.until")), contents_of(*rows, plan->projection),
              /*is_ordered=*/false);
    last = snapshot->snapshot_id;
  }
}

// All of them, from their start; nothing is there beside what was read unit by unit.
void World::check_exports() {
  for (const SinkConfig& sink : config_.sinks) {
    read_exports(sink);
    size_t units = 0;
    std::map<std::string, std::vector<std::string>> expected;  // by dataset
    for (auto& [id, state] : model_.exports[sink.name]) {
      units += state.units;
      auto& contents = expected[id.dataset];
      contents.insert(contents.end(), state.contents.begin(), state.contents.end());
    }
    if (sink.kind == SinkKind::blob) {
      const size_t claims = claims_of(sink.path).size();
      if (claims != units) differ("sink {}: {} claims where {} units were seen", sink.name, claims, units);
      continue;
    }
    for (auto& [dataset, contents] : expected) {
      if (contents.empty()) continue;
      const auto table = archive_table(sink.path, dataset);
      const auto rows = iceberg::scan(*table.metadata, make_local_file_io(), {});
      expect_same("the archive of " + dataset, contents_of(*rows, table.metadata->schema()), contents);
    }
  }
}

void World::expire_archive(const Step& step) {
  const SinkConfig& sink = config_.sinks.back();
  for (const std::string& dataset : cache(step).datasets()) {
    const std::string location = fmt::format("{}/{}/{}", sink.path, sink.iceberg_namespace, dataset);
    if (!iceberg::filesystem_table_exists(*make_local_file_io(), location)) continue;
    iceberg::ExpireOptions options;
    options.older_than_ms = clock_ms_;
    options.threads = 1;
    const bool is_done = survives(step, [&] {
      iceberg::expire_snapshots(*iceberg::open_filesystem_table(make_local_file_io(), location), options);
    });
    if (!is_done) return;
  }
}

}  // namespace firn::hyp::model
