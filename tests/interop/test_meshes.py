"""More than two nodes, of both implementations: whatever ways there are, each message comes exactly once."""

import collections
import itertools
import socket

import pytest

from interop.harness import ECLIPSE, ZWIRE, eventually, free_port
from interop.matrix import GROUP, LINKS, Pool, each
from network.namespaces import Network, missing

COUNT = 25
BLOCK = {"congestion_control": "BLOCK"}


@pytest.fixture(scope="module")
def pool(tmp_path_factory):
    pool = Pool(tmp_path_factory.mktemp("meshes"))
    yield pool
    pool.end()


@pytest.fixture(scope="module")
def group_pool(tmp_path_factory):
    """Processes on a host of a network of our own, where multicast is."""
    if reason := missing():
        pytest.skip(reason)
    network = Network()
    pool = Pool(tmp_path_factory.mktemp("groups"), host=network.host())
    yield pool
    pool.end()
    network.end()


def subscribe(nodes):
    for number, node in enumerate(nodes):
        node.word = f"n{number}"
    each(nodes, "subscribe", name="sub", key="mesh/**")


def ready(nodes):
    """Waits until a put of each node reaches each other."""
    subscribe(nodes)

    def all_reached():
        publish(nodes, "probe")
        return not absent(nodes, "probe")

    came(nodes, "probe", all_reached)
    # Probes may still be on their way.
    barrier(nodes, "ready")
    each(nodes, "forget", name="sub")


def publish(nodes, word):
    """Puts a message of each node."""
    each(nodes, "put", key=lambda n: f"mesh/{n.word}/{word}", payload=word, **BLOCK)


def absent(nodes, word):
    """The messages that are not at each node."""
    got = each(nodes, "received", name="sub", count=1, seconds=0)
    return [
        f"{far.word} has none of {near.word}"
        for far, samples in zip(nodes, got, strict=True)
        for near in nodes
        if f"mesh/{near.word}/{word}" not in {s["key"] for s in samples}
    ]


def came(nodes, word, condition):
    """Waits for the condition; an error names the messages that are absent."""
    try:
        eventually(f"{word} from each at each", condition, within=10, period=0.05)
    except AssertionError as error:
        raise AssertionError(f"{error}: {', '.join(absent(nodes, word))}") from None


def barrier(nodes, word):
    """Waits until a message of each has come to each: what was sent before it has come as well."""
    publish(nodes, word)
    came(nodes, word, lambda: not absent(nodes, word))


def exactly_once(nodes):
    """Each publishes to all, itself included; none of it is lost or comes twice."""
    for number in range(COUNT):
        each(nodes, "put", key=lambda n, i=number: f"mesh/{n.word}/{i}", payload="x", **BLOCK)
    # A second way may be slower than the first: what went it before the second barrier is there after it.
    barrier(nodes, "first")
    barrier(nodes, "second")
    for samples in each(nodes, "received", name="sub", count=1, seconds=0):
        expected = {f"mesh/{n.word}/{i}": 1 for n in nodes for i in (*range(COUNT), "first", "second")}
        assert collections.Counter(s["key"] for s in samples) == expected


def all_answer(nodes):
    """A get to all has one reply of each."""
    for node in nodes:
        script = [{"do": "reply", "payload": node.word, "key": f"ask/{node.word}"}]
        node.queryable(name="q", key="ask/*", script=script)

    def asked():
        got = each(nodes, "get", selector="ask/*", target="ALL", consolidation="NONE", timeout=5.0)
        return got if all(len(g["replies"]) >= len(nodes) for g in got) else None

    for got in eventually("all answer", asked, within=10):
        assert sorted(r["key"] for r in got["replies"]) == [f"ask/{n.word}" for n in nodes]
        assert got["seconds"] < 2


def open_triangle(pool, nodes, connect=()):
    """Three peers, each with a link to each other."""
    places = []
    for node in nodes:
        place = f"tcp/127.0.0.1:{free_port()}"
        node.opened = node.open(
            settings=pool.settings(LINKS["tcp"], "peer", listen=[place], connect=[*connect, *places])
        )
        places.append(place)
    return places


MIXES = [(ZWIRE, ZWIRE, ECLIPSE), (ECLIPSE, ECLIPSE, ZWIRE), (ECLIPSE, ZWIRE, ECLIPSE)]


