"""Shared memory with eclipse-zenoh: generations, directions, links, each message with a payload, faults."""

import contextlib
import fcntl
import functools
import os
import re
import signal
import socket
import struct
import time
from pathlib import Path

import pytest

from interop.certificates import Authority
from interop.harness import ECLIPSE, NINE, QUIET, ZWIRE, Peer, eventually, random_bytes, reached, shown
from interop.matrix import LINKS, Meeting, Pool, cells
from nodes import free_port

KIB, MIB = 1 << 10, 1 << 20
PEERS = [ECLIPSE, NINE]

# Below the smaller threshold, between both, and above.
SIZES = [1, 3071, 3072, 20_000, 64 * KIB, MIB, 8 * MIB]
# From here on zwire places payloads in shared memory, and eclipse-zenoh.
OURS, THEIRS = 16 * KIB, 3072


def is_placed(sender, size, came):
    """Whether a payload came as it should: between both bounds the binding may have copied a reply."""
    return came == (size >= OURS) or (THEIRS <= size < OURS and sender.implementation != ZWIRE)


METADATA, HANDSHAKE = 1_310_720, 12_288


def made(size, seed=0):
    return {"size": size, "seed": seed}


def payloads(samples):
    return [sample["payload"] for sample in samples]


def sent(*sizes):
    """The payloads of puts of these sizes, whose seeds are their numbers."""
    return [shown(random_bytes(size, seed)) for seed, size in enumerate(sizes)]


def warm(sender, receiver, name, key):
    """Puts until one came in shared memory: the pool of eclipse-zenoh is made with the first payloads."""

    def one():
        sender.put(key=key, payload=made(20_000), congestion_control="BLOCK")
        return any(sample["shm"] for sample in receiver.received(name=name, count=1, seconds=0.1))

    eventually("a payload comes in shared memory", one, within=10)
    # Those on their way have come when the last one has.
    sender.put(key=key, payload="last", congestion_control="BLOCK")
    eventually(
        "the last probe arrives",
        lambda: shown(b"last") in payloads(receiver.received(name=name, count=1, seconds=0.1)),
    )
    receiver.forget(name=name)


def attempts(nodes, what, attempt, within=60):
    """What the first attempt gives that was not in vain.

    Releases up to 1.9 take a payload back that waits for its reader for 100 to 200 ms, as on a busy
    machine. It is tried again only if a node of ours has counted such a payload.
    """
    old = any(node.implementation == NINE for node in nodes)

    def failed():
        return sum(n.stats()["link.rx_shm_failed"] for n in nodes if n.implementation == ZWIRE)

    end = time.monotonic() + within
    while True:
        before = failed()
        if found := attempt():
            return found
        taken_back = old and failed() > before
        assert taken_back, what
        assert time.monotonic() < end, what


def delivered(sender, receiver, payload, others=(), op="put", **options):
    """Put a payload; return it as it came at the subscriber ``sub``."""

    def attempt():
        getattr(sender, op)(key="k", payload=payload, within=60, **options)
        return receiver.received(name="sub", count=1, seconds=5, within=60)

    [sample] = attempts((sender, receiver, *others), f"{payload} arrives", attempt)
    receiver.forget(name="sub")
    assert sample["payload"] == shown(random_bytes(payload["size"], payload["seed"]))
    return sample["shm"]


BLOCK = {"congestion_control": "BLOCK"}


def watched(sender, receiver, name="sub", key="k"):
    receiver.watch(name=name, key=key)
    warm(sender, receiver, name, key)


