"""Socket under judgement, and connections to it that can break any rule."""

from __future__ import annotations

import itertools
import os
import re
import socket
import struct
import threading
import time
from contextlib import contextmanager, nullcontext, suppress
from typing import TYPE_CHECKING, Self

from zwire.conformance._rules import Deviation, NotApplicable, expect
from zwire.conformance.zmtp import _wire
from zwire.conformance.zmtp._wire import TYPES, Frame, Greeting, Property, fits

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

__all__ = ["ECHOING", "PUBLISHING", "QUIET", "TOPIC", "WAIT", "Link", "Target"]

WAIT = 3.0
"""Seconds until an answer is missing."""
QUIET = 0.3
"""Seconds without an answer that prove that none comes, where nothing else can."""

ECHOING = ("REP", "ROUTER", "DEALER")
PUBLISHING = ("PUB", "XPUB")
TOPIC = b"conformance"

_ENDPOINT = re.compile(r"tcp(?:/|://)(?:\[(?P<v6>[^]]+)\]|(?P<host>[^:/\[\]]+)):(?P<port>[0-9]{1,5})")
_CANDIDATES = ("DEALER", "SUB", "PUSH", "PULL", "PUB", "ROUTER", "PAIR", "SERVER", "CLIENT", "DISH", "RADIO")


