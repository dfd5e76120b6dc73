"""A spool is a folder that keeps messages, so that readers such as Spark can read a range of them twice.

zwire spool keep --dir DIR KEY...                keeps publications on key expressions
zwire spool keep --dir DIR --zre-group GROUP     keeps the events of a ZRE network
zwire spool keep --dir DIR --zre-log             keeps the log lines of its nodes (ZRE/LOG)
zwire spool serve DIR           serves a spool over the network, also one written by another process
zwire spool secret DIR [NAME]   prints the secret with which readers on the network, or one, may commit
zwire spool stat DIR            prints its contents: shards, offsets, gaps, consumers
zwire spool verify DIR          reads all of it; exit code 1 if something cannot be read
zwire spool cat DIR             prints rows
zwire spool export DIR -o FILE  writes rows as Parquet, as a file of Arrow, or as MCAP
"""

from __future__ import annotations

import argparse
import base64
import contextlib
import importlib.util
import json
import time
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from zwire import spool
from zwire._lazy import pa, pq
from zwire.cli import _format, _options, _progress
from zwire.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from zwire.spool._spooler import Keeper

EPILOG = """\
examples:
  zwire spool keep --dir /var/spool/robots 'robot/**'
      until Ctrl-C or SIGTERM
  zwire spool keep --dir /var/spool/robots 'robot/**' --keep 7d --max-bytes 50G
      a week of what consumers have read, and never more than 50 GiB
  zwire spool keep --dir /var/spool/zre --zre-group CHAT --zre interfaces=eth0
  zwire spool keep --dir /var/spool/robots 'robot/**' --serve -e tcp/hub:7447
      also serves it to readers on the network
  zwire spool serve /var/spool/robots -l tcp/0.0.0.0:7447
  zwire spool secret /var/spool/robots nightly
      for the consumer nightly, which commits its position over the network
  zwire spool stat /var/spool/robots
  zwire spool cat /var/spool/robots --format jsonl -n 10
  zwire spool export /var/spool/robots -o robots.parquet --columns key,payload,recv_ts
"""

_INSPECT = ("serve", "secret", "stat", "verify", "cat", "export")
_LOOK = 0.25
"""Seconds between two checks for problems."""

_UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
_TIMES = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    words = "key expressions; or serve, secret, stat, verify, cat or export, and a folder"
    parser.add_argument("words", nargs="*", metavar="KEY", help=words)
    keep = parser.add_argument_group("keeping")
    keep.add_argument("--dir", type=Path, help="the folder; created if missing")
    keep.add_argument(
        "--shards", default="1", metavar="N", help="number of shards, or keys: one for each key expression"
    )
    keep.add_argument("--durability", choices=["os", "disk"], default="os", help="default: os")
    keep.add_argument(
        "--overflow",
        choices=["drop_newest", "drop_oldest", "block"],
        default="drop_newest",
        help="when the disk is too slow (default: drop_newest)",
    )
    keep.add_argument(
        "--recovery",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="ask caches of publishers for missing samples (default: yes)",
    )
    keep.add_argument(
        "--history",
        type=duration,
        metavar="TIME",
        nargs="?",
        const=True,
        default=False,
        help="ask them at the start for what they have since the last row, or for that time",
    )
    keep.add_argument("--queue", type=size, default=64 << 20, metavar="BYTES", help="default: 64M")
    keep.add_argument("--segment", type=size, default=256 << 20, metavar="BYTES", help="default: 256M")
    keep.add_argument("--roll", type=duration, default=600.0, metavar="TIME", help="default: 10m")
    keep.add_argument("--keep", type=duration, metavar="TIME", help="delete what was read at this age")
    keep.add_argument("--max-bytes", type=size, metavar="BYTES", help="delete oldest rows above this size")
    keep.add_argument(
        "--forget",
        type=duration,
        default=spool.Retention.consumer_seconds,
        metavar="TIME",
        help="keep no rows for consumers that have not committed for so long (default: 7d)",
    )
    keep.add_argument("--serve", action="store_true", help="serve the spool to readers on the network")
    zre = parser.add_argument_group(
        "ZRE", "A folder has messages of Zenoh, events of ZRE, or records of ZRE/LOG."
    )
    _options.add_several(zre, "--zre-group", metavar="GROUP", help="keep ZRE events, and its messages")
    zre.add_argument(
        "--zre-log",
        metavar="ENDPOINT",
        nargs="?",
        const="tcp://*:*",
        help="keep ZRE/LOG; collect at that endpoint (default: tcp://*:*)",
    )
    _options.add_several(
        zre,
        "--zre",
        metavar="NAME=VALUE",
        help="one setting of the node, such as beacons=false; the value is JSON, or a text",
    )
    look = parser.add_argument_group("looking")
    look.add_argument("--columns", type=lambda text: text.split(","), metavar="A,B", help="default: all")
    look.add_argument("--shard", type=int, metavar="N", help="default: all")
    look.add_argument("--since", type=when, metavar="TIME", help="received then or later, as ISO 8601")
    look.add_argument("--until", type=when, metavar="TIME", help="received before")
    look.add_argument("--gaps", action="store_true", help="the log of gaps, instead of the rows")
    _options.add_count(look, "-n", "--count", help="no more rows than these")
    look.add_argument(
        "--format",
        choices=["text", "jsonl", "parquet", "arrow", "mcap"],
        help="text or jsonl for cat; parquet, arrow or mcap for export (default: by the name of the output)",
    )
    look.add_argument("-o", "--output", type=Path, metavar="FILE", help="of export")
    _options.add_network(parser)


