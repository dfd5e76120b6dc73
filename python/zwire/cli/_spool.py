"""Parts shared by the subcommands of ``zwire spool``: options, rows of a spool, and their progress."""

from __future__ import annotations

import contextlib
import importlib.util
from datetime import datetime
from typing import TYPE_CHECKING

from zwire import spool
from zwire._lazy import pa
from zwire.cli import _options, _progress
from zwire.errors import ConfigError, SpoolError
from zwire.spool._view import in_order

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterator

    from zwire.metrics import Source

LOOK = 0.25
"""Seconds between two checks for problems."""

_SCRAPE = 5.0
"""Seconds for a client to send its request; the next one waits meanwhile."""

_UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
_TIMES = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}


def add_folder(parser: argparse.ArgumentParser) -> None:
    """Add the folder of a spool. Not a path: it may be the address of a store."""
    parser.add_argument(
        "folder", metavar="DIR", help="the folder of the spool, or its tier, such as s3://BUCKET/PREFIX"
    )


def add_rows(parser: argparse.ArgumentParser) -> None:
    """Add the options that choose rows and columns."""
    parser.add_argument("--columns", type=lambda text: text.split(","), metavar="A,B", help="default: all")
    parser.add_argument("--shard", type=int, metavar="N", help="default: all")
    add_wanted(parser)
    parser.add_argument("--gaps", action="store_true", help="the log of gaps, instead of the rows")


def add_wanted(parser: argparse.ArgumentParser) -> None:
    """Add the options that choose rows by key and time."""
    keys = "rows whose keys intersect it; may be repeated"
    parser.add_argument("--keys", action="append", metavar="KEYEXPR", help=keys)
    parser.add_argument("--since", type=when, metavar="TIME", help="received then or later, as ISO 8601")
    parser.add_argument("--until", type=when, metavar="TIME", help="received before")


def size(text: str) -> int:
    """Read a number of bytes, such as 64M."""
    return int(_quantity(text, _UNITS, "a size, such as 64M or 50G"))


def size_or_none(text: str) -> int | None:
    """Read a number of bytes, or ``none``."""
    return None if text == "none" else size(text)


def duration(text: str) -> float:
    """Read a time, such as 10m or 7d."""
    return _quantity(text, _TIMES, "a time, such as 30s, 10m or 7d")


def _quantity(text: str, units: dict[str, int], what: str) -> float:
    digits = text.rstrip("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
    unit = text[len(digits) :].lower().removesuffix("ib")
    try:
        number = float(digits)
    except ValueError:
        number = 0.0
    if unit not in units or not 0 < number < 1e18:
        raise _options.expected(what, text)
    return number * units[unit]


def address(text: str) -> tuple[str, int]:
    """Read a host and a port."""
    host, _, port = text.rpartition(":")
    if not host or not port.isdigit() or int(port) > 65535:
        raise _options.expected("a host and a port, such as 127.0.0.1:9464", text)
    return host.removeprefix("[").removesuffix("]"), int(port)


def when(text: str) -> datetime:
    """Read an instant."""
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        raise _options.expected("an instant, such as 2026-11-22T08:00:00+00:00", text) from None


def batches(
    args: argparse.Namespace, step: Callable[[int, int], object] | None = None
) -> Iterator[pa.RecordBatch]:
    """Iterate over the rows that the options of :func:`add_rows` choose."""
    view = spool.open(args.folder)
    if args.gaps:
        yield from map(pa.record_batch, view.gaps())
        return
    start = view.earliest() if args.since is None else view.at(args.since)
    end = view.end() if args.until is None else view.at(args.until)
    if args.shard is not None and args.shard not in end:
        raise ConfigError(f"--shard {args.shard}: this spool has {', '.join(map(str, end))}", path="--shard")
    wanted = sorted(end) if args.shard is None else [args.shard]
    total, done = sum(max(end[shard] - start[shard], 0) for shard in wanted), 0
    there = view.earliest()
    ranges = {shard: (max(start[shard], there[shard]), end[shard]) for shard in wanted}
    for shard, first, stop in in_order(ranges, view.changes()):
        for batch in view.read(shard, first, stop, columns=args.columns, keys=args.keys):
            done += len(batch)
            if step is not None:
                step(done, total)
            yield pa.record_batch(batch)


@contextlib.contextmanager
def metrics(place: tuple[str, int] | None, *sources: Source) -> Iterator[None]:
    """Serve metrics of sources for Prometheus, if there is a place for them."""
    if place is None:
        yield
        return
    import socket
    import threading
    from http.server import BaseHTTPRequestHandler, HTTPServer

    from zwire import metrics as made

    host, port = place

    class Page(BaseHTTPRequestHandler):
        timeout = _SCRAPE

        def do_GET(self) -> None:
            if self.path.partition("?")[0] != "/metrics":
                self.send_error(404, "metrics are at /metrics")
                return
            try:
                text = made.prometheus(*sources).encode()
            except SpoolError as error:
                self.send_error(503, "the spool cannot be read", str(error))
                return
            self.send_response(200)
            self.send_header("Content-Type", made.CONTENT_TYPE)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, format: str, *args: object) -> None:
            """Log nothing for each request."""

    class Server(HTTPServer):
        address_family = socket.AF_INET6 if ":" in host else socket.AF_INET

    try:
        server = Server(place, Page)
    except OSError as error:
        raise ConfigError(f"--metrics {host}:{port}: {error}", path="--metrics") from None
    with server:
        # One request at a time, so that scraping costs the spooler no more than one thread.
        threading.Thread(target=server.serve_forever, name="zwire-metrics", daemon=True).start()
        _options.say(f"metrics at http://{host}:{server.server_port}/metrics")
        try:
            yield
        finally:
            server.shutdown()


def need_pyarrow(command: str) -> None:
    """Refuse a command that needs a package which is missing."""
    if importlib.util.find_spec("pyarrow") is None:
        raise ConfigError(f"{command} needs pyarrow: pip install 'zwire[arrow]'", path=command)


@contextlib.contextmanager
def shown() -> Iterator[Callable[[int, int], object]]:
    """Yield a function that gets the progress; it is shown on a terminal."""
    at = [0, 0]

    def step(done: int, total: int) -> None:
        at[:] = done, total

    def line(seconds: float) -> str:
        done, total = at
        return f"{_progress.bar(done / max(total, 1))} {done} rows, {done / max(seconds, 0.001):.0f}/s"

    with _progress.drawn(line):
        yield step
