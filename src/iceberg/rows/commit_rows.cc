// The loop of the one-call forms: read, prepare, commit, and again after a conflict.
#include <algorithm>
#include <set>

#include "base/backoff.h"
#include "base/uri.h"
#include "iceberg/commit/history.h"
#include "iceberg/rows/row_change.h"

namespace firn::iceberg {

namespace {

// Removes what this try wrote of its own.
void discard_own(PreparedRows prepared, const WrittenFiles* reused, FileIO& io) {
  std::set<std::string> paths;
  if (reused != nullptr) {
    for (const DataFile& file : reused->files()) paths.insert(file.file_path);
  }
  std::erase_if(prepared.change->added, [&](const DataFile& file) { return paths.contains(file.file_path); });
  discard(prepared, io);
}

}  // namespace

std::optional<RowsResult> landed_before(TableOperations& table, const LoadedTable& base, const RowOptions& options) {
  if (!options.commit_id) return std::nullopt;
  const std::optional<int64_t> landed = find_commit(*base.metadata, options.branch, *options.commit_id);
  if (!landed) return std::nullopt;
  // Another process may have published it and not synced it yet (P10.8).
  table.io()->sync_folder(join_path(base.metadata->location, "metadata"));
  return RowsResult{CommitResult{*landed, true, base}, {}};
}

RowsResult commit_rows(TableOperations& table, LoadedTable base, const RowOptions& options, WrittenFiles* reused,
                       const std::function<PreparedRows(const TableMetadata& base)>& prepare) {
  std::optional<Error> last;
  for (Backoff backoff(retry_options(*base.metadata));; backoff.wait(), base = table.load()) {
    if (auto landed = landed_before(table, base, options)) return *std::move(landed);
    if (backoff.exhausted()) throw Error(*last);
    const PreparedRows prepared = prepare(*base.metadata);
    if (!prepared.change) return {};
    try {
      CommitResult committed = commit_snapshot(table, *prepared.change);
      if (committed.recognised) {
        discard_own(prepared, reused, *table.io());
        return {std::move(committed), {}};
      }
      if (reused != nullptr) reused->keep();
      return {std::move(committed), prepared.counts};
    } catch (const Error& error) {
      if (error.kind() == ErrorKind::commit_unknown) {  // it may be named: nothing is removed
        if (reused != nullptr) reused->keep();
        throw;
      }
      discard_own(prepared, reused, *table.io());
      if (error.kind() != ErrorKind::commit_conflict) throw;
      last = error;
    }
  }
}

}  // namespace firn::iceberg
