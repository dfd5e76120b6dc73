"""The admin space: the same questions to a network of each implementation, and the same answers."""

import gzip
import json
import re

from interop.harness import ECLIPSE, ZWIRE, eventually, free_port
from zwire import zenoh

PATIENCE = 10.0

# Name and settings of each node.
ROUTER, ROUTER_2, CLIENT, PEER, ASKER = "aaaa", "bbbb", "cccc", "dddd", "eeee"


def build(net, implementation):
    """Two routers, a client and a peer, each with one declaration of every kind; where the first listens."""
    ports = [free_port() for _ in range(3)]
    first, second, third = (f"tcp/127.0.0.1:{port}" for port in ports)
    more = {"adminspace/enabled": True}
    nodes = {
        ROUTER: net.node(implementation, "router", listen=[first], id=ROUTER, metadata={"name": "x"}, **more),
        ROUTER_2: net.node(implementation, "router", listen=[second], connect=[first], id=ROUTER_2, **more),
        CLIENT: net.node(implementation, "client", connect=[first], id=CLIENT, **more),
        PEER: net.node(implementation, "peer", listen=[third], connect=[first], id=PEER, **more),
    }
    for name, node in nodes.items():
        for number, key in enumerate((name, "all")):
            node.subscribe(name=f"s{number}", key=f"sub/{key}")
            node.publisher(name=f"p{number}", key=f"pub/{key}")
        node.queryable(name="q", key=f"q/{name}/*", script=[])
        node.querier(name="qr", key=f"qr/{name}")
        node.token(name="t", key=f"tok/{name}")
    return first


def answers(endpoint, selector):
    """Encoding and payload by key, as a client of our own gets them."""
    settings = {
        "mode": "client",
        "connect/endpoints": [endpoint],
        "id": ASKER,
        "scouting/multicast/enabled": False,
    }
    with zenoh.open(settings) as session:
        replies = [reply.ok for reply in session.get(selector, timeout=PATIENCE)]
        assert all(reply is not None for reply in replies)
        return {
            str(r.key_expr): (str(r.encoding), r.payload.to_bytes())
            for r in replies
            if ASKER not in str(r.key_expr)
        }


def described(encoding, payload):
    """The part of a reply that must be the same; lists of the reference hold duplicates, in no order."""
    if encoding != "application/json":
        return encoding, payload.decode()
    value = json.loads(payload)
    if isinstance(value, dict):
        value = {key: sorted(set(known)) for key, known in value.items()}
    return encoding, value


def root(answer):
    """A root document without what differs from run to run."""
    encoding, payload = answer
    value = json.loads(payload)
    assert isinstance(value.pop("version"), str)
    # Ours are TCP without shared memory.
    for session in value["sessions"]:
        assert session.pop("shm") in (True, False)
    value["sessions"].sort(key=lambda session: session["peer"])
    return encoding, json.loads(re.sub(r"127\.0\.0\.1:\d+", "HERE", json.dumps(value)))


def test_a_network_describes_itself_as_the_reference_does(net):
    seen = {}
    # The last declaration of each node that has a link with another one, at the router that is told last.
    tokens = {f"@/{ROUTER_2}/router/token/tok/{node}" for node in (ROUTER, CLIENT, PEER)}
    for implementation in (ECLIPSE, ZWIRE):
        endpoint = build(net, implementation)

        def all_is_known(endpoint=endpoint):
            found = answers(endpoint, "@/**")
            return found if tokens <= found.keys() else None

        # Routers tell each other after a moment of their own.
        seen[implementation] = eventually("everything is known everywhere", all_is_known)
    theirs, ours = seen[ECLIPSE], seen[ZWIRE]
    roots = {f"@/{ROUTER}/router", f"@/{ROUTER_2}/router", f"@/{CLIENT}/client", f"@/{PEER}/peer"}
    metrics = {f"{key}/metrics" for key in roots}
    assert roots | metrics <= ours.keys()
    assert len(ours) > 60
    assert ours.keys() == theirs.keys()
    for key in ours.keys() - roots - metrics:
        assert described(*ours[key]) == described(*theirs[key]), key
    for key in roots:
        assert root(ours[key]) == root(theirs[key]), key
    for key in metrics:
        assert ours[key][0] == theirs[key][0]
        first, *_, last = gzip.decompress(ours[key][1]).decode().splitlines()
        assert (first, last) == ("# HELP zenoh_build Zenoh build version.", "# EOF")


def test_what_is_asked_for_alone_comes_alone(net):
    endpoint = build(net, ZWIRE)
    assert answers(endpoint, f"@/{ROUTER}/router").keys() == {f"@/{ROUTER}/router"}
    assert answers(endpoint, "@/*/client").keys() == {f"@/{CLIENT}/client"}
    (plain,) = answers(endpoint, f"@/{ROUTER}/router/metrics?compression=false").values()
    assert plain[0] == "application/openmetrics-text; version=1.0.0; charset=utf-8"
    assert plain[1].startswith(b"# HELP zenoh_build")
    key = f"@/{ROUTER}/router/subscriber/sub/{CLIENT}"
    assert answers(endpoint, key).keys() == {key}
    assert answers(endpoint, f"@/{ROUTER}/router/nothing") == {}
