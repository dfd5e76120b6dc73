"""Shared ZRE nodes: one for each worker process and configuration.

Like sessions (:mod:`zwire.spark._sessions`), nodes are started at their first use in a worker, after the
fork, and used again by later tasks: each start is an ENTER, and each stop an EXIT, at every peer. A node
unused for a while is stopped with a goodbye, since Spark ends idle workers without notice.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from zwire.errors import ConfigError
from zwire.spark._cache import Cache, Entry
from zwire.spark._settings import fetch, is_reference

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from zwire.zre import Config, Node

    IntoNodeConfig: TypeAlias = Config | Mapping[str, Any]

IDLE = 30.0
"""Seconds without a task after which a node leaves the network; Spark ends an idle worker after 60."""

_LISTS = ("generations", "interfaces", "peers", "gossip_bind", "gossip_connect", "contest")


def node_settings(config: IntoNodeConfig) -> str:
    """Return a configuration as canonical JSON: picklable, comparable, the same everywhere.

    A secret key may be ``env:NAME`` or ``file:/path``: it is read in the process that starts the node. What
    is not for several nodes is refused: a UUID, a collector, a function.
    """
    from zwire.zre import Config, Node, keypair

    made = Config.of(config, {})
    if made.uuid is not None:
        raise ConfigError("uuid: each worker is a node of its own, and no two may have one UUID", path="uuid")
    if callable(made.allow):
        raise ConfigError("allow: a function cannot go to workers; give keys", path="allow")
    # No task takes the events of a worker's node, and a full queue must not stop it.
    made = dataclasses.replace(made, on_overflow="drop_oldest")
    secret = made.secret_key
    named = secret is not None and is_reference(secret)
    # Making a node checks the settings; a key given by reference is replaced by another one for that.
    Node(config=dataclasses.replace(made, secret_key=keypair()[1]) if named else made)
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
    secret = fields["secret_key"]
    if secret is not None and is_reference(secret):
        fields["secret_key"] = fetch("secret_key", secret)
    return Config(**fields)


@dataclass(eq=False, kw_only=True)
class _Entry(Entry):
    """A node of the cache, and the number of tasks that use it."""

    node: Node
    users: int = 0

    def in_use(self) -> bool:
        return self.users > 0

    def is_over(self) -> bool:
        return not self.node.running

    def close(self) -> None:
        # Give queued messages time to be sent.
        self.node.stop()


_process: Cache[_Entry] = Cache()


def _start(text: str) -> _Entry:
    from zwire.zre import Node

    node = Node(config=_config(text))
    node.start()
    return _Entry(IDLE, node=node)


@contextlib.contextmanager
def lend(text: str) -> Iterator[Node]:
    """Yield the node of this process for a configuration; start it if there is none."""
    with _process.lock:
        entry = _process.entry(text, lambda: _start(text))
        entry.users += 1
    try:
        yield entry.node
    finally:
        with _process.lock:
            entry.users -= 1


def close_nodes() -> None:
    """Stop all nodes of this process at once."""
    _process.close()


def node_counts() -> dict[str, int]:
    """Count the nodes started by this process, and those still running."""
    counts = _process.counts()
    return {"started": counts["opened"], "running": counts["open"]}
