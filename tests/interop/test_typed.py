"""Values of models between us and programs for eclipse-zenoh, which see encodings and bytes."""

import base64
import json
from dataclasses import dataclass

import msgpack
import pytest

from interop.harness import ECLIPSE, ZWIRE
from zwire import typed, zenoh

PATIENCE = 10.0


@dataclass
class Position:
    x: float
    y: float = 0.0


@pytest.fixture(params=[ZWIRE, ECLIPSE], ids=lambda hub: f"hub of {hub}")
def both(request, net):
    """A session here, and a client of eclipse-zenoh."""
    hub = net.hub(request.param)
    peer = net.client(ECLIPSE, hub)
    config = {"mode": "client", "connect/endpoints": [hub.endpoint], "scouting/multicast/enabled": False}
    with zenoh.open(config) as session:
        yield session, peer


def test_what_the_peer_publishes_is_a_value(both):
    session, peer = both
    with typed.subscriber(session, "typed/*", Position) as subscriber:
        subscriber.wait_ready(timeout=PATIENCE)
        peer.put(key="typed/ready", payload='{"x": 0}')
        assert subscriber.recv(timeout=PATIENCE).value == Position(0.0)
        packed = list(msgpack.packb({"x": 2.0}))
        for payload, encoding in [
            ('{"x": 2}', "application/json"),
            ('{"x": 2}', "application/json;Position"),
            ('{"x": 2}', "text/json"),
            (packed, "application/msgpack"),
            (packed, "application/msgpack;Position"),
        ]:
            peer.put(key="typed/a", payload=payload, encoding=encoding)
            message = subscriber.recv(timeout=PATIENCE)
            assert (message.value, str(message.sample.encoding)) == (Position(2.0), encoding)
        peer.put(key="typed/a", payload="x", encoding="of/theirs;v=1")
        assert "no codec reads of/theirs" in str(subscriber.recv(timeout=PATIENCE).error)


def test_the_peer_sees_encoding_and_bytes(both):
    session, peer = both
    peer.subscribe(name="sub", key="typed/*")
    with typed.publisher(session, "typed/ready", Position) as publisher:
        publisher.wait_matching(timeout=PATIENCE)
    for codec in ("json", "msgpack", "zenoh"):
        typed.put(session, f"typed/{codec}", Position(1.5), codec=codec)
    got = {s["key"]: s for s in peer.received(name="sub", count=3, seconds=PATIENCE)}
    payloads = {key: base64.b64decode(sample["payload"]) for key, sample in got.items()}
    assert {key: sample["encoding"] for key, sample in got.items()} == {
        "typed/json": "application/json;Position",
        "typed/msgpack": "application/msgpack;Position",
        "typed/zenoh": "zenoh/serialized;Position",
    }
    assert json.loads(payloads["typed/json"]) == {"x": 1.5, "y": 0.0}
    assert msgpack.unpackb(payloads["typed/msgpack"]) == {"x": 1.5, "y": 0.0}
