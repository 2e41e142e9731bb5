"""Spark and firn write the same table in turns. After each turn every row is what the model says, read from both sides."""
from by_firn import create, write
from cases import case, expect
from encoding import lines_of
from engines import Failed

COLUMNS = {"id": "long", "part": "string", "n": "int"}


class Table:
    """The table, and what must be in it: rows by id."""

    def __init__(self, e, version):
        self.e, self.version = e, version
        self.name = f"turns_{version}"
        self.columns = dict(COLUMNS)
        self.rows = {}

    def row(self, number, n, **more):
        return {**dict.fromkeys(self.columns), "id": number, "part": f"p{number % 3}", "n": n, **more}

    def check(self, turn):
        schema = self.e.schema(self.name)
        expected = lines_of(self.rows.values(), schema)
        expect(f"turn {turn}: firn", self.e.firn_lines(self.name), expected)
        expect(f"turn {turn}: Spark", self.e.spark_lines(self.name), expected)
        expect(f"turn {turn}: PyIceberg", self.e.pyiceberg_lines(self.name), expected)
        if self.version == 3:
            lineage = self.e.firn_lines(self.name, lineage=True)
            expect(f"turn {turn}: Spark's lineage", self.e.spark_lines(self.name, lineage=True), lineage)

    # Each is one turn: what it does by either engine, and to the model.

    def spark_append(self, first, last, n=0):
        names = [name for name in self.columns if name not in COLUMNS]
        nulls = "".join(f", null as `{name}`" for name in names)
        self.e.sql(f"insert into db.{self.name} select id, concat('p', id % 3), cast({n} + id as int){nulls} from range({first}, {last})")
        self.rows.update({number: self.row(number, n + number) for number in range(first, last)})

    def firn_append(self, first, last, n=0, **more):
        rows = [self.row(number, n + number, **more) for number in range(first, last)]
        write(self.e, "append", self.name, rows, self.columns)
        self.rows.update({row["id"]: row for row in rows})

    def forget(self, gone):
        for number in [number for number, row in self.rows.items() if gone(row)]:
            del self.rows[number]

    def spark_delete(self, where, gone):
        self.e.sql(f"delete from db.{self.name} where {where}")
        self.forget(gone)

    def firn_delete(self, where, gone):
        self.e.firn("delete", self.e.path(self.name), "--where", where)
        self.forget(gone)

    def spark_merge(self, numbers, n):
        names = [name for name in self.columns if name not in COLUMNS]
        source = ", ".join(f"({number}L)" for number in numbers)
        nulls = "".join(f", `{name}`" for name in names), ", null" * len(names)
        self.e.sql(f"""merge into db.{self.name} t using (select * from values {source} as source(id)) s on t.id = s.id
            when matched then update set n = {n}
            when not matched then insert (id, part, n{nulls[0]}) values (s.id, concat('p', s.id % 3), {n}{nulls[1]})""")
        for number in numbers:
            self.rows[number] = {**self.rows.get(number, self.row(number, n)), "n": n}

    def firn_upsert(self, numbers, n):
        rows = [self.row(number, n) for number in numbers]
        write(self.e, "upsert", self.name, rows, self.columns, "--key", "id")
        self.rows.update({row["id"]: row for row in rows})

    def spark_sql(self, text):
        self.e.sql(text.format(f"db.{self.name}"))

    def firn_alter(self, *words):
        self.e.firn("alter", words[0], self.e.path(self.name), *words[1:])

    def add_column(self, name, kind):
        self.columns[name] = kind
        for row in self.rows.values():
            row[name] = None

    def rename(self, old, new):
        self.columns = {new if name == old else name: kind for name, kind in self.columns.items()}
        self.rows = {number: {new if name == old else name: value for name, value in row.items()} for number, row in self.rows.items()}


@case("Spark and firn take turns", variants={f"version {version}": (version,) for version in (2, 3)})
def turns(e, version):
    t = Table(e, version)
    create(e, t.name, COLUMNS, version, ["part"], **{f"write.{kind}.mode": "merge-on-read" for kind in ("delete", "update", "merge")})

    def spark_adds_a_column():
        t.spark_sql("alter table {} add column note string")
        t.add_column("note", "string")

    def firn_adds_a_column():
        t.firn_alter("add-column", "size", "int")
        t.add_column("size", "int")
        t.firn_append(80, 84, note="firn", size=7)

    def spark_promotes_and_renames():
        t.spark_sql("alter table {} alter column size type bigint")
        t.spark_sql("alter table {} rename column note to remark")
        t.columns["size"] = "long"
        t.rename("note", "remark")

    def firn_changes_partitions():
        t.firn_alter("add-partition", "bucket(2, id)")
        t.firn_append(90, 96, remark="by bucket", size=2**40)

    def spark_compacts():
        t.spark_sql(f"call h.system.rewrite_data_files(table => 'db.{t.name}', options => map('rewrite-all', 'true'))")

    def firn_compacts():
        e.firn("compact", e.path(t.name), "--all")

    def spark_maintains():
        t.spark_sql(f"call h.system.rewrite_manifests('db.{t.name}')")
        t.spark_sql(f"call h.system.expire_snapshots(table => 'db.{t.name}', older_than => timestamp'2100-01-01 00:00:00', retain_last => 2)")

    def firn_maintains():
        e.firn("rewrite-manifests", e.path(t.name), "--all")
        e.firn("expire", e.path(t.name), "--older-than", "0s", "--retain-last", 2)
    taken = [
        lambda: t.spark_append(0, 20), lambda: t.firn_append(20, 40),
        lambda: t.spark_delete("id in (3, 23)", lambda row: row["id"] in (3, 23)),
        lambda: t.firn_delete("id in (4, 24, 25)", lambda row: row["id"] in (4, 24, 25)),
        lambda: t.spark_merge([5, 26, 50], -1), lambda: t.firn_upsert([5, 6, 27, 51], -2),
        spark_adds_a_column, firn_adds_a_column, spark_promotes_and_renames, firn_changes_partitions,
        lambda: t.spark_append(100, 110, 1000), lambda: t.firn_delete("n > 1005 or part = 'p0'", lambda row: row["n"] > 1005 or row["part"] == "p0"),
        spark_compacts, lambda: t.firn_upsert([1, 82, 91, 120], -3),
        lambda: t.spark_delete("n < -1", lambda row: row["n"] < -1), firn_compacts,
        lambda: t.spark_merge([7, 92, 130], -4), firn_maintains, spark_maintains, lambda: t.firn_append(140, 150, remark="the end", size=1),
    ]
    for number, turn in enumerate(taken):
        try:
            turn()
        except Failed as error:
            raise Failed(f"turn {number + 1}: {error}") from None
        t.check(number + 1)
    e.firn("verify", e.path(t.name), "--data")
