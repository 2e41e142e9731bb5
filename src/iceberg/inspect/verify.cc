#include "iceberg/inspect/verify.h"

#include <algorithm>
#include <set>

#include "base/error.h"
#include "iceberg/inspect/check_metadata.h"
#include "iceberg/inspect/check_snapshot.h"
#include "iceberg/metadata/metadata_text.h"

namespace firn::iceberg {
namespace {

// Oldest first, so that a file is looked at in the snapshot that added it, where that is asked for.
std::vector<const Snapshot*> snapshots_to_check(const TableMetadata& metadata, const VerifyOptions& options) {
  if (options.snapshot_id && metadata.find_snapshot(*options.snapshot_id) == nullptr)
    fail(ErrorKind::not_found, "table {} has no snapshot {}", metadata.location, *options.snapshot_id);
  std::set<int64_t> wanted;
  for (const auto& [name, ref] : metadata.refs) wanted.insert(ref.snapshot_id);
  if (metadata.current_snapshot_id) wanted.insert(*metadata.current_snapshot_id);
  std::vector<const Snapshot*> snapshots;
  for (const Snapshot& snapshot : metadata.snapshots) {
    const bool is_wanted = options.snapshot_id ? *options.snapshot_id == snapshot.snapshot_id
                                               : options.all_snapshots || wanted.contains(snapshot.snapshot_id);
    if (is_wanted) snapshots.push_back(&snapshot);
  }
  std::stable_sort(snapshots.begin(), snapshots.end(),
                   [](const auto* a, const auto* b) { return a->sequence_number < b->sequence_number; });
  return snapshots;
}

void check_table(const TableMetadata& metadata, const std::shared_ptr<FileIO>& io, const VerifyOptions& options,
                 Findings& findings) {
  check_metadata(metadata, findings);
  check_statistics(metadata, *io, findings);
  CheckedFiles checked;
  for (const Snapshot* snapshot : snapshots_to_check(metadata, options))
    check_snapshot(metadata, *snapshot, io, options, checked, findings);
}

template <class Work>
std::vector<Finding> findings_of(const VerifyOptions& options, const Work& work) {
  Findings findings(options.strict, options.findings_max);
  try {
    work(findings);
  } catch (const Findings::Full&) {
    std::vector<Finding> found = findings.take();
    found.push_back({Severity::error, "too-many-findings", "table",
                     fmt::format("there are more than {}: the check stopped here", options.findings_max)});
    return found;
  }
  return findings.take();
}

}  // namespace

std::string_view to_string(Severity severity) { return severity == Severity::error ? "error" : "warning"; }

std::vector<Finding> verify(const TableMetadata& metadata, const std::shared_ptr<FileIO>& io,
                            const VerifyOptions& options) {
  return findings_of(options, [&](Findings& findings) { check_table(metadata, io, options, findings); });
}

std::vector<Finding> verify(TableOperations& table, const VerifyOptions& options) {
  return findings_of(options, [&](Findings& findings) {
    std::optional<LoadedTable> head;
    try {
      head = table.load();
    } catch (const Error& e) {
      if (e.kind() != ErrorKind::corrupt && e.kind() != ErrorKind::unsupported) throw;
      findings.error("metadata-unreadable", table.location(), e.what());
      return;
    }
    const std::string& path = head->metadata_path;
    check_metadata_json(parse_json(metadata_text(table.io()->read(path), path), path), *head->metadata, path, findings);
    if (options.strict) {
      for (const MetadataLogEntry& entry : head->metadata->metadata_log)
        if (!table.io()->stat(entry.metadata_file))
          findings.warning("metadata-log-file-missing", entry.metadata_file, "the metadata log has it, and it is gone");
    }
    check_table(*head->metadata, table.io(), options, findings);
  });
}

const std::vector<VerifyCode>& verify_codes() {
  static const std::vector<VerifyCode> codes = {
      {"metadata-unreadable", "the metadata file is damaged, or of a later format version"},
      {"member-missing", "a member that the format version requires is not in the metadata"},
      {"uuid-invalid", "table-uuid is missing, or no UUID"},
      {"last-column-id-too-low", "a schema has a column id above last-column-id, which would be given again"},
      {"schema-id-duplicate", "two schemas have one id"},
      {"column-name-duplicate", "two columns of a schema have one dotted name, which other engines refuse"},
      {"field-id-reserved", "a column id is in the range reserved for metadata columns"},
      {"column-id-reused", "one column id has types in two schemas that no promotion joins"},
      {"identifier-field-invalid", "an identifier field is missing, or of a kind that cannot identify a row"},
      {"type-needs-newer-version", "a type or default that the table's format version does not have"},
      {"unknown-required", "a column of type unknown is required"},
      {"default-invalid", "a default on a type whose default is always null"},
      {"spec-id-duplicate", "two partition specs have one id"},
      {"spec-duplicated", "two partition specs are the same"},
      {"spec-source-invalid", "a field of the default spec cannot be made of the current schema"},
      {"partition-field-id-duplicate", "two fields of one spec have one id"},
      {"partition-field-name-duplicate", "two fields of one spec have one name"},
      {"partition-field-id-reused", "one partition field id means two things in two specs"},
      {"partition-field-id-not-reused", "one partition field has two ids in two specs"},
      {"last-partition-id-too-low", "a spec has a field id above last-partition-id, which would be given again"},
      {"sort-order-id-duplicate", "two sort orders have one id"},
      {"sort-order-invalid", "a sort order of a missing column, or id 0 with fields"},
      {"sequence-number-above-last", "a snapshot's sequence number is above last-sequence-number"},
      {"sequence-number-duplicate", "two snapshots have one sequence number"},
      {"sequence-number-order", "a snapshot's sequence number is not above its parent's"},
      {"snapshot-parent-invalid", "a snapshot is its own parent"},
      {"snapshot-time-order", "a snapshot is older than its parent"},
      {"snapshot-schema-missing", "a snapshot's schema is not among the table's"},
      {"operation-invalid", "a snapshot's summary has no operation that the specification knows"},
      {"manifest-list-missing", "a snapshot of version 2 or later names no manifest list"},
      {"ref-snapshot-missing", "a branch or tag names a snapshot that is not there"},
      {"ref-retention-invalid", "a branch's or tag's retention is not allowed"},
      {"main-invalid", "main is no branch, or not the current snapshot"},
      {"snapshot-log-order", "the snapshot log runs back in time"},
      {"snapshot-log-invalid", "the snapshot log has snapshots that are gone, or does not end with the current one"},
      {"metadata-log-order", "the metadata log runs back in time"},
      {"metadata-log-file-missing", "a file of the metadata log is gone"},
      {"row-ids-missing", "a snapshot, manifest or file of version 3 has no row ids"},
      {"row-ids-invalid", "a delete manifest has row ids"},
      {"row-id-ranges-overlap", "two snapshots or files have row ids in common"},
      {"row-id-duplicate", "two live rows have one row id"},
      {"next-row-id-too-low", "next-row-id is not above the row ids given"},
      {"statistics-snapshot-missing", "a statistics file is of a snapshot that is gone"},
      {"statistics-mismatch", "a statistics file is not as the metadata say"},
      {"file-missing", "a file that the table refers to is not there"},
      {"file-size-mismatch", "a file has another size than recorded"},
      {"manifest-list-unreadable", "a manifest list is damaged"},
      {"manifest-unreadable", "a manifest is damaged"},
      {"manifest-duplicate", "a manifest list has a manifest twice"},
      {"manifest-spec-invalid", "a manifest is of a partition spec that is not there, or of another one"},
      {"manifest-header-invalid", "a manifest's Avro header lacks what the specification requires"},
      {"manifest-content-mismatch", "a manifest holds files of the other kind"},
      {"manifest-counts-mismatch", "a manifest list's counts are not those of the manifest"},
      {"manifest-summary-mismatch", "a manifest list's partition summary excludes a live file"},
      {"manifest-sequence-number", "a manifest's sequence number is above its snapshot's"},
      {"manifest-min-sequence-number", "a live file is older than the manifest list says"},
      {"entry-sequence-number", "an entry's sequence numbers contradict each other or the manifest"},
      {"entry-snapshot-mismatch", "an added entry is of another snapshot than its manifest"},
      {"partition-tuple-invalid", "an entry's partition does not fit its spec"},
      {"partition-value-mismatch", "a row is in a partition that its values do not give"},
      {"file-duplicate", "a file is live twice in one snapshot"},
      {"file-format-unknown", "a file's format is none that the specification knows"},
      {"file-unreadable", "a data or delete file is damaged"},
      {"record-count-mismatch", "a file has another number of rows than recorded"},
      {"metrics-invalid", "an entry's counts or sizes are impossible"},
      {"split-offsets-invalid", "an entry's split offsets are not ascending, or no starts of row groups"},
      {"bounds-invalid", "a bound is no value of its column, NaN, or the lower one above the upper"},
      {"bound-mismatch", "a row's value lies outside of the recorded bounds"},
      {"null-count-mismatch", "a column has another number of nulls than recorded"},
      {"nan-count-mismatch", "a column has another number of NaNs than recorded"},
      {"deletes-need-newer-version", "delete files or deletion vectors in a format version without them"},
      {"equality-ids-invalid", "an equality delete file's columns are missing or cannot be compared"},
      {"position-out-of-range", "a position delete is below 0 or beyond the end of its data file"},
      {"position-deletes-unsorted", "a position delete file's rows are not sorted"},
      {"position-deletes-in-v3", "a position delete file was added where deletion vectors are required"},
      {"delete-target-missing", "a delete is for a data file that the snapshot does not have"},
      {"delete-target-mismatch", "a delete file is for other data files than it says"},
      {"deletion-vector-invalid", "a deletion vector's entry is not as the Puffin file has it"},
      {"deletion-vector-cardinality", "a deletion vector has another number of positions than recorded"},
      {"deletion-vector-duplicate", "a data file has two deletion vectors"},
      {"summary-mismatch", "a snapshot's totals are not those of its manifests"},
      {"snapshot-unreadable", "a scan of the snapshot fails"},
      {"too-many-findings", "the check stopped"},
  };
  return codes;
}

}  // namespace firn::iceberg
