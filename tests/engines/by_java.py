"""What Java's library writes and Spark's SQL cannot: equality deletes and default values."""
import json
import uuid

from by_spark import create
from cases import case, check_firn_reads, expect
from encoding import lines_of


def delete_equal(e, table, columns, rows):
    """Commits an equality delete file of `rows` (tuples of ints, strings and nulls) over `columns`."""
    iceberg = e.jvm.org.apache.iceberg
    opened = e.java_table(table)
    key = opened.schema().select(e.java_array(e.jvm.java.lang.String, columns))
    ids = e.java_array(e.jvm.int, [opened.schema().findField(name).fieldId() for name in columns])
    factory = iceberg.data.GenericAppenderFactory(opened.schema(), opened.spec(), ids, key, None)
    path = opened.locationProvider().newDataLocation(f"{uuid.uuid4()}.parquet")
    output = iceberg.encryption.EncryptedFiles.plainAsEncryptedOutput(opened.io().newOutputFile(path))
    writer = factory.newEqDeleteWriter(output, iceberg.FileFormat.PARQUET, None)
    for row in rows:
        record = iceberg.data.GenericRecord.create(key)
        for name, value in zip(columns, row):
            record.setField(name, value)
        writer.write(record)
    writer.close()
    opened.newRowDelta().addDeletes(writer.toDeleteFile()).commit()


@case("Java's equality deletes, over one and several columns, with nulls, position deletes and a dropped column",
      variants={"version 2": (2,), "version 3": (3,)})
def equality_deletes(e, version):
    name = f"equality_{version}"
    create(e, name, "id int, name string, n int", version, **{"write.delete.mode": "merge-on-read"})
    values = "select cast(id as int), if(id % 4 = 0, null, concat('name ', id % 4)), if(id % 3 = 0, null, cast(id % 3 as int)) from range({0}, {1})"
    e.sql(f"insert into db.{name} {values.format(0, 24)}")
    delete_equal(e, name, ["id"], [(3,), (5,), (30,)])
    e.sql(f"insert into db.{name} {values.format(24, 36)}")  # 30 is newer than its delete
    delete_equal(e, name, ["name", "n"], [(None, None), ("name 1", 2), (None, 1)])
    e.sql(f"insert into db.{name} values (3, null, null)")
    e.sql(f"delete from db.{name} where id in (6, 26)")
    delete_equal(e, name, ["n"], [(2,)])
    check_firn_reads(e, name, ["id < 7", "name is null", "n = 1", "id = 3"], lineage=version == 3)
    before = e.spark_lines(name)
    e.sql(f"alter table db.{name} drop column n")
    e.sql(f"alter table db.{name} add column n int")
    e.sql(f"insert into db.{name} values (100, 'late', 2)")
    # Spark cannot plan this any more: a delete file's column is not in its schema. The deletes apply nevertheless.
    rows = [{**json.loads(line), "n": None} for line in before] + [{"id": 100, "name": "late", "n": 2}]
    expect(f"firn reads {name} once an equality column was dropped", e.firn_lines(name), lines_of(rows, e.schema(name)))


@case("Java's default values", variants={"Parquet": ("parquet",), "Avro": ("avro",)})
def defaults(e, form):
    name = f"defaults_{form}"
    types = e.jvm.org.apache.iceberg.types.Types
    lit = e.jvm.org.apache.iceberg.expressions.Expressions.lit
    create(e, name, "id int, s struct<a:int>", 3, **{"write.format.default": form})
    e.sql(f"insert into db.{name} values (1, named_struct('a', 1)), (2, null)")
    update = e.java_table(name).updateSchema()
    for column, kind, text in (("i", types.IntegerType.get(), 34), ("name", types.StringType.get(), "ü"), ("f", types.DoubleType.get(), 1.5),
                               ("flag", types.BooleanType.get(), True)):
        update = update.addColumn(column, kind, None, lit(text))
    for column, kind, text in (("l", types.LongType.get(), "3000000000"), ("day", types.DateType.get(), "1969-12-31"),
                               ("ts", types.TimestampType.withZone(), "1969-12-31T23:59:59.999999+00:00"),
                               ("local", types.TimestampType.withoutZone(), "2024-02-29T00:00:00"),
                               ("price", types.DecimalType.of(9, 2), "-1.28")):
        update = update.addColumn(column, kind, None, lit(text).to(kind))
    update.addRequiredColumn("required", types.IntegerType.get(), None, lit(-7)).commit()
    e.java_table(name).updateSchema().addColumn("s", "b", types.StringType.get(), None, lit("nested")).commit()
    nulls = ", ".join(["null"] * 9)
    e.sql(f"insert into db.{name} values (3, named_struct('a', 3, 'b', 'own'), {nulls}, 5)")
    e.java_table(name).updateSchema().updateColumnDefault("i", lit(35)).commit()
    e.sql(f"insert into db.{name} values (4, null, {nulls}, 6)")
    check_firn_reads(e, name, ["i = 34", "required = -7", "i = 35", "name = 'ü'", ("day < '1970-01-01'", "day < date'1970-01-01'"),
                               "price = -1.28", "flag = true", "l = 3000000000"])
