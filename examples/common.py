"""Options common to all examples, and the session they describe."""

from __future__ import annotations

import argparse
import itertools
import time
from pathlib import Path
from typing import TYPE_CHECKING

from zwire import zenoh

if TYPE_CHECKING:
    from collections.abc import Iterator


def parser(description: str | None, *, key: str | None = "demo/example/python") -> argparse.ArgumentParser:
    """Make a parser of command lines.

    Args:
        description: What the program does; its docstring.
        key: The default of ``--key``, or ``None`` for no such option.
    """
    options = argparse.ArgumentParser(description=description)
    options.add_argument("--connect", metavar="ENDPOINT", action="append", help="such as tcp/10.0.0.7:7447")
    options.add_argument("--listen", metavar="ENDPOINT", action="append", help="such as tcp/0.0.0.0:7447")
    options.add_argument("--mode", choices=["client", "peer", "router"])
    options.add_argument("--config", type=Path, metavar="FILE", help="configuration as JSON5")
    if key is not None:
        options.add_argument("-k", "--key", default=key, help="default: %(default)s")
    return options


def add_count(options: argparse.ArgumentParser, what: str) -> None:
    """Add ``-n``, after which the program ends."""
    options.add_argument("-n", "--count", type=int, help=f"end after so many {what} (default: with Ctrl-C)")


def add_interval(options: argparse.ArgumentParser, what: str) -> None:
    """Add ``--interval``, the pauses of a program."""
    options.add_argument("--interval", type=float, default=1.0, help=f"seconds between two {what}")


def numbers(options: argparse.Namespace) -> Iterator[int]:
    """Count from 0, an interval apart, up to the count or until Ctrl-C."""
    for number in itertools.count() if options.count is None else range(options.count):
        if number:
            time.sleep(options.interval)
        yield number


def config(options: argparse.Namespace) -> zenoh.Config:
    """Return the configuration that the options describe."""
    made = zenoh.Config() if options.config is None else zenoh.Config.from_file(options.config)
    connect = options.connect
    if not (connect or options.listen or options.config or options.mode):
        connect, options.mode = ["tcp/127.0.0.1:7447"], "client"
    for key, value in (
        ("mode", options.mode),
        ("connect/endpoints", connect),
        ("listen/endpoints", options.listen),
    ):
        if value is not None:
            # A text is parsed as JSON5, anything else is a value.
            made.insert_json5(key, f'"{value}"' if isinstance(value, str) else value)
    return made


def open_session(options: argparse.Namespace) -> zenoh.Session:
    """Open the session that the options describe."""
    return zenoh.open(config(options))
