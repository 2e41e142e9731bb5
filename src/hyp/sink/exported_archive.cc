#include "hyp/sink/exported_archive.h"

#include <algorithm>

#include "base/error.h"
#include "base/uri.h"
#include "hyp/sink/offsets.h"

namespace firn::hyp {
namespace {

using iceberg::Snapshot;
using iceberg::TableMetadata;

std::string summary_text(const Snapshot& snapshot, const char* key) {
  const auto found = snapshot.summary.find(key);
  return found == snapshot.summary.end() ? "" : found->second;
}

// What main gained since the first look, oldest first. nullopt: it does not lead back there.
std::optional<std::vector<const Snapshot*>> snapshots_since(const TableMetadata& head, std::optional<int64_t> before) {
  std::vector<const Snapshot*> since;
  for (const Snapshot* step = head.current_snapshot(); step != nullptr;) {
    if (step->snapshot_id == before) break;
    since.push_back(step);
    const bool is_first = !step->parent_snapshot_id;
    step = is_first ? nullptr : head.find_snapshot(*step->parent_snapshot_id);
    if (step == nullptr && (before || !is_first)) return std::nullopt;
  }
  if (before && since.empty() && head.current_snapshot() == nullptr) return std::nullopt;
  std::reverse(since.begin(), since.end());
  return since;
}

// The unit that a snapshot brought.
struct UnitSnapshot {
  std::string stream;  // empty: it is no unit
  PendingUnit range;
};

UnitSnapshot unit_of(const Snapshot& snapshot) {
  UnitSnapshot unit;
  unit.stream = summary_text(snapshot, "firn.stream");
  unit.range.open_id = summary_text(snapshot, "firn.open");
  unit.range.until = std::atoll(summary_text(snapshot, "firn.until").c_str());
  return unit;
}

// Whether any of the held stream's unlisted rows may be in the table.
bool may_have_unlisted(const StreamOffsets& offsets, const HeldStream& held) {
  if (!held.unlisted) return false;
  if (offsets.forgot && *offsets.forgot > held.unlisted->since_exclusive) return true;
  return std::any_of(offsets.opens.begin(), offsets.opens.end(), [&](const auto& there) {
    const auto is_it = [&](const OpenRange& open) { return open.open_id == there.first; };
    return there.second > held.unlisted->since_exclusive && std::none_of(held.opens.begin(), held.opens.end(), is_it);
  });
}

// Numbers of the held stream's rows that the table has, by what it says of the stream.
std::vector<SentRange> sent_ranges(const StreamOffsets& offsets, const HeldStream& held, const std::string& location) {
  std::vector<SentRange> sent;
  const auto add = [&](const OpenRange& open, int64_t last) {
    int64_t since = open.since_exclusive;
    for (const SkippedRows& skipped : offsets.skipped) {
      if (skipped.open_id != open.open_id) continue;
      sent.push_back({since, std::min({skipped.since, last, open.until})});
      since = std::max(since, skipped.until);
    }
    sent.push_back({since, std::min(last, open.until)});
  };
  const auto is_listed = [&](const OpenRange& open) { return offsets.opens.contains(open.open_id); };
  const auto has_rows = [&](const OpenRange& open) {  // after a rollback one may be listed without
    return is_listed(open) && offsets.opens.at(open.open_id) > open.since_exclusive;
  };
  if (may_have_unlisted(offsets, held)) fail_unlisted(held, location);
  for (auto open = held.opens.begin(); open != held.opens.end(); ++open) {
    if (is_listed(*open)) {
      add(*open, offsets.opens.at(open->open_id));
      continue;
    }
    if (!offsets.forgot || *offsets.forgot <= open->since_exclusive) continue;  // it never had rows of the open
    // Rows go in the order of their numbers: where it has some of a later open, it has all of this one (P10.7).
    if (std::none_of(open, held.opens.end(), has_rows)) {
      fail(ErrorKind::destination_forgot,
           "{}: it keeps the last {} opens of a stream, and whether it has rows of {} of open {} it no longer knows. "
           "Take \"queryable\" from the sink, or give it another name and another path",
           location, kOpensKept, held.stream, open->open_id);
    }
    add(*open, *offsets.forgot);
  }
  return joined(std::move(sent));
}

// What the table has of the held streams; after a rollback that is less than its properties say.
std::map<std::string, StreamOffsets> offsets_of(const TableMetadata& table, const std::vector<HeldStream>& held) {
  std::map<std::string, StreamOffsets> offsets;
  for (const HeldStream& stream : held) {
    StreamOffsets& of_stream = offsets[stream.stream] = read_offsets(table, stream.stream);
    if (!is_rolled_back(table, of_stream)) continue;
    auto left = offsets_in_history(table, stream.stream, of_stream);
    if (!left) {
      fail(
          ErrorKind::destination_behind,
          "{}: it was rolled back, and which rows of {} are left cannot be told, since the snapshots that brought them "
          "have expired. Take \"queryable\" from the sink, or give it another name and another path",
          table.location, stream.stream);
    }
    of_stream = std::move(*left);
  }
  return offsets;
}

}  // namespace

std::string archive_location(const SinkConfig& sink, const std::string& dataset) {
  return iceberg::normal_location(join_path(join_path(sink.path, sink.iceberg_namespace), encode_segment(dataset)));
}

std::optional<Exports> find_archive(const std::shared_ptr<FileIO>& io, const std::string& location,
                                    const ExportsSeen& before, const std::string& own_streams,
                                    const std::vector<HeldStream>& held) {
  Exports exports;
  exports.archive = before.archive;
  if (!exports.archive) {
    if (!iceberg::filesystem_table_exists(*io, location)) return exports;
    exports.archive = iceberg::open_filesystem_table(io, location);
  }
  const TableMetadata empty;
  const TableMetadata& seen = before.archive_before ? *before.archive_before->metadata : empty;
  exports.archive_metadata = exports.archive->load().metadata;
  const TableMetadata& head = *exports.archive_metadata;
  const auto since = snapshots_since(head, seen.current_snapshot_id);
  if (!since) return std::nullopt;

  // A unit that came since the first look is taken if the held tables had all of its rows. One that passes their last
  // number has rows that were spooled then: the cut of the archive is before it, and the cache gives what is in it.
  // That is so for what follows, too, unless it may have left the cache before the tables were held.
  const auto had_all = [&](const UnitSnapshot& unit) {
    const auto has_name = [&](const HeldStream& stream) { return stream.stream == unit.stream; };
    const auto stream = std::find_if(held.begin(), held.end(), has_name);
    return stream != held.end() && unit.range.until <= stream->max_seq;
  };
  std::map<std::string, StreamOffsets> offsets = offsets_of(seen, held);
  size_t taken = 0;
  for (; taken < since->size(); ++taken) {
    const UnitSnapshot unit = unit_of(*(*since)[taken]);
    if (!unit.stream.starts_with(own_streams)) continue;
    if (!had_all(unit)) break;
    offsets[unit.stream] = advanced(std::move(offsets[unit.stream]), unit.range);
  }
  if (taken == since->size()) offsets = offsets_of(head, held);  // with what moved them without rows
  for (size_t i = taken; i < since->size(); ++i) {
    if (had_all(unit_of(*(*since)[i]))) return std::nullopt;
  }

  const Snapshot* snapshot = head.current_snapshot();
  exports.schema = head.schema();
  if (taken < since->size()) {
    exports.archive_snapshot = taken > 0 ? std::optional((*since)[taken - 1]->snapshot_id) : seen.current_snapshot_id;
    snapshot = exports.archive_snapshot ? head.find_snapshot(*exports.archive_snapshot) : nullptr;
    if (snapshot != nullptr && snapshot->schema_id) exports.schema = head.schema(*snapshot->schema_id);
  }
  if (snapshot == nullptr) return Exports();
  exports.rows = std::atoll(summary_text(*snapshot, "total-records").c_str());
  for (const HeldStream& stream : held) {
    exports.sent[stream.stream] = sent_ranges(offsets[stream.stream], stream, location);
  }
  return exports;
}

}  // namespace firn::hyp
