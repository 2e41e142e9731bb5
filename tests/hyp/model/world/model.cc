#include "hyp/model/world/model.h"

#include <algorithm>

namespace firn::hyp::model {

std::vector<const Row*> Partition::live(int64_t since) const {
  std::vector<const Row*> rows;
  const auto first =
      std::upper_bound(log.begin(), log.end(), since, [](int64_t seq, const Row& row) { return seq < row.seq; });
  for (auto row = first; row != log.end(); ++row) {
    if (row->is_live) rows.push_back(&*row);
  }
  return rows;
}

Dataset dataset_of(const std::string& name) {
  for (int i = 0; i < kDatasets; ++i) {
    if (name_of(static_cast<Dataset>(i)) == name) return static_cast<Dataset>(i);
  }
  differ("there is a dataset {}", name);
}

Row to_row(const Spooled& spooled, int64_t seq) {
  Row row;
  row.content = spooled.line.content();
  row.seq = seq;
  const Value* at = spooled.line.find("at");
  row.age_from_ms = at != nullptr ? at->integer : spooled.arrived_ms;
  row.arrived_ms = spooled.arrived_ms;
  if (const Value* k = spooled.line.find("k")) row.k = k->integer;
  return row;
}

std::string some_of(const std::vector<std::string>& texts) {
  constexpr size_t kMost = 5;
  std::string some;
  for (size_t i = 0; i < texts.size() && i < kMost; ++i) some += (i > 0 ? ", " : "") + texts[i];
  return texts.size() > kMost ? some + ", …" : some;
}

void expect_equal(const std::string& what, const std::vector<std::string>& found,
                  const std::vector<std::string>& expected) {
  const auto [f, e] = std::mismatch(found.begin(), found.end(), expected.begin(), expected.end());
  if (f == found.end() && e == expected.end()) return;
  differ("{}: {} rows where {} should be; at {} it has {} where {} should be", what, found.size(), expected.size(),
         f - found.begin(), f == found.end() ? "nothing" : *f, e == expected.end() ? "nothing" : *e);
}

void expect_same(const std::string& what, std::vector<std::string> found, std::vector<std::string> expected) {
  std::sort(found.begin(), found.end());
  std::sort(expected.begin(), expected.end());
  if (found == expected) return;
  std::vector<std::string> missing, more;
  std::set_difference(expected.begin(), expected.end(), found.begin(), found.end(), std::back_inserter(missing));
  std::set_difference(found.begin(), found.end(), expected.begin(), expected.end(), std::back_inserter(more));
  differ("{}: {} rows where {} should be; missing: {} ({}); too many: {} ({})", what, found.size(), expected.size(),
         missing.size(), some_of(missing), more.size(), some_of(more));
}

}  // namespace firn::hyp::model
