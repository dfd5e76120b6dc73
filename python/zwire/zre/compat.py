"""The interface of zeromq-pyre, over a node of zwire: a pyre program runs by changing its import.

::

    from zwire.zre.compat import Pyre, PyreEvent     # was: from pyre import Pyre, PyreEvent

Intended differences:

- ``set_interval``, ``set_port``, ``set_interface`` and ``set_endpoint`` work, before :meth:`Pyre.start`.
- ``whispers`` and ``shouts`` put their arguments into the format, with ``%``.
- :meth:`Pyre.recv` takes a timeout, and after STOP it raises an error instead of waiting without end.
- :meth:`Pyre.socket` gives no ZeroMQ socket but a file descriptor: a whole number with the few methods that
  programs call on it. ``zmq.Poller``, ``select``, ``selectors`` and ``asyncio.loop.add_reader`` take it.
- ``peer_headers`` of a peer that is gone is an empty dictionary.
- A node may be used from several threads.
- Only ``Pyre`` and ``PyreEvent`` are here; ``zhelper`` and other insides of pyre are not.
"""

from __future__ import annotations

import collections
import contextlib
import json
import logging
import os
import threading
from typing import TYPE_CHECKING, Any
from uuid import UUID, uuid4

from zwire import zre
from zwire.errors import TimedOut, UnknownPeer, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Self

__all__ = ["Pyre", "PyreEvent"]

_log = logging.getLogger(__name__)

_QUEUE = 1000
"""Most events queued here; further ones wait in the node, which has its own limit."""

# Events that pyre never reports: its programs would not know them.
_UNKNOWN_TO_PYRE = ("EVASIVE", "SILENT", "MESSAGES_LOST", "LEADER")

# The numbers of zmq.EVENTS and zmq.POLLIN, which are part of the interface of ZeroMQ.
_EVENTS = 15
_POLLIN = 1


class _Inbox(int):
    """A file descriptor that is readable while events wait.

    It is an int because pollers return it: ``node.socket() in dict(poller.poll())`` holds.
    """

    _waiting: collections.deque[list[bytes]]
    _changed: threading.Condition
    _bounded: bool
    _ended: bool

    def __new__(cls) -> Self:
        self = super().__new__(cls, os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC))
        self._waiting = collections.deque()
        self._changed = threading.Condition()
        self._bounded = True
        self._ended = False
        return self

    def fileno(self) -> int:
        """The descriptor."""
        return int(self)

    def get(self, option: int) -> int:
        """Return ``zmq.POLLIN`` for ``zmq.EVENTS`` if an event waits, else 0."""
        if option != _EVENTS:
            raise UsageError(f"only zmq.EVENTS (15) can be asked of this socket, not {option}")
        with self._changed:
            return _POLLIN if self._waiting else 0

    getsockopt = get

    def poll(self, timeout: float | None = None, _flags: int = _POLLIN) -> int:
        """Wait up to ``timeout`` milliseconds for an event; return ``zmq.POLLIN`` or 0."""
        with self._changed:
            self._changed.wait_for(self.ready, None if timeout is None else timeout / 1000)
            return _POLLIN if self._waiting else 0

    def recv_multipart(self) -> list[bytes]:
        """Wait for the frames of the next event."""
        return self.take(None)

    def ready(self) -> bool:
        return bool(self._waiting) or self._ended

    def put(self, frames: list[bytes]) -> None:
        with self._changed:
            self._changed.wait_for(lambda: len(self._waiting) < _QUEUE or not self._bounded)
            if not self._waiting:
                os.eventfd_write(int(self), 1)
            self._waiting.append(frames)
            self._changed.notify_all()

    def take(self, timeout: float | None) -> list[bytes]:
        with self._changed:
            if not self._changed.wait_for(self.ready, timeout):
                raise TimedOut(f"no event within {timeout} s", seconds=timeout)
            if not self._waiting:
                raise UsageError("the node has stopped, and all its events have been taken")
            frames = self._waiting.popleft()
            if not self._waiting:
                os.eventfd_read(int(self))
            self._changed.notify_all()
            return frames

    def last(self) -> None:
        with self._changed:
            self._bounded = False
            self._changed.notify_all()

    def end(self) -> None:
        with self._changed:
            self._ended = True
            self._changed.notify_all()

    def __del__(self) -> None:
        with contextlib.suppress(OSError):
            os.close(int(self))


