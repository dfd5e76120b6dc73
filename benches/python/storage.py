"""Storages: puts into them, gets of one key, a wildcard get of many keys, and the start with many keys.

A router with the storage is one process, a client in another puts and queries over TCP of loopback. A trial
of puts ends when the storage has all of them: in memory when a query finds the last one, on the disk when
they are durable. The other side is the storage manager of Eclipse Zenoh with its volume in memory, in a
router of theirs. A client of zwire puts into both. Queries come from each one's own client, and for both from
that of zwire, where only the router and its storage differ.
"""

from __future__ import annotations

import importlib
import json
import os
import resource
import shutil
import tempfile
import time
from contextlib import ExitStack
from functools import partial
from statistics import median, quantiles
from typing import TYPE_CHECKING, Any

from python import zenohd
from python.children import Child, ChildError, children, free_port
from python.plan import OURS, THEIRS, interleaved, progress
from python.rows import Row, Trial

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from python.plan import Plan

AREA = "storage"
SIZE = 64
PUTS = 200_000
KEYS = 1_000_000
GETS = 5_000
BATCH = 4096
# Time limit of a trial.
PATIENCE = 60.0
QUIET = {"scouting/multicast/enabled": False}


class Server:
    """A router with a storage."""

    def __init__(self, endpoint: str) -> None:
        self.storage: Any = importlib.import_module("zwire.storage")
        zenoh: Any = importlib.import_module("zwire.zenoh")
        # Without losses: the link waits where the queue is full.
        settings = {
            "mode": "router",
            "listen/endpoints": [endpoint],
            "zwire/handler/block_deadline_ms": 60_000,
        }
        self.session = zenoh.open({**QUIET, **settings})
        self.folder = ""
        self.kept: Any = None

    def close(self) -> None:
        self.end()
        self.session.close()

    def begin(self, volume: str) -> None:
        """Start an empty storage."""
        if volume == "disk":
            self.folder = tempfile.mkdtemp(prefix="zwire-bench-")
        self._start()

    def _start(self) -> None:
        volume = self.storage.Disk(self.folder) if self.folder else self.storage.Memory()
        self.kept = self.storage.Storage(self.session, "bench/**", volume=volume)

    def wait(self, count: int) -> float:
        """Wait until so many samples are stored; return the processor time."""
        used, end = time.process_time(), time.monotonic() + PATIENCE
        while self.kept.stats()["received"] < count and time.monotonic() < end:
            time.sleep(0.001)
        self.kept.flush(PATIENCE)
        stats = self.kept.stats()
        if stats["stored"] != count or stats["dropped"]:
            raise ChildError(f"{stats['stored']} of {count} puts are stored, {stats['dropped']} were dropped")
        return time.process_time() - used

    def peak(self) -> int:
        """Greatest memory of the process so far, in octets."""
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024

    def restart(self) -> float:
        """Close the storage and start it again; return the seconds until a query is answered."""
        self.kept.close()
        begin = time.perf_counter()
        self._start()
        if not list(self.session.get("bench/0")):
            raise ChildError("the key is gone")
        return time.perf_counter() - begin

    def end(self) -> None:
        """End the storage, and delete its folder."""
        if self.kept is not None:
            self.kept.close()
            self.kept = None
        if self.folder:
            shutil.rmtree(self.folder)
            self.folder = ""


