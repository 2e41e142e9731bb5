#include "hyp/model/world/step.h"

#include <charconv>
#include <sstream>

#include "base/error.h"

namespace firn::hyp::model {
namespace {

int64_t parse_number(const std::string& text, const std::string& line) {
  int64_t number = 0;
  const char* const end = text.data() + text.size();
  const auto [after, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc() || after != end)
    fail(ErrorKind::invalid_argument, "\"{}\" is no number, in: {}", text, line);
  return number;
}

// A point and its pass.
std::pair<std::string, int64_t> parse_place(std::istringstream& words, const std::string& line) {
  std::string point, pass;
  words >> point >> pass;
  return {point, parse_number(pass, line)};
}

// A word of an action: its name, or an argument.
void parse_word(Step& step, const std::string& word, const std::string& line) {
  if (step.action.empty()) {
    step.action = word;
    return;
  }
  const size_t equals = word.find('=');
  if (equals == std::string::npos) fail(ErrorKind::invalid_argument, "\"{}\" has no value: {}", word, line);
  step.with[word.substr(0, equals)] = parse_number(word.substr(equals + 1), line);
}

Step parse_step(const std::string& line) {
  Step step;
  Step* told = &step;  // whose words come
  std::istringstream words(line);
  for (std::string word; words >> word;) {
    if (word != "|") {
      parse_word(*told, word, line);
      continue;
    }
    words >> word;
    if (word != "kill" && word != "cut" && word != "at") {
      fail(ErrorKind::invalid_argument, "\"{}\" is neither kill, cut nor at: {}", word, line);
    }
    const auto [point, pass] = parse_place(words, line);
    if (word == "at") {
      told = &step.meanwhile.emplace_back(Meanwhile{point, pass, {}}).step;
    } else {
      step.crashes.push_back({point, pass, word == "cut"});
    }
  }
  return step;
}

}  // namespace

std::string to_text(const Step& step) {
  std::string text = step.action;
  for (const auto& [name, value] : step.with) text += fmt::format(" {}={}", name, value);
  for (const Meanwhile& other : step.meanwhile) {
    text += fmt::format(" | at {} {} {}", other.point, other.pass, to_text(other.step));
  }
  for (const CrashAt& crash : step.crashes) {
    text += fmt::format(" | {} {} {}", crash.power ? "cut" : "kill", crash.point, crash.pass);
  }
  return text;
}

std::string to_text(const std::vector<Step>& steps) {
  std::string text;
  for (const Step& step : steps) text += to_text(step) + "\n";
  return text;
}

std::vector<Step> parse_steps(std::string_view text) {
  std::vector<Step> steps;
  std::istringstream lines{std::string(text)};
  for (std::string line; std::getline(lines, line);) {
    if (line.find_first_not_of(" \t\r") == std::string::npos || line.starts_with('#')) continue;
    steps.push_back(parse_step(line));
  }
  return steps;
}

}  // namespace firn::hyp::model
