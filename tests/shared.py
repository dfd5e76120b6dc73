"""Spoolers that share one spool: started, stopped, cut off, and what their spool has in the end.

`python tests/shared.py publish ENDPOINT NAME...` publishes samples with numbers until a line comes, then one
more on each key for each line, and prints what it has sent. `python tests/shared.py sums URL` reads such a
line, prints what the spool has of it, and fails if a sample is neither there nor named, is there twice, or is
not in order.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING, Any, Self

import pyarrow as pa

from zwire import spool, zenoh

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path


class Process:
    """``zwire spool keep --shared``, in a process of its own; ``shards``: ``--spread`` over so many."""

    def __init__(
        self,
        folder: Path,
        url: str,
        endpoint: str,
        *,
        env: dict[str, str],
        prefix: Sequence[str] = (),
        shards: int | None = None,
    ) -> None:
        self.folder, self.said = folder, []
        command = [*prefix, sys.executable, "-m", "zwire", "spool", "keep", "--dir", str(folder)]
        command += ["shared/**", "--tier", url, "--roll", "1s", "-e", endpoint]
        command += ["--shared"] if shards is None else ["--spread", "--shards", str(shards)]
        self.process = subprocess.Popen(
            command, stderr=subprocess.PIPE, env={**os.environ, **env, "RUST_LOG": "zwire=info"}, text=True
        )
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def _read(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.said.append((time.monotonic(), line.rstrip()))

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def state(self) -> str:
        """The state that it has told last."""
        known = re.compile(r"keep: (holding|standby|starting|finding)")
        states = [found[1] for _, line in self.said if (found := known.search(line))]
        return states[-1] if states else ""

    @property
    def shards(self) -> set[int]:
        """The shards that it writes, as it has told last."""
        states = [line.rpartition("shards ")[2] for _, line in self.said if "keep: holding" in line]
        return set(map(int, states[-1].split())) if states and self.state == "holding" else set()

    def since(self, begin: float) -> float | None:
        """Seconds from a time until it held the lease, if it does."""
        times = [at - begin for at, line in self.said if "keep: holding" in line and at > begin]
        return min(times) if times else None

    def kill(self) -> None:
        self.process.kill()
        self.end()

    def end(self) -> None:
        """Wait for its end."""
        self.process.wait(30)
        self.reader.join(10)
        assert self.process.stderr is not None
        self.process.stderr.close()

    def stop(self) -> None:
        self.process.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        self.process.send_signal(signal.SIGCONT)

    def close(self) -> None:
        if self.process.poll() is None:
            self.go_on()
            self.process.terminate()
        try:
            self.end()
        except subprocess.TimeoutExpired:
            self.kill()
            raise


class Sums:
    """What was sent, what the spool has, and what its log of gaps names."""

    def __init__(self, place: str, sent: dict[str, int]) -> None:
        view = spool.open(place)
        self.counts, self.sent = sent, sum(sent.values())
        found: dict[str, list[int]] = {key: [] for key in sent}
        sources: dict[tuple[bytes, int], str] = {}
        columns = ["key", "payload", "source_zid", "source_eid", "source_sn", "recv_ts"]
        received = []
        for batch in view.to_reader(columns=columns):
            for row in batch.to_pylist():
                if row["key"] not in found:
                    continue
                found[row["key"]].append(int(row["payload"]))
                received.append(row["recv_ts"].timestamp())
                if row["source_zid"] is not None:
                    sources[(row["source_zid"], row["source_eid"])] = row["key"]
        named: dict[str, set[int]] = {key: set() for key in sent}
        self.kinds: dict[str, int] = {}
        self.reasons: list[tuple[int, str]] = []
        for batch in view.gaps():
            for row in pa.record_batch(batch).to_pylist():
                self.kinds[row["kind"]] = self.kinds.get(row["kind"], 0) + 1
                key = sources.get((row["source_zid"], row["source_eid"]))
                self.reasons.append((row["count"] or 0, f"{row['kind']}: {row['detail']}"))
                if row["kind"] == "gap" and key is not None and row["sn_from"] is not None:
                    named[key].update(range(row["sn_from"], row["sn_to"] + 1))
        self.hours = (max(received) - min(received)) / 3600 if received else 0.0
        self.rows = sum(map(len, found.values()))
        self.doubled = self.rows - sum(len(set(rows)) for rows in found.values())
        self.unordered = [key for key, rows in found.items() if rows != sorted(rows)]
        self.named = sum(len(named[key] - set(found[key])) for key in sent)
        self.missing = {
            key: lost[:20]
            for key, count in sent.items()
            if "/number/" in key and (lost := sorted(set(range(count)) - set(found[key]) - named[key]))
        }

        self.last = {key: max(rows, default=-1) for key, rows in found.items()}

    @property
    def is_whole(self) -> bool:
        """Whether the last sample of each key is there, and none before it is missing that has a number."""
        return not any(self.missing) and all(
            self.last[key] >= count - 1 for key, count in self.counts.items()
        )

    def check(self) -> None:
        print(self)
        for count, reason in self.reasons:
            print(f"  {count:5} {reason}")
        assert self.missing == {}, f"neither rows nor named: {self.missing}"
        assert (self.doubled, self.unordered) == (0, [])
        assert self.sent == self.rows + self.named

    def __str__(self) -> str:
        counted = f"sent {self.sent} = {self.rows} rows + {self.named} named"
        return f"{counted}; received within {self.hours:.2f} h by their clocks; gaps {self.kinds}"


class Publishers:
    """A thread that publishes on keys of its own. The payload of a sample is its number.

    Samples on ``shared/number/...`` have a source with the number, those on ``shared/time/...`` a time.
    """

    def __init__(self, session: zenoh.Session, keys: Sequence[str], pause: float = 0.01) -> None:
        self.session, self.pause, self.error = session, pause, None
        self.sent = dict.fromkeys(keys, 0)
        self.entities = {key: session.declare_publisher(key).id for key in keys}
        self.ended = threading.Event()
        self.thread = threading.Thread(target=self._run, daemon=True)

    def put(self, key: str) -> None:
        number = self.sent[key]
        given: dict[str, Any] = {"congestion_control": zenoh.CongestionControl.BLOCK}
        if "/number/" in key:
            given["source_info"] = zenoh.SourceInfo(self.entities[key], number)
        else:
            given["timestamp"] = self.session.new_timestamp()
        self.session.put(key, str(number), **given)
        self.sent[key] = number + 1

    def _run(self) -> None:
        while not self.ended.wait(self.pause):
            for key in self.sent:
                self.put(key)

    def __enter__(self) -> Self:
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.ended.set()
        self.thread.join(10)


@contextlib.contextmanager
def spoolers(
    count: int, folder: Path, url: str, endpoint: str, env: dict[str, str]
) -> Iterator[list[Process]]:
    """Run spoolers, each with a folder of its own."""
    running = [Process(folder / f"host-{number}", url, endpoint, env=env) for number in range(count)]
    try:
        yield running
    finally:
        for process in running:
            process.close()


def said(running: Sequence[Process], begin: float) -> str:
    """All lines of spoolers in order, with seconds since a time."""
    lines = sorted((at, each.folder.name, line) for each in running for at, line in list(each.said))
    return "\n".join(f"{at - begin:8.2f} {name}: {line}" for at, name, line in lines)


def holder(running: Sequence[Process], within: float = 20.0) -> Process:
    """The one that holds the lease, once there is one."""
    begin = time.monotonic()
    while True:
        found = [each for each in running if each.process.poll() is None and each.state == "holding"]
        if len(found) == 1:
            return found[0]
        assert time.monotonic() < begin + within, said(running, begin)
        time.sleep(0.02)


def publish(endpoint: str, names: Sequence[str]) -> None:
    """Publish until a line comes, then one more on each key for each further line; print what was sent."""
    config = {"mode": "client", "connect/endpoints": [endpoint]}
    with zenoh.open(config) as session:
        publishers = Publishers(session, [f"shared/number/{name}" for name in names])
        with publishers:
            print("publishing", flush=True)
            sys.stdin.readline()
        while True:
            for key in publishers.sent:
                publishers.put(key)
            session.flush(10)
            print(json.dumps(publishers.sent), flush=True)
            if not sys.stdin.readline():
                return


if __name__ == "__main__":
    if sys.argv[1] == "publish":
        publish(sys.argv[2], sys.argv[3:])
    else:
        Sums(sys.argv[2], json.loads(sys.stdin.readline())).check()
