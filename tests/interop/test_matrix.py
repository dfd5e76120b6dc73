"""Each link of each pair of roles, with eclipse-zenoh at the other end.

``matrix.py`` says what a cell is; README.md has what cannot be asked of some.
"""

import itertools

import pytest

from interop.certificates import Authority
from interop.harness import ECLIPSE, OLD, ZWIRE, eventually, random_bytes, reached, shown
from interop.matrix import LINKS, SHAPES, Cell, Meeting, Pool, cells

# One pair of each kind. The first release of the line is met in all pairs over TCP, in these over the rest.
PAIRS = {("client", "router"), ("router", "client"), ("peer", "peer")}

BLOCK = {"congestion_control": "BLOCK"}


@pytest.fixture(scope="module")
def pool(tmp_path_factory):
    folder = tmp_path_factory.mktemp("matrix")
    pool = Pool(folder, Authority(folder))
    yield pool
    pool.end()


@pytest.mark.parametrize("cell", [*cells(LINKS), *cells(SHAPES, roles=PAIRS)], ids=str)
def test_a_cell(pool, cell):
    with pool.peers(ZWIRE, ECLIPSE) as (ours, theirs):
        pair = Meeting(pool, cell, ours, theirs)
        pair.each(
            "publisher", name="pub", key=lambda n: f"to/{n.other.word}/data", congestion_control="BLOCK"
        )
        pair.each("matching_listener", name="matched", of="pub")
        pair.each("querier", name="querier", key=lambda n: f"ask/{n.other.word}/*")
        pair.each("matching_listener", name="answered", of="querier")
        pair.each("liveliness_subscribe", name="alive", key=lambda n: f"live/{n.other.word}", history=True)
        pair.each("subscribe", name="sub", key=lambda n: f"to/{n.word}/**")
        pair.each(
            "queryable",
            name="q",
            key=lambda n: f"ask/{n.word}/*",
            script=[
                {"do": "reply", "payload": "one", "key": None, "attachment": "a", "encoding": "text/plain"},
                {"do": "err", "payload": "two"},
            ],
        )
        pair.each("token", name="token", key=lambda n: f"live/{n.word}")
        eventually("each matches", lambda: all(pair.each("matching", name="pub")))
        eventually("each is answered", lambda: all(pair.each("matching", name="querier")))
        published(pair)
        asked(pair, lambda **fields: pair.each("querier_get", name="querier", **fields))
        asked(pair, lambda **fields: pair.each("get", selector=lambda n: f"ask/{n.other.word}/x", **fields))
        alive(pair)
        for name in ("token", "sub", "q"):
            pair.each("undeclare", name=name)
        for name in ("matched", "answered"):
            seen = pair.each("received", name=name, count=2, seconds=5)
            assert [[s["matching"] for s in side] for side in seen] == [[True, False]] * 2, name
        for node in pair.nodes:
            kinds = eventually("the token is gone", lambda n=node: gone(n))
            if node.implementation == ECLIPSE:
                # What it kept from an answer, below, it gave to its subscriber once more.
                kinds = [kind for kind, _ in itertools.groupby(kinds)]
            assert kinds == ["PUT", "DELETE"], node.word


def gone(node):
    """The changes of a token that a node saw, once the last of them is its end."""
    kinds = [s["kind"] for s in node.received(name="alive", count=2, seconds=1)]
    return kinds if kinds[-1] == "DELETE" else None


def published(pair):
    """All that a publisher can say, and nothing of it twice."""
    large = {"size": pair.link.large, "seed": 7}
    pair.each("publish", name="pub", payload="first", encoding="text/plain", attachment=[0, 255])
    pair.each("publish", name="pub", payload=large)
    pair.each("publish_delete", name="pub")
    pair.each("put", key=lambda n: f"to/{n.other.word}/last", payload="last", **BLOCK)
    for node, got in zip(pair.nodes, pair.each("received", name="sub", count=4, seconds=5), strict=True):
        data = f"to/{node.word}/data"
        assert [(s["key"], s["kind"]) for s in got] == [
            (data, "PUT"),
            (data, "PUT"),
            (data, "DELETE"),
            (f"to/{node.word}/last", "PUT"),
        ]
        assert (got[0]["payload"], got[0]["encoding"]) == (shown(b"first"), "text/plain")
        assert got[0]["attachment"] == shown(b"\0\xff")
        assert got[1]["payload"] == shown(random_bytes(**large))


def asked(pair, ask):
    for node, got in zip(pair.nodes, ask(payload="why", attachment="b"), strict=True):
        replies = sorted(got["replies"], key=lambda r: not r["ok"])
        assert [r["payload"] for r in replies] == [shown(b"one"), shown(b"two")], node.word
        assert (replies[0]["attachment"], replies[0]["encoding"]) == (shown(b"a"), "text/plain")
        # The finals end it, not a timeout.
        assert got["seconds"] < 2
    for seen in pair.each("received", name="q", count=1, seconds=0):
        assert (seen[-1]["payload"], seen[-1]["attachment"]) == (shown(b"why"), shown(b"b"))


