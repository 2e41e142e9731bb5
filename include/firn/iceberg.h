// Everything a program needs of firn::iceberg.
#pragma once

#include "base/arrow_status.h"                // Arrow's errors as ours
#include "iceberg/catalog/catalog.h"          // tables: found, loaded, created
#include "iceberg/catalog/drop_table.h"       // and taken away
#include "iceberg/commit/cherry_pick.h"       // staged and other branches' snapshots
#include "iceberg/commit/commit.h"            // appends and any other change, one or several a commit
#include "iceberg/expr/expression.h"          // filters
#include "iceberg/inspect/metadata_tables.h"  // snapshots, files, partitions, … as Arrow streams
#include "iceberg/inspect/verify.h"           // whether a table is whole
#include "iceberg/maintain/maintain.h"        // compact, expire, orphans, manifests, deletes
#include "iceberg/metadata/changes.h"         // schema, spec, order, properties, branches and tags
#include "iceberg/parquet/arrow_schema.h"     // Arrow's types and Iceberg's
#include "iceberg/rows/rows.h"                // delete, overwrite, upsert, merge
#include "iceberg/scan/appends.h"             // what appends added between two snapshots
#include "iceberg/scan/explain.h"             // why a scan reads what it reads
#include "iceberg/scan/scan.h"                // rows
#include "iceberg/write/append_writer.h"      // rows to data files
