"""Captures that zwire writes of itself (`zwire/tap`) while it talks to another implementation."""

import json
from collections import Counter

import pytest

from interop.harness import ECLIPSE, ZWIRE, reached, subscribed
from zwire.capture import decode

SMALL = 300
LARGE = {"size": 8 << 20, "seed": 3}


def records(path):
    found = [json.loads(line) for line in b"".join(iter(decode(path).jsonl, b"")).splitlines()]
    assert not [record["error"] for record in found if record["error"] is not None]
    return found


@pytest.mark.parametrize("compression", [False, True], ids=["plain", "compressed"])
@pytest.mark.parametrize("tapped", ["hub", "publisher"])
def test_a_capture_has_everything(net, tmp_path, tapped, compression):
    """Sent by one of each implementation and received by one of eclipse-zenoh, through a hub of either."""
    path = tmp_path / "tap.pcap"
    both = {"transport/unicast/compression/enabled": compression}
    tap = {"zwire/tap": str(path)}
    hub = net.hub(ZWIRE, **both, **tap) if tapped == "hub" else net.hub(ECLIPSE, **both)
    own = net.client(ZWIRE, hub, **both, **({} if tapped == "hub" else tap))
    theirs = net.client(ECLIPSE, hub, **both)
    sub = net.client(ECLIPSE, hub, **both)
    subscribed(own, sub, "tap/**")
    reached(theirs, sub, "sub", "tap/theirs")
    for name, peer in (("own", own), ("theirs", theirs)):
        peer.publisher(name="pub", key=f"tap/{name}/small", congestion_control="BLOCK")
        for _ in range(SMALL):
            peer.publish(name="pub", payload="small")
        peer.put(key=f"tap/{name}/large", payload=LARGE, congestion_control="BLOCK")
    expected = {
        f"tap/{name}/{kind}": count
        for name in ("own", "theirs")
        for kind, count in (("small", SMALL), ("large", 1))
    }
    received = sub.received(name="sub", count=2 * SMALL + 2, seconds=10)
    assert Counter(sample["key"] for sample in received) == expected
    tapping = hub if tapped == "hub" else own
    tapping.close()
    sent = Counter(record["key"] for record in records(path) if record["message"] == "push")
    # Into the hub and out of it; the publisher sees its own.
    crossings = {"own": 2, "theirs": 2} if tapped == "hub" else {"own": 1, "theirs": 0}
    for key, count in expected.items():
        assert sent[key] == count * crossings[key.split("/")[1]], key
