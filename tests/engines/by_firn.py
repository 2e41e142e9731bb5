"""Tables that firn writes, read by Spark (or Java's generic reader) and PyIceberg."""
import datetime as dt
import json
from decimal import Decimal

import pyarrow.feather as feather
import pyarrow.parquet as pq

from arrow_rows import arrow_rows
from by_java import delete_equal
from by_spark import create as spark_create
from cases import case, check_others_read, expect
from encoding import lines_of
from engines import Failed
from rows import COLUMNS, random_rows
from written_by_firn import iceberg_type

MODES = ("delete", "update", "merge")


def create(e, name, columns, version=2, partition=(), sort=(), **properties):
    """`columns` maps names to types as rows.py has them."""
    path = e.warehouse / f"{name}.schema.json"
    path.write_text(json.dumps(iceberg_type(("struct", columns))))
    words = ["create", e.path(name), "--schema", path, "--property", f"format-version={version}"]
    for option, texts in (("--partition", partition), ("--sort", sort)):
        for text in texts:
            words += [option, text]
    for key, value in properties.items():
        words += ["--property", f"{key}={value}"]
    e.firn(*words)


def write(e, command, name, rows, columns, *words, form="parquet"):
    """Gives `rows` to append, overwrite or upsert, as a file of that form."""
    path = e.warehouse / f"{name}.rows.{form}"
    table = arrow_rows(rows, columns)
    if form == "parquet":
        pq.write_table(table, path)
    elif form == "arrow":
        feather.write_feather(table, path, compression="uncompressed")
    else:
        path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))
    e.firn(command, e.path(name), path, *words)


def check_whole(e, name, strict):
    """What firn says of it after reading every file. Java's manifests lack a header that the specification requires."""
    e.firn("verify", e.path(name), "--data", "--all-snapshots", *(["--strict"] if strict else []))


def check(e, name, rows=None, strict=True, **more):
    expected = None if rows is None else lines_of(rows, e.schema(name))
    check_others_read(e, name, expected, **more)
    check_whole(e, name, strict)


TYPE_FILTERS = ["small > 0", "big < 0 or flag = false", "price = -1.28", "name is null", "name = 'same'", "huge > 0", "not (name = 'same')",
                ("day < '1970-01-01'", "day < date'1970-01-01'"), ("ts >= '1970-01-01T00:00:00Z'", "ts >= timestamp'1970-01-01 00:00:00'"),
                ("amount > 0.0", "amount > 0 and not isnan(amount)"), "client.port > 0"]


@case("firn writes every type that Spark has", variants={"version 2": (2,), "version 3": (3,)})
def types(e, version):
    columns = {name: kind for name, kind in COLUMNS.items() if kind != "time"}
    name = f"firn_types_{version}"
    create(e, name, columns, version, sort=["small desc nulls last", "name"])
    rows = random_rows(60, seed=50 + version, columns=columns)
    rows[3]["amount"], rows[4]["amount"], rows[5]["ratio"], rows[6]["ratio"] = float("nan"), float("-inf"), float("nan"), -0.0
    for begin, end in ((0, 30), (30, 31), (31, 60)):
        write(e, "append", name, rows[begin:end], columns, form="arrow" if begin == 30 else "parquet")
    check(e, name, rows, where=TYPE_FILTERS, lineage=version == 3)


@case("firn writes the types that Spark lacks", variants={"version 2": (2,), "version 3": (3,)})
def java_types(e, version):
    columns = {name: COLUMNS[name] for name in ("small", "clock", "key", "code", "huge", "history")}
    columns["clocks"] = ("list", "time")
    name = f"firn_java_types_{version}"
    create(e, name, columns, version, partition=["key", "code", "bucket(3, clock)"])
    rows = random_rows(40, seed=60 + version, columns=columns)
    write(e, "append", name, rows[:25], columns)
    write(e, "append", name, rows[25:], columns)
    check(e, name, rows, by_java=True)


