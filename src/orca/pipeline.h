// Steps and pipelines, as a program defines them:
//
//   ORCA_PIPELINE(nyc) {
//     schedule("0 6 * * *");
//     step("load_raw", load_raw).writes("nyc.raw");
//     step("load_day", load_day).mapped<Day>().after("load_raw").reads("nyc.raw").replaces("nyc.flights").retries(3);
//     step("summary", summarise).from("load_day").reads("nyc.flights").replaces("nyc.summary");
//   }
//
// A step's function takes the Ctx, then, if the step is mapped, its key, then one input for each step named by from(),
// in that order: what that step returned. Of a mapped step a step with the same keys gets what the same key returned,
// any other step a std::vector of all, in the order of the keys.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <typeindex>
#include <utility>
#include <vector>

#include "base/cron.h"
#include "orca/ctx.h"
#include "orca/keys.h"
#include "orca/state/run_state.h"

namespace firn::orca {

std::string type_title(std::type_index type);  // as C++ writes it

struct ParameterType {
  std::type_index type = typeid(void);
  std::type_index element = typeid(void);  // of a std::vector
};

struct RetryPolicy {
  int64_t retries = 0;  // tries after the first
  int64_t wait_ms = 1'000;
  int64_t wait_ms_max = 300'000;
};
// Before try number `tries` + 1: wait_ms doubled for every earlier one, up to the most, less up to a half by chance.
int64_t retry_wait_ms(const RetryPolicy& policy, int64_t tries, double random);

// A run, for a function that says which keys it has.
struct KeysRequest {
  int64_t run_number = 0;
  int64_t started_ms = 0;               // UTC
  std::optional<int64_t> scheduled_ms;  // of a scheduled run: the time that was due
  std::vector<std::string> keys;        // those that the run was begun with (--key, --from), of whatever step
};

struct StepDefinition {
  struct Need {
    std::string step;
    bool is_input = false;
    bool is_keys = false;
  };
  // Shared: what a whole step returned may be large, and many partitions take it.
  using Inputs = std::vector<std::shared_ptr<const std::string>>;
  using Call = std::function<std::string(Ctx&, const std::string& partition, const Inputs& inputs)>;

  std::string name, description;
  StepDatasets datasets;
  std::vector<Need> needs;
  std::vector<ParameterType> parameters;  // without Ctx and key
  std::type_index output = typeid(void), output_element = typeid(void);
  std::string types;  // of parameters and output, as JSON has them
  Call call;          // inputs and result as JSON

  bool mapped = false;
  std::type_index key = typeid(void);
  std::string key_name;
  std::function<std::vector<std::string>(const KeysRequest&)> keys;  // null: from a step before, or the command line
  std::function<std::vector<std::string>(const std::string&)> keys_of_json;  // of keys_from's result
  std::function<std::string(const std::string&)> key_from_words;             // checked, in its one spelling
  std::function<std::vector<std::string>(const std::string& from, const std::string& to)> range;  // null: no ranges

  RetryPolicy retry;
  int64_t timeout_ms = 0;    // 0: none
  int64_t parallel_max = 0;  // 0: no limit but the runner's
  std::vector<std::string> resources;
};

struct Pipeline {
  std::string name, description;
  std::deque<StepDefinition> steps;  // as defined; pointers to them hold
  std::optional<CronSchedule> schedule;
  std::vector<std::pair<std::string, int64_t>> resources;

