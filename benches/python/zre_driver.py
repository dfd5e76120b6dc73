#!/usr/bin/env python3
"""Runs a trial of `zre.py` in its network namespace, and prints the figures as a line of JSON."""

from __future__ import annotations

import json
import multiprocessing as mp
import os
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from zwire import zre

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

GROUP = "BENCH"
# Messages between two looks at the clock, and their bytes at most.
STRIDE = 64
STRIDE_BYTES = 16 << 20
# Time limit until all nodes know each other, and until the last message has come.
PATIENCE = 30.0
# Queue limit of both sides; a shouter that is faster than its hearers must not lose any message.
HIGH_WATER_MARK = 1_000_000
CHUNK = 4096
# Time in which pyre writes what it has queued.
DRAIN = 1.0


def hear(fan: int, pipe: Connection) -> None:
    """Be ``fan`` nodes in the group; count the messages they receive until all have come.

    They take no events, so that they cost as little as possible and the shouter is what is measured.
    """
    settings = {"queue": 16, "on_overflow": "drop_oldest"}
    nodes = [zre.Node(f"hearer{number}", **settings) for number in range(fan)]
    for node in nodes:
        node.join(GROUP)
        node.start()

    def heard(counter: str = "messages_in") -> int:
        return sum(node.stats()[counter] for node in nodes)

    pipe.send("up")
    pipe.recv()
    before, cpu = heard(), time.process_time()
    pipe.send("ready")
    count, last, due, deadline = 0, 0.0, None, 0.0
    while due is None or (count < due and time.monotonic() < deadline):
        time.sleep(0.005)
        now = heard() - before
        if now > count:
            count, last = now, time.perf_counter()
        if due is None and pipe.poll():
            due, deadline = pipe.recv(), time.monotonic() + PATIENCE
    gaps = heard("gaps")
    pipe.send({"heard": count, "gaps": gaps, "last": last, "cpu": time.process_time() - cpu})
    for node in nodes:
        node.stop(0)


def stride(size: int) -> int:
    return max(1, min(STRIDE, STRIDE_BYTES // size))


def shout_zwire(way: str, fan: int, seconds: float, size: int, ready: Any) -> tuple[float, int]:
    with zre.Node("shouter", high_water_mark=HIGH_WATER_MARK) as node:
        node.wait_for_peers(fan, PATIENCE, group=GROUP)
        ready()
        data, sent, first = bytes(size), 0, time.perf_counter()
        # The queue of a peer has a bound in bytes as well.
        patience = PATIENCE if size > STRIDE_BYTES // STRIDE else 0.0
        batch, end = [data] * CHUNK, first + seconds
        while time.perf_counter() < end:
            if way == "batch":
                sent += node.shout_many(GROUP, batch).queued
            else:
                for _ in range(stride(size)):
                    sent += node.shout(GROUP, data, patience=patience).queued
        if node.stats()["queue_full"]:
            raise RuntimeError("messages were lost")
        node.stop(PATIENCE)
    return first, sent


def shout_pyre(fan: int, seconds: float, size: int, ready: Any) -> tuple[float, int]:
    import pyre

    node = pyre.Pyre("shouter")
    node.start()
    deadline = time.monotonic() + PATIENCE
    while len(node.peers_by_group(GROUP)) < fan:
        if time.monotonic() > deadline:
            raise TimeoutError("pyre does not see all nodes")
        time.sleep(0.05)
    ready()
    data, sent, first = bytes(size), 0, time.perf_counter()
    end = first + seconds
    while time.perf_counter() < end:
        for _ in range(stride(size)):
            node.shout(GROUP, data)
        sent += stride(size) * fan
        # It answers when it has sent everything before: otherwise thousands of commands wait in its pipe.
        node.peers()
    # It drops what its sockets have not written when it stops.
    time.sleep(DRAIN)
    node.stop()
    return first, sent


def shout(who: str, fan: int, seconds: float, size: int) -> dict[str, float]:
    """Messages per second from the first shout until the last is received, by nodes in another process."""
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
        first, sent = shout_pyre(fan, seconds, size, ready)
    else:
        first, sent = shout_zwire(who, fan, seconds, size, ready)
    pipe.send(sent)
    found = wait()
    process.join(PATIENCE)
    # Hearers ping each other, too; but all messages are numbered.
    if found["heard"] < sent or found["gaps"]:
        raise RuntimeError(f"{sent} were sent, {found['heard']} were heard, {found['gaps']} gaps")
    cpu = time.process_time() - began + found["cpu"]
    return {"rate": sent / (found["last"] - first), "cpu": cpu / sent}


def enter(who: str) -> float:
    """Seconds from the start of a node until an existing node sees its ENTER."""
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
    """Resident bytes of this process."""
    return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")


def idle(count: int) -> dict[str, float]:
    """KiB per node that has found no peer, and threads of the process."""
    # The runtime and one-time costs belong to the process, not to a node.
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
        result: object = shout(arguments[0], int(arguments[1]), float(arguments[2]), int(arguments[3]))
    elif command == "enter":
        result = enter(arguments[0])
    else:
        result = idle(int(arguments[0]))
    print(json.dumps(result))
