"""Rows as an Arrow table."""
import pyarrow as pa

ARROW_TYPES = {
    "boolean": pa.bool_(), "int": pa.int32(), "long": pa.int64(), "float": pa.float32(), "double": pa.float64(),
    "decimal(9,2)": pa.decimal128(9, 2), "decimal(38,10)": pa.decimal128(38, 10), "date": pa.date32(), "time": pa.time64("us"),
    "timestamp": pa.timestamp("us"), "timestamptz": pa.timestamp("us", "UTC"), "string": pa.string(), "uuid": pa.uuid(),
    "binary": pa.binary(), "fixed[4]": pa.binary(4),
}


def arrow_type(kind):
    if isinstance(kind, str):
        return ARROW_TYPES[kind]
    if kind[0] == "list":
        return pa.list_(arrow_type(kind[1]))
    if kind[0] == "map":
        return pa.map_(pa.string(), arrow_type(kind[1]))
    return pa.struct([(name, arrow_type(member)) for name, member in kind[1].items()])


def arrow_rows(rows, columns):
    return pa.Table.from_pylist(rows, pa.schema([(name, arrow_type(kind)) for name, kind in columns.items()]))
