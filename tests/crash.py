"""Generators, a hub, a spooler and a query, a killer of processes, and a check of the sink afterwards.

Samples go over loopback: generators number them, a hub passes them on, ``zwire spool`` keeps them, Spark
reads them into files of Parquet. Everything between the hub and the files is killed.
"""

import hashlib
import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

VICTIMS = Path(__file__).parent / "victims.py"
GENERATORS = 2

DRIVER, JVM, RUNNER, WORKER, EXECUTOR, SPOOLER, ALL = KINDS = (
    "driver",
    "java",
    "source_runner",
    "pyspark.daemon",
    "CoarseGrainedExecutorBackend",
    "spooler",
    "all",
)
"""Targets of a kill; most are words in a command line."""


class Tree:
    """A process with all that it starts; they share its session, and a file for their output."""

    def __init__(self, log, *command):
        self.log = log
        with log.open("ab") as out:
            self.child = subprocess.Popen(
                [sys.executable, *map(str, command)], stdout=out, stderr=out, start_new_session=True
            )

    def pids(self, what=""):
        return pids([self.child.pid], what)

    def said(self, pattern):
        """The text in the output that matches the pattern, or ``None``."""
        found = re.search(pattern, self.log.read_text(errors="replace"))
        return found and found[0]

    def kill(self):
        """Kill all processes, also those that are just being started."""
        for _ in range(1000):
            there = self.pids()
            if not there:
                break
            end_all(there)
        self.child.wait(20)


def pids(sessions, what=""):
    """The processes of some sessions with a word in their command; the newest last."""
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                stat = (folder / "stat").read_text().rpartition(")")[2].split()
                command = (folder / "cmdline").read_text()
            except OSError:
                continue  # it has just ended
            if int(stat[3]) in sessions and stat[0] != "Z" and what in command:
                found.append(int(folder.name))
    return sorted(found)


def end(pid):
    """Kill a process; false if it has just ended by itself."""
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return False
    return True


def end_all(pids):
    return sum(map(end, pids))