@contextlib.contextmanager
def stopped(peer):
    """Stop a process, as a debugger or a machine that suspends does."""
    os.kill(peer.process.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(peer.process.pid, signal.SIGCONT)


def files_of(peer):
    """The files in /dev/shm that a process maps, by path."""
    maps = Path(f"/proc/{peer.process.pid}/maps").read_text()
    return {Path(path) for path in re.findall(r"/dev/shm/\d+\.zenoh", maps)}


def references(peer):
    """Counts of references above one in the metadata segments that a process maps, and counters under way."""
    found = []
    for path in files_of(peer):
        with contextlib.suppress(FileNotFoundError):
            size = path.stat().st_size
            if size == METADATA:
                headers = struct.iter_unpack("<I28x", path.read_bytes()[: 1 << 20])
                found += [count for (count,) in headers if count > 1]
            elif size == HANDSHAKE:
                found += [count for count in struct.unpack_from("<2810I", path.read_bytes(), 1048) if count]
    return found


@pytest.fixture(params=[(ZWIRE, peer) for peer in PEERS] + [(peer, ZWIRE) for peer in PEERS], ids="-".join)
def pair(request, net):
    """A hub and a client of it: one of them is ours, so that we accept and open."""
    hub, client = request.param
    hub = net.hub(hub)
    return hub, net.client(client, hub)


def asked_and_seen(sender, receiver, selector, payload):
    """Replies to a query and what its receiver has seen of it, or nothing if either is missing."""
    replies = sender.ask(selector=selector, payload=payload)
    seen = replies and receiver.received(name="echo", count=1, seconds=5)
    return seen and (replies, seen)


def test_each_message_both_ways(pair):
    for sender, receiver in (pair, pair[::-1]):
        watched(sender, receiver)
        receiver.echo(name="echo", key="q")
        eventually("the queryable is known", lambda s=sender: s.ask(selector="q", payload="probe"))
        # Each side has made its pool for queries and replies.
        for _ in range(3):
            sender.ask(selector="q", payload=made(MIB))
        for seed, size in enumerate(SIZES):
            assert is_placed(sender, size, delivered(sender, receiver, made(size, seed), **BLOCK))
        for seed, size in enumerate(SIZES):
            for selector in ("q", "q?err"):
                receiver.forget(name="echo")
                asked = functools.partial(asked_and_seen, sender, receiver, selector, made(size, seed))
                [reply], [*_, query] = attempts((sender, receiver), f"{size} bytes are answered", asked)
                assert reply["payload"] == query["payload"] == shown(random_bytes(size, seed))
                assert is_placed(sender, size, query["shm"])
                if selector == "q":
                    assert is_placed(receiver, size, reply["shm"])
        receiver.undeclare(name="sub")
        receiver.undeclare(name="echo")


def test_buffers_of_a_provider(pair):
    """They go by memory at any size; the largest do not fit into the implicit pool of eclipse-zenoh."""
    sizes = [1, 100, THEIRS, OURS, MIB, 64 * MIB]
    for sender, receiver in (pair, pair[::-1]):
        watched(sender, receiver)
        for seed, size in enumerate(sizes):
            assert delivered(sender, receiver, made(size, seed), op="provide"), size
        delivered(sender, receiver, made(64 * MIB), **BLOCK)
        receiver.undeclare(name="sub")


def test_nothing_stays_counted(pair):
    for sender, receiver in (pair, pair[::-1]):
        watched(sender, receiver)
        for seed in range(50):
            delivered(sender, receiver, made(100_000, seed), **BLOCK)
        receiver.undeclare(name="sub")
    hub, client = pair
    # Our lender keeps one reference for itself; both sides give theirs back.
    eventually("references are given back", lambda: not (references(hub) or references(client)), within=10)


@pytest.mark.parametrize(
    ("middle", "outer"), [*((ZWIRE, peer) for peer in PEERS), *((peer, ZWIRE) for peer in PEERS)]
)
def test_a_router_between(net, middle, outer):
    hub = net.hub(middle)
    sender, receiver = net.client(outer, hub), net.client(outer, hub)
    watched(sender, receiver)
    for seed, size in enumerate(SIZES):
        shm = delivered(sender, receiver, made(size, seed), [hub], **BLOCK)
        # A router of ours passes large ones on by memory.
        assert shm or size < OURS


def test_subscribers_of_every_kind(net):
    hub = net.hub(ZWIRE)
    sender = net.client(ZWIRE, hub)
    receivers = [net.client(each, hub) for each in (ZWIRE, *PEERS, ECLIPSE, ZWIRE)]
    plain = net.client(ECLIPSE, hub, **{"transport/shared_memory/enabled": False})
    for receiver in receivers:
        watched(sender, receiver)
    plain.watch(name="sub", key="k")
    eventually(
        "a put arrives",
        lambda: sender.put(key="k", payload="p") or plain.received(name="sub", count=1, seconds=0.1),
    )
    time.sleep(0.2)
    for receiver in (*receivers, plain):
        receiver.forget(name="sub")
    # In the first round neighbours of zwire map the segments, while payloads cross the links.
    for mapped in (False, True):
        for seed in range(20):
            sender.put(key="k", payload=made(MIB, seed), congestion_control="BLOCK")
        for receiver in (*receivers, plain):
            came = receiver.received(name="sub", count=20, seconds=20, within=60)
            receiver.forget(name="sub")
            assert payloads(came) == sent(*20 * [MIB])
            in_memory = sum(sample["shm"] for sample in came)
            assert in_memory == 0 if receiver is plain else in_memory >= 15 or not mapped
        time.sleep(0.3)


@pytest.fixture(scope="module")
def pool(tmp_path_factory):
    folder = tmp_path_factory.mktemp("shm")
    pool = Pool(folder, Authority(folder))
    yield pool
    pool.end()


# One pair of roles of each kind on each link, most of them in `make test-long`. Datagrams lose descriptions,
# whose payloads would stay counted.
ROLES = {("client", "router"), ("router", "client"), ("peer", "peer")}


def is_short(cell):
    return cell.link == "tcp" or (cell.ours, cell.listener) == ("peer", ZWIRE)


CELLS = [
    pytest.param(cell, id=str(cell), marks=[] if is_short(cell) else [pytest.mark.long])
    for foreign in PEERS
    for cell in cells([*LINKS, "quic-one"], foreign, roles=ROLES)
]


@pytest.mark.parametrize("cell", CELLS)
def test_each_link(pool, cell):
    with pool.peers(ZWIRE, cell.foreign) as nodes:
        pair = Meeting(pool, cell, *nodes)
        for receiver in nodes:
            sender = receiver.other
            receiver.watch(name="sub", key="k")
            if pair.link.reliable:
                warm(sender, receiver, "sub", "k")
                assert delivered(sender, receiver, made(MIB), **BLOCK)
            else:
                came = eventually(
                    "puts arrive",
                    lambda s=sender, r=receiver: (
                        s.put(key="k", payload=made(20_000))
                        or r.received(name="sub", count=3, seconds=0.1)[2:]
                    ),
                )
                assert not any(sample["shm"] for sample in came)
            receiver.undeclare(name="sub")


@pytest.mark.parametrize("off", [ZWIRE, "them"])
@pytest.mark.parametrize("peer", PEERS)
def test_one_side_is_off(net, peer, off):
    switch = {"transport/shared_memory/enabled": False}
    hub = net.hub(ZWIRE, **(switch if off == ZWIRE else {}))
    client = net.client(peer, hub, **(switch if off != ZWIRE else {}))
    for sender, receiver in ((hub, client), (client, hub)):
        receiver.watch(name="sub", key="k")
        came = eventually(
            "puts arrive",
            lambda s=sender, r=receiver: (
                s.put(key="k", payload=made(20_000), congestion_control="BLOCK")
                or r.received(name="sub", count=3, seconds=0.1)[2:]
            ),
        )
        assert not any(sample["shm"] for sample in came)
        assert {str(sample["payload"]) for sample in came} == {str(shown(random_bytes(20_000, 0)))}
        receiver.undeclare(name="sub")


@pytest.mark.parametrize("peer", PEERS)
@pytest.mark.parametrize("seconds", [0.35, 1.3, pytest.param(9, marks=pytest.mark.long)])
def test_a_receiver_that_is_stopped_loses_nothing_of_ours(net, peer, seconds):
    hub = net.hub(ZWIRE)
    client = net.client(peer, hub)
    watched(hub, client)
    with stopped(client):
        for seed in range(13):
            hub.put(key="k", payload=made(100_000, seed), congestion_control="BLOCK")
        time.sleep(seconds)
    came = client.received(name="sub", count=13, seconds=20)
    assert payloads(came) == sent(*13 * [100_000])
    assert all(sample["shm"] for sample in came)


def test_we_lose_nothing_when_we_are_stopped(net):
    hub = net.hub(ZWIRE)
    client = net.client(ECLIPSE, hub)
    watched(client, hub)
    with stopped(hub):
        for seed in range(13):
            client.put(key="k", payload=made(100_000, seed), congestion_control="BLOCK")
        time.sleep(1.3)
    came = hub.received(name="sub", count=13, seconds=20)
    assert payloads(came) == sent(*13 * [100_000])


@pytest.mark.parametrize("peer", PEERS)
def test_what_a_stopped_reader_holds_stays(net, peer):
    """The implicit pool of eclipse-zenoh would give the memory of a stopped reader to other payloads."""
    hub = net.hub(ZWIRE)
    client = net.client(peer, hub)
    watched(hub, client)
    client.hold(name="held", key="h", count=20, digests=False)
    warm(hub, client, "held", "h")
    before = client.kept(name="held")
    with stopped(client):
        # Three times the pool, which the reader does not get.
        for seed in range(200):
            hub.put(key="h", payload=made(MIB, seed % 7))
        time.sleep(1)
    hub.put(key="k", payload="after", congestion_control="BLOCK")
    assert client.received(name="sub", count=1, seconds=40, within=60)
    kept = client.kept(name="held", within=60)
    assert kept[: len(before)] == before
    known = {str(shown(random_bytes(MIB, seed))) for seed in range(7)}
    assert all(str(payload) in known for payload in kept[len(before) :])


@pytest.mark.parametrize("peer", PEERS)
def test_the_memory_of_a_killed_reader_comes_back(net, peer):
    hub = net.hub(ZWIRE)
    keeper, victim, other = (net.client(each, hub) for each in (peer, peer, ECLIPSE))
    for number, client in enumerate((keeper, victim, other)):
        client.hold(name="held", key=f"h/{number}", count=10)
        warm(hub, client, "held", f"h/{number}")
        client.undeclare(name="held")
        client.hold(name="held", key="h", count=10)
        reached(hub, client, "held", "h")
    time.sleep(0.2)
    for client in (keeper, victim, other):
        client.forget(name="held")
    for seed in range(12):
        hub.put(key="h", payload=made(MIB, seed), congestion_control="BLOCK")
    for client in (keeper, victim, other):
        assert len(client.received(name="held", count=12, seconds=20)) == 12
    kept = keeper.kept(name="held")
    victim.kill()
    # The other two get all by memory, also more than a pool of it.
    keeper.forget(name="held")
    other.forget(name="held")
    eventually("the link of the killed one has ended", lambda: len(hub.stats()["per_link"]) == 2)
    for seed in range(80):
        hub.put(key="h", payload=made(MIB, seed % 5), congestion_control="BLOCK")
    for client in (keeper, other):
        came = client.received(name="held", count=80, seconds=30)
        assert [s["payload"] for s in came] == [shown(random_bytes(MIB, seed % 5)) for seed in range(80)]
        assert sum(sample["shm"] for sample in came) >= 78
    assert keeper.kept(name="held") == kept


BORROW = {"zwire/shared_memory/borrow": True}
# Random bytes are no text.
READABLE = {"to_string": "UnicodeDecodeError"}


def segments_of(peer):
    """The ranges of addresses at which a process maps files of shared memory, with their paths."""
    lines = re.findall(
        r"^(\w+)-(\w+) .*(/dev/shm/\d+\.zenoh)",
        Path(f"/proc/{peer.process.pid}/maps").read_text(),
        re.MULTILINE,
    )
    return [(int(start, 16), int(end, 16), Path(path)) for start, end, path in lines]


@pytest.fixture(params=[(ZWIRE, peer) for peer in PEERS] + [(peer, ZWIRE) for peer in PEERS], ids="-".join)
def borrowing(request, net):
    """A node of ours that borrows, and one of theirs; the first payloads have come in shared memory."""
    hub, client = ((name, BORROW if name == ZWIRE else {}) for name in request.param)
    hub = net.hub(hub[0], **hub[1])
    client = net.client(client[0], hub, **client[1])
    ours, theirs = (hub, client) if request.param[0] == ZWIRE else (client, hub)
    ours.watch(name="warm", key="warm")
    ours.hold(name="held", key="h", count=3)
    warm(theirs, ours, "warm", "warm")
    reached(theirs, ours, "held", "h")
    ours.drop_kept(name="held")
    before = files_of(theirs)
    yield ours, theirs
    # What was counted is given back, and nothing of a process that has ended is mapped.
    ours.drop_kept(name="held")
    eventually("nothing is held", lambda: not ours.stats()["lending.held"])
    if theirs.process.poll() is None:
        eventually("references are given back", lambda: not references(theirs), within=10)
    else:
        eventually("their memory is unmapped", lambda: not before & files_of(ours))


def held(ours, theirs, size=MIB):
    """Payloads of theirs that we hold in their memory, and what was sent."""
    borrowed = ours.stats()["lending.borrowed"]

    def attempt():
        ours.drop_kept(name="held")
        ours.forget(name="held")
        for seed in range(3):
            theirs.put(key="h", payload=made(size, seed), congestion_control="BLOCK")
        return len(ours.received(name="held", count=3, seconds=5)) == 3

    attempts((ours, theirs), "payloads are held", attempt)
    assert ours.stats()["lending.borrowed"] >= borrowed + 3
    assert ours.stats()["lending.held"] == 3
    return sent(size, size, size)


def test_borrowed_payloads_stay_while_they_are_held(borrowing):
    ours, theirs = borrowing
    expected = held(ours, theirs)
    views = ours.views(name="held")
    shared = files_of(theirs)
    for view in views:
        assert any(
            start <= view["address"] < end and path in shared for start, end, path in segments_of(ours)
        ), "the view is memory of the sender"
    # Its pool goes round many times, and its watchdog looks twenty times.
    for seed in range(100):
        theirs.put(key="warm", payload=made(MIB, seed % 5), congestion_control="BLOCK")
    time.sleep(2)
    assert ours.views(name="held") == views
    assert [view["view"] for view in views] == expected
    assert [(view["valid"], view["errors"]) for view in views] == 3 * [(True, READABLE)]
    assert ours.kept(name="held") == expected


def test_borrowed_payloads_of_a_process_that_was_stopped_are_taken_back(borrowing):
    ours, theirs = borrowing
    held(ours, theirs)
    views = ours.views(name="held")
    with stopped(ours):
        time.sleep(0.5)
        # The implicit pool gives the memory to other payloads.
        for seed in range(40):
            theirs.put(key="h", payload=made(MIB, seed % 5))
    after = ours.views(name="held")
    every_way = dict.fromkeys([*READABLE, *(set(after[0]["errors"]) - set(READABLE))], "StalePayload")
    assert len(every_way) == 15
    assert [(view["valid"], view["errors"]) for view in after] == 3 * [(False, every_way)]
    assert [view["address"] for view in after] == [view["address"] for view in views]
    # The next ones come as before.
    reached(theirs, ours, "held", "h")
    held(ours, theirs)


def test_batches_leave_out_what_was_taken_back(borrowing):
    ours, theirs = borrowing
    held(ours, theirs)
    ours.drop_kept(name="held")
    ours.undeclare(name="held")
    ours.channel(name="rows", key="h")
    eventually(
        "it is known", lambda: theirs.put(key="h", payload="probe") or ours.rows(name="rows", seconds=0.1)
    )

    def rows(count):
        """Put so many payloads, and take them."""
        for seed in range(count):
            theirs.put(key="h", payload=made(200_000, seed), congestion_control="BLOCK")
        came = []
        while len(came) < count and (more := ours.rows(name="rows", seconds=2)):
            came += [row for row in more if row != shown(b"probe")]
        return came == sent(*count * [200_000])

    attempts((ours, theirs), "rows come", lambda: rows(3))

    def attempt():
        for seed in range(3):
            theirs.put(key="h", payload=made(200_000, seed), congestion_control="BLOCK")
        return eventually("payloads are held", lambda: ours.stats()["lending.held"] == 3)

    attempts((ours, theirs), "payloads wait in the queue", attempt)
    with stopped(ours):
        time.sleep(0.5)
    theirs.put(key="h", payload="last", congestion_control="BLOCK")
    assert ours.rows(name="rows", seconds=5) == [shown(b"last")]
    assert ours.stats()["lending.stale"] == 3
    assert ours.stats()["drops"] >= 3


def test_borrowed_payloads_that_their_sender_frees_are_taken_back(borrowing):
    ours, theirs = borrowing

    def attempt():
        ours.drop_kept(name="held")
        ours.forget(name="held")
        theirs.seize(key="h", payload=made(MIB, 7), pool=3 * MIB // 2)
        return ours.received(name="held", count=1, seconds=5)

    attempts((ours, theirs), "a payload is held", attempt)
    [view] = ours.views(name="held")
    assert (view["view"], view["valid"]) == (shown(random_bytes(MIB, 7)), True)
    # There is no room for another one.
    theirs.seize(key="h", payload=made(MIB, 8), pool=0)
    [_, sample] = ours.received(name="held", count=2, seconds=5)
    assert sample["payload"] == shown(random_bytes(MIB, 8))
    view, _ = ours.views(name="held")
    assert (view["valid"], set(view["errors"].values())) == (False, {"StalePayload"})


def test_borrowed_payloads_of_a_process_that_was_killed_stay(borrowing):
    """No process is left that could give their memory to other payloads."""
    ours, theirs = borrowing
    expected = held(ours, theirs)
    views = ours.views(name="held")
    theirs.kill()
    eventually("the link has ended", lambda: not ours.stats()["per_link"])
    time.sleep(0.3)
    assert ours.views(name="held") == views
    assert ours.kept(name="held") == expected


@pytest.mark.parametrize("peer", PEERS)
def test_a_router_that_borrows_passes_on_copies(net, peer):
    hub = net.hub(ZWIRE, **BORROW)
    sender, theirs, ours = net.client(peer, hub), net.client(peer, hub), net.client(ZWIRE, hub, **BORROW)
    for receiver in (hub, theirs, ours):
        watched(sender, receiver)
    for seed in range(20):
        put = functools.partial(sender.put, key="k", payload=made(MIB, seed), congestion_control="BLOCK")
        expected = shown(random_bytes(MIB, seed))

        def came(receiver, expected=expected):
            within = time.monotonic() + 5
            while time.monotonic() < within:
                if expected in payloads(receiver.received(name="sub", count=1, seconds=1)):
                    return True
            return False

        attempts((hub, ours), "all get it", lambda put=put: put() or all(map(came, (hub, theirs, ours))))
    for receiver in (theirs, ours):
        receiver.echo(name="echo", key="q")
        eventually("the queryable is known", lambda: sender.ask(selector="q", payload="probe"))
        for seed in range(3):
            ask = functools.partial(sender.ask, selector="q", payload=made(MIB, seed))
            [reply] = attempts((hub, ours), "a query is answered", ask)
            assert reply["payload"] == shown(random_bytes(MIB, seed))
        receiver.undeclare(name="echo")
    stats = hub.stats()
    assert stats["lending.borrowed"] >= 20
    eventually("nothing is held", lambda: not hub.stats()["lending.held"])


@pytest.mark.parametrize("peer", PEERS)
def test_queries_and_replies_are_borrowed(net, peer):
    hub = net.hub(peer)
    ours = net.client(ZWIRE, hub, **BORROW)
    for asker, answerer in ((ours, hub), (hub, ours)):
        answerer.echo(name="echo", key="q")
        eventually("the queryable is known", lambda a=asker: a.ask(selector="q", payload="probe"))
        before = ours.stats()["lending.borrowed"]
        for seed in range(5):
            ask = functools.partial(asker.ask, selector="q", payload=made(MIB, seed))
            [reply] = attempts((ours, hub), "a query is answered", ask)
            assert reply["payload"] == shown(random_bytes(MIB, seed))
        assert ours.stats()["lending.borrowed"] > before
        answerer.undeclare(name="echo")
    eventually("nothing is held", lambda: not ours.stats()["lending.held"])


@pytest.mark.parametrize("peer", PEERS)
def test_a_pool_that_is_full_loses_nothing(net, peer):
    """A router of ours places what it passes on, and its neighbours keep more than there is room for."""
    hub = net.hub(ZWIRE, **{"transport/shared_memory/transport_optimization/pool_size": 2 * MIB})
    keepers = [net.client(peer, hub) for _ in range(3)]
    for number, keeper in enumerate(keepers):
        keeper.hold(name="sub", key=f"h/{number}", count=10)
        warm(hub, keeper, "sub", f"h/{number}")
    senders = [net.client(each, hub) for each in (ZWIRE, peer)]
    for sender in senders:
        for number, keeper in enumerate(keepers):
            for seed in range(20):
                sender.put(key=f"h/{number}", payload=made(200_000, seed), congestion_control="BLOCK")
            came = payloads(keeper.received(name="sub", count=20, seconds=5))
            keeper.forget(name="sub")
            # Of these releases some may have been taken back on their way, each of which is counted.
            counted = hub.stats()["link.rx_shm_failed"] if peer == NINE else 0
            expected = sent(*20 * [200_000])
            assert came == [payload for payload in expected if payload in came]
            assert len(came) + counted >= 20


def test_frames_of_8_mib_all_go_by_memory(net):
    hub = net.hub(ZWIRE)
    client = net.client(ECLIPSE, hub)
    watched(hub, client)
    for seed in range(40):
        # A receiver that is further behind holds more than the pool has.
        client.received(name="sub", count=seed - 3, seconds=60)
        hub.put(key="k", payload=made(8 * MIB, seed % 3), congestion_control="BLOCK")
    came = client.received(name="sub", count=40, seconds=60)
    assert len(came) == 40
    assert all(sample["shm"] for sample in came)


@pytest.mark.parametrize("peer", PEERS)
def test_publishers_that_come_and_go_leave_nothing_mapped(net, peer):
    hub = net.hub(ZWIRE)
    hub.watch(name="sub", key="k")

    def generation():
        client = net.client(peer, hub)
        warm(client, hub, "sub", "k")
        client.end()
        net.peers.remove(client)

    def files():
        return len(list(Path(f"/proc/{hub.process.pid}/fd").iterdir())), len(files_of(hub))

    generation()
    eventually("the link has ended", lambda: not hub.stats()["per_link"])
    before = files()
    for _ in range(5):
        generation()
    eventually("the links have ended", lambda: not hub.stats()["per_link"])
    eventually(
        "nothing more is open than before", lambda: all(a <= b for a, b in zip(files(), before, strict=True))
    )


def test_a_process_that_puts_and_closes_is_heard(net):
    hub = net.hub(ECLIPSE)
    hub.watch(name="sub", key="k")
    for seed in range(10):
        client = net.client(ZWIRE, hub)
        client.put(key="k", payload=made(MIB, seed), congestion_control="BLOCK")
        client.end()
        net.peers.remove(client)
    came = hub.received(name="sub", count=10, seconds=20)
    assert payloads(came) == sent(*10 * [MIB])
    assert any(sample["shm"] for sample in came)


@pytest.mark.parametrize("peer", PEERS)
def test_a_partner_whose_memory_cannot_be_used_goes_on_without(net, peer):
    """Others may write to the metadata segment of the sender: payloads come over a new link."""
    hub = net.hub(peer)
    watched(hub, net.client(peer, hub))
    [metadata] = [path for path in files_of(hub) if path.stat().st_size == METADATA]
    metadata.chmod(0o622)
    client = net.client(ZWIRE, hub)
    client.watch(name="sub", key="k")

    def plain():
        hub.put(key="k", payload=made(50_000), congestion_control="BLOCK")
        return client.received(name="sub", count=1, seconds=0.2)

    [sample, *_] = eventually("payloads come over a new link", plain, within=20)
    assert sample["payload"] == shown(random_bytes(50_000, 0))
    assert not sample["shm"]
    stats = client.stats()
    assert stats["link.rx_shm_failed"] >= 1
    assert stats["lending.failed.protocol"] >= 1


class Place:
    """A mount namespace that a process starts in, and a shell command that it starts behind."""

    def __init__(self, command, inside=None):
        shell = ["sh", "-ec", f'{command}\nexec "$@"', "sh"]
        enter = (
            ["nsenter", "--mount", "--target", str(inside.process.pid)] if inside else ["unshare", "--mount"]
        )
        self.namespace = self
        self.prefix = [*enter, *shell]


def node_at(net, place, implementation, mode, **settings):
    peer = Peer(implementation, place)
    net.peers.append(peer)
    peer.opened = peer.open(settings={**QUIET, "mode": mode, **settings})
    return peer


OTHER_MEMORY = "mount -t tmpfs -o size=20m tmpfs /dev/shm"
FILL = "cat /dev/zero > /dev/shm/full 2> /dev/null || true"


def exchanged(hub, client):
    """Whether payloads came in shared memory, from the hub and from the client; all of them arrive."""
    came = []
    for sender, receiver in ((hub, client), (client, hub)):
        receiver.watch(name="sub", key="k")
        reached(sender, receiver, "sub", "k")
        for seed in range(16):
            sender.put(key="k", payload=made(100_000, seed), congestion_control="BLOCK")
            # eclipse-zenoh makes its pool beside the first ones.
            time.sleep(0.02)
        samples = receiver.received(name="sub", count=16, seconds=20)
        assert payloads(samples) == sent(*16 * [100_000])
        came.append(any(sample["shm"] for sample in samples))
        receiver.undeclare(name="sub")
    return came


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        (f"{OTHER_MEMORY}; {FILL}", "system"),
        (f"{OTHER_MEMORY}; mount -o remount,ro /dev/shm", "system"),
        ("umount /dev/shm 2> /dev/null || true; mount -t tmpfs tmpfs /dev; mknod /dev/null c 1 3", "system"),
        (OTHER_MEMORY, "unreachable"),
    ],
    ids=["full", "read-only", "absent", "another"],
)
def test_a_node_without_the_memory_of_its_neighbour(net, command, reason):
    port = free_port()
    hub = node_at(net, Place(command), ZWIRE, "router", **{"listen/endpoints": [f"tcp/127.0.0.1:{port}"]})
    hub.endpoint = f"tcp/127.0.0.1:{port}"
    assert exchanged(hub, net.client(ECLIPSE, hub)) == [False, False]
    # As opener it makes a handshake segment, or cannot.
    far = net.hub(ECLIPSE)
    near = node_at(net, Place(command), ZWIRE, "client", **{"connect/endpoints": [far.endpoint]})
    assert exchanged(far, near) == [False, False]
    assert hub.stats()["lending.failed.unreachable"] == 1
    if reason == "system":
        assert near.stats()["lending.failed.system"] == 1


