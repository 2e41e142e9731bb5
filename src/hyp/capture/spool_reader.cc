#include <algorithm>
#include <memory>

#include "base/error.h"
#include "base/uri.h"
#include "hyp/capture/spool.h"
#include "hyp/capture/spool_committed.h"
#include "hyp/capture/spool_format.h"

namespace firn::hyp {

struct SpoolReader::State {
  State() = default;
  State(const std::string& spool_folder, SpoolPosition begin, std::optional<SpoolPosition> end)
      : from(begin), until(end) {
    std::vector<Segment> counting = open_segments(spool_folder);
    std::erase_if(counting, [&](const Segment& segment) { return segment.number < from.segment; });
    segments = std::make_shared<const std::vector<Segment>>(std::move(counting));
  }

  std::shared_ptr<const std::vector<Segment>> segments;  // immutable; shared with readers of again()
  size_t index = 0;
  std::optional<SegmentCursor> cursor;
  SpoolPosition from;
  std::optional<SpoolPosition> until;
  Spool* holder = nullptr;
};

SpoolReader::SpoolReader(const std::string& spool_folder, SpoolPosition from, std::optional<SpoolPosition> until)
    : spool_id_(spool_folder.substr(spool_folder.rfind('/') + 1)) {
  check_ledger_knows_frames(spool_folder);
  state_ = std::make_unique<State>(spool_folder, from, until);
}

// The holder saw to its ledger when it opened the spool.
SpoolReader::SpoolReader(Spool& spool, SpoolPosition from, SpoolPosition until)
    : state_(std::make_unique<State>(spool.folder(), from, until)), spool_id_(spool.id()) {
  state_->holder = &spool;
}

SpoolReader::~SpoolReader() = default;

std::unique_ptr<SpoolReader> SpoolReader::again() const {
  std::unique_ptr<SpoolReader> reader(new SpoolReader());
  reader->state_ = std::make_unique<State>();
  reader->state_->segments = state_->segments;
  reader->state_->from = state_->from;
  reader->state_->until = state_->until;
  reader->spool_id_ = spool_id_;
  return reader;
}

std::optional<FrameAt> SpoolReader::next() {
  State& state = *state_;
  for (; state.index < state.segments->size(); ++state.index, state.cursor.reset()) {
    const Segment& segment = (*state.segments)[state.index];
    if (!state.cursor) state.cursor.emplace(segment, segment.number == state.from.segment ? state.from.offset : 0);
    for (;;) {
      const SpoolPosition begin{segment.number, state.cursor->offset()};
      if (state.until && begin >= *state.until) return std::nullopt;
      if (state.holder != nullptr) {
        if (auto held = state.holder->take_held(begin)) {
          state.cursor->skip_to(held->end.offset);
          return held;
        }
      }
      std::optional<DecodedFrame> frame = state.cursor->next();
      if (!frame) break;
      if (frame->kind != FrameKind::rows) continue;
      return FrameAt{begin, {segment.number, frame->next_offset}, std::move(frame->frame)};
    }
  }
  return std::nullopt;
}

std::vector<std::string> list_spools(const std::string& cache_root) {
  std::vector<std::string> spools = list_folders(join_path(cache_root, "spool"));
  for (std::string& folder : list_receiver_spools(cache_root)) spools.push_back(std::move(folder));
  return spools;
}

}  // namespace firn::hyp
