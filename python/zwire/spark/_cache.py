"""Sessions and nodes of a worker process, shared by its tasks, one for each configuration; closed when idle.

A Spark worker is a process that runs one task after the other. Spark ends idle workers after about 60 seconds
without notice, so an entry that was unused for a while is closed before that.
"""

from __future__ import annotations

import os
import threading
import time
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass(eq=False)
class Entry(ABC):
    """An open resource of the cache."""

    idle: float
    """Seconds without use after which the entry is closed; 0: never."""
    idle_since: float = 0.0

    @abstractmethod
    def in_use(self) -> bool:
        """Whether a task uses the entry."""

    @abstractmethod
    def is_over(self) -> bool:
        """Whether the entry has ended by itself."""

    @abstractmethod
    def close(self) -> None:
        """Close the entry with a goodbye to its peers; may take two seconds."""


E = TypeVar("E", bound=Entry)


class Cache(Generic[E]):
    """Entries by the text of their configuration. All access is under ``lock``.

    A forked child starts anew: open entries, the lock and the thread belong to its parent. They are kept, not
    dropped; a child that has never opened an entry has nothing to tear down.
    """

    def __init__(self) -> None:
        self._inherited: list[object] = []
        self._begin()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._forget)

    def _forget(self) -> None:
        self._inherited.append((self.entries, self.lock, self.changed, self.closer))
        self._begin()

    def _begin(self) -> None:
        self.entries: dict[str, E] = {}
        self.lock = threading.Lock()
        self.changed = threading.Condition(self.lock)
        self.closer: threading.Thread | None = None
        self.opened = 0
        self.closed_idle = 0

    def entry(self, text: str, make: Callable[[], E]) -> E:
        """Return the entry of a configuration, or open it; ``lock`` is held."""
        entry = self.entries.get(text)
        if entry is None or entry.is_over():
            entry = self.entries[text] = make()
            self.opened += 1
            if entry.idle > 0:
                self._watch()
        return entry

    def _watch(self) -> None:
        if self.closer is None:
            self.closer = threading.Thread(target=self._close_idle, name="zwire-idle", daemon=True)
            self.closer.start()
        else:
            self.changed.notify()

    def _close_idle(self) -> None:
        """Run until no entry is left that could become idle."""
        with self.lock:
            while True:
                watched = {text: entry for text, entry in self.entries.items() if entry.idle > 0}
                if not watched:
                    self.closer = None
                    return
                now = time.monotonic()
                due = []
                for text, entry in watched.items():
                    if entry.is_over():
                        del self.entries[text]
                    elif entry.in_use():
                        entry.idle_since = 0.0
                    elif not entry.idle_since:
                        entry.idle_since = now
                    elif now - entry.idle_since >= entry.idle:
                        due.append(self.entries.pop(text))
                self.closed_idle += len(due)
                # A task that asks for one meanwhile opens its own.
                self.lock.release()
                try:
                    for entry in due:
                        entry.close()
                finally:
                    self.lock.acquire()
                if not due:
                    # An entry may become idle unnoticed between two checks, an eighth of its time apart.
                    self.changed.wait(min(entry.idle for entry in watched.values()) / 8)

    def close(self) -> None:
        """Close all entries at once."""
        with self.lock:
            entries, self.entries = list(self.entries.values()), {}
            self.changed.notify()
        for entry in entries:
            entry.close()

    def counts(self) -> dict[str, int]:
        """Count the entries opened, closed as idle, and still open."""
        with self.lock:
            live = sum(not entry.is_over() for entry in self.entries.values())
            return {"opened": self.opened, "closed_idle": self.closed_idle, "open": live}
