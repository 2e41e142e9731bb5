// What a random run of the cache does, one step a line of text, so that a failure can be replayed and made shorter.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace firn::hyp::model {

// Where the program dies: at the pass-th pass (from 1) of a fault point since the step began.
struct CrashAt {
  std::string point;
  int64_t pass = 1;
  bool power = false;  // a power cut: what was not synced is gone
};

struct Meanwhile;

struct Step {
  std::string action;                   // world.cc has them all
  std::map<std::string, int64_t> with;  // its arguments; what random rows it makes follows from "seed" alone
  std::vector<Meanwhile> meanwhile;     // what others do while it is done
  // The first ends the action, the second the restart after that, and so on. A point that is not passed so often does
  // nothing.
  std::vector<CrashAt> crashes;

  int64_t arg(const std::string& name) const {
    const auto found = with.find(name);
    return found == with.end() ? 0 : found->second;
  }
};

// What another process does while the program is at a point, at its pass-th pass since the step began. It does not
// crash.
struct Meanwhile {
  std::string point;
  int64_t pass = 1;
  Step step;
};

// "flush process=1 by_frame=1 | kill flush.commit 1 | cut io.replace.before_rename 2"
// "compact process=0 partition=1 | at compaction.linked 1 flush process=1 | kill compaction.carried 1"
std::string to_text(const Step& step);
std::string to_text(const std::vector<Step>& steps);  // a line each
// Blank lines and those that begin with '#' are left out. Throws invalid_argument.
std::vector<Step> parse_steps(std::string_view text);

}  // namespace firn::hyp::model
