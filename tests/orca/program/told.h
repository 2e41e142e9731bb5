// What the steps of tests' programs do beside their work: they write down where they are, and wait where they are told.
#pragma once

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <thread>

#include <fcntl.h>
#include <unistd.h>

#include <fmt/format.h>

#include "orca/ctx.h"

inline std::string environment(const char* name) {
  const char* text = std::getenv(name);
  return text == nullptr ? "" : text;
}

// A line of TEST_EFFECTS: "<what> <step> <key> <attempt> <pid> <detail>".
inline void tell(const char* what, const firn::orca::Ctx& ctx, const std::string& detail = "") {
  const std::string line =
      fmt::format("{} {} {} {} {} {}\n", what, ctx.id().step, ctx.id().partition, ctx.id().attempt, getpid(), detail);
  const int file = open(environment("TEST_EFFECTS").c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  if (write(file, line.data(), line.size()) < 0) std::abort();
  close(file);
}

// Until the file is there. TEST_OBEY: a cancelled attempt gives up.
inline void wait_for_gate(const firn::orca::Ctx& ctx) {
  while (!std::filesystem::exists(environment("TEST_GATE"))) {
    if (!environment("TEST_OBEY").empty()) ctx.throw_if_cancelled();
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}
