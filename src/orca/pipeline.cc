#include "orca/pipeline.h"

#include <cxxabi.h>

#include <algorithm>
#include <set>

namespace firn::orca {
namespace {

bool is_name(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
  });
}

void check_dataset(const std::string& title, const std::string& name) {
  const size_t dot = name.find('.');
  if (dot == std::string::npos || dot == 0 || dot + 1 == name.size()) {
    fail(ErrorKind::config, "{}: \"{}\" is no dataset; they are named namespace.table", title, name);
  }
}

// What can be said of a step alone.
void check_alone(const Pipeline& pipeline, const StepDefinition& step) {
  const std::string title = "step " + step.name;
  if (!is_name(step.name)) {
    fail(ErrorKind::config, "pipeline {}: \"{}\" is no name for a step: letters, digits, - and _", pipeline.name,
         step.name);
  }
  for (const auto* names : {&step.datasets.reads, &step.datasets.writes, &step.datasets.replaces}) {
    for (const std::string& name : *names) check_dataset(title, name);
  }
  for (const std::string& name : step.datasets.replaces) {
    if (std::find(step.datasets.writes.begin(), step.datasets.writes.end(), name) != step.datasets.writes.end()) {
      fail(ErrorKind::config, "{}: {} is both in writes() and in replaces(); an append to it would be either", title,
           name);
    }
  }
  if (step.retry.retries < 0 || step.retry.wait_ms < 0 || step.retry.wait_ms_max < step.retry.wait_ms) {
    fail(ErrorKind::config, "{}: retries({}, {}, {}): none may be negative, and the longest wait not the shorter one",
         title, step.retry.retries, step.retry.wait_ms, step.retry.wait_ms_max);
  }
  if (step.timeout_ms < 0) fail(ErrorKind::config, "{}: timeout_ms({}) is negative", title, step.timeout_ms);
  if (step.parallel_max < 0) fail(ErrorKind::config, "{}: at_most({}) is negative", title, step.parallel_max);
  for (const std::string& name : step.resources) {
    const auto same = [&](const auto& resource) { return resource.first == name; };
    if (std::none_of(pipeline.resources.begin(), pipeline.resources.end(), same)) {
      fail(ErrorKind::config, "{} uses resource {}, which the pipeline does not declare: resource(\"{}\", COUNT)",
           title, name, name);
    }
  }
  if (!step.mapped &&
      std::any_of(step.needs.begin(), step.needs.end(), [](const auto& need) { return need.is_keys; })) {
    fail(ErrorKind::internal, "{}: keys without mapped()", title);
  }
}

const StepDefinition* find_step(const Pipeline& pipeline, const std::string& name) {
  for (const StepDefinition& step : pipeline.steps) {
    if (step.name == name) return &step;
  }
  return nullptr;
}

// Steps in order of execution, by definition where they are free.
std::vector<const StepDefinition*> in_order(const Pipeline& pipeline) {
  std::vector<const StepDefinition*> order;
  std::set<std::string> placed;
  while (order.size() < pipeline.steps.size()) {
    const size_t before = order.size();
    for (const StepDefinition& step : pipeline.steps) {
      if (placed.contains(step.name)) continue;
      if (std::all_of(step.needs.begin(), step.needs.end(),
                      [&](const auto& need) { return placed.contains(need.step); })) {
        order.push_back(&step);
        placed.insert(step.name);
      }
    }
    if (order.size() == before) {
      std::string names;
      for (const StepDefinition& step : pipeline.steps) {
        if (!placed.contains(step.name)) names += (names.empty() ? "" : ", ") + step.name;
      }
      fail(ErrorKind::config, "pipeline {}: these steps wait for each other: {}", pipeline.name, names);
    }
  }
  return order;
}

bool has_own_keys(const StepDefinition& step) {
  return step.keys != nullptr ||
         std::any_of(step.needs.begin(), step.needs.end(), [](const auto& need) { return need.is_keys; });
}

