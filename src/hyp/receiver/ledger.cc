#include "hyp/receiver/ledger.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <map>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/error.h"
#include "base/fault_point.h"
#include "base/hash.h"
#include "base/log.h"
#include "hyp/cache/table_opens.h"
#include "hyp/capture/spool_committed.h"
#include "io/local.h"
#include "io/sqlite.h"

namespace firn::hyp {
namespace {

constexpr int64_t kStreamsSwept = 100;  // of which old batch ids are forgotten at once

// Apart, since a ledger may be older than it.
constexpr const char* kResetsTable =
    "create table if not exists resets(stream_id integer not null, number integer not null, key blob not null, "
    "primary key (stream_id, number)) without rowid";
constexpr const char* kTables = R"(
  begin;
  create table committed(only_row integer primary key check (only_row = 0), segment integer not null,
                         "offset" integer not null, commits integer not null);
  insert into committed values (0, 0, 0, 0);
  create table streams(id integer primary key, stream text not null unique, gateway text not null, forgot integer,
                       batches integer not null);
  create table opens(stream_id integer not null, open_id text not null, last integer not null,
                     primary key (stream_id, open_id)) without rowid;
  create table batches(stream_id integer not null, slot integer not null, key blob not null, noted_ms integer not null,
                       primary key (stream_id, slot)) without rowid;
  pragma user_version = 1;
  commit)";

// The log's pages are written into the database once they are so many (4 MiB), which costs the commit that does it two
// syncs more.
constexpr const char* kSettings = "pragma wal_autocheckpoint = 1000; pragma cache_size = -16384";
constexpr int64_t kLogBytes = 5 << 20;  // those pages, with their heads, and some more of the commit that is past them

Sha256Digest key_of(const ReceivedBatch& batch) { return sha256(batch.batch_id + '\0' + batch.digest); }

}  // namespace

struct Ledger::State {
  explicit State(const std::string& path) : file(path) {}

  struct File : SqliteFile {
    explicit File(const std::string& path) : SqliteFile(path, Open::existing) {
      run(kSettings);
      run(kResetsTable);
    }
  };
  File file;
  SqliteStatement select_committed{file, "select segment, \"offset\" from committed"};
  SqliteStatement select_commits{file, "select commits from committed"};
  SqliteStatement update_committed{file, "update committed set segment = ?, \"offset\" = ?, commits = commits + 1"};
  SqliteStatement begin{file, "begin immediate"};
  SqliteStatement commit{file, "commit"};

  SqliteStatement select_stream{file, "select id, gateway, forgot, batches from streams where stream = ?"};
  SqliteStatement insert_stream{file, "insert into streams(stream, gateway, batches) values (?, ?, 0)"};
  SqliteStatement update_forgot{file, "update streams set forgot = max(ifnull(forgot, ?1), ?1) where id = ?2"};
  SqliteStatement count_batch{file, "update streams set batches = batches + 1 where id = ?"};
  SqliteStatement count_streams{file, "select gateway, count(*) from streams group by gateway"};

  SqliteStatement select_open{file, "select last from opens where stream_id = ? and open_id = ?"};
  SqliteStatement select_opens{file, "select open_id, last from opens where stream_id = ?"};
  SqliteStatement set_open{file, "insert into opens values (?, ?, ?) on conflict do update set last = excluded.last"};
  SqliteStatement count_opens{file, "select count(*) from opens where stream_id = ?"};
  SqliteStatement select_lowest{
      file, "select open_id, last from opens where stream_id = ? and open_id <> ? order by last limit 1"};
  SqliteStatement delete_open{file, "delete from opens where stream_id = ? and open_id = ?"};

  SqliteStatement select_batch{file, "select 1 from batches where stream_id = ? and key = ?"};
  SqliteStatement set_batch{file, "insert or replace into batches values (?, ?, ?, ?)"};
  SqliteStatement select_reset{file, "select 1 from resets where stream_id = ? and key = ?"};
  SqliteStatement add_reset{
      file, "insert into resets select ?1, 1 + ifnull(max(number), 0), ?2 from resets where stream_id = ?1"};
  SqliteStatement delete_old_resets{file,
                                    "delete from resets where stream_id = ?1 and number <= (select max(number) from "
                                    "resets where stream_id = ?1) - ?2"};
  SqliteStatement delete_batches{file, "delete from batches where stream_id = ?"};
  SqliteStatement select_last_swept{
      file, "select max(id), count(*) from (select id from streams where id > ? order by id limit ?)"};
  SqliteStatement delete_old_batches{file,
                                     "delete from batches where stream_id > ? and stream_id <= ? and noted_ms < ?"};

  int64_t swept_id = 0;                                       // of the last stream whose old batch ids were forgotten
  std::optional<std::map<std::string, int64_t>> num_streams;  // by gateway; nullopt: to be counted
  bool has_new_stream = false;                                // of this transaction

