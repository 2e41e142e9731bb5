"""The list of cases, and the comparisons that they make."""
import json
from dataclasses import dataclass
from typing import Callable

from encoding import difference
from engines import Failed


@dataclass
class Case:
    name: str
    run: Callable  # of an Engines


CASES = []


def case(name, **variants):
    """Registers a function of (engines); with variants={text: words} one of (engines, *words) for each."""
    def register(function):
        for text, words in (variants.get("variants") or {"": ()}).items():
            CASES.append(Case(f"{name}{', ' + text if text else ''}", lambda e, words=words: function(e, *words)))
        return function
    return register


def expect(what, found, expected):
    text = difference(found, expected)
    if text:
        raise Failed(f"{what}: {text}")


def null_collections_as_empty(lines, schema):
    """PyIceberg 0.11 reads a null list or map as an empty one (apache/iceberg-python#3833)."""
    def changed(value, kind):
        if isinstance(kind, str):
            return value
        if kind["type"] != "struct" and value is None:
            return []
        if value is None:
            return None
        if kind["type"] == "struct":
            return {field["name"]: changed(value[field["name"]], field["type"]) for field in kind["fields"]}
        if kind["type"] == "list":
            return [changed(element, kind["element"]) for element in value]
        return [[changed(key, kind["key"]), changed(item, kind["value"])] for key, item in value]
    return sorted(json.dumps(changed(json.loads(line), schema), ensure_ascii=False, separators=(",", ":")) for line in lines)


def describe(at):
    return "now" if at is None else f"at {at}"


def check_firn_reads(e, table, where=(), lineage=False, by_java=False, history=True):
    """firn against Spark (or, where that lacks a type, Java's generic reader): now, at each snapshot and ref, and by filter,
    which both engines spell alike unless a pair says otherwise."""
    theirs = e.java_lines if by_java else e.spark_lines
    for at in e.moments(table) if history else [None]:
        if by_java and isinstance(at, str):
            continue
        expect(f"firn reads {table} {describe(at)}", e.firn_lines(table, at), theirs(table, at))
    filters = [text if isinstance(text, tuple) else (text, text) for text in where]
    if filters:
        expected = e.spark_lines_where(table, [spark for _, spark in filters])
        for (ours, _), lines in zip(filters, expected):
            expect(f"firn reads {table} where {ours}", e.firn_lines(table, where=ours), lines)
    if lineage:
        expect(f"firn reads {table} with lineage", e.firn_lines(table, lineage=True), e.spark_lines(table, lineage=True))


def check_pyiceberg_reads(e, table, at, ours):
    schema = e.schema(table, at)
    expect(f"PyIceberg reads {table} {describe(at)}", null_collections_as_empty(e.pyiceberg_lines(table, at), schema),
           null_collections_as_empty(ours, schema))


def check_others_read(e, table, expected=None, where=(), lineage=False, by_java=False, pyiceberg=True):
    """Spark (or Java's generic reader) and PyIceberg against firn on a table of firn's, at each snapshot and ref. `expected`
    are the lines that went in. With pyiceberg="reason" PyIceberg may fail, and the reason is printed if it does."""
    theirs = e.java_lines if by_java else e.spark_lines
    who = "Java" if by_java else "Spark"
    if expected is not None:
        expect(f"firn reads its own {table}", e.firn_lines(table), expected)
    for at in e.moments(table):
        ours = e.firn_lines(table, at)
        if not (by_java and isinstance(at, str)):
            expect(f"{who} reads {table} {describe(at)}", theirs(table, at), ours)
        if pyiceberg is True:
            check_pyiceberg_reads(e, table, at, ours)
    if pyiceberg is not True:
        try:
            check_pyiceberg_reads(e, table, None, e.firn_lines(table))
        except Exception as error:  # as announced, whatever it is
            print(f"      {table} not by PyIceberg: {pyiceberg} ({type(error).__name__}: {str(error).splitlines()[0][:100]})")
    for filter_text in where:
        ours, spark = filter_text if isinstance(filter_text, tuple) else (filter_text, filter_text)
        expect(f"Spark reads {table} where {spark}", e.spark_lines(table, where=spark), e.firn_lines(table, where=ours))
    if lineage:
        expect(f"{who} reads {table} with lineage", e.spark_lines(table, lineage=True), e.firn_lines(table, lineage=True))
