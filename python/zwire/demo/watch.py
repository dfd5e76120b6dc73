"""The subscribers of the demo: one counts the fleet's messages, one takes the results of Spark."""

from __future__ import annotations

import json
import threading
import time
from abc import ABC, abstractmethod
from collections import defaultdict
from typing import TYPE_CHECKING, Any

from zwire._closing import Closing
from zwire.demo.counts import KINDS, Tally
from zwire.demo.fleet import NUMBER
from zwire.demo.hub import CONFIRM_TIMEOUT, client
from zwire.demo.kept import Value

if TYPE_CHECKING:
    from zwire.demo.counts import Tallies
    from zwire.zenoh import Sample

_AT_ONCE = 1024
_TICK = 0.1
"""Seconds between two checks whether a subscriber has to end."""


class _Taker(Closing, ABC):
    """A subscriber with a thread that takes its samples."""

    def __init__(self, endpoint: str, key: str) -> None:
        self._session = client(endpoint)
        self._subscriber = self._session.declare_subscriber(key)
        # The hub knows of the subscriber before the first publication.
        self._session.flush(timeout=CONFIRM_TIMEOUT)
        self._changed = threading.Condition()
        self._count = 0
        self._stop = False
        self._latest: dict[str, Value] = {}
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._stop:
            samples = self._subscriber.recv_many(_AT_ONCE, timeout=_TICK)
            if samples:
                with self._changed:
                    for sample in samples:
                        self._take(sample)
                        self._latest[str(sample.key_expr)] = Value.of(sample)
                    self._count += len(samples)
                    self._changed.notify_all()

    @abstractmethod
    def _take(self, sample: Sample) -> None:
        """Count a sample, or keep it; called with the lock held."""

    def _wait(self, count: int, seconds: float) -> None:
        """Wait for ``count`` samples, or until the time is over; the counts show what is missing."""
        end = time.monotonic() + seconds
        with self._changed:
            while self._count < count and (left := end - time.monotonic()) > 0:
                self._changed.wait(left)

    def latest(self) -> dict[str, Value]:
        """Return the last value of each key."""
        with self._changed:
            return dict(self._latest)

    @property
    def dropped(self) -> int:
        """Number of samples dropped because the queue was full."""
        return self._subscriber.dropped

    def close(self) -> None:
        """End the thread and the session."""
        self._stop = True
        self._thread.join(timeout=10 * _TICK)
        self._session.close()


class Watch(_Taker):
    """Counts the messages of the fleet."""

    def __init__(self, endpoint: str) -> None:
        self._messages: defaultdict[tuple[int, str], int] = defaultdict(int)
        self._numbers: defaultdict[tuple[int, str], set[int]] = defaultdict(set)
        super().__init__(endpoint, "fleet/**")

    def _take(self, sample: Sample) -> None:
        _, process, _, kind = str(sample.key_expr).split("/")
        attachment = sample.attachment
        assert attachment is not None  # noqa: S101 - the fleet gives each a number
        self._messages[int(process), kind] += 1
        self._numbers[int(process), kind].add(NUMBER.unpack(attachment.to_bytes())[0])

    def wait(self, count: int, seconds: float) -> Tallies:
        """Return the tallies, once ``count`` samples have come or the time is over."""
        self._wait(count, seconds)
        with self._changed:
            return {which: Tally(count, len(self._numbers[which])) for which, count in self._messages.items()}


class Results(_Taker):
    """Takes the results of Spark about each robot."""

    def __init__(self, endpoint: str) -> None:
        self._results: dict[str, dict[str, Any]] = {}
        self._twice: list[str] = []
        super().__init__(endpoint, "result/**")

    def _take(self, sample: Sample) -> None:
        key = str(sample.key_expr)
        if key in self._results:
            self._twice.append(key)
        self._results[key] = json.loads(sample.payload.to_bytes())

    def wait(self, count: int, seconds: float) -> Tallies:
        """Return the sums of the results, once ``count`` of them have come or the time is over."""
        self._wait(count, seconds)
        found: defaultdict[tuple[int, str], int] = defaultdict(int)
        with self._changed:
            for key, result in self._results.items():
                process = int(key.split("/")[1])
                for kind in KINDS:
                    found[process, kind] += result[kind]
        return {which: Tally(messages, messages) for which, messages in found.items()}

    def lines(self) -> list[str]:
        """Return the results as text, a line for each robot."""
        with self._changed:
            results = sorted(self._results.items(), key=lambda item: [len(item[0]), item[0]])
        return [_line(key, result) for key, result in results]

    def problems(self) -> list[str]:
        """Name results that came twice, and those that contradict the robot's own status."""
        with self._changed:
            odd = [key for key, result in self._results.items() if result.get("agrees") is False]
            wrong = [f"{key}: the robot says something else of itself than the capture does" for key in odd]
            return [*(f"{key} came twice" for key in self._twice), *wrong]


def _line(key: str, result: dict[str, Any]) -> str:
    asked = {True: "the robot says the same", False: "the robot says otherwise", None: ""}
    parts = [
        f"{key:<18}",
        f"{result['position']:>6,} positions {result['metres']:>7,.0f} m",
        f"battery {result['charge']:4.0%}",
        f"{result['image']:>3,} images {result['image_bytes'] / 1e6:>5.1f} MB",
        asked[result.get("agrees")],
    ]
    return "  ".join(parts).rstrip()
