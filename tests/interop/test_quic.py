"""Properties of QUIC links beyond the cells of the matrix, with eclipse-zenoh at the other end."""

import contextlib

import pytest

from interop.certificates import Authority
from interop.harness import ECLIPSE, ZWIRE, Peer, eventually, random_bytes, reached, shown
from interop.matrix import LINKS, SHAPES, Cell, Meeting, Pool

LISTENERS = [ZWIRE, "foreign"]


@pytest.fixture(scope="module")
def pool(tmp_path_factory):
    folder = tmp_path_factory.mktemp("quic")
    pool = Pool(folder, Authority(folder))
    yield pool
    pool.end()


@pytest.mark.parametrize("listener", LISTENERS)
@pytest.mark.parametrize("link", ["quic-mr", "udp-rel1-mr"])
def test_best_effort_goes_beside_what_is_reliable(pool, link, listener):
    with pool.peers(ZWIRE, ECLIPSE) as (ours, theirs):
        pair = Meeting(pool, Cell(link, "peer", "peer", listener), ours, theirs)
        pair.each("subscribe", name="sub", key=lambda n: f"to/{n.word}/**")
        for node in pair.nodes:
            reached(node, node.other, "sub", f"to/{node.other.word}/probe")
        for name in ("RELIABLE", "BEST_EFFORT"):
            key = f"to/{{}}/{name.lower()}"
            pair.each(
                "publisher",
                name=name,
                key=lambda n, key=key: key.format(n.other.word),
                reliability=name,
                congestion_control="BLOCK",
            )
        # In twenty datagrams, of which on a loopback none is lost for long.
        large = {"size": 20_000, "seed": 3}

        def come(node):
            pair.each("publish", name="BEST_EFFORT", payload=large)
            pair.each("publish", name="RELIABLE", payload=large)
            got = node.received(name="sub", count=2, seconds=2)
            assert all(s["payload"] == shown(random_bytes(**large)) for s in got)
            kinds = {s["key"].rsplit("/", 1)[1] for s in got}
            return kinds == {"reliable", "best_effort"}

        for node in pair.nodes:
            eventually("both kinds arrive", lambda n=node: come(n))


@pytest.mark.parametrize("listener", LISTENERS)
def test_what_is_urgent_passes_bulk_on_another_stream(pool, listener):
    with pool.peers(ZWIRE, ECLIPSE) as (ours, theirs):
        pair = Meeting(pool, Cell("quic-ms", "peer", "peer", listener), ours, theirs)
        pair.each("subscribe", name="sub", key=lambda n: f"to/{n.word}/urgent")
        pair.each("subscribe", name="heap", key=lambda n: f"to/{n.word}/bulk")
        for node in pair.nodes:
            reached(node, node.other, "sub", f"to/{node.other.word}/urgent")
        pair.each("bulk", key=lambda n: f"to/{n.other.word}/bulk", size=500_000, priority="BACKGROUND")
        pair.each("received", name="heap", count=5, seconds=20)
        for _ in range(10):
            pair.each(
                "put",
                key=lambda n: f"to/{n.other.word}/urgent",
                payload="now",
                priority="REAL_TIME",
                congestion_control="BLOCK",
            )
        for got in pair.each("received", name="sub", count=10, seconds=20):
            assert [s["payload"] for s in got] == [shown(b"now")] * 10
        pair.each("stop_bulk")


@pytest.mark.parametrize("hub", [ZWIRE, ECLIPSE])
@pytest.mark.parametrize("link", ["quic-ms", "udp-rel1"])
def test_a_hub_that_is_killed_is_found_again(pool, link, hub):
    """Nothing on the wire says that it has gone: the lease does."""
    lease = {"transport/link/tx/lease": 1000}
    shape = (LINKS | SHAPES)[link]
    endpoint = pool.endpoint(shape)
    settings = {**pool.settings(shape, "router", listen=[endpoint]), **lease}
    client = {**pool.settings(shape, "client", connect=[endpoint]), **lease}
    with contextlib.ExitStack() as ends, pool.peers(ZWIRE) as (ours,):
        first = Peer(hub)
        ends.callback(first.end)
        first.open(settings=settings)
        first.subscribe(name="sub", key="back")
        ours.open(settings=client)
        reached(ours, first, "sub", "back")
        first.kill()
        second = Peer(hub)
        ends.callback(second.end)
        second.open(settings=settings)
        second.subscribe(name="sub", key="back")

        def arrives():
            ours.put(key="back", payload="again")
            return second.received(name="sub", count=1, seconds=0.2)

        eventually("traffic flows again", arrives)
