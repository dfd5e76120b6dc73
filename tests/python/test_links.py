"""Options of endpoints, as the sockets have them."""

import contextlib
import json
import os
import socket
import struct
from pathlib import Path

import pytest

from nodes import opened
from zwire import errors, zenoh


@contextlib.contextmanager
def linked(options="", listener=""):
    """The two sockets of a link that was made with these options: of a client, of a router."""
    with opened("router", listen=[f"tcp/127.0.0.1:0{listener}"]) as router:
        [endpoint] = router.listening()
        with opened("client", connect=[endpoint + options]) as client:
            [link] = client.info.links()
            pair = sockets(link.src, link.dst)
            with pair[0], pair[1]:
                yield pair


def sockets(src, dst):
    """Copies of the two sockets with these ends, which are both of this process."""
    wanted = [tuple(end.removeprefix("tcp/") for end in pair) for pair in ((src, dst), (dst, src))]
    found = {}
    for entry in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):
            if not str(entry.readlink()).startswith("socket:"):
                continue
            copy = socket.socket(fileno=os.dup(int(entry.name)))
            # Those of shared memory have no such ends.
            with contextlib.suppress(OSError, IndexError):
                pair = tuple("{}:{}".format(*end[:2]) for end in (copy.getsockname(), copy.getpeername()))
                if pair in wanted and pair not in found:
                    found[pair] = copy
                    continue
            copy.close()
    return [found[pair] for pair in wanted]


def test_the_local_address_is_bound():
    with socket.socket() as probe:
        probe.bind(("127.0.0.2", 0))
        port = probe.getsockname()[1]
    with linked(f"#bind=127.0.0.2:{port}") as (ours, _):
        assert ours.getsockname() == ("127.0.0.2", port)


def test_the_device_is_bound():
    with linked("#iface=lo") as (ours, _):
        assert ours.getsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, 16).rstrip(b"\0") == b"lo"
    with pytest.raises(errors.ConnectError, match="No such device"):
        opened("client", connect=["tcp/127.0.0.1:1#iface=nowhere0"])


@pytest.mark.parametrize(
    ("name", "option"), [("so_sndbuf", socket.SO_SNDBUF), ("so_rcvbuf", socket.SO_RCVBUF)]
)
def test_buffers_have_their_size(name, option):
    # The kernel doubles what is asked for.
    with linked(f"#{name}=40000", f"#{name}=50000") as (ours, theirs):
        assert ours.getsockopt(socket.SOL_SOCKET, option) == 80000
        assert theirs.getsockopt(socket.SOL_SOCKET, option) == 100000
    with linked() as (ours, _):
        assert ours.getsockopt(socket.SOL_SOCKET, option) != 80000


def test_packets_are_marked():
    with linked("#dscp=0x20|0b1000", "#dscp=0x10") as (ours, theirs):
        assert ours.getsockopt(socket.IPPROTO_IP, socket.IP_TOS) == 0x28
        assert theirs.getsockopt(socket.IPPROTO_IP, socket.IP_TOS) == 0x10


def test_nothing_waits_for_more_to_send():
    with linked() as pair:
        for end in pair:
            assert struct.unpack("i", end.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 4))[0] == 1


@pytest.mark.parametrize(
    ("origins", "origin", "status"),
    [
        ([], None, 101),
        ([], "https://evil.example", 403),
        (["https://dash.example"], "https://evil.example", 403),
        (["https://dash.example"], "https://DASH.example", 101),
        (["https://dash.example"], "https://dash.example.evil.example", 403),
        (["https://other.example", "*"], "null", 101),
    ],
)
def test_only_listed_web_pages_connect_to_websockets(origins, origin, status):
    """A browser adds the origin of the page; without a check every page speaks to the nodes of its reader."""
    with opened("router", listen=["ws/127.0.0.1:0"], zwire__ws__origins=origins) as router:
        host, port = router.listening()[0].removeprefix("ws/").split(":")
        request = [
            "GET / HTTP/1.1",
            f"Host: {host}:{port}",
            *([f"Origin: {origin}"] if origin else []),
            "Upgrade: websocket",
            "Connection: Upgrade",
            "Sec-WebSocket-Version: 13",
            "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
        ]
        with socket.create_connection((host, int(port)), 10) as browser:
            browser.sendall("\r\n".join([*request, "", ""]).encode())
            assert browser.recv(4096).startswith(f"HTTP/1.1 {status} ".encode())


@pytest.mark.parametrize(
    ("endpoint", "words"),
    [
        ("vsock/1:7447", ["vsock", "tcp", "tls", "ws", "unixsock-stream"]),
        ("unixpipe//tmp/pipe", ["unixpipe", "tcp"]),
        ("serial//dev/ttyS0", ["serial", "tcp"]),
        ("tcp/127.0.0.1:1#ifcae=lo", ["ifcae", "iface", "so_sndbuf"]),
        ("tcp/127.0.0.1:1#root_ca_certificate_file=x", ["root_ca_certificate_file", "unknown to tcp"]),
        ("unixsock-stream//tmp/x#dscp=1", ["dscp", "unknown to unixsock-stream", "exit_on_failure"]),
        ("ws/127.0.0.1:1#enable_mtls=true", ["enable_mtls", "unknown to ws"]),
        ("tcp/127.0.0.1:1#so_sndbuf=many", ["so_sndbuf=many", "bytes"]),
    ],
)
@pytest.mark.parametrize("section", ["listen", "connect"])
def test_what_is_unknown_names_what_is_known(section, endpoint, words):
    with pytest.raises(errors.ConfigError) as caught:
        opened("peer", **{section: [endpoint]})
    assert caught.value.path == f"{section}/endpoints/0"
    for word in words:
        assert word in str(caught.value)


def test_an_endpoint_that_cannot_be_bound_is_named():
    with opened("router", listen=["tcp/127.0.0.1:0"]) as router:
        [endpoint] = router.listening()
        with pytest.raises(errors.ConnectError, match=f"could not listen on {endpoint}: Address") as caught:
            opened("router", listen=[endpoint])
        assert caught.value.endpoint == endpoint
    with pytest.raises(errors.ConnectError, match="could not connect to unixsock-stream//nowhere/at/all"):
        opened("client", connect=["unixsock-stream//nowhere/at/all"])


def test_a_client_without_endpoints_names_none():
    config = json.dumps({"mode": "client", "scouting": {"multicast": {"enabled": False}}})
    with pytest.raises(errors.ConfigError, match="a client needs an endpoint to connect to, or scouting"):
        zenoh.open(zenoh.Config.from_json5(config))
