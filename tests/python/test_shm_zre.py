"""Frames of ZRE in shared memory: two nodes, processes that die or keep all frames, and peers without it."""

from __future__ import annotations

import hashlib
import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np
import pytest

import nodes
from zwire import zre

LARGE = 100_000
LOCAL = {"beacons": False, "bind": "127.0.0.1", "mailbox": 0}

# A process of each test. `keep` holds the first 600 frames that it gets, `feed` whispers to its first peer
# until it is killed, and both print what a test waits for.
PROGRAM = """
import os, sys, time
from zwire import zre

what, endpoint = sys.argv[1:3]
node = zre.Node("other", beacons=False, bind="127.0.0.1", mailbox=0, peers=[endpoint])
node.join("frames")
node.start()
(peer,) = node.wait_for_peers(1, 10)
print("ready", flush=True)
if what == "feed":
    number = 0
    while True:
        number = number % 250 + 1
        node.whisper(peer, bytes([number]) * 100_000, patience=5)
kept, count = [], 0
while True:
    event = node.recv(60)
    if event.type == "SHOUT":
        count += 1
        view = event.views[0]
        if len(view) == 1:
            print(count, node.stats()["frames_borrowed"], flush=True)
        elif bytes(view) != view[:1].tobytes() * len(view):
            print("torn", flush=True)
        elif what == "keep" and len(kept) < 600:
            kept.append(view)
"""


@contextmanager
def other(what: str, node: zre.Node):
    """Another process with a node that is a peer of this one."""
    path = os.pathsep.join([str(Path(__file__).parents[1]), *sys.path])
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, what, node.endpoint],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": path},
    )
    try:
        assert process.stdout.readline() == "ready\n"
        yield process
    finally:
        process.kill()
        process.wait(10)
        process.stdout.close()


@pytest.fixture
def pair():
    """Two nodes, the second one in a group of the first, to which it lends frames."""
    with made_pair() as (one, two):
        warm(one, two)
        yield one, two


@contextmanager
def made_pair(one=None, two=None):
    with zre.Node("one", **LOCAL, **(one or {})) as first:
        second = zre.Node("two", **LOCAL, **{"peers": [first.endpoint], **(two or {})})
        second.join("frames")
        with second:
            first.wait_for_peers(1, 10, group="frames")
            second.wait_for_peers(1, 10)
            yield first, second


def warm(one: zre.Node, two: zre.Node) -> None:
    """Shout until a frame arrives in shared memory."""

    def arrived() -> bool:
        one.shout("frames", b"w" * LARGE)
        nodes.event_of(two, zre.Shout)
        return two.stats()["frames_borrowed"] > 0

    nodes.eventually(arrived, "a frame in shared memory")


def descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def targets() -> set[str]:
    """What the descriptors of this process refer to, without the folder that tells it."""
    found = set()
    for entry in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):
            found.add(str(entry.readlink()))
    return {target for target in found if not target.startswith("/proc/")}


def shout_of(node: zre.Node) -> zre.Shout:
    return nodes.event_of(node, zre.Shout)


def test_a_frame_is_read_in_the_memory_of_its_sender(pair):
    one, two = pair
    before = one.stats()["frames_lent"]
    frame = np.arange(30_000, dtype="float32")
    one.shout("frames", [b"head", frame, b"", b"s" * 20_000])
    event = shout_of(two)
    assert [bytes(view) for view in event.views] == event.content
    assert event.content == [b"head", frame.tobytes(), b"", b"s" * 20_000]
    read = np.frombuffer(event.views[1], dtype="float32")
    assert (read == frame).all()
    assert not read.flags.writeable
    assert one.stats()["frames_lent"] == before + 2
    # The array holds the memory, whatever follows.
    del event
    for mark in range(1000):
        one.shout("frames", bytes([mark % 256]) * LARGE)
        shout_of(two)
    assert (read == frame).all()


@pytest.mark.parametrize("size", [0, 1, 16 * 1024 - 1, 16 * 1024, 70_000, 1 << 20, 9 << 20])
def test_any_size_arrives_whole(pair, size):
    one, two = pair
    content = os.urandom(size)
    before = two.stats()["frames_borrowed"]
    (peer,) = one.peers()

    def arrived() -> int:
        one.whisper(peer, content)
        event = nodes.event_of(two, zre.Whisper)
        assert hashlib.sha256(event.views[0]).digest() == hashlib.sha256(content).digest()
        return two.stats()["frames_borrowed"] - before

    if size < 16 * 1024:
        assert not arrived()
    else:
        # The first frame in a new segment crosses the socket, while the peer maps it.
        nodes.eventually(arrived, "a frame in shared memory")


