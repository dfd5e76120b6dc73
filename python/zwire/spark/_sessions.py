"""Shared sessions: one for each worker process and configuration.

The cost of a session (a connection, a handshake, threads) is paid at its first use in a worker, after the
fork, and not again for each task. A session unused for a while (``zwire/idle_close_ms``, 30 s) is closed with
a close message.
"""

from __future__ import annotations

import weakref
from dataclasses import dataclass
from typing import TYPE_CHECKING

from zwire.spark._cache import Cache, Entry
from zwire.spark._settings import resolved, settings, value

if TYPE_CHECKING:
    from zwire.spark._settings import IntoConfig
    from zwire.zenoh import Session


@dataclass(eq=False, kw_only=True)
class _Entry(Entry):
    """A session of the cache. Only handles are handed out; the session is in use while one of them exists."""

    owner: Session
    lent: weakref.ref[Session] | None = None

    def in_use(self) -> bool:
        return self.lent is not None and self.lent() is not None

    def is_over(self) -> bool:
        return self.owner.is_closed()

    def close(self) -> None:
        self.owner.close()

    def handle(self) -> Session:
        handle = None if self.lent is None else self.lent()
        if handle is None:
            handle = self.owner.share()
            self.lent = weakref.ref(handle)
        return handle


_process: Cache[_Entry] = Cache()


def _open(text: str) -> _Entry:
    from zwire import zenoh

    owner = zenoh.open(zenoh.Config.from_json5(resolved(text)))
    return _Entry(value(text, "zwire/idle_close_ms") / 1000, owner=owner)


def session(config: IntoConfig) -> Session:
    """Return the session of this process for a configuration; open it if there is none.

    Call it inside the function that Spark runs on partitions. Do not close the session: the
    next task uses it again. It stays open while a reference to it exists, and closes
    ``zwire/idle_close_ms`` (30 s) after the last one has gone.

    Args:
        config: An endpoint such as ``"tcp/127.0.0.1:7447"``, a JSON5 text, a dict of keys, a
            ``zwire.config.SessionConfig`` or a ``zwire.zenoh.Config``. A password or private key in it may be
            ``env:NAME`` or ``file:/path``: it is read here, so that no pickled object has the secret.

    Raises:
        ConfigError: The configuration is wrong, or asks for a tap, which workers cannot share.
        ConnectError: No endpoint answers.
    """
    text = settings(config)
    with _process.lock:
        return _process.entry(text, lambda: _open(text)).handle()


def close_sessions() -> None:
    """Close the sessions of this process at once, for an application that has finished with Spark."""
    _process.close()


def session_counts() -> dict[str, int]:
    """Count the sessions of this process opened, closed as idle, and still open."""
    return _process.counts()
