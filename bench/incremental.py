#!/usr/bin/env python3
"""incremental: 1,000 new rows of a cache partition of 10^5, 10^6 and 10^7 rows, flushed by 10,000.

Before and after retention (a third of the rows goes) and compaction, in a process that has been at work; beside it a scan
that reads every row and keeps those above the watermark. The bars: as many rows decoded whatever the partition holds (a
page a file more or less), and at 10^7 rows no more than 1.5 times the time at 10^5: the metric growth.
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile

import _peers

PAGE_ROWS = 4096


def key(line):
    return line["metric"], line["params"]["rows"], line["params"]["state"]


def measured(rows, reps):
    subprocess.run(["cmake", "--build", _peers.ROOT / "build/release", "--target", "bench_hyp_incremental"], check=True,
                   stdout=sys.stderr)
    program = os.environ.get("FIRN_BENCH_INCREMENTAL", _peers.ROOT / "build/release/bin/bench_hyp_incremental")
    with tempfile.TemporaryDirectory(prefix="firn-bench-") as folder:
        return _peers.lines_of(program, folder + "/work", "--rows", ",".join(map(str, rows)), "--reps", reps)


def growth(lines, rows):
    """The time at the largest partition over that at the smallest, and whether rows decoded stayed flat."""
    ours = {key(line): line["value"] for line in lines if line["peer"] == "firn"}
    for state in dict.fromkeys(line["params"]["state"] for line in lines):
        seconds = [ours["seconds", count, state] for count in rows]
        decoded = [ours["rows_decoded", count, state] for count in rows]
        files = max(ours["files_opened", count, state] for count in rows)
        yield {"peer": "firn", "workload": "incremental", "metric": "growth", "value": round(seconds[-1] / seconds[0], 3),
               "unit": "ratio", "params": {"state": state, "rows": f"{rows[0]} to {rows[-1]}",
                                           "decoded_is_flat": max(decoded) - min(decoded) <= PAGE_ROWS * files}}


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--rows", default="100000,1000000,10000000", help="sizes of the partition, ascending")
    arguments.add_argument("--reps", type=int, default=15)
    arguments.add_argument("--json", action="store_true", help="(JSON lines are all there is)")
    options = arguments.parse_args()
    rows = [int(count) for count in options.rows.split(",")]
    lines = measured(rows, options.reps)
    _peers.report([line for line in lines if line["unit"] == "s"], key)
    for line in [line for line in lines if line["unit"] != "s"] + list(growth(lines, rows)):
        print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
