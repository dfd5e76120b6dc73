"""Nodes of both implementations find each other: by multicast on the loopback, and by gossip.

Each test has a group of its own; nothing leaves the machine.
"""

import itertools
import socket

import pytest

from interop.harness import (
    ECLIPSE,
    OLD,
    ZWIRE,
    Net,
    PeerError,
    eventually,
    free_port,
    reached,
    started_at_once,
)

BOTH_WAYS = [(ZWIRE, ECLIPSE), (ECLIPSE, ZWIRE)]
ALL_WAYS = [*BOTH_WAYS, (ZWIRE, OLD), (OLD, ZWIRE)]


@pytest.fixture
def net():
    net = Net()
    yield net
    net.end()


@pytest.fixture
def loud():
    """Settings of nodes that find each other."""
    return {
        "scouting/multicast/enabled": True,
        "scouting/multicast/interface": "lo",
        "scouting/multicast/address": f"224.0.0.224:{free_port(socket.SOCK_DGRAM)}",
    }


def listening():
    return [f"tcp/127.0.0.1:{free_port()}"]


def neighbours(node):
    info = node.info()
    return sorted(info["routers"] + info["peers"])


def linked(*nodes):
    """Each has one transport with each other, and no more."""

    def mesh():
        return all(
            neighbours(node) == sorted(other.opened["zid"] for other in nodes if other is not node)
            for node in nodes
        )

    eventually("a mesh", mesh, within=10)


def carries(near, far):
    key = f"found/{near.opened['zid']}"
    far.subscribe(name=key, key=key)
    reached(near, far, key, key)


@pytest.mark.parametrize(("first", "second"), ALL_WAYS)
def test_peers_find_each_other_and_open_at_once(first, second, net, loud):
    """A peer that finds another opens as soon as that has told what it declares."""
    took = []
    for _ in range(3):
        early = net.node(first, "peer", listen=listening(), **loud)
        early.subscribe(name="all", key="**")
        late = net.node(second, "peer", listen=listening(), **loud)
        linked(early, late)
        carries(early, late)
        carries(late, early)
        took.append(late.opened["seconds"])
        late.close()
        early.close()
    # The first of a process has more to do than to connect. The 1.0 release always waits its whole delay.
    if second != OLD:
        assert min(took) < 0.1, took


def test_peers_that_start_together(net, loud):
    """Two may connect to each other at the same moment: one link remains, and it works."""
    nodes = [net.start(ZWIRE), net.start(ECLIPSE), net.start(ZWIRE), net.start(ECLIPSE)]
    for _ in range(5):
        for node in nodes:
            settings = {"mode": "peer", "listen/endpoints": listening(), **loud}
            node.send("open", settings=settings)
        for node in nodes:
            node.opened = node.answer()
        linked(*nodes)
        ours = [node for node in nodes if node.implementation == ZWIRE]
        for node in ours:
            node.transport_events(name="changes")
        for near, far in itertools.permutations(nodes, 2):
            carries(near, far)
        for node in ours:
            changes = node.received(name="changes", count=1, seconds=0)
            assert [change for change in changes if change["kind"] == "DELETE"] == [], "no flapping"
        linked(*nodes)
        for node in nodes:
            node.reset()


@pytest.mark.parametrize(("router", "client"), ALL_WAYS)
def test_a_client_finds_a_router(router, client, net, loud):
    hub = net.node(router, "router", listen=listening(), **loud)
    node = net.node(client, "client", **loud)
    assert node.info()["routers"] == [hub.opened["zid"]]
    assert node.opened["seconds"] < 1
    carries(node, hub)


@pytest.mark.parametrize(("router", "peer"), ALL_WAYS)
def test_a_peer_finds_a_router(router, peer, net, loud):
    hub = net.node(router, "router", listen=listening(), **loud)
    node = net.node(peer, "peer", listen=listening(), **loud)
    linked(hub, node)
    carries(node, hub)
    carries(hub, node)
    if peer == ZWIRE:
        started_at_once(0.1, lambda: net.node(peer, "peer", listen=listening(), **loud), node)


@pytest.mark.parametrize(("asker", "asked"), ALL_WAYS)
def test_each_lists_the_other(asker, asked, net, loud):
    router = net.node(asked, "router", listen=listening(), **loud)
    peer = net.node(asked, "peer", listen=listening(), **loud)
    client = net.node(asked, "client", **loud)
    expected = {
        node.opened["zid"]: role for node, role in ((router, "ROUTER"), (peer, "PEER"), (client, "CLIENT"))
    }
    if asked == OLD:
        # Clients of the 1.0 release do not answer.
        del expected[client.opened["zid"]]
    node = net.start(asker)
    found = node.scout(settings=loud, what="router|peer|client", seconds=1)
    assert {zid: hello["role"] for zid, hello in found.items()} == expected
    assert all(hello["locators"] == [] for hello in found.values() if hello["role"] == "CLIENT")
    assert found[router.opened["zid"]]["locators"][0].startswith("tcp/127.0.0.1:")
    found = node.scout(settings=loud, what="router", seconds=0.5)
    assert list(found) == [router.opened["zid"]]


@pytest.mark.parametrize("middle", [ZWIRE, ECLIPSE])
@pytest.mark.parametrize("mode", ["peer", "router"])
def test_gossip_makes_a_mesh(middle, mode, net):
    """Three peers that know nothing but one node in the middle, by which they hear of each other."""
    where = listening()
    known = net.node(middle, mode, listen=where)
    peers = [
        net.node(implementation, "peer", listen=listening(), connect=where)
        for implementation in (ZWIRE, ECLIPSE, ZWIRE)
    ]
    linked(known, *peers)
    for near, far in itertools.permutations(peers, 2):
        carries(near, far)


def test_somebody_else_at_the_address_of_a_node_that_was_found(net, loud):
    """The id that HELLO named is the one that has to answer; the stranger is told that this is invalid."""
    stranger = net.node(ECLIPSE, "router", listen=(where := listening()))
    group, port = loud["scouting/multicast/address"].split(":")
    with socket.socket(type=socket.SOCK_DGRAM) as liar:
        liar.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        liar.bind((group, int(port)))
        loopback = socket.inet_aton(group) + socket.inet_aton("127.0.0.1")
        liar.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, loopback)
        liar.settimeout(10)
        node = net.start(ZWIRE)
        node.send("open", settings={"mode": "peer", "listen/endpoints": listening(), **loud})
        scout, asker = liar.recvfrom(64)
        assert scout.hex() == "010907"
    hello = bytes([0x22, 0x09, 0x00, 0x77, 1, len(where[0])]) + where[0].encode()
    with socket.socket(type=socket.SOCK_DGRAM) as liar:
        liar.sendto(hello, asker)
    node.opened = node.answer()
    assert neighbours(node) == neighbours(stranger) == []


def test_a_client_of_the_reference_gives_up_beside_a_client_of_ours(net, loud):
    """Two clients have no session, and a client of ours offers none."""
    alone = {"connect/endpoints": listening(), "connect/exit_on_failure": False}
    net.start(ZWIRE).open(settings={"mode": "client", **loud, **alone})
    with pytest.raises(PeerError):
        net.node(ECLIPSE, "client", **{**loud, "scouting/timeout": 500})
