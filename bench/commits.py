#!/usr/bin/env python3
"""commits: 500 appends of 10 rows each, everything synced, against PyIceberg.

The bars: 4 times PyIceberg's rate over the first 50, and the last 50 within 1.5 of the first 50.
"""
import _peers

_peers.prepare("python", "events")
lines = _peers.python_peer("bench_pyiceberg.py", "commits") + _peers.firn("commits")
_peers.report(lines, lambda line: line["metric"])
