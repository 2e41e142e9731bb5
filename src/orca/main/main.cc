// The main() of a program that defines pipelines and none of its own.
#include "orca/commands.h"
#include "orca/tables/expire_tables.h"

int main(int argc, char** argv) { return firn::orca::pipeline_main(argc, argv, firn::orca::expire_tables); }
