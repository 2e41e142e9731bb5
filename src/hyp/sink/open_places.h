// Which rows of a partition a destination has, open by open (P10.5).
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "hyp/cache/cache.h"
#include "hyp/sink/destination.h"

namespace firn::hyp {

// An open that the cache lists, whether or not it still has rows of it.
struct OpenPlace {
  OpenRange open;
  bool is_known = true;           // false: the destination no longer lists so old an open (P10.7)
  std::optional<Position> there;  // how far the destination has it; nullopt: it has nothing of it, or is_known is false
  int64_t rows = 0;               // that the cache has of it
  int64_t rows_above = 0;         // of these, above last()
  std::optional<int64_t> highest_row;

  int64_t last() const { return there ? there->last : open.since_exclusive; }
};

// Of the partition's opens, ascending; asks the destination once, and reads no rows.
std::vector<OpenPlace> find_open_places(const Cache& cache, const PartitionId& partition, Destination& destination);
// Fills in what the cache has. Reads all its numbers.
void count_open_rows(const Cache& cache, const PartitionId& partition, std::vector<OpenPlace>& places);
// The open that issued `seq`; nullptr: none of these.
OpenPlace* open_of(std::vector<OpenPlace>& places, int64_t seq);
void for_each_number(const Cache& cache, const PartitionId& partition, const std::function<void(int64_t seq)>& visit);

// The newest open that the destination has rows of, so that all rows of the cache below those are there, too: where a
// watermark was lost, it ends in this open. An open whose rows a reset lets come again holds it back, and an open that
// the cache has no rows of does not carry it past such a one. Where the destination no longer lists an open, it has it
// if it has a later one (P10.7). nullopt: none. Rows are to be counted.
std::optional<size_t> newest_sent_open(const std::vector<OpenPlace>& places);

// Where a watermark ends that says the open is there up to `last`. `max_seq` is the partition's: rows that come later
// have higher numbers (P5.2), while a `last` above it may be another copy's, and its numbers those of later rows here.
int64_t watermark_of(const OpenRange& open, int64_t last, int64_t max_seq);
// firn.max-seq of the partition; 0: it has no numbers yet.
int64_t max_seq_of(const Cache& cache, const PartitionId& partition);

// All numbers of the open, as a unit that begins it.
Unit whole_open(const Cache& cache, const PartitionId& partition, const OpenRange& open);

}  // namespace firn::hyp
