"""The hub of the demo, a process that is killed once: ``python -m zwire.demo.hub SETTINGS``.

The process is a router with a storage on the disk. It prints its endpoint when clients can connect, and ends
with its standard input, which happens however the demo ends.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
from typing import TYPE_CHECKING, Any

from zwire import zenoh
from zwire._closing import Closing
from zwire.demo import child
from zwire.errors import TransportError
from zwire.spool._append import undone

if TYPE_CHECKING:
    from pathlib import Path

    from zwire.zenoh import Session

CONFIRM_TIMEOUT = 30.0
"""Seconds for the hub to confirm what it was sent."""

STORED = ("fleet", "result")
"""Storages of the hub: each has the keys below its name."""

_TAP_WAITS = 1.0
"""Longest time that bytes wait in the tap, in seconds, if others follow them."""


class Hub(Closing):
    """A router on a free port of this machine; it has a capture of its traffic, and storages on the disk.

    Args:
        capture: File of the capture.
        store: Folder of the storages; without one ``store`` beside the capture.
        errors: File for what the process logs; without one ``hub.txt`` beside the capture.
    """

    def __init__(self, capture: Path, store: Path | None = None, *, errors: Path | None = None) -> None:
        store, errors = store or capture.with_name("store"), errors or capture.with_name("hub.txt")
        self.capture = capture
        self.store: Path = store
        # What a former demo has stored is no proof for this one.
        for name in STORED:
            if (store / name).exists():
                shutil.rmtree(store / name)
        self._errors = errors
        self.endpoint: str = self._start("tcp/127.0.0.1:0", capture)

    def _start(self, endpoint: str, capture: Path | None) -> str:
        storages = {
            name: {
                "key_expr": f"{name}/**",
                "volume": {"id": "disk", "dir": os.fspath((self.store / name).absolute())},
            }
            for name in STORED
        }
        config: dict[str, Any] = {
            "mode": "router",
            "listen/endpoints": [endpoint],
            "scouting/multicast/enabled": False,
            "plugins": {"storage_manager": {"__required__": True, "storages": storages}},
        }
        if capture is not None:
            config["zwire/tap"] = os.fspath(capture.absolute())
        self._process = child.start("hub", json.dumps(config), self._errors)
        with undone(self.kill):
            if listening := child.line(self._process):
                return listening
            raise TransportError(f"the hub has ended: {child.reason(self._errors)}")

    def kill(self) -> None:
        """End the process by SIGKILL: it writes nothing from then on."""
        child.kill(self._process)

    def restart(self) -> None:
        """Start the process again: the same endpoint and storages, and no new capture."""
        self._start(self.endpoint, None)

    def close(self) -> None:
        """Kill the hub if it still runs."""
        self.kill()

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


def main(text: str) -> int:
    """Run the router until the demo ends."""
    with zenoh.open(json.loads(text)) as session:
        print(session.listening()[0], flush=True)
        # Past the buffers of sys.stdin, which would not let the interpreter end while this waits.
        while os.read(0, 64):
            pass
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
