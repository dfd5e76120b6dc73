"""Nodes with the scouting of their default configuration, on networks of our own that change and fail."""

import time

import pytest

from interop.harness import ECLIPSE, ZWIRE, Peer, eventually, reached, started_at_once
from network.namespaces import Network, missing

LEASE = 1.5
# What the way back may take beyond the lease.
GRACE = 2.0
# How often the interfaces are looked at, and what it takes to connect.
LOOK = 2.0
SHORT = {"transport/link/tx/lease": int(LEASE * 1000)}

pytestmark = pytest.mark.slow


class Hosts:
    """Processes on hosts of one network."""

    def __init__(self):
        self.network = Network()
        self.processes = []

    def host(self):
        return self.network.host()

    def node(self, host, implementation, mode, **settings):
        process = Peer(implementation, host)
        self.processes.append(process)
        process.opened = process.open(settings={"mode": mode, **SHORT, **settings})
        return process

    def end(self):
        for process in self.processes:
            process.end()
        self.network.end()


@pytest.fixture
def hosts():
    if reason := missing():
        pytest.skip(reason)
    hosts = Hosts()
    yield hosts
    hosts.end()


def neighbours(node):
    info = node.info()
    return sorted(info["routers"] + info["peers"])


def linked(*nodes, within=10.0):
    """Each has one transport with each other, and no more; how long that took, in seconds."""
    start = time.monotonic()

    def mesh():
        return all(
            neighbours(node) == sorted(other.opened["zid"] for other in nodes if other is not node)
            for node in nodes
        )

    eventually("a mesh", mesh, within=within)
    return time.monotonic() - start


def apart(node):
    eventually("the end of the link", lambda: neighbours(node) == [], within=3 * LEASE + GRACE)


def test_peers_of_both_kinds_find_each_other(hosts):
    nodes = [hosts.node(hosts.host(), kind, "peer") for kind in (ZWIRE, ECLIPSE)]
    for kind in (ZWIRE, ECLIPSE):
        nodes += started_at_once(0.2, lambda kind=kind: hosts.node(hosts.host(), kind, "peer"))
    linked(*nodes)
    for near, far in ((nodes[0], nodes[1]), (nodes[1], nodes[2]), (nodes[2], nodes[0])):
        key = f"found/{near.opened['zid']}"
        far.subscribe(name=key, key=key)
        reached(near, far, key, key)


def test_what_is_told_is_an_address_of_the_network(hosts):
    near, far = hosts.host(), hosts.host()
    node = hosts.node(near, ZWIRE, "peer")
    asker = Peer(ECLIPSE, far)
    hosts.processes.append(asker)
    found = asker.scout(settings={}, what="peer", seconds=0.5)
    [locator] = found[node.opened["zid"]]["locators"]
    assert locator.startswith(f"tcp/{near.address}:")


@pytest.mark.parametrize("other", [ZWIRE, ECLIPSE])
def test_a_cable_that_was_pulled(hosts, other):
    near, far = hosts.host(), hosts.host()
    nodes = [hosts.node(near, ZWIRE, "peer"), hosts.node(far, other, "peer")]
    linked(*nodes)
    near.unplug()
    apart(nodes[0])
    apart(nodes[1])
    time.sleep(2)
    near.plug()
    took = linked(*nodes, within=LEASE + 8)
    # Of the reference the next question may come after eight seconds; ours tries by itself.
    assert took < LEASE + GRACE, took


def test_another_address(hosts):
    near, far = hosts.host(), hosts.host()
    nodes = [hosts.node(near, ZWIRE, "peer"), hosts.node(far, ZWIRE, "peer")]
    linked(*nodes)
    near.move(77)
    apart(nodes[1])
    took = linked(*nodes, within=LEASE + LOOK + GRACE)
    assert took < LEASE + LOOK + GRACE
    # A node that starts now hears of the new one.
    linked(*nodes, hosts.node(hosts.host(), ECLIPSE, "peer"))


def test_an_interface_that_comes_later(hosts):
    near, far = hosts.host(), hosts.host()
    near.down()
    nodes = [hosts.node(near, ZWIRE, "peer"), hosts.node(far, ZWIRE, "peer")]
    assert neighbours(nodes[0]) == []
    near.up()
    linked(*nodes, within=LOOK + GRACE)


def test_a_host_without_a_network(hosts):
    """Programs of one host find each other on its loopback."""
    host = hosts.host()
    host.down()
    nodes = [hosts.node(host, ZWIRE, "peer")]
    nodes += started_at_once(0.2, lambda: hosts.node(host, ZWIRE, "peer"))
    linked(*nodes)


def test_a_network_without_multicast(hosts):
    """Endpoints and gossip do what multicast cannot; there is one warning at most."""
    places = [hosts.host() for _ in range(3)]
    for place in places:
        place.namespace.ip("link set eth0 multicast off")
    first = hosts.node(places[0], ZWIRE, "peer", **{"listen/endpoints": ["tcp/0.0.0.0:7447"]})
    connect = {"connect/endpoints": [f"tcp/{places[0].address}:7447"]}
    others = [hosts.node(place, ZWIRE, "peer", **connect) for place in places[1:]]
    linked(first, *others)
    assert first.complaints().count("scouting") <= 1


@pytest.mark.parametrize("kind", [ZWIRE, ECLIPSE])
def test_a_client_follows_its_router(hosts, kind):
    router = hosts.node(hosts.host(), kind, "router")
    client = hosts.node(hosts.host(), ZWIRE, "client")
    assert neighbours(client) == [router.opened["zid"]]
    router.kill()
    apart(client)
    again = hosts.node(hosts.host(), kind, "router")
    eventually("the next router", lambda: neighbours(client) == [again.opened["zid"]], within=10)