  struct Stream {
    int64_t id = 0;
    std::string gateway;
    std::optional<int64_t> forgot;
    int64_t batches = 0;
  };
  int64_t commits();
  std::optional<Stream> find_stream(const std::string& stream);
  std::optional<int64_t> find_open(int64_t stream_id, const std::string& open_id);
  bool is_known_reset(int64_t stream_id, const ReceivedBatch& batch);
  int64_t& num_streams_of(const std::string& gateway);
  void advance(const Stream& stream, const ReceivedBatch& batch, bool is_new_open);
  void forget_lowest_open(int64_t stream_id, const std::string& kept_open);
};

int64_t Ledger::State::commits() {
  int64_t commits = 0;
  select_commits.with();
  while (select_commits.step()) commits = select_commits.integer(0);
  return commits;
}

std::optional<Ledger::State::Stream> Ledger::State::find_stream(const std::string& stream) {
  std::optional<Stream> found;
  select_stream.with(stream);
  while (select_stream.step()) {
    found = Stream{select_stream.integer(0), select_stream.text(1), select_stream.maybe_integer(2),
                   select_stream.integer(3)};
  }
  return found;
}

std::optional<int64_t> Ledger::State::find_open(int64_t stream_id, const std::string& open_id) {
  std::optional<int64_t> last;
  select_open.with(stream_id, open_id);
  while (select_open.step()) last = select_open.integer(0);
  return last;
}

bool Ledger::State::is_known_reset(int64_t stream_id, const ReceivedBatch& batch) {
  bool is_known = false;
  select_reset.with(stream_id, key_of(batch));
  while (select_reset.step()) is_known = true;
  return is_known;
}

int64_t& Ledger::State::num_streams_of(const std::string& gateway) {
  if (!num_streams) {
    num_streams.emplace();
    count_streams.with();
    while (count_streams.step()) (*num_streams)[count_streams.text(0)] = count_streams.integer(1);
  }
  return (*num_streams)[gateway];
}

// The open that just moved stays, however low its number: else its next batch would be refused.
void Ledger::State::forget_lowest_open(int64_t stream_id, const std::string& kept_open) {
  std::string open_id;
  int64_t last = 0;
  select_lowest.with(stream_id, kept_open);
  while (select_lowest.step()) {
    open_id = select_lowest.text(0);
    last = select_lowest.integer(1);
  }
  update_forgot.with(last, stream_id).run();
  delete_open.with(stream_id, open_id).run();
}

void Ledger::State::advance(const Stream& stream, const ReceivedBatch& batch, bool is_new_open) {
  if (batch.range.reset) {
    add_reset.with(stream.id, key_of(batch)).run();
    delete_old_resets.with(stream.id, kResetsKept).run();
    delete_batches.with(stream.id).run();  // what is below the new last number comes again, with the ids that it had
  }
  set_open.with(stream.id, batch.open_id, batch.range.until).run();
  if (is_new_open) {
    count_opens.with(stream.id);
    int64_t opens = 0;
    while (count_opens.step()) opens = count_opens.integer(0);
    for (; opens > static_cast<int64_t>(kOpensKept); --opens) forget_lowest_open(stream.id, batch.open_id);
  }
  set_batch.with(stream.id, stream.batches % kBatchesKept, key_of(batch), now_ms()).run();
  count_batch.with(stream.id).run();
}

void Ledger::create(const std::string& path) {
  SqliteFile file(path, SqliteFile::Open::created);
  file.run(kTables);
  file.run(kResetsTable);
}

Ledger::Ledger(const std::string& path, int64_t gateway_streams_max)
    : path_(path), gateway_streams_max_(gateway_streams_max) {
  SqliteFile file(path, SqliteFile::Open::existing);
  if (const int64_t version = file.integer("pragma user_version"); version != kLedgerVersion) {
    fail(ErrorKind::unsupported, "{} has version {}; this firn reads version {}", path, version, kLedgerVersion);
  }
  state_ = std::make_unique<State>(path);
}

Ledger::~Ledger() = default;