@case("firn writes nanoseconds and unknown columns")
def nanoseconds(e):
    name = "firn_nanoseconds"
    e.firn("create", e.path(name), "--column", "id int", "--column", "at timestamp_ns", "--column", "tz timestamptz_ns", "--column", "nothing unknown",
           "--partition", "day(at)", "--partition", "hour(tz)", "--property", "format-version=3")
    rows = [{"id": 1, "at": "1969-12-31T23:59:59.999999999", "tz": "1969-12-31T23:59:59.999999999+00:00", "nothing": None},
            {"id": 2, "at": "2024-02-29T00:00:00.000000001", "tz": "2200-01-01T00:00:00.123456789+00:00", "nothing": None},
            {"id": 3, "at": None, "tz": None, "nothing": None}]
    path = e.warehouse / f"{name}.ndjson"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    e.firn("append", e.path(name), path)
    expect("firn reads its own nanoseconds", e.firn_lines(name), sorted(json.dumps(row, separators=(",", ":")) for row in rows))
    check(e, name, by_java=True)


PARTITIONED = {"id": "long", "name": "string", "day": "date", "ts": "timestamptz", "local": "timestamp", "price": "decimal(9,2)", "n": "int",
               "blob": "binary"}
PARTITIONINGS = {
    "identity": ["name", "day", "price", "n", "blob", "local"],
    "bucket": ["bucket(4, id)", "bucket(3, name)", "bucket(5, day)", "bucket(2, ts)", "bucket(3, price)", "bucket(4, n)", "bucket(2, blob)"],
    "truncate": ["truncate(2, name)", "truncate(10, id)", "truncate(3, n)", "truncate(100, price)", "truncate(1, blob)"],
    "time": ["year(day)", "month(ts)", "day(local)"],
    "other time": ["month(day)", "hour(ts)", "year(local)"],
}
PARTITION_FILTERS = ["name = 'same'", "name is null", "n < 0", "price = -1.28", ("day = '1969-12-31'", "day = date'1969-12-31'"),
                     ("ts < '1970-01-01T00:00:00Z'", "ts < timestamp'1970-01-01 00:00:00'"),
                     ("local >= '1970-01-01T00:00:00'", "local >= timestamp_ntz'1970-01-01 00:00:00'"), "id in (3, 17)", "name like 'a%'"]


@case("firn partitions by", variants={f"{kind} in version {version}": (version, kind)
                                      for version, kind in [(2, kind) for kind in PARTITIONINGS] + [(3, "identity"), (3, "bucket")]})
def partitions(e, version, kind):
    name = f"firn_part_{kind.replace(' ', '_')}_{version}"
    create(e, name, PARTITIONED, version, PARTITIONINGS[kind])
    rows = random_rows(40, seed=70 + version, columns=PARTITIONED)
    for number, row in enumerate(rows):
        row["id"] = number
        if row["price"] is not None and abs(row["price"]) > 9000000:
            row["price"] = Decimal("0.01")  # the least ones, truncated down, do not fit their types
        if row["n"] == -2**31:  # firn wraps around as Java does, and Java then prunes it for n < 0
            row["n"] = -5
        if number % 5 == 0:
            row["name"] = ["a/b=c d%#?", "ü😀ß", "same"][number % 3]
    write(e, "append", name, rows[:25], PARTITIONED)
    write(e, "append", name, rows[25:], PARTITIONED)
    check(e, name, rows, where=PARTITION_FILTERS)


CHANGED = {"id": "long", "part": "string", "n": "int", "tags": ("list", "string")}


def changed_row(number, n=None):
    return {"id": number, "part": f"p{number % 3}", "n": number if n is None else n, "tags": [f"t{number}", None]}


@case("firn deletes, overwrites and upserts", variants={
    f"{mode} in version {version}": (version, mode) for version in (2, 3) for mode in ("copy-on-write", "merge-on-read")})
