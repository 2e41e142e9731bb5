// A cache that forwards to a receiver. Either side is killed at its fault points; what happens before the retry is
// drawn (P10, P11; case 20).
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <iostream>
#include <mutex>
#include <random>
#include <thread>

#include "crash/scenario.h"
#include "support/child_program.h"
#include "support/test_seed.h"

namespace firn::hyp {
namespace {

uint16_t free_port() {
  const Descriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  if (::bind(socket.get(), reinterpret_cast<sockaddr*>(&address), size) != 0 ||
      ::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&address), &size) != 0) {
    fail_errno(errno, "bind");
  }
  return ntohs(address.sin_port);
}

enum class Side : uint8_t { sender, receiver };

// What happens between a crash and the next run of the sender.
enum class Between : uint8_t { nothing, new_rows, new_column, upkeep, upkeep_there, purge, other_version };
constexpr size_t kBetweens = 7;
const char* name_of(Between between) {
  constexpr std::array<const char*, kBetweens> kNames = {"nothing",
                                                         "new rows",
                                                         "a new column",
                                                         "retention and compaction",
                                                         "compaction at the receiver",
                                                         "a purge",
                                                         "another version's intent, and other limits"};
  return kNames.at(static_cast<size_t>(between));
}

struct WireKill {
  Side side = Side::sender;
  size_t pass = 0;
  Crash crash = Crash::process;
  Between between = Between::nothing;
};

