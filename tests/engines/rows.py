"""Rows of every type as Python values, and how the engines spell them. What engines give back is brought to one form
(`canonical`), so that rows of any two of them compare as multisets."""
import base64
import datetime as dt
import json
import math
import random
import struct
import uuid
from collections import Counter
from decimal import Decimal

UTC = dt.timezone.utc

# A type is an Iceberg primitive's name, ("list", element), ("map", value) with string keys, or ("struct", {name: type}).
COLUMNS = {
    "ts": "timestamptz",
    "flag": "boolean",
    "small": "int",
    "big": "long",
    "ratio": "float",
    "amount": "double",
    "price": "decimal(9,2)",
    "huge": "decimal(38,10)",
    "day": "date",
    "clock": "time",
    "local": "timestamp",
    "name": "string",
    "key": "uuid",
    "blob": "binary",
    "code": "fixed[4]",
    "tags": ("list", "string"),
    "labels": ("map", "long"),
    "client": ("struct", {"host": "string", "port": "int", "seen": "timestamptz"}),
    "history": ("list", ("struct", {"at": "date", "prices": ("list", "decimal(9,2)")})),
}

VALUES = {
    "boolean": [True, False],
    "int": [0, -1, 2**31 - 1, -(2**31)],
    "long": [0, 7, 2**63 - 1, -(2**63)],
    "float": [0.0, -0.0, 1.5, -3.25, 2.0**120],
    "double": [0.0, -0.0, 0.1, -1e300, 5e-324],
    "decimal(9,2)": [Decimal("0.00"), Decimal("-1.28"), Decimal("9999999.99"), Decimal("-9999999.99")],
    "decimal(38,10)": [Decimal("0.0000000001"), Decimal("-1234567890123456789012345678.0123456789"), Decimal("5.0000000000")],
    "date": [dt.date(1970, 1, 1), dt.date(1969, 12, 31), dt.date(2024, 2, 29), dt.date(1, 1, 1), dt.date(9999, 12, 31)],
    "time": [dt.time(0, 0), dt.time(23, 59, 59, 999999), dt.time(12, 30, 0, 1)],
    "timestamp": [dt.datetime(1969, 12, 31, 23, 59, 59, 999999), dt.datetime(2024, 2, 29, 1, 2, 3, 4), dt.datetime(1, 1, 1)],
    "timestamptz": [dt.datetime(1969, 12, 31, 23, 59, 59, 999999, UTC), dt.datetime(2024, 2, 29, 23, 59, 59, 999999, UTC),
                    dt.datetime(2024, 3, 1, 0, 0, 0, 0, UTC), dt.datetime(2024, 3, 1, 11, 12, 13, 140000, UTC)],
    "string": ["", "a", "same", "John O’Brien and a name above sixteen", "line\nfeed \"quoted\" \\ \u0001", "😀😀😀😀😀😀😀😀😀😀😀😀😀😀😀😀😀"],
    "uuid": [uuid.UUID("00000000-0000-0000-0000-000000000000"), uuid.UUID("f79c3e09-677c-4bbd-a479-3f349cb785e7")],
    "binary": [b"", b"\x00\xff", bytes(range(40))],
    "fixed[4]": [b"\x00\x00\x00\x00", b"\xff\x00\x80\x7f"],
}


def random_value(kind, random_source, null_share=0.2):
    if random_source.random() < null_share:
        return None
    if isinstance(kind, str):
        return random_source.choice(VALUES[kind])
    if kind[0] == "list":
        return [random_value(kind[1], random_source) for _ in range(random_source.randrange(4))]
    if kind[0] == "map":
        keys = random_source.sample(["", "a", "b", "ü"], random_source.randrange(4))
        return {key: random_value(kind[1], random_source) for key in keys}
    return {name: random_value(member, random_source) for name, member in kind[1].items()}


