// Table maintenance: what keeps a table small and quick, and changes no row that it holds.
#pragma once

#include "iceberg/maintain/compact.h"
#include "iceberg/maintain/expire_snapshots.h"
#include "iceberg/maintain/remove_orphan_files.h"
#include "iceberg/maintain/rewrite_manifests.h"
#include "iceberg/maintain/rewrite_position_deletes.h"
