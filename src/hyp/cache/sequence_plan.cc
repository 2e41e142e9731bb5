#include "hyp/cache/sequence_plan.h"

#include <algorithm>
#include <limits>
#include <mutex>
#include <unordered_map>

#include "hyp/cache/cache.h"
#include "hyp/cache/sequence_bounds.h"
#include "iceberg/manifest/snapshot_manifests.h"
#include "iceberg/scan/plan.h"

namespace firn::hyp {
namespace {

using iceberg::ManifestContent;
using iceberg::ManifestFile;
using iceberg::Op;

// Of the live files of one manifest.
struct ManifestNumbers {
  int64_t lower = std::numeric_limits<int64_t>::max(), upper = std::numeric_limits<int64_t>::min();
  bool may_lack = false;

  void add(const iceberg::DataFile& file, int32_t seq_id) {
    lower = std::min(lower, lowest_number(file, seq_id).value_or(std::numeric_limits<int64_t>::min()));
    upper = std::max(upper, highest_number(file, seq_id).value_or(std::numeric_limits<int64_t>::max()));
    may_lack = may_lack || may_lack_numbers(file, seq_id);
  }
  bool may_have(const SequenceWindow& range) const {
    if (range.unnumbered && may_lack) return true;
    return (!range.since_exclusive || upper > *range.since_exclusive) && (!range.until || lower <= *range.until);
  }
};

// By path, which is never used twice. Of the whole process, since caches come and go while partitions grow.
class KnownManifests {
 public:
  std::optional<ManifestNumbers> find(const std::string& path) {
    std::lock_guard guard(mutex_);
    const auto found = numbers_.find(path);
    return found == numbers_.end() ? std::nullopt : std::optional(found->second);
  }
  void add(const std::string& path, const ManifestNumbers& numbers) {
    constexpr size_t kManifestsMax = 100'000;  // some 25 MB
    std::lock_guard guard(mutex_);
    if (numbers_.size() >= kManifestsMax) numbers_.clear();
    numbers_[path] = numbers;
  }

 private:
  std::mutex mutex_;
  std::unordered_map<std::string, ManifestNumbers> numbers_;
};

KnownManifests& known_manifests() {
  static KnownManifests known;
  return known;
}

ManifestNumbers read_numbers(const iceberg::TableMetadata& metadata, FileIO& io, const iceberg::ScanPlan& columns,
                             const ManifestFile& manifest, int32_t seq_id) {
  ManifestNumbers numbers;
  iceberg::PlanSource source;
  source.manifests = {manifest};
  source.takes = [&](const iceberg::ManifestEntry& entry) {
    numbers.add(entry.file, seq_id);
    return false;
  };
  source.has_deletes = false;
  iceberg::ScanOptions options;
  options.threads = 1;
  iceberg::ScanPlan nothing = columns;
  iceberg::plan_files(metadata, io, options, source, nothing, nullptr);
  return numbers;
}

}  // namespace

iceberg::ExpressionPtr sequence_filter(const SequenceWindow& range) {
  iceberg::ExpressionPtr filter = iceberg::predicate(Op::not_null, kIngestSeqColumn);
  if (range.since_exclusive) filter = iceberg::predicate(Op::gt, kIngestSeqColumn, {*range.since_exclusive});
  if (range.until) filter = iceberg::and_(filter, iceberg::predicate(Op::lt_eq, kIngestSeqColumn, {*range.until}));
  if (range.unnumbered) filter = iceberg::or_(filter, iceberg::predicate(Op::is_null, kIngestSeqColumn));
  return filter;
}

iceberg::ScanPlan plan_sequence(const iceberg::TableMetadata& metadata, const std::shared_ptr<FileIO>& io,
                                const iceberg::ScanOptions& scan, const SequenceWindow& range) {
  iceberg::ScanOptions options = scan;
  options.filter = sequence_filter(range);
  iceberg::ScanPlan plan = iceberg::plan_columns(metadata, metadata.schema(), options);
  const iceberg::Snapshot* head = metadata.current_snapshot();
  if (head == nullptr) return plan;
  plan.snapshot_id = head->snapshot_id;
  const int32_t seq_id = metadata.schema().find_field(std::string_view(kIngestSeqColumn))->id;
  iceberg::PlanSource source;
  source.manifests =
      iceberg::snapshot_manifests(metadata, *head, [&](const std::string& path) { return io->read(path); });
  const auto is_elsewhere = [&](const ManifestFile& manifest) {
    if (manifest.content != ManifestContent::data || !iceberg::may_hold_live_files(manifest)) return false;
    auto numbers = known_manifests().find(manifest.manifest_path);
    if (!numbers) {
      numbers = read_numbers(metadata, *io, plan, manifest, seq_id);
      known_manifests().add(manifest.manifest_path, *numbers);
    }
    return !numbers->may_have(range);
  };
  const auto elsewhere = static_cast<int64_t>(std::erase_if(source.manifests, is_elsewhere));
  if (options.counters != nullptr) options.counters->manifests_skipped += elsewhere;
  iceberg::plan_files(metadata, *io, options, source, plan, nullptr);
  return plan;
}

}  // namespace firn::hyp