class Client:
    """Puts and queries."""

    def __init__(self, package: str, endpoint: str) -> None:
        self.arrow: Any = importlib.import_module("pyarrow")
        zenoh: Any = importlib.import_module(package)
        config = zenoh.Config()
        for key, value in {**QUIET, "mode": "client", "connect/endpoints": [endpoint]}.items():
            config.insert_json5(key, json.dumps(value))
        self.session = zenoh.open(config)

    def close(self) -> None:
        self.session.close()

    def put(self, count: int, begin: int = 0) -> None:
        """Put keys up to this number, in batches."""
        payload = os.urandom(SIZE)
        for first in range(begin, count, BATCH):
            numbers = range(first, min(first + BATCH, count))
            columns = {"key": [f"bench/{number}" for number in numbers], "payload": [payload] * len(numbers)}
            self.session.put_batch(self.arrow.record_batch(columns))

    def fill(self, count: int, first: int = 0) -> float:
        """Put keys up to this number, and return the seconds until a query finds the last one."""
        begin = time.perf_counter()
        self.put(count, first)
        while not list(self.session.get(f"bench/{count - 1}")):
            if time.perf_counter() - begin > PATIENCE:
                raise ChildError(f"the last of {count} puts is not stored")
        return time.perf_counter() - begin

    def get(self, count: int, keys: int) -> list[float]:
        """Query one key after the other; return the seconds of each get."""
        seconds = []
        for number in range(count):
            begin = time.perf_counter()
            replies = list(self.session.get(f"bench/{number * 7919 % keys}"))
            seconds.append(time.perf_counter() - begin)
            if len(replies) != 1 or not replies[0].ok:
                raise ChildError(f"{len(replies)} replies")
        return seconds

    def get_all(self, keys: int) -> float:
        """Query all keys at once; return the seconds."""
        begin = time.perf_counter()
        came = sum(1 for _ in self.session.get("bench/**", timeout=PATIENCE))
        if came != keys:
            raise ChildError(f"{came} of {keys} replies")
        return time.perf_counter() - begin


class Ours:
    """Storage of zwire, with a client."""

    def __init__(self, stack: ExitStack) -> None:
        endpoint = f"tcp/127.0.0.1:{free_port()}"
        self.server = Child("server", Server, endpoint)
        stack.enter_context(children(self.server))
        self.client = Child("client", Client, OURS, endpoint)
        stack.enter_context(children(self.client))

    def puts(self, count: int) -> Trial:
        """Fill an empty storage in memory."""
        self.server.call("begin", "memory")
        used = self.server.cpu()
        seconds = self.client.call("fill", count)
        used = self.server.cpu() - used
        self.server.call("wait", count)
        self.server.call("end")
        return Trial(count / seconds, used / count)

    def durable(self, count: int) -> Trial:
        """Fill an empty storage on the disk."""
        self.server.call("begin", "disk")
        begin = time.perf_counter()
        self.client.send("put", count)
        used = self.server.call("wait", count)
        seconds = time.perf_counter() - begin
        self.client.result()
        self.server.call("end")
        return Trial(count / seconds, used / count)

    def keep(self, keys: int) -> None:
        """Fill a storage in memory that stays."""
        self.server.call("begin", "memory")
        self.client.call("fill", keys)
        self.server.call("wait", keys)

    def peak(self) -> int:
        """Greatest memory of the router so far, in octets."""
        return int(self.server.call("peak"))


class Theirs:
    """Router of Eclipse Zenoh with a storage in memory, and a client of zwire."""

    def __init__(self, stack: ExitStack, program: str) -> None:
        endpoint = f"tcp/127.0.0.1:{free_port()}"
        storage = {"storages": {"bench": {"key_expr": "bench/**", "volume": "memory"}}}
        self.router = stack.enter_context(
            zenohd.running(program, listen={"endpoints": [endpoint]}, plugins={"storage_manager": storage})
        )
        self.client = Child("client of zwire", Client, OURS, endpoint)
        self.own = Child("client of theirs", Client, THEIRS, endpoint)
        stack.enter_context(children(self.client, self.own))

    def keep(self, keys: int) -> None:
        """Fill the storage in parts: their router stops reading when a million puts come at once."""
        for first in range(0, keys, PUTS):
            self.client.call("fill", min(first + PUTS, keys), first)

    def peak(self) -> int:
        """Greatest memory of the router so far, in octets."""
        return self.router.peak()


