// What every command of `hyp` gets, and how it reaches the process that owns the cache.
#pragma once

#include <atomic>
#include <functional>
#include <iosfwd>
#include <string>
#include <string_view>
#include <vector>

#include "base/counts.h"
#include "hyp/daemon/service.h"

namespace firn::hyp {

struct Invocation {
  std::vector<std::string> words;  // as typed, without the program's name
  std::string working_directory;   // relative paths are relative to it
  int in = 0;                      // standard input
  std::ostream* out = nullptr;
  std::ostream* err = nullptr;
  bool err_is_terminal = false;
  const std::atomic<bool>* cancelled = nullptr;
  Service* service = nullptr;  // set inside the daemon
};

// Exit statuses: 0 done, 1 failed, 2 usage, 3 done but some rows were rejected.
inline constexpr int kFailed = 1, kUsage = 2, kSomeRejected = 3;

// Parses and runs; never throws: errors go to invocation.err as "hyp: …".
int run_hyp(const Invocation& invocation);

// Runs `work` with the cache of `config` owned: in the daemon, or here if no other process owns it; else the daemon
// that owns it is handed the whole invocation, or the end of the other process is waited for.
int with_service(const Config& config, const Invocation& invocation, const std::function<int(Service&)>& work);

// `status`; kFailed, with a word on it, where the command was interrupted: it did not do its work, though what it did
// stays.
int unless_interrupted(const Invocation& invocation, int status);

std::string absolute_path(const Invocation& invocation, const std::string& path);

// Tells how far a long step has come, at most once a second and not in its first: on a terminal in one line that is
// overwritten, else as lines.
class Progress {
 public:
  explicit Progress(const Invocation& invocation) : err_(*invocation.err), is_terminal_(invocation.err_is_terminal) {}
  ~Progress();
  void say(const std::string& text);
  void note(const std::string& text);  // a line that stays, at once

 private:
  std::ostream& err_;
  bool is_terminal_;
  bool shown_ = false;
  int64_t next_us_ = 0;
};

// "1.5 MB", "12 s": for people.
std::string format_bytes(int64_t bytes);
std::string format_duration_us(int64_t micros);

// A partition as people know it: its dataset, and its source unless that is the default. On one line.
std::string title(const PartitionId& partition);

// Rows of text in aligned columns, each on one line; numbers (columns whose every cell is one) to the right.
void print_table(std::ostream& out, const std::vector<std::string>& titles, std::vector<std::vector<std::string>> rows);

// --- the commands, one file a group ---
int command_init(const Invocation& invocation, const std::string& path);

struct IngestArguments {
  std::string dataset;
  std::vector<std::string> files;  // "-": standard input
  std::string source = "default", id;
  bool atomic = false, no_flush = false;
};
int command_ingest(const Config& config, const Invocation& invocation, const IngestArguments& arguments);

struct CollectArguments {
  std::string file, glob, name, dataset;
  bool list = false;
  std::string remove;
};
int command_collect(const Config& config, const Invocation& invocation, const CollectArguments& arguments);

struct QueryArguments {
  std::string sql, format = "table", output;
  bool no_pruning = false, stats = false;
};
int command_query(const Config& config, const Invocation& invocation, const QueryArguments& arguments);

struct SinkArguments {
  std::vector<std::string> names;  // empty: all
  std::string partition;           // DATASET or DATASET/SOURCE; empty: all
  bool json = false;
  std::string to;  // reset: where to
  bool yes = false, dry_run = false;
};
int command_sink_run(const Config& config, const Invocation& invocation, const SinkArguments& arguments);
int command_sink_status(const Config& config, const Invocation& invocation, const SinkArguments& arguments);
int command_sink_reset(const Config& config, const Invocation& invocation, const SinkArguments& arguments);

struct PurgeArguments {
  std::string dataset, where;
  bool dry_run = false, json = false;
};
int command_purge(const Config& config, const Invocation& invocation, const PurgeArguments& arguments);

struct MaintainArguments {
  bool dry_run = false, json = false;
};
int command_maintain(const Config& config, const Invocation& invocation, const MaintainArguments& arguments);

int command_status(const Config& config, const Invocation& invocation, bool json);
int command_schema(const Config& config, const Invocation& invocation, const std::string& dataset, bool json);
int command_flush(const Config& config, const Invocation& invocation);
int command_daemon(const Config& config, const Invocation& invocation);
int command_serve(const Config& config, const Invocation& invocation, bool takes_older_ledger);
// Owns the cache until interrupted. `title` begins its lines.
int run_as_daemon(const Config& config, const Invocation& invocation, const char* title, bool receives);

struct GatewayArguments {
  enum class Action : uint8_t { list, add, remove, rotate };
  Action action = Action::list;
  std::string name, token_file;  // no file: the token is printed
  bool json = false;
};
int command_gateway(const Config& config, const Invocation& invocation, const GatewayArguments& arguments);

}  // namespace firn::hyp
