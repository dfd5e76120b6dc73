"""Processes started by the benchmarks, with time limits.

Each role is a process of its own, started fresh (`spawn`), and obeys commands from a pipe: each is a method
of an object that lives there, one at a time. A pipe has no thread of its own, so a command is written when
`send` returns. Every wait is bounded: a child that does not answer in time is killed, and its row reports
that.
"""

from __future__ import annotations

import contextlib
import multiprocessing as mp
import os
import time
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from multiprocessing.connection import Connection

SPAWN = mp.get_context("spawn")
# Start of an interpreter and of a session, on a machine that is busy with other things.
START_SECONDS = 30.0
# Longest time of a command beyond its working time.
PATIENCE_SECONDS = 30.0
# Longest time of an orderly end before the process is killed.
END_SECONDS = 5.0


class ChildError(Exception):
    """A child failed or did not answer."""


def free_port() -> int:
    """An unused TCP port of loopback."""
    import socket

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _serve(pipe: Connection, make: Callable[..., Any], args: tuple[Any, ...], named: dict[str, Any]) -> None:
    try:
        target = make(*args, **named)
    except BaseException:  # noqa: BLE001 the parent has to hear of it whatever it is
        pipe.send(("error", traceback.format_exc()))
        return
    pipe.send(("done", None))
    # The parent is gone when the pipe ends.
    with contextlib.suppress(EOFError):
        while (command := pipe.recv()) is not None:
            name, args, kwargs = command
            try:
                result = time.process_time() if name == "cpu" else getattr(target, name)(*args, **kwargs)
                pipe.send(("done", result))
            except Exception:  # noqa: BLE001 the same
                pipe.send(("error", traceback.format_exc()))
    target.close()


class Child:
    """An object in a process of its own."""

    def __init__(self, name: str, make: Callable[..., Any], *args: Any, **kwargs: Any) -> None:
        self.name, self.start_seconds = name, START_SECONDS
        self._pipe, theirs = SPAWN.Pipe()
        self._process = SPAWN.Process(
            target=_serve, args=(theirs, make, args, kwargs), name=name, daemon=True
        )
        self._process.start()
        theirs.close()
        self._wanted = "start"

    @property
    def process(self) -> int:
        """The id of its process."""
        return self._process.pid or 0

    def ready(self) -> None:
        """Wait until the object is made."""
        self.result(self.start_seconds)

    def send(self, command: str, *args: Any, **kwargs: Any) -> None:
        """Start a command; `result` waits for it."""
        self._wanted = command
        try:
            self._pipe.send((command, args, kwargs))
        except OSError as error:
            raise ChildError(f"{self.name} has ended ({self._process.exitcode})") from error

    def result(self, seconds: float = PATIENCE_SECONDS) -> Any:
        """The result of the command."""
        if not self._pipe.poll(seconds):
            self.kill()
            raise ChildError(f"{self.name} did not answer `{self._wanted}` in {seconds:.0f} s")
        try:
            state, result = self._pipe.recv()
        except (EOFError, OSError) as error:
            self._process.join(1.0)
            raise ChildError(f"{self.name} ended in `{self._wanted}` ({self._process.exitcode})") from error
        if state == "error":
            raise ChildError(f"{self.name} failed in `{self._wanted}`:\n{result}")
        return result

    def call(self, command: str, *args: Any, **kwargs: Any) -> Any:
        """`send` and `result`."""
        self.send(command, *args, **kwargs)
        return self.result()

    def cpu(self) -> float:
        """Processor seconds that its threads have used."""
        return float(self.call("cpu"))

    def ask_to_end(self) -> None:
        """Start the orderly end."""
        with contextlib.suppress(OSError):
            self._pipe.send(None)

    def kill(self) -> None:
        """Kill the process."""
        self._process.kill()
        self._process.join(END_SECONDS)

    def end(self) -> None:
        """Wait for the orderly end, then kill the process."""
        self._process.join(END_SECONDS)
        if self._process.is_alive():
            print(f"  note: {self.name} did not end by itself", flush=True)
            self.kill()


@contextlib.contextmanager
def children(*wanted: Child) -> Iterator[tuple[Child, ...]]:
    """Yield children that are ready; they end with the block."""
    try:
        for child in wanted:
            child.ready()
        yield wanted
    finally:
        for child in wanted:
            child.ask_to_end()
        for child in wanted:
            child.end()


def machine() -> dict[str, Any]:
    """Facts about the machine on which the numbers depend."""
    import platform

    model = ""
    with contextlib.suppress(OSError), Path("/proc/cpuinfo").open(encoding="utf-8") as lines:
        model = next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), "")
    return {
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "processor": model or platform.processor(),
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
    }
