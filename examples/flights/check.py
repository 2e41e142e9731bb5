#!/usr/bin/env python3
"""Compares tables row by row with the NDJSON they came from, as multisets. Readers other than firn open them.

    check.py INPUT.ndjson[,…] [--parquet TITLE=FILE] [--blobs TITLE=FOLDER] [--iceberg TITLE=TABLE_FOLDER] …

--blobs reads the Parquet or JSONL objects that the claims under FOLDER/_firn name; --iceberg opens the table with
PyIceberg. Exits 1 at the first table that differs, naming a row.
"""
import argparse
import gzip
import io
import json
import pathlib
import sys
import time

import pyarrow as pa
import pyarrow.json
import pyarrow.parquet

TEXT = {"carrier", "tailnum", "origin", "dest"}
COLUMNS = [
    "year", "month", "day", "dep_time", "sched_dep_time", "dep_delay", "arr_time", "sched_arr_time", "arr_delay",
    "carrier", "flight", "tailnum", "origin", "dest", "air_time", "distance", "hour", "minute", "time_hour",
]
SCHEMA = pa.schema([
    (name, pa.string() if name in TEXT else pa.timestamp("us", "UTC") if name == "time_hour" else pa.int64())
    for name in COLUMNS
])


def open_text(path):
    data = path.read_bytes()
    if data[:2] == b"\x1f\x8b":
        data = gzip.decompress(data)
    if data[:4] == b"\x28\xb5\x2f\xfd":
        data = pa.input_stream(pa.BufferReader(data), compression="zstd").read()
    return data


def read_ndjson(paths):
    parse = pa.json.ParseOptions(explicit_schema=pa.schema([
        (field.name, pa.timestamp("s") if field.name == "time_hour" else field.type) for field in SCHEMA]))
    tables = []
    for path in paths:
        data = open_text(path)
        if data:
            tables.append(pa.json.read_json(io.BytesIO(data), parse_options=parse))
    return normal(pa.concat_tables(tables))


def normal(table):
    """The table with SCHEMA's columns and types, in one order of rows."""
    columns = []
    for field in SCHEMA:
        column = table.column(field.name)
        if pa.types.is_timestamp(field.type) and column.type.tz is None:
            column = column.cast(pa.timestamp("us")).cast(field.type)
        columns.append(column.cast(field.type))
    return pa.table(columns, schema=SCHEMA).sort_by([(name, "ascending") for name in COLUMNS]).combine_chunks()


def read_blobs(folder):
    tables, objects = [], 0
    for claim in sorted((folder / "_firn").rglob("*.json")):
        named = json.loads(claim.read_text())["object"]
        if not named:
            continue
        objects += 1
        path = folder / named
        if path.name.endswith(".parquet"):
            tables.append(normal(pa.parquet.ParquetFile(path).read()))
        else:
            tables.append(read_ndjson([path]))
    return normal(pa.concat_tables(tables)), f"{objects} objects"


def read_iceberg(folder):
    from pyiceberg.table import StaticTable

    newest = max((folder / "metadata").glob("v*.metadata.json"), key=lambda path: int(path.name[1:].split(".")[0]))
    table = StaticTable.from_metadata(str(newest))
    return normal(table.scan().to_arrow()), f"{len(table.metadata.snapshots)} snapshots, read by PyIceberg"


def compare(title, got, want, note=""):
    if got.num_rows == want.num_rows and got.equals(want):
        print(f"  {title}: {got.num_rows:,} rows, each equal to the input{' (' + note + ')' if note else ''}")
        return True
    print(f"  {title}: DIFFERS: {got.num_rows:,} rows, the input has {want.num_rows:,}")
    for index in range(min(got.num_rows, want.num_rows)):
        if got.slice(index, 1).to_pylist() != want.slice(index, 1).to_pylist():
            print(f"    has   {got.slice(index, 1).to_pylist()[0]}\n    wants {want.slice(index, 1).to_pylist()[0]}")
            break
    return False


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("input", help="NDJSON files, comma-separated, plain or gzip")
    for kind in ("parquet", "blobs", "iceberg"):
        arguments.add_argument(f"--{kind}", action="append", default=[], metavar="TITLE=PATH")
    options = arguments.parse_args()
    started = time.monotonic()
    want = read_ndjson([pathlib.Path(path) for path in options.input.split(",")])
    good = True
    for kind, read in (
        ("parquet", lambda path: (normal(pa.parquet.ParquetFile(path).read()), "")),
        ("blobs", read_blobs),
        ("iceberg", read_iceberg),
    ):
        for named in getattr(options, kind):
            title, path = named.split("=", 1)
            good = compare(title, *(lambda result: (result[0], want, result[1]))(read(pathlib.Path(path)))) and good
    print(f"  checked in {time.monotonic() - started:.1f} s")
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
