#!/usr/bin/env python3
"""One trial of `zre.py`, in its network namespace: prints what it has measured as a line of JSON."""

from __future__ import annotations

import json
import multiprocessing as mp
import os
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from zwire import zre

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

GROUP = "BENCH"
SIZE = 64
STRIDE = 64
# Until all know each other, and until the last message has come.
PATIENCE = 30.0
# Both sides may have so many messages waiting; a shouter that is faster than its hearers must not lose any.
HIGH_WATER_MARK = 1_000_000
CHUNK = 4096


def hear(fan: int, pipe: Connection) -> None:
    """Be so many nodes in the group; count what they hear until told how much that has to be."""
    nodes = [zre.Node(f"hearer{number}", queue=1_000_000) for number in range(fan)]
    for node in nodes:
        node.join(GROUP)
        node.start()
    pipe.send("up")
    pipe.recv()
    for node in nodes:
        while node.recv_many(1000, 0):
            pass
    pipe.send("ready")
    count, first, last, due, deadline = 0, 0.0, 0.0, None, 0.0
    while due is None or (count < due and time.monotonic() < deadline):
        before = count
        for node in nodes:
            kinds = pa.record_batch(node.recv_batch(timeout=0)).column("type")
            count += pc.sum(pc.equal(kinds, "SHOUT")).as_py() or 0
        if count > before:
            last = time.perf_counter()
            first = first or last
        else:
            time.sleep(0.001)
        if due is None and pipe.poll():
            due, deadline = pipe.recv(), time.monotonic() + PATIENCE
    pipe.send({"heard": count, "seconds": last - first, "cpu": time.process_time()})
    for node in nodes:
        node.stop(0)


def shout_zwire(way: str, fan: int, seconds: float, ready: Any) -> int:
    with zre.Node("shouter", high_water_mark=HIGH_WATER_MARK) as node:
        node.wait_for_peers(fan, PATIENCE, group=GROUP)
        ready()
        data, sent, end = bytes(SIZE), 0, time.perf_counter() + seconds
        batch = [data] * CHUNK
        while time.perf_counter() < end:
            if way == "batch":
                sent += node.shout_many(GROUP, batch).queued
            else:
                for _ in range(STRIDE):
                    sent += len(node.shout(GROUP, data).peers)
        if node.stats()["queue_full"]:
            raise RuntimeError("messages were lost")
        node.stop(PATIENCE)
    return sent


def shout_pyre(fan: int, seconds: float, ready: Any) -> int:
    import pyre

    node = pyre.Pyre("shouter")
    node.start()
    deadline = time.monotonic() + PATIENCE
    while len(node.peers_by_group(GROUP)) < fan:
        if time.monotonic() > deadline:
            raise TimeoutError("pyre does not see all nodes")
        time.sleep(0.05)
    ready()
    data, sent, end = bytes(SIZE), 0, time.perf_counter() + seconds
    while time.perf_counter() < end:
        for _ in range(STRIDE):
            node.shout(GROUP, data)
        sent += STRIDE * fan
        # It answers when it has sent everything before: otherwise thousands wait in its pipe.
        node.peers()
    node.stop()
    return sent


def shout(who: str, fan: int, seconds: float) -> dict[str, float]:
    """Messages per second that hearers hear, in another process; the same hearers for all."""
    context = mp.get_context("spawn")
    pipe, theirs = context.Pipe()
    process = context.Process(target=hear, args=(fan, theirs), daemon=True)
    process.start()

    def wait() -> Any:
        if not pipe.poll(PATIENCE):
            raise TimeoutError("the hearers do not answer")
        return pipe.recv()

    wait()

    def ready() -> None:
        # HELLO and JOIN are events as well.
        time.sleep(0.3)
        pipe.send("go")
        wait()

    began = time.process_time()
    if who == "pyre":
        sent = shout_pyre(fan, float(seconds), ready)
    else:
        sent = shout_zwire(who, fan, float(seconds), ready)
    pipe.send(sent)
    found = wait()
    process.join(PATIENCE)
    if found["heard"] != sent:
        raise RuntimeError(f"{sent} were sent, {found['heard']} were heard")
    cpu = time.process_time() - began + found["cpu"]
    return {"rate": found["heard"] / found["seconds"], "cpu": cpu / found["heard"]}


def enter(who: str) -> float:
    """Seconds from the start of a node until one that is there already sees it ENTER."""
    seen = threading.Event()
    if who == "zwire":
        with zre.Node("watcher", callback=lambda event: event.type == "ENTER" and seen.set()):
            time.sleep(0.3)
            begin = time.perf_counter()
            with zre.Node("newcomer"):
                if not seen.wait(PATIENCE):
                    raise TimeoutError("no ENTER")
                return time.perf_counter() - begin
    import pyre

    watcher, newcomer = pyre.Pyre("watcher"), pyre.Pyre("newcomer")
    watcher.start()
    time.sleep(0.3)
    begin = time.perf_counter()
    newcomer.start()
    while watcher.recv()[0] != b"ENTER":
        pass
    taken = time.perf_counter() - begin
    newcomer.stop()
    watcher.stop()
    return taken


def rss() -> int:
    """Bytes in memory."""
    return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")


def idle(count: int) -> dict[str, float]:
    """KiB per node that nobody has found, and threads of the process."""
    # The runtime and the first of everything belong to the process.
    zre.Node("first", beacons=False, bind="127.0.0.1").start()
    before = rss()
    nodes = [zre.Node(f"n{number}", beacons=False, bind="127.0.0.1") for number in range(int(count))]
    for node in nodes:
        node.start()
    time.sleep(0.2)
    threads = sum(1 for _ in Path("/proc/self/task").iterdir())
    return {"kib": (rss() - before) / 1024 / len(nodes), "threads": threads}


if __name__ == "__main__":
    command, *arguments = sys.argv[1:]
    if command == "shout":
        result: object = shout(arguments[0], int(arguments[1]), float(arguments[2]))
    elif command == "enter":
        result = enter(arguments[0])
    else:
        result = idle(int(arguments[0]))
    print(json.dumps(result))
