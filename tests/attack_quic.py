"""Attacks over QUIC: connections that stay halves, streams, and addresses that change.

The attackers are connections of aioquic without its event loop: datagrams in, datagrams out.
"""

from __future__ import annotations

import contextlib
import random
import select
import socket
import ssl
import tempfile
import time
from typing import TYPE_CHECKING

from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.connection import QuicConnection
from aioquic.quic.events import ConnectionTerminated, StreamDataReceived

import attack
import raw
from attack import QUIET, Bystanders, Measure, Router, scaled, undisturbed
from interop.certificates import Authority

if TYPE_CHECKING:
    from collections.abc import Iterator

    Listening = tuple[Router, Bystanders, tuple[str, int], dict[str, object]]


class Caller:
    """A connection to a QUIC listener, driven by hand."""

    def __init__(self, address: tuple[str, int], shape: str = "zenoh-ms"):
        given = QuicConfiguration(alpn_protocols=[shape], verify_mode=ssl.CERT_NONE)
        given.max_datagram_frame_size = 65_536
        given.server_name = "localhost"
        self.connection, self.address = QuicConnection(configuration=given), address
        self.socket = self._socket()
        self.said, self.ended = b"", False
        self.connection.connect(address, now=time.monotonic())

    @staticmethod
    def _socket() -> socket.socket:
        made = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        made.bind(("127.0.0.1", 0))
        made.setblocking(False)
        return made

    def send(self) -> None:
        for octets, _ in self.connection.datagrams_to_send(now=time.monotonic()):
            with contextlib.suppress(OSError):
                self.socket.sendto(octets, self.address)

    def turn(self, wait: float = 0.0) -> None:
        """Send what there is, and take what comes meanwhile."""
        self.send()
        ready, _, _ = select.select([self.socket], [], [], wait)
        if ready:
            with contextlib.suppress(BlockingIOError, ConnectionRefusedError):
                while True:
                    octets, _ = self.socket.recvfrom(65536)
                    self.connection.receive_datagram(octets, self.address, now=time.monotonic())
        timer = self.connection.get_timer()
        if timer is not None and timer <= time.monotonic():
            self.connection.handle_timer(now=time.monotonic())
        while (event := self.connection.next_event()) is not None:
            if isinstance(event, StreamDataReceived):
                self.said += event.data
            self.ended |= isinstance(event, ConnectionTerminated)
        self.send()

    def batch(self) -> bytes:
        """The next batch that the listener sends."""
        end = time.monotonic() + raw.PATIENCE
        while len(self.said) < 2 or len(self.said) < 2 + int.from_bytes(self.said[:2], "little"):
            assert not self.ended, "the listener closed"
            assert time.monotonic() < end, "no answer"
            self.turn(0.05)
        length = 2 + int.from_bytes(self.said[:2], "little")
        octets, self.said = self.said[2:length], self.said[length:]
        return octets

    def introduce(self) -> None:
        """The handshake of Zenoh, on the stream 0."""
        self.connection.send_stream_data(0, raw.opening())
        self.connection.send_stream_data(0, raw.answer(self.batch(), 60))
        ack = self.batch()
        assert ack[0] & 0x3F == 0x22, f"no OPEN ACK: {ack.hex()}"

    def move(self) -> None:
        """Go on from another port."""
        self.socket.close()
        self.socket = self._socket()

    def close(self) -> None:
        self.socket.close()


@contextlib.contextmanager
def listening(
    implementation: str, options: str = ""
) -> Iterator[tuple[Router, Bystanders, tuple[str, int], dict[str, object]]]:
    """A router that listens on TCP and QUIC, bystanders, its QUIC address, and settings of a QUIC client."""
    with contextlib.ExitStack() as free:
        ports = []
        for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
            taken = free.enter_context(socket.socket(socket.AF_INET, kind))
            taken.bind(("127.0.0.1", 0))
            ports.append(taken.getsockname()[1])
    with tempfile.TemporaryDirectory() as folder:
        tls = Authority(folder).settings()
        endpoints = [f"tcp/127.0.0.1:{ports[0]}", f"quic/127.0.0.1:{ports[1]}{options}"]
        router = Router(implementation, {**tls, "listen/endpoints": endpoints})
        client = {**QUIET, **tls, "mode": "client", "connect/endpoints": endpoints[1:]}
        try:
            yield router, Bystanders(router), ("127.0.0.1", ports[1]), client
        finally:
            router.end()


