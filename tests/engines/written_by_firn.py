"""Tables that firn writes, opened by PyIceberg, and their files by DuckDB: row for row what went in."""
import json
import tempfile
from pathlib import Path

import duckdb
import pyarrow.parquet as pq
from pyiceberg.table import StaticTable

from arrow_rows import arrow_rows
from programs import firn, newest_metadata, run
from rows import COLUMNS, expect_equal, expect_equal_by_pyiceberg, random_rows, to_ndjson, type_text


def check_table(what, folder, expected, columns, is_partitioned):
    table = StaticTable.from_metadata(newest_metadata(folder))
    assert bool(table.spec().fields) == is_partitioned, table.spec()
    # Hidden columns of the cache are there, and are not asked for.
    expect_equal_by_pyiceberg(what, table.scan(selected_fields=tuple(columns)).to_arrow().to_pylist(), expected, columns)
    files = [task.file.file_path.removeprefix("file://") for task in table.scan().plan_files()]
    assert sum(task.file.record_count for task in table.scan().plan_files()) == len(expected)
    names = ", ".join(f'"{name}"' for name in columns)
    read = duckdb.execute(f"select {names} from read_parquet($files, union_by_name=true, hive_partitioning=false)",
                          {"files": files})
    expect_equal(f"{what}'s {len(files)} files by DuckDB", read.to_arrow_table().to_pylist(), expected, columns)
    return table


def write_lines(path, rows, columns):
    path.write_text("".join(json.dumps(to_ndjson(row, ("struct", columns)), ensure_ascii=False) + "\n" for row in rows))


def check_hyp(folder):
    """A cache table and an archive of declared columns of every type, from three captures and two sink runs."""
    rows = random_rows(300, seed=1)
    (folder / "hyp.json").write_text(json.dumps({
        "cacheRoot": "cache", "stateDir": "state",
        "datasets": {"readings": {
            "columns": {name: type_text(kind) for name, kind in COLUMNS.items()}, "primaryTimestampColumn": "ts",
            "cachePartitioning": {"iceberg": {"fields": [{"column": "name", "transform": "identity"}]}}}},
        "sinks": [{"name": "archive", "type": "iceberg", "path": "archive", "maxRows": 70}]}))
    for number, (begin, end) in enumerate([(0, 120), (120, 130), (130, 300)]):
        write_lines(folder / f"{number}.ndjson", rows[begin:end], COLUMNS)
        run("HYP_PROGRAM", "ingest", "readings", f"{number}.ndjson", cwd=folder)
        if number > 0:
            run("HYP_PROGRAM", "sink", "run", cwd=folder)
    cache = check_table("the cache table", folder / "cache/datasets/readings/source=default/table-1", rows, COLUMNS, True)
    archive = check_table("the archive", folder / "archive/hyp/readings", rows, COLUMNS, True)
    assert [field.name for field in archive.spec().fields] == ["ts_day"], archive.spec()
    assert len(archive.metadata.snapshots) == 6, archive.metadata.snapshots  # units end at 70 rows, and with their open
    # What PyIceberg prunes by the metrics and partitions that firn wrote is not what it looks for.
    for filter_text, keep in {
        "ts >= '2024-03-01T00:00:00+00:00'": lambda row: row["ts"] is not None and row["ts"].isoformat() >= "2024-03-01",
        "name = 'John O’Brien and a name above sixteen'": lambda row: row["name"] == "John O’Brien and a name above sixteen",
        "ts is null": lambda row: row["ts"] is None,
        "small < 0 and price > 1": lambda row: None not in (row["small"], row["price"]) and row["small"] < 0 and row["price"] > 1,
    }.items():
        for table, where in ((cache, "cache"), (archive, "archive")):
            found = table.scan(row_filter=filter_text, selected_fields=tuple(COLUMNS)).to_arrow().to_pylist()
            expect_equal_by_pyiceberg(f"{where} where {filter_text}", found, [row for row in rows if keep(row)], COLUMNS)


def check_hyp_inferred(folder):
    """Columns that are found in the rows, and one that comes later: it is null before."""
    early = {"at": "timestamptz", "n": "long", "tags": ("list", "long"), "inner": ("struct", {"a": "long", "b": "string"})}
    late = {**early, "extra": "boolean"}
    first = random_rows(40, seed=2, columns=early)
    second = random_rows(40, seed=3, columns=late)
    (folder / "hyp.json").write_text(json.dumps({
        "cacheRoot": "cache", "stateDir": "state", "datasets": {"found": {"primaryTimestampColumn": "at"}},
        "sinks": [{"name": "archive", "type": "iceberg", "path": "archive"}]}))
    for rows, columns, name in ((first, early, "first"), (second, late, "second")):
        write_lines(folder / f"{name}.ndjson", rows, columns)
        run("HYP_PROGRAM", "ingest", "found", f"{name}.ndjson", cwd=folder)
        run("HYP_PROGRAM", "sink", "run", cwd=folder)
    expected = [{**row, "extra": None} for row in first] + second
    check_table("the inferred cache table", folder / "cache/datasets/found/source=default/table-1", expected, late, False)
    check_table("the widened archive", folder / "archive/hyp/found", expected, late, True)


def iceberg_type(kind):
    """As Iceberg's schema JSON has it, without ids."""
    if isinstance(kind, str):
        return kind
    if kind[0] == "list":
        return {"type": "list", "element": iceberg_type(kind[1]), "element-required": False}
    if kind[0] == "map":
        return {"type": "map", "key": "string", "value": iceberg_type(kind[1]), "value-required": False}
    return {"type": "struct", "fields": [{"name": name, "type": iceberg_type(member), "required": False}
                                         for name, member in kind[1].items()]}


def check_firn(folder, version):
    """`firn create` and `firn append`, partitioned and sorted."""
    rows = random_rows(200, seed=4 + version)
    rows[3]["amount"], rows[4]["amount"], rows[5]["ratio"] = float("nan"), float("-inf"), float("nan")
    table = folder / "table"
    schema = folder / "schema.json"
    schema.write_text(json.dumps(iceberg_type(("struct", COLUMNS))))
    firn("create", table, "--schema", schema, "--partition", "day(ts)", "--partition", "bucket(4, name)", "--partition",
         "truncate(10, big)", "--sort", "small desc", "--property", f"format-version={version}")
    for number, (begin, end) in enumerate([(0, 100), (100, 101), (101, 200)]):
        pq.write_table(arrow_rows(rows[begin:end], COLUMNS), folder / f"{number}.parquet")
        firn("append", table, folder / f"{number}.parquet")
    opened = check_table(f"a version {version} table", table, rows, COLUMNS, True)
    assert opened.metadata.format_version == version, opened.metadata.format_version


def main():
    with tempfile.TemporaryDirectory() as root:
        for name, check in (("declared", check_hyp), ("inferred", check_hyp_inferred),
                            ("v2", lambda folder: check_firn(folder, 2)), ("v3", lambda folder: check_firn(folder, 3))):
            folder = Path(root) / name
            folder.mkdir()
            check(folder)


if __name__ == "__main__":
    main()
