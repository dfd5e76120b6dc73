"""A query in a process, a writer in another, somebody who kills them, and what is in the sink then.

``python crash.py query SPOOL OUT CHECKPOINT STOP`` follows a spool until there is a file ``STOP``, and starts
its query again whenever it fails. ``python crash.py writer SPOOL STOP`` goes on writing where the spool ends:
row ``n`` of a shard says so.
"""

import os
import random
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

SHARDS = 2


def write(folder, stop):
    from zwire import spool

    with spool.Appender(folder, shards=SHARDS, segment_bytes=200_000) as appender:
        at = spool.open(folder).end()
        while not Path(stop).exists():
            for shard in at:
                for _ in range(20):
                    appender.append(key=f"k/{shard}", payload=b"%d" % at[shard], shard=shard)
                    at[shard] += 1
            appender.flush()
            time.sleep(0.05)


def follow(folder, out, checkpoint, stop):
    from pyspark.errors import StreamingQueryException
    from pyspark.sql import SparkSession

    sys.path.insert(0, str(Path(__file__).parent / "spark"))
    from conftest import SETTINGS

    builder = SparkSession.builder.master("local[2,3]")
    for name, value in SETTINGS.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    options = {"spool": folder, "startingOffsets": "earliest", "maxRowsPerTrigger": "2000"}
    stream = spark.readStream.format("zwire").options(**options).load()
    sink = stream.writeStream.format("parquet").option("path", out).option("checkpointLocation", checkpoint)
    done = False
    while not done:
        query = sink.start()
        print("started", flush=True)
        try:
            while not (done := Path(stop).exists()):
                if query.awaitTermination(1):
                    break
            query.processAllAvailable()
            query.stop()
        except StreamingQueryException as error:
            print("failed", str(error)[:200].replace("\n", " "), flush=True)
            done = False
    print("done", flush=True)


class Tree:
    """A process with all that it starts; they share its session."""

    def __init__(self, *command):
        self.child = subprocess.Popen(
            [sys.executable, __file__, *map(str, command)],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            start_new_session=True,
        )

    def pids(self, what=""):
        """Those whose command has a word in it; the newest last."""
        found = []
        for folder in Path("/proc").iterdir():
            if folder.name.isdigit():
                try:
                    stat = (folder / "stat").read_text().rpartition(")")[2].split()
                    command = (folder / "cmdline").read_text()
                except OSError:
                    continue  # it has just ended
                if int(stat[3]) == self.child.pid and stat[0] != "Z" and what in command:
                    found.append(int(folder.name))
        return sorted(found)

    def kill(self, what=""):
        """Kill all of them, or one of those with this word; false if there is none."""
        pids = self.pids(what)
        for pid in pids if not what else pids[-1:]:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        if not what:
            # Reads what it has said, and closes the pipe.
            self.child.communicate(timeout=20)
        return bool(pids)


RUNNER, WORKER, JVM, ALL, WRITER = "source_runner", "pyspark.daemon", "java", "", "writer"


class Crash:
    """Kills what it is told to, and looks at what has come of it.

    Args:
        folder: Where everything is.
        seconds: For each wait.
    """

    def __init__(self, folder, seconds):
        self.spool, self.out, self.checkpoint, self.enough, self.stop = (
            folder / name for name in ("spool", "out", "checkpoint", "enough", "stop")
        )
        self.seconds = seconds
        self.killed = 0
        self.writer = self.query = None

    @contextmanager
    def running(self):
        try:
            self._start_writer()
            self._wait("spool", (self.spool / "marks").exists)
            self._start_query()
            yield self
        finally:
            for tree in (self.writer, self.query):
                if tree is not None and not tree.child.stdout.closed:
                    tree.kill()

    def _start_writer(self):
        self.writer = Tree("writer", self.spool, self.enough)

    def _start_query(self):
        self.query = Tree("query", self.spool, self.out, self.checkpoint, self.stop)

    def _wait(self, what, until):
        end = time.monotonic() + self.seconds
        while not (found := until()):
            if time.monotonic() > end:
                raise TimeoutError(f"no {what} in {self.seconds} s")
            time.sleep(0.02)
        return found

    def batches(self):
        return len(list((self.checkpoint / "commits").glob("[0-9]*")))

    def kill(self, what, pause):
        """Kill after some more progress, and a moment."""
        before = self.batches()
        self._wait("batch", lambda: self.batches() > before)
        time.sleep(pause)
        if what == WRITER:
            self.killed += self.writer.kill()
            self._start_writer()
            return
        self.killed += self.query.kill(what)
        if what in (ALL, JVM):
            # A driver whose JVM is gone ends by itself; what it has started is killed with it.
            self.query.kill()
            self._start_query()

    def finish(self):
        """Let the writer end, and the query read all."""
        self.enough.touch()
        self.writer.child.communicate(timeout=self.seconds)
        self.stop.touch()
        said, _ = self.query.child.communicate(timeout=self.seconds)
        assert self.query.child.returncode == 0, said
        return said

    def check(self, spark):
        """The sink has each row of the spool once, as it was written, and nothing else."""
        from zwire import spool

        ends = spool.open(self.spool).end()
        found = spark.read.parquet(str(self.out)).select("shard", "offset", "key", "payload").collect()
        rows = sorted((row.shard, row.offset, row.key, bytes(row.payload)) for row in found)
        expected = [(s, at, f"k/{s}", b"%d" % at) for s, end in ends.items() for at in range(end)]
        assert rows == expected
        return len(rows)


def chaos(folder, kills, seed, seconds):
    """Kill at random; the check is for who has a session of Spark."""
    random_ = random.Random(seed)
    crash = Crash(folder, seconds)
    with crash.running():
        for _ in range(kills):
            what = random_.choice([RUNNER, WORKER, JVM, ALL, WRITER])
            crash.kill(what, random_.random() * 0.5)
            print(f"killed {what or 'all'}, {crash.batches()} batches", flush=True)
        crash.finish()
    return crash


if __name__ == "__main__":
    if sys.argv[1] == "writer":
        write(*sys.argv[2:])
    else:
        follow(*sys.argv[2:])
