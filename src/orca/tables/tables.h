// Iceberg tables from steps: pinned reads, and commits that a retry recognises.
#pragma once

#include "orca/tables/commit.h"
#include "orca/tables/data_files.h"
#include "orca/tables/ensure_table.h"
#include "orca/tables/expire_tables.h"
#include "orca/tables/file_writer.h"
#include "orca/tables/scan.h"
#include "orca/tables/table.h"
