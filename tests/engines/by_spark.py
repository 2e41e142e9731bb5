"""Tables that Spark writes, read by firn."""
from cases import case, check_firn_reads, expect


def create(e, name, columns, version=2, partition="", **properties):
    options = {"format-version": version, **properties}
    text = ", ".join(f"'{key}'='{value}'" for key, value in options.items())
    e.sql(f"create table db.{name} ({columns}) using iceberg {f'partitioned by ({partition})' if partition else ''} "
          f"tblproperties ({text})")


TYPES = """id int not null, flag boolean, big bigint, ratio float, amount double, d1 decimal(1,0), d9 decimal(9,2),
    d18 decimal(18,6), d38 decimal(38,10), day date, ts timestamp, local timestamp_ntz, name string, blob binary,
    tags array<string>, labels map<string,bigint>, by_day map<date,array<double>>,
    client struct<host:string,port:int not null,seen:struct<at:timestamp,days:array<date>>>,
    history array<struct<at:date,prices:array<decimal(9,2)>>>"""

ROWS = """(1, true, -9223372036854775808, float('-inf'), double('nan'), -9, -1.28, -123456789012.123456,
    -9999999999999999999999999999.9999999999, date'0001-01-01', timestamp'0001-01-01 00:00:00',
    timestamp_ntz'0001-01-01 00:00:00', '', x'', array(), map(), map(), named_struct('host', 'a', 'port', 1, 'seen', null), array()),
  (2, false, 9223372036854775807, float('nan'), double('-0.0'), 9, 9999999.99, 999999999999.999999,
    9999999999999999999999999999.9999999999, date'9999-12-31', timestamp'9999-12-31 23:59:59.999999',
    timestamp_ntz'9999-12-31 23:59:59.999999', 'line\\nfeed "quoted" \\\\ ü😀', x'00ff80', array(null, '', 'b'),
    map('', null, 'ü', 2), map(date'1969-12-31', array(1.5D, null)),
    named_struct('host', null, 'port', 2, 'seen', named_struct('at', timestamp'1969-12-31 23:59:59.999999', 'days', array(date'1970-01-01', null))),
    array(null, named_struct('at', date'2024-02-29', 'prices', array(-1.28, null)), named_struct('at', null, 'prices', null))),
  (3, null, 0, float('1.17549435e-38'), double('1.7976931348623157e308'), 0, 0.00, 0.000001, 0.0000000001, date'1969-12-31',
    timestamp'1969-12-31 23:59:59.999999', timestamp_ntz'1969-12-31 23:59:59.999999', 'same', x'01', array('x'),
    map('k', -1), map(date'2024-01-01', null), named_struct('host', '', 'port', -1, 'seen', named_struct('at', null, 'days', null)), null)"""
NULLS = "select id + 10 as id" + ", null" * 18 + " from range(2)"

WHERE = ["big > 0", "big < 0 or flag = false", "d38 > 0", "d9 = -1.28", ("day < '1970-01-01'", "day < date'1970-01-01'"),
         ("ts >= '1970-01-01T00:00:00Z'", "ts >= timestamp'1970-01-01 00:00:00'"),
         ("local < '1970-01-01T00:00:00'", "local < timestamp_ntz'1970-01-01 00:00:00'"), "name = 'same'", "name is null",
         "not (name = 'same')", ("client.port > 0", "client.port > 0"), "id in (1, 3, 11)", "not (flag = true)"]


@case("Spark writes every type it has", variants={
    f"version {version} {form}": (version, form) for version, form in
    [(1, "parquet"), (2, "parquet"), (3, "parquet"), (1, "avro"), (2, "avro"), (3, "avro")]})
def types(e, version, form):
    name = f"types_{form}_{version}"
    create(e, name, TYPES, version, **{"write.format.default": form})
    e.sql(f"insert into db.{name} values {ROWS}")
    e.sql(f"insert into db.{name} {NULLS}")
    # Spark counts no positions in Avro files: it gives all rows of one the same _row_id.
    check_firn_reads(e, name, WHERE, lineage=version == 3 and form == "parquet")