def _their_puts(program: str, count: int) -> Trial:
    """Fill their storage, in a fresh router."""
    with ExitStack() as stack:
        theirs = Theirs(stack, program)
        used = theirs.router.cpu()
        seconds = theirs.client.call("fill", count)
        used = theirs.router.cpu() - used
        theirs.client.call("get_all", count)
    return Trial(count / seconds, used / count)


def measure(plan: Plan) -> Iterator[Row]:
    """The rows of this area."""
    puts = Row(AREA, f"puts, {SIZE} B, memory", "msg/s", zenohd.PEER, target=2)
    disk = Row(
        AREA, f"puts, {SIZE} B, disk", "msg/s", "-", floor=80_000, note="until all of them are durable"
    )
    gets = Row(AREA, "gets of one key, one after the other, memory", "get/s", zenohd.PEER, target=2)
    same = Row(AREA, "gets of one key, client of zwire for both", "get/s", zenohd.PEER)
    slow = Row(
        AREA, "get of one key, 99th percentile, memory", "ms", zenohd.PEER, floor=1e-3, less_is_better=True
    )
    whole = Row(AREA, "wildcard get of all keys, memory", "reply/s", zenohd.PEER, target=2)
    both = Row(AREA, "wildcard get of all keys, client of zwire for both", "reply/s", zenohd.PEER)
    grown = Row(AREA, "memory of the router for that get", "MiB", zenohd.PEER, floor=64, less_is_better=True)
    start = Row(
        AREA, "start with all keys to the first answer, disk", "ms", "-", floor=5, less_is_better=True
    )
    rows = [puts, disk, gets, same, slow, whole, both, grown, start]
    if not plan.wants(*rows):
        return
    count, keys, asked = (PUTS // 20, KEYS // 100, GETS // 20) if plan.smoke else (PUTS, KEYS, GETS)
    program = zenohd.program(plan.smoke, puts, gets, whole)
    with ExitStack() as stack:
        progress(AREA)
        ours = Ours(stack)
        sides = [partial(ours.puts, count), partial(ours.durable, count)]
        sides += [partial(_their_puts, program, count)] if program else []
        for results in interleaved(plan.rounds, sides):
            for trials, result in zip((puts.ours, disk.ours, puts.theirs), results, strict=False):
                trials.append(result)
        ours.keep(keys)
        theirs = Theirs(stack, program) if program else None
        if theirs is not None:
            theirs.keep(keys)
        for _ in range(plan.rounds):
            found = _queries(ours.client, keys, asked, ours.peak)
            for row, trial in zip((gets, slow, whole, grown), found, strict=True):
                row.ours.append(trial)
            same.ours.append(found[0])
            both.ours.append(found[2])
            if theirs is None:
                continue
            found = _queries(theirs.own, keys, asked, theirs.peak)
            for row, trial in zip((gets, slow, whole, grown), found, strict=True):
                row.theirs.append(trial)
            found = _queries(theirs.client, keys, asked, theirs.peak)
            same.theirs.append(found[0])
            both.theirs.append(found[2])
        ours.server.call("end")
        ours.server.call("begin", "disk")
        ours.client.call("put", keys)
        ours.server.call("wait", keys)
        start.ours.extend(Trial(ours.server.call("restart")) for _ in range(plan.rounds))
        start.note = f"{keys:,} keys of {SIZE} B"
    yield from plan.chosen(rows)


def _queries(client: Child, keys: int, gets: int, peak: Callable[[], int]) -> tuple[Trial, ...]:
    """Query keys one after the other, then all at once.

    Returns:
        Gets per second, the time that one in a hundred exceeds, replies per second, and MiB of the router.
    """
    seconds = client.call("get", gets, keys)
    before = peak()
    whole = keys / client.call("get_all", keys)
    grown = (peak() - before) / (1 << 20)
    return Trial(1 / median(seconds)), Trial(quantiles(seconds, n=100)[98]), Trial(whole), Trial(grown)
