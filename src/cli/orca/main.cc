// The command orca: what needs no pipeline's code.
#include "orca/commands.h"
#include "orca/tables/expire_tables.h"

int main(int argc, char** argv) { return firn::orca::orca_main(argc, argv, firn::orca::expire_tables, FIRN_VERSION); }