def deletes(e, version, mode):
    name = f"firn_deletes_{version}_{mode[:1]}"
    create(e, name, CHANGED, version, ["part"], ["id"], **{f"write.{kind}.mode": mode for kind in MODES})
    rows = {}

    def put(command, numbers, *words, n=None):
        write(e, command, name, [changed_row(number, n) for number in numbers], CHANGED, *words)
        rows.update({number: changed_row(number, n) for number in numbers})

    def delete(where, gone):
        e.firn("delete", e.path(name), "--where", where)
        for number in [number for number in rows if gone(rows[number])]:
            del rows[number]
    put("append", range(30))
    put("append", range(30, 40))
    delete("id in (3, 13, 23, 33)", lambda row: row["id"] % 10 == 3)
    delete("n >= 4 and n < 6 or id = 37", lambda row: 4 <= row["n"] < 6 or row["id"] == 37)
    put("upsert", [1, 7, 38, 50], "--key", "id", n=1000)
    put("upsert", [7, 8, 51], "--key", "id", n=2000)
    for number in [number for number in rows if rows[number]["part"] == "p2" and number < 20]:
        del rows[number]
    put("overwrite", [62, 65], "--where", "part = 'p2' and id < 20", n=3000)
    delete("part = 'p0'", lambda row: row["part"] == "p0")
    check(e, name, rows.values(), where=["n > 1000", "part = 'p1' and id < 20", "id = 37 or id = 38"], lineage=version == 3)
    for number in [number for number in rows if rows[number]["part"] == "p1"]:
        del rows[number]
    put("overwrite", [70, 73], "--partitions", n=4000)
    check(e, name, rows.values(), where=["part = 'p1'"], lineage=version == 3)


@case("firn's schema changes", variants={"version 2": (2,), "version 3": (3,)})
def schema_changes(e, version):
    name = f"firn_schema_{version}"
    columns = {"id": "int", "f": "float", "d": "decimal(9,2)", "gone": "string", "value": "string",
               "s": ("struct", {"a": "int", "b": "string", "inner": ("struct", {"x": "float"})}),
               "l": ("list", ("struct", {"p": "int", "q": "string"}))}
    create(e, name, columns, version)
    write(e, "append", name, random_rows(8, seed=80, columns=columns), columns)

    def alter(*words):
        e.firn("alter", words[0], e.path(name), *words[1:])
    alter("promote-column", "id", "long")
    alter("promote-column", "f", "double")
    alter("promote-column", "d", "decimal(18,2)")
    alter("promote-column", "s.inner.x", "double")
    alter("promote-column", "l.element.p", "long")
    alter("drop-column", "gone")
    alter("drop-column", "value")
    alter("add-column", "value", "string")
    alter("add-column", "first_one", "date", "--first")
    alter("add-column", "second", "timestamptz", "--after", "first_one")
    alter("add-column", "c", json.dumps({"type": "list", "element": "int", "element-required": False}), "--in", "s")
    alter("rename-column", "s.b", "bb")
    alter("rename-column", "f", "ratio")
    alter("drop-column", "s.a")
    alter("move-column", "d", "--first")
    alter("set-doc", "id", "a key")
    late = {"d": "decimal(9,2)", "first_one": "date", "second": "timestamptz", "id": "long", "ratio": "double",
            "s": ("struct", {"bb": "string", "inner": ("struct", {"x": "double"}), "c": ("list", "int")}),
            "l": ("list", ("struct", {"p": "long", "q": "string"})), "value": "string"}
    write(e, "append", name, random_rows(8, seed=81, columns=late), late)
    check(e, name, where=["id > 0", "ratio > 1.0", "value is null", "first_one is null", "d = -1.28"])


@case("firn's partition and sort order changes", variants={"version 2": (2,), "version 3": (3,)})
def partition_changes(e, version):
    name = f"firn_partition_changes_{version}"
    create(e, name, PARTITIONED, version, ["name"])
    rows = random_rows(40, seed=90, columns=PARTITIONED)
    for number, row in enumerate(rows):
        row["id"] = number

    def alter(*words):
        e.firn("alter", words[0], e.path(name), *words[1:])
    write(e, "append", name, rows[:10], PARTITIONED)
    alter("add-partition", "bucket(4, id)", "--name", "shard")
    write(e, "append", name, rows[10:20], PARTITIONED)
    alter("drop-partition", "name")
    alter("set-sort", "n desc nulls last", "bucket(4, id)")
    write(e, "append", name, rows[20:30], PARTITIONED)
    alter("drop-partition", "shard")
    alter("add-partition", "day(ts)", "--name", "a_day")
    alter("rename-partition", "a_day", "ts_date")
    write(e, "append", name, rows[30:], PARTITIONED)
    e.firn("delete", e.path(name), "--where", "id in (2, 14, 25, 36)", "--mode", "merge-on-read")
    rows = [row for row in rows if row["id"] not in (2, 14, 25, 36)]
    check(e, name, rows, where=PARTITION_FILTERS)


