#!/usr/bin/env python3
"""memory.py [TABLE_MB] [BUDGET_MB]: compacting, sorting and upserting a table of TABLE_MB (on disk) stay under BUDGET_MB.

Measured is the peak resident memory of each `firn` process, libraries included; a run that goes over fails. The table has
many small files of rows in no order, with text that does not compress, so that its rows take as much in memory as on
disk. FIRN_PROGRAM names the program.
"""
import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile

import pyarrow as pa
import pyarrow.parquet as pq

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
FIRN = os.environ.get("FIRN_PROGRAM", str(ROOT / "build/release/bin/firn"))
FILE_MB = 20
BODY_BYTES = 400


def write_rows(path, first_id, count, seed):
    chance = random.Random(seed)
    ids = list(range(first_id, first_id + count))
    chance.shuffle(ids)
    printable = bytes(33 + i % 94 for i in range(256))
    body = chance.randbytes(count * BODY_BYTES).translate(printable)
    offsets = pa.array(range(0, (count + 1) * BODY_BYTES, BODY_BYTES), pa.int32())
    bodies = pa.StringArray.from_buffers(count, offsets.buffers()[1], pa.py_buffer(body))
    keys = pa.array([chance.getrandbits(40) for _ in range(count)])
    pq.write_table(pa.table({"id": ids, "key": keys, "body": bodies}), path, compression="none", use_dictionary=False,
                   row_group_size=count // 4 + 1)


def measured(name, budget_mb, *words):
    """Runs firn and returns its peak resident memory in MB."""
    process = subprocess.Popen([FIRN, *map(str, words)], stdout=subprocess.PIPE)
    out = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    if status != 0:
        sys.exit(f"memory: firn {' '.join(map(str, words))} failed")
    peak_mb = usage.ru_maxrss / 1024
    print(f"memory: {name}: peak {peak_mb:.0f} MB, {usage.ru_utime + usage.ru_stime:.1f} s of processor time", flush=True)
    if budget_mb and peak_mb > budget_mb:
        sys.exit(f"memory: {name} took {peak_mb:.0f} MB, more than {budget_mb}")
    return json.loads(out)


def main():
    table_mb = int(sys.argv[1]) if len(sys.argv) > 1 else 400
    budget_mb = int(sys.argv[2]) if len(sys.argv) > 2 else 200
    with tempfile.TemporaryDirectory(prefix="firn-memory-") as name:
        folder = pathlib.Path(name)
        table, rows = folder / "t", FILE_MB * 1_000_000 // (BODY_BYTES + 20)
        memory = ["--memory", f"{budget_mb * 2 // 5}MiB"]
        subprocess.run([FIRN, "create", table, "--column", "id long", "--column", "key long", "--column", "body string",
                        "--sort", "key", "--property", "format-version=3",
                        "--property", "write.parquet.compression-codec=uncompressed"], check=True, stdout=subprocess.DEVNULL)
        files = table_mb // FILE_MB
        for i in range(files):
            write_rows(folder / "rows.parquet", i * rows, rows, i)
            measured(f"append {i}", budget_mb if i == 0 else None, "append", table, folder / "rows.parquet", "--json")
        measured("compact", budget_mb, "compact", table, "--all", "--target-size", "64MiB", "--json", *memory)
        measured("sort", budget_mb, "compact", table, "--sort-by", "id", "--all", "--target-size", "64MiB", "--json", *memory)
        # A tenth of the rows anew, from all over, and as many that are not there.
        write_rows(folder / "rows.parquet", files * rows - rows // 2, rows, 1 << 20)
        answer = measured("upsert", budget_mb, "upsert", table, folder / "rows.parquet", "--key", "id", "--json", *memory)
        print("memory: upsert:", json.dumps(answer), flush=True)
        total = int(subprocess.run([FIRN, "scan", table, "--count"], check=True, capture_output=True, text=True).stdout)
        expected = files * rows + (rows - rows // 2)
        if total != expected:
            sys.exit(f"memory: {total} rows are in the table, not {expected}")


main()
