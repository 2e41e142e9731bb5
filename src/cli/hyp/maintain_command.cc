// maintain.
#include <ostream>

#include "base/civil_time.h"
#include "base/clock.h"
#include "cli/hyp/command.h"
#include "hyp/maintain/maintain.h"

namespace firn::hyp {
namespace {

Json named_json(const PartitionId& partition) { return {{"dataset", partition.dataset}, {"source", partition.source}}; }

Json to_json(const RetentionReport& report) {
  Json json = named_json(report.partition);
  if (report.cutoff_ms) json["cutoff"] = format_timestamp_ms_utc(*report.cutoff_ms);
  json["rowsRemoved"] = report.rows_removed;
  json["filesDropped"] = report.files_dropped;
  json["filesMarked"] = report.files_marked;
  json["rowsWaiting"] = report.rows_waiting;
  json["rowsForcedOut"] = report.rows_forced_out;
  if (!report.note.empty()) json["note"] = report.note;
  return json;
}

Json to_json(const CompactionReport& report) {
  Json json = named_json(report.partition);
  json["swapped"] = report.swapped;
  if (!report.note.empty()) json["note"] = report.note;
  json["filesBefore"] = report.files_before;
  json["filesAfter"] = report.files_after;
  json["bytesBefore"] = report.bytes_before;
  json["bytesAfter"] = report.bytes_after;
  json["filesLinked"] = report.files_linked;
  json["filesRewritten"] = report.files_rewritten;
  json["rows"] = report.rows;
  json["duplicatesDropped"] = report.duplicates_dropped;
  return json;
}

Json to_json(const MaintainReport& report, bool dry_run) {
  Json retention = Json::array(), compaction = Json::array();
  for (const RetentionReport& one : report.retention) retention.push_back(to_json(one));
  for (const CompactionReport& one : report.compaction) compaction.push_back(to_json(one));
  return {{"dryRun", dry_run},
          {"partitions", report.partitions},
          {"retention", retention},
          {"compaction", compaction},
          {"compactionsLeft", report.compactions_left},
          {"generationsRemoved", report.generations_removed},
          {"generationsWaiting", report.generations_waiting},
          {"snapshotsExpired", report.snapshots_expired},
          {"snapshotsWaiting", report.snapshots_waiting},
          {"bytesRemoved", report.bytes_removed},
          {"problems", report.problems}};
}

void print(const RetentionReport& report, bool dry_run, std::ostream& out) {
  const std::string name = title(report.partition);
  if (report.rows_removed > 0) {
    out << name << ": " << format_counted(report.rows_removed, "row") << (dry_run ? " would go" : " removed")
        << ", older than " << format_timestamp_ms_utc(report.cutoff_ms.value_or(0)) << " ("
        << format_counted(report.files_dropped, "file") << " whole)\n";
  }
  for (const auto& [sink, rows] : report.rows_waiting) {
    out << name << ": " << format_counted(rows, "row") << " past their age, kept until sink " << sink << " has them\n";
  }
  for (const auto& [sink, rows] : report.rows_forced_out) {
    out << name << ": " << format_counted(rows, "row") << " of those " << (dry_run ? "would go" : "went")
        << " although sink " << sink << " does not have them\n";
  }
  if (!report.note.empty()) out << name << ": " << report.note << "\n";
}

void print(const CompactionReport& report, bool dry_run, std::ostream& out) {
  out << title(report.partition) << ": ";
  if (dry_run) {
    out << "would be compacted: " << report.note << "\n";
  } else if (!report.swapped) {
    out << "not compacted: " << report.note << "\n";
  } else {
    out << format_counted(report.files_before, "file") << " (" << format_bytes(report.bytes_before) << ") became "
        << format_count(report.files_after) << " (" << format_bytes(report.bytes_after) << "); "
        << format_count(report.files_rewritten) << " rewritten, " << format_count(report.files_linked)
        << " kept as they are";
    if (report.duplicates_dropped > 0)
      out << "; " << format_counted(report.duplicates_dropped, "duplicate") << " dropped";
    out << "\n";
  }
}

void print(const MaintainReport& report, bool dry_run, std::ostream& out) {
  for (const RetentionReport& one : report.retention) print(one, dry_run, out);
  for (const CompactionReport& one : report.compaction) print(one, dry_run, out);
  if (report.generations_removed > 0 || report.snapshots_expired > 0 || report.bytes_removed > 0) {
    out << "removed " << format_counted(report.generations_removed, "old generation") << " and "
        << format_counted(report.snapshots_expired, "old snapshot") << ", " << format_bytes(report.bytes_removed)
        << "\n";
  }
  if (report.generations_waiting > 0 || report.snapshots_waiting > 0) {
    out << format_counted(report.generations_waiting, "old generation") << " and "
        << format_counted(report.snapshots_waiting, "old snapshot") << " wait for their readers to end\n";
  }
  const bool is_idle = report.retention.empty() && report.compaction.empty() && report.generations_removed == 0 &&
                       report.snapshots_expired == 0 && report.bytes_removed == 0;
  if (is_idle && report.problems.empty()) {
    out << format_counted(report.partitions, "partition") << ": nothing to do\n";
  }
}

}  // namespace

int command_maintain(const Config& config, const Invocation& invocation, const MaintainArguments& arguments) {
  return with_service(config, invocation, [&](Service& service) {
    MaintainOptions options;
    options.dry_run = arguments.dry_run;
    options.cancelled = invocation.cancelled;
    const MaintainReport report = maintain(service.cache(), options);
    if (arguments.json) {
      *invocation.out << to_json(report, arguments.dry_run).dump(2) << "\n";
    } else {
      print(report, arguments.dry_run, *invocation.out);
      for (const std::string& problem : report.problems) *invocation.err << "hyp: " << problem << "\n";
    }
    return unless_interrupted(invocation, report.problems.empty() ? 0 : kFailed);
  });
}

}  // namespace firn::hyp