class Crash:
    """Kills processes as told, and checks the results.

    Args:
        folder: Folder of all files.
        seconds: Limit of each wait.
        master: Address of the Spark master.
        executors: Processes that start executors, if the driver does not start them.
    """

    def __init__(self, folder, seconds, master="local[2,3]", executors=()):
        self.folder = folder
        self.spool, self.out, self.checkpoint, self.digests, self.enough, self.stop = (
            folder / name for name in ("spool", "out", "checkpoint", "digests", "enough", "stop")
        )
        self.seconds = seconds
        self.master = master
        self.executors = [process.pid for process in executors]
        self.killed = {}
        # Edges of the batches that were in the log of offsets and not in that of commits after a kill,
        # and the checksums of the rows read of them then.
        self.unfinished = {}
        self.hub = self.spooler = self.query = None
        self.generators = []

    @contextmanager
    def running(self):
        self.digests.mkdir()
        try:
            self.hub = Tree(self._log_of("hub"), "-m", "zwire", "router", "--listen", "tcp/127.0.0.1:0")
            self.endpoint = self._wait("hub", lambda: self.hub.said(r"tcp/\S+"))
            self._start_spooler()
            self._wait("spool", (self.spool / "marks").exists)
            for number in range(GENERATORS):
                name = f"g{number}"
                told = (self.endpoint, name, self.enough)
                self.generators.append(Tree(self._log_of(name), VICTIMS, "generate", *told))
            self._wait_for_rows()
            self._start_query()
            yield self
        finally:
            for tree in (*self.generators, self.spooler, self.query, self.hub):
                if tree is not None:
                    tree.kill()

    def _start_spooler(self):
        more = ("--shards", "2", "--segment", "200k", "--connect", self.endpoint)
        command = ("-m", "zwire", "spool", "keep", "--dir", self.spool, "k/**", *more)
        self.spooler = Tree(self._log_of("spooler"), *command)

    def _start_query(self):
        places = (self.spool, self.out, self.checkpoint, self.digests, self.stop)
        self.query = Tree(self._log_of("query"), VICTIMS, "query", self.master, *places)

    def _log_of(self, name):
        return self.folder / f"{name}.log"

    def _wait(self, what, until):
        end = time.monotonic() + self.seconds
        while not (found := until()):
            if time.monotonic() > end:
                said = self._log_of("query").read_text(errors="replace")[-2000:] if self.query else ""
                raise TimeoutError(f"no {what} in {self.seconds} s; the query has said: {said}")
            time.sleep(0.02)
        return found

    def _wait_for_rows(self):
        """Wait for new rows of each publisher, since losses before a first row cannot be detected."""
        from zwire import spool

        view = spool.open(self.spool)
        before = sum(view.end().values())
        self._wait("row", lambda: sum(view.end().values()) >= before + 100)

    def _wait_for_batch(self):
        """Wait for a further batch, or for the end of the query."""
        before = self.batches()
        self._wait("batch", lambda: self.batches() > before or self.query.child.poll() is not None)

    def _log(self, name):
        return {int(file.name) for file in (self.checkpoint / name).glob("[0-9]*") if file.name.isdigit()}

    def batches(self):
        # Spark keeps the last hundred.
        return max(self._log("commits"), default=-1) + 1

    def _is_within(self):
        """Whether a task has read some rows, and not yet all, of a batch that is not finished."""
        open_ = self._log("offsets") - self._log("commits")
        notes = (file.read_text() for batch in open_ for file in self.digests.glob(f"{batch}-*"))
        return any(text and not text.endswith("end\n") for text in notes)

    def kill(self, what, pause=0.0, *, within=False, every=False):
        """Kill after some more progress, and a pause; ``within``: while a batch is read and not finished.

        Kill the newest of its kind, or ``every`` one.
        """
        self._wait_for_batch()
        if within:
            self._wait("unfinished batch", self._is_within)
        time.sleep(pause)
        if what == SPOOLER:
            self.spooler.kill()
            time.sleep(pause)
            self._start_spooler()
            self._wait_for_rows()
        elif what == ALL:
            self.query.kill()
        elif what == DRIVER:
            end(self.query.child.pid)
            # What it has started ends by itself.
            self._wait("end of its children", lambda: not self.query.pids())
            self.query.kill()
        else:
            # Masters and workers of the cluster are Java as well; do not kill them.
            sessions = [self.query.child.pid, *(() if what == JVM else self.executors)]
            # An argument of its own: the command of the JVM has it, too, as the value of a setting.
            word = f"\0{WORKER}" if what == WORKER else what
            self._wait(what, lambda: end_all(pids(sessions, word)[0 if every else -1 :]))
            if what == JVM:
                # A driver without its JVM ends by itself.
                self.query.kill()
        if what in (ALL, DRIVER, JVM):
            self._note_unfinished()
            self._start_query()
        self.killed[what] = self.killed.get(what, 0) + 1

    def kill_until_repeated(self, what, times=10):
        """Kill within batches until a task was run twice: a task may have ended just before a kill."""
        for _ in range(times):
            if self.repeated():
                break
            self.kill(what, within=True, every=True)

    def _offsets(self, batch):
        return json.loads((self.checkpoint / "offsets" / str(batch)).read_text().splitlines()[-1])

    def _note_unfinished(self):
        for batch in self._log("offsets") - self._log("commits"):
            start = self._offsets(batch - 1) if batch else None
            edges = (start, self._offsets(batch))
            self.unfinished[batch] = (edges, self.digest(*edges))

    def digest(self, start, stop):
        """Read a batch as Spark does, and return the checksum of its Arrow IPC."""
        from zwire.spark import schema
        from zwire.spark.sources import _stream

        given = {"spool": str(self.spool), "startingOffsets": "earliest", "consumer": "none"}
        reader = _stream.SpoolStreamReader(given, schema.SAMPLE.spark(), "zwire", "samples")
        start = start or reader.initialOffset()
        digest = hashlib.sha256()
        for part in reader.partitions(start, stop):
            digest.update(repr([tuple(span) for span in part.spans]).encode())
            for rows in reader.read(part):
                digest.update(rows.serialize())
        return digest.hexdigest()

    def finish(self):
        """Let the generators end, and the query read all."""
        from zwire import spool

        self._wait_for_rows()
        self.enough.touch()
        self.sent = {}
        for generator in self.generators:
            generator.child.wait(self.seconds)
            self.sent |= json.loads(generator.said(r"(?m)^{.*}$"))
        last = {f"{name}/{count - 1}".encode() for name, count in self.sent.items()}
        self._wait("last rows", lambda: last <= {row[3] for row in self._kept()})
        self.spooler.child.send_signal(signal.SIGTERM)
        assert self.spooler.child.wait(self.seconds) == 0
        assert not spool.verify(self.spool)
        self.stop.touch()
        while self.query.child.poll() is None:
            self._wait_for_batch()
        assert self.query.child.returncode == 0, self.query.log.read_text(errors="replace")

    def _kept(self):
        """The contents of the spool: shard, offset, key and payload."""
        import pyarrow as pa

        from zwire import spool

        view = spool.open(self.spool)
        start, names = view.earliest(), ["shard", "offset", "key", "payload"]
        rows = []
        for shard, stop in view.end().items():
            for batch in view.read(shard, start[shard], stop, columns=names):
                columns = pa.record_batch(batch).select(names).columns
                rows += zip(*(column.to_pylist() for column in columns), strict=True)
        return rows

    def _named(self, names):
        """The numbers that gaps name, by publisher."""
        import pyarrow as pa

        from zwire import spool

        view = spool.open(self.spool)
        found = {name: set() for name in self.sent}
        for batch in view.gaps(view.gaps_start()):
            for row in pa.record_batch(batch).to_pylist():
                assert row["kind"] in ("gap", "epoch", "reconnect"), row
                if row["kind"] == "gap":
                    numbers = set(range(row["sn_from"], row["sn_to"] + 1))
                    assert len(numbers) == row["count"]
                    mine = found[names[row["source_zid"], row["source_eid"]]]
                    # No gap is reported twice.
                    assert not mine & numbers, row
                    mine |= numbers
        return found

    def check(self, spark):
        """Check that the sink has all samples except the gaps, once, in order; and that batches are
        repeatable.

        Return the number of rows, the number of samples in gaps, and the number of task attempts compared.
        """
        columns = ("shard", "offset", "key", "payload", "source_zid", "source_eid", "source_sn")
        found = spark.read.parquet(str(self.out)).select(*columns).collect()
        rows = sorted((row.shard, row.offset, row.key, bytes(row.payload)) for row in found)
        # Each offset of the spool once, and no other.
        assert rows == sorted(self._kept())
        arrived = {name: [] for name in self.sent}
        by_key = {}
        for _, _, key, payload in rows:
            name, number = re.fullmatch(r"(.*)/(\d+)", payload.decode()).groups()
            arrived[name].append(int(number))
            assert key == f"k/{name}/{key.rpartition('/')[2]}"
            by_key.setdefault(key, []).append(int(number))
        for order in by_key.values():
            assert order == sorted(order)
        names = {}
        for row in found:
            name, _, number = bytes(row.payload).decode().rpartition("/")
            assert row.source_sn == int(number)
            assert names.setdefault((bytes(row.source_zid), row.source_eid), name) == name
        named = self._named(names)
        for name, count in self.sent.items():
            kept = set(arrived[name])
            assert len(kept) == len(arrived[name]), f"{name} has some twice"
            assert not kept & named[name], f"{name}: what is there is named as missing"
            assert kept | named[name] == set(range(count)), f"{name}: {_without(count, kept | named[name])}"
        return len(rows), sum(map(len, named.values())), self._compare()

    def repeated(self):
        """Whether two attempts of one task have read rows."""
        places = [file.name.rpartition("-")[0] for file in self.digests.iterdir() if file.stat().st_size]
        return len(places) > len(set(places))

    def _compare(self):
        """Compare rows read twice by tasks, and read again by this process: all must be the same."""
        for batch, (edges, digest) in self.unfinished.items():
            assert self.digest(*edges) == digest, f"batch {batch} is another one now"
        attempts = {}
        for file in self.digests.iterdir():
            batch, part, _ = file.name.split("-")
            attempts.setdefault((int(batch), int(part)), []).append(file.read_text().splitlines())
        compared = 0
        for place, notes in attempts.items():
            longest = max(notes, key=len)
            for lines in notes:
                # A killed attempt has read the beginning.
                assert lines == longest[: len(lines)], f"batch and partition {place}"
            # A partition without rows has notes without lines.
            compared += max(len([lines for lines in notes if lines]) - 1, 0)
        return compared


def _without(count, numbers):
    missing = sorted(set(range(count)) - numbers)
    return f"{len(missing)} are neither there nor named: {missing[:20]}"


def chaos(folder, kills, seed, seconds, **where):
    """Kill at random; the check is left to a caller with a Spark session."""
    random_ = random.Random(seed)
    crash = Crash(folder, seconds, **where)
    kinds = [what for what in KINDS if what != EXECUTOR or crash.executors]
    with crash.running():
        for number in range(kills):
            # Each of them, then any.
            what = kinds[number] if number < len(kinds) else random_.choice(kinds)
            within, every = random_.random() < 0.7, random_.random() < 0.3
            crash.kill(what, random_.random() * (0.05 if within else 0.5), within=within, every=every)
            print(f"killed {what}, {crash.batches()} batches", flush=True)
        crash.finish()
    return crash
