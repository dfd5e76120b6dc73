"""Several routers of both implementations in one network: lines, triangles, ways cut and healed."""

import collections
import time

import pytest

from interop.harness import ECLIPSE, ZWIRE, eventually, reached, shown
from network.relay import Relay

BLOCK = {"congestion_control": "BLOCK"}
COUNT = 200

Z, E = ZWIRE, ECLIPSE
# Every link of the first two joins both implementations.
MIXED = [
    (E, Z, E),
    (Z, E, Z),
    *(pytest.param(mix, marks=pytest.mark.long) for mix in ((Z, Z, E), (E, E, Z), (Z, Z, Z))),
]


def named(kinds):
    return "-".join("zwire" if kind == Z else "eclipse" for kind in kinds)


def other(kind):
    return E if kind == Z else Z


class Way:
    """A connection of two routers that can be cut."""

    def __init__(self, target):
        self.target = int(target.endpoint.rpartition(":")[2])
        self.relay = Relay(self.target)
        self.port = self.relay.port
        self.endpoint = f"tcp/127.0.0.1:{self.port}"

    def cut(self):
        self.relay.end()

    def heal(self):
        self.relay = Relay(self.target, port=self.port)


class Routers:
    """Routers at 0, 1, 2, and a client of the other implementation at each."""

    def __init__(self, net, kinds, edges):
        self.net = net
        self.routers = []
        self.ways = {}
        for number, kind in enumerate(kinds):
            mine = [(a, b) for a, b in edges if b == number]
            for a, b in mine:
                self.ways[a, b] = Way(self.routers[a])
            self.routers.append(net.hub(kind, **{"connect/endpoints": [self.ways[e].endpoint for e in mine]}))
        self.clients = [net.client(other(r.implementation), r) for r in self.routers]

    def end(self):
        for way in self.ways.values():
            way.relay.end()


@pytest.fixture
def routers(net):
    made = []

    def make(kinds, edges):
        made.append(Routers(net, kinds, edges))
        return made[-1]

    yield make
    for each in made:
        each.end()


def line(kinds, make):
    return make(kinds, [(0, 1), (1, 2)])


def triangle(kinds, make):
    return make(kinds, [(0, 1), (1, 2), (0, 2)])


def listen_everywhere(nodes):
    """Each subscribes to what all publish, and a put of each reaches each other."""
    for node in nodes:
        node.subscribe(name="sub", key="net/**")
    for number, near in enumerate(nodes):
        for far in nodes:
            if far is not near:
                reached(near, far, "sub", f"net/{number}/probe")


def settled(nodes, word):
    """Waits until a put of each has reached each other, several times in a row without a loss.

    Routers work out their ways each in its own time; there is no way to ask whether all have.
    """
    rounds = []

    def one_round():
        number = len(rounds)
        keys = [f"net/{n}/{word}/{number}" for n in range(len(nodes))]
        for node, key in zip(nodes, keys, strict=True):
            node.put(key=key, payload="probe", **BLOCK)
        time.sleep(0.1)
        seen = [{s["key"] for s in node.received(name="sub", count=1, seconds=0)} for node in nodes]
        rounds.append(all(key in keys_seen for keys_seen in seen for key in keys))
        return rounds[-5:] == [True] * 5

    eventually(f"the network settles ({word})", one_round, within=20)


def exactly_once(nodes, word):
    """Each publication comes once to each other node, and to its own session."""
    for node in nodes:
        node.forget(name="sub")
    for number, node in enumerate(nodes):
        for count in range(COUNT):
            node.send("put", key=f"net/{number}/{word}", payload=str(count), **BLOCK)
    for node in nodes:
        for _ in range(COUNT):
            node.answer()
    keys = [f"net/{number}/{word}" for number in range(len(nodes))]
    expected = {(key, shown(str(count).encode())): 1 for key in keys for count in range(COUNT)}
    for node in nodes:
        samples = node.received(name="sub", count=len(expected), seconds=10)
        # A second copy would come by a longer way.
        time.sleep(0.05)
        samples = node.received(name="sub", count=len(expected), seconds=0)
        counts = collections.Counter((s["key"], s["payload"]) for s in samples if s["key"] in keys)
        assert counts == expected


def answers(asker, key, **options):
    return sorted(r["payload"] for r in asker.get(selector=key, **options)["replies"])


