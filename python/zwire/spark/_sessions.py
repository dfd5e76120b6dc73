"""One session for each worker process and configuration.

A Spark worker is a process that runs one task after the other. What a session costs (a connection, a
handshake, threads) is paid at its first use in a worker, after the fork, and not again for each task. Spark
ends idle workers after about 60 seconds without giving them a chance to say anything, so a session that
nobody has used for a while (``zwire/idle_close_ms``, 30 s) is closed before that, politely.
"""

from __future__ import annotations

import os
import threading
import time
import weakref
from dataclasses import dataclass
from typing import TYPE_CHECKING

from zwire.spark._settings import settings, value

if TYPE_CHECKING:
    from zwire.spark._settings import IntoConfig
    from zwire.zenoh import Session

__all__ = ["close_sessions", "session", "session_counts"]


@dataclass
class _Entry:
    """A session of the cache. Only its handles are given away: while one of them lives it is in use."""

    owner: Session
    lent: weakref.ref[Session]
    idle: float
    idle_since: float


class _Cache:
    def __init__(self) -> None:
        self.entries: dict[str, _Entry] = {}
        self.lock = threading.Lock()
        self.changed = threading.Condition(self.lock)
        self.closer: threading.Thread | None = None
        self.opened = 0
        self.closed_idle = 0

    def session(self, text: str) -> Session:
        with self.lock:
            entry = self.entries.get(text)
            if entry is not None and not entry.owner.is_closed():
                handle = entry.lent()
                if handle is None:
                    handle = entry.owner.share()
                    entry.lent = weakref.ref(handle)
                return handle
            from zwire import zenoh

            owner = zenoh.open(zenoh.Config.from_json5(text))
            self.opened += 1
            handle = owner.share()
            idle = value(text, "zwire/idle_close_ms") / 1000
            self.entries[text] = _Entry(owner, weakref.ref(handle), idle, 0.0)
            if idle > 0:
                self._watch()
            return handle

    def _watch(self) -> None:
        if self.closer is None:
            self.closer = threading.Thread(target=self._close_idle, name="zwire-idle", daemon=True)
            self.closer.start()
        else:
            self.changed.notify()

    def _close_idle(self) -> None:
        """Run until there is no session left that could become idle."""
        with self.lock:
            while True:
                watched = {text: entry for text, entry in self.entries.items() if entry.idle > 0}
                if not watched:
                    self.closer = None
                    return
                now = time.monotonic()
                due = []
                for text, entry in watched.items():
                    if entry.owner.is_closed():
                        del self.entries[text]
                    elif entry.lent() is not None:
                        entry.idle_since = 0.0
                    elif not entry.idle_since:
                        entry.idle_since = now
                    elif now - entry.idle_since >= entry.idle:
                        due.append(self.entries.pop(text))
                self.closed_idle += len(due)
                # A session closes within two seconds at worst; meanwhile a task that asks for one opens its
                # own.
                self.lock.release()
                try:
                    for entry in due:
                        entry.owner.close()
                finally:
                    self.lock.acquire()
                if not due:
                    # Between two looks a session may rest without being noticed: an eighth of its time at
                    # most.
                    self.changed.wait(min(entry.idle for entry in watched.values()) / 8)

    def close(self) -> None:
        with self.lock:
            entries, self.entries = list(self.entries.values()), {}
            self.changed.notify()
        for entry in entries:
            entry.owner.close()


_cache = _Cache()
_inherited: list[_Cache] = []


def _forget() -> None:
    """Start anew in a forked child: sessions, lock and thread belong to the parent.

    They are kept, not dropped. A child that has never opened anything has nothing to tear down.
    """
    global _cache  # noqa: PLW0603 - the one of the process
    _inherited.append(_cache)
    _cache = _Cache()


os.register_at_fork(after_in_child=_forget)


def session(config: IntoConfig) -> Session:
    """Give the session of this process for a configuration; open it if there is none.

    Call it where the work is done, inside the function that Spark runs on partitions. Do not close it: the
    next task uses it again. It stays open while anything refers to what this returns, and closes
    ``zwire/idle_close_ms`` (30 s) after the last such thing has gone.

    Args:
        config: An endpoint such as ``"tcp/127.0.0.1:7447"``, a JSON5 text, a dict of keys, a
            ``zwire.config.SessionConfig`` or a ``zwire.zenoh.Config``.

    Raises:
        ConfigError: The configuration is wrong, or asks for a tap, which workers cannot share.
        ConnectError: No endpoint answers.
    """
    return _cache.session(settings(config))


def close_sessions() -> None:
    """Close the sessions of this process at once, as an application does that has finished with Spark."""
    _cache.close()


def session_counts() -> dict[str, int]:
    """Count what this process has opened, closed for want of use, and still has open."""
    with _cache.lock:
        live = sum(not entry.owner.is_closed() for entry in _cache.entries.values())
        return {"opened": _cache.opened, "closed_idle": _cache.closed_idle, "open": live}
