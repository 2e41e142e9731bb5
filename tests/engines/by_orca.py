"""Tables that a pipeline of orca writes (examples/nyc), read by Spark and PyIceberg."""
import collections
import datetime as dt
import gzip
import json
import os
import subprocess
from pathlib import Path

from pyiceberg.table import StaticTable

from cases import case
from engines import Failed

REPOSITORY = Path(__file__).resolve().parents[2]


def orca_nyc(e, *words):
    program = Path(os.environ["FIRN_PROGRAM"]).with_name("orca_nyc")
    environment = {"NYC_INPUT": e.warehouse / "nyc-input", "ORCA_WAREHOUSE": e.warehouse, "ORCA_STATE": e.warehouse / "orca.db",
                   "ORCA_TASKS": "processes"}
    done = subprocess.run([program, *words], env={**os.environ, **{name: str(value) for name, value in environment.items()}},
                          capture_output=True, text=True, timeout=300)
    if done.returncode != 0:
        raise Failed(f"orca_nyc {' '.join(words)} ended with {done.returncode}: {done.stderr}{done.stdout}")


def pyiceberg_rows(e, table):
    """Of each engine the rows as tuples, columns in the table's order."""
    versions = (e.warehouse / "nyc" / table / "metadata").glob("v*.metadata.json")
    newest = max(versions, key=lambda path: int(path.name[1:].split(".")[0]))
    return [tuple(row.values()) for row in StaticTable.from_metadata(str(newest)).scan().to_arrow().to_pylist()]


def spark_rows(e, table):
    return [tuple(row.values()) for row in e.sql(f"select * from nyc.{table}")]


def flights_of_days(delays):
    """Of each day: flights, those that never left, minutes of delay in all."""
    found = collections.defaultdict(lambda: [0, 0, 0])
    for day, delay in delays:
        found[day][0] += 1
        found[day][1] += delay is None
        found[day][2] += delay or 0
    return found


@case("others read what a pipeline of orca wrote")
def nyc(e):
    lines = gzip.decompress((REPOSITORY / "examples/data/flights-02.ndjson.gz").read_bytes())
    (e.warehouse / "nyc-input").mkdir()
    (e.warehouse / "nyc-input" / "flights-02.ndjson").write_bytes(lines)
    rows = [json.loads(line) for line in lines.splitlines()]
    wanted = flights_of_days((dt.date(row["year"], row["month"], row["day"]), row["dep_delay"]) for row in rows)
    for words in (["run"], ["backfill", "--rerun", "--from", "2013-02-10", "--to", "2013-02-16"]):
        orca_nyc(e, *words)
        for engine, rows_of in (("Spark", spark_rows), ("PyIceberg", pyiceberg_rows)):
            found = flights_of_days((row[0], row[7]) for row in rows_of(e, "events"))
            if found != wanted:
                raise Failed(f"after {words[0]}: nyc.events by {engine} has {dict(found)}, the file {dict(wanted)}")
            raw, daily = len(rows_of(e, "raw")), rows_of(e, "daily")
            totals = sum(row[2] for row in daily), sum(row[3] for row in daily)
            if raw != len(rows) or totals != (len(rows), sum(day[1] for day in wanted.values())):
                raise Failed(f"after {words[0]}: {engine} has {raw} rows in nyc.raw, totals {totals} in nyc.daily; the file {len(rows)}")