  // Of check_pipeline(): the steps in an order of execution, and what the state is told of them.
  std::vector<const StepDefinition*> order;
  RunPlan plan;
  std::vector<std::vector<size_t>> inputs;  // of order[i]: for each parameter, the index into plan.steps[i].after
};

// Orders the steps and checks all that can be known before a run: names, needs, cycles, the types that go from step to
// step, keys, limits. Throws config naming the step, what was wrong and what to do.
void check_pipeline(Pipeline& pipeline);

namespace internal {

template <class T>
struct ElementOf {
  static std::type_index type() { return typeid(void); }
};
template <class T>
struct ElementOf<std::vector<T>> {
  static std::type_index type() { return typeid(T); }
};

template <class R, class Function, class... Arguments>
std::string call_to_json(const Function& function, Ctx& ctx, const Arguments&... arguments) {
  if constexpr (std::is_void_v<R>) {
    function(ctx, arguments...);
    return "null";
  } else {
    const R result = function(ctx, arguments...);
    try {
      return value_to_json<R>(result).dump();
    } catch (const Error& e) {
      throw Error(e.kind(), "what the step returned", e);
    }
  }
}

template <class... Inputs, size_t... I>
std::tuple<Inputs...> inputs_from_json(const StepDefinition::Inputs& inputs, std::index_sequence<I...>) {
  return std::tuple<Inputs...>{
      value_from_json<Inputs>(parse_json(*inputs.at(I), "an input"), "input " + std::to_string(I + 1))...};
}

template <class R>
std::string output_type() {
  if constexpr (std::is_void_v<R>) {
    return "nothing";
  } else {
    return json_type<R>();
  }
}

// Everything of `step` that follows from the function's inputs (without the key) and its result.
template <class R, class... Inputs>
void set_types(StepDefinition& step) {
  step.output = typeid(R);
  step.output_element = ElementOf<R>::type();
  step.parameters = {ParameterType{.type = typeid(Inputs), .element = ElementOf<Inputs>::type()}...};
  step.types.clear();
  ((step.types += json_type<Inputs>() + ","), ...);
  step.types += "->" + output_type<R>();
}

template <class K>
struct TakeKey {
  template <class R, class Function, class First, class... Inputs>
  static void set_call(StepDefinition& step, Function function, std::tuple<First, Inputs...>*) {
    static_assert(std::is_same_v<First, K>, "a step mapped over K is a function (Ctx&, const K&, inputs…)");
    set_types<R, Inputs...>(step);
    step.call = [function](Ctx& ctx, const std::string& partition, const StepDefinition::Inputs& inputs) {
      const K key = key_from_text<K>(partition);
      return std::apply([&](const Inputs&... input) { return call_to_json<R>(function, ctx, key, input...); },
                        inputs_from_json<Inputs...>(inputs, std::index_sequence_for<Inputs...>()));
    };
  }
};

// Errors name the step.
template <class K>
std::vector<std::string> key_texts(const std::string& step, const std::vector<K>& keys) {
  std::vector<std::string> texts;
  texts.reserve(keys.size());
  try {
    for (const K& key : keys) texts.push_back(key_text(key));
  } catch (const Error& e) {
    throw Error(e.kind(), "step " + step, e);
  }
  return texts;
}

}  // namespace internal

// One step, while it is defined. R is what its function returns, A what it takes after the Ctx.
template <class R, class... A>
class StepBuilder {
 public:
  StepBuilder(StepDefinition& step, std::function<R(Ctx&, const A&...)> function)
      : step_(&step), function_(std::move(function)) {
    internal::set_types<R, A...>(step);
    step.call = [f = function_](Ctx& ctx, const std::string&, const StepDefinition::Inputs& inputs) {
      return std::apply([&](const A&... input) { return internal::call_to_json<R>(f, ctx, input...); },
                        internal::inputs_from_json<A...>(inputs, std::index_sequence_for<A...>()));
    };
  }

  // The step runs once for each key. Its keys are those of the first mapped step that it names in from() or after() and
  // that has the same type of key; else those of the command line. The function's first parameter is the key.
  template <class K>
  StepBuilder& mapped() {
    static_assert(sizeof...(A) > 0, "a mapped step is a function (Ctx&, const K&, inputs…)");
    if constexpr (sizeof...(A) > 0) {
      internal::TakeKey<K>::template set_call<R>(*step_, function_, static_cast<std::tuple<A...>*>(nullptr));
    }
    step_->mapped = true;
    step_->key = typeid(K);
    step_->key_name = key_title<K>();
    step_->key_from_words = [](const std::string& text) { return key_text(key_from_text<K>(text)); };
    step_->keys_of_json = [step = step_->name](const std::string& json) {
      return internal::key_texts<K>(step, value_from_json<std::vector<K>>(parse_json(json, "keys"), "keys"));
    };
    if constexpr (RangedKey<K>) step_->range = key_range<K>;
    return *this;
  }

  // As mapped<K>(), with these keys: std::vector<K>(), or of a function () or (const KeysRequest&) that returns them.
  // It is called once a run, when the steps before have ended; keys named on the command line come before it.
  template <class K, class Keys>
  StepBuilder& mapped(Keys keys) {
    mapped<K>();
    if constexpr (std::is_invocable_v<Keys, const KeysRequest&>) {
      step_->keys = [keys, step = step_->name](const KeysRequest& request) {
        return internal::key_texts<K>(step, keys(request));
      };
    } else if constexpr (std::is_invocable_v<Keys>) {
      step_->keys = [keys, step = step_->name](const KeysRequest&) { return internal::key_texts<K>(step, keys()); };
    } else {
      step_->keys = [texts = internal::key_texts<K>(step_->name, keys)](const KeysRequest&) { return texts; };
    }
    return *this;
  }

  // As mapped<K>(), with the keys that another step, not a mapped one, returns as a std::vector<K>.
  template <class K>
  StepBuilder& mapped_over(const std::string& step) {
    mapped<K>();
    step_->needs.push_back({.step = step, .is_keys = true});
    return *this;
  }

