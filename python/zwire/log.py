"""The log of zwire, through :mod:`logging`.

One logger for each layer: ``zwire.zenoh.link``, ``.session``, ``.routing``, ``.scouting`` and ``.queue``,
``zwire.zmtp``, ``zwire.zre``, and ``zwire.log`` for records about the log itself. Levels, handlers and
filters are those of ``logging``; if the program configures none, warnings go to standard error, as from any
library. The message names the link or entity and the reason; each field is an attribute of the record
(``extra``): ``record.peer``, ``record.error``.

Records from threads of the network are passed on by one daemon thread, ``zwire-log``, which starts with
the first record that a logger lets pass. No other thread ever waits for a handler.

Opening something imports this module; importing zwire alone does not load ``logging``.
"""

from __future__ import annotations

import logging
import sys
import traceback

from zwire._zwire import (
    log_close,
    log_flush,
    log_has_lines,
    log_levels,
    log_limit,
    log_names,
    log_reader,
    log_take,
)

__all__ = ["LOGGERS", "TRACE", "flush", "limit"]

LOGGERS = tuple(log_names())
"""Names of all loggers."""

TRACE = 5
"""The level below ``logging.DEBUG``: single steps."""

_EXIT_PATIENCE = 1.0
"""Seconds that the end of the program waits for handlers."""

_loggers = [logging.getLogger(name) for name in LOGGERS]


def limit(burst: int | None = 10, seconds: float = 10.0) -> None:
    """Limit the records per place in the source within some seconds; None for no limit.

    Records above the limit are counted; at the end of that time one record reports the number in its
    attribute ``left_out``. Lines that ``RUST_LOG`` asks for are not limited.

    Raises:
        ValueError: The time is not longer than 0.
    """
    log_limit(burst, seconds)


def flush(timeout: float = 5.0) -> bool:
    """Wait until all records so far have gone through the handlers.

    Returns False if that takes longer than ``timeout`` seconds. Do not call it in handlers: it waits for
    them.
    """
    return log_flush(timeout)


def _refresh() -> None:
    """Pass the enabled levels to the Rust side, so that other records are not made at all."""
    # A level of `logging.disable` applies to all loggers.
    disabled = logging.root.manager.disable
    log_levels([max(logger.getEffectiveLevel(), disabled + 1) for logger in _loggers])


class _Watched(dict[int, bool]):
    """A logger's memory of enabled levels, which ``logging`` clears whenever any level changes."""

    def clear(self) -> None:
        super().clear()
        _refresh()


def _watch() -> None:
    logger = logging.getLogger("zwire")
    if isinstance(getattr(logger, "_cache", None), dict):
        logger._cache = _Watched()  # type: ignore[attr-defined]  # noqa: SLF001 - nothing public tells of a change
        _refresh()
    else:
        # Then all records are passed on, and the loggers filter.
        log_levels([TRACE] * len(LOGGERS))


def _read() -> None:
    """Pass records on until the end; runs in a thread of its own."""
    while (records := log_take()) is not None:
        for record in records:
            try:
                _tell(*record)
            except Exception:  # noqa: BLE001 - a filter of the program; the next record is heard
                if logging.raiseExceptions and sys.stderr is not None:
                    traceback.print_exc()


def _tell(
    index: int,
    level: int,
    time: float,
    thread: str,
    path: str,
    line: int,
    text: str,
    fields: dict[str, int | float | str],
) -> None:
    logger = _loggers[index]
    if not logger.isEnabledFor(level):
        return
    if log_has_lines() and not logger.hasHandlers():
        # The record was written as a line; the handler of last resort would write it a second time.
        return
    record = logger.makeRecord(logger.name, level, path, line, text, (), None, None, fields)
    record.relativeCreated += (time - record.created) * 1000
    record.created, record.msecs = time, time % 1 * 1000
    record.threadName = thread
    if level == TRACE:
        record.levelname = "TRACE"
    logger.handle(record)


def _end() -> None:
    if log_close(_EXIT_PATIENCE):
        return
    # A handler does not return, and `logging` is about to wait for its lock.
    for logger in _loggers:
        step: logging.Logger | None = logger
        while step is not None:
            for handler in step.handlers:
                if handler.lock is not None and not handler.lock.acquire(blocking=False):
                    handler.createLock()
            step = step.parent


_watch()
log_reader(_read, _end)
