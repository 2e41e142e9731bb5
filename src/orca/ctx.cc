#include "orca/ctx.h"

#include "base/error.h"

namespace firn::orca {

Ctx::Ctx(AttemptId id, StepDatasets datasets, AttemptRecord& record, Tasks* tasks, const std::atomic<bool>* cancelled)
    : id_(std::move(id)), datasets_(std::move(datasets)), record_(record), tasks_(tasks), cancelled_(cancelled) {}

void Ctx::throw_if_cancelled() const {
  if (cancelled()) fail(ErrorKind::cancelled, "step {}: this attempt was told to end", id_.step);
}

Tasks& Ctx::tasks() {
  if (tasks_ == nullptr) fail(ErrorKind::config, "step {}: this run has no tasks", id_.step);
  return *tasks_;
}

int64_t Ctx::next_commit(const std::string& location) const {
  const auto found = commits_.find(location);
  return found == commits_.end() ? 1 : found->second + 1;
}

void Ctx::count_commit(const std::string& location) { ++commits_[location]; }

void Ctx::before_result(const std::string& key, std::function<void(const Ctx&)> check) {
  checks_[key] = std::move(check);
}

void Ctx::check_result() const {
  for (const auto& [key, check] : checks_) check(*this);
}

}  // namespace firn::orca