def test_memory_that_is_full_or_must_not_be_locked_is_not_used(net):
    """The neighbour has made its memory before; ours has no place, or would be of no use to its readers."""
    port = free_port()
    endpoint = {"listen/endpoints": [f"tcp/127.0.0.1:{port}"]}
    far = node_at(net, Place(OTHER_MEMORY), ECLIPSE, "router", **endpoint)
    far.endpoint = f"tcp/127.0.0.1:{port}"
    connect = {"connect/endpoints": [far.endpoint]}
    locked = Place('ulimit -l 64; set -- setpriv --bounding-set=-ipc_lock -- "$@"', far)
    near = node_at(net, locked, ZWIRE, "client", **connect)
    assert exchanged(near, far) == [False, True]
    assert near.stats()["lending.failed.system"] >= 1
    assert near.stats()["per_link"][0]["lending"] == "system"
    other = node_at(net, Place(FILL, far), ZWIRE, "client", **connect)
    assert exchanged(other, far)[0] is False
    assert other.stats()["lending.failed.system"] >= 1


def varint(value):
    """The VLE form of a number."""
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def answered(endpoint, segment):
    """Whether a listener answers the offer of a handshake segment."""
    zid = os.urandom(8)
    offer = varint(segment)
    syn = bytes([0x81, 9, 0x72]) + zid + bytes([0xC2, len(offer)]) + offer + bytes([0x27, 1])
    with socket.create_connection(("127.0.0.1", int(endpoint.rpartition(":")[2])), timeout=5) as near:
        near.sendall(len(syn).to_bytes(2, "little") + syn)
        stream = near.makefile("rb")
        ack = stream.read(int.from_bytes(stream.read(2), "little"))
    assert ack[0] & 0x3F == 0x21, "INIT ACK"
    at = 4 + (ack[2] >> 4)
    at += 3 if ack[0] & 0x40 else 0
    at += 1 + ack[at]
    more, ids = ack[0] & 0x80, []
    while more:
        header, at = ack[at], at + 1
        ids.append(header & 0x7F)
        more = header & 0x80
        if header & 0x60 == 0x20:
            while ack[at] & 0x80:
                at += 1
            at += 1
        elif header & 0x60 == 0x40:
            at += 1 + ack[at]
    return 0x42 in ids