class Pyre:
    """A node; silent until :meth:`start`.

    Args:
        name: the name announced to peers; ``None`` is the first six characters of the UUID.
        ctx: a ZeroMQ context in pyre; ignored here.
    """

    def __init__(self, name: str | None = None, ctx: object = None, **_: object) -> None:  # noqa: ARG002
        identity = uuid4()
        while not identity.bytes[0]:
            # Old libraries treat an identity that starts with a zero octet as missing.
            identity = uuid4()
        self._uuid = identity
        self._name = name or str(identity)[:6]
        self._headers: dict[str, str] = {}
        self._settings: dict[str, Any] = {}
        self._groups: list[str] = []
        self._node: zre.Node | None = None
        self._stopped = False
        self.verbose: bool = False
        self.inbox: _Inbox = _Inbox()

    def __repr__(self) -> str:
        return f"<Pyre {self._name} {self._uuid}>"

    def __bool__(self) -> bool:
        return True

    # ---- Before start ----

    def uuid(self) -> UUID:
        """Own UUID."""
        return self._uuid

    def name(self) -> str:
        """Own name."""
        return self._name

    def set_name(self, name: str) -> None:
        """Set the own name (deprecated in pyre: give it to the constructor)."""
        _log.warning("set_name is deprecated: give the name to the constructor")
        self._before_start("set_name")
        self._name = name

    def set_header(self, key: str, value: str) -> None:
        """Set a header, which peers get with ENTER."""
        self._before_start("set_header")
        self._headers[key] = value

    def set_verbose(self) -> None:
        """Log each event, at level DEBUG."""
        self.verbose = True

    def set_port(self, port_nbr: int | str | bytes) -> None:
        """Set the UDP port of beacons; 5670 otherwise."""
        self._before_start("set_port")
        self._settings["beacon_port"] = int(port_nbr)

    def set_interval(self, interval: float | str) -> None:
        """Set the time between beacons, in milliseconds; 1000 otherwise."""
        self._before_start("set_interval")
        self._settings["interval"] = float(interval) / 1000

    def set_interface(self, value: str) -> None:
        """Set the interface of beacons, by name or address; all otherwise."""
        self._before_start("set_interface")
        self._settings["interfaces"] = [value]

    def set_endpoint(self, format: str, *args: object) -> None:
        """Bind the mailbox to that endpoint, and send no beacons: peers have to be told of it."""
        self._before_start("set_endpoint")
        endpoint = format % args if args else format
        host, colon, port = endpoint.removeprefix("tcp://").rpartition(":")
        if not endpoint.startswith("tcp://") or not colon or not port.isdigit():
            raise UsageError(f"{endpoint!r}: expected tcp://HOST:PORT")
        self._settings |= {"beacons": False, "bind": host, "mailbox": int(port)}

    def _before_start(self, call: str) -> None:
        if self._node is not None:
            raise UsageError(f"{call} has to come before start")

    # ---- Life ----

    def start(self) -> None:
        """Begin to discover peers and to be discovered."""
        self._before_start("start")
        self._node = node = zre.Node(
            self._name, uuid=self._uuid.hex, headers=self._headers, callback=self._on_event, **self._settings
        )
        for group in self._groups:
            node.join(group)
        node.start()

    def stop(self) -> None:
        """Send a goodbye to the peers and stop; STOP is the last event."""
        if self._node is None or self._stopped:
            return
        self._stopped = True
        # The thread that stops may be the one that reads: from here on events must not wait for room.
        self.inbox.last()
        self._node.stop()

    def _on_event(self, event: zre.Event) -> None:
        if event.type in _UNKNOWN_TO_PYRE:
            return
        if self.verbose:
            _log.debug("(%s) %s name=%s", self._name, event.type, event.name)
        frames = [event.type.encode(), UUID(event.peer).bytes, event.name.encode()]
        match event:
            case zre.Enter():
                frames += [json.dumps(dict(event.headers)).encode(), event.address.encode()]
            case zre.Join() | zre.Leave():
                frames.append(event.group.encode())
            case zre.Whisper():
                frames += event.content
            case zre.Shout():
                frames += [event.group.encode(), *event.content]
        self.inbox.put(frames)
        if event.type == "STOP":
            self.inbox.end()

    # ---- Events ----

    def recv(self, timeout: float | None = None) -> list[bytes]:
        """Wait for the next event and return its frames.

        The frames are type, UUID of the peer (16 octets), its name, and then: ENTER headers as JSON,
        endpoint; JOIN and LEAVE the group; WHISPER the content; SHOUT the group and the content.

        Args:
            timeout: seconds; ``None`` waits without a limit.

        Raises:
            zwire.errors.TimedOut: no event came in that time.
            zwire.errors.UsageError: the node has stopped and all events were taken.
        """
        return self.inbox.take(timeout)

    def socket(self) -> _Inbox:
        """Return an object that can be polled for events, see the module."""
        return self.inbox

    def events(self) -> Iterator[PyreEvent]:
        """Iterate over events as they come; ends after STOP."""
        while True:
            try:
                yield PyreEvent(self)
            except UsageError:
                return

    def recent_events(self) -> Iterator[PyreEvent]:
        """Iterate over the events queued already."""
        while self.inbox.get(_EVENTS) & _POLLIN:
            yield PyreEvent(self)

    # ---- Groups and messages ----

    def join(self, group: str) -> None:
        """Join a group."""
        if self._node is not None:
            self._node.join(group)
        elif group not in self._groups:
            self._groups.append(group)

    def leave(self, group: str) -> None:
        """Leave a group."""
        if self._node is not None:
            self._node.leave(group)
        elif group in self._groups:
            self._groups.remove(group)

    def whisper(self, peer: UUID, msg_p: bytes | list[bytes]) -> None:
        """Send content, one frame or a list of them, to one peer; no effect if the peer is unknown."""
        if self._node is None:
            return
        try:
            self._node.whisper(peer.hex, msg_p)
        except UnknownPeer:
            _log.debug("whisper to %s, an unknown peer", peer)

    def shout(self, group: str, msg_p: bytes | list[bytes]) -> None:
        """Send content, one frame or a list of them, to all peers in a group."""
        if self._node is not None:
            self._node.shout(group, msg_p)

    def whispers(self, peer: UUID, format: str, *args: object) -> None:
        """Send a text to one peer."""
        self.whisper(peer, (format % args if args else format).encode())

    def shouts(self, group: str, format: str, *args: object) -> None:
        """Send a text to all peers in a group."""
        self.shout(group, (format % args if args else format).encode())

    # ---- Peers and groups ----

    def peers(self) -> list[UUID]:
        """UUIDs of the peers."""
        return [] if self._node is None else [UUID(p) for p in self._node.peers()]

    def peers_by_group(self, group: str) -> list[UUID]:
        """UUIDs of the peers in a group."""
        return [] if self._node is None else [UUID(p) for p in self._node.peers_by_group(group)]

    def endpoint(self) -> str:
        """Own endpoint; empty before start."""
        return "" if self._node is None else self._node.endpoint or ""

    def get_peer_name(self, peer: UUID) -> str:
        """Name of a peer (deprecated in pyre: each event has it); empty if the peer is unknown."""
        return "" if self._node is None else self._node.peer_name(peer.hex) or ""

    def peer_address(self, peer: UUID) -> str:
        """Endpoint of a peer; empty if the peer is unknown."""
        return "" if self._node is None else self._node.peer_address(peer.hex) or ""

    def peer_header_value(self, peer: UUID, name: str) -> str:
        """Return one header of a peer; empty if the peer or the header is unknown."""
        return "" if self._node is None else self._node.peer_header(peer.hex, name) or ""

    def peer_headers(self, peer: UUID) -> dict[str, str]:
        """All headers of a peer."""
        return {} if self._node is None else dict(self._node.peer_headers(peer.hex))

    def own_groups(self) -> list[str]:
        """Groups that this node is in."""
        return list(self._groups) if self._node is None else self._node.own_groups()

    def peer_groups(self) -> list[str]:
        """Groups that any peer is in."""
        return [] if self._node is None else self._node.peer_groups()

    @staticmethod
    def version() -> tuple[int, int, int]:
        """Return the release of zeromq-pyre with this interface."""
        return (0, 3, 4)


class PyreEvent:
    """The next event of a node, with a name for each part.

    Args:
        node: waits for its next event.
    """

    def __init__(self, node: Pyre) -> None:
        kind, identity, name, *rest = node.recv()
        self.type: str = kind.decode()
        self.peer_uuid_bytes = identity
        self.peer_name: str = name.decode()
        self.headers: dict[str, str] | None = None
        self.peer_addr: str | None = None
        self.group: str | None = None
        self.msg: list[bytes] | None = None
        if self.type == "ENTER":
            self.headers = json.loads(rest[0])
            self.peer_addr = rest[1].decode()
        elif self.type in ("JOIN", "LEAVE"):
            self.group = rest[0].decode()
        elif self.type == "WHISPER":
            self.msg = rest
        elif self.type == "SHOUT":
            self.group = rest[0].decode()
            self.msg = rest[1:]

    def header(self, name: str) -> str | None:
        """Return one header of ENTER."""
        return (self.headers or {}).get(name)

    @property
    def peer_uuid(self) -> UUID:
        """UUID of the peer."""
        return UUID(bytes=self.peer_uuid_bytes)

    def __str__(self) -> str:
        return f"<{__name__} {self.type} from {self.peer_uuid.hex}>"

    __repr__ = __str__
