"""Sockets of ZeroMQ: DEALER, ROUTER, PUB and SUB over TCP.

The sockets speak ZMTP 3.1, 3.0 and 2.0 with libzmq and others, with NULL, PLAIN or CURVE::

    import zwire.zmtp as zmtp

    with zmtp.Router() as router, zmtp.Dealer(identity=b"robot") as dealer:
        dealer.connect(router.bind("tcp://127.0.0.1:*"))
        dealer.send([b"battery", b"87"])
        identity, *frames = router.recv(timeout=5)
        router.send([identity, b"thanks"])
        print(dealer.recv(timeout=5))

Every socket may bind and connect several times, is thread-safe, and is a context manager and an iterator
over received messages.
"""

from __future__ import annotations

import atexit

from zwire._options import unknown_option
from zwire._zwire import ZmtpEvent as Event
from zwire._zwire import ZmtpSocket, close_all
from zwire._zwire import zmtp_keypair as keypair

# Type checkers go by this name; importing typing would take half the time of our import.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, Self, TypedDict

    from typing_extensions import Buffer, Unpack

    class Options(TypedDict, total=False):
        """Options common to all sockets; see :func:`options` for their meaning."""

        high_water_mark: int | tuple[int, int]
        high_water_bytes: int | tuple[int, int]
        max_message_size: int
        heartbeat: float | None
        heartbeat_timeout: float | None
        heartbeat_to_3_0: bool
        handshake_timeout: float
        reconnect: float | tuple[float, float]
        linger: float | None
        max_connections: int
        max_handshakes: int
        metadata: dict[str, bytes]
        version: str
        secret_key: str | Buffer | None
        public_key: str | Buffer | None
        server_key: str | Buffer | None
        plain: tuple[str | Buffer, str | Buffer] | bool | None
        authenticator: Callable[[str, str, tuple[bytes, ...]], object] | None


__all__ = ["Dealer", "Event", "Pub", "Router", "Sub", "keypair", "options"]

_COMMON = {
    "high_water_mark": 1000,
    "high_water_bytes": 64 << 20,
    "max_message_size": 256 << 20,
    "heartbeat": 5.0,
    "heartbeat_timeout": None,
    "heartbeat_to_3_0": False,
    "handshake_timeout": 30.0,
    "reconnect": (0.1, 5.0),
    "linger": 1.0,
    "max_connections": 16_384,
    "max_handshakes": 256,
    "metadata": None,
    "version": "3.1",
    "secret_key": None,
    "public_key": None,
    "server_key": None,
    "plain": None,
    "authenticator": None,
}


def options() -> dict[str, object]:
    """Return the options common to all sockets, with their defaults.

    - ``high_water_mark``: messages that may wait, one number or ``(sending, receiving)``. The limit for
      sending applies to each connection, the one for receiving to the socket; a connection with messages that
      do not fit is not read.
    - ``high_water_bytes``: the same in bytes.
    - ``max_message_size``: bytes of all frames of a message; a peer that sends a larger one loses the
      connection.
    - ``heartbeat``: seconds between two PINGs, ``None`` for none.
    - ``heartbeat_timeout``: seconds after a PING without traffic until the peer is given up, six
      intervals by default; the peer is asked to do the same. A peer with a slow application reads
      nothing, and looks dead when that takes longer.
    - ``heartbeat_to_3_0``: PINGs also to peers that announce ZMTP 3.0, of which old ones take them
      for messages.
    - ``handshake_timeout``: seconds for connecting, and for the handshake.
    - ``reconnect``: seconds until the next attempt, or ``(first, most)`` where each pause is twice
      the one before.
    - ``linger``: seconds that ``close`` waits for unwritten messages, ``None`` for no limit.
    - ``max_connections``, ``max_handshakes``: bounds of each bound endpoint; the second is about peers that
      were not sent a READY yet.
    - ``metadata``: properties announced to the peer; names begin with ``X-``.
    - ``version``: the latest version to announce, ``"3.1"`` or ``"3.0"``.
    - ``secret_key``, ``public_key``, ``server_key``: CURVE, as 32 bytes or 40 characters of Z85,
      see :func:`keypair`. With ``server_key`` this is a client of the server that has this public
      key, without it a server.
    - ``plain``: ``(user, password)`` as a client, ``True`` as a server.
    - ``authenticator``: called with mechanism, address and credentials of each connecting peer.
      It returns ``True``, the name of the user, ``False``, or a status of ZAP. The credentials are bytes:
      the public key of the client with CURVE, which are 32 as in ZAP and not Z85, user and password with
      PLAIN, nothing with NULL.
    """
    return dict(_COMMON)


