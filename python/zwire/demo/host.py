"""The host of the demo's spooler, which is lost: ``python -m zwire.demo.host SETTINGS``.

The process keeps the fleet's messages in a folder, with a tier, prints ``ready`` when the hub knows of it,
and ends with its standard input, which happens however the demo ends.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
from typing import TYPE_CHECKING

from zwire import spool
from zwire._closing import Closing
from zwire.demo import child
from zwire.demo.hub import CONFIRM_TIMEOUT, client
from zwire.errors import SpoolError, TimedOut, TransportError

if TYPE_CHECKING:
    from pathlib import Path

_SEGMENT = 1 << 20
_SEAL = 0.5
"""Size in bytes and age in seconds at which a segment is sealed; then it is uploaded."""

_TICK = 0.1
"""Seconds between two checks of what the tier has."""


class Host(Closing):
    """A host with a spooler and its folder; the tier is elsewhere."""

    def __init__(self, endpoint: str, folder: Path, tier: Path, *, errors: Path) -> None:
        self.folder: Path = folder
        self.tier: Path = tier
        if (tier / "meta.json").exists():
            # The tier of a former demo belongs to another spool.
            shutil.rmtree(tier)
        self._errors = errors
        settings = json.dumps({"endpoint": endpoint, "folder": str(folder), "tier": f"file://{tier}"})
        self._process = child.start("host", settings, errors)

    def ready(self) -> None:
        """Wait until the hub knows of the spooler."""
        if child.line(self._process) != "ready":
            raise TransportError(f"the spooler has ended: {child.reason(self._errors)}")

    def wait(self, rows: int, seconds: float) -> int:
        """Wait until the tier has so many rows; return their number, also that of fewer when time is over."""
        end = time.monotonic() + seconds
        found = 0
        while found < rows and time.monotonic() < end:
            time.sleep(_TICK)
            found = self._rows()
        return found

    def _rows(self) -> int:
        try:
            return sum(spool.open(f"file://{self.tier}").end().values())
        except SpoolError:
            # Nothing is uploaded yet.
            return 0

    def lose(self) -> None:
        """Kill the spooler, and delete the folder that it has written."""
        child.kill(self._process)
        shutil.rmtree(self.folder)

    def close(self) -> None:
        """Kill the spooler if it still runs."""
        child.kill(self._process)


def main(text: str) -> int:
    """Keep the fleet's messages until the demo ends."""
    settings = json.loads(text)
    with (
        client(settings["endpoint"]) as session,
        spool.Spooler(
            settings["folder"],
            "fleet/**",
            session=session,
            shards=2,
            segment_bytes=_SEGMENT,
            segment_seconds=_SEAL,
            tier=settings["tier"],
        ) as spooler,
    ):
        try:
            spooler.ready(CONFIRM_TIMEOUT)
        except TimedOut as error:
            print(error, file=sys.stderr)
            return 1
        print("ready", flush=True)
        # Past the buffers of sys.stdin, which would not let the interpreter end while this waits.
        while os.read(0, 64):
            pass
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
