"""The log of a command, on standard error."""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

LEVELS = {"off": 100, "error": 40, "warn": 30, "info": 20, "debug": 10, "trace": 5}
"""Values of ``--log-level``, as levels of ``logging``."""

_PATIENCE = 1.0
"""Seconds that the end of a command waits for its log."""


def add_log(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    group = parser.add_argument_group(
        "log", "On standard error. Without these it has warnings, or what RUST_LOG says."
    )
    group.add_argument(
        "-v",
        "--verbose",
        action="count",
        default=0,
        help="also log connections and disconnections with reasons; -vv: everything",
    )
    group.add_argument("--log-level", choices=list(LEVELS), metavar="LEVEL", help=", ".join(LEVELS))


@contextlib.contextmanager
def heard(args: argparse.Namespace) -> Iterator[None]:
    """Show the log on standard error as requested, while a command runs."""
    import logging

    from zwire import log, zenoh
    from zwire._text import printable

    asked = args.log_level or {0: None, 1: "info"}.get(args.verbose, "debug")
    if asked is None and os.environ.get("RUST_LOG"):
        zenoh.try_init_log_from_env()
        yield
        return

    class Formatter(logging.Formatter):
        def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - the name in logging
            return printable(super().formatMessage(record))

    handler = logging.StreamHandler()
    if asked is None:
        handler.setFormatter(Formatter(f"zwire {args.command}: %(message)s"))
    else:
        # Verbose output shows when things happened: add times.
        handler.setFormatter(Formatter("%(asctime)s %(levelname)-7s %(name)s: %(message)s"))
    level = LEVELS[asked or "warn"]
    logger = logging.getLogger("zwire")
    before = logger.level
    logger.addHandler(handler)
    logger.setLevel(level)
    log.limit(*(() if level > logging.DEBUG else (None,)))
    try:
        yield
    finally:
        log.flush(_PATIENCE)
        log.limit()
        logger.setLevel(before)
        logger.removeHandler(handler)
