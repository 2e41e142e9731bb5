"""Tables that PyIceberg writes, read by `firn scan` row for row, whole, by column and by filter."""
import tempfile
from pathlib import Path

import pyarrow as pa
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import BucketTransform, DayTransform, HourTransform, IdentityTransform, TruncateTransform, YearTransform
from pyiceberg.types import IntegerType, LongType, NestedField, StringType, TimestamptzType

from arrow_rows import arrow_rows
from programs import firn
from rows import COLUMNS, UTC, VALUES, as_pyiceberg_has, expect_equal, firn_rows, random_rows


def use_scalar_transforms():
    """PyIceberg takes a further package to transform whole arrays, and has each transform of a value in itself."""
    def transform_of_array(self, source):
        of_value = self.transform(source)
        result = schema_to_pyarrow(self.result_type(source))
        result = pa.int32() if result == pa.date32() else result
        return lambda array: pa.chunked_array([pa.array([of_value(value) for value in array.to_pylist()], result)])
    for transform in (BucketTransform, DayTransform, HourTransform, TruncateTransform, YearTransform):
        transform.pyarrow_transform = transform_of_array


def scan(table, columns=None, where=None):
    """Rows of the table's directory: PyIceberg names its metadata files 00001-<uuid>.metadata.json, and writes no hint."""
    words = ["scan", table.location().removeprefix("file://"), "--json"]
    words += [word for name in columns or [] for word in ("--select", name)]
    words += ["--where", where] if where else []
    kinds = {name: COLUMNS[name] for name in columns} if columns else COLUMNS
    return firn_rows(firn(*words), kinds)


# A filter of firn, and the same of a row.
FILTERS = {
    "ts >= '2024-03-01T00:00:00Z'": lambda row: row["ts"] is not None and row["ts"] >= VALUES["timestamptz"][2],
    "ts < '1970-01-01T00:00:00Z' or ts is null": lambda row: row["ts"] is None or row["ts"].year < 1970,
    "not (name is null) and name != 'same'": lambda row: row["name"] not in (None, "same"),
    "name like 'John%'": lambda row: (row["name"] or "").startswith("John"),
    "name in ('', '😀😀😀😀😀😀😀😀😀😀😀😀😀😀😀😀😀')": lambda row: row["name"] in ("", VALUES["string"][5]),
    "price = -1.28": lambda row: row["price"] == VALUES["decimal(9,2)"][1],
    "client.port > 0": lambda row: row["client"] is not None and (row["client"]["port"] or 0) > 0,
    "day = '1969-12-31' and flag = true": lambda row: row["day"] == VALUES["date"][1] and row["flag"] is True,
    "big = 9223372036854775807": lambda row: row["big"] == 2**63 - 1,
    "ts = '1900-01-01T00:00:00Z'": lambda row: False,
}


def check(what, table, expected):
    expected = [as_pyiceberg_has(row, ("struct", COLUMNS)) for row in expected]
    expect_equal(what, scan(table), expected, COLUMNS)
    chosen = ["name", "ts", "client"]
    some = {name: COLUMNS[name] for name in chosen}
    expect_equal(f"{what}: {chosen}", scan(table, columns=chosen), expected, some)
    for where, keep in FILTERS.items():
        rows = [row for row in expected if keep(row)]
        expect_equal(f"{what} where {where}", scan(table, where=where), rows, COLUMNS)
        expect_equal(f"{what}: {chosen} where {where}", scan(table, columns=chosen, where=where), rows, some)


def append_all(table, rows):
    """In several snapshots, one of a single row."""
    for begin, end in ((0, 90), (90, 91), (91, len(rows))):
        table.append(arrow_rows(rows[begin:end], COLUMNS))


