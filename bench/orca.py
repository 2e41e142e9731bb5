#!/usr/bin/env python3
"""orca: steps that do nothing, with durable state, on SQLite and PostgreSQL; Prefect and Dagster run the same pipeline.

Firn runs a year of days (365 keys through 3 mapped steps) on each database. The peers, from PyPI, with the SQLite state
that each has by default, run 30 keys, and firn beside them. Of everyone a run is timed within a process that has started:
firn's as its state tells it, the peers' after a first run of one key. The bars: 200 step executions a second on each
database, and at most a tenth of a peer's time a step (its ratio is 10 or more).
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

import _postgres

ROOT = pathlib.Path(__file__).resolve().parent.parent
BIN = pathlib.Path(os.environ.get("FIRN_BIN", ROOT / "build/release/bin"))
WORK = pathlib.Path(os.environ.get("PEERS_WORK", ROOT / "build/peers"))
PEERS = {"prefect": "prefect==3.9.1", "dagster": "dagster==1.13.29"}
STEPS = 3
PARALLEL = 4  # firn's default on 2 cores; Prefect's threads


def firn(keys, **environment):
    """Seconds that a run took."""
    done = subprocess.run([BIN / "bench_orca_steps", "run", "--from", "1", "--to", str(keys), "--parallel", str(PARALLEL), "--json"],
                          check=True, stdout=subprocess.PIPE, env={**os.environ, "ORCA_DATABASE_URL": "", **environment})
    run = json.loads(done.stdout)
    if run["status"] != "done" or [step["done"] for step in run["steps"]] != [keys] * STEPS:
        sys.exit(f"bench: the run did not do its steps: {run}")
    return (run["finishedMs"] - run["createdMs"]) / 1000


def firn_on_sqlite(keys):
    with tempfile.TemporaryDirectory(prefix="firn-bench-") as folder:
        return firn(keys, ORCA_STATE=f"{folder}/state.db")


def peer_python(name):
    """Of a virtual environment that has the peer."""
    folder = WORK / f"venv-{name}"
    stamp = folder / "bench.stamp"
    if not stamp.exists() or stamp.read_text() != PEERS[name]:
        print(f"bench: installing {PEERS[name]} into {folder}", file=sys.stderr)
        subprocess.run([sys.executable, "-m", "venv", "--clear", folder], check=True)
        subprocess.run([folder / "bin/python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check", PEERS[name]],
                       check=True)
        stamp.write_text(PEERS[name])
    return folder / "bin/python"


def peer(name, keys):
    """Seconds that a run took, in a state of its own."""
    with tempfile.TemporaryDirectory(prefix="firn-bench-") as home:
        pathlib.Path(home, "dagster.yaml").write_text("telemetry:\n  enabled: false\n")
        environment = {"PREFECT_HOME": home, "PREFECT_LOGGING_LEVEL": "ERROR", "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
                       "DAGSTER_HOME": home, "DO_NOT_TRACK": "1"}
        done = subprocess.run([peer_python(name), ROOT / f"bench/orca/{name}_peer.py", str(keys), str(PARALLEL)],
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ, **environment})
    if done.returncode != 0:
        sys.exit(f"bench: {name} failed: {done.stderr}")
    return float(done.stdout.splitlines()[-1])


def emit(who, metric, value, unit, **more):
    line = {"workload": "orca", "peer": who, "metric": metric, "value": float(f"{value:.4g}"), "unit": unit, **more}
    print(json.dumps(line), flush=True)


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--keys", type=int, default=365)
    arguments.add_argument("--peer-keys", type=int, default=30)
    arguments.add_argument("--runs", type=int, default=3, help="of each, of which the median counts")
    arguments.add_argument("--json", action="store_true", help="(JSON lines are all there is)")
    options = arguments.parse_args()
    if "FIRN_BIN" not in os.environ:
        subprocess.run(["cmake", "--build", ROOT / "build/release", "--target", "bench_orca_steps"], check=True, stdout=sys.stderr)

    def median(run, *words):
        return statistics.median(run(*words) for _ in range(options.runs))

    seconds = median(firn_on_sqlite, options.keys)
    emit("firn", "steps on SQLite", options.keys * STEPS / seconds, "1/s", keys=options.keys, bar=200)
    with tempfile.TemporaryDirectory(prefix="firn-bench-") as name:
        folder = pathlib.Path(name) / "postgres"
        folder.mkdir()
        with _postgres.postgres(folder) as url:
            seconds = median(lambda keys: firn(keys, ORCA_DATABASE_URL=url), options.keys)
    emit("firn", "steps on PostgreSQL", options.keys * STEPS / seconds, "1/s", keys=options.keys, bar=200)

    ours = median(firn_on_sqlite, options.peer_keys)
    steps = options.peer_keys * STEPS
    emit("firn", "time a step", ours / steps, "s", keys=options.peer_keys)
    for name, package in PEERS.items():
        theirs = median(peer, name, options.peer_keys)
        emit(name, "time a step", theirs / steps, "s", keys=options.peer_keys, version=package.split("==")[1],
             ratio=float(f"{theirs / ours:.3g}"), bar=10)


if __name__ == "__main__":
    main()
