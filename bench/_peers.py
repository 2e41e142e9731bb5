"""The peers' harness: prepares its inputs, runs peers and firn in one session, and prints lines with the ratio to firn.

The harness is a folder of scripts beside this checkout (FIRN_PEERS, default ../shared/peers); what it makes goes to
PEERS_WORK (default build/peers; about 15 GB for everything). Prepared inputs are kept and used again.
"""
import json
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
PEERS = pathlib.Path(os.environ.get("FIRN_PEERS", ROOT.parent / "shared/peers"))
WORK = pathlib.Path(os.environ.get("PEERS_WORK", ROOT / "build/peers"))
REPS = os.environ.get("PEERS_REPS", "3")


def environment():
    return dict(os.environ, PEERS_WORK=str(WORK), PEERS_REPS=REPS, PEERS_OUT=str(WORK / "results.jsonl"),
                PEERS_VENV=str(WORK / "venv"), PEERS_VENV_DUCKDB15=str(WORK / "venv-duckdb15"),
                PEERS_JAR=os.environ.get("PEERS_JAR", str(WORK / "iceberg-spark-runtime.jar")))


def harness(*words):
    variables = environment()
    if not os.path.exists(variables["PEERS_JAR"]):
        del variables["PEERS_JAR"]  # else it is taken for one that is given, and copied
    subprocess.run([*map(str, words)], check=True, cwd=PEERS, env=variables, stdout=sys.stderr)


def prepare(*inputs):
    """inputs: of 'python', 'duckdb15', 'jar', 'rust' (peers), 'events', 'tables', 'plan' (data)."""
    if not (PEERS / "run_all.sh").exists():
        sys.exit(f"bench: {PEERS} is no peers' harness; set FIRN_PEERS")
    WORK.mkdir(parents=True, exist_ok=True)
    there = {"python": "venv/bin/python", "duckdb15": "venv-duckdb15/bin/python", "jar": "iceberg-spark-runtime.jar",
             "rust": "rust-target/release/peer-iceberg-rust", "events": "data/events-1000000.parquet",
             "tables": "tables.json", "plan": "plan_100000.meta"}
    made_by = {"events": ["./run_all.sh", "gen"], "tables": ["./run_all.sh", "prepare"],
               "plan": ["./run_all.sh", "plan-tables"]}
    for name in inputs:
        if not (WORK / there[name]).exists():
            print(f"bench: preparing {name}", file=sys.stderr)
            harness(*made_by.get(name, ["./setup.sh", name]))


def lines_of(*words):
    """The measurements that a program prints."""
    done = subprocess.run([*map(str, words)], check=True, cwd=PEERS, env=environment(), stdout=subprocess.PIPE, text=True)
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


def python_peer(script, workload, venv="venv"):
    return lines_of(WORK / venv / "bin/python", PEERS / script, "--only", workload)


def java(*words):
    return lines_of(PEERS / "java/run.sh", *words)


def rust(workload):
    return lines_of(WORK / "rust-target/release/peer-iceberg-rust", WORK, workload)


def firn(workload):
    subprocess.run(["cmake", "--build", ROOT / "build/release", "--target", "bench_firn"], check=True, stdout=sys.stderr)
    return lines_of(ROOT / "build/release/bin/bench_firn", WORK, "--only", workload, "--reps", REPS)


def report(lines, same):
    """Prints every line; a peer's with `ratio`: firn's speed over the peer's, for firn's line with equal same(line)."""
    ours = {same(line): line["value"] for line in lines if line["peer"] == "firn"}
    for line in lines:
        if line["peer"] != "firn" and line["value"] and same(line) in ours:
            mine = ours[same(line)]
            ratio = line["value"] / mine if line["unit"] == "s" else mine / line["value"]
            line["ratio"] = float(f"{ratio:.3g}")
        print(json.dumps(line), flush=True)
