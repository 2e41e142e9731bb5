// A pipeline of three steps that do nothing, over as many keys as are asked for: what is measured is the engine.
#include "orca/commands.h"
#include "orca/pipeline.h"

namespace {

int64_t load(firn::orca::Ctx&, const int64_t& key) { return key; }
int64_t check(firn::orca::Ctx&, const int64_t&, const int64_t& loaded) { return loaded + 1; }
int64_t publish(firn::orca::Ctx&, const int64_t&, const int64_t& checked) { return checked * 2; }

}  // namespace

ORCA_PIPELINE(noop) {
  step("load", load).mapped<int64_t>();
  step("check", check).mapped<int64_t>().from("load");
  step("publish", publish).mapped<int64_t>().from("check");
}

int main(int argc, char** argv) { return firn::orca::pipeline_main(argc, argv, nullptr); }