@pytest.mark.parametrize("kinds", MIXED, ids=named)
def test_a_line_of_three_carries_everything_from_end_to_end(routers, kinds):
    net = line(kinds, routers)
    first, middle, last = net.clients
    listen_everywhere(net.clients)
    exactly_once(net.clients, "word")

    # Queries: to the far end, to both ends, to a key without a queryable; and their ends.
    for node, word in ((first, "first"), (last, "last")):
        # The key of its own: replies to one key would be one reply.
        script = [{"do": "reply", "payload": word, "key": f"ask/{word}"}]
        node.queryable(name="q", key=f"ask/{word}", script=script, complete=True)
    eventually("the first is found", lambda: answers(last, "ask/first") == [shown(b"first")])
    eventually("the last is found", lambda: answers(first, "ask/last") == [shown(b"last")])
    both = [shown(b"first"), shown(b"last")]
    eventually("both are found", lambda: answers(middle, "ask/*", target="ALL") == both)
    nothing = middle.get(selector="nobody/here")
    assert nothing["replies"] == []
    assert nothing["seconds"] < 5

    # A publisher knows whether a subscriber exists at the far end.
    first.publisher(name="pub", key="match/this")
    assert not first.matching(name="pub")
    last.subscribe(name="match", key="match/*")
    eventually("somebody listens", lambda: first.matching(name="pub"))
    last.undeclare(name="match")
    eventually("nobody listens any more", lambda: not first.matching(name="pub"))

    # Tokens, their owner's crash included.
    # Without the history a token that overtakes the subscription would not be told.
    first.liveliness_subscribe(name="live", key="live/**", history=True)
    last.token(name="t", key="live/last")
    eventually(
        "the token is seen",
        lambda: [s["kind"] for s in first.received(name="live", count=1, seconds=0)] == ["PUT"],
    )
    seen = middle.liveliness_get(key="live/**")["replies"]
    assert [r["key"] for r in seen] == ["live/last"]
    last.kill()
    eventually(
        "the end of the token is seen",
        lambda: [s["kind"] for s in first.received(name="live", count=2, seconds=0)] == ["PUT", "DELETE"],
        within=15,
    )
    gone = first.get(selector="ask/last")
    assert gone["replies"] == []
    assert gone["seconds"] < 5


@pytest.mark.parametrize("kinds", MIXED, ids=named)
def test_a_triangle_doubles_nothing_and_survives_a_cut(routers, kinds):
    net = triangle(kinds, routers)
    listen_everywhere(net.clients)
    exactly_once(net.clients, "whole")
    for way in net.ways.values():
        way.cut()
        settled(net.clients, "cut")
        exactly_once(net.clients, "cut")
        way.heal()
        eventually("the way is used again", lambda relay=way.relay: relay.bytes > 0, within=15)
        settled(net.clients, "healed")
        exactly_once(net.clients, "healed")


@pytest.mark.parametrize("kinds", MIXED, ids=named)
def test_what_is_cut_off_is_gone_and_comes_back(routers, kinds):
    net = line(kinds, routers)
    first, _, last = net.clients
    listen_everywhere(net.clients)
    # Without the history a token that overtakes the subscription would not be told.
    first.liveliness_subscribe(name="live", key="live/**", history=True)
    last.token(name="t", key="live/last")
    last.queryable(name="q", key="ask/**", script=[{"do": "hold"}])
    kinds_seen = lambda: [s["kind"] for s in first.received(name="live", count=1, seconds=0)]  # noqa: E731
    eventually("the token is seen", lambda: kinds_seen() == ["PUT"])
    last_asked = lambda: last.received(name="q", count=1, seconds=0.1)  # noqa: E731
    eventually("a query gets there", lambda: first.get(selector="ask/x", timeout=0.3) and last_asked())

    # A query that waits ends with the way that it took.
    first.send("get", selector="ask/y", timeout=30.0)
    eventually("the query is there", lambda: len(last_asked()) > 1)
    net.ways[1, 2].cut()
    ended = first.answer(within=15)
    assert ended["seconds"] < 10
    eventually("the token is gone", lambda: kinds_seen() == ["PUT", "DELETE"], within=15)

    net.ways[1, 2].heal()
    eventually("the token is back", lambda: kinds_seen() == ["PUT", "DELETE", "PUT"], within=15)
    settled(net.clients, "again")
    exactly_once(net.clients, "again")


@pytest.mark.parametrize(("router", "peer"), [(Z, E), (E, Z), (Z, Z)], ids=lambda kind: kind)
def test_peers_behind_a_router_find_each_other_by_gossip(net, router, peer):
    """Eclipse's peers are what `zenoh-behaviour` 5.5 observed: with listeners they mesh."""
    hub = net.hub(router)
    settings = {"listen": ["tcp/127.0.0.1:0"], "connect": [hub.endpoint]}
    peers = [net.node(peer, "peer", **settings) for _ in range(3)]
    zids = [node.opened["zid"] for node in peers]
    for node, zid in zip(peers, zids, strict=True):
        others = sorted(set(zids) - {zid})
        eventually("it knows the others", lambda n=node, o=others: sorted(n.info()["peers"]) == o, within=10)
    listen_everywhere(peers)
    exactly_once(peers, "beside")
    hub.kill()
    exactly_once(peers, "without")
