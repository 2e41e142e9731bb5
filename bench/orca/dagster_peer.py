"""The pipeline of bench/orca_steps.cc in Dagster: dagster_peer.py KEYS PARALLEL. Prints the seconds that a run took.

The instance is that of DAGSTER_HOME, with Dagster's default SQLite storage. Steps run one after the other in this process,
whatever PARALLEL says: its other executor starts a process a step, which takes longer.
"""
import sys
import time

import dagster

keys = int(sys.argv[1])


@dagster.op(out=dagster.DynamicOut(int), config_schema={"count": int})
def list_keys(context):
    for key in range(1, context.op_config["count"] + 1):
        yield dagster.DynamicOutput(key, mapping_key=f"k{key}")


@dagster.op
def load(key: int) -> int:
    return key


@dagster.op
def check(loaded: int) -> int:
    return loaded + 1


@dagster.op
def publish(checked: int) -> int:
    return checked * 2


@dagster.job(executor_def=dagster.in_process_executor)
def noop():
    list_keys().map(load).map(check).map(publish)


def run(count):
    result = noop.execute_in_process(run_config={"ops": {"list_keys": {"config": {"count": count}}}},
                                     instance=dagster.DagsterInstance.get())
    assert result.success
    return sum(result.output_for_node("publish").values())


run(1)  # loads what is loaded once
begin = time.perf_counter()
total = run(keys)
seconds = time.perf_counter() - begin
assert total == sum((key + 1) * 2 for key in range(1, keys + 1)), total
print(seconds)
