"""Writes publications into MCAP, Parquet or Arrow files until Ctrl-C, SIGTERM, or the end of `--seconds`.

The name of the file chooses the format. The file names what it lacks: samples that a publisher has numbered
and that did not come, those that the recorder was too slow for, and ends of links. If the process is
killed, at most the last second is missing; `zwire play --whole` plays the rest.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import TYPE_CHECKING

from zwire import recording
from zwire.cli import _options, _progress, _schemas, _spool
from zwire.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zwire.recording import McapSchema

EPILOG = """\
examples:
  zwire record -o run.mcap 'robot/**'
      until Ctrl-C
  zwire record -o /var/log/robots/run.mcap 'robot/**' --rotate-size 1G --rotate-time 1h
      run-0001.mcap, run-0002.mcap, ...
  zwire record -o pose.parquet 'robot/*/pose' 'robot/*/status' --seconds 60
      a minute of two key expressions
  zwire record -o run.mcap 'robot/**' --schema demo.Pose=pose.desc
      with the definition of a schema that encodings name
"""

_LOOK = 0.1
"""Seconds between two looks at the recorder."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument("keys", metavar="KEY", nargs="+", type=_options.key, help="key expressions to record")
    parser.add_argument(
        "-o", "--output", type=Path, metavar="FILE", required=True, help="file to write; never replaced"
    )
    parser.add_argument(
        "--format", choices=["mcap", "parquet", "arrow"], help="default: by the name of the file"
    )
    parser.add_argument(
        "--rotate-size",
        type=_spool.size,
        metavar="BYTES",
        help="begin the next file at this size, such as 1G",
    )
    parser.add_argument(
        "--rotate-time", type=_spool.duration, metavar="TIME", help="begin it at this age, such as 10m"
    )
    _options.add_seconds(
        parser,
        "--seconds",
        help="end after that time; exit code 3 if nothing came (default: run until Ctrl-C)",
    )
    _schemas.add(parser)
    parser.add_argument(
        "--recovery",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="ask caches of publishers for missing samples (default: yes)",
    )
    _options.add_network(parser)


def run(args: argparse.Namespace) -> int:
    """Record until the command is interrupted, or the time is over."""
    form = args.format or _options.kind_of(args.output)
    if form not in {"mcap", "parquet", "arrow"}:
        raise ConfigError(
            f"{args.output}: record writes mcap, parquet, arrow: give --format", path="--format"
        )
    schemas = _schemas.read(args)
    if schemas and form != "mcap":
        raise ConfigError(f"--schema: a file of {form} has no schemas, MCAP has", path="--schema")
    if not args.output.parent.is_dir():
        raise ConfigError(f"{args.output}: there is no folder {args.output.parent}", path="--output")
    rotates = args.rotate_size is not None or args.rotate_time is not None
    if args.output.exists() and not rotates:
        raise ConfigError(f"{args.output} exists already: give another name, or rotate", path="--output")
    config = _options.session_config(args)
    try:
        _record(args, form, schemas, config)
    except ImportError as error:
        return _options.refuse("record", str(error), 1)
    return 3 if args.seconds is not None and not args.recorded else 0


def _record(args: argparse.Namespace, form: str, schemas: Mapping[str, McapSchema], config: object) -> None:
    from zwire import zenoh

    recorder: recording.Recorder | None = None
    args.recorded = 0
    try:
        with (
            _options.running(endless=args.seconds is None),
            zenoh.open(config) as session,  # type: ignore[arg-type]  # made by session_config
            recording.Recorder(
                session,
                args.keys,
                args.output,
                format=form,
                rotate_bytes=args.rotate_size,
                rotate_seconds=args.rotate_time,
                recovery=args.recovery,
                schemas=schemas,
            ) as recorder,
        ):
            _options.settle(session)
            _options.say(f"recording {' '.join(args.keys)} in {recorder.stats().files[0]}")
            _watch(recorder, args.seconds)
    finally:
        if recorder is not None:
            done = recorder.stats()
            args.recorded = done.rows
            _options.say(_summary(done))


def _watch(recorder: recording.Recorder, seconds: float | None) -> None:
    left = _options.countdown(seconds)

    def line(passed: float) -> str:
        done = recorder.stats()
        rate = done.rows / max(passed, 0.001)
        return f"{done.rows:,} samples, {rate:,.0f}/s, {done.files[-1]}{_missing(done)}"

    with _progress.drawn(line):
        while (rest := left()) is None or rest > 0:
            time.sleep(_LOOK if rest is None else min(_LOOK, rest))
            recorder.check()


def _summary(done: recording.Recorded) -> str:
    files = str(done.files[0]) if not done.rotated else f"{done.rotated + 1} files to {done.files[-1]}"
    lost = "".join(
        f"; {rows:,} rows had {name}, for which MCAP has no place" for name, rows in done.lost.items()
    )
    return f"recorded {done.rows:,} samples, {done.bytes:,} bytes in {files}{_missing(done)}{lost}"


def _missing(done: recording.Recorded) -> str:
    return "".join(f"; {reason} {count:,}" for reason, count in done.losses.items())
