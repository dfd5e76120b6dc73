"""Captures that a session writes of itself (`zwire/tap`), read back without a hint where Zenoh is in them."""

import json
import os
import random
import socket
import struct
import threading
from collections import Counter

import pytest

import nodes
from nodes import eventually
from zwire import zenoh
from zwire.capture import decode
from zwire.errors import TransportError

pytestmark = pytest.mark.slow

# On an idle machine everything here takes milliseconds.
PATIENCE = 10.0

HANDSHAKE = [("init", "syn"), ("init", "ack"), ("open", "syn"), ("open", "ack")]


def opened(mode, tap=None, **settings):
    return nodes.opened(mode, zwire__tap=tap and os.fspath(tap), **settings)


def records(path):
    return [json.loads(line) for line in b"".join(iter(decode(path).jsonl, b"")).splitlines()]


def connections(found):
    """The messages of each connection, by its two addresses."""
    each = {}
    for record in found:
        pair = tuple(sorted((record["src"], record["dst"])))
        each.setdefault(pair, []).append((record["message"], record["kind"]))
    return each


def port(endpoint):
    return int(endpoint.rpartition(":")[2])


def test_only_the_owner_may_read_a_capture(tmp_path):
    """It holds payloads and credentials. A file of an earlier run may be readable by others."""
    path = tmp_path / "new.pcap"
    opened("peer", path).close()
    assert path.stat().st_mode & 0o777 == 0o600
    path.chmod(0o644)
    opened("peer", path).close()
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_capture_does_not_follow_symbolic_links(tmp_path):
    victim, link = tmp_path / "victim", tmp_path / "link.pcap"
    victim.write_text("important")
    link.symlink_to(victim)
    with pytest.raises(TransportError, match=r"link\.pcap.*symbolic link"):
        opened("peer", link)
    assert victim.read_text() == "important"


def test_a_capture_goes_into_a_pipe(tmp_path):
    """As in ``--tap >(wireshark -ki -)``: the shell names a symbolic link of the system."""
    read, write = os.pipe()
    with os.fdopen(read, "rb") as file:
        opened("peer", f"/dev/fd/{write}").close()
        os.close(write)
        assert file.read(4) == b"\x4d\x3c\xb2\xa1"


@pytest.mark.parametrize("compression", [False, True])
def test_a_hub_and_a_client_write_everything(tmp_path, compression):
    settings = {"transport__unicast__compression__enabled": compression}
    # Fragments that compress a little, and many small messages that compress well.
    large = random.Random(1).randbytes(4 << 20) + bytes(4 << 20)
    small = 500
    with opened("router", tmp_path / "hub.pcap", listen__endpoints=["tcp/127.0.0.1:0"], **settings) as hub:
        settings["connect__endpoints"] = list(hub.listening())
        with (
            opened("client", tmp_path / "client.pcap", **settings) as one,
            opened("client", **settings) as other,
        ):
            subscriber = other.declare_subscriber("tap/**")
            publisher = one.declare_publisher("tap/small", congestion_control=zenoh.CongestionControl.BLOCK)
            eventually(lambda: publisher.matching_status.matching, "a subscriber")
            for number in range(small):
                publisher.put(f"number {number}")
            one.put("tap/large", large, congestion_control=zenoh.CongestionControl.BLOCK)
            got = []
            while len(got) <= small:
                more = subscriber.recv_many(small, timeout=PATIENCE)
                assert more, f"{len(got)} of {small + 1}"
                got += more
    for name, links in (("hub", 2), ("client", 1)):
        found = records(tmp_path / f"{name}.pcap")
        assert not [record["error"] for record in found if record["error"] is not None]
        assert len(connections(found)) == links
        assert all(messages[:4] == HANDSHAKE for messages in connections(found).values())
        pushes = Counter(record["key"] for record in found if record["message"] == "push")
        # Each goes into the hub over one link and out of it over the other.
        assert pushes == {"tap/small": small * links, "tap/large": links}
    raw = (tmp_path / "client.pcap").stat().st_size
    assert (raw < len(large)) == compression


