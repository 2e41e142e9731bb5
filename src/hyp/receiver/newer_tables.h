// Tables that have rows of which the receiver's ledger beside them knows nothing (P11.4).
#pragma once

#include "hyp/cache/cache.h"

namespace firn::hyp {

// A flush of received rows says in the table how many commits the ledger had seen (kReceivedPrefix). Where a table says
// more than the ledger has, the ledger is of an older backup than the table, or was copied before it; senders that are
// told what it knows could send again what the table has. Throws corrupt naming such tables of the cache's receiver, if
// it has one; with receiver.takes_older_ledger it says so in the log alone, and the ledger counts from then on as if it
// had seen them. Requires that nobody has the receiver open.
void check_ledger_knows_tables(const Cache& cache);

}  // namespace firn::hyp