void Ledger::make_log_ready() {
  const std::string path = path_ + "-wal";
  const Descriptor log(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
  if (!log && errno == ENOENT) return;
  struct stat info;
  if (!log || ::fstat(log.get(), &info) != 0) fail_errno(errno, "open " + path);
  const std::vector<char> zeros(256 << 10);
  for (int64_t end = info.st_size; end < kLogBytes;) {
    const ssize_t wrote = ::pwrite(log.get(), zeros.data(), zeros.size(), end);
    if (wrote <= 0) break;  // it is for the speed alone
    end += wrote;
  }
  if (::fdatasync(log.get()) != 0) fail_errno(errno, "sync " + path);
}

SpoolPosition Ledger::committed() const {
  SqliteStatement& select = state_->select_committed;
  select.with();
  if (!select.step()) fail(ErrorKind::corrupt, "{} has no committed length", path_);
  const SpoolPosition end{select.integer(0), select.integer(1)};
  select.reset();
  return end;
}

void Ledger::begin() {
  state_->begin.with().run();
  state_->has_new_stream = false;
  commits_ = state_->commits();
}

ReceiveResult Ledger::decide(const ReceivedBatch& batch) {
  State& state = *state_;
  using Outcome = ReceiveResult::Outcome;
  std::optional<State::Stream> stream = state.find_stream(batch.stream);
  if (stream && stream->gateway != batch.gateway) {
    return {Outcome::foreign, {}, stream->gateway};
  }
  // The compare alone would take it once more where the open has come to the same number again (P10.6).
  if (stream && batch.range.reset && state.is_known_reset(stream->id, batch)) return {Outcome::known, {}, ""};
  const std::optional<int64_t> last = stream ? state.find_open(stream->id, batch.open_id) : std::nullopt;
  const SeqRange& range = batch.range;
  const bool comes_next = range.reset ? last == range.reset : last ? *last == range.since : range.start;
  if (!comes_next) {
    bool is_known = false;
    if (stream) {
      state.select_batch.with(stream->id, key_of(batch));
      while (state.select_batch.step()) is_known = true;
    }
    if (is_known) return {Outcome::known, {}, ""};
    return {Outcome::refused, last,
            last ? fmt::format("the last number of open {} is {}", batch.open_id, *last)
                 : fmt::format("nothing of open {} is here", batch.open_id)};
  }
  if (!last && stream && stream->forgot && range.since < *stream->forgot) {
    return {Outcome::forgot,
            {},
            fmt::format("the receiver keeps the latest {} opens of a stream and forgot those up to {}: whether it ever "
                        "had rows ({}, {}] of open {} is not known",
                        kOpensKept, *stream->forgot, range.since, range.until, batch.open_id)};
  }
  if (!stream) {
    int64_t& num_streams = state.num_streams_of(batch.gateway);
    if (num_streams >= gateway_streams_max_) {
      return {
          Outcome::too_many_streams,
          {},
          fmt::format("the gateway {} has {} streams here, one for each source partition of each cache that sends as "
                      "it, and may have no more (maxStreamsPerGateway): the receiver's operator can raise that",
                      batch.gateway, num_streams)};
    }
    state.insert_stream.with(batch.stream, batch.gateway).run();
    num_streams += 1;
    state.has_new_stream = true;
    stream = state.find_stream(batch.stream);
  }
  state.advance(*stream, batch, !last);
  return {};
}

void Ledger::commit(SpoolPosition end) {
  check_program_runs();
  state_->update_committed.with(end.segment, end.offset).run();
  fault_point("receiver.ledger.before_commit");
  state_->commit.with().run();
  fault_point("receiver.ledger.after_commit");
}

void Ledger::roll_back() noexcept {
  try {
    if (state_ && state_->file.is_in_transaction()) state_->file.run("rollback");
    if (state_ && state_->has_new_stream) state_->num_streams.reset();
  } catch (const std::exception& e) {
    spdlog::warn("{}: {}", path_, e.what());  // settle() opens it anew
  }
}

bool Ledger::settle() {
  check_program_runs();
  state_.reset();
  state_ = std::make_unique<State>(path_);
  // The log may have been synced in part only, and is not synced again (P15): what it holds is written into the
  // database, and the log is begun anew. That also ends whatever of a failed commit a recovery could find in it.
  SqliteStatement checkpoint(state_->file, "pragma wal_checkpoint(truncate)");
  if (!checkpoint.step() || checkpoint.integer(0) != 0) {
    fail(ErrorKind::busy, "{}: another process reads it, so its log cannot be begun anew", path_);
  }
  checkpoint.reset();
  const bool stands = state_->commits() > commits_;
  const SpoolPosition end = committed();
  begin();
  commit(end);
  return stands;
}

std::optional<StreamState> Ledger::stream(const std::string& gateway, const std::string& stream) const {
  State& state = *state_;
  StreamState found;
  const std::optional<State::Stream> row = state.find_stream(stream);
  if (!row) return found;
  if (row->gateway != gateway) return std::nullopt;
  found.forgot = row->forgot;
  state.select_opens.with(row->id);
  while (state.select_opens.step()) found.opens[state.select_opens.text(0)] = state.select_opens.integer(1);
  return found;
}

std::optional<std::string> Ledger::gateway_of(const std::string& stream) const {
  const std::optional<State::Stream> row = state_->find_stream(stream);
  return row ? std::optional(row->gateway) : std::nullopt;
}

void Ledger::forget_old_batches() {
  State& state = *state_;
  state.select_last_swept.with(state.swept_id, kStreamsSwept);
  std::optional<int64_t> last;
  bool is_end = false;
  while (state.select_last_swept.step()) {
    last = state.select_last_swept.maybe_integer(0);
    is_end = state.select_last_swept.integer(1) < kStreamsSwept;
  }
  if (last) state.delete_old_batches.with(state.swept_id, *last, now_ms() - kBatchKeptMs).run();
  state.swept_id = is_end ? 0 : *last;
}

}  // namespace firn::hyp
