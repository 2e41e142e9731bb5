#!/usr/bin/env python3
"""Compares the tables of the nyc example with the files they came from, read by PyIceberg.

    check.py INPUT_FOLDER WAREHOUSE

Prints what it found. Exits 1 at the first difference: a row of nyc.raw or nyc.events that is missing, there twice or
changed; a day's total in nyc.daily that is not that of its flights; a day with more than one commit in a run.
"""
import argparse
import collections
import datetime
import json
import pathlib
import sys

from pyiceberg.table import StaticTable

EVENT_COLUMNS = ["day", "carrier", "flight", "tailnum", "origin", "dest", "sched_dep_time", "dep_delay", "arr_delay", "distance"]


def open_table(warehouse, name):
    """By the newest metadata file."""
    folder = warehouse / "nyc" / name / "metadata"
    return StaticTable.from_metadata(str(max(folder.glob("v*.metadata.json"), key=lambda path: int(path.name[1:].split(".")[0]))))


def rows_of(table, columns):
    rows = table.scan(selected_fields=tuple(columns)).to_arrow().to_pylist()
    return collections.Counter(tuple(row[name] for name in columns) for row in rows)


def compare(name, found, wanted):
    if found != wanted:
        missing, extra = wanted - found, found - wanted
        sys.exit(f"{name}: {missing.total()} rows missing, {extra.total()} too many, such as {next(iter(missing or extra))}")


def mean(numbers):
    numbers = [number for number in numbers if number is not None]
    return sum(numbers) / len(numbers) if numbers else None


def daily_of(events):
    """nyc.daily, as the rows of nyc.events give it."""
    groups = collections.defaultdict(list)
    for row in events.elements():
        event = dict(zip(EVENT_COLUMNS, row))
        groups[event["day"], event["carrier"]].append((event["dep_delay"], event["arr_delay"]))
    return {key: (len(delays), sum(dep is None for dep, _ in delays), mean(dep for dep, _ in delays), mean(arr for _, arr in delays))
            for key, delays in groups.items()}


def check_daily(table, wanted):
    found = {(row["day"], row["carrier"]): row for row in table.scan().to_arrow().to_pylist()}
    if set(found) != set(wanted):
        sys.exit(f"nyc.daily: {len(found)} lines, the input has {len(wanted)}")
    for key, (flights, cancelled, *means) in wanted.items():
        row = found[key]
        close = all((got is None) == (want is None) and (got is None or abs(got - want) < 1e-9)
                    for got, want in zip((row["mean_dep_delay"], row["mean_arr_delay"]), means))
        if (row["flights"], row["cancelled"]) != (flights, cancelled) or not close:
            sys.exit(f"nyc.daily: {row} should be {flights} flights, {cancelled} cancelled, mean delays {means}")


def check_commits(table):
    """Commits of load_day by run; each of another day."""
    commits = collections.Counter()
    for snapshot in table.metadata.snapshots:
        if snapshot.summary["orca.step"] == "load_day":
            commits[int(snapshot.summary["orca.run-number"]), snapshot.summary["orca.partition"]] += 1
    if any(count > 1 for count in commits.values()):
        sys.exit(f"nyc.events: days committed more than once in a run: {[key for key, count in commits.items() if count > 1]}")
    return collections.Counter(run for run, _ in commits)


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("input", type=pathlib.Path)
    arguments.add_argument("warehouse", type=pathlib.Path)
    options = arguments.parse_args()

    lines = []
    for path in sorted(options.input.glob("flights-*.ndjson")):
        lines += map(json.loads, path.read_text(encoding="utf-8").splitlines())
    columns = [name for name in lines[0] if name != "time_hour"]  # a text there, a time in the table
    raw, events, daily = (open_table(options.warehouse, name) for name in ("raw", "events", "daily"))
    compare("nyc.raw", rows_of(raw, columns), collections.Counter(tuple(line[name] for name in columns) for line in lines))
    for line in lines:
        line["day"] = datetime.date(line["year"], line["month"], line["day"])
    wanted = collections.Counter(tuple(line[name] for name in EVENT_COLUMNS) for line in lines)
    compare("nyc.events", rows_of(events, EVENT_COLUMNS), wanted)
    totals = daily_of(wanted)
    check_daily(daily, totals)
    commits = check_commits(events)

    days, files = {row[0] for row in wanted}, events.current_snapshot().summary["total-data-files"]
    cancelled = sum(group[1] for group in totals.values())
    print(f"  nyc.raw     {len(lines):,} rows, each equal to a line of the input")
    print(f"  nyc.events  {wanted.total():,} flights of {len(days)} days, each once, in {files} files")
    print(f"  nyc.daily   {len(totals):,} lines, {wanted.total():,} flights and {cancelled:,} cancelled in all")
    for run, count in sorted(commits.items()):
        print(f"  run {run} of load_day made {count} commits, each of another day")


if __name__ == "__main__":
    main()
