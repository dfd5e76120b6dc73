"""The way to an endpoint, up to the first bytes of a node: names, routes, ports, protocol, version."""

from __future__ import annotations

import errno
import secrets
import socket
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from zwire.cli._doctor import host
from zwire.cli._doctor.findings import Finding

if TYPE_CHECKING:
    from collections.abc import Iterator

STREAMS = ("tcp", "tls", "ws")
"""Protocols over TCP."""

_VERSION = 9
"""Version of the protocol in INIT, of Zenoh 1.x (`zenoh-wire` 3.3)."""

_INIT, _CLOSE, _INVALID = 1, 3, 2
"""Ids of messages, and the reason of a CLOSE (`zenoh-wire` 3.2 and 3.7)."""

_ROLES = ("router", "peer", "client")

_ANSWER = 64
"""Bytes of an answer that tell a protocol."""


@dataclass(frozen=True)
class Endpoint:
    """An endpoint without its parameters, which may be secrets."""

    protocol: str
    name: str
    port: int

    def __str__(self) -> str:
        return f"{self.protocol}/{self.name}:{self.port}"

    @classmethod
    def of(cls, text: str) -> Endpoint | None:
        """Read an endpoint; None for one without a host and a port."""
        shown = text.partition("#")[0].partition("?")[0]
        protocol, _, address = shown.partition("/")
        name, _, port = address.rpartition(":")
        if not name or not port.isdecimal():
            return None
        return cls(protocol, name.removeprefix("[").removesuffix("]"), int(port))


def check_name(endpoint: Endpoint) -> tuple[list[str], Finding | None]:
    """Resolve the host of an endpoint: its addresses, and a finding if there is none."""
    try:
        found = socket.getaddrinfo(endpoint.name, endpoint.port, type=socket.SOCK_STREAM)
    except (socket.gaierror, UnicodeError) as error:
        return [], Finding(
            "name",
            "fault",
            f"{endpoint.name}: {getattr(error, 'strerror', None) or error}",
            "no address belongs to this name here: a typing error, or DNS does not know it on this host",
            f"`getent hosts {endpoint.name}` on both hosts; or give the address in place of the name",
        )
    return list(dict.fromkeys(str(each[4][0]) for each in found)), None


def check_port(endpoint: Endpoint, address: str, wait: float) -> Finding:
    """Connect to the port of an address, and close."""
    begin = time.monotonic()
    try:
        with socket.create_connection((address, endpoint.port), timeout=wait):
            took = (time.monotonic() - begin) * 1e3
            return Finding("port", "ok", f"{address}:{endpoint.port} accepts connections, in {took:.1f} ms")
    except OSError as error:
        return _refusal(endpoint, address, error, wait)


def _refusal(endpoint: Endpoint, address: str, error: OSError, wait: float) -> Finding:
    place = f"{address}:{endpoint.port}"
    if error.errno == errno.ECONNREFUSED:
        return Finding(
            "refused",
            "fault",
            f"{place}: connection refused",
            "the host is reachable, and no program listens on this address and port: it is not running, has "
            "another port, or listens on 127.0.0.1 alone, which other hosts cannot reach",
            f"on that host: `ss -ltn | grep {endpoint.port}`; a router for other hosts is `zwire router "
            f"--listen {endpoint.protocol}/0.0.0.0:{endpoint.port}`",
        )
    if host.is_absent(address):
        return Finding(
            "absent",
            "fault",
            f"{place}: no host answers to {address} on this network (ARP)",
            "the host is off, unplugged, or has another address",
            f"`ip address` on that host; `ping {address}` on this one",
        )
    if isinstance(error, TimeoutError) or error.errno == errno.ETIMEDOUT:
        return Finding(
            "filtered",
            "fault",
            f"{place}: neither accepted nor refused within {wait:g} s",
            "a firewall drops what is sent to this port, or the answers to it",
            f"allow TCP port {endpoint.port} in the firewall of that host, and in those on the way",
        )
    return host.no_route(address, error)


@dataclass(frozen=True)
class Greeting:
    """What a node says in the answer to INIT."""

    version: int
    role: str
    zid: str


