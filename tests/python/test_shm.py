"""Payloads in shared memory: loans, the names of ``zenoh.shm``, and processes that die, stop or fork."""

import asyncio
import contextlib
import fcntl
import gc
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import nodes
from zwire import aio, zenoh
from zwire.zenoh import shm

LARGE = 100_000

# A process of each test: what it has to say is lines of output. `feed` publishes frames until it is killed,
# `hold` keeps all that it gets, `route` passes it on.
PROGRAM = """
import json, os, sys, time
import nodes
from zwire import zenoh

what, hub = sys.argv[1:3]
if what == "route":
    session = nodes.opened("router", listen=[hub])
    print("ready", flush=True)
    time.sleep(60)
users, user = json.loads(sys.argv[3]), int(sys.argv[4])
if user:
    # It may read no modules afterwards.
    nodes.opened("peer").close()
    os.setgroups([])
    os.setresgid(user, user, user)
    os.setresuid(user, user, user)
session = nodes.opened("client", connect=[hub], zwire__shared_memory__users=users)
if what == "feed":
    publisher = session.declare_publisher("frame", congestion_control=zenoh.CongestionControl.BLOCK)
    publisher.wait_matching(timeout=10)
    print("ready", flush=True)
    number = 0
    # Both ends may take seconds to decide about another user.
    pause = 0.005 if user else 0
    while True:
        number += 1
        publisher.put(bytes([number % 251]) * 100_000)
        time.sleep(pause)
elif what == "hold":
    kept = []
    subscriber = session.declare_subscriber("frame")
    subscriber.wait_ready(timeout=10)
    print("ready", flush=True)
    for sample in subscriber:
        kept.append(memoryview(sample.payload))
        first = kept[-1][0]
        if bytes(kept[-1]) != bytes([first]) * len(kept[-1]):
            print("torn", flush=True)
        if len(kept) == 300:
            print("full", flush=True)
        elif len(kept) > 300:
            kept.pop()
"""


def start(what, endpoint, users="[]", user=0):
    path = os.pathsep.join([str(Path(__file__).parents[1]), *sys.path])
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM, what, endpoint, users, str(user)],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": path},
    )


def end(process):
    process.kill()
    process.wait(10)
    process.stdout.close()


@pytest.fixture
def pair():
    """A client of a node that listens, and a subscriber of that node which gets payloads in shared memory."""
    with nodes.opened("peer", listen=nodes.LOCAL) as far, nodes.client(far) as near:
        subscriber = far.declare_subscriber("x")
        warm(near, subscriber)
        yield near, subscriber


def warm(near, subscriber, key="x"):
    """Put until a payload arrives in shared memory; the subscriber has taken all of them."""

    subscriber.wait_ready(timeout=10)
    with near.declare_publisher(key, congestion_control=zenoh.CongestionControl.BLOCK) as publisher:
        publisher.wait_matching(timeout=10)

        def arrived():
            publisher.put(b"w" * LARGE)
            return next_of(subscriber).as_shm()

        nodes.eventually(arrived, "a payload in shared memory")


def next_of(subscriber):
    return subscriber.recv(timeout=10).payload


def test_numpy_reads_a_payload_without_a_copy(pair):
    near, subscriber = pair
    frame = np.arange(30_000, dtype="float32").reshape(100, 300)
    near.put("x", frame)
    payload = subscriber.recv(timeout=10).payload
    read = np.frombuffer(payload, dtype="float32").reshape(100, 300)
    assert payload.as_shm().is_valid()
    assert (read == frame).all()
    assert not read.flags.writeable
    assert bytes(payload.as_shm()) == frame.tobytes() == bytes(payload)
    # The array holds the memory, whatever follows.
    del payload
    for mark in range(1000):
        near.put("x", bytes([mark % 256]) * LARGE)
        subscriber.recv(timeout=10)
    assert (read == frame).all()


def test_a_loan_is_written_sent_and_then_read_only(pair):
    near, subscriber = pair
    publisher = near.declare_publisher("x")
    loan = publisher.loan((200, 300), "uint16")
    assert (loan.nbytes, len(loan), loan.shared, loan.sent) == (120_000, 120_000, True, False)
    loan.array[:] = 7
    loan.array[3, 4] = 8
    array = loan.array
    publisher.put(loan)
    assert loan.sent
    payload = subscriber.recv(timeout=10).payload
    read = np.frombuffer(payload, dtype="uint16").reshape(200, 300)
    assert payload.as_shm()
    assert read[3, 4] == 8
    assert read.sum() == 7 * 60_000 + 1
    with pytest.raises(ValueError, match="read-only"):
        array[0, 0] = 1
    with pytest.raises(TypeError, match="read-only"):
        loan[0] = 1
    with pytest.raises(ValueError, match="read-only"):
        loan.array[0, 0] = 1
    with pytest.raises(TypeError):
        memoryview(loan)[0] = 1
    # Again, unchanged, to another key and beside the first one.
    near.put("x", loan)
    assert subscriber.recv(timeout=10).payload == payload


