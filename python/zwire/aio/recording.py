"""Recordings published again, on event loops.

Reading and writing files is work for threads: ``zwire.recording`` runs in one, and this module awaits it.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any, Unpack

from zwire.aio import _threads
from zwire.recording import _replay

if TYPE_CHECKING:
    from collections.abc import Iterable

    from zwire.aio._session import Session
    from zwire.recording import Replayed, ReplayOptions

__all__ = ["replay"]


class _StoppedError(Exception):
    """The task is cancelled."""


async def replay(session: Session, batches: Iterable[Any], **options: Unpack[ReplayOptions]) -> Replayed:
    """Do what :func:`zwire.recording.replay` does, with the same options, in a thread.

    ``progress`` is called there. When the task is cancelled the rows that are just being published may still
    go, and no others.
    """
    stopped = threading.Event()

    def clock() -> float:
        if stopped.is_set():
            raise _StoppedError
        return time.monotonic()

    try:
        return await _threads.wait(
            _replay.drive,
            session._session,  # noqa: SLF001 - of the same package
            batches,
            options,
            clock=clock,
            sleep=stopped.wait,
        )
    finally:
        stopped.set()
