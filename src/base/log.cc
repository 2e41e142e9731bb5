#include "base/log.h"

#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/stdout_sinks.h>

#include <cstdlib>
#include <memory>
#include <string_view>

#include "base/error.h"

namespace firn {
namespace {

// The message with control bytes escaped: what a row or a peer sent cannot begin a line of its own.
class EscapedMessage : public spdlog::custom_flag_formatter {
 public:
  void format(const spdlog::details::log_msg& message, const std::tm&, spdlog::memory_buf_t& into) override {
    for (const char c : message.payload) {
      if (static_cast<uint8_t>(c) >= 0x20 && c != 0x7f) {
        into.push_back(c);
      } else if (c == '\n') {
        fmt::format_to(std::back_inserter(into), "\\n");
      } else {
        fmt::format_to(std::back_inserter(into), "\\x{:02x}", static_cast<uint8_t>(c));
      }
    }
  }
  std::unique_ptr<custom_flag_formatter> clone() const override { return std::make_unique<EscapedMessage>(); }
};

}  // namespace

void init_log(spdlog::level::level_enum default_level) {
  spdlog::level::level_enum level = default_level;
  if (const char* text = std::getenv("FIRN_LOG"); text != nullptr && *text != '\0') {
    const std::string_view name = text;
    if (name == "debug") {
      level = spdlog::level::debug;
    } else if (name == "info") {
      level = spdlog::level::info;
    } else if (name == "warn") {
      level = spdlog::level::warn;
    } else if (name == "error") {
      level = spdlog::level::err;
    } else {
      fail(ErrorKind::config, "FIRN_LOG is \"{}\": use debug, info, warn or error", name);
    }
  }
  auto logger = std::make_shared<spdlog::logger>("firn", std::make_shared<spdlog::sinks::stderr_sink_mt>());
  auto formatter = std::make_unique<spdlog::pattern_formatter>(spdlog::pattern_time_type::utc);
  formatter->add_flag<EscapedMessage>('*').set_pattern("%Y-%m-%dT%H:%M:%S.%eZ %l %*");
  logger->set_formatter(std::move(formatter));
  logger->set_level(level);
  spdlog::set_default_logger(std::move(logger));
}

}  // namespace firn
