"""One ZRE node for each worker process and configuration.

As sessions of Zenoh are (:mod:`zwire.spark._sessions`), nodes are started at their first use in a worker,
after the fork, and used again by later tasks: each start is an ENTER, and each stop an EXIT, at every peer.
One that no task has used for a while says goodbye, since Spark ends idle workers without a word.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from zwire.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from zwire.zre import Config, Node

    IntoNodeConfig: TypeAlias = Config | Mapping[str, Any]

__all__ = ["close_nodes", "lend", "node_counts", "node_settings"]

IDLE = 30.0
"""Seconds without a task after which a node leaves the network; Spark ends an idle worker after 60."""

_LISTS = ("generations", "interfaces", "peers", "gossip_bind", "gossip_connect", "contest")


def node_settings(config: IntoNodeConfig) -> str:
    """Give a configuration as canonical JSON: picklable, comparable, the same everywhere.

    Raises:
        ConfigError: It is wrong, or not for several nodes: a UUID, a collector, or a function.
    """
    from zwire.zre import Config, Node

    made = Config.of(config, {})
    if made.uuid is not None:
        raise ConfigError("uuid: each worker is a node of its own, and no two may have one UUID", path="uuid")
    if callable(made.allow):
        raise ConfigError("allow: a function cannot go to workers; give keys", path="allow")
    # Nobody takes the events of a worker's node, and a full queue must not stop it.
    made = dataclasses.replace(made, on_overflow="drop_oldest")
    Node(config=made)  # a node knows what it can be made of
    fields = made.settings()
    fields["headers"] = dict(made.headers)
    for name in (*_LISTS, "allow"):
        given = fields[name]
        fields[name] = given if given is None or isinstance(given, str) else list(given)
    return json.dumps(fields, sort_keys=True)


def _config(text: str) -> Config:
    from zwire.zre import Config

    fields = json.loads(text)
    if isinstance(fields["mailbox"], list):
        fields["mailbox"] = tuple(fields["mailbox"])
    return Config(**fields)


@dataclass
class _Entry:
    """A node of the cache, and how many tasks use it."""

    node: Node
    users: int = 0
    idle_since: float = 0.0


class _Cache:
    def __init__(self) -> None:
        self.entries: dict[str, _Entry] = {}
        self.lock = threading.Lock()
        self.changed = threading.Condition(self.lock)
        self.closer: threading.Thread | None = None
        self.started = 0

    def take(self, text: str) -> _Entry:
        from zwire.zre import Node

        with self.lock:
            entry = self.entries.get(text)
            if entry is None or not entry.node.running:
                node = Node(config=_config(text))
                node.start()
                self.started += 1
                entry = self.entries[text] = _Entry(node)
            entry.users += 1
            return entry

    def give_back(self, entry: _Entry) -> None:
        with self.lock:
            entry.users -= 1
            entry.idle_since = time.monotonic()
            if self.closer is None:
                self.closer = threading.Thread(target=self._close_idle, name="zwire-idle", daemon=True)
                self.closer.start()
            else:
                self.changed.notify()

    def _close_idle(self) -> None:
        """Run until there is no node left that could become idle."""
        with self.lock:
            while self.entries:
                now = time.monotonic()
                for text, entry in list(self.entries.items()):
                    if not entry.users and now - entry.idle_since >= IDLE:
                        del self.entries[text]
                        # What waits for peers may go out; a task that asks meanwhile starts its own.
                        self.lock.release()
                        try:
                            entry.node.stop()
                        finally:
                            self.lock.acquire()
                self.changed.wait(IDLE / 8)
            self.closer = None

    def close(self) -> None:
        with self.lock:
            entries, self.entries = list(self.entries.values()), {}
            self.changed.notify()
        for entry in entries:
            entry.node.stop()


_cache = _Cache()
_inherited: list[_Cache] = []


def _forget() -> None:
    """Start anew in a forked child: nodes, lock and thread belong to the parent, and are kept for it."""
    global _cache  # noqa: PLW0603 - the one of the process
    _inherited.append(_cache)
    _cache = _Cache()


os.register_at_fork(after_in_child=_forget)


@contextlib.contextmanager
def lend(text: str) -> Iterator[Node]:
    """Give the node of this process for a configuration; start it if there is none."""
    cache = _cache
    entry = cache.take(text)
    try:
        yield entry.node
    finally:
        cache.give_back(entry)


def close_nodes() -> None:
    """Stop the nodes of this process at once."""
    _cache.close()


def node_counts() -> dict[str, int]:
    """Count what this process has started, and what still runs."""
    with _cache.lock:
        running = sum(entry.node.running for entry in _cache.entries.values())
        return {"started": _cache.started, "running": running}
