"""Bags: folders of MCAP with ``metadata.yaml``, as rosbag2 has them; rosbags reads and writes them."""

from __future__ import annotations

import dataclasses
import threading
import time
from typing import TYPE_CHECKING, Any, Final, Self

from zwire._lazy import library
from zwire.errors import DefinitionError, InvalidValue, RecordingError
from zwire.ros2._keys import EntityKind
from zwire.ros2._plain import definition
from zwire.ros2._qos import DurabilityPolicy, HistoryPolicy, LivelinessPolicy, QoSProfile, ReliabilityPolicy
from zwire.ros2._refused import Refused

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator
    from os import PathLike

    from zwire.ros2._graph import GraphEvent
    from zwire.ros2._keys import Entity
    from zwire.ros2._node import Node
    from zwire.ros2._pubsub import MessageInfo, Publisher, Subscription

_VERSION: Final = 9
"""Version of ``metadata.yaml``: that of Jazzy and later."""

_BILLION: Final = 10**9
_INFINITE: Final = (9223372036, 854775807)


class BagRecorder:
    """Records topics into a new bag: those that exist, and those that appear.

    Args:
        node: The node that subscribes.
        path: Folder of the bag; it must not exist.
        topics: Full names of topics; all if left out.

    Raises:
        RecordingError: The folder exists, or cannot be made.
        ImportError: rosbags is not installed (``zwire[ros2]``).
    """

    def __init__(self, node: Node, path: str | PathLike[str], topics: Collection[str] | None = None) -> None:
        rosbag2 = library("rosbags.rosbag2", "ros2")
        self._node = node
        self._topics = None if topics is None else frozenset(topics)
        self._lock = threading.Lock()
        # Publishers are seen by the thread that makes the recorder and by that of the graph.
        self._seeing = threading.RLock()
        self._closed = False
        self._subscriptions: dict[tuple[str, str], Subscription] = {}
        self._refused = Refused(f"bag {path}")
        self._count = 0
        try:
            self._writer = rosbag2.Writer(path, version=_VERSION, storage_plugin=rosbag2.StoragePlugin.MCAP)
            self._writer.open()
        except (OSError, rosbag2.WriterError) as error:
            raise RecordingError(f"{path}: {error}", file=str(path)) from None
        self._stop = node.graph.listen(self._on_graph)
        for entity in node.graph.entities(EntityKind.PUBLISHER):
            self._see(entity)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def messages(self) -> int:
        """Number of messages written."""
        return self._count

    def topics(self) -> list[str]:
        """Return the names of the topics that are recorded."""
        return sorted(name for name, _ in list(self._subscriptions))

    def left_out(self) -> dict[str, int]:
        """Return the numbers of topics that cannot be recorded, and of dropped messages, by reason."""
        found = self._refused.counts()
        for subscription in list(self._subscriptions.values()):
            for reason, count in subscription.dropped().items():
                found[reason] = found.get(reason, 0) + count
        return found

    def close(self) -> None:
        """End the recording, and write ``metadata.yaml``."""
        self._stop()
        with self._seeing:
            self._closed = True
        for subscription in list(self._subscriptions.values()):
            subscription.destroy()
        with self._lock:
            if self._writer.storage is not None:
                self._writer.close()
                self._writer.storage = None

    def _on_graph(self, event: GraphEvent) -> None:
        if event.appeared and event.entity.kind is EntityKind.PUBLISHER:
            self._see(event.entity)

    def _see(self, entity: Entity) -> None:
        if self._topics is not None and entity.name not in self._topics:
            return
        with self._seeing:
            if not self._closed and (entity.name, entity.type) not in self._subscriptions:
                self._subscribe(entity)

    def _subscribe(self, entity: Entity) -> None:
        try:
            self._node.resolve_topic_name(entity.name)
            type_ = self._node.store.message(entity.type)
        except DefinitionError as error:
            self._refused.add("unknown type", f"{entity.name}: {error}")
            return
        except InvalidValue as error:
            self._refused.add("illegal name", error)
            return
        with self._lock:
            connection = self._writer.add_connection(
                entity.name,
                type_.name,
                msgdef=definition(type_._record),  # noqa: SLF001 - the definition, as types of the store have it
                rihs01=type_.hash,
                offered_qos_profiles=[_offered(entity.qos or QoSProfile())],
            )

        def write(payload: bytes, info: MessageInfo) -> None:
            with self._lock:
                if self._writer.storage is not None:
                    self._writer.write(connection, info.received_timestamp, payload)
                    self._count += 1

        qos = dataclasses.replace(entity.qos or QoSProfile(), depth=1000, history=HistoryPolicy.KEEP_LAST)
        name = (entity.name, entity.type)
        self._subscriptions[name] = self._node.create_subscription(type_, entity.name, write, qos, raw=True)


def _offered(qos: QoSProfile) -> Any:  # noqa: ANN401 - rosbags.interfaces.Qos
    forms = library("rosbags.interfaces", "ros2")

    def time_(seconds: float | None) -> Any:  # noqa: ANN401 - rosbags.interfaces.QosTime
        return forms.QosTime(*(_INFINITE if seconds is None else divmod(round(seconds * _BILLION), _BILLION)))

    return forms.Qos(
        forms.QosHistory(int(qos.history)),
        qos.kept,
        forms.QosReliability(int(qos.reliability)),
        forms.QosDurability(int(qos.durability)),
        time_(qos.deadline),
        time_(qos.lifespan),
        forms.QosLiveliness(int(qos.liveliness)),
        time_(qos.liveliness_lease_duration),
        False,
    )


