"""Simulated robots on this machine, for examples without an endpoint to connect to."""

from __future__ import annotations

import json
import math
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from zwire import zenoh

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

QUIET = {"scouting/multicast/enabled": False}
MORNING = datetime(2026, 11, 22, 8, tzinfo=UTC)
SECONDS = 30.0
"""Longest time that a robot waits for its hub."""


@contextmanager
def hub(endpoint: str | None = None, tap: str | None = None) -> Generator[str]:
    """Yield the endpoint of a hub: the given one, or a new one on a free port, closed with the block.

    Args:
        endpoint: An existing hub.
        tap: Capture file of a new hub.
    """
    if endpoint is not None:
        yield endpoint
        return
    config = {"mode": "router", "listen/endpoints": ["tcp/127.0.0.1:0"], **QUIET}
    if tap is not None:
        config["zwire/tap"] = tap
    with zenoh.open(config) as session:
        yield session.listening()[0]


def client(endpoint: str) -> zenoh.Session:
    """Open a session with a hub."""
    return zenoh.open({"mode": "client", "connect/endpoints": [endpoint], **QUIET})


def readings(robots: int, seconds: int, start: int = 0) -> Iterator[tuple[str, str]]:
    """Yield keys and values measured by robots, one reading a second each.

    The first robot has no radio in the second minute: its readings then come a minute late.
    """
    kept: list[tuple[str, str]] = []
    for second in range(start, start + seconds):
        for robot in range(robots):
            measured = {
                "at": (MORNING + timedelta(seconds=second)).isoformat(),
                "battery": round(1 - second / 3600 - robot / 100, 4),
                "speed": round(1 + math.sin(second / 10 + robot), 3),
                "motor": round(40 + 5 * math.sin(second / 30) + (30 if (second, robot) == (75, 1) else 0), 2),
            }
            reading = (f"fleet/robot-{robot}/telemetry", json.dumps(measured))
            if robot == 0 and 60 <= second < 120:
                kept.append(reading)
            else:
                yield reading
        if second == 120:
            yield from kept
            kept.clear()
    yield from kept


def publish(endpoint: str, rows: Iterator[tuple[str, str]]) -> None:
    """Publish JSON, and wait until the hub has taken all of it."""
    with client(endpoint) as session:
        for key, value in rows:
            session.put(
                key,
                value,
                encoding=zenoh.Encoding.APPLICATION_JSON,
                congestion_control=zenoh.CongestionControl.BLOCK,
            )
        session.flush(SECONDS)
