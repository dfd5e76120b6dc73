"""The nodes and endpoints of a domain, by their liveliness tokens (`zenoh-services` 6.2 and 6.6)."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Final, NamedTuple

from zwire.errors import DecodeError, TimedOut
from zwire.ros2._keys import ADMIN, Entity, EntityKind, read_token
from zwire.ros2._refused import LOG, Refused
from zwire.zenoh import SampleKind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from zwire.zenoh import LivelinessToken, Sample, Session

MOST_ENTITIES: Final = 100_000
"""Entities of a domain that are kept, about 100 MB; further tokens are counted as dropped."""

MOST_ENDED: Final = 1_000
"""Tokens of which routers may tell late: the ends within a round trip."""

TOPICS: Final = frozenset({EntityKind.PUBLISHER, EntityKind.SUBSCRIPTION})
"""Kinds of the endpoints of topics."""

SERVICES: Final = frozenset({EntityKind.SERVICE, EntityKind.CLIENT})
"""Kinds of the endpoints of services."""

OTHER_SIDE: Final = {
    EntityKind.PUBLISHER: EntityKind.SUBSCRIPTION,
    EntityKind.SUBSCRIPTION: EntityKind.PUBLISHER,
    EntityKind.SERVICE: EntityKind.CLIENT,
    EntityKind.CLIENT: EntityKind.SERVICE,
}
"""Kind of the endpoints that an endpoint talks to."""


class GraphEvent(NamedTuple):
    """A node or endpoint that has appeared or gone.

    ::

        import queue

        events = queue.SimpleQueue()
        with ros2.Context(session=session) as context:
            stop = context.graph.listen(events.put)
            with ros2.Node("visitor", context=context):
                event = events.get(timeout=5)
                print(event.appeared, event.entity.node_name)  # True /visitor
            stop()
    """

    appeared: bool
    """Whether it has appeared."""
    entity: Entity
    """The node or endpoint."""


class Graph:
    """The nodes and endpoints of a domain, kept up to date by the network; own ones are in it at once.

    Args:
        session: The session; it stays open when the graph is closed.
        domain: The number of the domain.

    ::

        with ros2.Node("talker", session=session) as node:
            node.create_publisher("std_msgs/msg/String", "chatter")
            node.graph.wait_for(lambda graph: "/chatter" in graph.topics(), timeout=5)
            print(node.graph.topics()["/chatter"])  # ['std_msgs/msg/String']
    """

    def __init__(self, session: Session, domain: int) -> None:
        self.domain: Final = domain
        self._changed = threading.Condition()
        self._entities: dict[str, Entity] = {}
        self._own: set[str] = set()
        """Own tokens of which listeners do not know yet."""
        self._ended: dict[str, None] = {}
        """Own tokens that were undeclared last: a router tells a client of its own tokens, maybe too late."""
        self._listeners: list[Callable[[GraphEvent], object]] = []
        self._refused = Refused(f"graph of domain {domain}")
        self._session = session
        self._subscriber = session.liveliness().declare_subscriber(
            f"{ADMIN}/{domain}/**", self._on_token, history=True
        )

    def __repr__(self) -> str:
        return f"<Graph of domain {self.domain}, {len(self._entities)} nodes and endpoints>"

    def close(self) -> None:
        """Stop following the network."""
        self._subscriber.undeclare()

    def refused(self) -> dict[str, int]:
        """Return the numbers of tokens that were dropped, by reason."""
        return self._refused.counts()

    def entities(self, *kinds: EntityKind) -> list[Entity]:
        """Return the nodes and endpoints, of all kinds if none is given."""
        with self._changed:
            found = list(self._entities.values())
        return [entity for entity in found if not kinds or entity.kind in kinds]

    def nodes(self) -> list[str]:
        """Return the full names of all nodes, sorted; a name that two nodes have comes twice."""
        return sorted(entity.node_name for entity in self.entities(EntityKind.NODE))

    def topics(self) -> dict[str, list[str]]:
        """Return the types of all topics by name."""
        return _types(self.entities(*TOPICS))

    def services(self) -> dict[str, list[str]]:
        """Return the types of all services that have a server, by name."""
        return _types(self.entities(EntityKind.SERVICE))

    def actions(self) -> dict[str, list[str]]:
        """Return the types of all actions that have a server, by name."""
        end = "/_action/send_goal"
        found = self.entities(EntityKind.SERVICE)
        servers = [
            (e.name.removesuffix(end), e.type.removesuffix("_SendGoal"))
            for e in found
            if e.name.endswith(end)
        ]
        names: dict[str, set[str]] = {}
        for name, type_ in servers:
            names.setdefault(name, set()).add(type_)
        return {name: sorted(names[name]) for name in sorted(names)}

    def endpoints(self, name: str, *kinds: EntityKind) -> list[Entity]:
        """Return the endpoints of a topic or service, of all kinds if none is given."""
        return [entity for entity in self.entities(*kinds) if entity.name == name]

    def of_node(self, node: str) -> list[Entity]:
        """Return the endpoints of a node, by its full name."""
        found = self.entities(*TOPICS, *SERVICES)
        return [entity for entity in found if entity.node_name == node]

    def listen(self, callback: Callable[[GraphEvent], object]) -> Callable[[], None]:
        """Have a function called with each change, on a thread of the pool for callbacks.

        Returns:
            A function that ends it.
        """
        with self._changed:
            self._listeners.append(callback)

        def stop() -> None:
            with self._changed:
                if callback in self._listeners:
                    self._listeners.remove(callback)

        return stop

    def wait_for(self, condition: Callable[[Graph], bool], timeout: float | None = None) -> None:
        """Wait until a condition holds; it is looked at again after each change.

        Args:
            condition: A function of the graph.
            timeout: Seconds; without a limit if left out.

        Raises:
            TimedOut: The time is over.
        """
        end = None if timeout is None else time.monotonic() + timeout
        with self._changed:
            while not condition(self):
                left = None if end is None else end - time.monotonic()
                if left is not None and left <= 0:
                    raise TimedOut(f"the graph did not become as wanted within {timeout} s", seconds=timeout)
                self._changed.wait(left)

    def settle(self, timeout: float = 2.0) -> None:
        """Ask which tokens are alive, and wait until all of them are here.

        Args:
            timeout: Seconds for the answers; later ones still come.
        """
        for reply in self._session.liveliness().get(f"{ADMIN}/{self.domain}/**", timeout=timeout):
            if reply.ok is not None:
                self._on_token(reply.ok)

    def declare(self, token: str) -> LivelinessToken:
        """Declare the token of an own node or endpoint, which is in the graph on return."""
        declared = self._session.liveliness().declare_token(token)
        with self._changed:
            if self._appeared(token):
                self._own.add(token)
                self._changed.notify_all()
        return declared

    def undeclare(self, token: str, declared: LivelinessToken) -> None:
        """Undeclare the token of an own node or endpoint."""
        with self._changed:
            self._ended[token] = None
            if len(self._ended) > MOST_ENDED:
                del self._ended[next(iter(self._ended))]
        declared.undeclare()

    def _on_token(self, sample: Sample) -> None:
        token = str(sample.key_expr)
        appeared = sample.kind == SampleKind.PUT
        with self._changed:
            if not appeared:
                self._own.discard(token)
                entity = self._entities.pop(token, None)
            elif token in self._own:
                self._own.remove(token)
                entity = self._entities[token]
            else:
                entity = self._appeared(token)
            if entity is None:
                return
            listeners = list(self._listeners)
            self._changed.notify_all()
        for listener in listeners:
            try:
                listener(GraphEvent(appeared, entity))
            except Exception:  # noqa: BLE001 - an error of one listener costs the others nothing
                LOG.exception("graph of domain %d: a listener raised", self.domain)

    def _appeared(self, token: str) -> Entity | None:
        """Keep a token; return its entity, or None if it is known already or dropped."""
        if token in self._entities or token in self._ended:
            return None
        try:
            entity = read_token(token)
        except DecodeError as error:
            self._refused.add("malformed token", f"{error}, in {token[:200]}")
            return None
        if len(self._entities) >= MOST_ENTITIES:
            self._refused.add("too many entities", f"the graph has {MOST_ENTITIES} entities already")
            return None
        self._entities[token] = entity
        return entity


def _types(entities: Iterable[Entity]) -> dict[str, list[str]]:
    found: dict[str, set[str]] = {}
    for entity in entities:
        found.setdefault(entity.name, set()).add(entity.type)
    return {name: sorted(found[name]) for name in sorted(found)}
