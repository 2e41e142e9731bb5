// The real cache, in a folder of its own, and beside it the model: each step is done to both, and what can be seen is
// compared.
#pragma once

#include <array>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "hyp/capture/ingest.h"
#include "hyp/maintain/retention.h"
#include "hyp/model/world/model.h"
#include "hyp/model/world/step.h"
#include "support/temp_folder.h"

namespace firn::hyp::model {

constexpr int kProcesses = 2;

// How often each fault point was passed in the last steps of an action, at most, and how often the program died there.
struct PointUse {
  std::map<std::string, std::map<std::string, int64_t>> passes;  // by action ("start": a restart's)
  std::map<std::string, int64_t> crashes;
};

struct WorldOptions {
  uint64_t seed = 0;            // of ids and file names
  bool is_partitioned = false;  // events' cache tables, by day
  bool has_legacy = false;      // a partition of events is of another program at first
  bool forks = false;           // who crashes is a child, really killed; kills alone
  PointUse* use = nullptr;      // filled, if it is there
};

class World {
 public:
  explicit World(const WorldOptions& options);
  ~World();

  // Does the step. Throws Mismatch, or what should not have been thrown.
  void run(const Step& step);
  // All that can be compared, in all places.
  void check_all();

  const Model& model() const { return model_; }
  int64_t extra_columns() const { return extra_columns_; }
  size_t readers() const { return readers_.size(); }
  int64_t crashes() const { return crashes_; }

 private:
  struct Reader;
  struct Process {
    std::unique_ptr<Cache> cache;
    std::unique_ptr<Spool> spool;
  };
  // A file that grows and is ingested again.
  struct Growing {
    std::string path, source;
    Dataset dataset = Dataset::events;
    size_t process = 0;
    int64_t lines = 0;
  };
  using Work = std::function<void()>;

  Cache& cache(const Step& step) { return *processes_[static_cast<size_t>(step.arg("process"))].cache; }
  std::vector<PartitionId> partitions() const;
  bool is_unread() const { return readers_.empty() && running_sink_ == nullptr && !is_compacting_; }
  // The partitions that the step is for: one that its argument chooses, or all.
  std::vector<PartitionId> partitions_of(const Step& step) const;

  // Does `work` until the step's next crash, if there is one. False: it crashed, and the program is up again.
  bool survives(const Step& step, const Work& work);
  bool stops(const Step& step, const std::string& action, const Work& work);
  void do_step(const Step& step);
  void do_meanwhile(const Meanwhile& other);
  void kill_child(const CrashAt& crash, const Work& work);
  void die(bool power);
  static void make_durable(const std::string& folder);
  void start();

  void restart_step(const Step& step);
  void make_legacy_rows();

  KnownColumns known_of(Dataset dataset) const;
  void ingest(const Step& step);
  void backfill(const Step& step);
  void capture(const Step& step, size_t process_index, std::vector<Line> lines, Dataset dataset,
               const std::string& source, const std::string& source_part, int64_t first_line,
               const std::function<CaptureReport(Spool&)>& capture);
  void note_spooled(const std::string& spool_id, const std::vector<Line>& lines, Dataset dataset,
                    const std::string& source);

  void flush_step(const Step& step);
  bool flush_spool(const Step& step, Process& process);  // false: it crashed
  void note_row(Partition& partition, const Spooled& spooled, int64_t seq);
  void note_flushed(const std::string& spool_id, const FlushReport& report);
  void find_flushed(const std::string& spool_id);
  void check_sequence_file() const;
  std::vector<std::string> read_rejects(Dataset dataset, int64_t& end_bytes) const;
  void look_at_rejects(Dataset dataset);

  // world_exports.cc
  void sink_step(const Step& step);
  void read_exports(const SinkConfig& sink);
  void read_blobs(const SinkConfig& sink, const PartitionId& id);
  void read_archive(const SinkConfig& sink, const std::string& dataset);
  void take_unit(const SinkConfig& sink, const PartitionId& id, int64_t until, std::vector<std::string> rows,
                 bool is_ordered);
  void note_units_under_way();
  void check_exports();
  void expire_archive(const Step& step);

  // world_upkeep.cc
  struct Positions;
  Positions positions_of(const PartitionId& id) const;
  std::vector<Row*> overdue(const PartitionId& id, const Positions& positions, RetentionReport& expected);
  std::vector<Row*> duplicates(const PartitionId& id, const Positions& positions);
  size_t settle_removal(const PartitionId& id, const std::vector<std::vector<Row*>>& outcomes);
  void retain(const Step& step);
  void compact(const Step& step);
  void sweep(const Step& step);
  void maintain_step(const Step& step);
  void purge_step(const Step& step);
  void check_no_leftovers(const PartitionId& id) const;
  void check_purged(const std::string& dataset, int64_t k) const;

  std::vector<Row> read_rows_of(const PartitionId& id, int64_t since, std::optional<int64_t> until = {}) const;
  void check_partition(const PartitionId& id);
  void check_unordered(const PartitionId& id);
  void check_step(const Step& step);
  void check_since(const Step& step);
  void open_reader(const Step& step);
  void finish_reader(const Step& step);
  void query(const Step& step);

  WorldOptions options_;
  TempFolder folder_;
  Config config_;
  Model model_;
  std::array<Process, kProcesses> processes_;
  std::vector<std::unique_ptr<Reader>> readers_;
  std::optional<Growing> growing_;
  int64_t clock_ms_ = 0;
  int64_t extra_columns_ = 2, declared_ = 0;
  int64_t unique_ = 0, num_files_ = 0, num_frames_ = 0, num_batches_ = 0;
  size_t crashes_of_step_ = 0;              // that have come
  std::function<void(const char*)> watch_;  // what is called at each fault point
  std::string meanwhile_problem_;           // of what others did; the program may take it for its own
  const SinkConfig* running_sink_ = nullptr;
  bool is_compacting_ = false, is_meanwhile_ = false;
  std::map<std::string, int64_t> passes_;  // of each fault point since the step or the restart began
  int64_t crashes_ = 0;
  std::map<std::string, int64_t> last_archived_;  // by dataset: the last snapshot looked at
};

}  // namespace firn::hyp::model
