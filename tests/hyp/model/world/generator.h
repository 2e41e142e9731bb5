// Random steps.
#pragma once

#include <random>

#include "hyp/model/world/step.h"
#include "hyp/model/world/world.h"

namespace firn::hyp::model {

class Generator {
 public:
  // `power`: crashes are power cuts as often as kills. `use` says which points an action passes; of those a crash
  // chooses one that few crashes were at.
  Generator(uint64_t seed, bool power, const PointUse& use) : random_(seed), power_(power), use_(use) {}
  Step next();

 private:
  int64_t below(int64_t bound) { return static_cast<int64_t>(random_() % static_cast<uint64_t>(bound)); }
  bool one_in(int64_t count) { return below(count) == 0; }
  void add_crash(Step& step, const std::string& action);

  std::mt19937_64 random_;
  bool power_;
  const PointUse& use_;
  int64_t declared_ = 0;
};

}  // namespace firn::hyp::model