def names(mix):
    return "-".join(mix)


@pytest.mark.parametrize("mix", MIXES, ids=names)
def test_three_peers(pool, mix):
    with pool.peers(*mix) as nodes:
        open_triangle(pool, nodes)
        ready(nodes)
        exactly_once(nodes)
        all_answer(nodes)


@pytest.mark.parametrize("router", [ZWIRE, ECLIPSE])
@pytest.mark.parametrize("mix", MIXES, ids=names)
def test_three_peers_with_a_router_beside_them(pool, mix, router):
    """And a client of either implementation at the router."""
    with pool.peers(router, *mix, ZWIRE, ECLIPSE) as (hub, *rest):
        place = f"tcp/127.0.0.1:{free_port()}"
        hub.opened = hub.open(settings=pool.settings(LINKS["tcp"], "router", listen=[place]))
        open_triangle(pool, rest[:3], connect=[place])
        for client in rest[3:]:
            client.opened = client.open(settings=pool.settings(LINKS["tcp"], "client", connect=[place]))
        nodes = [hub, *rest]
        ready(nodes)
        exactly_once(nodes)
        all_answer(nodes)


@pytest.mark.parametrize("router", [ZWIRE, ECLIPSE])
@pytest.mark.parametrize("mix", MIXES, ids=names)
def test_three_peers_find_each_other_through_a_router(pool, mix, router):
    """Each knows the router alone; its gossip tells each of the others."""
    with pool.peers(router, *mix) as (hub, *peers):
        place = f"tcp/127.0.0.1:{free_port()}"
        hub.opened = hub.open(settings=pool.settings(LINKS["tcp"], "router", listen=[place]))
        for peer in peers:
            own = f"tcp/127.0.0.1:{free_port()}"
            peer.opened = peer.open(
                settings=pool.settings(LINKS["tcp"], "peer", listen=[own], connect=[place])
            )
        eventually(
            "each peer knows each other", lambda: all(len(i["peers"]) == 2 for i in each(peers, "info")), 3
        )
        nodes = [hub, *peers]
        ready(nodes)
        exactly_once(nodes)
        all_answer(nodes)


GROUPS = [("peer", "peer"), ("peer", "router"), ("router", "peer")]


def heard(near, far, key, payload="x"):
    """Puts until one arrives."""

    def one():
        near.put(key=key, payload=payload, **BLOCK)
        return any(s["key"] == key for s in far.received(name="sub", count=1, seconds=0.02))

    eventually(f"a put on {key} arrives", one)


def at_most_once(nodes, judge=lambda near, far: True):
    """Each publishes to all, and a group may lose some; ``judge`` selects the pairs to check."""
    for number in range(COUNT):
        each(nodes, "put", key=lambda n, i=number: f"mesh/{n.word}/{i}", payload="x", **BLOCK)
    for word in ("first", "second"):
        for near, far in itertools.permutations(nodes, 2):
            heard(near, far, f"mesh/{near.word}/{word}")
    numbered = [f"mesh/{near.word}/{i}" for near in nodes for i in range(COUNT)]
    for far, samples in zip(nodes, each(nodes, "received", name="sub", count=1, seconds=0), strict=True):
        counts = collections.Counter(s["key"] for s in samples)
        for near in nodes:
            some = [counts[key] for key in numbered if key.startswith(f"mesh/{near.word}/")]
            assert max(some), f"nothing of {near.word} at {far.word}"
            assert not judge(near, far) or max(some) == 1, f"{near.word} at {far.word}: {some}"


@pytest.mark.parametrize(("ours", "theirs"), GROUPS)
def test_a_multicast_group_of_two(group_pool, ours, theirs):
    """Publications alone: nodes of eclipse-zenoh in a group do not ask each other, nor see tokens or matches.

    Two of its routers in a group exchange nothing at all.
    """
    with group_pool.peers(ZWIRE, ECLIPSE) as nodes:
        group = GROUP.format(port=free_port(socket.SOCK_DGRAM))
        for node, role in zip(nodes, (ours, theirs), strict=True):
            group_pool.member(node, role, group)
        subscribe(nodes)
        for near, far in itertools.permutations(nodes, 2):
            heard(near, far, f"mesh/{near.word}/probe")
        at_most_once(nodes)
        large = {"size": 30_000, "seed": 1}
        for near, far in itertools.permutations(nodes, 2):
            heard(near, far, f"mesh/{near.word}/large", large)


