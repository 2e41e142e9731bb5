#!/usr/bin/env python3
"""cache.py [SCALE] [BUDGET_MB]: a cache's life on the measured shape stays under BUDGET_MB.

The shape: 517,752 rows of about 1.8 KB of 3,799 conversations, 58 days and 3 sources (SCALE of the rows and conversations).
They are captured and flushed, half of the days in one file and the others day by day; then upkeep lets go what is older than
30 days and compacts. Measured is the peak resident memory of each `hyp` process, libraries included; a run that goes over
fails, and so does one whose compacted partitions hold files far from the target size, that lost or kept a row too many, or
that finds something to do when asked again. HYP_PROGRAM names the program.
"""
import collections
import datetime
import json
import math
import os
import pathlib
import random
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
HYP = os.environ.get("HYP_PROGRAM", str(ROOT / "build/release/bin/hyp"))
ROWS, CONVERSATIONS, DAYS, KEPT_DAYS = 517_752, 3_799, 58, 30
SOURCES = {"gateway": 6, "hook": 3, "import": 1}  # how often
TARGET_MB = 16  # of a compacted file, at full scale
HOUR = 3600


def make_text(chance, size):
    letters = "etaoinshrdlucmfwypvbgkjqxz"
    weights = [1 / (rank + 2) for rank in range(len(letters))]
    words = ["".join(chance.choices(letters, weights, k=chance.randint(2, 10))) for _ in range(6000)]
    frequency = [1 / (rank + 8) for rank in range(len(words))]
    return " ".join(chance.choices(words, frequency, k=size // 7))


class Messages:
    """Rows in order of their sessions' days; those of a session within hours.

    Days are counted from the cutoff, and no row is within two hours after it: what is past its age, and how the rows lie in
    files, depends neither on the hour of the run nor on how long it takes.
    """

    def __init__(self, scale, now):
        self.chance = random.Random(1)
        self.text = make_text(self.chance, 16 << 20)
        self.cutoff = now // HOUR * HOUR - KEPT_DAYS * 86_400
        self.first_day = self.cutoff - (DAYS - KEPT_DAYS) * 86_400
        self.rows = round(ROWS * scale)
        self.conversations = max(DAYS, round(CONVERSATIONS * scale))
        sessions = self.conversations + self.conversations // 10  # the last ones carry no conversation
        self.days = [session % DAYS if session < DAYS else self.chance.randrange(DAYS) for session in range(sessions)]
        self.sources = self.chance.choices(list(SOURCES), list(SOURCES.values()), k=sessions)
        self.starts = [self.chance.randrange(2 * HOUR, 20 * HOUR) for _ in range(sessions)]
        weights = [self.chance.lognormvariate(0, 1.4) for _ in range(sessions)]
        self.counts = collections.Counter(self.chance.choices(range(sessions), weights, k=self.rows - sessions))
        for session in range(sessions):
            self.counts[session] += 1
        self.kept = self.bytes = 0

    def time_of(self, session):
        return self.first_day + self.days[session] * 86_400 + self.starts[session] + self.chance.random() * 3 * HOUR

    def row(self, session, at):
        chance = self.chance
        when = datetime.datetime.fromtimestamp(at, datetime.timezone.utc).isoformat(timespec="milliseconds")
        size = min(40_000, max(8, int(chance.lognormvariate(6.8, 0.95))))
        begin = chance.randrange(len(self.text) - size)
        tokens = int(chance.lognormvariate(8, 1.3))
        return {"message_id": f"msg_{chance.getrandbits(62):016x}", "session_id": f"sess-{session:08x}",
                "conversation_id": f"conv-{session:06}" if session < self.conversations else None,
                "cwd": f"/home/user/work/project-{session % 60:02}", "date": when[:10],
                "message_created_at": when.replace("+00:00", "Z"), "source": self.sources[session],
                "role": chance.choice(["user", "assistant", "assistant", "tool"]), "model": f"model-{session % 6}",
                "input_tokens": tokens, "output_tokens": tokens % 997, "cost": round(tokens * 3e-6, 6),
                "content": self.text[begin:begin + size]}

    def write(self, path, days):
        rows = sorted((self.time_of(session), session) for session, day in enumerate(self.days) if day in days
                      for _ in range(self.counts[session]))
        with open(path, "w", encoding="ascii") as out:
            for at, session in rows:
                self.kept += at >= self.cutoff
                self.bytes += out.write(json.dumps(self.row(session, at)) + "\n")


class Hyp:
    def __init__(self, folder, budget_mb):
        self.folder, self.budget_mb = folder, budget_mb

    def run(self, name, *words):
        """What it printed. Ends the test where it took too much memory."""
        with open(self.folder / "log", "w+", encoding="utf-8") as log:
            process = subprocess.Popen([HYP, *map(str, words)], stdout=subprocess.PIPE, stderr=log, cwd=self.folder)
            out = process.stdout.read()
            _, status, usage = os.wait4(process.pid, 0)
            log.seek(0)
            if status != 0:
                sys.exit(f"memory: hyp {' '.join(map(str, words))} failed: {log.read()}")
        peak_mb = usage.ru_maxrss / 1024
        if name:
            print(f"memory: {name}: peak {peak_mb:.0f} MB, {usage.ru_utime + usage.ru_stime:.1f} s of processor time", flush=True)
        if peak_mb > self.budget_mb:
            sys.exit(f"memory: hyp {' '.join(map(str, words))} took {peak_mb:.0f} MB, more than {self.budget_mb}")
        return out.decode()

    def count(self):
        return int(self.run(None, "query", "select count(*) from messages", "--format", "csv").split()[1])

    def file_sizes(self):
        """By partition, those of the live generation, which is all that is there."""
        sizes = {}
        for partition in (self.folder / "cache/datasets/messages").glob("source=*"):
            generations = [path.name for path in partition.glob("table-*") if path.is_dir()]
            live = json.loads((partition / "cursor.json").read_text())["tableDir"]
            if generations != [live]:
                sys.exit(f"memory: {partition} holds {generations}, and {live} is live")
            sizes[partition.name] = sorted(path.stat().st_size for path in (partition / live / "data").rglob("*.parquet"))
        return sizes


def check_sizes(sizes, target, slack):
    for partition, files in sizes.items():
        print(f"memory: {partition}: {len(files)} files of", ", ".join(f"{size / 2**20:.1f}" for size in files), "MB", flush=True)
        if len(files) > math.ceil(sum(files) / target) + 1:
            sys.exit(f"memory: {partition} has more files than its bytes make")
        for size in files[1:]:  # the smallest has what was left
            if abs(size - target) > slack * target:
                sys.exit(f"memory: {partition} has a file of {size} bytes, and the target is {target}")


def main():
    scale = float(sys.argv[1]) if len(sys.argv) > 1 else 1.0
    budget_mb = int(sys.argv[2]) if len(sys.argv) > 2 else 512
    target = max(1 << 20, int(TARGET_MB * scale * 2**20))
    with tempfile.TemporaryDirectory(prefix="firn-memory-") as name:
        folder = pathlib.Path(name)
        (folder / "hyp.json").write_text(json.dumps({
            "cacheRoot": "cache", "stateDir": "state",
            "datasets": {"messages": {"primaryTimestampColumn": "message_created_at", "sourceColumn": "source",
                                      "retention": {"days": KEPT_DAYS}}},
            "compaction": {"targetFileBytes": target}}))
        messages, hyp = Messages(scale, int(time.time())), Hyp(folder, budget_mb)
        for step, days in enumerate([set(range(DAYS // 2)), *({day} for day in range(DAYS // 2, DAYS))]):
            path = folder / f"rows-{step}.ndjson"
            messages.write(path, days)
            hyp.run(f"capture and flush of {len(days)} days" if step < 2 else None, "ingest", "messages", path)
            path.unlink()
        print(f"memory: {messages.rows} rows of {messages.bytes / messages.rows:.0f} bytes, {messages.conversations} "
              f"conversations, {DAYS} days, {len(SOURCES)} sources", flush=True)
        if (found := hyp.count()) != messages.rows:
            sys.exit(f"memory: {found} rows are in the cache, not {messages.rows}")
        report = json.loads(hyp.run("retention and compaction", "maintain", "--json"))
        if report["problems"] or {one["source"] for one in report["compaction"] if one["swapped"]} != set(SOURCES):
            sys.exit(f"memory: not all was compacted: {report}")
        if (found := hyp.count()) != messages.kept:
            sys.exit(f"memory: {found} rows are in the cache, not the {messages.kept} of the last {KEPT_DAYS} days")
        again = json.loads(hyp.run("the same again", "maintain", "--json"))
        if again["retention"] or again["compaction"]:
            sys.exit(f"memory: there was something to do a second time: {again}")
        check_sizes(hyp.file_sizes(), target, 0.3 if scale >= 1 else 0.5)  # what is buffered weighs more in small files


main()
