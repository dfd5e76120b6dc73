"""The hub of the demo, and clients of it."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Self

from zwire import zenoh
from zwire.errors import LinkClosed, TimedOut

if TYPE_CHECKING:
    from pathlib import Path

    from zwire.zenoh import Session

_TAP_WAITS = 1.0
"""Seconds that bytes wait in the tap at most, if others follow them."""


class Hub:
    """A hub on a free port of this machine that writes what crosses its wire to a capture."""

    def __init__(self, capture: Path) -> None:
        self.capture = capture
        listen = ["tcp/127.0.0.1:0"]
        self._session = zenoh.open(
            {"mode": "router", "listen/endpoints": listen, "zwire/tap": os.fspath(capture)}
        )
        (self.endpoint,) = self._session.listening()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_args: object) -> None:
        self._session.close()

    @staticmethod
    def write_out(session: Session) -> None:
        """Have everything in the capture that has crossed the wire so far.

        The tap writes what has waited for a second, together with the next bytes that cross the wire.
        """
        time.sleep(_TAP_WAITS + 0.1)
        confirm(session)


def client(endpoint: str) -> Session:
    """Open a session with the hub."""
    return zenoh.open({"mode": "client", "connect/endpoints": [endpoint]})


def confirm(session: Session, timeout: float = 30.0) -> None:
    """Wait until the hub has taken everything that this session has sent and declared.

    The hub itself ends a query that nobody can answer, and takes what comes over a link in order; the lowest
    priority goes last.

    Raises:
        LinkClosed: The link was lost.
        TimedOut: The hub did not answer in time.
    """
    replies = session.get(
        f"demo/nobody/{os.getpid()}",
        timeout=timeout,
        priority=zenoh.Priority.BACKGROUND,
        congestion_control=zenoh.CongestionControl.BLOCK,
    )
    for _ in replies:
        pass
    if replies.end == "timed_out":
        raise TimedOut(f"the hub has not answered within {timeout:g} s", seconds=timeout)
    if replies.end == "link_lost":
        raise LinkClosed("the link to the hub was lost", by_peer=True)