  // Steps whose results are the function's inputs, in the order of its parameters. A step is named, or given as step()
  // returned it; then that some parameter takes its result is checked by the compiler, too.
  template <class... Steps>
  StepBuilder& from(const Steps&... steps) {
    (step_->needs.push_back({.step = input_name(steps), .is_input = true}), ...);
    return *this;
  }
  // Steps that are to be done before, without an input from them.
  template <class... Steps>
  StepBuilder& after(const Steps&... steps) {
    (step_->needs.push_back({.step = name_of(steps)}), ...);
    return *this;
  }

  // "namespace.table", as orca/tables names them.
  template <class... Names>
  StepBuilder& reads(const Names&... names) {
    (step_->datasets.reads.emplace_back(names), ...);
    return *this;
  }
  template <class... Names>
  StepBuilder& writes(const Names&... names) {
    (step_->datasets.writes.emplace_back(names), ...);
    return *this;
  }
  template <class... Names>
  StepBuilder& replaces(const Names&... names) {
    (step_->datasets.replaces.emplace_back(names), ...);
    return *this;
  }

  // How often a failed try is made again, and how long is waited before: doubled each time, up to wait_ms_max.
  StepBuilder& retries(int64_t count, int64_t wait_ms = 1'000, int64_t wait_ms_max = 300'000) {
    step_->retry = {.retries = count, .wait_ms = wait_ms, .wait_ms_max = wait_ms_max};
    return *this;
  }
  // A try that takes longer has failed: its lease is taken away, ctx.cancelled() is true, and what it does is ignored.
  StepBuilder& timeout_ms(int64_t ms) {
    step_->timeout_ms = ms;
    return *this;
  }
  // How many of the step's partitions run at once, over all runs and runners.
  StepBuilder& at_most(int64_t count) {
    step_->parallel_max = count;
    return *this;
  }
  // Counts against a limit that the pipeline declares with resource().
  StepBuilder& uses(const std::string& resource) {
    step_->resources.push_back(resource);
    return *this;
  }
  StepBuilder& describe(const std::string& text) {
    step_->description = text;
    return *this;
  }
  const std::string& name() const { return step_->name; }

 private:
  static std::string name_of(const std::string& name) { return name; }
  template <class R2, class... A2>
  static std::string name_of(const StepBuilder<R2, A2...>& step) {
    return step.name();
  }
  static std::string input_name(const std::string& name) { return name; }
  template <class R2, class... A2>
  static std::string input_name(const StepBuilder<R2, A2...>& step) {
    static_assert(((std::is_same_v<A, R2> || std::is_same_v<A, std::vector<R2>>) || ...),
                  "the function has no parameter that takes what this step returns");
    return step.name();
  }

  StepDefinition* step_;
  std::function<R(Ctx&, const A&...)> function_;
};

// What the body of ORCA_PIPELINE is a member of.
class PipelineBuilder {
 public:
  explicit PipelineBuilder(Pipeline& pipeline) : pipeline_(pipeline) {}
  virtual ~PipelineBuilder() = default;
  virtual void define() = 0;

 protected:
  template <class F>
  auto step(const std::string& name, F function) {
    return add(name, std::function(std::move(function)));
  }
  // Five fields (minute hour day month weekday), in UTC; see `serve`.
  void schedule(const std::string& cron) { pipeline_.schedule = CronSchedule::parse(cron); }
  // At most `count` running partitions of steps that use it, over all runs, pipelines and runners of one state.
  void resource(const std::string& name, int64_t count) { pipeline_.resources.emplace_back(name, count); }
  void describe(const std::string& text) { pipeline_.description = text; }

 private:
  template <class R, class... A>
  StepBuilder<R, std::remove_cvref_t<A>...> add(const std::string& name, std::function<R(Ctx&, A...)> function) {
    StepDefinition& step = pipeline_.steps.emplace_back();
    step.name = name;
    return StepBuilder<R, std::remove_cvref_t<A>...>(step, std::move(function));
  }

  Pipeline& pipeline_;
};

// The program's pipelines. Definitions run when they are first asked for; throws what check_pipeline throws.
std::vector<Pipeline>& registered_pipelines();
bool register_pipeline(const char* name, void (*define)(Pipeline&));

#define ORCA_PIPELINE(NAME)                                                                     \
  namespace {                                                                                   \
  struct OrcaPipeline_##NAME final : ::firn::orca::PipelineBuilder {                            \
    using PipelineBuilder::PipelineBuilder;                                                     \
    void define() override;                                                                     \
  };                                                                                            \
  [[maybe_unused]] const bool orca_pipeline_##NAME = ::firn::orca::register_pipeline(           \
      #NAME, [](::firn::orca::Pipeline& pipeline) { OrcaPipeline_##NAME(pipeline).define(); }); \
  }                                                                                             \
  void OrcaPipeline_##NAME::define()

}  // namespace firn::orca
