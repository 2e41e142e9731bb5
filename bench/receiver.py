#!/usr/bin/env python3
"""receiver: durable acknowledged batches of many clients at once through `hyp serve`, against PostgreSQL inserting the
same bodies as rows, one transaction each, with synchronous_commit=on.

Both on the same disk, in turn, each from an empty state; the ratio is that of the batches acknowledged per second. The
bar: 3 times, at 64 KB and at 1 MB a body. A column that PostgreSQL does not compress (it does, as firn does) is measured
beside it.
"""
import argparse
import contextlib
import json
import os
import pathlib
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

import _postgres

ROOT = pathlib.Path(__file__).resolve().parent.parent
BIN = pathlib.Path(os.environ.get("FIRN_BIN", ROOT / "build/release/bin"))


def load(side, *words):
    done = subprocess.run([BIN / "bench_receiver", side, *map(str, words)], check=True, stdout=subprocess.PIPE, text=True)
    return json.loads(done.stdout)


@contextlib.contextmanager
def receiver(folder):
    """Its address and a gateway's token."""
    config = folder / "hyp.json"
    config.write_text(json.dumps({"cacheRoot": "cache", "stateDir": "state", "listen": "",
                                  "receiver": {"listen": "127.0.0.1:0"}}))
    hyp = [BIN / "hyp", "--config", config]
    token = subprocess.run([*hyp, "gateway", "add", "bench"], check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                           text=True).stdout.strip()
    log = folder / "log"
    with open(log, "w") as out:
        server = subprocess.Popen([*hyp, "serve"], stdout=out, stderr=out)
    try:
        for _ in range(200):
            found = re.search(r"receiving on http://(\S+)", log.read_text())
            if found:
                break
            if server.poll() is not None:
                sys.exit(f"bench: hyp serve ended: {log.read_text()}")
            time.sleep(0.05)
        else:
            sys.exit(f"bench: hyp serve does not listen: {log.read_text()}")
        yield found.group(1), token
    finally:
        server.kill()  # what is spooled need not become a table here
        server.wait()


def postgres(folder, uncompressed):
    # Room between checkpoints, so that none falls into a run that the defaults would not have survived as well.
    return _postgres.postgres(folder, "create table batches(client int, body text);"
                              + ("alter table batches alter column body set storage external" if uncompressed else ""),
                              shared_buffers="512MB", max_wal_size="8GB", max_connections="300", autovacuum="off")


def measure(peer, folder, options, size):
    folder.mkdir(mode=0o755)
    try:
        if peer == "firn":
            with receiver(folder) as (address, token):
                return load("http", address, token, options.clients, size, options.seconds)
        with postgres(folder, peer == "postgresql-uncompressed") as conninfo:
            return load("postgres", conninfo, "text", options.clients, size, options.seconds)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--clients", type=int, default=32)
    arguments.add_argument("--seconds", type=float, default=10)
    arguments.add_argument("--runs", type=int, default=3)
    arguments.add_argument("--size", type=int, action="append", help="bytes a body; 65536 and 1048576 if not given")
    arguments.add_argument("--json", action="store_true", help="JSON lines alone")
    options = arguments.parse_args()
    peers = ["firn", "postgresql", "postgresql-uncompressed"]
    if not (BIN / "bench_receiver").exists() or "FIRN_BIN" not in os.environ:
        subprocess.run(["cmake", "--build", ROOT / "build/release", "--target", "bench_receiver", "program_hyp"], check=True,
                       stdout=sys.stderr)
    with tempfile.TemporaryDirectory(prefix="firn-bench-") as name:
        for size in options.size or [64 << 10, 1 << 20]:
            results = {peer: [] for peer in peers}
            for run in range(options.runs):
                for peer in peers:
                    results[peer].append(measure(peer, pathlib.Path(name) / f"{peer}-{size}-{run}", options, size))
            rates = {peer: statistics.median(one["batches"] / one["seconds"] for one in results[peer]) for peer in peers}
            for peer in peers:
                middle = sorted(results[peer], key=lambda one: one["batches"])[len(results[peer]) // 2]
                print(json.dumps({"workload": "receiver", "peer": peer, "metric": f"acknowledged batches of {size} bytes",
                                  "value": round(rates[peer], 1), "unit": "1/s", "clients": options.clients,
                                  "runs": options.runs, "megabytes_per_second": round(rates[peer] * size / 1e6, 1),
                                  "p50_ms": middle["p50_ms"], "p99_ms": middle["p99_ms"], "refused": middle["refused"],
                                  "ratio": round(rates["firn"] / rates[peer], 2)}), flush=True)
            if not options.json:
                print(f"{size} bytes: firn acknowledges {rates['firn'] / rates['postgresql']:.2f} times PostgreSQL's batches")


if __name__ == "__main__":
    main()
