"""Publishers and subscriptions of nodes (`zenoh-services` 6.4 and 6.5)."""

from __future__ import annotations

import inspect
import struct
import threading
import time
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from zwire import zenoh
from zwire.errors import TimedOut, ZwireError
from zwire.ros2._endpoint import Endpoint, EndpointEvent, Owner
from zwire.ros2._keys import EntityKind, read_attachment
from zwire.ros2._qos import DurabilityPolicy, HistoryPolicy, ReliabilityPolicy
from zwire.ros2._refused import LOG
from zwire.zenoh import ext, handlers

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from zwire.ros2._qos import QoSProfile
    from zwire.ros2._store import MessageType
    from zwire.zenoh import Sample

HEARTBEAT: Final = 0.5
"""Seconds between heartbeats of reliable transient-local publishers, as rmw_zenoh has them."""

KEPT_ALL: Final = 1000
"""Messages in the queue of a subscription that keeps all; a full one slows its publishers down."""

MOST_SOURCES: Final = 1024
"""Publishers whose numbers a subscription remembers, the last ones to appear."""

AHEAD: Final = 10**9
"""Nanoseconds that the clock of a publisher may be ahead without a word: more than a link takes."""

BEHIND: Final = 10 * 10**9
"""Nanoseconds that a message may be old without a word: queues and reconnections take less."""

_ATTACHMENT = struct.Struct("<qqB16s")


def is_latched(qos: QoSProfile) -> bool:
    """Return whether late subscriptions get earlier messages."""
    return qos.durability is DurabilityPolicy.TRANSIENT_LOCAL


def _is_reliable(qos: QoSProfile) -> bool:
    return qos.reliability is ReliabilityPolicy.RELIABLE


class MessageInfo(NamedTuple):
    """Where a message is from, and when it was sent."""

    source_timestamp: int
    """Nanoseconds since 1970 at which it was published, by the clock of the publisher."""
    received_timestamp: int
    """Nanoseconds since 1970 at which it was taken, by the clock of this host."""
    publication_sequence_number: int
    """Number of the message at its publisher, from 1."""
    publisher_gid: bytes
    """Id of the publisher."""


class Publisher(Endpoint):
    """A publisher of a topic; :meth:`zwire.ros2.Node.create_publisher` makes one."""

    def __init__(
        self,
        owner: Owner,
        type_: MessageType[Any],
        name: str,
        qos: QoSProfile,
        on_event: Callable[[EndpointEvent], object] | None,
    ) -> None:
        super().__init__(owner, EntityKind.PUBLISHER, name, (type_.name, type_.hash), qos, on_event)
        self.type: Final = type_
        self._sequence = 0
        self._sending = threading.Lock()
        self._publisher = self._declared()
        self._announce()

    def _declared(self) -> zenoh.Publisher | ext.AdvancedPublisher:
        qos, session = self.qos, self._owner.context.session
        reliable = _is_reliable(qos)
        blocks = reliable and qos.history is HistoryPolicy.KEEP_ALL
        congestion = zenoh.CongestionControl.BLOCK if blocks else zenoh.CongestionControl.DROP
        reliability = zenoh.Reliability.RELIABLE if reliable else zenoh.Reliability.BEST_EFFORT
        if not is_latched(qos):
            return session.declare_publisher(self.key, congestion_control=congestion, reliability=reliability)
        return ext.declare_advanced_publisher(
            session,
            self.key,
            congestion_control=congestion,
            reliability=reliability,
            cache=ext.CacheConfig(qos.kept),
            publisher_detection=True,
            sample_miss_detection=ext.MissDetectionConfig(sporadic_heartbeat=HEARTBEAT) if reliable else None,
        )

    def publish(self, message: Any) -> None:  # noqa: ANN401 - a message of the type
        """Publish a message.

        Args:
            message: A message of the type, or its CDR as bytes.

        Raises:
            PayloadError: A value is none of its field.
            UsageError: The publisher is destroyed, or the session closed.
        """
        payload = (
            message if isinstance(message, bytes | bytearray | memoryview) else self.type._payload(message)  # noqa: SLF001 - a part of the package
        )
        with self._sending:
            self._sequence += 1
            attachment = _ATTACHMENT.pack(self._sequence, time.time_ns(), 16, self.gid)
            self._publisher.put(payload, attachment=attachment)

    def get_subscription_count(self) -> int:
        """Return the number of subscriptions that match."""
        return self.matched

    def wait_for_subscription(self, timeout: float | None = None) -> None:
        """Wait until a subscription matches and publications reach it.

        Raises:
            TimedOut: None did within ``timeout`` seconds.
        """
        self._publisher.wait_matching(timeout=timeout)

    def _undeclare(self) -> None:
        self._publisher.undeclare()


class _Source:
    """Numbers of one publisher."""

    __slots__ = ("apart", "last")

    def __init__(self, last: int) -> None:
        self.last = last
        self.apart = False


