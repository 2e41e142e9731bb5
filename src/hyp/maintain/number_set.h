// Sets of sequence numbers.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "hyp/maintain/sink_positions.h"
#include "iceberg/puffin/puffin.h"

namespace firn::hyp {

// A bitmap: at most about a bit a number of the range that its members span, and two bytes a member. A const one may be
// read from several threads.
class NumberSet {
 public:
  void add(int64_t number) {
    if (number < 0) {
      negative_.add(-number);  // of legacy rows (P9.3)
    } else {
      positive_.add(number);
    }
    if (!lowest_ || number < *lowest_) lowest_ = number;
    if (!highest_ || number > *highest_) highest_ = number;
  }
  bool contains(int64_t number) const { return number < 0 ? negative_.contains(-number) : positive_.contains(number); }
  bool empty() const { return !lowest_; }
  int64_t size() const { return negative_.size() + positive_.size(); }
  std::optional<int64_t> lowest() const { return lowest_; }  // nullopt: it is empty
  std::optional<int64_t> highest() const { return highest_; }

 private:
  iceberg::PositionSet negative_, positive_;
  std::optional<int64_t> lowest_, highest_;
};

inline bool is_in(const std::vector<SequenceRange>& ranges, int64_t number) {
  for (const SequenceRange& range : ranges) {
    if (range.since_exclusive < number && number <= range.until) return true;
  }
  return false;
}

}  // namespace firn::hyp
