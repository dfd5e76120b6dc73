"""The hub of the demo, and clients of it."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

from zwire import zenoh
from zwire._closing import Closing

if TYPE_CHECKING:
    from pathlib import Path

    from zwire.zenoh import Session

CONFIRM_TIMEOUT = 30.0
"""Seconds for the hub to confirm what it was sent."""

_TAP_WAITS = 1.0
"""Longest time that bytes wait in the tap, in seconds, if others follow them."""


class Hub(Closing):
    """A hub on a free port of this machine that writes its traffic to a capture."""

    def __init__(self, capture: Path) -> None:
        self.capture = capture
        here = {"mode": "router", "listen/endpoints": ["tcp/127.0.0.1:0"], "zwire/tap": os.fspath(capture)}
        self._session = zenoh.open({**here, "scouting/multicast/enabled": False})
        self.endpoint: str = self._session.listening()[0]

    def close(self) -> None:
        """Close the hub."""
        self._session.close()

    @staticmethod
    def write_out(session: Session) -> None:
        """Flush all traffic so far to the capture.

        The tap writes bytes that have waited for a second together with the next bytes on the wire.
        """
        time.sleep(_TAP_WAITS + 0.1)
        session.flush(timeout=CONFIRM_TIMEOUT)


def client(endpoint: str) -> Session:
    """Open a session with the hub."""
    return zenoh.open(
        {"mode": "client", "connect/endpoints": [endpoint], "scouting/multicast/enabled": False}
    )
