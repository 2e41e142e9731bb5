"""Tables that PyIceberg writes, read by firn. `read_by_firn.py` has its appends of every type."""
import datetime as dt
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq

from cases import case, describe, expect, null_collections_as_empty
from engines import Skipped
from read_by_firn import use_scalar_transforms

TYPES = pa.schema([("id", pa.int64()), ("part", pa.string()), ("n", pa.int32()), ("price", pa.decimal128(9, 2)),
                   ("ts", pa.timestamp("us", "UTC")), ("tags", pa.list_(pa.string()))])
WHERE = ["id > 12", "part = 'p1'", "n is null", "price < 0", "ts >= '1970-01-01T00:00:00+00:00'", "part in ('p0', 'p2') and id < 5",
         "not (n = 3)"]


def rows(first, last, note="t"):
    start = dt.datetime(1969, 12, 31, 22, tzinfo=dt.timezone.utc)
    return pa.Table.from_pylist([
        {"id": number, "part": None if number % 7 == 6 else f"p{number % 3}", "n": None if number % 5 == 4 else number % 5,
         "price": Decimal(number - 9) * Decimal("1.28"), "ts": start + dt.timedelta(minutes=37 * number), "tags": [note, None]}
        for number in range(first, last)], TYPES)


def create(e, name, version, fields=(), **properties):
    """In an SQL catalog whose tables lie beside the others."""
    from pyiceberg.catalog.sql import SqlCatalog
    use_scalar_transforms()
    catalog = SqlCatalog("pyiceberg", uri=f"sqlite:///{e.warehouse}/pyiceberg.db", warehouse=f"file://{e.warehouse}")
    catalog.create_namespace_if_not_exists("db")
    table = catalog.create_table(("db", name), TYPES, location=f"file://{e.path(name)}",
                                 properties={"format-version": str(version), **properties})
    if fields:
        with table.update_spec() as update:
            for column, transform in fields:
                update.add_field(column, transform)
    return table


def check_firn_reads(e, name, where=WHERE):
    for at in e.moments(name):
        schema = e.schema(name, at)
        expect(f"firn reads {name} {describe(at)}", null_collections_as_empty(e.firn_lines(name, at), schema),
               null_collections_as_empty(e.pyiceberg_lines(name, at), schema))
    for text in where:
        expect(f"firn reads {name} where {text}", e.firn_lines(name, where=text), e.pyiceberg_lines(name, where=text))


VERSIONS = {"version 1": (1,), "version 2": (2,), "version 3": (3,)}


@case("PyIceberg appends, deletes, overwrites, upserts", variants=VERSIONS)
def changes(e, version):
    from pyiceberg.transforms import BucketTransform, IdentityTransform
    name = f"py_changes_{version}"
    try:
        table = create(e, name, version, [("part", IdentityTransform()), ("id", BucketTransform(3))])
    except NotImplementedError as error:
        raise Skipped(f"PyIceberg: {error}")
    table.append(rows(0, 12))
    table.append(rows(12, 20))
    table.delete("id = 3 or id = 13")
    table.delete("part = 'p2' and n < 3")
    table.overwrite(rows(30, 34, "o"), "id >= 8 and id < 11")
    table.upsert(rows(17, 24, "u"), ["id"])
    if version == 2:  # in version 1 the bucket stays as a void field, which PyIceberg refuses
        with table.update_spec() as update:
            update.remove_field("id_bucket_3")
        table.dynamic_partition_overwrite(rows(33, 35, "d"))
    check_firn_reads(e, name)


@case("PyIceberg partitions by time and truncate, and changes the partitions", variants={"version 1": (1,), "version 2": (2,)})
def partitions(e, version):
    from pyiceberg.transforms import BucketTransform, HourTransform, IdentityTransform, TruncateTransform
    name = f"py_partitions_{version}"
    table = create(e, name, version, [("ts", HourTransform()), ("part", TruncateTransform(1))])
    table.append(rows(0, 8))
    with table.update_spec() as update:
        update.remove_field("part_trunc_1")
        update.add_field("n", IdentityTransform())
        update.add_field("id", BucketTransform(2), "shard")
    table.append(rows(8, 16))
    with table.update_spec() as update:
        update.rename_field("shard", "a_shard")
        update.remove_field("n")
    table.append(rows(16, 24))
    table.delete("id in (3, 11, 19)")
    check_firn_reads(e, name)


@case("PyIceberg's schema changes, branches, tags, expiry", variants={"version 1": (1,), "version 2": (2,)})
def evolution(e, version):
    from pyiceberg.types import DecimalType, LongType, StringType
    name = f"py_evolution_{version}"
    table = create(e, name, version, **{"write.metadata.previous-versions-max": "2"})
    table.append(rows(0, 5))
    with table.manage_snapshots() as manage:
        manage.create_tag(table.current_snapshot().snapshot_id, "first")
    with table.update_schema() as update:
        update.update_column("n", LongType())
        update.update_column("price", DecimalType(18, 2))
        update.rename_column("part", "piece")
        update.delete_column("tags")
        update.add_column("extra", StringType())
        update.move_first("ts")
    late = pa.Table.from_pylist([{"id": 100, "piece": "p9", "n": 2**40, "price": Decimal("1e12"), "ts": None, "extra": "new"}],
                                pa.schema([("ts", pa.timestamp("us", "UTC")), ("id", pa.int64()), ("piece", pa.string()), ("n", pa.int64()),
                                           ("price", pa.decimal128(18, 2)), ("extra", pa.string())]))
    table.append(late)
    table.append(late)
    with table.manage_snapshots() as manage:
        manage.create_branch(table.current_snapshot().snapshot_id, "side")
    table.append(late, branch="side")
    where = ["id > 2", "piece = 'p1'", "extra is null", "extra = 'new'", "ts is null"]
    check_firn_reads(e, name, [text for text in where if "price" not in text and " n " not in text])
    table.maintenance.expire_snapshots().by_ids([one.snapshot_id for one in table.snapshots()][1:2]).commit()
    check_firn_reads(e, name, [])


@case("PyIceberg adds files that have no field ids")
def added_files(e):
    table = create(e, "py_added_files", 2)
    for number in range(2):
        pq.write_table(rows(number * 5, number * 5 + 5), f"{e.warehouse}/plain-{number}.parquet")
    table.add_files([f"file://{e.warehouse}/plain-{number}.parquet" for number in range(2)])
    with table.update_schema() as update:
        update.rename_column("part", "piece")
    check_firn_reads(e, "py_added_files", ["id > 6", "piece = 'p1'", "n is null"])