@case("Spark writes variants")
def variants(e):
    create(e, "variants", "id int, v variant", 3)
    e.sql("""insert into db.variants select id, parse_json(text) from values
        (1, '{"a": [1, 2.5, null, true], "b": {"c": "ü"}}'), (2, '12345678901'), (3, null), (4, '"text"'), (5, '[]'), (6, 'null'),
        (7, '{}'), (8, '1e100') as rows(id, text)""")
    check_firn_reads(e, "variants", ["id > 2", "v is null"])


CODECS = ["uncompressed", "snappy", "gzip", "zstd", "lz4"]


@case("Spark writes with every codec", variants={
    "Parquet": ("parquet", CODECS), "Avro": ("avro", ["uncompressed", "snappy", "gzip", "zstd"])})
def codecs(e, form, names):
    table = f"codecs_{form}"
    create(e, table, "id bigint, name string", **{"write.format.default": form})
    for number, codec in enumerate(names):
        e.sql(f"alter table db.{table} set tblproperties ('write.{form}.compression-codec'='{codec}')")
        e.sql(f"insert into db.{table} select id + {number * 100}, concat('name ', id) from range(20)")
    check_firn_reads(e, table, ["id >= 100 and id < 305"])


@case("Spark writes gzip metadata, truncated, counted and no metrics, bloom filters, small row groups and pages")
def properties(e):
    create(e, "properties", "id bigint, name string, other string, note string", **{
        "write.metadata.compression-codec": "gzip", "write.metadata.metrics.default": "truncate(4)",
        "write.metadata.metrics.column.other": "counts", "write.metadata.metrics.column.note": "none",
        "write.parquet.bloom-filter-enabled.column.name": "true", "write.parquet.page-row-limit": 10,
        "write.parquet.row-group-check-min-record-count": 10, "write.parquet.row-group-check-max-record-count": 20,
        "write.parquet.row-group-size-bytes": 1024})
    e.sql("insert into db.properties select id, concat('name ü ', id), concat('o', id), if(id % 7 = 0, null, 'n') from range(200)")
    e.sql("insert into db.properties select id, concat('name ü ', id), concat('o', id), null from range(200, 300)")
    check_firn_reads(e, "properties", ["name = 'name ü 77'", "other = 'o250'", "note is null and id < 50", "name like 'name ü 1%'",
                                       "id in (3, 199, 205)", "name >= 'name ü 98'"])


PARTITIONED = "id bigint, name string, day date, ts timestamp, local timestamp_ntz, price decimal(9,2), n int, blob binary"
PARTITIONED_ROWS = """select id, case id % 6 when 0 then null when 1 then '' when 2 then 'a/b=c d%#?' when 3 then 'ü😀ß' when 4 then 'same'
    else concat('name', id) end, date_add(date'1969-12-25', cast(id * 13 as int)), timestamp_micros(id * 7200000000 - 86400000001),
    cast(timestamp_micros(id * 86400000000 * 20 - 86400000001) as timestamp_ntz), cast((id - 10) * 1.28 as decimal(9,2)),
    if(id % 5 = 0, null, cast(id - 10 as int)), cast(concat('b', id % 4) as binary) from range({0}, {1})"""
PARTITION_WHERE = [
    "name = 'a/b=c d%#?'", "name is null", "name = ''", "not (name = 'same')", "name like 'name1%'", "n < -3", "n is null", "n in (1, 2)",
    "price <= -1.28", "price = 2.56", ("day < '1970-01-01'", "day < date'1970-01-01'"), ("day = '1969-12-25'", "day = date'1969-12-25'"),
    ("ts < '1970-01-01T00:00:00Z'", "ts < timestamp'1970-01-01 00:00:00'"),
    ("local >= '1970-02-01T00:00:00'", "local >= timestamp_ntz'1970-02-01 00:00:00'"), "id = 7", "id > 12 and n > 5"]
PARTITIONINGS = {
    "identity": ["name", "day", "price", "n", "blob", "local"],
    "bucket": ["bucket(4, id)", "bucket(3, name)", "bucket(5, day)", "bucket(2, ts)", "bucket(3, price)", "bucket(4, n)", "bucket(2, blob)"],
    "truncate": ["truncate(2, name)", "truncate(10, id)", "truncate(3, n)", "truncate(100, price)", "truncate(1, blob)"],
    "time": ["years(day)", "months(ts)", "days(local)"],
}
TIME_2 = ["months(day)", "hours(ts)", "years(local)"]


