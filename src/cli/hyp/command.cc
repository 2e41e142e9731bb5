#include "cli/hyp/command.h"

#include <chrono>
#include <filesystem>
#include <ostream>
#include <thread>

#include "base/clock.h"
#include "base/one_line.h"
#include "hyp/daemon/control.h"

namespace firn::hyp {

int with_service(const Config& config, const Invocation& invocation, const std::function<int(Service&)>& work) {
  if (invocation.service != nullptr) return work(*invocation.service);
  constexpr auto kRetryAfter = std::chrono::milliseconds(100);
  bool said = false;
  while (true) {
    if (const auto service = Service::try_own(config)) return work(*service);
    if (const auto status = run_in_daemon(config, invocation.words, *invocation.cancelled)) return *status;
    if (*invocation.cancelled)
      fail(ErrorKind::cancelled, "interrupted while another process held the cache {}", config.cache_root);
    if (!std::exchange(said, true))
      *invocation.err << "hyp: another hyp command uses " << config.cache_root << "; waiting for it\n";
    std::this_thread::sleep_for(kRetryAfter);
  }
}

int unless_interrupted(const Invocation& invocation, int status) {
  if (!*invocation.cancelled) return status;
  *invocation.err << "hyp: interrupted; what was done so far is safe, and the same command goes on from there\n";
  return kFailed;
}

std::string absolute_path(const Invocation& invocation, const std::string& path) {
  return (std::filesystem::path(invocation.working_directory) / path).lexically_normal().string();
}

void Progress::say(const std::string& text) {
  const int64_t now = steady_us();
  if (next_us_ == 0) next_us_ = now + 1'000'000;
  if (now < next_us_) return;
  next_us_ = now + (is_terminal_ ? 200'000 : 1'000'000);
  if (is_terminal_) {
    err_ << "\r\033[K" << text << std::flush;
  } else {
    err_ << text << std::endl;
  }
  shown_ = true;
}

void Progress::note(const std::string& text) {
  if (shown_ && is_terminal_) err_ << "\r\033[K";
  shown_ = false;
  err_ << text << std::endl;
}

Progress::~Progress() {
  if (shown_ && is_terminal_) err_ << "\r\033[K" << std::flush;
}

std::string format_bytes(int64_t bytes) {
  constexpr const char* kUnits[] = {"B", "kB", "MB", "GB", "TB", "PB"};
  double value = static_cast<double>(bytes);
  size_t unit = 0;
  while (value >= 999.95 && unit + 1 < std::size(kUnits)) {
    value /= 1000;
    ++unit;
  }
  return unit == 0 ? fmt::format("{} B", bytes) : fmt::format("{:.1f} {}", value, kUnits[unit]);
}

std::string format_duration_us(int64_t micros) {
  return micros < 1'000'000 ? fmt::format("{} ms", micros / 1000)
                            : fmt::format("{:.1f} s", static_cast<double>(micros) / 1e6);
}

namespace {

bool is_number(const std::string& cell) {
  return cell.empty() || cell == "-" || cell.find_first_not_of("0123456789,.-") == std::string::npos ||
         (cell.find_first_of("0123456789") == 0 && cell.ends_with('B'));
}

size_t shown_width(const std::string& cell) {  // code points; wide ones are rare in what is printed here
  size_t width = 0;
  for (const char c : cell) width += (c & 0xC0) != 0x80;
  return width;
}

}  // namespace

std::string title(const PartitionId& partition) {
  return partition.source == "default" ? partition.dataset
                                       : fmt::format("{}/{}", partition.dataset, on_one_line(partition.source));
}

void print_table(std::ostream& out, const std::vector<std::string>& titles,
                 std::vector<std::vector<std::string>> rows) {
  for (auto& row : rows) {
    for (std::string& cell : row) cell = on_one_line(cell);
  }
  std::vector<size_t> widths;
  std::vector<bool> to_the_right;
  for (size_t c = 0; c < titles.size(); ++c) {
    size_t width = shown_width(titles[c]);
    bool numbers = !rows.empty();
    for (const auto& row : rows) {
      width = std::max(width, shown_width(row[c]));
      numbers = numbers && is_number(row[c]);
    }
    widths.push_back(width);
    to_the_right.push_back(numbers);
  }
  const auto print_row = [&](const std::vector<std::string>& row) {
    std::string line;
    for (size_t c = 0; c < row.size(); ++c) {
      const std::string padding(widths[c] - shown_width(row[c]), ' ');
      line += (c == 0 ? "" : "  ") + (to_the_right[c] ? padding + row[c] : row[c] + padding);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    out << line << "\n";
  };
  print_row(titles);
  for (const auto& row : rows) print_row(row);
}

}  // namespace firn::hyp