def random_rows(count, seed, columns=None):
    """Rows with nulls at every depth; the last tenth repeats earlier ones."""
    source = random.Random(seed)
    rows = [{name: random_value(kind, source) for name, kind in (columns or COLUMNS).items()}
            for _ in range(count - count // 10)]
    return rows + rows[: count // 10]


def type_text(kind):
    """As hyp's configuration spells it."""
    if isinstance(kind, str):
        return kind
    if kind[0] == "list":
        return f"list<{type_text(kind[1])}>"
    if kind[0] == "map":
        return f"map<string, {type_text(kind[1])}>"
    return "struct<" + ", ".join(f"{name}: {type_text(member)}" for name, member in kind[1].items()) + ">"


def to_ndjson(value, kind):
    """As a row of hyp's input spells it."""
    if value is None:
        return None
    if isinstance(kind, str):
        if kind.startswith("decimal") or kind == "uuid":
            return str(value)
        if kind.startswith("fixed") or kind == "binary":
            return base64.b64encode(value).decode()
        if kind == "timestamptz":
            return value.isoformat().replace("+00:00", "Z")
        if kind in ("date", "time", "timestamp"):
            return value.isoformat()
        return value
    if kind[0] == "list":
        return [to_ndjson(element, kind[1]) for element in value]
    if kind[0] == "map":
        return {key: to_ndjson(element, kind[1]) for key, element in value.items()}
    return {name: to_ndjson(value[name], member) for name, member in kind[1].items()}


def from_firn(value, kind):
    """From `firn scan --json`: the spelling of the conformance tables."""
    if value is None:
        return None
    if isinstance(kind, str):
        if kind in ("float", "double"):
            return float(value)
        if kind.startswith("decimal"):
            return Decimal(value)
        if kind.startswith("fixed") or kind == "binary":
            return bytes.fromhex(value)
        if kind == "uuid":
            return uuid.UUID(value)
        if kind == "date":
            return dt.date.fromisoformat(value)
        if kind == "time":
            return dt.time.fromisoformat(value)
        if kind in ("timestamp", "timestamptz"):
            return dt.datetime.fromisoformat(value)
        return value
    if kind[0] == "list":
        return [from_firn(element, kind[1]) for element in value]
    if kind[0] == "map":
        return {key: from_firn(element, kind[1]) for key, element in value}
    return {name: from_firn(value[name], member) for name, member in kind[1].items()}


def canonical(value, kind):
    """One text a value, whichever engine's Python value it is."""
    if value is None:
        return "null"
    if isinstance(kind, str):
        if kind == "float":
            return "nan" if math.isnan(value) else repr(struct.unpack("f", struct.pack("f", value))[0])
        if kind == "double":
            return "nan" if math.isnan(value) else repr(value)
        if kind == "uuid":
            return str(uuid.UUID(bytes=value) if isinstance(value, bytes) else uuid.UUID(str(value)))
        if kind == "timestamptz":
            return value.astimezone(UTC).isoformat()
        if kind in ("date", "time", "timestamp"):
            return value.isoformat()
        if kind.startswith("decimal"):
            return f"{value:f}"
        if kind == "boolean":
            assert isinstance(value, bool), value
        if kind.startswith("fixed") or kind == "binary":
            value = bytes(value)
        return repr(value)
    if kind[0] == "list":
        return "[" + ", ".join(canonical(element, kind[1]) for element in value) + "]"
    if kind[0] == "map":
        pairs = value.items() if isinstance(value, dict) else value
        return "{" + ", ".join(sorted(f"{key!r}: {canonical(element, kind[1])}" for key, element in pairs)) + "}"
    return "(" + ", ".join(f"{name}={canonical(value[name], member)}" for name, member in kind[1].items()) + ")"


def as_pyiceberg_has(value, kind):
    """PyIceberg 0.11 reads and writes a null list of structs as an empty one (apache/iceberg-python#3833)."""
    if isinstance(kind, str):
        return value
    if kind[0] == "list":
        if value is None:
            return [] if kind[1][0] == "struct" else None
        return [as_pyiceberg_has(element, kind[1]) for element in value]
    if value is None:
        return None
    if kind[0] == "map":
        return {key: as_pyiceberg_has(element, kind[1]) for key, element in value.items()}
    return {name: as_pyiceberg_has(value[name], member) for name, member in kind[1].items()}


def canonical_rows(rows, columns):
    return sorted(canonical(row, ("struct", columns)) for row in rows)


def expect_equal_by_pyiceberg(what, found, expected, columns):
    expect_equal(f"{what} by PyIceberg", found, [as_pyiceberg_has(row, ("struct", columns)) for row in expected], columns)


def expect_equal(what, found, expected, columns):
    """Compares two lists of rows as multisets, and says what differs."""
    found, expected = canonical_rows(found, columns), canonical_rows(expected, columns)
    if found == expected:
        print(f"ok: {what}: {len(found)} rows")
        return
    missing, more = Counter(expected) - Counter(found), Counter(found) - Counter(expected)
    lines = [f"{what}: {len(found)} rows instead of {len(expected)}"]
    lines += [f"  missing: {row}" for row in list(missing)[:3]] + [f"  not expected: {row}" for row in list(more)[:3]]
    raise AssertionError("\n".join(lines))


def firn_rows(text, columns):
    """Rows of `firn scan --json`, which must have exactly these columns in this order."""
    rows = [json.loads(line) for line in text.splitlines()]
    for row in rows:
        assert list(row) == list(columns), list(row)
    return [from_firn(row, ("struct", columns)) for row in rows]
