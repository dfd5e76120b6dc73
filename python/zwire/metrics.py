"""The numbers of ``stats()`` for monitoring: as text for Prometheus, as instruments for OpenTelemetry.

Names are those of :mod:`zwire.stats` with the prefix ``zwire_`` and the unit; counters end in
``_total``. Labels: ``local_id`` is the session, ``peer`` and ``link`` the node and the locator at the other
end of a link, ``priority`` a lane of it, ``key_expr`` and ``kind`` a subscriber or queryable, ``reason`` why
something was dropped or has ended; ``node`` and ``name`` are those of a ZRE node. Consumers of one session
on the same key are summed up. ``spool`` is the id of a spool, ``path`` its place; ``consumer`` and ``shard``
are its own. ``sink`` and ``table`` are name and table of a sink, ``bridge`` and
``broker`` client id and address of a bridge to MQTT.
"""

from __future__ import annotations

import threading
import weakref
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeAlias, cast

from zwire._text import printable
from zwire.errors import UsageError
from zwire.stats import MQTT, NODE, SESSION, SINK, SPOOL, SPOOLER, Stat

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from opentelemetry.metrics import CallbackOptions, MeterProvider, Observation

    from zwire._zwire import ZenohId
    from zwire.bridge.mqtt import MqttStats
    from zwire.sink import SinkStats, Table
    from zwire.spool._spooler import Keeper
    from zwire.spool._view import Spool
    from zwire.stats import NodeStats, QueueStats, SessionStats

__all__ = ["CONTENT_TYPE", "OPENMETRICS_CONTENT_TYPE", "Source", "otel", "prometheus"]

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
"""The ``Content-Type`` of :func:`prometheus`."""

OPENMETRICS_CONTENT_TYPE = "application/openmetrics-text; version=1.0.0; charset=utf-8"
"""The ``Content-Type`` of :func:`prometheus` with ``openmetrics``."""


class _Session(Protocol):
    def zid(self) -> ZenohId: ...
    def stats(self) -> SessionStats: ...


class _Sink(Protocol):
    @property
    def name(self) -> str: ...
    @property
    def table(self) -> Table: ...
    def stats(self) -> SinkStats: ...


class _Node(Protocol):
    @property
    def uuid(self) -> str: ...
    @property
    def name(self) -> str: ...
    def peers(self) -> list[str]: ...
    def stats(self) -> NodeStats: ...


class _Kept(Protocol):
    @property
    def id(self) -> str: ...
    @property
    def path(self) -> str: ...


class _Mqtt(Protocol):
    @property
    def client_id(self) -> str: ...
    @property
    def broker(self) -> str: ...
    def stats(self) -> MqttStats: ...


Source: TypeAlias = _Session | _Node | _Kept | _Sink | _Mqtt
"""An object with counters: a session of :mod:`zwire.zenoh` or :mod:`zwire.aio`, a ZRE node, a spool, a
spooler, a sink or a bridge to MQTT."""

_Labels: TypeAlias = tuple[tuple[str, str], ...]
_Samples: TypeAlias = dict[_Labels, int | float]


class _Family(NamedTuple):
    """All numbers of one name."""

    name: str
    """The name, with dots."""
    stat: Stat

    @property
    def flat(self) -> str:
        return "zwire_" + self.name.replace(".", "_")


def _place(name: str) -> tuple[str, _Labels]:
    """Return family and labels of a number in a session's statistics."""
    if name == "session.dropped.consolidation_overflow":
        return "session.consolidation_overflow", ()
    for prefix in ("session.dropped", "links.ended", "lending.failed"):
        if name.startswith(prefix + "."):
            return prefix, (("reason", name.removeprefix(prefix + ".")),)
    # No name is a prefix of another one.
    return ("links.open" if name == "links" else name), ()


_REASONS = {
    "session.dropped": "Messages that went no further, by reason.",
    "links.ended": "Links that have ended, by reason.",
    "lending.failed": "Links without shared memory although both ends are on one host, by reason.",
}
# No rates: monitoring systems compute them from the counters.
_PLACES = {name: _place(name) for name in SESSION if not name.startswith("drops.")}

