#include "orca/ctx.h"

#include "base/error.h"

namespace firn::orca {

Ctx::Ctx(AttemptId id, StepDatasets datasets, AttemptRecord& record, Tasks* tasks)
    : id_(std::move(id)), datasets_(std::move(datasets)), record_(record), tasks_(tasks) {}

Tasks& Ctx::tasks() {
  if (tasks_ == nullptr) fail(ErrorKind::config, "step {}: this run has no tasks", id_.step);
  return *tasks_;
}

int64_t Ctx::next_commit(const std::string& location) const {
  const auto found = commits_.find(location);
  return found == commits_.end() ? 1 : found->second + 1;
}

void Ctx::count_commit(const std::string& location) { ++commits_[location]; }

}  // namespace firn::orca
