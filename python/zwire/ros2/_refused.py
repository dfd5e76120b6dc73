"""Counts of what is dropped, with one record in the log for each reason."""

from __future__ import annotations

import collections
import logging
import threading

LOG = logging.getLogger("zwire.ros2")
"""Logger of the nodes."""


class Refused:
    """Numbers of dropped messages, tokens and requests of one endpoint, by reason."""

    def __init__(self, where: str) -> None:
        self._where = where
        self._lock = threading.Lock()
        self._counts: collections.Counter[str] = collections.Counter()

    def add(self, reason: str, problem: object) -> None:
        """Count a dropped thing; ``reason`` is one of a few words, the log gets the first problem of each."""
        with self._lock:
            self._counts[reason] += 1
            first = self._counts[reason] == 1
        if first:
            LOG.warning("%s: dropped: %s; further ones are counted as %r", self._where, problem, reason)

    def counts(self) -> dict[str, int]:
        """Return the numbers by reason."""
        with self._lock:
            return dict(self._counts)
