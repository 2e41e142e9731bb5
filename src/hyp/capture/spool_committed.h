// The receiver's spool, <cacheRoot>/receiver/<spool id>/ (P11.4): its frames count as far as the ledger beside them
// says.
//
// ledger.db is a SQLite database of the receiver's (receiver/ledger.h), whose version is its user_version; of it this
// folder knows one table of one row, which each commit of the receiver moves:
//   committed(only_row = 0, segment, "offset", commits)
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "hyp/capture/spool.h"

namespace firn::hyp {

inline constexpr int64_t kLedgerVersion = 1;

std::string receiver_folder(const std::string& cache_root);  // <cacheRoot>/receiver
std::vector<std::string> list_receiver_spools(
    const std::string& cache_root);                       // one at most, unless someone put another
bool is_receiver_spool(const std::string& spool_folder);  // by its place alone: a file in it could be lost
std::string ledger_path(const std::string& spool_folder);

// Where the frames end that count; nullopt: all of them do, it is no receiver's. Throws corrupt naming what to restore
// if the ledger is not there or is no ledger, unsupported if a newer firn made it, io.
std::optional<SpoolPosition> committed_end(const std::string& spool_folder);

// For readers in any process, at any time: that frames which were acknowledged do not lie past committed_end, unseen,
// because the ledger is older than they are. Throws corrupt naming what to restore if so, and as committed_end.
void check_ledger_knows_frames(const std::string& spool_folder);

// How many commits the ledger of a receiver's spool has seen. Throws as committed_end.
int64_t ledger_commits(const std::string& spool_folder);

// Cuts off what lies past `committed`, synced; for the process that holds the spool's lock. Throws corrupt naming what
// to restore if committed frames are missing, or if the ledger is older than the frames or than what was flushed.
void cut_uncommitted(const std::string& spool_folder, SpoolPosition committed);

}  // namespace firn::hyp
