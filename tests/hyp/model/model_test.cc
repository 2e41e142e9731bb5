// Random steps on a cache, checked against a model of it in memory: P4 to P10 and P12, P13 at once.
//
//   FIRN_TEST_SEED=<n>         the first seed
//   FIRN_MODEL_STEPS=<n>       steps a seed (1,000); FIRN_MODEL_KILL_STEPS (300) where children are killed
//   FIRN_MODEL_SECONDS=<n>     after the kept seeds new ones are tried, by all tests together for so long
//   FIRN_MODEL_SHRINK_SECONDS=<n>  a failing run is made shorter for so long
//   FIRN_MODEL_REPLAY=<file>   does the steps in the file, as a failure prints them
#include <gtest/gtest.h>
#include <spdlog/spdlog.h>

#include <cstdlib>
#include <ctime>
#include <fstream>
#include <iostream>
#include <limits>

#include "base/clock.h"
#include "base/error.h"
#include "hyp/model/world/generator.h"
#include "hyp/model/world/shrink.h"
#include "hyp/model/world/world.h"
#include "io/unsynced.h"
#include "support/test_seed.h"

namespace firn::hyp::model {
namespace {

constexpr int64_t kShrinkSeconds = 240;

int64_t env_number(const char* name, int64_t otherwise) {
  const char* text = std::getenv(name);
  return text != nullptr ? std::strtoll(text, nullptr, 10) : otherwise;
}

enum class Crashes : uint8_t { stops, power_cuts, kills };

WorldOptions options_of(uint64_t seed, Crashes crashes) {
  return {
      .seed = seed, .is_partitioned = seed % 2 == 1, .has_legacy = seed % 2 == 0, .forks = crashes == Crashes::kills};
}

std::optional<std::string> replay(const WorldOptions& options, const std::vector<Step>& steps) {
  size_t at = 0;
  try {
    World world(options);
    for (; at < steps.size(); ++at) world.run(steps[at]);
    world.check_all();
    return std::nullopt;
  } catch (const std::exception& e) {
    const std::string where = at < steps.size() ? fmt::format("at step {} ({})", at, to_text(steps[at])) : "at the end";
    return fmt::format("{}: {}", where, e.what());
  }
}

// Of all threads; the machine may be busy with other tests.
int64_t cpu_us() {
  timespec time;
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return time.tv_sec * 1'000'000 + time.tv_nsec / 1000;
}

struct Tally {
  int64_t steps = 0, crashes = 0, us = 0;
  PointUse use;
  std::map<std::string, std::pair<int64_t, int64_t>> us_by_action;  // count, time
};

// Up to `count` steps, fewer if it is late; the problem, if one is met.
std::optional<std::string> drive(uint64_t seed, Crashes crashes, int64_t count, int64_t end_us,
                                 std::vector<Step>& steps, Tally& tally) {
  WorldOptions options = options_of(seed, crashes);
  options.use = &tally.use;
  Generator generator(seed, crashes == Crashes::power_cuts, tally.use);
  const int64_t begin_us = cpu_us();
  try {
    World world(options);
    for (int64_t i = 0; i < count && steady_us() < end_us; ++i) {
      steps.push_back(generator.next());
      const int64_t step_us = cpu_us();
      world.run(steps.back());
      auto& [times, us] = tally.us_by_action[steps.back().action];
      ++times;
      us += cpu_us() - step_us;
    }
    world.check_all();
    tally.steps += static_cast<int64_t>(steps.size());
    tally.crashes += world.crashes();
    tally.us += cpu_us() - begin_us;
    return std::nullopt;
  } catch (const std::exception& e) {
    return e.what();
  }
}

void print(const Tally& tally) {
  if (tally.steps == 0) return;
  size_t passed = 0;
  std::set<std::string> points;
  for (const auto& [action, passes] : tally.use.passes) {
    for (const auto& [name, count] : passes) points.insert(name);
  }
  passed = points.size();
  std::cout << fmt::format("{} steps, {} us of CPU each; {} crashes at {} of {} fault points\n", tally.steps,
                           tally.us / tally.steps, tally.crashes, tally.use.crashes.size(), passed);
  for (const auto& [action, use] : tally.us_by_action) {
    std::cout << fmt::format("  {:15} {:6} times, {:6} us each\n", action, use.first, use.second / use.first);
  }
  for (const std::string& name : points) {
    if (!tally.use.crashes.contains(name)) std::cout << "  no crash at " << name << "\n";
  }
}

bool run_seed(uint64_t seed, Crashes crashes, int64_t count, int64_t end_us, Tally& tally) {
  std::vector<Step> steps;
  const auto problem = drive(seed, crashes, count, end_us, steps, tally);
  if (!problem) return true;
  std::cout << fmt::format("seed {}: at step {} ({}): {}\n", seed, steps.size() - 1, to_text(steps.back()), *problem)
            << std::flush;
  const auto run = [&](const std::vector<Step>& some) { return replay(options_of(seed, crashes), some); };
  if (!run(steps)) {
    ADD_FAILURE() << "seed " << seed << ": " << *problem << "\nThe same steps again met no problem:\n"
                  << to_text(steps);
    return false;
  }
  const std::vector<Step> fewest = shrink(steps, run, env_number("FIRN_MODEL_SHRINK_SECONDS", kShrinkSeconds));
  ADD_FAILURE() << "seed " << seed << ": " << *problem
                << "\nThe shortest that was found, for FIRN_MODEL_REPLAY: " << run(fewest).value_or("(not met again)")
                << "\n# seed " << seed << "\n"
                << to_text(fewest);
  return false;
}

// `share`: of the time for new seeds, in percent.
void run_seeds(Crashes crashes, const std::vector<uint64_t>& kept, int64_t steps, int64_t share) {
  spdlog::set_level(spdlog::level::off);
  Tally tally;
  for (const uint64_t seed : kept) {
    if (!run_seed(seed, crashes, steps, std::numeric_limits<int64_t>::max(), tally)) return;
  }
  const int64_t end_us = steady_us() + env_number("FIRN_MODEL_SECONDS", 0) * 10'000 * share;
  for (uint64_t seed = test_seed(); steady_us() < end_us; ++seed) {
    if (!run_seed(seed, crashes, steps, end_us, tally)) return;
  }
  print(tally);
}

TEST(CacheModel, HoldsWhereverTheProgramStops) {
  run_seeds(Crashes::stops, {1, 2}, env_number("FIRN_MODEL_STEPS", 1000), 40);
}

TEST(CacheModel, HoldsThroughPowerCuts) {
  unsynced::enable();
  run_seeds(Crashes::power_cuts, {3, 4}, env_number("FIRN_MODEL_STEPS", 1000), 40);
}

TEST(CacheModel, HoldsThroughRealKills) {
  run_seeds(Crashes::kills, {5}, env_number("FIRN_MODEL_KILL_STEPS", 300), 20);
}

TEST(CacheModelReplay, DoesTheStepsOfAFile) {
  const char* path = std::getenv("FIRN_MODEL_REPLAY");
  if (path == nullptr) GTEST_SKIP() << "FIRN_MODEL_REPLAY names none";
  std::ifstream file(path);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  uint64_t seed = 1;
  if (const size_t at = text.find("# seed "); at != std::string::npos) seed = std::stoull(text.substr(at + 7));
  unsynced::enable();
  EXPECT_EQ(replay(options_of(seed, Crashes::power_cuts), parse_steps(text)).value_or(""), "");
}

}  // namespace
}  // namespace firn::hyp::model
