"""Nodes of ZRE and strangers, on the loopback: names and log lines of any octets, keys, connections."""

from __future__ import annotations

import contextlib
import json
import os
import resource
import socket
import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING

import pytest

import nodes
from nodes import event_of as until
from nodes import zre_node as make
from zwire import zmtp, zre
from zwire.cli import _options, _zre, zre_log
from zwire.conformance.zre import _wire as wire

if TYPE_CHECKING:
    from collections.abc import Iterator

PATIENCE = 10

HOSTILE = [
    "\n2026-01-01T00:00:00 ERROR EXIT 0000 0000 forged",
    "\r\x1b[2K\x1b[1A",
    "\x9b31m\u2028\u2029\x85\x0b\x0c\x1c\x7f",
    "\u202egnp.exe",
]


@pytest.fixture
def port() -> int:
    """Find a port of discovery that no other test has."""
    return nodes.free_port(socket.SOCK_DGRAM)


@contextlib.contextmanager
def guest(node: zre.Node, *, host: str = "127.0.0.1", mailbox: int = 9, **hello: object) -> Iterator[str]:
    """Enter a node by a HELLO of these fields; yield the UUID."""
    uuid = os.urandom(16)
    assert node.endpoint is not None
    with zmtp.Dealer(identity=wire.identity("36", uuid)) as dealer:
        dealer.connect(node.endpoint, wait=PATIENCE)
        dealer.send(wire.hello("36", host, mailbox, **hello))
        yield uuid.hex().upper()


def printed(capsys: pytest.CaptureFixture[str], line: str) -> str:
    """Return what a command prints for a line: one line, of printable characters."""
    _options.show(line)
    (shown,) = capsys.readouterr().out.split("\n")[:-1]
    assert shown.isprintable()
    return shown


@pytest.mark.parametrize("text", HOSTILE)
@pytest.mark.parametrize("form", ["text", "jsonl"])
def test_log_lines_cannot_be_forged(text: str, form: str, capsys: pytest.CaptureFixture[str]) -> None:
    with (
        zre.LogCollector(bind="tcp://127.0.0.1:*") as collector,
        zre.LogSender("tcp://127.0.0.1:1") as sender,
    ):
        sender.connect(collector.endpoint)
        record = None
        deadline = time.monotonic() + PATIENCE
        while record is None and time.monotonic() < deadline:
            sender.log("INFO", "JOIN", text)
            time.sleep(0.02)
            record = collector.try_recv()
        assert record is not None
        assert record.data == text
        line = printed(capsys, zre_log._line(record, form))
        if form == "jsonl":
            assert json.loads(line)["data"] == text


NAMES = [b"", b"\0", b"\xff\xfe", b" ", b"x" * 255, *(text.encode() for text in HOSTILE)]


@pytest.mark.parametrize("name", NAMES)
def test_names_of_any_octets(port: int, name: bytes, capsys: pytest.CaptureFixture[str]) -> None:
    """A peer without a name is shown by its UUID, and its name breaks no line and no table."""
    with (
        make("one", port) as node,
        guest(node, name=name, headers={b"X": name}, groups=[name or b"G"]) as uuid,
    ):
        enter = until(node, zre.Enter)
        assert enter.name == (name.decode(errors="replace") or uuid[:6])
        assert node.peer_name(uuid) == enter.name
        assert until(node, zre.Join).group == (name or b"G").decode(errors="replace")
        for form in ("text", "jsonl"):
            printed(capsys, _zre.event_line(enter, form, "auto"))
        printed(capsys, json.dumps(_zre.row(node, uuid), ensure_ascii=False))
        repr(enter)


def test_a_hello_of_another_host_is_answered_at_its_own(port: int) -> None:
    """The loopback addresses of this host are one host, others are not."""
    with make("one", port) as node:
        with guest(node, host="127.0.0.2"):
            until(node, zre.Enter)
        assert node.stats()["endpoints_refused"] == 0
        with guest(node, host="192.0.2.1"):
            assert until(node, zre.Enter).address == "tcp://192.0.2.1:9"
        assert node.stats()["endpoints_refused"] == 1
        assert any("another host" in ignored["reason"] for ignored in node.doctor()["ignored"])


