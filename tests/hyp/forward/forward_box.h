// A cache with a forward sink, a receiver in memory, a proxy that fails as told between them, and a clock that moves by
// the sink's waits alone.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "base/test_world.h"
#include "hyp/sink/backpressure.h"
#include "hyp/sink/dead_letters.h"
#include "hyp/sink/sink_box.h"
#include "hyp/sink/unit.h"
#include "support/fake_receiver.h"
#include "support/fault_proxy.h"

namespace firn::hyp {

inline const PartitionId kWeb = {"logs", "web"};

// {"n":from} … {"n":until}
inline Lines numbered(int from, int until) {
  Lines lines;
  for (int n = from; n <= until; ++n) lines.push_back(fmt::format(R"({{"n":{}}})", n));
  return lines;
}

struct ForwardBox : SinkBox {
  FakeReceiver receiver;
  FaultProxy proxy{receiver.port()};
  SinkConfig sink;
  std::vector<int64_t> waits_ms;
  int64_t clock_ms = 1'700'000'000'000;

  ForwardBox() {
    sink.name = "out";
    sink.kind = SinkKind::forward;
    sink.forward.url = proxy.url();
    sink.unit_rows_max = 10'000;
    sink.unit_bytes_max = 4 << 20;
    set_clock_ms(clock_ms);
    set_wait_sources({.random = [] { return 0.5; },
                      .sleep_ms =
                          [this](int64_t ms) {
                            waits_ms.push_back(ms);
                            set_clock_ms(clock_ms += ms);
                          },
                      .now_us = {}});
  }
  ~ForwardBox() {
    set_wait_sources({});
    set_clock_ms(std::nullopt);
  }

  void ingest_rows(const Lines& lines, const std::string& source = "web") const { ingest_lines("logs", source, lines); }
  SinkRunReport ship_now() const { return ship(sink); }
  SinkRunReport ship_all() const { return ship_well(sink); }
  // The error of the only partition.
  PartitionRun failed_run() const {
    const SinkRunReport report = ship(sink);
    EXPECT_EQ(report.partitions.size(), 1u);
    EXPECT_NE(report.partitions.at(0).error, "");
    return report.partitions.at(0);
  }

  // Normal and sorted.
  Lines received(const std::string& dataset = "logs") const { return sorted_rows(receiver.rows(dataset)); }
  std::vector<ProxiedRequest> posts() const {
    std::vector<ProxiedRequest> posts = proxy.requests();
    std::erase_if(posts, [](const ProxiedRequest& request) { return request.method != "POST"; });
    return posts;
  }
  // The first requests that are POSTs fail so, one each.
  void fail_posts(const std::vector<Fault>& faults) {
    proxy.set_script([faults, next = size_t{0}](const ProxiedRequest& request) mutable {
      return request.method == "POST" && next < faults.size() ? faults[next++] : Fault();
    });
  }

  std::string letters_file(const PartitionId& partition = kWeb) const {
    return dead_letters_path(config.state_dir, sink.name, partition);
  }
  std::vector<Json> letters(const PartitionId& partition = kWeb) const {
    std::vector<Json> letters;
    const auto text = make_local_file_io()->read_if_exists(letters_file(partition)).value_or("");
    for (size_t begin = 0, end; (end = text.find('\n', begin)) != std::string::npos; begin = end + 1)
      letters.push_back(Json::parse(text.substr(begin, end - begin)));
    return letters;
  }
  Lines dead_rows(const PartitionId& partition = kWeb) const {
    Lines rows;
    for (const Json& letter : letters(partition)) rows.push_back(letter["row"].dump());
    return sorted_rows(rows);
  }
};

inline std::string header_of(const ProxiedRequest& request, const std::string& name) {
  const auto found = request.headers.find(name);
  return found == request.headers.end() ? "" : found->second;
}

inline bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace firn::hyp
