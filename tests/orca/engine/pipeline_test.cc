// What is checked before a run begins: names, needs, and the types that go from step to step.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "orca/definition.h"
#include "orca/graph.h"
#include "orca/pipeline.h"

namespace firn::orca {
namespace {

struct Loaded {
  int64_t rows = 0;
};

int64_t number(Ctx&) { return 1; }
std::string text(Ctx&) { return "t"; }
void nothing(Ctx&) {}
int64_t of_number(Ctx&, const int64_t& n) { return n; }
Loaded load_day(Ctx&, const Day&) { return {}; }
int64_t check_day(Ctx&, const Day&, const Loaded& loaded) { return loaded.rows; }
int64_t sum(Ctx&, const std::vector<Loaded>& all) { return static_cast<int64_t>(all.size()); }
std::vector<int64_t> some_numbers(Ctx&) { return {}; }
int64_t of_integer(Ctx&, const int64_t& key) { return key; }

Pipeline defined(const std::function<void(Definition&)>& body) {
  Pipeline pipeline;
  pipeline.name = "p";
  Definition(pipeline, body).define();
  check_pipeline(pipeline);
  return pipeline;
}

void expect_refused(const std::function<void(Definition&)>& body, const std::string& why) {
  try {
    defined(body);
    ADD_FAILURE() << "not refused: " << why;
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::config);
    EXPECT_THAT(e.what(), ::testing::HasSubstr(why));
  }
}

TEST(Pipelines, StepsMayStandInAnyOrder) {
  const Pipeline pipeline = defined([](Definition& d) {
    d.step("last", sum).from("load");
    d.step("load", load_day).mapped<Day>().after("first");
    d.step("first", nothing);
  });
  ASSERT_EQ(pipeline.order.size(), 3U);
  EXPECT_EQ(pipeline.order[0]->name, "first");
  EXPECT_EQ(pipeline.order[2]->name, "last");
}

TEST(Pipelines, TypesThatDoNotFitAreToldBeforeARun) {
  expect_refused([](Definition& d) { d.step("a", text), d.step("b", of_number).from("a"); },
                 "returns std::string: the parameter is long");
  expect_refused([](Definition& d) { d.step("a", nothing), d.step("b", of_number).from("a"); }, "returns nothing");
  expect_refused([](Definition& d) { d.step("load", load_day).mapped<Day>(), d.step("b", of_number).from("load"); },
                 "must be a std::vector of these");
  expect_refused([](Definition& d) { d.step("b", of_number); },
                 "takes 1 inputs, from() names 0; is mapped<K>() missing?");
  expect_refused([](Definition& d) { d.step("a", number), d.step("b", number).from("a"); },
                 "takes 0 inputs, from() names 1");
  expect_refused([](Definition& d) { d.step("k", some_numbers), d.step("load", load_day).mapped_over<Day>("k"); },
                 "not a std::vector of firn::orca::Day");
}

TEST(Pipelines, NamesAndNeedsAreChecked) {
  expect_refused([](Definition&) {}, "has no steps");
  expect_refused([](Definition& d) { d.step("a b", number); }, "no name for a step");
  expect_refused([](Definition& d) { d.step("a", number), d.step("a", number); }, "two steps are named a");
  expect_refused([](Definition& d) { d.step("a", number).after("b"); }, "which pipeline p does not have");
  expect_refused([](Definition& d) { d.step("a", number).after("b"), d.step("b", number).after("a"); },
                 "wait for each other: a, b");
  expect_refused([](Definition& d) { d.step("a", number).reads("events"); }, "namespace.table");
  expect_refused([](Definition& d) { d.step("a", number).writes("n.t").replaces("n.t"); },
                 "both in writes() and in replaces()");
  expect_refused([](Definition& d) { d.step("a", number).uses("db"); }, "resource(\"db\", COUNT)");
  expect_refused([](Definition& d) { d.resource("db", 0), d.step("a", number); }, "at least 1");
  expect_refused(
      [](Definition& d) { d.step("load", load_day).mapped<Day>(), d.step("n", of_integer).mapped<int64_t>(); },
      "keys of another type");
}

TEST(Pipelines, AMappedStepWithTheSameKeysGetsItsOwnKeysInput) {
  const Pipeline pipeline = defined([](Definition& d) {
    const auto loads = d.step("load", load_day).mapped<Day>();
    d.step("check", check_day).mapped<Day>().from(loads);
    d.step("sum", sum).from(loads);
  });
  EXPECT_TRUE(pipeline.plan.steps[1].after.at(0).aligned);
  EXPECT_FALSE(pipeline.plan.steps[2].after.at(0).aligned);
}

TEST(Pipelines, KeysOfItsOwnMakeAStepCollect) {
  const auto all = [](Ctx&, const Day&, const std::vector<Loaded>&) { return 1; };
  const Pipeline pipeline = defined([&](Definition& d) {
    d.step("load", load_day).mapped<Day>();
    d.step("other", all).mapped<Day>(std::vector<Day>{Day::parse("2013-01-01")}).from("load");
  });
  EXPECT_FALSE(pipeline.plan.steps[1].after.at(0).aligned);
}

TEST(Pipelines, AStepsFunctionGetsWhatItsInputsHold) {
  Pipeline pipeline = defined([](Definition& d) {
    d.step("load", load_day).mapped<Day>();
    d.step("check", check_day).mapped<Day>().from("load");
  });
  struct NoRecord final : AttemptRecord {
    Pin pin(const Pin& proposed) override { return proposed; }
    Floor floor(const Floor& proposed) override { return proposed; }
    std::vector<Pin> pins() const override { return {}; }
    void check_lease() override {}
  } record;
  Ctx ctx({}, {}, record);
  const auto call = [&](const std::string& input) {
    return pipeline.order[1]->call(ctx, "2013-01-01", {std::make_shared<const std::string>(input)});
  };
  EXPECT_EQ(call("[42]"), "42");
  EXPECT_THROW(call("\"x\""), Error);
}

TEST(Pipelines, RetriesWaitLongerEachTimeUpToTheMost) {
  const RetryPolicy policy{.retries = 9, .wait_ms = 100, .wait_ms_max = 1'000};
  EXPECT_EQ(retry_wait_ms(policy, 1, 0), 100);
  EXPECT_EQ(retry_wait_ms(policy, 2, 0), 200);
  EXPECT_EQ(retry_wait_ms(policy, 4, 0), 800);
  EXPECT_EQ(retry_wait_ms(policy, 60, 0), 1'000);
  EXPECT_EQ(retry_wait_ms(policy, 1, 1), 50) << "less up to a half, by chance";
}

TEST(Pipelines, APictureNamesEveryStepAndDataset) {
  const Pipeline pipeline = defined([](Definition& d) {
    d.step("load", load_day).mapped<Day>().replaces("n.days");
    d.step("sum", sum).from("load").reads("n.days").writes("n.<sum>");
  });
  const std::string svg = graph_svg(pipeline);
  for (const char* part : {"load [day]", "replaces n.days", "reads n.days", "writes n.&lt;sum&gt;"})
    EXPECT_THAT(svg, ::testing::HasSubstr(part));
  EXPECT_EQ(graph_text(pipeline),
            "p\n  load [day]  (replaces n.days)\n    sum <- load  (reads n.days, writes n.<sum>)\n");
}

}  // namespace
}  // namespace firn::orca
