"""Sessions of nodes, with the configuration and environment of rmw_zenoh (`zenoh-services` 6.7 and 6.8)."""

from __future__ import annotations

import itertools
import os
import re
import threading
import time
from typing import TYPE_CHECKING, Any, Final, Self

from zwire import zenoh
from zwire.errors import ConfigError
from zwire.ros2._graph import Graph
from zwire.ros2._keys import MOST_DOMAIN
from zwire.ros2._refused import LOG

if TYPE_CHECKING:
    from zwire.ros2._endpoint import Endpoint
    from zwire.ros2._graph import GraphEvent
    from zwire.ros2._store import TypeStore

_MINUTE: Final = 60_000
"""Milliseconds: nodes on busy machines may take as long to start."""

SESSION: Final = {
    "mode": "peer",
    "connect/endpoints": ["tcp/localhost:7447"],
    "listen/endpoints": ["tcp/localhost:0"],
    "scouting/multicast/enabled": False,
    "scouting/gossip/target": {"router": ["router", "peer"], "peer": ["router"]},
    "scouting/gossip/autoconnect": {"router": [], "peer": ["router", "peer"]},
    "scouting/gossip/autoconnect_strategy": {"peer": {"to_router": "always", "to_peer": "greater-zid"}},
    "timestamping/enabled": {"router": True, "peer": True, "client": True},
    "queries_default_timeout": 10 * _MINUTE,
    "transport/link/tx/lease": _MINUTE,
    "transport/link/tx/keep_alive": 2,
    "transport/link/tx/queue/congestion_control/block/wait_before_close": 1000 * _MINUTE,
    "transport/unicast/open_timeout": _MINUTE,
    "transport/unicast/accept_timeout": _MINUTE,
    "transport/unicast/accept_pending": 10_000,
    "transport/unicast/max_sessions": 10_000,
    "adminspace/enabled": True,
}
"""Keys in which a session of rmw_zenoh differs from one of Zenoh."""

_PAIR = re.compile(r"""(?:[^;"']|"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*')+""")
"""A part of ``ZENOH_CONFIG_OVERRIDE``: a semicolon in a text ends none."""

_FILES = ("ZENOH_CONFIG", "ZENOH_SESSION_CONFIG_URI", "ZWIRE_CONFIG")


def session_config() -> zenoh.Config:
    """Return the configuration of a session for nodes of ROS 2, as the environment asks for it.

    The file that ``ZENOH_SESSION_CONFIG_URI`` (or ``ZENOH_CONFIG``, ``ZWIRE_CONFIG``) names, or else the
    defaults of rmw_zenoh: a peer of the router at ``tcp/localhost:7447``. ``ZENOH_CONFIG_OVERRIDE`` overrides
    single keys of both.

    Raises:
        ConfigError: A file, a key or a value cannot be used.
    """
    if any(os.environ.get(name) for name in _FILES):
        return zenoh.Config.from_env()
    config = zenoh.Config()
    for key, value in SESSION.items():
        config.insert_json5(key, value if not isinstance(value, str) else f'"{value}"')
    for pair in _PAIR.findall(os.environ.get("ZENOH_CONFIG_OVERRIDE", "")):
        key, equals, text = pair.strip().partition("=")
        if not equals:
            # What follows the key may be a secret.
            key = re.split(r"[^\w/]", key)[0]
            raise ConfigError(f"ZENOH_CONFIG_OVERRIDE: {key}: expected KEY=VALUE", path=key)
        config.insert_json5(key.strip().strip("/"), text.strip())
    return config


def domain_id(given: int | None = None) -> int:
    """Return the number of the domain: the given one, or that of ``ROS_DOMAIN_ID``, or 0.

    Raises:
        ConfigError: It is no number from 0 to 232.
    """
    text = str(given) if given is not None else os.environ.get("ROS_DOMAIN_ID", "").strip() or "0"
    if not re.fullmatch(r"[0-9]{1,3}", text) or int(text) > MOST_DOMAIN:
        raise ConfigError(f"ROS_DOMAIN_ID: {text[:20]!r} is no number from 0 to {MOST_DOMAIN}", path="domain")
    return int(text)


