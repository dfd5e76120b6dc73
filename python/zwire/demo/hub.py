"""The hub of the demo, and clients of it."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Self

from zwire import zenoh

if TYPE_CHECKING:
    from pathlib import Path

    from zwire.zenoh import Session

CONFIRM_TIMEOUT = 30.0
"""Seconds in which the hub has to confirm what it was sent."""

_TAP_WAITS = 1.0
"""Seconds that bytes wait in the tap at most, if others follow them."""


class Hub:
    """A hub on a free port of this machine that writes what crosses its wire to a capture."""

    def __init__(self, capture: Path) -> None:
        self.capture = capture
        listen = ["tcp/127.0.0.1:0"]
        self._session = zenoh.open(
            {
                "mode": "router",
                "listen/endpoints": listen,
                "scouting/multicast/enabled": False,
                "zwire/tap": os.fspath(capture),
            }
        )
        self.endpoint: str = self._session.listening()[0]

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
        session.flush(timeout=CONFIRM_TIMEOUT)


def client(endpoint: str) -> Session:
    """Open a session with the hub."""
    return zenoh.open(
        {"mode": "client", "connect/endpoints": [endpoint], "scouting/multicast/enabled": False}
    )
