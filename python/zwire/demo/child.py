"""Processes of the demo: modules that end with their standard input, which happens however the demo ends."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


def start(module: str, settings: str, errors: Path) -> subprocess.Popen[bytes]:
    """Start a module of the demo with its settings; what it logs is appended to a file."""
    with errors.open("ab") as file:
        # A group of its own: Ctrl-C is for the demo, which then ends it.
        return subprocess.Popen(  # noqa: S603 - our own module
            [sys.executable, "-m", f"zwire.demo.{module}", settings],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=file,
            process_group=0,
        )


def line(process: subprocess.Popen[bytes]) -> str:
    """Wait for the next line that a process prints; return an empty text if it has ended."""
    assert process.stdout is not None  # noqa: S101 - it was asked for
    return process.stdout.readline().decode().strip()


def reason(errors: Path) -> str:
    """Return the last line that a process has logged."""
    return errors.read_text(errors="replace").strip().rpartition("\n")[2] or "no reason given"


def kill(process: subprocess.Popen[bytes]) -> None:
    """End a process by SIGKILL: it writes nothing from then on."""
    process.kill()
    process.wait()
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            pipe.close()