def newcomer(client: dict[str, object]) -> Measure:
    """Seconds that a client needs to connect over QUIC."""
    from zwire import zenoh

    start = time.monotonic()
    try:
        zenoh.open(client).close()
    except zenoh.ZError:
        return Measure("newcomer waits, s", attack.NEVER, most=2)
    return Measure("newcomer waits, s", time.monotonic() - start, most=2)


@attack.attack("QUIC connections that say nothing after a datagram")
def halves(implementation: str) -> list[Measure]:
    with listening(implementation) as (router, others, address, client), contextlib.ExitStack() as held:
        peak, count, end = 0.0, 0, time.monotonic() + attack.SECONDS
        while time.monotonic() < end and count < scaled(20_000):
            caller = Caller(address)
            caller.send()
            # The socket stays open: a closed one would tell the router that the caller is gone.
            held.callback(caller.close)
            count += 1
            if count % 500 == 0:
                held.pop_all().close()
            peak = max(peak, router.mib())
        late = newcomer(client)
        return [late, Measure("MiB at most", peak, most=256), *undisturbed(others.seen())]


@attack.attack("QUIC streams opened, filled and reset without end")
def streams(implementation: str) -> list[Measure]:
    with listening(implementation) as (router, others, address, client):
        peak, end, callers = 0.0, time.monotonic() + attack.SECONDS, []
        try:
            while time.monotonic() < end:
                while len(callers) < scaled(8):
                    with contextlib.suppress(AssertionError):
                        callers.append(Caller(address))
                        callers[-1].introduce()
                for caller in callers:
                    for turn in range(20):
                        stream = caller.connection.get_next_available_stream_id(is_unidirectional=True)
                        caller.connection.send_stream_data(stream, bytes(2000))
                        if turn % 2:
                            caller.connection.reset_stream(stream, 1)
                    # Half of the connections exceed what the router allows.
                    if callers.index(caller) % 2:
                        caller.connection._remote_max_streams_uni = 1 << 20
                    caller.turn()
                for caller in [each for each in callers if each.ended]:
                    caller.close()
                    callers.remove(caller)
                peak = max(peak, router.mib())
        finally:
            for caller in callers:
                caller.close()
        late = newcomer(client)
        return [late, Measure("MiB at most", peak, most=256), *undisturbed(others.seen())]


@attack.attack("QUIC datagrams of a link, with any contents")
def datagrams(implementation: str) -> list[Measure]:
    chance = random.Random(3)
    with listening(implementation, "?mixed_rel=1;multistream=0") as (router, others, address, client):
        peak, count, end = 0.0, 0, time.monotonic() + attack.SECONDS
        callers: list[Caller] = []
        while time.monotonic() < end:
            for ended in [caller for caller in callers if caller.ended]:
                ended.close()
                callers.remove(ended)
            while len(callers) < scaled(4):
                callers.append(Caller(address, "zenoh-mr"))
                with contextlib.suppress(AssertionError):
                    callers[-1].introduce()
            for caller in callers:
                for _ in range(20):
                    number = raw.vle(count * 77 & 0x0FFF_FFFF)
                    contents = (
                        chance.randbytes(chance.randrange(1000)),
                        b"\x05" + number + raw.put("datagrams/x", bytes(500)),
                        # A part of a message that never ends.
                        b"\xc6" + number + b"\x02" + bytes(900),
                    )
                    caller.connection.send_datagram_frame(contents[count % 3])
                    count += 1
                caller.turn()
            peak = max(peak, router.mib())
        for caller in callers:
            caller.close()
        late = newcomer(client)
        return [late, Measure("MiB at most", peak, most=256), *undisturbed(others.seen())]


@attack.attack("a QUIC connection that moves 100 times a second")
def moving(implementation: str) -> list[Measure]:
    with listening(implementation) as (router, others, address, client):
        caller = Caller(address)
        caller.introduce()
        sender, peak, end = raw.Sender(None), 0.0, time.monotonic() + attack.SECONDS
        while time.monotonic() < end and not caller.ended:
            caller.move()
            caller.connection.send_stream_data(0, sender.frame(raw.put("moving/x", bytes(500))))
            until = time.monotonic() + 0.01
            while (left := until - time.monotonic()) > 0:
                caller.turn(left)
            peak = max(peak, router.mib())
        caller.close()
        late = newcomer(client)
        return [late, Measure("MiB at most", peak, most=128), *undisturbed(others.seen())]