def test_an_address_that_refuses_gets_one_attempt_for_each_beacon(port: int) -> None:
    with (
        make("one", port) as node,
        socket.create_server(("127.0.0.1", 0), backlog=64) as trap,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as invented,
    ):
        nodes.eventually(lambda: node.stats()["beacons_own"] >= 1)
        beacon = wire.beacon(os.urandom(16), trap.getsockname()[1])
        for _ in range(3):
            invented.sendto(beacon, ("127.0.0.1", port))
            trap.settimeout(PATIENCE)
            trap.accept()[0].close()
            trap.settimeout(2)
            with pytest.raises(TimeoutError):
                trap.accept()
        assert node.peers() == []


def test_only_allowed_keys_are_told_of_a_node(port: int) -> None:
    """HELLO has name, headers and groups: a server with another key does not get it."""
    public, secret = zre.keypair()
    with (
        zmtp.Router(secret_key=secret) as stranger,
        make("one", port, secret_key=zre.keypair()[1], allow=[zre.keypair()[0]]) as node,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender,
    ):
        nodes.eventually(lambda: node.stats()["beacons_own"] >= 1)
        endpoint = stranger.bind("tcp://127.0.0.1:*")
        key = zre_key(public)
        mailbox = int(endpoint.rpartition(":")[2])
        sender.sendto(wire.beacon(os.urandom(16), mailbox, header=b"ZRE\x03", key=key), ("127.0.0.1", port))
        nodes.eventually(lambda: node.stats()["endpoints_refused"] == 1)
        node.require_peer(f"{endpoint}|{public}")
        nodes.eventually(lambda: node.stats()["endpoints_refused"] >= 2)
        assert stranger.stats()["connections"] == 0
        assert any("allow" in ignored["reason"] for ignored in node.doctor()["ignored"])


def zre_key(text: str) -> bytes:
    """Decode the 32 octets of a key in Z85."""
    digits = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
    key = b""
    for at in range(0, 40, 5):
        number = 0
        for digit in text[at : at + 5]:
            number = number * 85 + digits.index(digit)
        key += number.to_bytes(4, "big")
    return key


SCARCE = """
import sys, time
from zwire import zre
node = zre.Node("one", interfaces="lo", interval=0.1, beacon_port=int(sys.argv[1]))
node.start()
print(node.endpoint, flush=True)
sys.stdin.read()
"""

ZMTP = b"\xff" + bytes(8) + b"\x7f\x03\x00NULL" + bytes(48)


def ready(identity: bytes) -> bytes:
    body = b"\x05READY\x0bSocket-Type\x00\x00\x00\x06DEALER\x08Identity"
    body += len(identity).to_bytes(4, "big") + identity
    return b"\x04" + bytes([len(body)]) + body


@pytest.mark.parametrize("words", ["nothing", "a greeting", "a handshake"])
def test_a_newcomer_enters_a_node_with_1024_descriptors(port: int, words: str) -> None:
    """Connections that say no more than that leave it its descriptors."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < 4096:
        pytest.skip("needs a hard limit of 4,096 open files: ulimit -Hn")
    resource.setrlimit(resource.RLIMIT_NOFILE, (1024, hard))
    try:
        process = subprocess.Popen(
            [sys.executable, "-c", SCARCE, str(port)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 4096), hard))
    streams: list[socket.socket] = []
    flooding = threading.Event()

    def flood(host: str, mailbox: int) -> None:
        while len(streams) < 1500 and not flooding.is_set():
            with contextlib.suppress(OSError):
                stream = socket.create_connection((host, mailbox), timeout=1, source_address=("127.0.0.9", 0))
                streams.append(stream)
                if words != "nothing":
                    stream.sendall(ZMTP)
                if words == "a handshake":
                    stream.sendall(ready(b"\x01" + os.urandom(16)))

    try:
        assert process.stdout is not None
        host, _, mailbox = process.stdout.readline().strip().removeprefix("tcp://").rpartition(":")
        thread = threading.Thread(target=flood, args=(host, int(mailbox)))
        thread.start()
        nodes.eventually(lambda: len(streams) > 1100)
        start = time.monotonic()
        with make("newcomer", port) as newcomer:
            newcomer.wait_for_peers(1, PATIENCE)
        assert time.monotonic() - start < 4
        flooding.set()
        thread.join()
    finally:
        flooding.set()
        for stream in streams:
            stream.close()
        process.kill()
        process.communicate()
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