class Link:
    """TCP connection to the target."""

    def __init__(self, target: Target, stream: socket.socket) -> None:
        self._target = target
        self._stream = stream
        self._unread = bytearray()
        self.minor = 1
        self.greeting: Greeting | None = None
        self.peer: list[Property] = []
        """Properties of the target's READY."""

    def send(self, *octets: bytes) -> None:
        """Send octets; each argument goes in a segment of its own.

        A target that has closed the connection is noticed by the next read, not here: most of what checks
        send has the purpose of being refused.
        """
        for part in octets:
            try:
                self._stream.sendall(part)
            except (BrokenPipeError, ConnectionResetError):
                return

    def finish(self) -> None:
        """Close the sending direction alone."""
        # A connection that the target has closed already, or that was reset here, has none any more.
        with suppress(OSError):
            self._stream.shutdown(socket.SHUT_WR)

    def reset(self) -> None:
        """Close with a RST."""
        self._stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._stream.close()

    def octets(self, count: int, *, within: float = WAIT) -> bytes:
        """Read an exact number of octets."""
        try:
            return self._take(count, time.monotonic() + within)
        except (EOFError, TimeoutError) as missing:
            raise Deviation(f"{missing}: expected {count} octets") from None

    def is_closed(self, *, within: float | None = None) -> bool:
        """Whether the target closes the connection in time, whatever it sends before."""
        end = time.monotonic() + (within or self._target.patience)
        while True:
            try:
                self._fill(end)
            except EOFError:
                return True
            except TimeoutError:
                return False

    def frame(self, *, within: float = WAIT) -> Frame:
        """Read a frame."""
        try:
            return self._frame(time.monotonic() + within)
        except (EOFError, TimeoutError) as missing:
            raise Deviation(f"{missing}: expected a frame") from None

    def message(self, *, within: float = WAIT) -> list[bytes]:
        """Read a message; commands before it are answered or ignored, as in any peer."""
        try:
            return self._message(time.monotonic() + within)
        except (EOFError, TimeoutError) as missing:
            raise Deviation(f"{missing}: expected a message") from None

    def frames(self, *, within: float = QUIET) -> list[Frame]:
        """Frames that arrive during a time, on a connection that has to stay open."""
        end, found = time.monotonic() + within, list[Frame]()
        while True:
            try:
                found.append(self._frame(end))
            except TimeoutError:
                return found
            except EOFError as ended:
                raise Deviation(f"{ended}: it has to stay open") from None

    def available_frames(self, *, within: float = QUIET) -> list[Frame]:
        """Frames that arrive during a time, on a connection that the target may close."""
        end, found = time.monotonic() + within, list[Frame]()
        while True:
            try:
                found.append(self._frame(end))
            except (EOFError, TimeoutError):
                return found

    def ends(self, *, within: float | None = None) -> list[Frame]:
        """Frames before the target closes the connection, which it has to do."""
        within = within or self._target.patience
        end, found = time.monotonic() + within, list[Frame]()
        while True:
            try:
                found.append(self._frame(end))
            except EOFError:
                return found
            except TimeoutError:
                raise Deviation(f"the connection is still open after {within} s, with {found[:4]}") from None

    # Handshake.

    def greet(self, octets: bytes | None = None, *, minor: int = 1) -> Greeting:
        """Exchange greetings; the default is a greeting with the target's mechanism."""
        self.minor = minor
        self.send(_wire.greeting(self._target.mechanism, minor=minor) if octets is None else octets)
        self.greeting = Greeting.decode(self.octets(_wire.GREETING_SIZE))
        return self.greeting

    def login(self) -> None:
        """Make the steps of the mechanism up to the metadata."""
        if self._target.mechanism == "PLAIN":
            if not any(self._target.credentials):
                raise NotApplicable("PLAIN: no username and no password were given")
            self.send(_wire.hello(*self._target.credentials))
            answer = self.frame()
            expect(
                answer.name == b"WELCOME", f"HELLO with the credentials of the run is answered by {answer}"
            )
        elif self._target.mechanism != "NULL":
            raise NotApplicable(f"{self._target.mechanism}: the suite has no encryption")

    def announce(self, metadata: bytes) -> None:
        """Send metadata in the command of the mechanism."""
        self.send(self._target.announcement(metadata))

    def ready(self) -> Frame:
        """Read the READY of the target."""
        frame = self.frame()
        expect(frame.name == b"READY", f"expected READY, got {frame}")
        try:
            self.peer = _wire.properties(frame.data)
        except ValueError as error:
            raise Deviation(str(error)) from None
        return frame

    def shake(self, *, kind: str | None = None, minor: int = 1, more: Iterable[Property] = ()) -> None:
        """Make the whole handshake as a socket of a type; ``more`` are properties behind the type."""
        kind = kind or self._target.fitting
        self.greet(minor=minor)
        self.login()
        self.announce(_wire.metadata([(b"Socket-Type", kind.encode()), *more]))
        self.ready()

    # Barriers.

    def alive(self) -> list[Frame]:
        """Frames that came before the target showed that it serves the connection.

        It does so by a PONG, or without one, in ZMTP 3.0, by the messages that its socket type sends.
        """
        if self.minor and self._target.minor:
            context = os.urandom(8)
            self.send(_wire.ping(context))
            return self.until(b"\4PONG" + context)
        if self._target.kind in ("REP", "ROUTER"):
            return [Frame(0, body) for message in self.settle() for body in message]
        if self._target.kind in PUBLISHING:
            self.send(_wire.subscribe(TOPIC, as_message=True))
        elif self._target.kind != "PUSH":
            raise NotApplicable(f"a {self._target.kind} of ZMTP 3.0 never shows that it serves a connection")
        self.message()
        return []

    def until(self, command: bytes) -> list[Frame]:
        """Frames that came before a command with this body."""
        end, before = time.monotonic() + WAIT, list[Frame]()
        while True:
            try:
                frame = self._frame(end)
            except (EOFError, TimeoutError) as missing:
                raise Deviation(f"{missing}: expected {command!r} behind {before}") from None
            if frame.is_command and frame.body == command:
                return before
            self._answer(frame)
            before.append(frame)

    def roundtrip(self, *frames: bytes) -> list[bytes]:
        """Send a message to a socket that echoes, and read the echo."""
        # A DEALER may have sent the echo to a connection that has just been closed.
        for _ in range(2 if self._target.kind == "DEALER" else 0):
            self.send(self._target.enveloped(*frames))
            try:
                return self._target.opened(self.message(within=WAIT / 3))
            except Deviation:
                continue
        self.send(self._target.enveloped(*frames))
        return self._target.opened(self.message())

    def settle(self, *, may_end: bool = False) -> list[list[bytes]]:
        """Messages that came before the echo of one that is sent now.

        With ``may_end`` the target may close the connection instead.
        """
        token = self._target.token()
        self.send(self._target.enveloped(token))
        before: list[list[bytes]] = []
        end = time.monotonic() + WAIT
        while True:
            try:
                message = self._target.opened(self._message(end))
            except EOFError:
                if may_end:
                    return before
                raise Deviation("the target closed the connection") from None
            except TimeoutError:
                raise Deviation(f"no echo of a message within {WAIT} s, but {before}") from None
            if message == [token]:
                return before
            before.append(message)

    def _message(self, end: float) -> list[bytes]:
        frames: list[bytes] = []
        while True:
            frame = self._frame(end)
            if frame.is_command:
                self._answer(frame)
                continue
            frames.append(frame.body)
            if not frame.more:
                return frames

    def _answer(self, frame: Frame) -> None:
        if frame.name == b"PING":
            self.send(_wire.command(b"PONG", frame.data[2:]))

    def _frame(self, end: float) -> Frame:
        while (frame := _wire.take_frame(self._unread)) is None:
            self._fill(end)
        return frame

    def _take(self, count: int, end: float) -> bytes:
        while len(self._unread) < count:
            self._fill(end)
        taken = bytes(self._unread[:count])
        del self._unread[:count]
        return taken

    def _fill(self, end: float) -> None:
        left = end - time.monotonic()
        if left <= 0:
            raise TimeoutError(f"nothing more in time behind {bytes(self._unread[:40])!r}")
        self._stream.settimeout(left)
        try:
            octets = self._stream.recv(1 << 16)
        except TimeoutError:
            raise TimeoutError(f"nothing more in time behind {bytes(self._unread[:40])!r}") from None
        except ConnectionResetError:
            octets = b""
        if not octets:
            raise EOFError(f"the target closed the connection behind {bytes(self._unread[:40])!r}")
        self._unread += octets


