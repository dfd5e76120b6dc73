"""A progress line on the standard error."""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from typing import TYPE_CHECKING

from zwire._text import printable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_BAR = 30
"""Characters of the bar."""

_REFRESH = 0.1
"""Seconds between two updates."""


@contextlib.contextmanager
def drawn(line: Callable[[float], str]) -> Iterator[None]:
    """Draw the text from ``line(seconds since the beginning)``, if the standard error is a terminal."""
    if not sys.stderr.isatty():
        yield
        return
    done = threading.Event()
    # A thread of its own, so that drawing continues while the work waits.
    thread = threading.Thread(target=_draw, args=(line, done), daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()
        # Clear the line for the next output.
        print("\r\x1b[K", end="", file=sys.stderr, flush=True)


def _draw(line: Callable[[float], str], done: threading.Event) -> None:
    begin = time.monotonic()
    while not done.wait(_REFRESH):
        text = printable(line(time.monotonic() - begin))
        print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)


def bar(part: float) -> str:
    """Draw a part of 1."""
    part = min(1.0, part)
    return f"[{'#' * int(_BAR * part):.<{_BAR}}] {part:4.0%}"