@case("Spark partitions by", variants={f"{kind} in version {version}": (version, kind) for version in (1, 2, 3) for kind in PARTITIONINGS})
def partitions(e, version, kind):
    name = f"part_{kind}_{version}"
    fields = TIME_2 if (kind, version) == ("time", 3) else PARTITIONINGS[kind]
    create(e, name, PARTITIONED, version, ", ".join(fields),
           **{"write.distribution-mode": "none", "write.spark.fanout.enabled": "true"})
    e.sql(f"insert into db.{name} {PARTITIONED_ROWS.format(0, 24)}")
    if version > 1:
        e.sql(f"delete from db.{name} where id % 4 = 1")
    check_firn_reads(e, name, PARTITION_WHERE)


DELETES = {f"{mode} in version {version}{note}": (version, mode, more) for version, mode, note, more in [
    (1, "copy-on-write", "", {}), (2, "copy-on-write", "", {}), (3, "copy-on-write", "", {}),
    (2, "merge-on-read", "", {}), (2, "merge-on-read", " by partition", {"write.delete.granularity": "partition"}),
    (3, "merge-on-read", "", {}), (2, "merge-on-read", " in Avro", {"write.format.default": "avro"})]}


@case("Spark deletes, updates and merges", variants=DELETES)
def deletes(e, version, mode, more):
    name = f"deletes_{version}_{mode[:1]}_{len(more)}_{'avro' if 'avro' in more.values() else ''}"
    create(e, name, "id bigint, part string, n int, tags array<string>", version, "part", **{
        "write.delete.mode": mode, "write.update.mode": mode, "write.merge.mode": mode, **more})
    rows = "select id, concat('p', id % 3), cast(id as int), array(concat('t', id), null) from range({0}, {1})"
    e.sql(f"insert into db.{name} {rows.format(0, 30)}")
    e.sql(f"insert into db.{name} {rows.format(30, 40)}")
    e.sql(f"delete from db.{name} where id % 10 = 3")
    e.sql(f"delete from db.{name} where id in (4, 5, 37)")
    e.sql(f"update db.{name} set n = n + 1000, part = 'p1' where id % 7 = 2")
    e.sql(f"""merge into db.{name} t using (select id * 5 as id, 'p2' as part from range(12)) s on t.id = s.id
        when matched and t.id % 2 = 0 then delete when matched then update set n = -1
        when not matched then insert (id, part, n, tags) values (s.id, s.part, null, null)""")
    e.sql(f"delete from db.{name} where part = 'p0'")
    check_firn_reads(e, name, ["n > 1000", "n = -1", "part = 'p1' and id < 20", "id = 37 or id = 36"], lineage=version == 3)


@case("Spark's schema changes", variants={f"version {version} {form}": (version, form) for version, form in
                                          [(1, "parquet"), (2, "parquet"), (3, "parquet"), (2, "avro")]})
def schema_changes(e, version, form):
    name = f"schema_{version}_{form}"
    create(e, name, """id int, f float, d decimal(5,2), gone string, value string,
        s struct<a:int,b:string,inner:struct<x:float>>, l array<struct<p:int,q:string>>, m map<string,struct<v:int,w:int>>""",
           version, **{"write.format.default": form})

    def insert(values):
        e.sql(f"insert into db.{name} {values}")

    def alter(*texts):
        for text in texts:
            e.sql(f"alter table db.{name} {text}")
    insert("""values (1, float('1.5'), 1.25, 'x', 'old', named_struct('a', 1, 'b', 'b', 'inner', named_struct('x', float('2.5'))),
        array(named_struct('p', 1, 'q', 'q'), null), map('k', named_struct('v', 1, 'w', 2), 'n', null)), (2, null, null, null, null, null, null, null)""")
    alter("alter column id type bigint", "alter column f type double", "alter column d type decimal(18,2)", "drop column gone",
          "alter column s.a type bigint", "alter column s.inner.x type double", "alter column l.element.p type bigint")
    insert("""values (3000000000, 1e300D, 123456.25, 'new', named_struct('a', 3000000000, 'b', 'b', 'inner', named_struct('x', 1e300D)),
        array(named_struct('p', 3000000000, 'q', 'q')), map('k', named_struct('v', 1, 'w', 2)))""")
    alter("drop column value", "add column value string", "add column first_one date first", "add column second timestamp after first_one",
          "add column s.c array<int>", "add column s.inner.y string first", "add column l.element.r boolean after p", "add column m.value.u int",
          "rename column s.b to bb", "rename column f to ratio", "drop column s.a", "drop column m.value.w", "alter column d first")
    insert("""values (9.50, date'2024-01-01', null, 4, 2.5D, named_struct('bb', 'b', 'inner', named_struct('y', 'y', 'x', 1D), 'c', array(1)),
        array(named_struct('p', 1, 'r', true, 'q', 'q')), map('k', named_struct('v', 1, 'u', 3)), 'again')""")
    alter("add column s.a string")
    check_firn_reads(e, name, ["id = 1", "id >= 3000000000", "ratio > 1.0", "value is null", "value = 'again'", "d = 1.25", "first_one is null"])