// The step whose keys `step` has in the end; nullptr: those of the command line.
const StepDefinition* key_origin(const Pipeline& pipeline, const StepDefinition& step) {
  if (has_own_keys(step)) return &step;
  for (const StepDefinition::Need& need : step.needs) {
    const StepDefinition* before = find_step(pipeline, need.step);
    if (before->mapped && before->key == step.key) return key_origin(pipeline, *before);
  }
  return nullptr;
}

void check_input(const StepDefinition& step, const StepDefinition& source, bool collected,
                 const ParameterType& parameter, size_t index) {
  const std::string title = fmt::format("step {}: its input {} comes from {}", step.name, index + 1, source.name);
  if (source.output == typeid(void)) fail(ErrorKind::config, "{}, which returns nothing; use after()", title);
  if (collected) {
    if (parameter.element != source.output) {
      fail(ErrorKind::config,
           "{}, a mapped step that returns {} for each key: the parameter must be a std::vector of these, and is {}",
           title, type_title(source.output), type_title(parameter.type));
    }
  } else if (parameter.type != source.output) {
    fail(ErrorKind::config, "{}, which returns {}: the parameter is {}", title, type_title(source.output),
         type_title(parameter.type));
  }
}

// One edge a step before; an input and an order of the same step are one.
void add_edges(Pipeline& pipeline, size_t at) {
  const StepDefinition& step = *pipeline.order[at];
  StepPlan& plan = pipeline.plan.steps[at];
  std::vector<size_t>& inputs = pipeline.inputs[at];
  for (const StepDefinition::Need& need : step.needs) {
    const StepDefinition& source = *find_step(pipeline, need.step);
    const size_t index = std::find(pipeline.order.begin(), pipeline.order.end(), &source) - pipeline.order.begin();
    const bool aligned = step.mapped && source.mapped && !has_own_keys(step) && step.key == source.key &&
                         key_origin(pipeline, source) == key_origin(pipeline, step);
    if (step.mapped && source.mapped && !has_own_keys(step) && step.key == source.key && !aligned) {
      fail(ErrorKind::config,
           "step {}: {} has other keys than the mapped step before it; give {} keys of its own, or drop one", step.name,
           source.name, step.name);
    }
    if (need.is_keys) {
      if (source.mapped)
        fail(ErrorKind::config,
             "step {}: mapped_over({}) names a mapped step; its keys come from a step that runs once", step.name,
             source.name);
      if (source.output_element != step.key) {
        fail(ErrorKind::config, "step {}: mapped_over({}): that step returns {}, not a std::vector of {}", step.name,
             source.name, type_title(source.output), type_title(step.key));
      }
    }
    const StepEdge edge{.step = index, .aligned = aligned};
    auto found = std::find(plan.after.begin(), plan.after.end(), edge);
    if (found == plan.after.end()) found = plan.after.insert(found, edge);
    if (!need.is_input) continue;
    if (inputs.size() < step.parameters.size()) {
      check_input(step, source, source.mapped && !aligned, step.parameters[inputs.size()], inputs.size());
    }
    inputs.push_back(found - plan.after.begin());
  }
  if (inputs.size() != step.parameters.size()) {
    fail(ErrorKind::config, "step {}: its function takes {} inputs, from() names {}{}", step.name,
         step.parameters.size(), inputs.size(),
         !step.mapped && step.parameters.size() == inputs.size() + 1 ? "; is mapped<K>() missing?" : "");
  }
}

void add_limits(Pipeline& pipeline, size_t at) {
  const StepDefinition& step = *pipeline.order[at];
  StepPlan& plan = pipeline.plan.steps[at];
  if (step.parallel_max > 0) {
    plan.limits.push_back("step " + pipeline.name + "/" + step.name);
    pipeline.plan.limits.emplace_back(plan.limits.back(), step.parallel_max);
  }
  for (const std::string& name : step.resources) {
    if (std::find(plan.limits.begin(), plan.limits.end(), "resource " + name) == plan.limits.end())
      plan.limits.push_back("resource " + name);
  }
}

struct Registration {
  const char* name;
  void (*define)(Pipeline&);
};

std::vector<Registration>& registrations() {
  static std::vector<Registration> all;
  return all;
}

}  // namespace

