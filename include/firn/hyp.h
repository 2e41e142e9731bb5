// Everything a program needs of firn::hyp.
#pragma once

#include "hyp/cache/cache.h"     // partitions, flush, ordered reads
#include "hyp/capture/follow.h"  // followed files into the spool
#include "hyp/capture/ingest.h"  // files, pipes and bodies
#include "hyp/capture/registrations.h"
#include "hyp/capture/spool.h"
#include "hyp/config.h"
#include "hyp/daemon/daemon.h"  // an owned cache, HTTP capture, schedules
#include "hyp/query/query.h"    // SQL
#include "hyp/sink/driver.h"    // sinks
