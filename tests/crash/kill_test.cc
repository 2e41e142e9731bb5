// `hyp` killed at its fault points, then run again with the same input (P4–P6, P10, P12, P3.3).
#include <atomic>
#include <iostream>
#include <mutex>
#include <random>
#include <thread>

#include "crash/scenario.h"
#include "support/test_seed.h"

namespace firn::hyp {
namespace {

constexpr size_t kWorkers = 2;

struct Kill {
  size_t step = 0, pass = 0;  // of the scenario; from 1 within the step's process
  Crash crash = Crash::process;
  bool with_fresh = false;  // five new rows come before the next sink run
};

// Sites that are all at the same state before each step, and the points that a step passes.
class Scenario {
 public:
  Scenario() : sites_(kWorkers) {
    for (const Step& step : steps_) {
      const size_t number = points_.size();
      for (const Site& site : sites_) {
        site.save(number);
        const std::vector<std::string> points = site.points_of(step);
        if (points_.size() == number) points_.push_back(points);
      }
    }
    for (const Site& site : sites_) EXPECT_EQ(site.check_rows(inputs_.rows(false), Inputs::rejects()), "");
  }

  // Every point, as a crash of the process and as a power cut, half of each with new rows coming.
  std::vector<Kill> all_kills() const {
    std::vector<Kill> kills;
    for (const Crash crash : {Crash::process, Crash::power}) {
      for (size_t step = 0; step < steps_.size(); ++step) {
        for (size_t pass = 1; pass <= points_[step].size(); ++pass) {
          kills.push_back({step, pass, crash, (pass % 2 == 0) == (crash == Crash::power)});
        }
      }
    }
    return kills;
  }

  size_t print_points() const {
    size_t sum = 0;
    for (size_t step = 0; step < steps_.size(); ++step) {
      std::cout << steps_[step].name << ": " << points_[step].size() << " fault points\n";
      sum += points_[step].size();
    }
    std::cout << "in all " << sum << "\n";
    return sum;
  }

  // Runs `count` jobs on the sites; a failing one tells its problem.
  void run_all(size_t count, const std::function<std::string(const Site&, size_t)>& job) const {
    std::atomic<size_t> next{0}, failed{0};
    std::mutex mutex;
    std::vector<std::thread> workers;
    for (const Site& site : sites_) {
      workers.emplace_back([&, site = &site] {
        for (size_t i; (i = next++) < count && failed < 5;) {
          std::string problem;
          try {
            problem = job(*site, i);
          } catch (const std::exception& e) {
            problem = e.what();
          }
          if (problem.empty()) continue;
          ++failed;
          const std::lock_guard guard(mutex);
          ADD_FAILURE() << problem;
        }
      });
    }
    for (std::thread& worker : workers) worker.join();
  }

  void run_kills(const std::vector<Kill>& kills) const {
    std::atomic<size_t> died{0};
    run_all(kills.size(), [&](const Site& site, size_t i) {
      if (i > 0 && i % 100 == 0) std::cout << i << " of " << kills.size() << std::endl;
      return run_kill(site, kills[i], died);
    });
    std::cout << died << " kills\n";
    EXPECT_GE(died, kills.size() - kills.size() / 50);  // threads may make a run a point shorter
  }

  // Each step is killed up to three times, anywhere.
  std::string run_random(const Site& site, uint64_t seed) const {
    std::mt19937_64 random(seed);
    const auto below = [&](size_t bound) { return static_cast<size_t>(random() % bound); };
    const size_t fresh_before = below(steps_.size());
    std::string problem, story = fmt::format("with seed {}:", seed);
    site.restore(0);
    for (size_t step = 0; step < steps_.size() && problem.empty(); ++step) {
      if (step == fresh_before) problem += site.run_well(inputs_.fresh());
      for (size_t kills = below(4); kills > 0; --kills) {
        const size_t pass = 1 + below(points_[step].size());
        const Crash crash = below(2) == 0 ? Crash::process : Crash::power;
        if (!site.run_killed(steps_[step], pass, crash, problem)) continue;
        story += fmt::format(" {}", describe({step, pass, crash}));
      }
      problem += site.run_well(steps_[step]);
    }
    if (problem.empty()) problem = site.check_rows(inputs_.rows(true), Inputs::rejects());
    return problem.empty() ? "" : story + "\n" + problem;
  }

 private:
  std::string describe(const Kill& kill) const {
    return fmt::format("[{} at {} ({}) of {}]", kill.crash == Crash::power ? "power cut" : "kill", kill.pass,
                       points_[kill.step].at(kill.pass - 1), steps_[kill.step].name);
  }

  std::string run_kill(const Site& site, const Kill& kill, std::atomic<size_t>& died) const {
    site.restore(kill.step);
    std::string problem;
    if (site.run_killed(steps_[kill.step], kill.pass, kill.crash, problem)) ++died;
    bool fresh_due = kill.with_fresh;
    for (size_t step = kill.step; step < steps_.size() && problem.empty(); ++step) {
      if (steps_[step].ships && std::exchange(fresh_due, false)) problem += site.run_well(inputs_.fresh());
      problem += site.run_well(steps_[step]);
    }
    if (problem.empty()) problem = site.check_rows(inputs_.rows(kill.with_fresh), Inputs::rejects());
    return problem.empty() ? ""
                           : fmt::format("{}{}\n{}", describe(kill), kill.with_fresh ? " and new rows" : "", problem);
  }

  Inputs inputs_;
  std::vector<Step> steps_ = inputs_.steps();
  std::vector<Site> sites_;
  std::vector<std::vector<std::string>> points_;  // by step
};

TEST(KilledSampled, EachRowIsThereOnceAtSomeOfThePoints) {
  const Scenario scenario;
  ASSERT_GE(scenario.print_points(), 40u);
  const std::vector<Kill> all = scenario.all_kills();
  const size_t stride = all.size() / 36 + 1;
  SCOPED_TRACE(fmt::format("FIRN_TEST_SEED={}", test_seed()));
  std::vector<Kill> kills;
  for (size_t i = test_seed() % stride; i < all.size(); i += stride) kills.push_back(all[i]);
  scenario.run_kills(kills);
}

TEST(KilledEverywhere, EachRowIsThereOnceWhateverThePoint) {
  const Scenario scenario;
  ASSERT_GE(scenario.print_points(), 40u);
  scenario.run_kills(scenario.all_kills());
}

TEST(KilledEverywhere, EachRowIsThereOnceHoweverOftenTheProcessDies) {
  const Scenario scenario;
  SCOPED_TRACE(fmt::format("FIRN_TEST_SEED={}", test_seed()));
  scenario.run_all(60, [&](const Site& site, size_t i) { return scenario.run_random(site, test_seed() + i); });
}

}  // namespace
}  // namespace firn::hyp