class Context:
    """A session, a domain, the types of its messages, and the graph; any number of nodes share it.

    Args:
        config: The configuration; :func:`session_config` if left out.
        session: An open session to use instead of an own one; it stays open.
        domain_id: The number of the domain; that of ``ROS_DOMAIN_ID``, or 0, if left out.
        store: The types of messages; the default store if left out.

    Raises:
        ConfigError: The configuration or the number of the domain cannot be used.
        ConnectError: The session has to connect, and cannot.

    ::

        with ros2.Context(session=session, domain_id=3) as context:
            with ros2.Node("left", context=context), ros2.Node("right", context=context) as node:
                print(node.get_node_names())  # ['/left', '/right']
    """

    def __init__(
        self,
        config: zenoh.Config | dict[str, Any] | None = None,
        *,
        session: zenoh.Session | None = None,
        domain_id: int | None = None,
        store: TypeStore | None = None,
    ) -> None:
        self.domain: Final = _domain(domain_id)
        if store is None:
            from zwire.ros2 import default_store

            store = default_store()
        self.store: Final = store
        self._own = session is None
        self.session: Final = session or _opened(config)
        self.zid: Final = str(self.session.zid())
        self._numbers = itertools.count()
        self._lock = threading.Lock()
        self._watched: dict[str, list[Endpoint]] = {}
        self.graph: Final = Graph(self.session, self.domain)
        self.graph.listen(self._on_graph)

    def __repr__(self) -> str:
        return f"<Context of session {self.zid}, domain {self.domain}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the session, unless it was given, and with it all nodes."""
        if self._own:
            self.session.close()
        elif not self.session.is_closed():
            self.graph.close()

    def number(self) -> int:
        """Return the number of the next node or endpoint of the session."""
        return next(self._numbers)

    def watch(self, endpoint: Endpoint) -> None:
        """Tell an endpoint which endpoints of its name exist, appear and go."""
        with self._lock:
            self._watched.setdefault(endpoint.entity.name, []).append(endpoint)
        found = self.graph.endpoints(endpoint.entity.name)
        for entity in found:
            endpoint.meet(entity)
        # The event of an entity that went meanwhile may have come before the endpoint met it.
        left = set(self.graph.endpoints(endpoint.entity.name))
        for entity in found:
            if entity not in left:
                endpoint.part(entity)

    def unwatch(self, endpoint: Endpoint) -> None:
        """End :meth:`watch`."""
        name = endpoint.entity.name
        with self._lock:
            left = [each for each in self._watched.get(name, ()) if each is not endpoint]
            if left:
                self._watched[name] = left
            else:
                self._watched.pop(name, None)

    def _on_graph(self, event: GraphEvent) -> None:
        with self._lock:
            endpoints = list(self._watched.get(event.entity.name, ()))
        for endpoint in endpoints:
            (endpoint.meet if event.appeared else endpoint.part)(event.entity)


_domain = domain_id


def _opened(config: zenoh.Config | dict[str, Any] | None) -> zenoh.Session:
    session = zenoh.open(session_config() if config is None else config)
    try:
        attempts = int(os.environ.get("ZENOH_ROUTER_CHECK_ATTEMPTS", "1"))
    except ValueError:
        session.close()
        raise ConfigError("ZENOH_ROUTER_CHECK_ATTEMPTS: expected a number", path="attempts") from None
    for attempt in itertools.count(1):
        if attempts < 0 or session.info.routers_zid():
            break
        if attempt == 1:
            LOG.warning(
                "no router is connected: start one by `zwire router`, or set ZENOH_SESSION_CONFIG_URI"
            )
        if 0 < attempts <= attempt:
            break
        time.sleep(1)
    return session