def test_a_loan_with_views_that_can_write_is_not_sent(session):
    loan = session.loan(1000)
    view = memoryview(loan)
    with pytest.raises(BufferError, match="still exists"):
        session.put("x", loan)
    view.release()
    slice_of = loan.array[:10]
    with pytest.raises(BufferError, match="still exists"):
        session.put("x", loan)
    del slice_of
    loan[0:4] = b"head"
    assert (bytes(loan[0:4]), loan[3]) == (b"head", ord("d"))
    session.put("x", loan)
    assert bytes(loan)[:4] == b"head"


def test_loans_that_are_dropped_are_free_again(session):
    for _ in range(1000):
        loan = session.loan(4_000_000)
        assert loan.shared
    del loan
    kept = []
    while (loan := session.loan(4_000_000)).shared:
        kept.append(loan)
        assert len(kept) <= 16
    # Without room it is memory of this process, and works the same.
    loan[0:2] = b"ok"
    session.put("x", loan)
    assert bytes(loan)[:2] == b"ok"


def test_wrong_loans_are_refused(session):
    for shape, dtype in [("x", None), (-1, None), (1.5, None), ((2, -3), "uint8"), ((2, 3), "no type")]:
        with pytest.raises((TypeError, ValueError, OverflowError)):
            session.loan(shape, dtype)
    with pytest.raises(ValueError, match="references to objects"):
        session.loan((2, 3), object)
    with pytest.raises(MemoryError):
        session.loan((2**40, 2**40), "uint8")
    with pytest.raises(MemoryError):
        session.loan(2**62)
    assert len(session.loan(0)) == 0
    assert session.loan((3, 0), "float64").array.shape == (3, 0)


def test_loans_in_event_loops(hub):
    async def main():
        config = nodes.settings("client", connect=hub.listening())
        async with await aio.open(config) as session:
            publisher = await session.declare_publisher("x")
            subscriber = await session.declare_subscriber("x")
            loan = publisher.loan(10)
            loan[0:10] = b"0123456789"
            await publisher.put(loan)
            sample = await anext(aiter(subscriber))
            assert bytes(sample.payload) == b"0123456789"
            assert session.loan(5).nbytes == 5

    asyncio.run(asyncio.wait_for(main(), 20))


def test_the_names_of_the_peer(pair):
    near, subscriber = pair
    provider = shm.ShmProvider.default_backend(1 << 20)
    buffer = provider.alloc(LARGE, shm.BlockOn(shm.GarbageCollect(shm.Defragment())))
    assert isinstance(buffer, shm.ZShmMut)
    buffer[:] = b"a" * LARGE
    buffer[0] = ord("b")
    assert str(buffer)[:3] == "baa"
    assert bytes(buffer)[1] == ord("a")

    def arrived():
        near.put("x", buffer)
        return subscriber.recv(timeout=10).payload

    # The first one crosses the link, while the receiver maps the segment of the provider.
    nodes.eventually(lambda: arrived().as_shm(), "a shared payload")
    payload = arrived()
    found = payload.as_shm()
    assert isinstance(found, shm.ZShm)
    assert found.is_valid()
    assert str(found) == str(buffer)
    # Put on: the memory of the provider, through another session.
    near.put("x", zenoh.ZBytes(found))
    assert bytes(subscriber.recv(timeout=10).payload) == bytes(buffer)
    assert zenoh.ZBytes(b"x" * LARGE).as_shm() is None


def test_a_provider_has_a_bound():
    provider = shm.ShmProvider.default_backend(shm.MemoryLayout(1 << 20, shm.AllocAlignment.ALIGN_8_BYTE))
    assert provider.available == 1 << 20
    kept = [provider.alloc((1 << 18, shm.AllocAlignment.ALIGN_8_BYTE)) for _ in range(4)]
    assert provider.available == 0 == provider.garbage_collect_unsafe()
    for policy in (shm.JustAlloc(), shm.GarbageCollect(safe=False), shm.Deallocate(shm.Defragment())):
        with pytest.raises(zenoh.ZError, match="no shared memory for 1 bytes"):
            provider.alloc(1, policy)
    with pytest.raises(zenoh.ZError):
        provider.alloc((1 << 20) + 1, shm.BlockOn())
    kept.pop()
    assert len(provider.alloc(1 << 18)) == 1 << 18
    with pytest.raises(zenoh.ZError):
        provider.alloc((128, shm.AllocAlignment(7)))
    with pytest.raises(TypeError):
        shm.ShmProvider()


