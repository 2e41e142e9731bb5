"""find_commit on a loaded table with 50 and with 5,000 snapshots, the floor near the head; growth must stay below 2."""
import argparse
import os
import subprocess
import sys
import tempfile

import _peers


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--snapshots", default="50,5000", help="of each table, ascending")
    arguments.add_argument("--reps", type=int, default=2000)
    arguments.add_argument("--json", action="store_true", help="(JSON lines are all there is)")
    options = arguments.parse_args()
    subprocess.run(["cmake", "--build", _peers.ROOT / "build/release", "--target", "bench_orca_find_commit"], check=True,
                   stdout=sys.stderr)
    program = os.environ.get("FIRN_BENCH_FIND_COMMIT", _peers.ROOT / "build/release/bin/bench_orca_find_commit")
    with tempfile.TemporaryDirectory(prefix="firn-bench-") as folder:
        subprocess.run([program, folder + "/work", "--snapshots", options.snapshots, "--reps", str(options.reps)],
                       check=True)


if __name__ == "__main__":
    main()
