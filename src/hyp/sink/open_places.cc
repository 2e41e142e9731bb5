#include "hyp/sink/open_places.h"

#include <algorithm>
#include <memory>

#include <arrow/array.h>

#include "base/arrow_status.h"
#include "hyp/cache/table_opens.h"

namespace firn::hyp {

Unit whole_open(const Cache& cache, const PartitionId& partition, const OpenRange& open) {
  Unit unit{partition, stream_of(cache.sequence().cache_id(), partition), {}, open.since_exclusive, std::nullopt};
  unit.range.open_id = open.open_id;
  unit.range.since = open.since_exclusive;
  unit.range.until = open.until;
  unit.range.start = true;
  return unit;
}

std::vector<OpenPlace> find_open_places(const Cache& cache, const PartitionId& partition, Destination& destination) {
  std::vector<OpenPlace> places;
  std::vector<Unit> units;
  for (OpenRange& open : partition_opens(cache, partition)) {
    units.push_back(whole_open(cache, partition, open));
    places.emplace_back().open = std::move(open);
  }
  if (places.empty()) return places;
  const std::vector<Destination::Standing> standings = destination.standings(units);
  for (size_t i = 0; i < places.size(); ++i) {
    places[i].is_known = standings[i].is_known;
    places[i].there = standings[i].there;
  }
  return places;
}

void for_each_number(const Cache& cache, const PartitionId& partition, const std::function<void(int64_t seq)>& visit) {
  const auto held = cache.hold(partition);
  if (!held) return;
  iceberg::ScanOptions scan;
  scan.columns = {kIngestSeqColumn};
  const auto rows = iceberg::scan(*held->table.metadata, held->operations->io(), scan);
  for (std::shared_ptr<arrow::RecordBatch> batch;;) {
    check(rows->ReadNext(&batch), "read sequence numbers");
    if (!batch) return;
    const auto& numbers = static_cast<const arrow::Int64Array&>(*batch->column(0));
    for (int64_t i = 0; i < numbers.length(); ++i) {
      if (numbers.IsValid(i)) visit(numbers.Value(i));
    }
  }
}

OpenPlace* open_of(std::vector<OpenPlace>& places, int64_t seq) {
  const auto place = std::lower_bound(places.begin(), places.end(), seq,
                                      [](const OpenPlace& one, int64_t number) { return one.open.until < number; });
  return place != places.end() && place->open.since_exclusive < seq ? &*place : nullptr;
}

void count_open_rows(const Cache& cache, const PartitionId& partition, std::vector<OpenPlace>& places) {
  for (OpenPlace& place : places) {
    place.rows = place.rows_above = 0;
    place.highest_row.reset();
  }
  for_each_number(cache, partition, [&](int64_t seq) {
    OpenPlace* place = open_of(places, seq);
    if (place == nullptr) return;
    place->rows += 1;
    if (seq > place->last()) place->rows_above += 1;
    place->highest_row = std::max(place->highest_row.value_or(seq), seq);
  });
}

std::optional<size_t> newest_sent_open(const std::vector<OpenPlace>& places) {
  const auto has_rows_there = [](const OpenPlace& place) { return place.last() > place.open.since_exclusive; };
  std::optional<size_t> newest;
  const auto after_last = std::find_if(places.rbegin(), places.rend(), has_rows_there).base();
  for (auto place = places.begin(); place != after_last; ++place) {
    if (has_rows_there(*place)) newest = static_cast<size_t>(place - places.begin());
    if (place->rows_above > 0 && place->is_known) break;
  }
  return newest;
}

int64_t watermark_of(const OpenRange& open, int64_t last, int64_t max_seq) {
  return std::min({last, open.until, std::max(max_seq, open.since_exclusive)});
}

int64_t max_seq_of(const Cache& cache, const PartitionId& partition) {
  const auto held = cache.hold(partition);
  return held ? held->table.metadata->int_property(kMaxSeqProperty, 0) : 0;
}

}  // namespace firn::hyp