def test_a_blocked_allocation_goes_on_when_a_receiver_returns_memory(pair):
    near, subscriber = pair
    provider = shm.ShmProvider.default_backend(LARGE + 64)
    held = []

    def shared():
        held.clear()
        near.put("x", provider.alloc(LARGE, shm.BlockOn()))
        held.append(subscriber.recv(timeout=10))
        return held[0].payload.as_shm()

    # The segment of the provider is new to the receiver, which gets bytes until it has mapped it.
    nodes.eventually(shared, "a shared payload")
    with pytest.raises(zenoh.ZError):
        provider.alloc(LARGE)
    held.clear()
    gc.collect()
    assert len(provider.alloc(LARGE, shm.BlockOn())) == LARGE


def test_nothing_has_a_name_in_the_file_system(pair):
    def found():
        folder = Path("/dev/shm")
        return {path.name for path in folder.iterdir()} if folder.exists() else set()

    before = found()
    near, subscriber = pair
    near.put("x", b"y" * LARGE)
    held = subscriber.recv(timeout=10)
    assert held.payload.as_shm()
    assert not [name for name in found() - before if "zwire" in name]


def test_a_receiver_that_is_killed_or_stopped_costs_only_what_it_holds(hub):
    holder = start("hold", hub.listening()[0])
    try:
        assert holder.stdout.readline() == "ready\n"
        with nodes.client(hub) as near, nodes.client(hub) as other:
            subscriber = other.declare_subscriber("frame")
            warm(near, subscriber, "frame")
            publisher = near.declare_publisher("frame", congestion_control=zenoh.CongestionControl.DROP)
            for number in range(300):
                publisher.put(bytes([number % 251]) * LARGE)
                assert bytes(subscriber.recv(timeout=10).payload) == bytes([number % 251]) * LARGE
            os.kill(holder.pid, signal.SIGSTOP)
            kept = []
            for _ in range(5):
                publisher.put(b"k" * LARGE)
                kept.append(subscriber.recv(timeout=10).payload)
            for number in range(300):
                publisher.put(bytes([number % 251]) * LARGE)
                assert bytes(subscriber.recv(timeout=10).payload) == bytes([number % 251]) * LARGE
            end(holder)
            # All that it held is back, here and at the router.
            del kept
            blocking = near.declare_publisher("frame", congestion_control=zenoh.CongestionControl.BLOCK)
            nodes.eventually(lambda: lends(blocking, subscriber), "the memory of the holder", within=5)
    finally:
        end(holder)


def lends(publisher, subscriber):
    """Whether a link can have its share of the pool on loan again: 24 MiB of 64 behind a router."""
    frames = 24
    for _ in range(frames):
        publisher.put(b"f" * 1_000_000)
    found = [subscriber.recv(timeout=10) for _ in range(frames)]
    return sum(bool(sample.payload.as_shm()) for sample in found) >= frames - 2


def test_a_payload_of_a_sender_that_was_killed_stays_what_it_was(hub):
    with nodes.client(hub) as near:
        subscriber = near.declare_subscriber("frame", zenoh.handlers.RingChannel(4))
        kept = []
        for _ in range(3):
            feeder = start("feed", hub.listening()[0])
            try:
                assert feeder.stdout.readline() == "ready\n"
                nodes.eventually(lambda: next_of(subscriber).as_shm() is not None, "a shared payload")
                kept += [subscriber.recv(timeout=10).payload for _ in range(3)]
            finally:
                end(feeder)
            time.sleep(0.2)
            while subscriber.try_recv():
                pass
        assert any(payload.as_shm() for payload in kept)
        for payload in kept:
            assert bytes(payload) == bytes(payload)[:1] * LARGE