class Subscription(Endpoint):
    """A subscription of a topic; :meth:`zwire.ros2.Node.create_subscription` makes one.

    Without a callback it is an iterator over messages.
    """

    def __init__(
        self,
        owner: Owner,
        type_: MessageType[Any],
        name: str,
        qos: QoSProfile,
        callback: Callable[..., object] | None,
        raw: bool,
        on_event: Callable[[EndpointEvent], object] | None,
    ) -> None:
        super().__init__(owner, EntityKind.SUBSCRIPTION, name, (type_.name, type_.hash), qos, on_event)
        self.type: Final = type_
        self._decode: Callable[[Any], Any] = bytes if raw else type_.decode
        self._sources: dict[bytes, _Source] = {}
        self._lost = 0
        self._callback = callback
        self._with_info = callback is not None and _takes_two(callback)
        self._subscriber: Any = self._declared()
        self._announce()

    def _declared(self) -> object:
        qos, session = self.qos, self._owner.context.session
        keeps_all = qos.history is HistoryPolicy.KEEP_ALL
        handler: Any = handlers.FifoChannel(KEPT_ALL) if keeps_all else handlers.RingChannel(qos.kept)
        if self._callback is not None:
            handler = handlers.Callback(self._on_sample)
        if not is_latched(qos):
            return session.declare_subscriber(self.key, handler)
        return ext.declare_advanced_subscriber(
            session,
            self.key,
            handler,
            history=ext.HistoryConfig(detect_late_publishers=True, max_samples=qos.kept),
            recovery=ext.RecoveryConfig(heartbeat=True) if _is_reliable(qos) else None,
            subscriber_detection=True,
        )

    @property
    def lost(self) -> int:
        """Number of messages that did not arrive, by the numbers of those that did."""
        return self._lost

    @property
    def overrun(self) -> int:
        """Number of messages that newer ones have pushed out of the queue."""
        return int(self._subscriber.dropped)

    def get_publisher_count(self) -> int:
        """Return the number of publishers that match."""
        return self.matched

    def wait_ready(self, timeout: float | None = None) -> None:
        """Wait until all neighbours know of the subscription: messages they pass on from then on arrive.

        Raises:
            TimedOut: They did not within ``timeout`` seconds.
        """
        self._subscriber.wait_ready(timeout)

    def recv(self, timeout: float | None = None) -> Any:  # noqa: ANN401 - a message of the type
        """Wait for the next message.

        Args:
            timeout: Seconds; without a limit if left out.

        Raises:
            TimedOut: The time is over.
            SessionClosed: The session is closed.
        """
        return self.recv_with_info(timeout)[0]

    def recv_with_info(self, timeout: float | None = None) -> tuple[Any, MessageInfo]:
        """Wait for the next message, as :meth:`recv`; return it with its origin."""
        end = None if timeout is None else time.monotonic() + timeout
        while True:
            left = None if end is None else end - time.monotonic()
            if left is not None and left < 0:
                raise TimedOut(f"{self.name}: no message came within {timeout} s", seconds=timeout)
            found = self._taken(self._subscriber.recv(left))
            if found is not None:
                return found

    def try_recv(self) -> Any | None:  # noqa: ANN401 - a message of the type
        """Take the next message without waiting; None if there is none."""
        while (sample := self._subscriber.try_recv()) is not None:
            if (found := self._taken(sample)) is not None:
                return found[0]
        return None

    def __iter__(self) -> Iterator[Any]:
        for sample in self._subscriber:
            if (found := self._taken(sample)) is not None:
                yield found[0]

    def _on_sample(self, sample: Sample) -> None:
        found = self._taken(sample)
        if found is None or self._callback is None:
            return
        with self._owner.turn:
            if self._with_info:
                self._callback(*found)
            else:
                self._callback(found[0])

    def _taken(self, sample: Sample) -> tuple[Any, MessageInfo] | None:
        """Return message and origin of a sample, or None if it is dropped."""
        try:
            octets = sample.attachment
            attachment = read_attachment(None if octets is None else bytes(octets))
        except ZwireError as error:
            self._refused.add("attachment", error)
            return None
        try:
            message = self._decode(sample.payload)
        except ZwireError as error:
            self._refused.add("payload", error)
            return None
        info = MessageInfo(attachment.time, time.time_ns(), attachment.sequence, attachment.gid)
        self._follow(info)
        return message, info

    def _follow(self, info: MessageInfo) -> None:
        """Compare the number of a message with the one before, and its time with the clock."""
        gid, number = info.publisher_gid, info.publication_sequence_number
        source = self._sources.get(gid)
        if source is None:
            if len(self._sources) >= MOST_SOURCES:
                del self._sources[next(iter(self._sources))]
            source = self._sources[gid] = _Source(number)
        elif number > source.last:
            missing, source.last = number - source.last - 1, number
            if missing:
                self._lost += missing
                self.tell("message_lost", f"{missing} messages before number {number} did not arrive", None)
        apart = info.source_timestamp - info.received_timestamp
        if not source.apart and (apart > AHEAD or (apart < -BEHIND and not is_latched(self.qos))):
            source.apart = True
            self._tell_apart(apart, gid)

    def _tell_apart(self, nanoseconds: int, gid: bytes) -> None:
        way = "ahead of" if nanoseconds > 0 else "behind"
        seconds = abs(nanoseconds) / 10**9
        reason = (
            f"the clock of publisher {gid.hex()} is {seconds:.1f} s {way} this one, or its messages are late"
        )
        self.tell("clocks_apart", reason, None)

    def _undeclare(self) -> None:
        self._subscriber.undeclare()


def _takes_two(callback: Callable[..., object]) -> bool:
    """Return whether a callback takes a second argument besides the message."""
    try:
        parameters = inspect.signature(callback).parameters.values()
    except (TypeError, ValueError):
        LOG.debug("%r has no signature; it gets the message alone", callback)
        return False
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    required = [each for each in parameters if each.kind in positional and each.default is each.empty]
    return len(required) >= 2
