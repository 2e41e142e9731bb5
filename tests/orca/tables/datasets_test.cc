// Where tables are found, and what a step must declare to use them (orca-tables.md, "A table is known by its
// location").
#include "orca/tables/world.h"

namespace firn::orca {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(Warehouse, IsWhatTheEnvironmentSaysOrEmpty) {
  {
    const World world("mem://w");
    EXPECT_EQ(warehouse(), "mem://w");
  }
  EXPECT_EQ(warehouse(), "");
}

TEST(Warehouse, ADatasetIsTheTableDirectlyUnderANamespace) {
  const World world("mem://bucket/warehouse");
  EXPECT_EQ(dataset_of("mem://bucket/warehouse/nyc/trips"), "nyc.trips");
  EXPECT_EQ(dataset_of("mem://bucket/warehouse/nyc/trips/"), "nyc.trips");
  EXPECT_EQ(dataset_of("mem://bucket/warehouse/nyc"), "");
  EXPECT_EQ(dataset_of("mem://bucket/warehouse/nyc/deep/trips"), "");
  EXPECT_EQ(dataset_of("mem://bucket/warehouse2/nyc/trips"), "");
  EXPECT_EQ(dataset_of("mem://bucket/other/trips"), "");
  EXPECT_EQ(dataset_of("mem://bucket/warehouse/a.b/trips"), "");  // no name could tell its parts
  EXPECT_EQ(dataset_of(""), "");
}

TEST(Warehouse, ALocalOneHasDatasetsHoweverTheirPathIsSpelled) {
  const TempFolder folder;
  const World world(folder.path());
  EXPECT_EQ(dataset_of(folder / "nyc/trips"), "nyc.trips");
  EXPECT_EQ(dataset_of("file://" + folder / "nyc/trips"), "nyc.trips");
  EXPECT_EQ(dataset_of(folder / "nyc/./trips/"), "nyc.trips");
}

TEST(Warehouse, WithoutOneThereIsNoDataset) {
  EXPECT_EQ(dataset_of("/tmp/nyc/trips"), "");
  EXPECT_REFUSED(load_dataset("nyc.trips"), ErrorKind::config, HasSubstr("ORCA_WAREHOUSE"));
}

TEST(Warehouse, LoadDatasetFindsATableOutsideAnyStep) {
  World world;
  world.make_table("nyc.keys");
  EXPECT_EQ(load_dataset("nyc.keys").location(), "mem://w/nyc/keys");
  EXPECT_THAT(datasets(), ElementsAre("nyc.keys"));
  EXPECT_REFUSED(load_dataset("nyc.none"), ErrorKind::not_found, HasSubstr("nyc.none"));
  EXPECT_REFUSED(load_dataset("none"), ErrorKind::invalid_argument, HasSubstr("none"));
}

TEST(Declared, TableLoadsADatasetTheStepReadsWritesOrReplaces) {
  World world;
  for (const char* name : {"nyc.r", "nyc.w", "nyc.p", "nyc.other"}) world.make_table(name);
  StepNames names;
  names.datasets = {.reads = {"nyc.r"}, .writes = {"nyc.w"}, .replaces = {"nyc.p"}};
  Attempt step = world.attempt(names);
  EXPECT_EQ(table(step, "nyc.r").location(), "mem://w/nyc/r");
  EXPECT_EQ(table(step, "nyc.w").location(), "mem://w/nyc/w");
  EXPECT_EQ(table(step, "nyc.p").location(), "mem://w/nyc/p");
  EXPECT_REFUSED(table(step, "nyc.other"), ErrorKind::invalid_argument, HasSubstr("step load"), HasSubstr("nyc.other"));
}

TEST(Declared, ScanRefusesADatasetTheStepDoesNotRead) {
  World world;
  Table events = world.make_table();
  Attempt step = world.attempt({});  // it writes nyc.events
  EXPECT_REFUSED(scan(step, events), ErrorKind::invalid_argument, HasSubstr("nyc.events"), HasSubstr("reads"));
}

TEST(Declared, CommitsRefuseADatasetTheStepDoesNotWrite) {
  World world;
  Table events = world.make_table();
  StepNames names;
  names.datasets = {.reads = {"nyc.events"}, .writes = {}, .replaces = {}};
  Attempt step = world.attempt(names);
  const Batches rows = day_rows("d1", {1});
  EXPECT_REFUSED(append(step, events, rows), ErrorKind::invalid_argument, HasSubstr("nyc.events"), HasSubstr("writes"));
  EXPECT_REFUSED(append_files(step, events, {}), ErrorKind::invalid_argument, HasSubstr("nyc.events"));
  EXPECT_REFUSED(commit(step, events, "append", {}), ErrorKind::invalid_argument, HasSubstr("nyc.events"));
  EXPECT_REFUSED(replace_partitions(step, events, rows), ErrorKind::invalid_argument, HasSubstr("nyc.events"));
  EXPECT_REFUSED(replace_partition_files(step, events, {}), ErrorKind::invalid_argument, HasSubstr("nyc.events"));
  EXPECT_REFUSED(ensure_table(step, "nyc.events", event_schema()), ErrorKind::invalid_argument,
                 HasSubstr("nyc.events"));
  EXPECT_EQ(num_snapshots(events), 0u);
  EXPECT_EQ(num_unnamed_files(events), 0u);
}

TEST(Declared, ATableOutsideTheWarehouseIsUsedByItsLocation) {
  World world;
  iceberg::create_filesystem_table(
      world.store, iceberg::new_table_metadata("mem://elsewhere/t", event_schema(), {}, {}, {}, now_ms()));
  StepNames names;
  names.datasets = {};
  Attempt step = world.attempt(names);
  Table outside = load_table("mem://elsewhere/t");
  append(step, outside, day_rows("d1", {1}));
  EXPECT_EQ(ids(outside), Ids{1});
  EXPECT_EQ(lines_of(scan(step, outside)).size(), 1u);
}

TEST(Declared, WithoutAWarehouseATableIsUsedByItsLocation) {
  World world;
  Table events = world.make_table();
  ::unsetenv("ORCA_WAREHOUSE");
  StepNames names;
  names.datasets = {};
  Attempt step = world.attempt(names);
  append(step, events, day_rows("d1", {1}));
  EXPECT_EQ(ids(events), Ids{1});
}

TEST(Locations, OneThatNothingCanOpenIsRefused) {
  EXPECT_REFUSED(load_table("gopher://x/t"), ErrorKind::unsupported, HasSubstr("gopher://x/t"));
}

}  // namespace
}  // namespace firn::orca