def alive(pair):
    for node, seen in zip(pair.nodes, pair.each("received", name="alive", count=1, seconds=5), strict=True):
        assert [(s["kind"], s["key"]) for s in seen] == [("PUT", f"live/{node.other.word}")]

    def found(node):
        got = node.liveliness_get(key="live/*")
        assert got["seconds"] < 2
        return f"live/{node.other.word}" in [r["key"] for r in got["replies"]]

    for node in pair.nodes:
        if node.implementation == ZWIRE and pair.link.reliable:
            assert found(node)
        else:
            # eclipse-zenoh, also at its own router, now and then takes a token of the answer for news.
            eventually("the answer comes through", lambda n=node: found(n))


def old_cells():
    """A pair of each kind over TCP; all other cells are part of `make test-long`."""
    short = cells(["tcp"], OLD, PAIRS)
    for cell in [*cells(["tcp"], OLD), *cells([link for link in LINKS if link != "tcp"], OLD, PAIRS)]:
        yield pytest.param(cell, id=str(cell), marks=[] if cell in short else [pytest.mark.long])


@pytest.mark.parametrize("cell", list(old_cells()))
def test_a_cell_with_the_first_release(pool, cell):
    """The first release has no queriers, matching status or tokens in its interface."""
    with pool.peers(ZWIRE, OLD) as (ours, theirs):
        pair = Meeting(pool, cell, ours, theirs)
        pair.each("subscribe", name="sub", key=lambda n: f"to/{n.word}/**")
        pair.each(
            "queryable", name="q", key=lambda n: f"ask/{n.word}/*", script=[{"do": "reply", "payload": "x"}]
        )
        for node in pair.nodes:
            reached(node, node.other, "sub", f"to/{node.other.word}/probe")
        large = {"size": pair.link.large, "seed": 7}
        data = {"key": lambda n: f"to/{n.other.word}/data", **BLOCK}
        pair.each("put", payload="first", encoding="text/plain", attachment="a", **data)
        pair.each("put", payload=large, **data)
        pair.each("delete", **data)
        for got in pair.each("received", name="sub", count=3, seconds=5):
            assert [s["kind"] for s in got] == ["PUT", "PUT", "DELETE"]
            assert (got[0]["payload"], got[0]["attachment"]) == (shown(b"first"), shown(b"a"))
            assert got[1]["payload"] == shown(random_bytes(**large))
        for got in pair.each("get", selector=lambda n: f"ask/{n.other.word}/x"):
            assert [r["payload"] for r in got["replies"]] == [shown(b"x")]
            assert got["seconds"] < 2


def batches(stream, prefixes):
    """Batches at the start of what was said on a connection, each behind a length of so many bytes."""
    found = []
    for size in prefixes:
        length = int.from_bytes(stream[:size], "little")
        found.append(bytes(stream[size : size + length]))
        assert len(found[-1]) == length
        del stream[: size + length]
    return found


@pytest.mark.parametrize("foreign", [ECLIPSE, OLD])
@pytest.mark.parametrize("listener", [ZWIRE, "foreign"])
def test_low_latency_is_what_crosses_the_wire(pool, foreign, listener):
    """Cells of low latency would be green as well if the two had not agreed on it."""
    cell = Cell("lowlatency", "peer", "peer", listener, foreign)
    with pool.peers(ZWIRE, foreign) as (ours, theirs), pool.relayed(cell, remember=1 << 16) as relay:
        pair = Meeting(pool, cell, ours, theirs, relay)
        pair.each("subscribe", name="sub", key=lambda n: f"to/{n.word}")
        for node in pair.nodes:
            reached(node, node.other, "sub", f"to/{node.other.word}")
        for stream in relay.seen[-1]:
            # INIT, OPEN, then what the nodes declare to each other: lengths of four bytes, and no FRAME.
            *_, declared = batches(stream, (2, 2, 4))
            assert declared[0] & 0x1F >= 0x19


@pytest.mark.parametrize("foreign", [ECLIPSE, OLD])
@pytest.mark.parametrize("listener", [ZWIRE, "foreign"])
def test_compressible_payloads_are_compressed(pool, foreign, listener):
    cell = Cell("compression", "peer", "peer", listener, foreign)
    with pool.peers(ZWIRE, foreign) as (ours, theirs), pool.relayed(cell) as relay:
        pair = Meeting(pool, cell, ours, theirs, relay)
        pair.each("subscribe", name="sub", key=lambda n: f"to/{n.word}")
        for node in pair.nodes:
            reached(node, node.other, "sub", f"to/{node.other.word}")
        before = relay.bytes
        text = "compressible " * 20_000
        pair.each("put", key=lambda n: f"to/{n.other.word}", payload=text, **BLOCK)
        for got in pair.each("received", name="sub", count=1, seconds=5):
            assert [s["payload"] for s in got] == [shown(text.encode())]
        assert relay.bytes - before < len(text) / 10