// Both sides in one folder, which is saved and put back whole.
class Wire {
 public:
  Wire() {
    fs::create_directories(live_ + "/sender");
    fs::create_directories(live_ + "/receiver");
    replace_file(live_ + "/receiver/hyp.json",
                 fmt::format(R"({{"listen": "", "flushIntervalMs": 20, "compaction": {{"minFiles": 2}},
                     "receiver": {{"listen": "127.0.0.1:{}"}}}})",
                             port_));
    const ProgramResult added = run_program(command(Side::receiver, {"gateway", "add", "gate"}));
    if (added.status != 0) fail(ErrorKind::internal, "{}", added.err);
    const Lines said = lines_of(added.out);
    replace_file(live_ + "/sender/token", said.back());
    configure_sender(90);
    if (!run_sender({"ingest", "events", inputs_.path("first.ndjson")}).empty()) fail(ErrorKind::internal, "ingest");
    copy_folder(live_, saved_);
    points_[0] = count_points(Side::sender);
    points_[1] = count_points(Side::receiver);
    std::cout << points_[0] << " fault points of the sender, " << points_[1] << " of the receiver\n";
  }

  // Each point of either side, with what happens then drawn; with FIRN_LONG each thing that may.
  std::vector<WireKill> all_kills(uint64_t seed) const {
    const bool is_long = std::getenv("FIRN_LONG") != nullptr;
    std::mt19937_64 random(seed);
    std::vector<WireKill> kills;
    for (const Crash crash : {Crash::process, Crash::power}) {
      for (const Side side : {Side::sender, Side::receiver}) {
        for (size_t pass = 1; pass <= points_.at(static_cast<size_t>(side)); ++pass) {
          for (size_t i = 0; i < (is_long ? kBetweens : 1); ++i)
            kills.push_back({side, pass, crash, static_cast<Between>(is_long ? i : random() % kBetweens)});
        }
      }
    }
    return kills;
  }

  // Empty if each row is at the receiver once in the end.
  std::string run(const WireKill& kill) {
    copy_folder(saved_, live_);
    std::string problem;
    if (kill.side == Side::sender) {
      ChildProgram receiver = start_receiver({});
      if (!serves(receiver)) return "the receiver does not start\n";  // else the sender would wait for it
      run_program(command(Side::sender, {"sink", "run"}), fault(kill));
      problem += finish(receiver, kill.between);
    } else {
      kill_receiver(kill);
      ChildProgram receiver = start_receiver({});
      problem += finish(receiver, kill.between);
    }
    if (problem.empty()) problem = check(kill.between);
    if (problem.empty()) return "";
    return fmt::format("{} of the {} at {}, then {}:\n{}{}", kill.crash == Crash::power ? "power cut" : "kill",
                       kill.side == Side::sender ? "sender" : "receiver", kill.pass, name_of(kill.between), problem,
                       make_local_file_io()->read_if_exists(log()).value_or(""));
  }

 private:
  std::string log() const { return live_ + "/log"; }
  std::string state_dir() const { return live_ + "/sender/.hyp/state"; }
  std::vector<std::string> command(Side side, const std::vector<std::string>& words) const {
    std::vector<std::string> argv = {FIRN_HYP_PROGRAM, "--config",
                                     live_ + (side == Side::sender ? "/sender/hyp.json" : "/receiver/hyp.json")};
    argv.insert(argv.end(), words.begin(), words.end());
    return argv;
  }
  static std::map<std::string, std::string> fault(const WireKill& kill) {
    std::map<std::string, std::string> env = {{"FIRN_FAULT_KILL_AT", std::to_string(kill.pass)}};
    if (kill.crash == Crash::power) env["FIRN_FAULT_FORGET"] = "1";
    return env;
  }

  // Rows of 2024 are past their age; they stay until they are shipped.
  void configure_sender(int rows_max) const {
    replace_file(live_ + "/sender/hyp.json", fmt::format(R"({{"listen": "",
      "datasets": {{"events": {{"primaryTimestampColumn": "at",
        "retention": {{"days": 1, "waitForSinkAck": true, "graceDays": 300000}}}}}},
      "compaction": {{"minFiles": 2}},
      "sinks": [{{"name": "up", "type": "forward", "url": "http://127.0.0.1:{}", "tokenFile": "token", "maxRows": {}}}]}})",
                                                         port_, rows_max));
  }

  // Empty if it ended well; rejected rows are no failure.
  std::string run_sender(const std::vector<std::string>& words) const {
    const ProgramResult result = run_program(command(Side::sender, words));
    if (result.status == 0 || result.status == 3) return "";
    return fmt::format("hyp {} ended with status {}: {}{}\n", fmt::join(words, " "), result.status, result.out,
                       result.err);
  }

  // They have members that this hyp does not know.
  void change_intents() const {
    for (const std::string& path : files_below(state_dir() + "/up/watermarks")) {
      Json json = Json::parse(make_local_file_io()->read(path));
      json["laterMember"] = {{"a", 1}};
      if (json.contains("pending") && json["pending"].is_object()) {
        json["pending"]["limits"] = {{"rows", 77}, {"bytes", 7777}, {"perCent", 7}};
        json["pending"]["laterMember"] = "x";
      }
      replace_file(path, json.dump());
    }
  }

  ChildProgram start_receiver(const std::map<std::string, std::string>& env) const {
    return ChildProgram(command(Side::receiver, {"serve"}), env, log());
  }
  static bool serves(ChildProgram& receiver) {
    return receiver.read_until({"receiving on", "serving the cache"}).has_value();
  }

  size_t count_points(Side side) {
    copy_folder(saved_, live_);
    const std::string points = folder_ / "points";
    fs::remove(points);
    const std::map<std::string, std::string> env = {{"FIRN_FAULT_LOG", points}};
    {
      ChildProgram receiver = start_receiver(side == Side::receiver ? env : std::map<std::string, std::string>());
      if (!serves(receiver)) fail(ErrorKind::internal, "no receiver");
      const ProgramResult shipped = run_program(command(Side::sender, {"sink", "run"}),
                                                side == Side::sender ? env : std::map<std::string, std::string>());
      if (shipped.status != 0) fail(ErrorKind::internal, "{}", shipped.err);
      receiver.end(SIGTERM);
    }
    return lines_of(make_local_file_io()->read(points)).size();
  }

  // It dies while the sender ships, or when it stops; then the sender, which would wait for it, dies, too.
  void kill_receiver(const WireKill& kill) const {
    ChildProgram receiver = start_receiver(fault(kill));
    if (!serves(receiver)) return;
    ChildProgram sender(command(Side::sender, {"sink", "run"}), {}, log());
    while (receiver.is_running() && sender.is_running()) std::this_thread::sleep_for(std::chrono::milliseconds(2));
    if (receiver.is_running()) receiver.end(SIGTERM);
    if (sender.is_running()) sender.end(SIGKILL);
  }

  std::string finish(ChildProgram& receiver, Between between) const {
    if (!serves(receiver)) return "the receiver does not start\n";
    std::string problem;
    switch (between) {
      case Between::nothing:
        break;
      case Between::new_rows:
        problem += run_sender({"ingest", "events", inputs_.path("fresh.ndjson")});
        break;
      case Between::new_column:
        problem += run_sender({"ingest", "events", inputs_.path("third.ndjson")});
        break;
      case Between::upkeep:
        problem += run_sender({"ingest", "events", inputs_.path("fresh.ndjson")});
        problem += run_sender({"maintain"});
        break;
      case Between::upkeep_there: {
        const ProgramResult there = run_program(command(Side::receiver, {"maintain"}));
        if (there.status != 0) problem += "hyp maintain at the receiver: " + there.err;
        break;
      }
      case Between::purge:
        problem += run_sender({"purge", "events", "--where", "name = 'row 3'"});
        break;
      case Between::other_version:
        change_intents();
        configure_sender(37);
        problem += run_sender({"ingest", "events", inputs_.path("fresh.ndjson")});
        break;
    }
    problem += run_sender({"sink", "run"});
    const int status = receiver.end(SIGTERM);
    if (status != 0) problem += fmt::format("the receiver ended with status {}\n", status);
    return problem;
  }

  std::string check(Between between) const {
    Lines expected = inputs_rows({"first.ndjson"});
    if (between == Between::new_column) append(expected, inputs_rows({"third.ndjson"}));
    if (between == Between::new_rows || between == Between::upkeep || between == Between::other_version)
      append(expected, inputs_rows({"fresh.ndjson"}));
    const ProgramResult received = run_program(
        command(Side::receiver, {"query", "select * exclude (hyp_gateway) from events", "--format", "json"}));
    if (received.status != 0) return "query: " + received.err;
    Lines found = canonical_rows(lines_of(received.out));
    expected = canonical_rows(expected);
    if (between == Between::purge) {  // those that were not shipped before it never come; none comes twice
      Lines purged_found = take_named(found, "row 3"), purged = take_named(expected, "row 3");
      if (!std::includes(purged.begin(), purged.end(), purged_found.begin(), purged_found.end())) {
        return difference("the receiver, of purged rows", purged_found, purged);
      }
    }
    return difference("the receiver", found, expected);
  }

  Lines inputs_rows(const Lines& names) const {
    Lines rows;
    for (const std::string& name : names) {
      for (const std::string& line : lines_of_jsonl(inputs_.path(name))) {
        if (Json::accept(line)) rows.push_back(line);
      }
    }
    return rows;
  }
  static void append(Lines& rows, const Lines& more) { rows.insert(rows.end(), more.begin(), more.end()); }
  static Lines take_named(Lines& rows, const std::string& name) {
    Lines taken;
    std::erase_if(rows, [&](const std::string& row) {
      const bool is_named = Json::parse(row).value("name", "") == name;
      if (is_named) taken.push_back(row);
      return is_named;
    });
    return taken;
  }

  TempFolder folder_;
  const Inputs inputs_;
  const uint16_t port_ = free_port();
  const std::string live_ = folder_ / "live", saved_ = folder_ / "saved";
  std::array<size_t, 2> points_{};  // by side
};

