"""An endpoint of a node: its token, its gid, and the endpoints that it meets."""

from __future__ import annotations

import abc
import threading
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self

from zwire.ros2._graph import OTHER_SIDE, TOPICS
from zwire.ros2._keys import Entity, EntityKind, gid
from zwire.ros2._qos import incompatible
from zwire.ros2._refused import LOG, Refused

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from zwire.ros2._context import Context
    from zwire.ros2._qos import QoSProfile
    from zwire.zenoh import LivelinessToken

MOST_TOLD: Final = 20
"""Warnings of an endpoint about others: another node may show any number of endpoints."""

MOST_PEERS: Final = 10_000
"""Endpoints of the other side that an endpoint keeps in mind."""


@dataclass(frozen=True, slots=True)
class Owner:
    """A node, for its endpoints."""

    context: Context
    """Session and graph."""
    entity: Entity
    """Entity of the node."""
    turn: AbstractContextManager[object]
    """Lock that callbacks of the node hold, or none."""
    endpoints: dict[Any, None] = field(default_factory=dict)
    """Endpoints, action servers and action clients that the node ends, in the order of their creation."""


class EndpointEvent(NamedTuple):
    """A change for an endpoint."""

    kind: str
    """One of ``matched``, ``unmatched``, ``incompatible_qos``, ``incompatible_type``, ``message_lost`` and
    ``clocks_apart``."""
    reason: str
    """Reason, as a text; empty for ``matched`` and ``unmatched``."""
    entity: Entity | None
    """Endpoint of the other side, if it is known."""


class Endpoint(abc.ABC):
    """A publisher, subscription, service or client of a node.

    ::

        with ros2.Node("talker", session=session) as node:
            publisher = node.create_publisher("std_msgs/msg/String", "chatter")
            print(publisher.name, publisher.matched)  # /chatter 0
    """

    def __init__(
        self,
        owner: Owner,
        kind: EntityKind,
        name: str,
        type_: tuple[str, str],
        qos: QoSProfile,
        on_event: Callable[[EndpointEvent], object] | None = None,
    ) -> None:
        context = owner.context
        node = owner.entity
        self.entity: Final = replace(
            node, id=context.number(), kind=kind, name=name, type=type_[0], hash=type_[1], qos=qos
        )
        text = self.entity.token()
        self.gid: Final = gid(text)
        self.key: Final = self.entity.key
        self._owner = owner
        self._on_event = on_event
        self._refused = Refused(f"{node.node_name}: {name}")
        self._peers: dict[Entity, bool] = {}
        self._lock = threading.Lock()
        self._told = 0
        self._text = text
        self._token: LivelinessToken | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.destroy()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.entity.name} {self.entity.type}>"

    @property
    def name(self) -> str:
        """Full name of the topic or service."""
        return self.entity.name

    @property
    def qos(self) -> QoSProfile:
        """Quality of service."""
        assert self.entity.qos is not None  # noqa: S101 - each endpoint has one
        return self.entity.qos

    @property
    def matched(self) -> int:
        """Number of endpoints of the other side that have the same name, type and hash."""
        with self._lock:
            return sum(self._peers.values())

    def dropped(self) -> dict[str, int]:
        """Return the numbers of messages, requests and replies that were dropped, by reason."""
        return self._refused.counts()

    def destroy(self) -> None:
        """Take the endpoint out of the graph and end it; a second call has no effect."""
        self._owner.endpoints.pop(self, None)
        token, self._token = self._token, None
        if token is None or self._owner.context.session.is_closed():
            return
        self._owner.context.unwatch(self)
        self._owner.context.graph.undeclare(self._text, token)
        self._undeclare()

    @abc.abstractmethod
    def _undeclare(self) -> None:
        """End what the endpoint has declared beside its token."""

    def _announce(self) -> None:
        """Show the endpoint to others; called when it can be used."""
        self._token = self._owner.context.graph.declare(self._text)
        self._owner.context.watch(self)

    def meet(self, entity: Entity) -> None:
        """Compare an endpoint of the same name with this one."""
        if entity.kind is not OTHER_SIDE[self.entity.kind]:
            return
        fits = (entity.type, entity.hash) == (self.entity.type, self.entity.hash)
        with self._lock:
            if entity in self._peers:
                return
            full = len(self._peers) >= MOST_PEERS
            if not full:
                self._peers[entity] = fits
        if full:
            self._refused.add(
                "too many endpoints", f"{MOST_PEERS} endpoints of the other side are known already"
            )
            return
        if not fits:
            self.tell("incompatible_type", self._type_differs(entity), entity)
            return
        self.tell("matched", "", entity)
        for reason in self._qos_differs(entity):
            self.tell("incompatible_qos", reason, entity)

    def part(self, entity: Entity) -> None:
        """Forget an endpoint that is gone."""
        with self._lock:
            matched = self._peers.pop(entity, False)
        if matched:
            self.tell("unmatched", "", entity)

    def tell(self, kind: str, reason: str, entity: Entity | None) -> None:
        """Report a change to the program, and to the log if it has a reason."""
        if reason:
            with self._lock:
                self._told += 1
                told = self._told
            if told <= MOST_TOLD:
                last = "; this endpoint reports no more" if told == MOST_TOLD else ""
                LOG.warning("%s: %s: %s%s", self._owner.entity.node_name, self.name, reason, last)
        if self._on_event is None:
            return
        try:
            self._on_event(EndpointEvent(kind, reason, entity))
        except Exception:  # noqa: BLE001 - an error of the program costs no message, and no event of other endpoints
            LOG.exception("%s: the callback for events raised at %s", self.name, kind)

    def _type_differs(self, entity: Entity) -> str:
        own = self.entity
        if entity.type != own.type:
            return f"{entity.node_name} uses the type {entity.type} here, not {own.type}: no message passes"
        return (
            f"{entity.node_name} knows {own.type} as {entity.hash}, not {own.hash}: no message passes; "
            "its definition, or its distribution, differs"
        )

    def _qos_differs(self, entity: Entity) -> list[str]:
        if entity.kind not in TOPICS or entity.qos is None:
            return []
        publishes = self.entity.kind is EntityKind.PUBLISHER
        pair = (self.qos, entity.qos) if publishes else (entity.qos, self.qos)
        return [f"{reason} ({entity.node_name})" for reason in incompatible(*pair)]
