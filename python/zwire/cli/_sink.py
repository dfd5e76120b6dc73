"""Parts shared by the subcommands of ``zwire sink``: options, the loop, and its progress."""

from __future__ import annotations

import contextlib
import importlib.util
import signal
import time
from typing import TYPE_CHECKING

from zwire import sink
from zwire.cli import _options, _progress, _spool
from zwire.errors import ConfigError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterator

    from zwire.sink import Batch, Sink, SinkStats, Table


def add_table(parser: argparse.ArgumentParser, where: str) -> None:
    """Add the options that name a table."""
    parser.add_argument("--to", metavar="TABLE", required=True, help=where)
    parser.add_argument(
        "--partition",
        type=lambda text: text.split(","),
        metavar="A,B",
        default=[],
        help="columns of partitions of a new table; date is the day of recv_ts",
    )
    _options.add_several(
        parser, "--option", metavar="NAME=VALUE", help="an option of the store or the catalog of the table"
    )


def add_rows(parser: argparse.ArgumentParser) -> None:
    """Add the options of the spool and of batches."""
    parser.add_argument(
        "--from",
        dest="folder",
        metavar="DIR",
        required=True,
        help="the folder of the spool, or its tier, such as s3://BUCKET/PREFIX",
    )
    parser.add_argument("--once", action="store_true", help="end when the table has the rows present now")
    parser.add_argument("--name", default="zwire", help="name of the sink in the table (default: zwire)")
    parser.add_argument("--columns", type=lambda text: text.split(","), metavar="A,B", help="default: all")
    _options.add_several(
        parser, "--key", type=_options.key, metavar="KEY", help="only rows with keys that intersect it"
    )
    parser.add_argument(
        "--since",
        type=_spool.when,
        metavar="TIME",
        help="where a new sink begins, as ISO 8601 (default: earliest)",
    )
    parser.add_argument("--gaps", action="store_true", help="the log of gaps, instead of the rows")
    parser.add_argument(
        "--consumer",
        metavar="NAME",
        help="consumer for which the spool keeps rows; none keeps none (default: by sink and table)",
    )
    _options.add_count(parser, "--rows", default=1_000_000, help="most rows of a batch (default: 1000000)")
    parser.add_argument(
        "--bytes",
        type=_spool.size,
        default=128 << 20,
        metavar="BYTES",
        help="most in a batch (default: 128M)",
    )
    parser.add_argument(
        "--every",
        type=_spool.duration,
        default=10.0,
        metavar="TIME",
        help="commit fewer rows after that time (default: 10s)",
    )
    parser.add_argument(
        "--losses",
        choices=["raise", "skip"],
        default="raise",
        help="at rows that were deleted or damaged: end, or leave them out and count them (default: raise)",
    )
    parser.add_argument(
        "--progress",
        type=_spool.duration,
        default=10.0,
        metavar="TIME",
        help="time between two lines about the progress (default: 10s)",
    )
    parser.add_argument(
        "--metrics",
        type=_spool.address,
        metavar="HOST:PORT",
        help="serve metrics of the sink and the spool for Prometheus there, at /metrics",
    )


def need(format: str, *modules: str) -> None:
    """Refuse a command that needs packages which are missing."""
    for module in modules:
        if importlib.util.find_spec(module) is None:
            raise ConfigError(f"sink {format} needs {module}: pip install 'zwire[{format}]'", path=format)


def given(args: argparse.Namespace) -> dict[str, str]:
    """Return the options of the store or the catalog."""
    return {name: str(value) for name, value in _options.settings("--option", args.option).items()}


def run(args: argparse.Namespace, table: Table) -> int:
    """Append rows until the table has them, or until the command is interrupted."""
    made = sink.Sink(
        args.folder,
        table,
        name=args.name,
        columns=args.columns,
        keys=args.key,
        start=args.since,
        gaps=args.gaps,
        consumer=args.consumer,
        max_rows=args.rows,
        max_bytes=args.bytes,
        interval=args.every,
        losses=args.losses,
    )
    at = " ".join(f"{shard}:{offset}" for shard, offset in made.offsets().items())
    _options.say(f"sink {args.name}: {args.folder} to {table.FORMAT} {table.address}, from {at}")
    with _stopping(made) as caught, _shown(made, args) as report:
        stats = made.run(once=args.once, report=report)
    _options.say(*_summary(stats, args))
    # SIGTERM is the normal end of a service.
    if not caught:
        return 0
    return 130 if args.once or caught[0] == signal.SIGINT else 0


@contextlib.contextmanager
def _stopping(made: Sink) -> Iterator[list[int]]:
    """Let a signal end the loop behind the batch in progress, a second one at once; yield those caught."""
    caught: list[int] = []

    def stop(number: int, _frame: object) -> None:
        if caught:
            raise KeyboardInterrupt
        caught.append(number)
        made.stop()

    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield caught
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextlib.contextmanager
def _shown(made: Sink, args: argparse.Namespace) -> Iterator[Callable[[Batch], object]]:
    """Yield a function for each batch; lines come in between, on a terminal one that changes."""
    last = [time.monotonic()]

    def report(_batch: Batch) -> None:
        if time.monotonic() - last[0] >= args.progress:
            last[0] = time.monotonic()
            _options.say(_line(made.stats()))

    line = _progress.drawn(lambda _seconds: _line(made.stats()))
    with _spool.metrics(args.metrics, made, made.spool), line:
        yield report


def _line(stats: SinkStats) -> str:
    lost = f", {stats['lost']} lost" if stats["lost"] else ""
    return (
        f"{stats['rows']} rows in {stats['commits']} commits, {stats['lag_rows']} rows and "
        f"{stats['lag_ms'] / 1000:.1f} s behind{lost}"
    )


def _summary(stats: SinkStats, args: argparse.Namespace) -> Iterator[str]:
    yield _line(stats)
    if stats["gaps"] and not args.gaps:
        yield (
            f"the log of gaps of {args.folder} has {stats['gaps']} rows about messages that did not "
            "reach the spool: zwire spool cat --gaps prints them, --gaps writes them to a table"
        )