_LINK = {
    "tx_bytes": Stat("counter", "bytes", "Bytes written to a link."),
    "tx_messages": Stat("counter", "messages", "Network messages queued for a link."),
    "tx_writes": Stat("counter", "calls", "Calls of the system that wrote to a link."),
    "tx_dropped": Stat(
        "counter", "messages", "Network messages dropped, because the queue of a link was full."
    ),
    "rx_bytes": Stat("counter", "bytes", "Bytes read from a link."),
    "rx_messages": Stat("counter", "messages", "Network messages that came from a link."),
    "rx_shm_failed": Stat(
        "counter",
        "messages",
        "Network messages dropped, because their payload in shared memory of the sender cannot be read.",
    ),
    "tx_lent": Stat(
        "counter", "messages", "Network messages queued whose payload the other end reads in shared memory."
    ),
    "tx_unlent": Stat(
        "counter",
        "messages",
        "Network messages with a large payload that crossed a link although it lends.",
    ),
    "rx_borrowed": Stat(
        "counter",
        "messages",
        "Network messages that came from a link and whose payload came in shared memory of the sender.",
    ),
}
_LANE = {
    "tx_messages": Stat("counter", "messages", "Network messages queued in a lane of a link."),
    "tx_dropped": Stat("counter", "messages", "Network messages dropped, because a lane was full."),
    "waiting_bytes": Stat("gauge", "bytes", "Bytes that wait in a lane."),
    "capacity_bytes": Stat("gauge", "bytes", "Most bytes that wait in a lane before messages are dropped."),
    "producers": Stat("gauge", "producers", "Threads and tasks that wait for room in a lane."),
}


def _queue(what: str) -> dict[str, Stat]:
    return {
        "received": Stat(
            "counter", "messages", f"Items that came for a {what}, those that were dropped included."
        ),
        "dropped": Stat("counter", "messages", f"Items that found the queue of a {what} full."),
        "replaced": Stat("counter", "messages", f"Items of a {what} replaced by a newer one."),
        "waiting": Stat("gauge", "messages", f"Items that wait for a {what}."),
        "waiting_bytes": Stat("gauge", "bytes", f"Bytes that wait for a {what}."),
        "stalled": Stat(
            "gauge", "queues", f"Whether a {what} takes nothing, and what comes is dropped at once."
        ),
    }


def _families() -> dict[str, _Family]:
    found: dict[str, Stat] = {}
    for name, (family, _) in _PLACES.items():
        stat = SESSION[name]
        if family in _REASONS:
            stat = Stat(stat.kind, stat.unit, _REASONS[family])
        found.setdefault(family, stat)
    found |= {f"peer.{name}": stat for name, stat in _LINK.items()}
    found["peer.connected_seconds"] = Stat("gauge", "seconds", "Age of a link.")
    found |= {f"lane.{name}": stat for name, stat in _LANE.items()}
    for what in ("subscriber", "queryable"):
        found |= {f"{what}.{name}": stat for name, stat in _queue(what).items()}
    found |= {f"sink.{name}": stat for name, stat in SINK.items()}
    found |= {f"mqtt.{name}": stat for name, stat in MQTT.items()}
    found["zre.peers"] = Stat("gauge", "peers", "Peers of a node.")
    found |= {f"zre.{name}": stat for name, stat in NODE.items()}
    found |= {f"spool.{name}": stat for name, stat in SPOOL.items()}
    found |= {f"spooler.{name}": stat for name, stat in SPOOLER.items()}
    return {name: _Family(name, stat) for name, stat in found.items()}


_FAMILIES = _families()


