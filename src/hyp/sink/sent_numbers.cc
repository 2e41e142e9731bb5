#include "hyp/sink/sent_numbers.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <utility>

#include "base/error.h"

namespace firn::hyp {
namespace {

// The last number of each open, by place and stream.
class SentNumbers {
 public:
  void note(const std::string& stream, const std::string& open_id, int64_t last) {
    std::lock_guard guard(mutex_);
    int64_t& known = last_[{stream, open_id}];
    known = std::max(known, last);
  }
  bool covers(const std::string& stream, const std::string& open_id, int64_t last) {
    std::lock_guard guard(mutex_);
    const auto known = last_.find({stream, open_id});
    return known != last_.end() && known->second >= last;
  }

 private:
  std::mutex mutex_;
  std::map<std::pair<std::string, std::string>, int64_t> last_;
};

SentNumbers& sent_numbers() {
  static SentNumbers numbers;
  return numbers;
}

}  // namespace

void note_sent(Destination& destination, const PartitionId& partition, const std::string& stream,
               const std::string& open_id, int64_t last) {
  sent_numbers().note(destination.identity(partition) + "/" + stream, open_id, last);
}

void check_not_of_a_copy(const Cache& cache, Destination& destination, const PartitionId& partition,
                         const std::string& stream, const std::string& open_id, int64_t last) {
  if (open_id != cache.sequence().open_id()) return;
  if (sent_numbers().covers(destination.identity(partition) + "/" + stream, open_id, last)) return;
  fail(ErrorKind::already_exists,
       "{}: it has rows of {} up to {} under the open {} of this very process, which did not send them: a copy of this "
       "running process (of its machine) sends to the same place. Stop one of the two, and start the other anew",
       destination.describe(partition), partition.logical_path(), last, open_id);
}

}  // namespace firn::hyp