def test_a_router_that_is_killed_frees_nothing_that_is_read_behind_it(router):
    near, far = (nodes.opened("client", connect=[router.endpoint]) for _ in range(2))
    with near, far:
        subscriber = far.declare_subscriber("x")
        warm(near, subscriber)
        near.put("x", b"r" * LARGE)
        payload = subscriber.recv(timeout=10).payload
        assert payload.as_shm()
        router.kill()
        router.wait(10)
        time.sleep(1)

        def write_to_all_that_is_free():
            kept = []
            while (loan := near.loan(LARGE)).shared:
                loan[:] = b"z" * LARGE
                kept.append(loan)
            return len(kept)

        lent = write_to_all_that_is_free()
        assert bytes(payload) == b"r" * LARGE
        del payload
        nodes.eventually(
            lambda: write_to_all_that_is_free() == lent + 1, "the memory of the payload", within=5
        )


@pytest.mark.parametrize("rounds", [4, pytest.param(200, marks=[pytest.mark.long, pytest.mark.timeout(900)])])
def test_processes_killed_at_any_moment_leave_nothing(rounds):
    """Seeded kills of publishers, subscribers and the router between them: what is held stays, no more."""
    chance = random.Random(15)

    def mappings():
        gc.collect()
        return Path("/proc/self/maps").read_text().count("memfd:zwire")

    def orphans():
        """Files of processes that do not exist any more: those of other tests are locked."""
        found = set()
        for path in Path("/dev/shm").glob("*.zenoh"):
            with contextlib.suppress(OSError), path.open("rb") as file:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                found.add(path)
        return found

    def kill_all():
        endpoint = f"tcp/127.0.0.1:{nodes.free_port()}"
        router = start("route", endpoint)
        assert router.stdout.readline() == "ready\n"
        processes = [start(name, endpoint) for name in ("feed", "feed", "hold", "hold")]
        with nodes.opened("client", connect=[endpoint]) as session:
            subscriber = session.declare_subscriber("frame", zenoh.handlers.RingChannel(8))
            time.sleep(chance.uniform(0.2, 0.9))
            kept = []
            for process in chance.sample([router, *processes], 5):
                os.kill(process.pid, signal.SIGKILL)
                if sample := subscriber.try_recv():
                    kept.append(memoryview(sample.payload))
                time.sleep(chance.uniform(0, 0.05))
            for process in (router, *processes):
                process.wait(10)
                assert "torn" not in process.stdout.read()
                process.stdout.close()
            assert all(bytes(frame) == bytes(frame[:1]) * LARGE for frame in kept)

    before, orphans_before = mappings(), orphans()
    for _ in range(rounds):
        kill_all()
    nodes.eventually(lambda: mappings() <= before, "mappings of killed processes are gone", within=3)
    nodes.eventually(lambda: orphans() <= orphans_before, "no file is left", within=2)


@pytest.mark.long
@pytest.mark.timeout(180)
def test_a_receiver_that_is_stopped_for_a_minute_keeps_what_it_holds(hub):
    holder = start("hold", hub.listening()[0])
    try:
        assert holder.stdout.readline() == "ready\n"
        with nodes.client(hub) as near:
            publisher = near.declare_publisher("frame", congestion_control=zenoh.CongestionControl.DROP)
            for number in range(310):
                publisher.put(bytes([number % 251]) * LARGE)
                time.sleep(0.002)
            assert holder.stdout.readline() == "full\n"
            os.kill(holder.pid, signal.SIGSTOP)
            end_of_stop = time.monotonic() + 60
            while time.monotonic() < end_of_stop:
                publisher.put(b"s" * LARGE)
                time.sleep(0.01)
            os.kill(holder.pid, signal.SIGCONT)
            time.sleep(1)
            assert holder.poll() is None
    finally:
        holder.kill()
        holder.wait(10)
        assert "torn" not in holder.stdout.read()
        holder.stdout.close()


def test_a_receiver_that_keeps_ten_thousand_payloads_costs_only_them(hub):
    with nodes.client(hub) as near, nodes.client(hub) as other, nodes.client(hub) as third:
        kept = []
        subscriber = other.declare_subscriber("x")
        warm(near, subscriber)
        # Only now: payloads of the warm-up could come to it later than to the other one.
        keeper = third.declare_subscriber("x", kept.append)
        keeper.wait_ready(timeout=10)
        publisher = near.declare_publisher("x", congestion_control=zenoh.CongestionControl.BLOCK)
        lent = 0
        for number in range(10_000):
            publisher.put(number.to_bytes(4, "little") * 5_000)
            sample = subscriber.recv(timeout=10)
            assert bytes(memoryview(sample.payload)[-4:]) == number.to_bytes(4, "little")
            lent += sample.payload.as_shm() is not None
        nodes.eventually(lambda: len(kept) == 10_000, "all have come")
        # The other one does not notice: what it returns is lent to it again.
        assert lent > 9_000
        for number, sample in enumerate(kept):
            assert bytes(memoryview(sample.payload)[:4]) == number.to_bytes(4, "little")
        keeper.undeclare()