constexpr size_t kWires = 2;  // run at once

void run_kills(std::array<Wire, kWires>& wires, const std::vector<WireKill>& kills) {
  std::atomic<size_t> next{0}, failed{0};
  std::mutex mutex;
  std::vector<std::thread> workers;
  for (Wire& wire : wires) {
    workers.emplace_back([&, wire = &wire] {
      for (size_t i; (i = next++) < kills.size() && failed < 3;) {
        if (i > 0 && i % 50 == 0) std::cout << i << " of " << kills.size() << std::endl;
        std::string problem;
        try {
          problem = wire->run(kills[i]);
        } catch (const std::exception& e) {
          problem = e.what();
        }
        if (problem.empty()) continue;
        ++failed;
        const std::lock_guard guard(mutex);
        ADD_FAILURE() << problem;
      }
    });
  }
  for (std::thread& worker : workers) worker.join();
}

TEST(WireKilledSampled, EachRowIsAtTheReceiverOnce) {
  SCOPED_TRACE(fmt::format("FIRN_TEST_SEED={}", test_seed()));
  std::array<Wire, kWires> wires;
  const std::vector<WireKill> all = wires[0].all_kills(test_seed());
  ASSERT_GE(all.size(), 40u);
  std::vector<WireKill> kills;
  const size_t stride = all.size() / 16 + 1;
  for (size_t i = test_seed() % stride; i < all.size(); i += stride) kills.push_back(all[i]);
  run_kills(wires, kills);
}

TEST(WireKilledEverywhere, EachRowIsAtTheReceiverOnce) {
  SCOPED_TRACE(fmt::format("FIRN_TEST_SEED={}", test_seed()));
  std::array<Wire, kWires> wires;
  run_kills(wires, wires[0].all_kills(test_seed()));
}

}  // namespace
}  // namespace firn::hyp
