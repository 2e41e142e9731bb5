// Runs a command as a user would.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace firn {

struct ProgramResult {
  int status = 0;  // of exit, or 128 + the signal that ended it
  std::string out;
  std::string err;
};

// Runs argv[0] (searched in PATH if it has no '/') with `env` set over this process's environment and `input` as
// standard input, and waits for its end. Throws io if it cannot be started. A program that does not read its input is
// fine.
ProgramResult run_program(const std::vector<std::string>& argv, const std::map<std::string, std::string>& env = {},
                          std::string_view input = {});

}  // namespace firn
