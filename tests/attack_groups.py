"""Attacks on a multicast group (``zenoh-wire`` 3.15): invented members, and words in the name of others.

A member is a source address. One of the bystanders is a member that publishes; the router is one, too.
"""

from __future__ import annotations

import contextlib
import random
import socket
import struct
import time
from typing import TYPE_CHECKING

import attack
import raw
from attack import Bystanders, Measure, Router
from nodes import free_port
from raw import vle

if TYPE_CHECKING:
    from collections.abc import Iterator

LIVE = b"\xd1"
"""Id of the live member."""

JOINED = 1.0
"""Seconds within which members know each other."""


def join(zid: bytes, *, lease: int = 10, sn: int = 0) -> bytes:
    """JOIN of a peer with a lease in seconds and the next number of both channels."""
    head = b"\xa7\x09" + bytes([(len(zid) - 1) << 4 | raw.PEER]) + zid
    return head + vle(lease) + vle(sn) + vle(sn) + b"\x27\x01"


def frame(number: int, messages: bytes) -> bytes:
    """FRAME on the reliable channel."""
    return b"\x25" + vle(number) + messages


class Hostile:
    """Sends datagrams to a group over the loopback, each stranger from a port of its own."""

    def __init__(self, group: tuple[str, int]):
        self.group = group

    def stranger(self) -> socket.socket:
        stream = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        stream.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton("127.0.0.1"))
        stream.bind(("127.0.0.1", 0))
        stream.connect(self.group)
        return stream


@contextlib.contextmanager
def members(implementation: str) -> Iterator[tuple[Router, Bystanders, Hostile]]:
    """A router in a group, a member that publishes, and a client of the router that receives."""
    group = (f"224.0.0.{random.randrange(100, 200)}", free_port(socket.SOCK_DGRAM))
    endpoint = f"udp/{group[0]}:{group[1]}#iface=lo"
    settings = {"listen/endpoints": [f"tcp/127.0.0.1:{free_port()}", endpoint]}
    router = Router(implementation, settings)
    try:
        others = Bystanders(router, near=endpoint, zid=LIVE)
        time.sleep(JOINED)
        yield router, others, Hostile(group)
    finally:
        router.end()


def undisturbed(seen: dict[str, float]) -> list[Measure]:
    """The measures of bystanders; datagrams are lost where the buffer of a socket is full."""
    *others, lost = attack.undisturbed(seen)
    return [*others, Measure(lost.name, lost.value, most=8)]


@attack.attack("2,000 invented members of a group each second")
def invented(implementation: str) -> list[Measure]:
    with members(implementation) as (router, others, hostile):
        peak, number, start = 0.0, 0, time.monotonic()
        while (now := time.monotonic()) < start + attack.SECONDS:
            while number < (now - start) * 2000 * attack.SCALE:
                with contextlib.suppress(OSError), hostile.stranger() as stranger:
                    stranger.send(join(struct.pack("<I", 0xDD000000 + number), lease=60))
                number += 1
            peak = max(peak, router.mib())
            time.sleep(0.01)
        return [Measure("MiB at most", peak, most=128), *undisturbed(others.seen())]


@attack.attack("messages in the name of a live member of a group")
def forged(implementation: str) -> list[Measure]:
    with members(implementation) as (router, others, hostile), hostile.stranger() as thief:
        end, number = time.monotonic() + attack.SECONDS, 0
        while time.monotonic() < end:
            for sn in (0, 5, 1 << 26, (1 << 28) - 1):
                # As a JOIN of the live one, and from an address that has not joined.
                for octets in (
                    join(LIVE, sn=sn),
                    frame(sn, raw.put("calm/x", b"0")),
                    b"\x03\x00",
                    b"\x23\x00",
                ):
                    with contextlib.suppress(OSError):
                        thief.send(octets)
            number += 1
            time.sleep(0.005)
        seen = others.seen()
        return [Measure("router lives", float(router.lives()), least=1), *undisturbed(seen)]


@attack.attack("members of a group with numbers that jump")
def jumping(implementation: str) -> list[Measure]:
    with members(implementation) as (router, others, hostile), contextlib.ExitStack() as held:
        strangers = [held.enter_context(hostile.stranger()) for _ in range(20)]
        for number, stranger in enumerate(strangers):
            stranger.send(join(struct.pack("<I", 0xDE000000 + number), lease=60))
        peak, end, sn = 0.0, time.monotonic() + attack.SECONDS, 0
        while time.monotonic() < end:
            for stranger in strangers:
                for octets in (
                    frame(sn, raw.put("x", b"y")),
                    # A number beyond the range, a fragment of a message that never ends, a broken one.
                    b"\x25\xff\xff\xff\xff\x7f" + raw.put("x", b"y"),
                    b"\xe6" + vle((sn + 1) & 0x0FFF_FFFF) + b"\x02" + bytes(1000),
                    frame((sn + 2) & 0x0FFF_FFFF, b"\x1d\xff"),
                ):
                    with contextlib.suppress(OSError):
                        stranger.send(octets)
            sn = (sn + (1 << 26)) & 0x0FFF_FFFF
            peak = max(peak, router.mib())
            time.sleep(0.05)
        alive = Measure("router lives", float(router.lives()), least=1)
        return [alive, Measure("MiB at most", peak, most=128), *undisturbed(others.seen())]