std::string type_title(std::type_index type) {
  int status = 0;
  char* text = abi::__cxa_demangle(type.name(), nullptr, nullptr, &status);
  std::string title = status == 0 && text != nullptr ? text : type.name();
  std::free(text);
  const std::string long_string = "std::__cxx11::basic_string<char, std::char_traits<char>, std::allocator<char> >";
  for (size_t at = title.find(long_string); at != std::string::npos; at = title.find(long_string)) {
    title.replace(at, long_string.size(), "std::string");
  }
  return title;
}

int64_t retry_wait_ms(const RetryPolicy& policy, int64_t tries, double random) {
  double wait = static_cast<double>(policy.wait_ms);
  for (int64_t i = 1; i < tries && wait < static_cast<double>(policy.wait_ms_max); ++i) wait *= 2;
  wait = std::min(wait, static_cast<double>(policy.wait_ms_max));
  return static_cast<int64_t>(wait * (1 - random / 2));
}

void check_pipeline(Pipeline& pipeline) {
  if (!is_name(pipeline.name))
    fail(ErrorKind::config, "\"{}\" is no name for a pipeline: letters, digits, - and _", pipeline.name);
  if (pipeline.steps.empty()) fail(ErrorKind::config, "pipeline {} has no steps", pipeline.name);
  std::set<std::string> names;
  for (const StepDefinition& step : pipeline.steps) {
    check_alone(pipeline, step);
    if (!names.insert(step.name).second)
      fail(ErrorKind::config, "pipeline {}: two steps are named {}", pipeline.name, step.name);
  }
  for (const StepDefinition& step : pipeline.steps) {
    for (const StepDefinition::Need& need : step.needs) {
      if (!names.contains(need.step))
        fail(ErrorKind::config, "step {} comes after step {}, which pipeline {} does not have", step.name, need.step,
             pipeline.name);
    }
  }
  std::set<std::string> resources;
  for (const auto& [name, count] : pipeline.resources) {
    if (count < 1)
      fail(ErrorKind::config, "pipeline {}: resource {} allows {}; at least 1", pipeline.name, name, count);
    if (!resources.insert(name).second)
      fail(ErrorKind::config, "pipeline {}: resource {} is declared twice", pipeline.name, name);
  }
  pipeline.order = in_order(pipeline);
  pipeline.plan = {};
  pipeline.plan.steps.resize(pipeline.order.size());
  pipeline.inputs.assign(pipeline.order.size(), {});
  for (const auto& [name, count] : pipeline.resources) pipeline.plan.limits.emplace_back("resource " + name, count);
  std::type_index asked = typeid(void);  // of keys of the command line
  for (size_t i = 0; i < pipeline.order.size(); ++i) {
    const StepDefinition& step = *pipeline.order[i];
    StepPlan& plan = pipeline.plan.steps[i];
    plan.name = step.name;
    plan.mapped = step.mapped;
    plan.types = (step.mapped ? step.key_name + ":" : "") + step.types;
    add_edges(pipeline, i);
    add_limits(pipeline, i);
    if (!step.mapped || has_own_keys(step) || key_origin(pipeline, step) != nullptr) continue;
    if (asked != typeid(void) && asked != step.key) {
      fail(ErrorKind::config,
           "step {} takes its keys from the command line, as another step does with keys of another type; give one of "
           "them mapped<K>(keys)",
           step.name);
    }
    asked = step.key;
  }
}

bool register_pipeline(const char* name, void (*define)(Pipeline&)) {
  registrations().push_back({name, define});
  return true;
}

std::vector<Pipeline>& registered_pipelines() {
  static std::vector<Pipeline> pipelines = [] {
    std::vector<Pipeline> all;
    for (const Registration& registration : registrations()) {
      Pipeline& pipeline = all.emplace_back();
      pipeline.name = registration.name;
      registration.define(pipeline);
    }
    for (Pipeline& pipeline : all) check_pipeline(pipeline);  // once they stay where they are
    return all;
  }();
  return pipelines;
}

}  // namespace firn::orca