@case("firn's branches, tags, staged snapshots, rollback, cherry-pick and expiry")
def refs(e):
    name = "firn_refs"
    create(e, name, CHANGED)

    def append(numbers, *words):
        write(e, "append", name, [changed_row(number) for number in numbers], CHANGED, *words, form="ndjson")
    append(range(5))
    e.firn("tag", e.path(name), "first-ü", "--max-ref-age", "100d")
    e.firn("branch", e.path(name), "dev", "--min-snapshots", 3, "--max-snapshot-age", "10d")
    append(range(10, 13), "--branch", "dev")
    e.firn("delete", e.path(name), "--where", "id = 11", "--branch", "dev")
    append([100], "--stage", "audit")
    append(range(20, 22))
    check(e, name, [changed_row(number) for number in (0, 1, 2, 3, 4, 20, 21)])
    e.firn("cherry-pick", e.path(name), "--staged", "audit")
    check(e, name, [changed_row(number) for number in (0, 1, 2, 3, 4, 20, 21, 100)])
    e.firn("rollback", e.path(name), "first-ü")
    e.firn("branch", e.path(name), "main", "--fast-forward", "dev")
    e.firn("tag", e.path(name), "last")
    e.firn("tag", e.path(name), "first-ü", "--delete")
    rows = [changed_row(number) for number in (0, 1, 2, 3, 4, 10, 12)]
    check(e, name, rows)
    e.firn("expire", e.path(name), "--older-than", "0s", "--retain-last", 1)
    check(e, name, rows)


@case("firn compacts, rewrites manifests and delete files, expires", variants={"version 2": (2,), "version 3": (3,)})
def maintenance(e, version):
    name = f"firn_maintained_{version}"
    create(e, name, CHANGED, version, ["part"], **{f"write.{kind}.mode": "merge-on-read" for kind in MODES})
    rows = {}
    for first in range(0, 60, 10):
        rows.update({number: changed_row(number) for number in range(first, first + 10)})
        write(e, "append", name, [changed_row(number) for number in range(first, first + 10)], CHANGED)
    e.firn("delete", e.path(name), "--where", "id in (1, 11, 21, 31, 41)")
    e.firn("delete", e.path(name), "--where", "id in (2, 12, 22, 59)")
    write(e, "upsert", name, [changed_row(number, -1) for number in (5, 15, 70)], CHANGED, "--key", "id")
    rows.update({number: changed_row(number, -1) for number in (5, 15, 70)})
    rows = [row for number, row in rows.items() if number not in (1, 11, 21, 31, 41, 2, 12, 22, 59)]
    lineage = e.firn_lines(name, lineage=True) if version == 3 else None

    def check_now(**more):
        check(e, name, rows, where=["n = -1", "id > 30"], lineage=version == 3, **more)
        if lineage:
            expect(f"{name} keeps its lineage", e.spark_lines(name, lineage=True), lineage)
    e.firn("rewrite-manifests", e.path(name), "--all")
    e.firn("rewrite-deletes", e.path(name), "--all")
    check_now()
    e.firn("compact", e.path(name), "--all", "--sort-by", "id desc")
    check_now()
    e.firn("expire", e.path(name), "--older-than", "0s", "--retain-last", 1)
    check_now()


@case("firn raises Spark's version 1 table to 3 under deletes and data")
def versions(e):
    name = "firn_versions"
    spark_create(e, name, "id bigint, part string, n int, tags array<string>", 1, **{f"write.{kind}.mode": "merge-on-read" for kind in MODES})
    e.sql(f"insert into db.{name} select id, concat('p', id % 3), cast(id as int), array(concat('t', id), null) from range(10)")
    e.firn("alter", "upgrade", e.path(name), 2)
    e.firn("delete", e.path(name), "--where", "id = 3")
    write(e, "append", name, [changed_row(number) for number in range(10, 20)], CHANGED)
    e.firn("alter", "upgrade", e.path(name), 3)
    check(e, name, [changed_row(number) for number in range(20) if number != 3], lineage=True)
    e.firn("delete", e.path(name), "--where", "id in (4, 14)")
    write(e, "append", name, [changed_row(number) for number in range(20, 25)], CHANGED)
    check(e, name, [changed_row(number) for number in range(25) if number not in (3, 4, 14)], lineage=True)
    e.firn("rewrite-deletes", e.path(name), "--all")
    check(e, name, [changed_row(number) for number in range(25) if number not in (3, 4, 14)], lineage=True)