def _settings(given: dict[str, Any], **own: object) -> dict[str, Any]:
    for name in given.keys() - _COMMON.keys():
        raise unknown_option(name, _COMMON)
    return _COMMON | given | own


class Dealer(ZmtpSocket):
    """Sends to its peers in turn and receives from all of them.

    ``identity`` is the name by which a ROUTER knows it; without one the router makes one up. With
    ``immediate`` messages are queued for open connections only; else they also wait for the endpoints it
    connects to.
    """

    __slots__ = ()

    def __new__(
        cls, *, identity: str | Buffer = b"", immediate: bool = False, **options: Unpack[Options]
    ) -> Self:
        """Create a socket without connections; see :func:`options`."""
        settings = _settings({**options}, identity=identity, immediate=immediate)
        return super().__new__(cls, "DEALER", settings)


class Router(ZmtpSocket):
    """Prefixes received messages with the sender's identity, and sends to the one in the first frame.

    With ``handover`` a new peer takes over an identity in use, else it is refused as long as the other is
    there. With ``mandatory`` a message to an unknown identity raises ``Unreachable``, else it is dropped and
    counted.
    """

    __slots__ = ()

    def __new__(
        cls,
        *,
        identity: str | Buffer = b"",
        handover: bool = False,
        mandatory: bool = False,
        **options: Unpack[Options],
    ) -> Self:
        """Create a socket without connections; see :func:`options`."""
        settings = _settings({**options}, identity=identity, handover=handover, mandatory=mandatory)
        return super().__new__(cls, "ROUTER", settings)


class Pub(ZmtpSocket):
    """Sends each message to all peers subscribed to a prefix of its first frame.

    Sending never waits: a peer without room misses the message.

    ::

        with zmtp.Pub() as pub:
            pub.bind("tcp://127.0.0.1:*")
            # Dropped, because no peer has subscribed yet.
            pub.send_many([b"87", b"86"], head=b"fleet/7/battery")
    """

    __slots__ = ()

    def __new__(cls, *, immediate: bool = False, **options: Unpack[Options]) -> Self:
        """Create a socket without connections; see :func:`options`."""
        return super().__new__(cls, "PUB", _settings({**options}, immediate=immediate))


class Sub(ZmtpSocket):
    """Receives the messages that begin with a subscribed prefix.

    ``subscribe`` is a prefix, or several; ``b""`` matches everything.

    ::

        with zmtp.Sub(["fleet/7/", "fleet/8/"]) as sub:
            sub.bind("tcp://127.0.0.1:*")
            print(sub.unsubscribe("fleet/7/"), sub.unsubscribe("other"))  # True False
    """

    __slots__ = ()

    def __new__(
        cls,
        subscribe: str | Buffer | list[str | Buffer] | tuple[str | Buffer, ...] = (),
        **options: Unpack[Options],
    ) -> Self:
        """Create a socket without connections; see :func:`options`."""
        socket = super().__new__(cls, "SUB", _settings({**options}))
        for prefix in subscribe if isinstance(subscribe, list | tuple) else (subscribe,):
            socket.subscribe(prefix)
        return socket


atexit.register(close_all)
