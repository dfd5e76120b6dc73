"""Bridge between a Zenoh session and a broker of MQTT 3.1.1 or 5, both ways.

::

    from zwire import zenoh
    from zwire.bridge.mqtt import MqttBridge, Rule

    with zenoh.open() as session, MqttBridge(
        session, "mqtt://127.0.0.1:1883", [Rule("robots/#")], client_id="plant-1", spool="/var/spool/mqtt"
    ) as bridge:
        bridge.wait_connected()
        ...

A topic is a key: levels become chunks, ``+`` is ``*`` and ``#`` is ``**``. The guide "MQTT" has the details.
"""

from __future__ import annotations

import json
import os
import time
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal, TypedDict, cast

from zwire._closing import Closing
from zwire._zwire import MqttHandle
from zwire.errors import ConnectError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from zwire.zenoh import KeyExpr, Session

__all__ = ["MqttBridge", "MqttStats", "MqttTls", "MqttWill", "Rule"]


@dataclass(frozen=True)
class Rule:
    """Topics that pass the bridge. The first rule of a bridge that matches a topic decides."""

    topic: str = ""
    """Filter of MQTT, such as ``robots/+/battery`` or ``robots/#``."""

    key_expr: KeyExpr | str | None = None
    """Key expression in place of ``topic``, without the prefix of the bridge: ``robots/*/battery``."""

    direction: Literal["in", "out", "both"] = "both"
    """``in``: from the broker into Zenoh; ``out``: from Zenoh to the broker."""

    qos: int = 1
    """Quality of service, 0 to 2: of the subscription at the broker, and of messages to it."""

    retain: bool = False
    """Whether the broker retains what comes from Zenoh."""


@dataclass(frozen=True)
class MqttTls:
    """Files of TLS, in PEM.

    ::

        from zwire.bridge import mqtt

        tls = mqtt.MqttTls("ca.pem", certificate="bridge.pem", private_key="bridge.key")
        print(tls.verify_name)  # True
    """

    ca: str | os.PathLike[str]
    """Authorities that certify the broker."""

    certificate: str | os.PathLike[str] | None = None
    """Certificate of the bridge, for a broker that asks for one."""

    private_key: str | os.PathLike[str] | None = None
    """Private key of that certificate."""

    verify_name: bool = True
    """Whether the certificate of the broker has to have its name."""


@dataclass(frozen=True)
class MqttWill:
    """Last message: the broker publishes it when the connection breaks, and not after a close.

    ::

        from zwire.bridge import mqtt

        will = mqtt.MqttWill("bridges/hall-3", "gone", qos=1, retain=True)
        print(will.topic)  # bridges/hall-3
    """

    topic: str
    """Topic."""

    payload: str
    """Payload."""

    qos: int = 0
    """Quality of service, 0 to 2."""

    retain: bool = False
    """Whether the broker retains it."""


class MqttStats(TypedDict):
    """Counters of a bridge."""

    connected: bool
    """Whether the broker has accepted the connection and answered the subscriptions."""
    connections: int
    """Connections that it has accepted."""
    in_received: int
    """Messages from the broker."""
    in_put: int
    """Messages that were put into Zenoh."""
    in_repeated: int
    """Messages with QoS 1 that were put once more, after a link was lost."""
    in_looped: int
    """Messages that came back to the bridge, and were dropped."""
    in_unmapped: int
    """Messages without a key, or on topics without a rule."""
    in_too_large: int
    """Messages above ``max_packet_bytes``."""
    in_uncertain: int
    """Messages with QoS 2 that may be lost: the bridge was killed, or a link lost, while they were put."""
    out_sent: int
    """Messages that were sent to the broker."""
    out_repeated: int
    """Messages that were sent once more, after a connection was lost."""
    out_acked: int
    """Messages with QoS 1 and 2 that the broker has acknowledged."""
    out_looped: int
    """Samples that came back to the bridge, and were dropped."""
    out_unmapped: int
    """Samples without a topic."""
    out_too_large: int
    """Samples above the largest packet, of the broker or of the bridge."""
    out_refused: int
    """Messages that the broker has refused."""
    out_expired: int
    """Messages that left the spool unsent, because it was full."""
    out_waiting: int
    """Samples that wait for the broker."""
    out_dropped: int
    """Samples that the queues of subscribers have dropped at their bounds."""
    out_missing: int
    """Samples that are missing by the numbers of their publishers."""
    problem: str | None
    """Text of the last failure, ``None`` while the bridge works."""