def test_a_thousand_publishers(pair):
    near, subscriber = pair
    publishers = [
        near.declare_publisher("x", congestion_control=zenoh.CongestionControl.BLOCK) for _ in range(1000)
    ]
    lent = 0
    for number, publisher in enumerate(publishers):
        publisher.put(number.to_bytes(4, "little") * 5_000)
        payload = subscriber.recv(timeout=10).payload
        assert bytes(payload) == number.to_bytes(4, "little") * 5_000
        lent += payload.as_shm() is not None
    assert lent == 1000


def test_a_child_of_a_fork_reads_and_frees_nothing_of_its_parent(pair):
    near, subscriber = pair
    near.put("x", b"p" * LARGE)
    payload = subscriber.recv(timeout=10).payload
    loan = near.loan(LARGE)
    assert payload.as_shm()
    assert loan.shared
    child = os.fork()
    if child == 0:
        try:
            good = bytes(payload) == b"p" * LARGE
            del payload, loan
            gc.collect()
            with pytest.raises(zenoh.ZError):
                near.loan(10)
            os._exit(0 if good else 1)
        finally:
            os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    for mark in range(1000):
        near.put("x", bytes([mark % 256]) * LARGE)
        subscriber.recv(timeout=10)
    assert bytes(payload) == b"p" * LARGE
    loan[:] = b"l" * LARGE
    near.put("x", loan)
    assert bytes(subscriber.recv(timeout=10).payload) == b"l" * LARGE


OTHER = 12_345


@pytest.mark.parametrize(
    ("here", "there", "shares"), [([OTHER], [0], True), ([], [0], False), ([OTHER], [], False)]
)
def test_a_process_of_another_user(here, there, shares):
    """It shares memory where both sides allow the other, and gets all payloads anyway."""
    if os.geteuid() != 0:
        pytest.skip("only root becomes another user")
    with nodes.opened("peer", listen=nodes.LOCAL, zwire__shared_memory__users=here) as session:
        subscriber = session.declare_subscriber("frame", zenoh.handlers.RingChannel(4))
        process = start("feed", session.listening()[0], repr(there), OTHER)
        try:
            expected = {"on"} if shares else {"user", "unreachable", "timed_out", "protocol"}
            nodes.eventually(
                lambda: (
                    {link["lending"] for link in session.stats()["per_link"]} <= expected
                    and subscriber.try_recv() is not None
                ),
                "both ends have decided",
                within=10,
            )
            if shares:
                nodes.eventually(lambda: next_of(subscriber).as_shm() is not None, "a shared payload")
            else:
                assert not any(next_of(subscriber).as_shm() for _ in range(50))
        finally:
            end(process)


def test_statistics_say_whether_and_why_not(pair):
    near, subscriber = pair
    near.put("x", b"s" * LARGE)
    subscriber.recv(timeout=10)
    stats = near.stats()
    link = stats["per_link"][0]
    assert link["lending"] == "on"
    assert link["tx_lent"] > 0
    assert stats["link.tx_lent"] == link["tx_lent"]
    far = nodes.opened("peer", listen=nodes.LOCAL)
    with far, nodes.client(far, transport__shared_memory__enabled=False) as off:
        nodes.eventually(lambda: off.stats()["per_link"], "the link")
        assert off.stats()["per_link"][0]["lending"] == "off"


def test_a_full_pool_is_counted_and_loses_nothing():
    settings = {"transport__shared_memory__transport_optimization__pool_size": 1 << 20}
    with nodes.opened("peer", listen=nodes.LOCAL) as far, nodes.client(far, **settings) as near:
        subscriber = far.declare_subscriber("x")
        warm(near, subscriber)
        kept = []
        for number in range(100):
            near.put("x", bytes([number]) * LARGE, congestion_control=zenoh.CongestionControl.BLOCK)
            kept.append(subscriber.recv(timeout=10).payload)
        # Half of the pool is the share of a link.
        assert near.stats()["link.tx_unlent"] > 80
        assert [bytes(payload)[:1] for payload in kept] == [bytes([number]) for number in range(100)]
        # One above the bound never fits.
        near.put("x", b"z" * (2 << 20), congestion_control=zenoh.CongestionControl.BLOCK)
        assert len(subscriber.recv(timeout=10).payload) == 2 << 20
        assert near.stats()["lending.pool_full"] > 0
