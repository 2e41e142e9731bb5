#!/usr/bin/env python3
"""plan: metadata.json to all scan tasks of tables of 10,000 and 100,000 files, against Java Iceberg.

The bar is 1.5 at 100,000 files, for each of the three predicates.
"""
import _peers

_peers.prepare("python", "jar", "plan")
lines = _peers.java("plan", 10_000, _peers.REPS) + _peers.java("plan", 100_000, _peers.REPS) + _peers.firn("plan")
_peers.report(lines, lambda line: (line["params"]["files"], line["params"]["predicate"]))
