// What must be: the rows of each partition and export, kept in memory by the simplest rules.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "hyp/cache/cache.h"
#include "hyp/model/world/lines.h"

namespace firn::hyp::model {

// The program is not as the model is.
class Mismatch : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

template <class... Args>
[[noreturn]] void differ(fmt::format_string<Args...> format, Args&&... args) {
  throw Mismatch(fmt::format(format, std::forward<Args>(args)...));
}

// A row of a partition's table, and after it left one that was there.
struct Row {
  std::string content;
  int64_t seq = 0;
  int64_t age_from_ms = 0;  // its primary timestamp, or when it came
  int64_t arrived_ms = 0;
  std::optional<int64_t> k;
  bool is_live = true;
};

// Below every number: those of rows that another program wrote are at or below 0 (P9.3).
constexpr int64_t kBeforeAll = std::numeric_limits<int64_t>::min();

struct Partition {
  std::deque<Row> log;  // by seq, of the live ones
  int64_t last_seq = 0;

  std::vector<const Row*> live(int64_t since = kBeforeAll) const;
};

// How far a sink is in a partition.
struct Export {
  int64_t until = kBeforeAll;                          // the destination has every row at or below it
  std::optional<int64_t> watermark;                    // as the sink's file says, which may lag
  std::optional<std::pair<int64_t, int64_t>> pending;  // (since, until] of its intent
  std::vector<std::string> contents;                   // delivered, in order
  // Where the reading of the destination goes on.
  std::string last_open;
  size_t units = 0;
  // Of a unit whose rows were read before others took some of them: what it has if it arrives so, before each of those.
  struct UnderWay {
    int64_t until = 0;
    std::vector<std::string> contents;
  };
  std::vector<UnderWay> under_way;
};

// A line that is in a spool and in no table yet.
struct Spooled {
  Line line;
  PartitionId partition;
  int64_t arrived_ms = 0;
  int64_t frame = 0;         // lines of one frame are flushed together
  bool is_rejected = false;  // set aside for good already
  bool is_done = false;      // in its table, or of a frame that is
};

// A dataset's rejects file.
struct Rejects {
  int64_t settled_bytes = 0;           // all before it is looked at, and belongs to lines that are in no spool
  std::multiset<std::string> settled;  // texts after it that must be there
};

struct Model {
  std::map<PartitionId, Partition> partitions;
  std::set<int64_t> numbers;                          // that a row ever had
  std::map<std::string, std::deque<Spooled>> spools;  // by spool id
  std::array<Rejects, kDatasets> rejects;
  std::array<KnownColumns, kDatasets> known;
  std::map<std::string, std::map<PartitionId, Export>> exports;  // by sink

  KnownColumns& known_of(Dataset dataset) { return known[static_cast<size_t>(dataset)]; }
  Rejects& rejects_of(Dataset dataset) { return rejects[static_cast<size_t>(dataset)]; }
};

Dataset dataset_of(const std::string& name);
Row to_row(const Spooled& spooled, int64_t seq);

// "a, b, c, …": at most a few.
std::string some_of(const std::vector<std::string>& texts);
// Throws Mismatch naming `what` unless both lists are equal, element by element.
void expect_equal(const std::string& what, const std::vector<std::string>& found,
                  const std::vector<std::string>& expected);
// The same without order.
void expect_same(const std::string& what, std::vector<std::string> found, std::vector<std::string> expected);

}  // namespace firn::hyp::model
