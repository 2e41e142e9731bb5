// Random steps.
#pragma once

#include <random>

#include "hyp/model/world/step.h"
#include "hyp/model/world/world.h"

namespace firn::hyp::model {

// Points at which a step of an action holds no lock that others wait for, and what these may do there.
struct Gap {
  const char* action;
  std::vector<std::string> points;
  std::vector<const char*> others;  // actions; one that is there twice is chosen twice as often
};

class Generator {
 public:
  // `power`: crashes are power cuts as often as kills. `use` says which points an action passes; of those a crash
  // chooses one that few crashes were at.
  Generator(uint64_t seed, bool power, const PointUse& use) : random_(seed), power_(power), use_(use) {}
  Step next();

 private:
  int64_t below(int64_t bound) { return static_cast<int64_t>(random_() % static_cast<uint64_t>(bound)); }
  bool one_in(int64_t count) { return below(count) == 0; }
  void add_arguments(Step& step);
  void add_crash(Step& step, const std::string& action);
  void add_meanwhile(Step& step, const Gap& gap);

  std::mt19937_64 random_;
  bool power_;
  const PointUse& use_;
  int64_t declared_ = 0, process_ = 0;
};

}  // namespace firn::hyp::model