def _collect(sources: Iterable[Source], *, detail: bool) -> dict[str, _Samples]:
    """Return the present numbers of all sources, by family."""
    found: dict[str, _Samples] = {name: {} for name in _FAMILIES}

    def add(family: str, labels: _Labels, value: float) -> None:
        samples = found[family]
        samples[labels] = samples.get(labels, 0) + value

    for source in sources:
        if hasattr(source, "zid"):
            _collect_session(cast("_Session", source), add, detail=detail)
        elif hasattr(source, "uuid"):
            _collect_node(cast("_Node", source), add)
        elif hasattr(source, "offsets"):
            _collect_sink(cast("_Sink", source), add)
        elif hasattr(source, "broker"):
            _collect_mqtt(cast("_Mqtt", source), add)
        else:
            _collect_spool(cast("Keeper | Spool", source), add, detail=detail)
    return found


def _collect_session(session: _Session, add: Callable[[str, _Labels, float], None], *, detail: bool) -> None:
    own: _Labels = (("local_id", str(session.zid())),)
    stats = session.stats()
    numbers = cast("dict[str, int]", stats)
    for name, (family, labels) in _PLACES.items():
        if name in numbers:
            add(family, own + labels, numbers[name])
    if not detail:
        return
    for link in stats["per_link"]:
        other: _Labels = (*own, ("peer", link["zid"] or ""), ("link", link["dst"]))
        numbers = cast("dict[str, int]", link)
        for name in _LINK:
            add(f"peer.{name}", other, numbers[name])
        add("peer.connected_seconds", other, link["seconds"])
        for priority, lane in link["lanes"].items():
            numbers = cast("dict[str, int]", lane)
            for name in _LANE:
                add(f"lane.{name}", (*other, ("priority", priority)), numbers[name])
    queues: list[tuple[str, QueueStats]] = [("subscriber", queue) for queue in stats["per_subscriber"]]
    queues += [("queryable", queue) for queue in stats["per_queryable"]]
    for what, queue in queues:
        key: _Labels = (*own, ("key_expr", queue["key_expr"]), ("kind", queue["kind"]))
        numbers = cast("dict[str, int]", queue)
        for name in _queue(what):
            add(f"{what}.{name}", key, int(numbers[name]))


def _collect_spool(
    source: Keeper | Spool, add: Callable[[str, _Labels, float], None], *, detail: bool
) -> None:
    from zwire.spool._metrics import collect

    own: _Labels = (("spool", source.id), ("path", source.path))

    def labelled(family: str, value: float, **labels: str) -> None:
        add(family, own + tuple(labels.items()), value)

    collect(source, labelled, detail=detail)


def _collect_mqtt(bridge: _Mqtt, add: Callable[[str, _Labels, float], None]) -> None:
    own: _Labels = (("bridge", bridge.client_id), ("broker", bridge.broker))
    numbers = cast("dict[str, int]", bridge.stats())
    for name in MQTT:
        add(f"mqtt.{name}", own, int(numbers[name]))


def _collect_sink(sink: _Sink, add: Callable[[str, _Labels, float], None]) -> None:
    own: _Labels = (("sink", sink.name), ("table", sink.table.address))
    stats = sink.stats()
    numbers = {**cast("dict[str, int]", stats), "lag_seconds": stats["lag_ms"] / 1000}
    for name in SINK:
        add(f"sink.{name}", own, numbers[name])


def _collect_node(node: _Node, add: Callable[[str, _Labels, float], None]) -> None:
    own: _Labels = (("node", node.uuid), ("name", node.name))
    try:
        stats, peers = node.stats(), node.peers()
    except UsageError:
        # The node is not running: it has counted nothing yet, or its counters are gone.
        return
    add("zre.peers", own, len(peers))
    for name, value in stats.items():
        if name in NODE and isinstance(value, int):
            add(f"zre.{name}", own, value)


