"""Spark's metadata tables and `firn metadata` beside each other, column by column as Spark has them."""
import json

import pyarrow as pa

from by_firn import PARTITIONED, check, write
from by_firn import create as firn_create
from by_spark import PARTITIONED as PARTITIONED_COLUMNS
from by_spark import PARTITIONED_ROWS, create
from cases import case, expect, null_collections_as_empty
from encoding import lines_of, lines_of_firn
from rows import random_rows

NAMES = ["snapshots", "history", "refs", "manifests", "files", "data_files", "delete_files", "entries", "partitions",
         "metadata_log_entries", "all_data_files", "all_manifests"]


def kind_of(arrow):
    """An Arrow type as the schema JSON has it."""
    if pa.types.is_struct(arrow):
        return {"type": "struct", "fields": [{"name": field.name, "type": kind_of(field.type)} for field in arrow]}
    if pa.types.is_list(arrow):
        return {"type": "list", "element": kind_of(arrow.value_type)}
    if pa.types.is_map(arrow):
        return {"type": "map", "key": kind_of(arrow.key_type), "value": kind_of(arrow.item_type)}
    if pa.types.is_decimal(arrow):
        return f"decimal({arrow.precision}, {arrow.scale})"
    if pa.types.is_timestamp(arrow):
        return "timestamptz" if arrow.tz else "timestamp"
    return {pa.bool_(): "boolean", pa.int32(): "int", pa.int64(): "long", pa.float32(): "float", pa.float64(): "double", pa.date32(): "date",
            pa.string(): "string", pa.binary(): "binary"}[arrow]


def chosen(value, kind):
    """The fields of `kind` alone, in its order."""
    if not isinstance(kind, dict) or kind["type"] != "struct" or value is None:
        return value
    return {field["name"]: chosen(value.get(field["name"]), field["type"]) for field in kind["fields"]}


def check_metadata_tables(e, name):
    known = e.firn("metadata", "--help")
    for table in NAMES:
        if table not in known:
            print(f"      firn has no {table}")
            continue
        rows = e.sql_table(f"select * from db.{name}.{table}")
        theirs = rows.to_pylist()
        for summary in [one for row in theirs for one in row.get("partition_summaries") or []]:
            for bound in ("lower_bound", "upper_bound"):  # Spark's text for a bound that is not there
                summary[bound] = None if summary[bound] == "null" else summary[bound]
        schema = {"type": "struct", "fields": [{"name": field.name, "type": kind_of(field.type)} for field in rows.schema]}
        found = [json.dumps(chosen(json.loads(line), schema)) for line in e.firn("metadata", e.path(name), table, "--json").splitlines()]
        expect(f"{name}.{table}", null_collections_as_empty(lines_of_firn("\n".join(found), schema), schema),
               null_collections_as_empty(lines_of(theirs, schema), schema))


@case("Metadata tables of Spark's tables", variants={"version 2": (2,), "version 3": (3,)})
def of_spark(e, version):
    name = f"metadata_{version}"
    create(e, name, PARTITIONED_COLUMNS, version, "truncate(2, name), days(day)", **{"write.delete.mode": "merge-on-read"})
    e.sql(f"insert into db.{name} {PARTITIONED_ROWS.format(0, 9)}")
    e.sql(f"alter table db.{name} add partition field bucket(2, id)")
    e.sql(f"insert into db.{name} {PARTITIONED_ROWS.format(9, 14)}")
    e.sql(f"delete from db.{name} where id in (2, 3, 11)")
    e.sql(f"alter table db.{name} create tag here retain 10 days")
    check_metadata_tables(e, name)


@case("Metadata tables of firn's tables", variants={"version 2": (2,), "version 3": (3,)})
def of_firn(e, version):
    name = f"firn_metadata_{version}"
    firn_create(e, name, PARTITIONED, version, ["truncate(2, name)", "day(day)"], **{"write.delete.mode": "merge-on-read"})
    rows = [{**row, "id": number, "price": None} for number, row in enumerate(random_rows(14, seed=99, columns=PARTITIONED))]
    write(e, "append", name, rows[:9], PARTITIONED)
    e.firn("alter", "add-partition", e.path(name), "bucket(2, id)")
    write(e, "append", name, rows[9:], PARTITIONED)
    e.firn("delete", e.path(name), "--where", "id in (2, 3, 11)")
    e.firn("branch", e.path(name), "here", "--max-snapshot-age", "10d")
    e.firn("compact", e.path(name), "--all")
    check_metadata_tables(e, name)
    check(e, name, [row for row in rows if row["id"] not in (2, 3, 11)])