def test_loans_of_a_session_and_batches(pair):
    one, two = pair
    with nodes.opened("peer") as session:
        loan = session.loan((100, 300), "float32")
        loan.array[:] = 7
        one.shout("frames", [loan])
        assert (np.frombuffer(shout_of(two).views[0], "float32") == 7).all()
    before = two.stats()["frames_borrowed"]
    sent = one.shout_many("frames", (bytes([mark]) * LARGE for mark in range(100)), patience=10)
    assert sent.queued == 100
    assert [shout_of(two).views[0][0] for _ in range(100)] == list(range(100))
    assert two.stats()["frames_borrowed"] > before


def test_under_curve():
    (public, secret), (_, other_secret) = zre.keypair(), zre.keypair()
    with zre.Node("one", **LOCAL, secret_key=secret) as one:
        two = zre.Node("two", **LOCAL, secret_key=other_secret, peers=[f"{one.endpoint}|{public}"])
        two.join("frames")
        with two:
            one.wait_for_peers(1, 10, group="frames")
            warm(one, two)


@pytest.mark.parametrize("side", ["one", "two"])
def test_without_shared_memory_on_one_side(side):
    with made_pair(**{side: {"shared_memory": False}}) as (one, two):
        for _ in range(5):
            one.shout("frames", b"x" * LARGE)
            assert shout_of(two).content == [b"x" * LARGE]
        assert one.stats()["frames_lent"] == two.stats()["frames_borrowed"] == 0
        assert one.stats()["frames_unlent"] == 0


def test_frames_without_room_cross_the_socket():
    with made_pair({"shared_memory_size": 4 << 20}) as (one, two):
        warm(one, two)
        kept = []
        for mark in range(100):
            one.shout("frames", bytes([mark]) * LARGE, patience=5)
            kept += shout_of(two).views
        assert one.stats()["frames_unlent"] > 50
        assert [view[0] for view in kept] == [view[-1] for view in kept] == list(range(100))
        kept.clear()
        warm(one, two)


def test_small_frames_open_no_channel():
    with made_pair() as (one, two):
        before = targets()
        for _ in range(100):
            one.shout("frames", b"x" * 1000)
            shout_of(two)
        # Sockets of earlier tests may be closed meanwhile.
        assert targets() <= before


def test_a_receiver_that_keeps_all_is_killed():
    with (
        zre.Node("one", **LOCAL, evasive=0.3, expired=1.5, ping_interval=0.3) as one,
        other("count", one) as counts,
    ):
        with other("keep", one) as keeps:
            one.wait_for_peers(2, 10, group="frames")
            for mark in range(800):
                assert one.shout("frames", bytes([mark % 250]) * LARGE, patience=10).queued == 2
            one.shout("frames", b"?", patience=10)
            for process in (keeps, counts):
                count, borrowed = map(int, process.stdout.readline().split())
                assert count == 801
                assert borrowed > 100
            keeps.send_signal(signal.SIGKILL)
            keeps.wait(10)
        nodes.eventually(lambda: len(one.peers()) == 1, "the end of the killed peer")
        before = one.stats()
        for mark in range(300):
            one.shout("frames", bytes([mark % 250]) * LARGE, patience=10)
        one.shout("frames", b"?", patience=10)
        assert int(counts.stdout.readline().split()[0]) == 1102
        assert one.stats()["frames_lent"] - before["frames_lent"] > 250


def test_what_a_killed_sender_has_lent_stays_readable():
    with zre.Node("one", **LOCAL) as one:
        kept = []
        with other("feed", one) as feeds:
            while one.stats()["frames_borrowed"] < 50:
                kept += nodes.event_of(one, zre.Whisper).views
            feeds.send_signal(signal.SIGKILL)
            feeds.wait(10)
        time.sleep(0.2)
        for view in kept:
            assert bytes(view) == bytes([view[0]]) * LARGE


def test_descriptors_are_closed_with_the_connection():
    with zre.Node("one", **LOCAL) as one:

        def meet() -> None:
            two = zre.Node("two", **LOCAL, peers=[one.endpoint])
            two.join("frames")
            with two:
                one.wait_for_peers(1, 10, group="frames")
                warm(one, two)
            nodes.eventually(lambda: not one.peers(), "the end of the peer")

        meet()
        before = descriptors()
        for _ in range(20):
            meet()
        nodes.eventually(lambda: descriptors() <= before, "descriptors as before")