@case("Spark's partition changes", variants={f"version {version}": (version,) for version in (1, 2, 3)})
def partition_changes(e, version):
    name = f"partition_changes_{version}"
    create(e, name, PARTITIONED, version, "name")

    def insert(first, last):
        e.sql(f"insert into db.{name} {PARTITIONED_ROWS.format(first, last)}")
    insert(0, 12)
    e.sql(f"alter table db.{name} add partition field bucket(4, id) as shard")
    insert(12, 18)
    e.sql(f"alter table db.{name} drop partition field name")
    e.sql(f"alter table db.{name} write ordered by n desc nulls last, bucket(4, id)")
    insert(18, 24)
    e.sql(f"alter table db.{name} replace partition field shard with days(ts) as a_day")
    e.sql(f"alter table db.{name} rename column n to number")
    insert(24, 30)
    e.sql(f"alter table db.{name} drop partition field a_day")
    insert(30, 33)
    e.sql(f"delete from db.{name} where id in (2, 14, 20, 26, 31)")
    check_firn_reads(e, name, [where for where in PARTITION_WHERE if not str(where).startswith(("n ", "id > 12"))] + ["number < 3"])


@case("Spark's branches, tags, staged snapshots, rollback and cherry-pick")
def refs(e):
    create(e, "refs", "id bigint, name string", **{"write.wap.enabled": "true"})

    def snapshot(which="main"):
        return e.metadata("refs")["refs"][which]["snapshot-id"]
    e.sql("insert into db.refs select id, 'one' from range(5)")
    first = snapshot()
    e.sql("alter table db.refs create tag `first-ü` retain 100 days")
    e.sql("alter table db.refs create branch dev with snapshot retention 3 snapshots 10 days")
    e.sql("insert into db.refs.branch_dev select id, 'dev' from range(3)")
    e.sql("delete from db.refs.branch_dev where id = 1")
    e.sql("alter table db.refs add column more int")
    e.sql("insert into db.refs values (100, 'main', 1)")
    e.sql("insert into db.refs.branch_dev values (7, 'dev with more', 2)")
    e.session.conf.set("spark.wap.id", "audit")
    e.sql("insert into db.refs values (200, 'staged', 3)")
    e.session.conf.unset("spark.wap.id")
    e.sql("insert into db.refs values (300, 'after it was staged', 4)")
    expect("a staged snapshot is not current", e.firn_lines("refs", where="id = 200"), [])
    check_firn_reads(e, "refs")
    e.sql("call h.system.publish_changes('db.refs', 'audit')")
    check_firn_reads(e, "refs", ["id = 200"])
    e.sql(f"call h.system.rollback_to_snapshot('db.refs', {first})")
    check_firn_reads(e, "refs")
    e.sql("call h.system.fast_forward('db.refs', 'main', 'dev')")
    e.sql("alter table db.refs drop tag `first-ü`")
    e.sql("alter table db.refs create or replace tag last")
    check_firn_reads(e, "refs", ["name = 'dev'", "more = 2"])