class Target:
    """ZMTP socket that listens at an endpoint such as ``tcp/127.0.0.1:5555``.

    ``username`` and ``password`` are those that a PLAIN server lets in. ``server_key`` is the public key of a
    CURVE server in Z85; ``handshake_timeout`` is the time in seconds after which the target gives up silent
    peers.

    ::

        from zwire.conformance.zmtp import Target

        with zmtp.Router() as router:
            endpoint = router.bind("tcp://127.0.0.1:*")
            with Target(endpoint.replace("://", "/")) as target:
                print(sorted(target.roles))  # ['NULL', 'ROUTER']
    """

    def __init__(
        self,
        endpoint: str,
        *,
        username: str = "",
        password: str = "",
        server_key: str = "",
        handshake_timeout: float = 30.0,
    ) -> None:
        found = _ENDPOINT.fullmatch(endpoint)
        if found is None:
            raise ValueError(f"endpoint {endpoint!r}: expected one such as tcp/127.0.0.1:5555")
        self.endpoint = endpoint
        self.credentials: tuple[bytes, bytes] = username.encode(), password.encode()
        self.server_key = server_key
        self.handshake_timeout = handshake_timeout
        self.mechanism: str = "NULL"
        self.minor: int = 0
        self.kind: str = ""
        """Socket type; empty if the handshake does not get as far as the metadata."""
        self._address = (found["v6"] or found["host"], int(found["port"]))
        self._tokens = itertools.count(1)
        # A DEALER and a PAIR send to any of their connections: only one may be open at a time.
        self._turn = threading.RLock()

    def __enter__(self) -> Self:
        try:
            self._look()
        except Deviation as unknown:
            raise OSError(f"no ZMTP 3 socket: {unknown}") from None
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing to release: connections end with their checks."""

    @property
    def name(self) -> str:
        """Endpoint, socket type and mechanism."""
        return f"{self.endpoint} {self.kind or 'socket'} {self.mechanism}"

    @property
    def roles(self) -> frozenset[str]:
        """Socket type and mechanism."""
        return frozenset({self.kind, self.mechanism} - {""})

    @property
    def fitting(self) -> str:
        """Socket type that the target accepts."""
        if not self.kind:
            raise NotApplicable(f"the socket type is unknown, as the {self.mechanism} handshake fails")
        return fits(self.kind)

    @property
    def patience(self) -> float:
        """Seconds for closing a connection: the handshake timer must not do what a rule asks for."""
        return min(WAIT, self.handshake_timeout / 2)

    def needs_commands(self) -> None:
        """Leave the rule of a check out if the target takes no commands in traffic."""
        if self.minor == 0:
            raise NotApplicable("the target speaks ZMTP 3.0, which has no commands in traffic")

    @contextmanager
    def connect(self, *, beside_others: bool = False) -> Iterator[Link]:
        """Open a TCP connection, on which nothing has been sent.

        ``beside_others`` is for connections that never finish their handshake.
        """
        in_turn = self.kind in ("DEALER", "PAIR") and not beside_others
        with (
            self._turn if in_turn else nullcontext(),
            socket.create_connection(self._address, WAIT) as stream,
        ):
            stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            link = Link(self, stream)
            yield link
            if in_turn:
                # Until it has seen the end, the target may send to this connection what the next one awaits.
                link.finish()
                link.is_closed(within=1)

    @contextmanager
    def link(
        self, *, kind: str | None = None, minor: int = 1, more: Iterable[Property] = ()
    ) -> Iterator[Link]:
        """Open a connection and make the handshake, see :meth:`Link.shake`."""
        with self.connect() as link:
            link.shake(kind=kind, minor=minor, more=more)
            yield link

    @contextmanager
    def greeted(self) -> Iterator[Link]:
        """Open a connection and make the handshake up to the metadata."""
        with self.connect() as link:
            link.greet()
            link.login()
            yield link

    def announcement(self, metadata: bytes, *, long: bool | None = None) -> bytes:
        """Command of the mechanism with which a client sends its metadata."""
        return _wire.command(b"INITIATE" if self.mechanism == "PLAIN" else b"READY", metadata, long=long)

    def typed(self, *more: Property) -> bytes:
        """Metadata with a fitting socket type, and further properties."""
        return _wire.metadata([(b"Socket-Type", self.fitting.encode()), *more])

    def token(self) -> bytes:
        """Octets that no other check uses."""
        return b"token-%d" % next(self._tokens)

    def enveloped(self, *frames: bytes) -> bytes:
        """Message that a socket that echoes takes; a REP wants a delimiter in front."""
        if self.kind not in ECHOING:
            raise NotApplicable(f"a {self.kind} sends no echo")
        return _wire.message(*([b""] if self.kind == "REP" else []), *frames)

    def opened(self, frames: list[bytes]) -> list[bytes]:
        """Frames of an echo without the delimiter."""
        if self.kind != "REP":
            return frames
        expect(frames[0] == b"", f"the reply {frames} has no empty delimiter")
        return frames[1:]

    def _look(self) -> None:
        # Eleven octets are enough to get the whole greeting, whatever the mechanism is.
        with self.connect() as link:
            found = link.greet(_wire.greeting()[:11])
        expect(found.signature[0] == 0xFF and found.major >= 3, f"its greeting is {found}")
        self.mechanism, self.minor = found.mechanism_name, found.minor
        for candidate in _CANDIDATES if self.mechanism in ("NULL", "PLAIN") else ():
            if kind := self._kind_for(candidate):
                self.kind = kind
                return

    def _kind_for(self, candidate: str) -> str:
        with self.connect() as link:
            try:
                link.shake(kind=candidate)
            except (Deviation, NotApplicable):
                return ""
            kind = dict(link.peer).get(b"Socket-Type", b"").decode("latin-1")
            return kind if kind in TYPES else ""
