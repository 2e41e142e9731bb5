// A pipeline defined by a function of the test.
#pragma once

#include <functional>
#include <utility>

#include "orca/pipeline.h"

namespace firn::orca {

class Definition : public PipelineBuilder {
 public:
  Definition(Pipeline& pipeline, std::function<void(Definition&)> body)
      : PipelineBuilder(pipeline), body_(std::move(body)) {}
  void define() override { body_(*this); }
  using PipelineBuilder::resource;
  using PipelineBuilder::schedule;
  using PipelineBuilder::step;

 private:
  std::function<void(Definition&)> body_;
};

}  // namespace firn::orca