def test_segments_of_unknown_layouts_get_no_answer(net):
    hub = net.hub(ZWIRE)
    words = lambda *values: struct.pack(f"<{len(values)}Q", *values)  # noqa: E731
    second = lambda *values: words(*values).ljust(HANDSHAKE, b"\0")  # noqa: E731
    good = [words(1, 5, 1, 0), words(2, 5, 1, 9, 0), second(1, 5, 2, 0)]
    bad = [
        *(words(1, 5, version, 0) for version in (0, 2, 3, 99)),
        *(second(1, 5, version, 0) for version in (0, 1, 3, 99)),
        *(second(count, 5, 2, 0) for count in (0, 257, 1 << 63)),
        words(1, 5, 1, 7),
        *(bytes(size) for size in (0, 8, 24, 4096, HANDSHAKE - 1, HANDSHAKE, HANDSHAKE + 1, METADATA)),
        words(1, 5, 1),
    ]
    number = int.from_bytes(os.urandom(3), "little") + 1
    path, new = Path(f"/dev/shm/{number}.zenoh"), Path(f"/dev/shm/{number}.new")
    for content, expected in [*((content, True) for content in good), *((content, False) for content in bad)]:
        with new.open("wb") as file:
            # As an owner that lives: eclipse-zenoh removes one without the lock, so it gets its name last.
            fcntl.flock(file, fcntl.LOCK_SH)
            new.write_bytes(content)
            new.chmod(0o600)
            new.rename(path)
            assert answered(hub.endpoint, number) == expected, (len(content), content[:32])
            path.chmod(0o622)
            assert not answered(hub.endpoint, number), "others may write to it"
            path.unlink()
            assert not answered(hub.endpoint, number), "it does not exist"
    path.symlink_to("/dev/zero")
    try:
        assert not answered(hub.endpoint, number)
    finally:
        path.unlink()
    stats = hub.stats()
    assert stats["lending.failed.protocol"] == len(bad) - 1
    assert stats["lending.failed.user"] > 0
    assert stats["lending.failed.unreachable"] > 0