def prometheus(*sources: Source, openmetrics: bool = False, detail: bool = True) -> str:
    """Return the numbers of sources, as text for Prometheus and compatible systems.

    Args:
        sources: Sessions, ZRE nodes, spoolers, spools, sinks and bridges; a node that is not running is left
            out. The numbers of spools are read from their folders or stores. Gaps by reason need pyarrow.
        openmetrics: In the form of OpenMetrics 1.0 instead of that of Prometheus 0.0.4.
        detail: Whether to include links, lanes, subscribers, queryables and shards, besides the sums.

    Raises:
        SpoolError: A spool cannot be read.
    """
    lines = []
    for name, samples in _collect(sources, detail=detail).items():
        if not samples:
            continue
        family = _FAMILIES[name]
        kind, unit, text = family.stat
        sample = f"{family.flat}_total" if kind == "counter" else family.flat
        described = family.flat if openmetrics else sample
        lines += [f"# HELP {described} {_escaped(text, quotes=openmetrics)}", f"# TYPE {described} {kind}"]
        if openmetrics and family.flat.endswith(f"_{unit}"):
            lines.append(f"# UNIT {described} {unit}")
        for labels, value in samples.items():
            inner = ",".join(f'{label}="{_escaped(text, quotes=True)}"' for label, text in labels)
            lines.append(f"{sample}{{{inner}}} {value!r}")
    if openmetrics:
        lines.append("# EOF")
    return "".join(f"{line}\n" for line in lines)


def _escaped(text: str, *, quotes: bool) -> str:
    # The formats have escapes for these three characters alone, and the text may be read on a terminal.
    text = "\n".join(map(printable, text.split("\n")))
    text = text.replace("\\", "\\\\").replace("\n", "\\n")
    return text.replace('"', '\\"') if quotes else text


class _Look:
    """The snapshot shown by all instruments of one collection, so that they agree and each counts once."""

    def __init__(self, sources: Sequence[Source], *, detail: bool) -> None:
        # Weak references: a session closes when its program drops it.
        self._sources = [weakref.ref(source) for source in sources]
        self._detail = detail
        self._lock = threading.Lock()
        self._samples: dict[str, _Samples] = {}

    def take(self, name: str) -> _Samples:
        """Return the numbers of a family; a second call for the same family takes a new snapshot."""
        with self._lock:
            if name not in self._samples:
                alive = [source for ref in self._sources if (source := ref()) is not None]
                open_ = [source for source in alive if not _is_closed(source)]
                self._samples = _collect(open_, detail=self._detail)
            return self._samples.pop(name)


def _is_closed(source: Source) -> bool:
    is_closed = getattr(source, "is_closed", None)
    return bool(is_closed is not None and is_closed())


def otel(*sources: Source, meter_provider: MeterProvider | None = None, detail: bool = True) -> None:
    """Create instruments of OpenTelemetry for the numbers of sources, as long as these are open.

    Needs the extra ``otel``. Units are those of UCUM; names have dots, and a sum is an observable counter.

    Args:
        sources: Sessions, ZRE nodes, spoolers, spools, sinks and bridges. The instruments do not keep them
            open.
        meter_provider: The provider of the instruments; without one, that of the program.
        detail: Whether to include links, lanes, subscribers and queryables, besides the sums.

    Raises:
        ImportError: ``opentelemetry-api`` is not installed.
    """
    try:
        from opentelemetry import metrics
    except ImportError as error:
        raise ImportError("OpenTelemetry is not installed: pip install 'zwire[otel]'") from error

    from zwire import __version__

    meter = metrics.get_meter("zwire", __version__, meter_provider)
    look = _Look(sources, detail=detail)

    def callback(name: str) -> Callable[[CallbackOptions], list[Observation]]:
        def observe(_options: CallbackOptions) -> list[Observation]:
            return [metrics.Observation(value, dict(labels)) for labels, value in look.take(name).items()]

        return observe

    units = {"bytes": "By", "seconds": "s"}
    for name, (_, (kind, unit, text)) in _FAMILIES.items():
        of = units.get(unit, f"{{{unit}}}")
        make = meter.create_observable_counter if kind == "counter" else meter.create_observable_gauge
        make(f"zwire.{name}", callbacks=[callback(name)], unit=of, description=text)