def _requested(offered: Any) -> QoSProfile:  # noqa: ANN401 - rosbags.interfaces.Qos
    """Return the profile for a publisher of recorded messages; unknown kinds are the default."""
    keeps_all = offered.history.value == HistoryPolicy.KEEP_ALL
    best = offered.reliability.value == ReliabilityPolicy.BEST_EFFORT
    latched = offered.durability.value == DurabilityPolicy.TRANSIENT_LOCAL
    manual = offered.liveliness.value == LivelinessPolicy.MANUAL_BY_TOPIC
    return QoSProfile(
        depth=offered.depth,
        history=HistoryPolicy.KEEP_ALL if keeps_all else HistoryPolicy.KEEP_LAST,
        reliability=ReliabilityPolicy.BEST_EFFORT if best else ReliabilityPolicy.RELIABLE,
        durability=DurabilityPolicy.TRANSIENT_LOCAL if latched else DurabilityPolicy.VOLATILE,
        liveliness=LivelinessPolicy.MANUAL_BY_TOPIC if manual else LivelinessPolicy.AUTOMATIC,
    )


@dataclasses.dataclass(frozen=True)
class BagTopic:
    """A topic of a bag."""

    name: str
    """Full name."""
    type: str
    """Type of its messages."""
    messages: int
    """Number of its messages."""
    qos: QoSProfile
    """Quality of service that its publisher offered."""
    definition: str
    """Definition of the type; empty if the bag has none."""
    hash: str
    """Hash of the type; empty if the bag has none."""


class Bag:
    """A bag, to read: a folder with ``metadata.yaml``, or one MCAP file in it.

    Args:
        path: The folder.

    Raises:
        RecordingError: It is no bag.
        ImportError: rosbags is not installed (``zwire[ros2]``).
    """

    def __init__(self, path: str | PathLike[str]) -> None:
        self._rosbag2 = library("rosbags.rosbag2", "ros2")
        self._path = str(path)
        try:
            self._reader = self._rosbag2.Reader(path)
            self._reader.open()
        except (OSError, self._rosbag2.ReaderError) as error:
            raise RecordingError(f"{path}: {error}", file=self._path) from None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._reader.close()

    @property
    def start(self) -> int:
        """Time of the first message, in nanoseconds since 1970."""
        return int(self._reader.start_time)

    @property
    def duration(self) -> int:
        """Nanoseconds from the first message to the last."""
        return int(self._reader.duration)

    @property
    def messages(self) -> int:
        """Number of messages."""
        return int(self._reader.message_count)

    def topics(self) -> list[BagTopic]:
        """Return the topics, by name."""
        found = [_topic(connection) for connection in self._reader.connections]
        return sorted(found, key=lambda topic: topic.name)

    def __iter__(self) -> Iterator[tuple[BagTopic, int, bytes]]:
        """Yield topic, time in nanoseconds and CDR of each message, in the order of time."""
        known = {connection.id: _topic(connection) for connection in self._reader.connections}
        try:
            for connection, at, payload in self._reader.messages():
                yield known[connection.id], at, bytes(payload)
        except self._rosbag2.ReaderError as error:
            raise RecordingError(f"{self._path}: {error}", file=self._path) from None


def _topic(connection: Any) -> BagTopic:  # noqa: ANN401 - rosbags.interfaces.Connection
    offered = connection.ext.offered_qos_profiles
    return BagTopic(
        name=connection.topic,
        type=connection.msgtype,
        messages=connection.msgcount,
        qos=_requested(offered[0]) if offered else QoSProfile(),
        definition=connection.msgdef.data,
        hash=connection.digest or "",
    )


def play(
    node: Node,
    bag: Bag,
    *,
    rate: float | None = 1.0,
    topics: Collection[str] | None = None,
    stopped: Callable[[], bool] = lambda: False,
) -> int:
    """Publish the messages of a bag again.

    Args:
        node: The node that publishes.
        bag: The bag.
        rate: Times the speed; None: as fast as possible.
        topics: Full names of topics; all if left out.
        stopped: A function that ends it early by returning True.

    Returns:
        The number of messages published.

    Raises:
        DefinitionError: The types of the node and of the bag differ.
        RecordingError: The bag is damaged.
    """
    publishers = {
        topic: _publisher(node, topic) for topic in bag.topics() if topics is None or topic.name in topics
    }
    count, begun, first = 0, time.monotonic(), None
    for topic, at, payload in bag:
        publisher = publishers.get(topic)
        if publisher is None:
            continue
        first = at if first is None else first
        if rate is not None and not _waited(begun + (at - first) / _BILLION / rate, stopped):
            break
        publisher.publish(payload)
        count += 1
    return count


def _publisher(node: Node, topic: BagTopic) -> Publisher:
    try:
        type_ = node.store.message(topic.type)
    except DefinitionError:
        node.store.add(topic.definition, topic.type)
        type_ = node.store.message(topic.type)
    if topic.hash and topic.hash != type_.hash:
        raise DefinitionError(f"{topic.type}: the bag has another definition than this node", type=topic.type)
    return node.create_publisher(type_, topic.name, topic.qos)


def _waited(until: float, stopped: Callable[[], bool]) -> bool:
    """Wait; return False if ``stopped`` says so first, which it is asked ten times a second."""
    while not stopped():
        left = until - time.monotonic()
        if left <= 0:
            return True
        time.sleep(min(left, 0.1))
    return False
