#!/usr/bin/env python3
"""Starts a command of a pipeline and kills it, with all its worker processes, when half of a step's keys are done.

    kill_halfway.py STEP COMMAND…

Exits 1 if the command ended before.
"""
import json
import os
import pathlib
import signal
import subprocess
import sys


def progress(program, step):
    """Keys done, and how many there are; 0 of 0 until they are known."""
    looked = subprocess.run([program, "status", "--json"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    runs = json.loads(looked.stdout)["runs"] if looked.returncode == 0 else []  # no state yet
    steps = [one for one in runs[0]["steps"] if one["name"] == step] if runs else []
    return (steps[0]["done"], steps[0]["total"]) if steps else (0, 0)


step, *command = sys.argv[1:]
runner = subprocess.Popen(command, start_new_session=True)  # a process group of its own
done, total = 0, 0
while not total or 2 * done < total:
    if runner.poll() is not None:
        sys.exit(f"kill_halfway: {' '.join(command)} ended with {runner.returncode} before half of {step} was done")
    done, total = progress(command[0], step)
workers = sum(len(path.read_text().split()) for path in pathlib.Path(f"/proc/{runner.pid}/task").glob("*/children"))
os.killpg(runner.pid, signal.SIGKILL)
if runner.wait() != -signal.SIGKILL:
    sys.exit(f"kill_halfway: {' '.join(command)} ended with {runner.returncode} before it could be killed")
print(f"   {done} of {total} keys of {step} were done; the runner and its {workers} workers are dead")