@case("firn's default values")
def defaults(e):
    name = "firn_defaults"
    create(e, name, {"id": "int", "s": ("struct", {"a": "int"})}, 3)
    write(e, "append", name, [{"id": 1, "s": {"a": 1}}, {"id": 2, "s": None}], {"id": "int", "s": ("struct", {"a": "int"})})
    for column, kind, text in (("i", "int", "34"), ("l", "long", "3000000000"), ("f", "double", "1.5"), ("flag", "boolean", "true"),
                               ("name", "string", "ü"), ("day", "date", "1969-12-31"), ("ts", "timestamptz", "1969-12-31T23:59:59.999999+00:00"),
                               ("local", "timestamp", "2024-02-29T00:00:00.000000"), ("price", "decimal(9,2)", "-1.28"), ("blob", "binary", "00ff"),
                               ("key", "uuid", "f79c3e09-677c-4bbd-a479-3f349cb785e7")):
        e.firn("alter", "add-column", e.path(name), column, kind, f"--default={text}")
    e.firn("alter", "add-column", e.path(name), "required", "int", "--default=-7", "--required")
    e.firn("alter", "add-column", e.path(name), "b", "string", "--in", "s", "--default", "nested")
    e.firn("alter", "set-default", e.path(name), "i", "35")
    path = e.warehouse / "defaults.ndjson"
    path.write_text('{"id": 3, "s": {"a": 3}}\n{"id": 4, "s": null, "i": null, "required": 5}\n')
    e.firn("append", e.path(name), path)
    check(e, name)


@case("firn writes variants")
def variants(e):
    name = "firn_variants"
    e.firn("create", e.path(name), "--column", "id int", "--column", "v variant", "--property", "format-version=3")
    path = e.warehouse / "variants.ndjson"
    values = [{"t": "object", "v": {"a": {"t": "array", "v": [{"t": "int8", "v": 1}, {"t": "double", "v": "2.5"}, {"t": "null"}, {"t": "boolean_true"}]},
                                    "b": {"t": "object", "v": {"c": {"t": "string", "v": "ü"}}}}},
              {"t": "int64", "v": 12345678901}, {"t": "string", "v": "text"}, {"t": "array", "v": []}, {"t": "object", "v": {}}]
    rows = [{"id": number, "v": {"variant": value}} for number, value in enumerate(values)] + [{"id": 9, "v": None}]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    e.firn("append", e.path(name), path)
    check(e, name, pyiceberg="it has no variants")


@case("firn writes gzip metadata, every codec, metrics modes, bloom filters, small row groups and pages")
def properties(e):
    name = "firn_properties"
    columns = {"id": "long", "name": "string", "other": "string", "note": "string"}
    create(e, name, columns, 2, **{
        "write.metadata.compression-codec": "gzip", "write.metadata.metrics.default": "truncate(4)",
        "write.metadata.metrics.column.other": "counts", "write.metadata.metrics.column.note": "none",
        "write.parquet.bloom-filter-enabled.column.name": "true", "write.parquet.page-row-limit": 10, "write.parquet.row-group-size-bytes": 1024})
    rows = []
    for number, codec in enumerate(["uncompressed", "snappy", "gzip", "zstd", "lz4"]):
        e.firn("alter", "set-properties", e.path(name), f"write.parquet.compression-codec={codec}")
        more = [{"id": one, "name": f"name ü {one}", "other": f"o{one}", "note": None if one % 7 == 0 else "n"}
                for one in range(number * 40, number * 40 + 40)]
        write(e, "append", name, more, columns)
        rows += more
    check(e, name, rows, where=["name = 'name ü 77'", "other = 'o150'", "note is null and id < 50", "name like 'name ü 1%'", "id in (3, 199)",
                                "name >= 'name ü 98'"])


