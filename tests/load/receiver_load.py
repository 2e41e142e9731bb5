#!/usr/bin/env python3
"""Gateways that together send more than `hyp serve` is set to take, until it is killed.

What must hold: the server's memory stays below a bound that follows from its limits; what it refuses, it refuses with
429 or 503 and a positive Retry-After; after kill -9 and a restart each acknowledged row is there and none twice; and a
sender that goes on where it was has each of its rows there once. Exits with 1 and says which of these failed.
"""
import argparse
import asyncio
import csv
import hashlib
import io
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time
import uuid

ROOT = pathlib.Path(__file__).resolve().parents[2]
ROW_BYTES = 256
MARK = b"#" * 12  # a row's batch, which each body replaces by its number


class Failed(Exception):
    pass


def expect(condition, message):
    if not condition:
        raise Failed(message)


class Server:
    def __init__(self, hyp, folder, limits):
        self.hyp, self.folder, self.config = hyp, folder, folder / "hyp.json"
        self.config.write_text(json.dumps({"cacheRoot": "cache", "stateDir": "state", "listen": "",
                                           "receiver": {"listen": "127.0.0.1:0", **limits}}))
        self.process = None
        self.is_killed = False

    def command(self, *words):
        done = subprocess.run([self.hyp, "--config", self.config, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              text=True)
        expect(done.returncode == 0, f"hyp {' '.join(words)}: {done.stderr}")
        return done.stdout

    def start(self):
        log = self.folder / f"log-{time.monotonic_ns()}"
        self.is_killed = False
        with open(log, "w") as out:
            self.process = subprocess.Popen([self.hyp, "--config", self.config, "serve"], stdout=out, stderr=out)
        for _ in range(600):
            found = re.search(r"receiving on http://(\S+):(\d+)", log.read_text())
            if found:
                self.host, self.port = found.group(1), int(found.group(2))
                return
            expect(self.process.poll() is None, f"hyp serve ended: {log.read_text()}")
            time.sleep(0.05)
        raise Failed(f"hyp serve does not listen: {log.read_text()}")

    def kill(self, how=signal.SIGKILL):
        self.is_killed = True
        if self.process is not None:
            self.process.send_signal(how)
            self.process.wait()
            self.process = None

    def memory_bytes(self):
        """The most that it ever held, without files mapped; the whole where the kernel does not tell them apart."""
        status = pathlib.Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.search(r"VmHWM:\s+(\d+) kB", status).group(1)) << 10