def check_day_partitions(catalog, schema):
    """Day partitions of a timestamptz, several appends, and a delete of whole partitions."""
    spec = PartitionSpec(PartitionField(schema.find_field("ts").field_id, 1000, DayTransform(), "ts_day"))
    table = catalog.create_table("ns.days", schema, partition_spec=spec)
    rows = random_rows(200, seed=21)
    append_all(table, rows)
    check("day partitions", table, rows)
    table.delete("ts >= '2024-03-01T00:00:00+00:00'")
    check("day partitions after a delete", table,
          [row for row in rows if row["ts"] is None or row["ts"] < VALUES["timestamptz"][2]])


def check_other_partitions(catalog, schema):
    """Null and odd partition values, and NaN."""
    fields = [("local", YearTransform(), "local_year"), ("big", BucketTransform(4), "big_bucket"),
              ("name", TruncateTransform(3), "name_trunc"), ("flag", IdentityTransform(), "flag"),
              ("day", IdentityTransform(), "a day"), ("ts", HourTransform(), "ts_hour")]
    spec = PartitionSpec(*[PartitionField(schema.find_field(column).field_id, 1000 + number, transform, name)
                           for number, (column, transform, name) in enumerate(fields)])
    table = catalog.create_table("ns.other", schema, partition_spec=spec)
    rows = random_rows(150, seed=22)
    rows[3]["amount"], rows[4]["amount"], rows[5]["ratio"] = float("nan"), float("-inf"), float("nan")
    append_all(table, rows)
    check("other partitions", table, rows)


def check_evolution(catalog):
    """A column added, one renamed, one promoted, one dropped, and the partitioning changed, between appends."""
    table = catalog.create_table("ns.evolved", Schema(NestedField(1, "n", IntegerType()), NestedField(2, "s", StringType()),
                                                      NestedField(3, "gone", StringType()),
                                                      NestedField(4, "at", TimestamptzType())))
    at = VALUES["timestamptz"][1:]
    early = [{"n": number, "s": f"s{number % 3}", "gone": "x", "at": at[number % 3]} for number in range(20)]
    early_type = pa.schema([("n", pa.int32()), ("s", pa.string()), ("gone", pa.string()), ("at", pa.timestamp("us", "UTC"))])
    table.append(pa.Table.from_pylist(early, early_type))
    with table.update_schema() as update:
        update.add_column("more", LongType())
        update.rename_column("s", "text")
        update.update_column("n", LongType())
        update.delete_column("gone")
    with table.update_spec() as update:
        update.add_field("at", DayTransform(), "at_day")
    late = [{"n": 2**40 + number, "text": None, "at": at[number % 3], "more": number} for number in range(20)]
    late_type = pa.schema([("n", pa.int64()), ("text", pa.string()), ("at", pa.timestamp("us", "UTC")), ("more", pa.int64())])
    table.append(pa.Table.from_pylist(late, late_type))
    columns = {"n": "long", "text": "string", "at": "timestamptz", "more": "long"}
    expected = [{"n": row["n"], "text": row["s"], "at": row["at"], "more": None} for row in early] + late
    location = table.location().removeprefix("file://")
    for where, keep in (("n >= 0", lambda row: True), ("more is null", lambda row: row["more"] is None),
                        ("at >= '2024-03-01T00:00:00Z'", lambda row: row["at"] >= at[1]),
                        ("text = 's1' or n > 1099511627780", lambda row: row["text"] == "s1" or row["n"] > 2**40 + 4)):
        found = firn_rows(firn("scan", location, "--json", "--where", where), columns)
        expect_equal(f"an evolved table where {where}", found, [row for row in expected if keep(row)], columns)


def main():
    use_scalar_transforms()
    with tempfile.TemporaryDirectory() as root:
        catalog = SqlCatalog("engines", uri=f"sqlite:///{root}/catalog.db", warehouse=f"file://{root}")
        catalog.create_namespace("ns")
        schema = catalog.create_table("ns.model", schema=arrow_rows([], COLUMNS).schema).schema()
        check_day_partitions(catalog, schema)
        check_other_partitions(catalog, schema)
        check_evolution(catalog)


if __name__ == "__main__":
    main()
