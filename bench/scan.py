#!/usr/bin/env python3
"""scan: 1M rows whole, one day of 58, one key in sorted files; against pyarrow.dataset, iceberg-rust and DuckDB.

The bars: whole within 1.25 of pyarrow.dataset, one day no slower than iceberg-rust, the key no slower than DuckDB.
iceberg-rust is built the first time, which takes ten minutes.
"""
import _peers

_peers.prepare("python", "duckdb15", "rust", "events", "tables")
lines = (_peers.python_peer("bench_limits.py", "scan") + _peers.rust("scan") +
         _peers.python_peer("bench_duckdb.py", "scan", "venv-duckdb15") + _peers.firn("scan"))
_peers.report(lines, lambda line: (line["workload"], line["params"].get("table")))
