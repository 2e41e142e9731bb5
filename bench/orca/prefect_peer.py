"""The pipeline of bench/orca_steps.cc in Prefect: prefect_peer.py KEYS PARALLEL. Prints the seconds that a run took.

The server is Prefect's own, which the first run starts, with its SQLite database in PREFECT_HOME; results are kept.
"""
import sys
import time

from prefect import flow, task
from prefect.task_runners import ThreadPoolTaskRunner

keys, parallel = int(sys.argv[1]), int(sys.argv[2])


@task(persist_result=True)
def load(key):
    return key


@task(persist_result=True)
def check(loaded):
    return loaded + 1


@task(persist_result=True)
def publish(checked):
    return checked * 2


@flow(task_runner=ThreadPoolTaskRunner(max_workers=parallel), log_prints=False)
def noop(count):
    published = publish.map(check.map(load.map(range(1, count + 1))))
    return sum(published.result())


noop(1)  # starts the server, and loads what is loaded once
begin = time.perf_counter()
total = noop(keys)
seconds = time.perf_counter() - begin
assert total == sum((key + 1) * 2 for key in range(1, keys + 1)), total
print(seconds)