@case("Spark's overwrites: by filter, dynamic, truncate, replace table")
def overwrites(e):
    create(e, "overwrites", "id bigint, part string", 2, "part")
    rows = "select id, concat('p', id % 3) from range({0}, {1})"
    e.sql(f"insert into db.overwrites {rows.format(0, 9)}")
    e.session.conf.set("spark.sql.sources.partitionOverwriteMode", "dynamic")
    e.sql("insert overwrite db.overwrites select id + 100, 'p1' from range(2)")
    e.session.conf.set("spark.sql.sources.partitionOverwriteMode", "static")
    e.sql("insert overwrite db.overwrites partition (part = 'p2') select id + 200 from range(2)")
    check_firn_reads(e, "overwrites", ["part = 'p1'", "part = 'p2'"])
    e.sql("truncate table db.overwrites")
    check_firn_reads(e, "overwrites")
    e.sql("replace table db.overwrites using iceberg partitioned by (n) as select id as n, 'text' as note from range(3)")
    # Spark cannot read the snapshots before: their partition column is not in the table's schema.
    check_firn_reads(e, "overwrites", ["n = 1"], history=False)


@case("Spark compacts, rewrites manifests and delete files, expires", variants={"version 2": (2,), "version 3": (3,)})
def maintenance(e, version):
    name = f"maintained_{version}"
    create(e, name, "id bigint, part string, note string", version, "part", **{
        "write.delete.mode": "merge-on-read", "write.update.mode": "merge-on-read", "write.merge.mode": "merge-on-read"})
    for number in range(4):
        e.sql(f"insert into db.{name} select id + {number * 10}, concat('p', id % 2), 'x' from range(10)")
    e.sql(f"delete from db.{name} where id % 5 = 1")
    e.sql(f"update db.{name} set note = 'y' where id % 5 = 2")
    e.sql(f"call h.system.rewrite_manifests('db.{name}')")
    e.sql(f"call h.system.rewrite_position_delete_files(table => 'db.{name}', options => map('rewrite-all', 'true'))")
    check_firn_reads(e, name, lineage=version == 3)
    e.sql(f"call h.system.rewrite_data_files(table => 'db.{name}', strategy => 'sort', sort_order => 'id desc', options => map('rewrite-all', 'true'))")
    e.sql(f"delete from db.{name} where id = 17")
    check_firn_reads(e, name, ["note = 'y'", "id > 30"], lineage=version == 3)
    e.sql(f"call h.system.expire_snapshots(table => 'db.{name}', older_than => timestamp'2100-01-01 00:00:00', retain_last => 1)")
    check_firn_reads(e, name, ["id = 17"], lineage=version == 3)


@case("Spark raises the version from 1 to 3 under deletes and data")
def versions(e):
    create(e, "versions", "id bigint, n int", 1)
    e.sql("insert into db.versions select id, id from range(10)")
    e.sql("alter table db.versions set tblproperties ('format-version'='2', 'write.delete.mode'='merge-on-read')")
    e.sql("delete from db.versions where id = 3")
    e.sql("insert into db.versions select id, id from range(10, 20)")
    e.sql("alter table db.versions set tblproperties ('format-version'='3')")
    check_firn_reads(e, "versions", lineage=True)
    e.sql("delete from db.versions where id in (4, 14)")
    e.sql("insert into db.versions select id, id from range(20, 25)")
    check_firn_reads(e, "versions", ["n < 6", "n > 12"], lineage=True)


@case("Spark adds files that have no field ids")
def added_files(e):
    folder = f"{e.warehouse}/plain"
    e.session.sql("select id, concat('n', id) as name, named_struct('a', cast(id as int), 'b', array(id)) as s from range(6)") \
        .write.mode("overwrite").parquet(folder)
    create(e, "added_files", "id bigint, name string, s struct<a:int,b:array<bigint>>")
    e.sql(f"call h.system.add_files(table => 'db.added_files', source_table => '`parquet`.`{folder}`')")
    e.sql("alter table db.added_files rename column name to title")
    e.sql("alter table db.added_files add column more int")
    e.sql("insert into db.added_files values (100, 'written', named_struct('a', 1, 'b', null), 5)")
    check_firn_reads(e, "added_files", ["title = 'n3'", "id > 4", "more is null"])


@case("Spark makes a table without rows, and one of an empty insert")
def empty(e):
    create(e, "empty", "id bigint, name string", 2, "name")
    check_firn_reads(e, "empty", ["id = 1"])
    e.sql("insert into db.empty select id, 'x' from range(3) where id > 5")
    check_firn_reads(e, "empty", ["id = 1"])
