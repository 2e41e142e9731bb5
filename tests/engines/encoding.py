"""Rows as text, spelled as `firn scan --json` and the conformance tables spell them, whichever engine they come from. Types are
those of Iceberg's schema JSON. Only floats and the order of a map's pairs are brought to one form in firn's own output: all
else must be spelled exactly so."""
import datetime as dt
import decimal
import json
import math
import struct
import uuid
from collections import Counter

EPOCH = dt.datetime(1970, 1, 1)
DECIMALS = decimal.Context(prec=60)


def _text(value):
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _float(value, kind):
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    return repr(struct.unpack("f", struct.pack("f", value))[0] if kind == "float" else float(value))


def _nanoseconds(value, zone):
    """From a count since 1970."""
    at = EPOCH + dt.timedelta(microseconds=value // 1000)
    return f"{at.isoformat(timespec='microseconds')}{value % 1000:03d}{zone}"


def _primitive(value, kind):
    if kind in ("boolean", "int", "long"):
        assert isinstance(value, bool) == (kind == "boolean"), (value, kind)
        return value
    if kind in ("float", "double"):
        return _float(float(value), kind)
    if kind.startswith("decimal"):
        scale = int(kind[:-1].split(",")[1])
        return format(decimal.Decimal(value).quantize(decimal.Decimal(1).scaleb(-scale), context=DECIMALS), "f")
    if kind == "date":
        return value.isoformat()
    if kind == "time":
        return value.isoformat(timespec="microseconds")
    if kind == "timestamp":
        return value.isoformat(timespec="microseconds")
    if kind == "timestamptz":
        return value.astimezone(dt.timezone.utc).isoformat(timespec="microseconds")
    if kind == "timestamp_ns":
        return _nanoseconds(value, "")
    if kind == "timestamptz_ns":
        return _nanoseconds(value, "+00:00")
    if kind == "string":
        return value
    if kind == "uuid":
        return str(uuid.UUID(bytes=value) if isinstance(value, bytes) else uuid.UUID(str(value)))
    if kind == "binary" or kind.startswith(("fixed", "geometry", "geography")):
        return bytes(value).hex()
    if kind == "variant":
        return value  # JSON without the physical types: see `plain_variant`
    raise AssertionError(f"no spelling for a {kind}")


def spell(value, kind):
    """A Python value as the JSON value that firn prints."""
    if value is None:
        return None
    if isinstance(kind, str):
        return _primitive(value, kind)
    if kind["type"] == "struct":
        return {field["name"]: spell(value[field["name"]], field["type"]) for field in kind["fields"]}
    if kind["type"] == "list":
        return [spell(element, kind["element"]) for element in value]
    pairs = value.items() if isinstance(value, dict) else value
    return sorted(([spell(key, kind["key"]), spell(item, kind["value"])] for key, item in pairs),
                  key=lambda pair: _text(pair).encode())


def plain_variant(value):
    """{"t":…,"v":…} as the JSON that Spark's to_json gives."""
    kind, inner = value["t"], value.get("v")
    if kind == "object":
        return {key: plain_variant(item) for key, item in inner.items()}
    if kind == "array":
        return [plain_variant(item) for item in inner]
    if kind in ("float", "double"):
        return float(inner)
    return float(inner) if kind.startswith("decimal") else inner


def respell(value, kind):
    """firn's JSON value with its floats and maps in the form that `spell` gives them."""
    if value is None:
        return None
    if isinstance(kind, str):
        if kind in ("float", "double"):
            return _float(float(value), kind)
        return plain_variant(value["variant"]) if kind == "variant" else value
    if kind["type"] == "struct":
        assert list(value) == [field["name"] for field in kind["fields"]], list(value)
        return {field["name"]: respell(value[field["name"]], field["type"]) for field in kind["fields"]}
    if kind["type"] == "list":
        return [respell(element, kind["element"]) for element in value]
    return sorted(([respell(key, kind["key"]), respell(item, kind["value"])] for key, item in value),
                  key=lambda pair: _text(pair).encode())


def lines_of(rows, schema):
    """Python rows as sorted lines."""
    return sorted(_text(spell(row, schema)) for row in rows)


def lines_of_firn(text, schema):
    """`firn scan --json` as sorted lines. Its columns must be the schema's, in order."""
    return sorted(_text(respell(json.loads(line), schema)) for line in text.splitlines())


def difference(found, expected):
    """What is wrong with the lines `found`; empty if they are `expected` as a multiset."""
    if found == expected:
        return ""
    missing, more = Counter(expected) - Counter(found), Counter(found) - Counter(expected)
    lines = [f"{len(found)} rows instead of {len(expected)}"]
    lines += [f"  missing:      {line}" for line in list(missing)[:3]]
    lines += [f"  not expected: {line}" for line in list(more)[:3]]
    return "\n".join(lines)