class MqttBridge(Closing):
    """Passes messages between a session and a broker until :meth:`close`. A context manager.

    It connects in the background, again whenever the connection breaks, and keeps its session at the broker.
    A message with QoS 1 or 2 from the broker is acknowledged when the neighbours of the session have
    processed it; one to the broker is in the spool until the broker has acknowledged it. So both survive a
    kill of the bridge. The bridge hears other sessions than its own, and what it puts reaches only them.
    """

    def __init__(
        self,
        session: Session,
        broker: str,
        rules: Iterable[Rule],
        *,
        client_id: str,
        spool: str | os.PathLike[str],
        prefix: KeyExpr | str = "",
        version: Literal["3.1.1", "5"] = "5",
        user: str | None = None,
        password: str | None = None,
        tls: MqttTls | None = None,
        will: MqttWill | None = None,
        status_key: KeyExpr | str | None = None,
        keep_alive: int = 30,
        session_expiry: int = 86_400,
        window: int = 1000,
        max_packet_bytes: int = 16 << 20,
        spool_bytes: int = 1 << 30,
        durability: Literal["os", "disk"] = "os",
    ) -> None:
        """Start a bridge.

        Args:
            session: The session, which may have no other user.
            broker: Address: ``mqtt://HOST:PORT``, or ``mqtts://HOST:PORT`` for TLS.
            rules: Topics that pass, 1 to 256 rules.
            client_id: Name of the session at the broker, which no other client has: 1 to 64 letters, digits,
                ``-``, ``_`` or ``.``.
            spool: Folder for messages to the broker and the state of the session. No other bridge has it.
            prefix: Key above all topics.
            version: Version of MQTT. With 3.1.1 no properties and content types pass.
            user: User at the broker.
            password: Password of that user.
            tls: Certificates, for an address with ``mqtts://``.
            will: Last message.
            status_key: Key of a liveliness token that exists while the broker is connected.
            keep_alive: Seconds without a packet after which one side asks for an answer; 0: never.
            session_expiry: Seconds for which the broker keeps the session while the bridge is away (MQTT 5).
            window: Messages that may wait for an acknowledgement in each direction, 1 to 32000.
            max_packet_bytes: Largest packet, 1024 to 268435456. Larger messages are dropped and counted.
            spool_bytes: Most bytes of the spool, at least 1048576. Beyond, the oldest messages are dropped
                and counted.
            durability: ``os``: what the spool has survives the end of the process; ``disk``: that of the
                machine.

        Raises:
            UsageError: An option is not accepted, or a certificate cannot be used.
            SpoolLocked: Another bridge has the spool.
            SpoolError: The spool cannot be used.
            SessionClosed: The session is closed.
        """
        options: dict[str, Any] = {
            "broker": broker,
            "client_id": client_id,
            "rules": [_rule(rule) for rule in rules],
            "prefix": str(prefix),
            "version": version,
            "spool": os.fspath(spool),
            "spool_bytes": spool_bytes,
            "durability": durability,
            "keep_alive": keep_alive,
            "session_expiry": session_expiry,
            "window": window,
            "max_packet_bytes": max_packet_bytes,
            "user": user,
            "password": password,
            "will": will and asdict(will),
            "status_key": status_key and str(status_key),
        }
        if tls is not None:
            paths = {"ca": tls.ca, "certificate": tls.certificate, "private_key": tls.private_key}
            options |= {name: os.fspath(path) for name, path in paths.items() if path is not None}
            options["verify_name"] = tls.verify_name
        self.broker = broker
        self.client_id = client_id
        self._session = session
        self._handle = MqttHandle(session, json.dumps(options))

    def __repr__(self) -> str:
        """Show the client id and the broker."""
        return f"<MqttBridge {self.client_id!r} at {self.broker}>"

    def wait_connected(self, timeout: float = 10.0) -> None:
        """Wait until the broker has answered the subscriptions, and the router knows the subscribers.

        From then on the broker keeps messages with QoS 1 and 2 for the bridge, also while it is away.

        Raises:
            ConnectError: Not within the timeout; the text has the last failure.
        """
        end = time.monotonic() + timeout
        self._handle.wait_connected(timeout)
        if not self._session.ready(max(end - time.monotonic(), 0.0)):
            raise ConnectError("no connection with a router of Zenoh: the session has no link", endpoint=None)

    def flush(self, timeout: float = 10.0) -> bool:
        """Wait until the broker has acknowledged all that rules with QoS 1 and 2 received before the call.

        Returns:
            ``False`` if the timeout expires first.

        Raises:
            UsageError: The bridge is closed.
        """
        return self._handle.flush(timeout)

    def stats(self) -> MqttStats:
        """Return counters; :class:`MqttStats` explains them."""
        return cast("MqttStats", self._handle.stats())

    def close(self) -> None:
        """End the bridge. A second call does nothing.

        The broker keeps the session and does not publish the last message; the spool keeps what the broker
        has not acknowledged.

        Raises:
            SpoolError: The last samples could not be stored.
        """
        self._handle.close()


def _rule(rule: Rule) -> dict[str, Any]:
    shown = {**vars(rule), "key_expr": None if rule.key_expr is None else str(rule.key_expr)}
    return {name: value for name, value in shown.items() if value is not None}
