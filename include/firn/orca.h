// Everything a program needs of firn::orca. It links firn::orca, which has the main().
#pragma once

#include "orca/commands.h"       // main() of one's own: pipeline_main
#include "orca/ctx.h"            // what a step's function is given
#include "orca/json_value.h"     // inputs and outputs
#include "orca/keys.h"           // days, hours and other keys
#include "orca/pipeline.h"       // ORCA_PIPELINE: steps
#include "orca/runner.h"         // runs within a program
#include "orca/tables/tables.h"  // Iceberg tables from steps
#include "orca/tasks/tasks.h"    // ORCA_TASK: functions run elsewhere