def test_a_client_that_reconnects_writes_each_connection(tmp_path):
    path = tmp_path / "client.pcap"
    hub = opened("router", listen__endpoints=["tcp/127.0.0.1:0"])
    (endpoint,) = hub.listening()
    with opened(
        "client",
        path,
        connect__endpoints=[endpoint],
        connect__retry={"period_init_ms": 20, "period_max_ms": 20},
    ) as client:
        for life in range(3):
            eventually(client.info.routers_zid, "a link")
            subscriber = hub.declare_subscriber("tap/life")
            publisher = client.declare_publisher("tap/life", congestion_control=zenoh.CongestionControl.BLOCK)
            eventually(lambda at=publisher: at.matching_status.matching, "a subscriber")
            publisher.put(f"{life}")
            assert subscriber.recv(timeout=PATIENCE).payload.to_string() == f"{life}"
            publisher.undeclare()
            hub.close()
            if life < 2:
                hub = opened("router", listen__endpoints=[endpoint])
    found = records(path)
    assert not [record["error"] for record in found if record["error"] is not None]
    # Beside those that became sessions there may be attempts at a hub that was about to end.
    each = [messages for messages in connections(found).values() if ("open", "ack") in messages]
    assert len(each) == 3
    for messages in each:
        assert messages[:4] == HANDSHAKE
        assert messages.count(("push", "put")) == 1


def batch(data):
    return struct.pack("<H", len(data)) + data


INIT = b"\xc1\x09\x32\x01\x02\x03\x04\x0a\xff\xff\x81\x27\x01"


def test_a_handshake_that_fails_is_in_the_capture(tmp_path):
    """Of a hub: an INIT, and then something else or nothing."""
    path = tmp_path / "hub.pcap"
    limit = {"transport__unicast__accept_timeout": 300}
    with opened("router", path, listen__endpoints=["tcp/127.0.0.1:0"], **limit) as hub:
        address = ("127.0.0.1", port(hub.listening()[0]))
        for rest in (b"", batch(b"\x42\x0a\x05\x04abcd")):
            with socket.create_connection(address, timeout=PATIENCE) as stream:
                stream.sendall(batch(INIT))
                assert stream.recv(2)
                stream.sendall(rest)
                while stream.recv(4096):
                    pass
        # This one says nothing at all.
        with socket.create_connection(address, timeout=PATIENCE) as stream:
            assert stream.recv(1) == b""
    each = [[message for message, _ in messages] for messages in connections(records(path)).values()]
    assert each == [["init", "init"], ["init", "init", "open", "close"]]


def test_an_attempt_to_connect_is_in_the_capture(tmp_path):
    """Of a client: the listener accepts, and then stays silent or closes."""
    path = tmp_path / "client.pcap"
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(PATIENCE)
        endpoint = f"tcp/127.0.0.1:{listener.getsockname()[1]}"
        timeouts = {"transport__unicast__open_timeout": 300, "connect__timeout_ms": 0}
        with pytest.raises(TransportError):
            opened("client", path, connect__endpoints=[endpoint], **timeouts)
    assert [(record["message"], record["kind"], record["dst"]) for record in records(path)] == [
        ("init", "syn", endpoint.removeprefix("tcp/"))
    ]


def test_bytes_behind_the_handshake_are_in_the_capture(tmp_path):
    """A router that sends its first frame together with its OPEN, so that they are read as one."""
    path = tmp_path / "client.pcap"
    init_ack = b"\x61\x09\x30\x01\x02\x03\x04\x0a\xff\xff\x04abcd"
    open_ack = b"\x62\x0a\x07"
    frame = b"\x25\x07\x3d\x00\x09tap/early\x01\x02hi"

    def serve(listener):
        stream, _ = listener.accept()
        with stream:
            stream.settimeout(PATIENCE)
            assert stream.recv(4096)
            stream.sendall(batch(init_ack))
            assert stream.recv(4096)
            stream.sendall(batch(open_ack) + batch(frame))
            while stream.recv(4096):
                pass

    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(PATIENCE)
        thread = threading.Thread(target=serve, args=(listener,))
        thread.start()
        endpoint = f"tcp/127.0.0.1:{listener.getsockname()[1]}"
        with opened("client", path, connect__endpoints=[endpoint]):
            pass
        thread.join(PATIENCE)
    found = [record for record in records(path) if record["src"] == endpoint.removeprefix("tcp/")]
    assert [record["message"] for record in found] == ["init", "open", "push"]
    assert (found[2]["key"], found[2]["sn"]) == ("tap/early", 7)


@pytest.mark.parametrize("carrier", ["ws", "unixsock-stream"])
def test_other_links_are_written_as_streams(tmp_path, carrier):
    address = "127.0.0.1:0" if carrier == "ws" else tmp_path / "node"
    tap = tmp_path / "hub.pcap"
    with opened("router", tap, listen__endpoints=[f"{carrier}/{address}"]) as hub:
        with opened("client", connect__endpoints=hub.listening()) as client:
            for _ in range(3):
                client.put("a/b", b"x" * 100_000, congestion_control=zenoh.CongestionControl.BLOCK)
        eventually(lambda: not hub.info.links(), "the client is gone")
    [messages] = connections(records(tap)).values()
    assert messages[:4] == HANDSHAKE
    assert messages.count(("push", "put")) == 3
