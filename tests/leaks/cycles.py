"""Opens, uses and closes sessions many times, and reports the growth of the process.

``python tests/leaks/cycles.py --cycles 10000`` is what ``make leaks`` runs: one line for each tenth of the
way, and exit code 1 when memory, threads or descriptors have not stayed flat.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import os
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from zwire import zenoh
from zwire.errors import SessionClosed
from zwire.zenoh.handlers import BatchCallback, Callback, LatestChannel

if TYPE_CHECKING:
    from collections.abc import Callable

# How long one wait of a cycle may take, in seconds.
PATIENCE = 10.0

# Share of the cycles before measuring: in them allocators, caches and tables grow to their size.
WARM = 0.3

# Bytes that a cycle may leave behind on average: one callback or session that is forgotten in each cycle is
# far more than this.
PER_CYCLE = 256

# Tolerance in bytes for the coming and going of pages.
SLACK = 2 << 20


class Held(NamedTuple):
    """Resources of the process: resident bytes, threads, open descriptors."""

    memory: int
    threads: int
    descriptors: int

    @classmethod
    def now(cls) -> Held:
        """Measure, after all garbage was collected."""
        gc.collect()
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        tasks, files = (len(list(Path("/proc/self", what).iterdir())) for what in ("task", "fd"))
        return cls(pages * os.sysconf("SC_PAGE_SIZE"), tasks, files)


def opened(endpoint: str, number: int) -> zenoh.Session:
    """Every third session is a peer that listens itself."""
    config: dict[str, object] = {"connect/endpoints": [endpoint], "scouting/multicast/enabled": False}
    if number % 3:
        config["mode"] = "client"
    else:
        config.update({"mode": "peer", "listen/endpoints": ["tcp/127.0.0.1:0"]})
    return zenoh.open(config)


def cycle(endpoint: str, number: int) -> None:
    """Open a session, declare and use each kind of entity once, and end it in one of four ways."""
    session = opened(endpoint, number)
    called, ended = threading.Event(), threading.Semaphore(0)
    key = f"leaks/{number}"

    def hear(_: object) -> None:
        called.set()

    def answer(query: zenoh.Query) -> None:
        # The last one may come when the session is closed already.
        with contextlib.suppress(SessionClosed):
            query.reply(key, b"yes")

    subscriber = session.declare_subscriber(key)
    latest = session.declare_subscriber("leaks/*", LatestChannel(10))
    kept: list[object] = [
        session.declare_subscriber(key, Callback(hear, ended.release)),
        session.declare_subscriber("leaks/*", BatchCallback(len, ended.release)),
        session.declare_queryable(key, Callback(answer, ended.release)),
        session.liveliness().declare_token(key),
        session.liveliness().declare_subscriber("leaks/*", hear),
        session.declare_querier(key),
    ]
    publisher = session.declare_publisher(key)
    kept.append(publisher.declare_matching_listener(hear))
    publisher.put(bytes(1000))
    if len(subscriber.recv(timeout=PATIENCE).payload) != 1000 or not called.wait(PATIENCE):
        raise AssertionError(number)
    if [bytes(reply.ok.payload) for reply in session.get(key, timeout=PATIENCE) if reply.ok] != [b"yes"]:
        raise AssertionError(number)
    session.get(key, Callback(lambda reply: None, ended.release), timeout=PATIENCE)
    waiter = threading.Thread(target=wait, args=(latest,))
    waiter.start()
    match number % 4:
        case 0:
            session.close()
        case 1:
            with session:
                pass
        case 2:
            # Closed within a callback.
            session.declare_subscriber("end", lambda sample: session.close())
            session.put("end", b"")
        case 3:
            threading.Thread(target=session.close, args=(PATIENCE,)).start()
    waiter.join(PATIENCE)
    for _ in range(4):
        if not ended.acquire(timeout=PATIENCE):
            raise AssertionError(number)
    session.close()


def wait(channel: zenoh.Subscriber[zenoh.Handler[zenoh.Sample]]) -> None:
    """Take items until the session is closed."""
    with contextlib.suppress(SessionClosed):
        while True:
            channel.recv()


def settled(router: zenoh.Session) -> Held:
    """The resources held once links and idle threads have gone."""
    end = time.monotonic() + PATIENCE
    while router.info.links() or "zwire-callback" in names():
        if time.monotonic() > end:
            raise AssertionError(f"still there: {router.info.links()}, {names()}")
        time.sleep(0.02)
    return Held.now()


def names() -> list[str]:
    """The names of the threads."""
    found = []
    for task in Path("/proc/self/task").iterdir():
        try:
            found.append((task / "comm").read_text().strip())
        except (FileNotFoundError, ProcessLookupError):
            # It has ended meanwhile.
            continue
    return found


def problems(first: Held, last: Held, cycles: int) -> list[str]:
    """The resources that have grown in so many cycles by more than allowed."""
    found = []
    if last.memory - first.memory > SLACK + cycles * PER_CYCLE:
        found.append(f"memory has grown by {(last.memory - first.memory) / cycles:.0f} bytes a cycle")
    if last.threads > first.threads:
        found.append(f"{last.threads - first.threads} more threads")
    if last.descriptors > first.descriptors:
        found.append(f"{last.descriptors - first.descriptors} more descriptors")
    return found


def run(cycles: int, report: Callable[[str], object]) -> list[str]:
    """Run the cycles; return the problems."""
    hub = {"mode": "router", "listen/endpoints": ["tcp/127.0.0.1:0"], "scouting/multicast/enabled": False}
    warm = max(1, int(cycles * WARM))
    with zenoh.open(hub) as router:
        endpoint = router.listening()[0]
        first = Held.now()
        for number in range(1, cycles + 1):
            cycle(endpoint, number)
            if number == warm:
                first = settled(router)
            if number % max(1, cycles // 10) == 0:
                held = Held.now()
                report(
                    f"{number:>7} cycles: {held.memory / 2**20:7.1f} MiB, {held.threads} threads, "
                    f"{held.descriptors} descriptors"
                )
        return problems(first, settled(router), cycles - warm)


def main() -> int:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description="Opens and closes sessions, and says what has grown.")
    parser.add_argument("--cycles", type=int, default=10_000, help="how often (%(default)s)")
    found = run(parser.parse_args().cycles, print)
    for problem in found:
        print(f"NOT FLAT: {problem}")
    if not found:
        print("flat")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