@pytest.mark.parametrize("mix", [(ZWIRE, ECLIPSE), (ZWIRE, ZWIRE)], ids=names)
def test_a_process_that_opens_puts_and_closes_is_heard_by_a_group(group_pool, mix):
    """Members announce themselves every 2.5 s, so it has heard no other one when it publishes.

    The one of eclipse-zenoh announces itself some time after it has opened: on a busy machine what it puts
    before that is lost.
    """
    with group_pool.peers(*mix) as (near, far):
        group = GROUP.format(port=free_port(socket.SOCK_DGRAM))
        settings = group_pool.settings(LINKS["tcp"], "peer", listen=[group])
        far.open(settings=settings)
        subscribe([far])
        keys = [f"mesh/short/{number}" for number in range(6)]
        for key in keys:
            near.open(settings=settings)
            near.put(key=key, payload="x", **BLOCK)
            near.close()
        got = far.received(name="sub", count=len(keys), seconds=5)
        assert sorted(sample["key"] for sample in got) == keys


def test_payloads_that_a_member_leaves_in_its_shared_memory_are_counted(group_pool):
    """eclipse-zenoh sends payloads from 3 KiB on as descriptions of its memory, and asks no member before."""
    with group_pool.peers(ZWIRE, ECLIPSE) as (ours, theirs):
        group = GROUP.format(port=free_port(socket.SOCK_DGRAM))
        for node in (ours, theirs):
            group_pool.member(node, "peer", group)
        subscribe([ours, theirs])
        heard(theirs, ours, f"mesh/{theirs.word}/probe")
        large = {"size": 10_000, "seed": 1}

        def left_there():
            theirs.put(key="mesh/first", payload=large, **BLOCK)
            return ours.stats()["link.rx_shm_failed"] > 0

        # The first ones come as bytes: its pool of shared memory is made meanwhile.
        eventually("its pool of shared memory is used", left_there, within=10)
        # All of them have come before this one.
        heard(theirs, ours, f"mesh/{theirs.word}/used")
        failed = ours.stats()["link.rx_shm_failed"]
        for number in range(COUNT):
            theirs.put(key=f"mesh/large/{number}", payload=large, **BLOCK)
            theirs.put(key=f"mesh/small/{number}", payload="x", **BLOCK)
        heard(theirs, ours, f"mesh/{theirs.word}/end")
        keys = [sample["key"] for sample in ours.received(name="sub", count=1, seconds=0)]
        assert [key for key in keys if "small" in key] == [f"mesh/small/{n}" for n in range(COUNT)]
        assert not [key for key in keys if "large" in key]
        stats = ours.stats()
        assert stats["link.rx_shm_failed"] == failed + COUNT
        assert stats["drops"] >= failed + COUNT


@pytest.mark.parametrize("mix", MIXES, ids=names)
def test_a_multicast_group_of_three(group_pool, mix):
    with group_pool.peers(*mix) as nodes:
        group = GROUP.format(port=free_port(socket.SOCK_DGRAM))
        for node in nodes:
            group_pool.member(node, "peer", group)
        subscribe(nodes)
        for near, far in itertools.permutations(nodes, 2):
            heard(near, far, f"mesh/{near.word}/probe")
        at_most_once(nodes)


@pytest.mark.parametrize("mix", [*MIXES, (ZWIRE, ZWIRE, ZWIRE)], ids=names)
def test_links_and_a_multicast_group_at_once(group_pool, mix):
    """A peer of eclipse-zenoh forwards messages from a link to its group, where others get duplicates.

    zwire delivers each message once, and does not forward it to the group itself.
    """
    with group_pool.peers(*mix) as nodes:
        group = GROUP.format(port=free_port(socket.SOCK_DGRAM))
        places = []
        for node in nodes:
            place = f"tcp/127.0.0.1:{free_port()}"
            group_pool.member(node, "peer", group, listen=[place], connect=places)
            places.append(place)
        ready(nodes)
        others = mix.count(ECLIPSE)
        at_most_once(
            nodes, lambda near, far: far.implementation == ZWIRE or (near is not far and others == 1)
        )
        all_answer(nodes)
