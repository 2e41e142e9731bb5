"""firn, Spark, Java Iceberg's generic reader and PyIceberg over the tables of one folder, which is laid out as Iceberg's Hadoop
catalog: each engine's rows of a table as lines that compare."""
import datetime as dt
import decimal
import gzip
import json
import os
import subprocess
import sys
from pathlib import Path

from encoding import lines_of, lines_of_firn

LINEAGE = [{"id": 2147483540, "name": "_row_id", "type": "long", "required": False},
           {"id": 2147483539, "name": "_last_updated_sequence_number", "type": "long", "required": False}]


class Failed(Exception):
    """A case that did not come out; the message says how."""


class Skipped(Exception):
    """A case that an engine cannot do; the message says why."""


def needs_environment(what):
    sys.exit(f"tests/engines: {what}. scripts/conformance fetches what is missing; it needs Java 17 and the network once")


def start_spark(warehouse, engines):
    """One session on two cores. `engines` holds the pyspark package and the Iceberg runtime."""
    jar = Path(engines) / "iceberg-spark-runtime.jar"
    if not jar.exists():
        needs_environment(f"{jar} is not there")
    sys.path.insert(0, str(Path(engines) / "python"))
    try:
        from pyspark.sql import SparkSession
    except ImportError as error:
        needs_environment(f"pyspark is not in {engines}/python: {error}")
    os.environ["TZ"] = "UTC"
    settings = {
        "spark.jars": jar,
        "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
        "spark.sql.catalog.h": "org.apache.iceberg.spark.SparkCatalog",
        "spark.sql.catalog.h.type": "hadoop",
        "spark.sql.catalog.h.warehouse": warehouse,
        "spark.sql.catalog.h.cache-enabled": "false",  # firn changes tables under Spark
        "spark.sql.defaultCatalog": "h",
        # With it a query after a delete misses equality deletes (seen: 26 rows, and 22 when asked again).
        "spark.sql.iceberg.executor-cache.enabled": "false",
        "spark.driver.memory": "2g",
        "spark.sql.shuffle.partitions": "1",
        "spark.default.parallelism": "1",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.codegen.wholeStage": "false",  # compiling costs more than these tables' rows
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.local.dir": f"{warehouse}/.spark",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.extraJavaOptions": "-Duser.timezone=UTC -XX:TieredStopAtLevel=1 -XX:+UseSerialGC",  # a third less CPU for queries this small
    }
    builder = SparkSession.builder.master("local[2]").appName("firn")
    for key, value in settings.items():
        builder = builder.config(key, str(value))
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    return session