def greeted(address: str, port: int, wait: float) -> Greeting | Finding | None:
    """Begin a handshake as a client would, read the answer, and close: no session is opened.

    None for a node that refuses at once: its reason comes with the session.
    """
    # INIT of a client with an id of three bytes, of which the last is not 0 (`zenoh-wire` 3.3).
    init = bytes((0x01, _VERSION, 0x22)) + secrets.token_bytes(2) + b"\x01"
    place = f"{address}:{port}"
    try:
        with socket.create_connection((address, port), timeout=wait) as stream:
            stream.settimeout(wait)
            # Programs that read lines answer only to their end; a node waits for more behind its answer.
            stream.sendall(len(init).to_bytes(2, "little") + init + b"\r\n\r\n")
            answer = stream.recv(_ANSWER)
    except TimeoutError:
        return Finding(
            "silent",
            "fault",
            f"{place}: accepts connections and says nothing within {wait:g} s",
            "a program of another protocol that waits, a stuck node, or a forwarder without a target",
            "look for the program on that host (`ss -ltnp`), and at its log",
        )
    except OSError:
        # Reset: closed with our message unread.
        answer = b""
    return _recognised(place, answer)


def _recognised(place: str, answer: bytes) -> Greeting | Finding | None:
    if spoken := _other_protocol(answer):
        tls = spoken == "TLS"
        return Finding(
            "other-protocol",
            "fault",
            f"{place}: speaks {spoken}",
            "the node listens with TLS, and the endpoint says tcp"
            if tls
            else "no node of Zenoh has this port",
            f"give the endpoint tls/{place}, with root_ca_certificate in the configuration"
            if tls
            else "give the port of the node: 7447 unless its configuration names another",
        )
    if len(answer) >= 4 and answer[2] & 0x1F == _CLOSE:
        return _old(place) if answer[3] == _INVALID else None
    if len(answer) < 6 or answer[2] & 0x1F != _INIT:
        closed = not answer
        return Finding(
            "no-handshake",
            "fault",
            f"{place}: closes the connection at our first message"
            if closed
            else f"{place}: answers our first message with {answer[:16].hex(' ')}",
            "a node with TLS, of another version, with too many sessions, or a program of another protocol",
            "compare protocol and port with the `listen/endpoints` of that node; its log says why it closes",
        )
    length, role = (answer[4] >> 4) + 1, answer[4] & 3
    zid = answer[5 : 5 + length][::-1].hex().lstrip("0")
    return Greeting(answer[3], _ROLES[role] if role < len(_ROLES) else "node", zid)


def _old(place: str) -> Finding:
    return Finding(
        "version",
        "fault",
        f"{place}: a node of Zenoh refuses our first message as invalid",
        f"it does not speak version {_VERSION}: it is older than Zenoh 1.0, or newer than this zwire",
        "update the older side; Zenoh 0.x and 1.x do not talk to each other",
    )


def _other_protocol(answer: bytes) -> str | None:
    # Servers answer a line without a version as HTTP 0.9 did: with the page alone.
    if answer.startswith((b"HTTP/", b"<!DOCTYPE", b"<html")):
        return "HTTP"
    if answer[:2] == b"\x15\x03":
        return "TLS"
    if answer.startswith(b"SSH-"):
        return "SSH"
    if answer[:1] == b"\xff" and answer[9:10] == b"\x7f":
        return "ZMTP"
    return None


def check_version(greeting: Greeting, place: str, own: str | None) -> Iterator[Finding]:
    """Compare the version of the protocol, and the id of the node with the configured one."""
    saw = f"{place}: a {greeting.role} with id {greeting.zid}, protocol version {greeting.version}"
    if greeting.version != _VERSION:
        yield Finding(
            "version",
            "fault",
            saw,
            f"Zenoh 1.x has version {_VERSION}: the other side is older than 1.0, or newer than this zwire",
            "update the older side; Zenoh 0.x and 1.x do not talk to each other",
        )
    elif own is not None and own.lstrip("0") == greeting.zid:
        yield Finding(
            "same-id",
            "fault",
            saw,
            "the configuration here has the same `id`: a node refuses a second session with an id",
            "remove `id` from one of the configurations; without it each session gets one of its own",
        )
    else:
        yield Finding("node", "ok", saw)
