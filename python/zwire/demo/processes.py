"""Starts the processes of the fleet, sends them orders, and ends them."""

from __future__ import annotations

import contextlib
import json
import queue
import subprocess
import threading
import time
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from zwire._closing import Closing
from zwire.demo import child
from zwire.demo.fleet import Settings
from zwire.errors import TimedOut, TransportError
from zwire.spool._append import undone

if TYPE_CHECKING:
    from pathlib import Path

_GOODBYE = 5.0
"""Seconds for a process to end by itself."""


class Fleet(Closing):
    """The processes of the fleet."""

    def __init__(self, endpoint: str, *, count: int, robots: int, seconds: float, errors: Path) -> None:
        self._errors = errors
        self._heard: queue.Queue[tuple[int, dict[str, Any] | None]] = queue.Queue()
        self._processes: list[subprocess.Popen[bytes]] = []
        self._listeners: list[threading.Thread] = []
        with undone(self.close):
            for number in range(count):
                self._start(Settings(endpoint, number, robots, seconds, answers=number % 2 == 0))

    def _start(self, settings: Settings) -> None:
        process = child.start("fleet", json.dumps(asdict(settings)), self._errors)
        self._processes.append(process)
        listener = threading.Thread(target=self._listen, args=(settings.process, process), daemon=True)
        listener.start()
        self._listeners.append(listener)

    def _listen(self, number: int, process: subprocess.Popen[bytes]) -> None:
        assert process.stdout is not None  # noqa: S101 - it was asked for
        with process.stdout as lines:
            for line in lines:
                self._heard.put((number, json.loads(line)))
        self._heard.put((number, None))

    def go(self) -> None:
        """Order all to publish."""
        for process in self._processes:
            assert process.stdin is not None  # noqa: S101 - it was asked for
            process.stdin.write(b"go\n")
            process.stdin.flush()

    def wait(self, word: str, seconds: float) -> dict[int, dict[str, Any]]:
        """Wait until each has printed a word; return the rest of that line by process."""
        end = time.monotonic() + seconds
        said: dict[int, dict[str, Any]] = {}
        while len(said) < len(self._processes):
            try:
                number, line = self._heard.get(timeout=max(0.0, end - time.monotonic()))
            except queue.Empty:
                missing = min(set(range(len(self._processes))) - set(said))
                problem = f"process {missing} of the fleet was not {word} within {seconds:g} s"
                raise TimedOut(problem, seconds=seconds) from None
            if line is None:
                raise TransportError(f"process {number} of the fleet has ended: {child.reason(self._errors)}")
            if line["word"] == word:
                said[number] = line
        return said

    def close(self) -> None:
        """End the processes: close their input, then kill the remaining ones."""
        for process in self._processes:
            if process.stdin is not None:
                with contextlib.suppress(BrokenPipeError):
                    process.stdin.close()
        end = time.monotonic() + _GOODBYE
        for process in self._processes:
            try:
                process.wait(max(0.0, end - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        for listener in self._listeners:
            # The process that it reads from has ended.
            listener.join(_GOODBYE)