class Gateway:
    """One sender; its stream's batches are numbered, and each row says its batch and its place in it."""

    def __init__(self, name, token, body_bytes):
        self.name, self.token = name, token
        row = '{{"batch":"%s","row":{},"text":"{}"}}' % MARK.decode()
        self.rows = max(1, body_bytes // ROW_BYTES)
        pad = ROW_BYTES - len(row.format(100, "")) - 1
        self.template = "".join(row.format(i, "x" * pad) + "\n" for i in range(self.rows)).encode()
        self.stream, self.open = f"{uuid.uuid4()}/load/source=default", str(uuid.uuid4())
        self.acknowledged = 0  # batches: those before it
        self.refused = {}
        self.problems = []

    def request(self, host):
        body = self.template.replace(MARK, b"%012d" % self.acknowledged)
        since = self.acknowledged * self.rows
        start = ";start" if since == 0 else ""
        seq_range = f"{since},{since + self.rows}{start}"
        batch_id = hashlib.sha256(f"{self.stream} {seq_range}".encode()).hexdigest()
        head = (f"POST /v1/ingest/load HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {self.token}\r\n"
                f"X-Hyp-Batch-Id: {batch_id}\r\nX-Hyp-Stream: {self.stream}\r\nX-Hyp-Open: {self.open}\r\n"
                f"X-Hyp-Seq-Range: {seq_range}\r\nContent-Length: {len(body)}\r\n\r\n")
        return head.encode() + body

    async def exchange(self, reader, writer, host):
        """Status and headers of the answer to the next batch."""
        writer.write(self.request(host))
        await writer.drain()
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        headers = dict(line.lower().split(": ", 1) for line in head.split("\r\n")[1:] if ": " in line)
        body = await reader.readexactly(int(headers.get("content-length", "0")))
        return int(head[9:12]), headers, body

    async def send(self, server, until, batches=None):
        """Sends as fast as it is let, and faster, until that time or so many batches were acknowledged."""
        connection = None
        while not server.is_killed and time.monotonic() < until and (batches is None or self.acknowledged < batches):
            try:
                if connection is None:
                    connection = await asyncio.open_connection(server.host, server.port)
                status, headers, body = await asyncio.wait_for(self.exchange(*connection, server.host), 60)
            except (OSError, EOFError, asyncio.IncompleteReadError, asyncio.TimeoutError):
                if connection is not None:
                    connection[1].close()
                connection = None
                await asyncio.sleep(0.05)
                continue
            if status == 202 or (status == 409 and int(json.loads(body)["last"] or -1) >= (self.acknowledged + 1) * self.rows):
                self.acknowledged += 1
                continue
            self.refused[status] = self.refused.get(status, 0) + 1
            if status not in (429, 503):
                self.problems.append(f"{self.name}: answered {status}: {body.decode(errors='replace')}")
                return
            retry_after = headers.get("retry-after", "")
            if not (retry_after.isdigit() and int(retry_after) > 0):
                self.problems.append(f"{self.name}: {status} with Retry-After {retry_after!r}")
                return
            if headers.get("connection") == "close":
                connection[1].close()
                connection = None
            await asyncio.sleep(0.1)  # sooner than it was told
        if connection is not None:
            connection[1].close()


def rows_there(server):
    """By gateway and batch: how many rows are there, and how many different ones."""
    out = server.command("query", "--format", "csv",
                         "select hyp_gateway, batch::bigint, count(*), count(distinct row) from load group by all")
    return {(gateway, int(batch)): (int(rows), int(distinct))
            for gateway, batch, rows, distinct in list(csv.reader(io.StringIO(out)))[1:]}


def check_rows(server, gateways, exactly):
    there = rows_there(server)
    names = {gateway.name: gateway for gateway in gateways}
    for (name, batch), (rows, distinct) in there.items():
        expect(rows == distinct, f"{name}: batch {batch} is there with {rows} rows, {distinct} different ones")
        expect(rows == names[name].rows, f"{name}: batch {batch} is there with {rows} rows of {names[name].rows}")
        allowed = names[name].acknowledged + (0 if exactly else 1)  # the one under way may have landed
        expect(batch < allowed, f"{name}: batch {batch} is there, and {names[name].acknowledged} were acknowledged")
    for gateway in gateways:
        for batch in range(gateway.acknowledged):
            expect((gateway.name, batch) in there, f"{gateway.name}: batch {batch} was acknowledged and is not there")


async def send_until_killed(server, gateways, seconds):
    until = time.monotonic() + seconds
    tasks = [asyncio.create_task(gateway.send(server, until + 3600)) for gateway in gateways]
    peak = 0
    while time.monotonic() < until:
        await asyncio.sleep(0.2)
        expect(server.process.poll() is None, "hyp serve ended by itself")
        peak = max(peak, server.memory_bytes())
    server.kill()
    await asyncio.gather(*tasks)
    return peak


async def finish(server, gateways, seconds):
    """Each goes on where it was, one batch more."""
    for gateway in gateways:
        gateway.refused = {}
    until = time.monotonic() + seconds
    await asyncio.gather(*(gateway.send(server, until, gateway.acknowledged + 1) for gateway in gateways))


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--hyp", default=ROOT / "build/release/bin/hyp")
    arguments.add_argument("--gateways", type=int, default=200)
    arguments.add_argument("--body-bytes", type=int, default=64 << 10)
    arguments.add_argument("--seconds", type=float, default=15)
    arguments.add_argument("--queued-bytes", type=int, default=32 << 20, help="the receiver's maxQueuedBytes")
    arguments.add_argument("--requests-per-second", type=int, default=1, help="of one gateway")
    arguments.add_argument("--memory-bytes", type=int, default=1 << 30, help="that the server may take at most")
    options = arguments.parse_args()
    with tempfile.TemporaryDirectory(prefix="firn-load-") as name:
        server = Server(options.hyp, pathlib.Path(name), {
            "maxQueuedBytes": options.queued_bytes, "maxRequestsPerSecond": options.requests_per_second,
            "maxConnections": options.gateways + 16})
        try:
            gateways = [Gateway(f"gateway-{i:03}", server.command("gateway", "add", f"gateway-{i:03}").strip(),
                                options.body_bytes) for i in range(options.gateways)]
            server.start()
            peak = asyncio.run(send_until_killed(server, gateways, options.seconds))
            problems = [problem for gateway in gateways for problem in gateway.problems]
            expect(not problems, "; ".join(problems[:5]))
            acknowledged = sum(gateway.acknowledged for gateway in gateways)
            refused = {}
            for gateway in gateways:
                for status, count in gateway.refused.items():
                    refused[status] = refused.get(status, 0) + count
            print(f"{acknowledged} batches acknowledged in {options.seconds:.0f} s "
                  f"({acknowledged * options.body_bytes / 1e6 / options.seconds:.0f} MB/s), refused: {refused}, "
                  f"memory at most {peak / 1e6:.0f} MB", flush=True)
            expect(acknowledged > 0, "nothing was acknowledged")
            expect(refused.get(429, 0) > 0, "nothing was refused with 429: the limits were not met")
            expect(peak <= options.memory_bytes, f"the server took {peak} bytes, more than {options.memory_bytes}")
            check_rows(server, gateways, exactly=False)
            server.start()
            asyncio.run(finish(server, gateways, 120))
            check_rows(server, gateways, exactly=True)
            server.kill(signal.SIGTERM)
            check_rows(server, gateways, exactly=True)
            print("each acknowledged row is there once")
        except Failed as failed:
            print(f"FAILED: {failed}", file=sys.stderr)
            return 1
        finally:
            server.kill()
    return 0


if __name__ == "__main__":
    sys.exit(main())
