#!/usr/bin/env python3
"""append: 1M rows in memory to a committed table, flat and into 58 days, against bare pyarrow and PyIceberg.

The bars: flat no slower than 1/1.2 of a bare Parquet write with the same codec and level; into days 1.5 times PyIceberg.
PyIceberg and the first bare write use zstd level 1, the second level 3.
"""
import _peers

_peers.prepare("python", "events")
lines = (_peers.python_peer("bench_limits.py", "append_flat") + _peers.python_peer("bench_pyiceberg.py", "append_flat") +
         _peers.python_peer("bench_pyiceberg.py", "append_day") + _peers.firn("append"))


def same(line):
    return line["workload"], "3" if "level 3" in line["params"].get("how", "") else "1"


_peers.report(lines, same)
