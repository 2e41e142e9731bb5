// Rows that a receiver can never take, kept for a person (P11.3).
//
//   <stateDir>/<sink>/dead-letters/<dataset>/<partition-key>.ndjson
//   {"open", "number", "time", "status", "reason", "row"}: `number` as a decimal string; `status` 0 if it was not sent
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "hyp/cache/cache.h"

namespace firn::hyp {

std::string dead_letters_path(const std::string& state_dir, const std::string& sink, const PartitionId& partition);

struct DeadLetter {
  int64_t number = 0;
  int status = 0;
  std::string reason;
  std::string row;  // one JSON object, without line end
};

// Of the rows (since, until] of one open; each is in the file once, however often its unit is sent (a crash, a reset).
// Requires the sink's lock. One thread.
class DeadLetters {
 public:
  DeadLetters(std::string path, std::string open_id, int64_t since, int64_t until);
  // Whether the file had a letter of the row before this object added any; each counts once.
  bool take(int64_t number);
  // Adds those that the file does not have yet. Durable when it returns.
  void add(const std::vector<DeadLetter>& letters);
  const std::string& path() const { return path_; }

 private:
  void look();  // once

  std::string path_, open_id_;
  int64_t since_, until_;
  std::optional<std::map<int64_t, int64_t>> known_;  // letters by number; nullopt: not looked yet
  int64_t end_of_lines_ = 0;                         // what follows was torn by a crash
};

}  // namespace firn::hyp