class Engines:
    def __init__(self, warehouse, session):
        self.warehouse = Path(warehouse)
        self.session = session
        self.jvm = session._jvm

    # --- where things are

    def path(self, table):
        """`table` is a name; all lie in the namespace db."""
        return str(self.warehouse / "db" / table)

    def metadata_path(self, table):
        """The highest version, however it is spelled."""
        found = {}
        for path in Path(self.path(table), "metadata").glob("*.metadata.json"):
            version = path.name.split(".")[0].split("-")[0].removeprefix("v")
            found[int(version)] = path
        if not found:
            raise Failed(f"{table} has no metadata files")
        return found[max(found)]

    def metadata(self, table):
        path = self.metadata_path(table)
        data = path.read_bytes()
        return json.loads(gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data)

    def schema(self, table, at=None, lineage=False):
        """The schema that rows of `at` have: a branch's is the table's, a tag's and a snapshot's their own."""
        metadata = self.metadata(table)
        schema_id = metadata.get("current-schema-id", 0)
        snapshot_id = at
        if isinstance(at, str):
            ref = metadata["refs"][at]
            snapshot_id = ref["snapshot-id"] if ref["type"] == "tag" else None
        if snapshot_id is not None:
            snapshot = next(one for one in metadata["snapshots"] if one["snapshot-id"] == snapshot_id)
            schema_id = snapshot.get("schema-id", schema_id)
        schemas = metadata.get("schemas") or [metadata["schema"]]
        schema = next(one for one in schemas if one.get("schema-id", 0) == schema_id)
        return {**schema, "fields": schema["fields"] + LINEAGE} if lineage else schema

    def moments(self, table):
        """Every snapshot in the current one's history and every ref; None is the current state."""
        metadata = self.metadata(table)
        by_id = {one["snapshot-id"]: one for one in metadata.get("snapshots", [])}
        refs = [name for name in metadata.get("refs", {}) if name != "main"]
        return [None, *by_id, *refs]

    # --- firn

    def firn(self, *words, ok=True):
        """Standard output; with ok=False what firn says on standard error when it refuses."""
        done = subprocess.run([os.environ["FIRN_PROGRAM"], *map(str, words)], capture_output=True, timeout=120)
        if (done.returncode == 0) != ok:
            said = (done.stderr or done.stdout).decode(errors="replace").strip()
            raise Failed(f"firn {' '.join(map(str, words))}\n  ended with {done.returncode}: {said}")
        return (done.stdout if ok else done.stderr).decode()

    def firn_lines(self, table, at=None, where=None, lineage=False):
        words = ["scan", self.path(table), "--json"]
        if at is not None:
            words += ["--at", at]
        words += ["--where", where] if where else []
        words += ["--row-lineage"] if lineage else []
        return lines_of_firn(self.firn(*words), self.schema(table, at, lineage))

    # --- Spark

    def sql(self, text):
        """Rows as dictionaries."""
        return self.sql_table(text).to_pylist()

    def sql_table(self, text):
        """An Arrow table. Not by toArrow(), which refuses a required field of a null struct."""
        import pyarrow as pa
        return pa.Table.from_batches(self.session.sql(text)._collect_as_arrow(empty_list_if_zero_records=False))

    def spark_lines(self, table, at=None, where=None, lineage=False):
        schema = self.schema(table, at, lineage)
        return lines_of(self._spark_rows(table, schema, at, where=where), schema)

    def spark_lines_where(self, table, filters):
        """The lines of each filter, from one query that prunes nothing."""
        schema = self.schema(table)
        rows = self._spark_rows(table, schema, more=[f"({text}) as `where {index}`" for index, text in enumerate(filters)])
        return [lines_of([row for row in rows if row[f"where {index}"]], schema) for index in range(len(filters))]

    def _spark_rows(self, table, schema, at=None, where=None, more=()):
        variants = [one["name"] for one in schema["fields"] if one["type"] == "variant"]
        columns = [f"to_json(`{one['name']}`) as `{one['name']}`" if one["name"] in variants else f"`{one['name']}`"
                   for one in schema["fields"]]
        text = f"select {', '.join([*columns, *more])} from db.{table}"
        if at is not None:
            text += f" version as of '{at}'" if isinstance(at, str) else f" version as of {at}"
        rows = self.sql(text + (f" where {where}" if where else ""))
        for name in variants:
            for row in rows:
                row[name] = json.loads(row[name]) if row[name] is not None else None
        return rows

    # --- Java

    def java_table(self, table):
        configuration = self.session.sparkContext._jsc.hadoopConfiguration()
        return self.jvm.org.apache.iceberg.hadoop.HadoopTables(configuration).load(self.path(table))

    def java_array(self, kind, values):
        array = self.session.sparkContext._gateway.new_array(kind, len(values))
        for index, value in enumerate(values):
            array[index] = value
        return array

    def java_lines(self, table, at=None):
        """By the generic reader, which knows types that Spark does not."""
        schema = self.schema(table, at)
        reader = self.jvm.org.apache.iceberg.data.IcebergGenerics.read(self.java_table(table))
        if at is not None:
            reader = reader.useSnapshot(at)
        records = reader.build()
        rows, iterator = [], records.iterator()
        while iterator.hasNext():
            rows.append(self._from_java(iterator.next(), schema))
        records.close()
        return lines_of(rows, schema)

    def _from_java(self, value, kind):
        if value is None:
            return None
        if isinstance(kind, dict):
            if kind["type"] == "struct":
                return {field["name"]: self._from_java(value.get(index), field["type"])
                        for index, field in enumerate(kind["fields"])}
            if kind["type"] == "list":
                return [self._from_java(element, kind["element"]) for element in value]
            return [(self._from_java(entry.getKey(), kind["key"]), self._from_java(entry.getValue(), kind["value"]))
                    for entry in value.entrySet()]
        if kind == "date":
            return dt.date.fromisoformat(value.toString())
        if kind == "time":
            return dt.time.fromisoformat(value.toString())
        if kind in ("timestamp", "timestamptz"):
            return dt.datetime.fromisoformat(value.toString())
        if kind == "timestamp_ns":
            return self.jvm.org.apache.iceberg.util.DateTimeUtil.nanosFromTimestamp(value)
        if kind == "timestamptz_ns":
            return self.jvm.org.apache.iceberg.util.DateTimeUtil.nanosFromTimestamptz(value)
        if kind == "uuid":
            return value.toString()
        if kind.startswith("decimal"):
            return decimal.Decimal(str(value))
        if (kind == "binary" or kind.startswith("fixed")) and not isinstance(value, (bytes, bytearray)):
            return self.jvm.org.apache.iceberg.util.ByteBuffers.toByteArray(value)
        return value

    # --- PyIceberg

    def pyiceberg_table(self, table):
        from pyiceberg.table import StaticTable
        return StaticTable.from_metadata(str(self.metadata_path(table)))

    def pyiceberg_lines(self, table, at=None, where=None):
        import pyarrow as pa
        scan = {"row_filter": where} if where else {}
        opened = self.pyiceberg_table(table)
        if isinstance(at, str):
            at = opened.metadata.refs[at].snapshot_id
        rows = opened.scan(snapshot_id=at, **scan).to_arrow()
        for index, field in enumerate(rows.schema):
            if pa.types.is_timestamp(field.type) and field.type.unit == "ns":
                rows = rows.set_column(index, field.name, rows.column(index).cast(pa.int64()))
        return lines_of(rows.to_pylist(), self.schema(table, at))