@case("firn makes a table without rows, and empties one")
def empty(e):
    create(e, "firn_empty", CHANGED, partition=["part"])
    check(e, "firn_empty", [])
    write(e, "append", "firn_empty", [changed_row(1), changed_row(2)], CHANGED)
    e.firn("delete", e.path("firn_empty"), "--all")
    check(e, "firn_empty", [], where=["id = 1"])


@case("firn appends NDJSON, CSV, Arrow and Parquet alike")
def forms(e):
    columns = {"id": "long", "name": "string", "day": "date", "price": "decimal(9,2)"}
    create(e, "firn_forms", columns)
    text = [{"id": 1, "name": "ü \"quoted\", and", "day": "1969-12-31", "price": "-1.28"}, {"id": 2, "name": "", "day": None, "price": None}]
    for form, content in (("ndjson", "".join(json.dumps(row) + "\n" for row in text)),
                          ("csv", 'id,name,day,price\n1,"ü ""quoted"", and",1969-12-31,-1.28\n2,"",,\n')):
        path = e.warehouse / f"forms.{form}"
        path.write_text(content)
        e.firn("append", e.path("firn_forms"), path)
    typed = [{**row, "day": row["day"] and dt.date.fromisoformat(row["day"]), "price": row["price"] and Decimal(row["price"])} for row in text]
    for form in ("arrow", "parquet"):
        write(e, "append", "firn_forms", typed, columns, form=form)
    check(e, "firn_forms", typed * 4)


@case("firn writes on where Spark left off: statistics kept, name mapping, odd locations")
def continued(e):
    name = "firn_continued"
    spark_create(e, name, "id bigint, part string, n int, tags array<string>", 2, "part", **{"write.data.path": f"{e.warehouse}/elsewhere"})
    e.sql(f"insert into db.{name} select id, concat('p', id % 3), cast(id as int), array(concat('t', id), null) from range(6)")
    e.sql(f"call h.system.compute_table_stats('db.{name}')")
    statistics = e.metadata(name)["statistics"]
    assert len(statistics) == 1, statistics
    write(e, "append", name, [changed_row(number) for number in range(6, 9)], CHANGED)
    e.firn("delete", e.path(name), "--where", "id = 4", "--mode", "merge-on-read")
    if e.metadata(name).get("statistics") != statistics:
        raise Failed(f"statistics are {e.metadata(name).get('statistics')} instead of {statistics}")
    e.sql(f"insert into db.{name} select id, concat('p', id % 3), cast(id as int), array(concat('t', id), null) from range(9, 12)")
    check(e, name, [changed_row(number) for number in range(12) if number != 4], strict=False)


@case("firn applies the deletes of others when it compacts", variants={"version 2": (2,), "version 2 raised to 3": (3,)})
def compacted(e, version):
    name = f"firn_compacted_{version}"
    spark_create(e, name, "id int, part string, n int", 2, "", **{f"write.{kind}.mode": "merge-on-read" for kind in MODES})
    e.sql(f"insert into db.{name} select cast(id as int), concat('p', id % 3), cast(id % 4 as int) from range(20)")
    e.sql(f"delete from db.{name} where id in (3, 4)")
    delete_equal(e, name, ["n", "part"], [(1, "p2"), (2, "p0"), (None, "p1")])
    e.sql(f"insert into db.{name} select cast(id as int), concat('p', id % 3), cast(id % 4 as int) from range(20, 30)")
    e.sql(f"delete from db.{name} where id in (8, 21)")
    if version == 3:
        e.firn("alter", "upgrade", e.path(name), 3)
        e.firn("rewrite-deletes", e.path(name), "--all")
        e.firn("delete", e.path(name), "--where", "id = 9", "--mode", "merge-on-read")
    before = e.spark_lines(name)
    check(e, name, strict=False, lineage=version == 3, pyiceberg="it reads no equality deletes")
    e.firn("compact", e.path(name), "--all")
    expect(f"{name} after compaction", e.spark_lines(name), before)
    left = [one["content"] for one in json.loads(e.firn("files", e.path(name), "--json"))]
    if any(content != "data" for content in left):
        raise Failed(f"{name} has these files after all of it was compacted: {left}")
    check(e, name, strict=False, lineage=version == 3, pyiceberg="it reads no equality deletes")
