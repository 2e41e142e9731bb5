#!/usr/bin/env python3
"""ingest: NDJSON file to committed cache table, against DuckDB's read_json to zstd Parquet on the same file.

Both sides in turn, each run on new files; firn's time is the whole process, with the spool, every sync and the commit;
DuckDB's is the statement alone. Prints one JSON line a peer; the ratio is DuckDB's least time over firn's.
"""
import argparse
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

import duckdb

ROOT = pathlib.Path(__file__).resolve().parent.parent


def flights(folder):
    subprocess.run([sys.executable, ROOT / "examples/flights/make_ndjson.py", folder], check=True)
    path = folder / "all.ndjson"
    with open(path, "wb") as out:
        for month in sorted(folder.glob("flights-*.ndjson")):
            out.write(month.read_bytes())
            month.unlink()
    return path


def firn(path, folder):
    config = folder / "hyp.json"
    config.write_text(json.dumps({"cacheRoot": "cache", "stateDir": "state",
                                  "datasets": {"flights": {"primaryTimestampColumn": "time_hour"}}}))
    hyp = pathlib.Path(os.environ.get("FIRN_BIN", ROOT / "build/release/bin")) / "hyp"
    started = time.monotonic()
    subprocess.run([hyp, "--config", config, "ingest", "flights", path], check=True, stdout=subprocess.DEVNULL)
    return time.monotonic() - started


def peer(path, folder):
    connection = duckdb.connect()
    connection.execute("set threads = %d" % os.cpu_count())
    started = time.monotonic()
    connection.execute(f"copy (select * from read_json('{path}')) to '{folder}/out.parquet' (format parquet, compression zstd)")
    with open(f"{folder}/out.parquet", "rb") as out:
        os.fsync(out.fileno())
    return time.monotonic() - started


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--runs", type=int, default=5)
    arguments.add_argument("--json", action="store_true", help="JSON lines alone")
    options = arguments.parse_args()
    with tempfile.TemporaryDirectory(prefix="firn-bench-") as name:
        folder = pathlib.Path(name)
        path = flights(folder / "input")
        size = path.stat().st_size
        times = {"firn": [], "duckdb": []}
        for run in range(options.runs + 1):
            for title, measure in (("firn", firn), ("duckdb", peer)):
                work = folder / f"{title}-{run}"
                work.mkdir()
                seconds = measure(path, work)
                shutil.rmtree(work)
                if run > 0:  # the first run of each warms the page cache
                    times[title].append(seconds)
        best = {title: min(values) for title, values in times.items()}
        for title, seconds in best.items():
            print(json.dumps({"workload": "ingest", "peer": title, "metric": "seconds", "value": round(seconds, 4), "unit": "s",
                              "megabytes_per_second": round(size / 1e6 / seconds, 1), "runs": options.runs,
                              "speed_of_firn_relative_to_peer": round(seconds / best["firn"], 3)}))
        if not options.json:
            print(f"firn ingests at {best['duckdb'] / best['firn']:.2f} of DuckDB's speed "
                  f"({best['firn']:.2f} s against {best['duckdb']:.2f} s for {size / 1e6:.0f} MB)")


if __name__ == "__main__":
    main()