def size(text: str) -> int:
    """Read a number of bytes, such as 64M."""
    number, unit = _split(text, _UNITS)
    return int(number * _UNITS[unit])


def duration(text: str) -> float:
    """Read a time, such as 10m or 7d."""
    number, unit = _split(text, _TIMES)
    return number * _TIMES[unit]


def _split(text: str, units: dict[str, int]) -> tuple[float, str]:
    digits = text.rstrip("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
    unit = text[len(digits) :].lower().removesuffix("ib")
    number = float(digits)
    if unit not in units or not 0 < number < 1e18:
        raise ValueError
    return number, unit


def when(text: str) -> datetime:
    """Read an instant."""
    return datetime.fromisoformat(text)


def run(args: argparse.Namespace) -> int:
    """Run a subcommand."""
    if args.dir is not None:
        with _options.running(endless=True):
            _keep(args)
        return 0
    word, *rest = args.words or [""]
    if word == "secret" and len(rest) in (1, 2):
        _options.show(spool.secret(*rest))
        return 0
    if word not in _INSPECT or len(rest) != 1:
        hint = f"--dir DIR and key expressions, or one of {', '.join(_INSPECT)} and a folder"
        raise ConfigError(f"expected {hint}", path="--dir")
    command = {"serve": _serve, "stat": _stat, "verify": _verify, "cat": _cat, "export": _export}[word]
    with _options.stop_signals():
        return command(Path(rest[0]), args)


def _keep(args: argparse.Namespace) -> NoReturn:
    keys: list[str] = args.words
    logs = args.zre_log is not None
    events = bool(args.zre_group) or (bool(args.zre) and not logs)
    if bool(keys) + events + logs != 1:
        raise ConfigError(
            "a folder keeps key expressions, or --zre-group, or --zre-log: give one of them", path="--dir"
        )
    given: dict[str, Any] = {
        "durability": args.durability,
        "overflow": args.overflow,
        "queue_bytes": args.queue,
        "segment_bytes": args.segment,
        "segment_seconds": args.roll,
        "retention": spool.Retention(seconds=args.keep, bytes=args.max_bytes, consumer_seconds=args.forget),
    }
    if keys:
        _keep_keys(args, keys, given)
    if args.shards != "1":
        raise ConfigError("--shards: a spool of ZRE has one", path="--shards")
    if args.serve:
        raise ConfigError(
            "--serve: this one is not on Zenoh; run zwire spool serve beside it", path="--serve"
        )
    config = _zre_config(args)
    if events:
        with spool.ZreSpooler(args.dir, args.zre_group, config=config, **given) as zre:
            what = f"ZRE and the groups {' '.join(args.zre_group)}" if args.zre_group else "ZRE"
            _options.say(f"keeping {what} in {args.dir}, spool {zre.id}, node {zre.node.endpoint}")
            _watch(zre)
    with spool.ZreLogSpooler(args.dir, bind=args.zre_log, config=config, **given) as log:
        _options.say(f"keeping ZRE/LOG in {args.dir}, spool {log.id}, collector {log.endpoint}")
        _watch(log)


def _keep_keys(args: argparse.Namespace, keys: list[str], given: dict[str, Any]) -> NoReturn:
    if args.shards != "keys" and not args.shards.isdigit():
        raise ConfigError(f"--shards {args.shards}: expected a number or keys", path="--shards")
    config = _options.session_config(args)
    shards: Any = "keyexprs" if args.shards == "keys" else int(args.shards)
    given |= {"recovery": args.recovery, "history": args.history, "serve": args.serve}
    with spool.Spooler(args.dir, keys, config=config, shards=shards, **given) as spooler:
        _options.settle(spooler.session)
        _options.say(f"keeping {' '.join(keys)} in {args.dir}, spool {spooler.id}")
        _watch(spooler)


def _zre_config(args: argparse.Namespace) -> dict[str, Any]:
    """Return the settings of the node."""
    for name in ("listen", "mode", "config", "cfg", "tap"):
        if getattr(args, name):
            raise ConfigError(f"--{name} is for Zenoh; give --zre NAME=VALUE", path=f"--{name}")
    return {**({"peers": args.connect} if args.connect else {}), **_options.settings("--zre", args.zre)}


def _watch(spooler: Keeper) -> NoReturn:
    """Wait for the signal to end; show progress on a terminal, and report each problem once."""
    said = None

    def line(seconds: float) -> str:
        stats = spooler.stats()
        rate = stats["rows"] / max(seconds, 0.001)
        return f"{stats['rows']} rows, {rate:.0f}/s, {stats['dropped']} dropped, {stats['lost']} lost"

    with _progress.drawn(line):
        while True:
            time.sleep(_LOOK)
            spooler.check()
            problem = spooler.stats()["problem"]
            if problem not in {None, said}:
                said = problem
                _options.say(f"zwire spool: {said}")


def _serve(path: Path, args: argparse.Namespace) -> int:
    config = _options.session_config(args)
    with contextlib.suppress(KeyboardInterrupt), spool.serve(path, config=config) as server:
        _options.settle(server.session)
        where = "".join(f", on {endpoint}" for endpoint in server.session.listening())
        _options.say(f"serving {path}, spool {server.id}{where}")
        while True:
            time.sleep(_LOOK)
    return 0


def _stat(path: Path, args: argparse.Namespace) -> int:
    found = spool.stat(path)
    if args.format == "jsonl":
        _options.show(json.dumps(found))
        return 0
    _options.show(
        f"spool     {found['spool']} ({found['table']})",
        f"rows      {found['rows']} in {found['bytes']} bytes",
    )
    for shard, mark in found["shards"].items():
        last = _local(mark["last_recv_ts"])
        _options.show(
            f"shard {shard:<3} {mark['earliest']} to {mark['end']} (exclusive), {mark['segments']} segments, "
            f"{mark['dropped']} dropped, last received {last if mark['last_recv_ts'] else 'never'}"
        )
    _options.show(f"gaps      {found['gaps']}")
    for name, offsets in found["consumers"].items():
        behind = sum(mark["end"] - offsets.get(shard, 0) for shard, mark in found["shards"].items())
        last = _local(found["committed"][name])
        _options.show(f"consumer  {name}, {behind} rows behind, last commit {last}")
    return 0


def _local(micros: int) -> str:
    return datetime.fromtimestamp(micros / 1e6).astimezone().isoformat()


def _verify(path: Path, _args: argparse.Namespace) -> int:
    with _shown() as step:
        problems = spool.verify(path, step)
    _options.show(*(problem.message for problem in problems))
    if not problems:
        _options.say(f"{path}: all of it can be read")
    return 1 if problems else 0


def _cat(path: Path, args: argparse.Namespace) -> int:
    _need_pyarrow("cat")
    left = args.count
    for batch in _batches(path, args):
        rows = batch.to_pylist() if left is None else batch.slice(0, left).to_pylist()
        line = _json if args.format == "jsonl" else _text
        _options.show(*map(line, rows))
        if left is not None:
            left -= len(rows)
            if left == 0:
                break
    return 0


def _export(path: Path, args: argparse.Namespace) -> int:
    _need_pyarrow("export")
    if args.output is None:
        raise ConfigError("export needs -o FILE", path="--output")
    kind = args.format or args.output.suffix.removeprefix(".")
    if kind not in {"parquet", "arrow", "mcap"}:
        raise ConfigError("export writes parquet, arrow or mcap: give --format", path="--format")
    if kind == "mcap" and importlib.util.find_spec("mcap") is None:
        raise ConfigError("mcap needs its own library: pip install 'zwire[record]'", path="--format")
    draft = args.output.with_name(args.output.name + ".part")
    try:
        with _shown() as step:
            rows = _write(kind, _batches(path, args, step), draft)
        if rows == 0:
            _options.say(f"zwire spool: no rows in {path}, nothing written")
            return 0
        draft.replace(args.output)
    finally:
        draft.unlink(missing_ok=True)
    _options.say(f"{rows} rows in {args.output}")
    return 0


def _write(kind: str, batches: Iterator[pa.RecordBatch], path: Path) -> int:
    """Write batches; return the number of rows."""
    if kind == "mcap":
        from zwire import recording

        return recording.write(batches, path, "mcap").rows
    make: Any = pq.ParquetWriter if kind == "parquet" else pa.ipc.new_file
    rows, writer = 0, None
    try:
        for batch in batches:
            writer = writer or make(str(path), batch.schema)
            writer.write_batch(batch)
            rows += batch.num_rows
    finally:
        if writer is not None:
            writer.close()
    return rows


def _batches(
    path: Path, args: argparse.Namespace, step: Callable[[int, int], object] | None = None
) -> Iterator[pa.RecordBatch]:
    view = spool.open(path)
    if args.gaps:
        yield from map(pa.record_batch, view.gaps())
        return
    start = view.earliest() if args.since is None else view.at(args.since)
    end = view.end() if args.until is None else view.at(args.until)
    if args.shard is not None and args.shard not in end:
        raise ConfigError(f"--shard {args.shard}: this spool has {', '.join(map(str, end))}", path="--shard")
    wanted = sorted(end) if args.shard is None else [args.shard]
    total, done = sum(max(end[shard] - start[shard], 0) for shard in wanted), 0
    for shard in wanted:
        first = max(start[shard], view.earliest()[shard])
        if first >= end[shard]:
            continue
        for batch in view.read(shard, first, end[shard], columns=args.columns):
            done += len(batch)
            if step is not None:
                step(done, total)
            yield pa.record_batch(batch)


def _text(row: dict[str, Any]) -> str:
    parts = []
    for name, value in row.items():
        if isinstance(value, bytes):
            parts.append(f"{name}={_format.shown(value)}")
        elif value is not None:
            parts.append(f"{name}={value.isoformat() if isinstance(value, datetime) else value}")
    return " ".join(parts)


def _json(row: dict[str, Any]) -> str:
    return json.dumps({name: _plain(value) for name, value in row.items()})


def _plain(value: object) -> object:
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, list):
        pairs = value and isinstance(value[0], tuple)
        return dict(value) if pairs else [_plain(item) for item in value]
    return value


def _need_pyarrow(command: str) -> None:
    if importlib.util.find_spec("pyarrow") is None:
        raise ConfigError(f"{command} needs pyarrow: pip install 'zwire[arrow]'", path=command)


@contextlib.contextmanager
def _shown() -> Iterator[Callable[[int, int], object]]:
    """Yield a function that gets the progress; it is shown on a terminal."""
    at = [0, 0]

    def step(done: int, total: int) -> None:
        at[:] = done, total

    def line(seconds: float) -> str:
        done, total = at
        return f"{_progress.bar(done / max(total, 1))} {done} rows, {done / max(seconds, 0.001):.0f}/s"

    with _progress.drawn(line):
        yield step
