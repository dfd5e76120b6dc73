"""A folder has messages of Zenoh, events of ZRE, or records of ZRE/LOG. Runs until Ctrl-C or SIGTERM."""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from zwire import spool
from zwire.cli import _options, _progress, _spool
from zwire.errors import ConfigError

if TYPE_CHECKING:
    from zwire.metrics import Source
    from zwire.spool._spooler import Keeper

EPILOG = """\
examples:
  zwire spool keep --dir /var/spool/robots 'robot/**'
      until Ctrl-C or SIGTERM
  zwire spool keep --dir /var/spool/robots 'robot/**' --keep 7d --max-bytes 50G
      a week of what consumers have read, and never more than 50 GiB
  zwire spool keep --dir /var/spool/robots 'robot/**' --tier s3://robots/spool --local-bytes 10G
      sealed segments go to a bucket; the folder keeps the newest 10 GiB
  zwire spool keep --dir /var/spool/robots 'robot/**' --tier s3://robots/spool --shared
      on several hosts: one of them writes, another takes over when it fails
  zwire spool keep --dir /var/spool/zre --zre-group CHAT --zre interfaces=eth0
      the events of a ZRE network, and messages to a group
  zwire spool keep --dir /var/spool/zre-log --zre-log
      the log lines of ZRE nodes
  zwire spool keep --dir /var/spool/robots 'robot/**' --serve -e tcp/hub:7447
      also serves it to readers on the network
  zwire spool keep --dir /var/spool/robots 'robot/**' --metrics 127.0.0.1:9464
      metrics of the spool, the spooler and its session at http://127.0.0.1:9464/metrics
"""

# Age in seconds at which a segment of a spool of ZRE is sealed.
_ROLL = 600.0


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument("key", nargs="*", type=_options.key, metavar="KEY", help="key expressions to keep")
    parser.add_argument("--dir", type=Path, required=True, help="the folder; created if missing")
    parser.add_argument(
        "--shards", default="1", metavar="N", help="number of shards, or keys: one for each key expression"
    )
    parser.add_argument("--durability", choices=["os", "disk"], default="os", help="default: os")
    parser.add_argument(
        "--compression",
        choices=["none", "lz4", "zstd"],
        default="none",
        help="of the files: zstd takes least room, lz4 least time (default: none)",
    )
    parser.add_argument(
        "--overflow",
        choices=["drop_newest", "drop_oldest", "block"],
        default="drop_newest",
        help="when the disk is too slow (default: drop_newest)",
    )
    parser.add_argument(
        "--recovery",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="ask caches of publishers for missing samples (default: yes)",
    )
    parser.add_argument(
        "--history",
        type=_spool.duration,
        metavar="TIME",
        nargs="?",
        const=True,
        default=False,
        help="ask them at the start for what they have since the last row, or for that time",
    )
    parser.add_argument("--queue", type=_spool.size, default=64 << 20, metavar="BYTES", help="default: 64M")
    parser.add_argument(
        "--segment", type=_spool.size, default=256 << 20, metavar="BYTES", help="default: 256M"
    )
    parser.add_argument(
        "--roll", type=_spool.duration, metavar="TIME", help="default: 10m, with --shared or --spread 10s"
    )
    parser.add_argument(
        "--keep", type=_spool.duration, metavar="TIME", help="delete what was read at this age"
    )
    parser.add_argument(
        "--max-bytes", type=_spool.size, metavar="BYTES", help="delete oldest rows above this size"
    )
    parser.add_argument(
        "--forget",
        type=_spool.duration,
        default=spool.Retention.consumer_seconds,
        metavar="TIME",
        help="keep no rows for consumers that have not committed for so long (default: 7d)",
    )
    parser.add_argument(
        "--tier",
        metavar="URL",
        help="upload sealed segments: s3://BUCKET/PREFIX, gs://, az:// or file:///FOLDER",
    )
    parser.add_argument(
        "--local-bytes",
        type=_spool.size,
        metavar="BYTES",
        help="delete files that are in the tier above this size (default: keep them)",
    )
    parser.add_argument(
        "--compact",
        type=_spool.size_or_none,
        default=spool.Retention.compact_bytes,
        metavar="BYTES",
        help="merge small segments in the tier into ones of up to this size (default: 64M; none: leave them)",
    )
    parser.add_argument(
        "--shared",
        action="store_true",
        help="take turns with spoolers on other hosts at the spool in the tier",
    )
    parser.add_argument(
        "--spread",
        action="store_true",
        help="share the spool in the tier with spoolers on other hosts by its shards",
    )
    parser.add_argument(
        "--standby",
        type=_spool.size,
        default=256 << 20,
        metavar="BYTES",
        help="with --shared or --spread, most bytes that wait for the tier for each key (default: 256M)",
    )
    parser.add_argument("--serve", action="store_true", help="serve the spool to readers on the network")
    parser.add_argument(
        "--metrics",
        type=_spool.address,
        metavar="HOST:PORT",
        help="serve metrics for Prometheus there, at /metrics",
    )
    zre = parser.add_argument_group("ZRE")
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
    _options.add_network(parser)


def run(args: argparse.Namespace) -> int:
    """Keep messages until the command is interrupted."""
    with _options.running(endless=True):
        _keep(args)
    return 0


def _keep(args: argparse.Namespace) -> NoReturn:
    keys: list[str] = args.key
    logs = args.zre_log is not None
    events = bool(args.zre_group) or (bool(args.zre) and not logs)
    if bool(keys) + events + logs != 1:
        raise ConfigError(
            "a folder keeps key expressions, or --zre-group, or --zre-log: give one of them", path="--dir"
        )
    given: dict[str, Any] = {
        "durability": args.durability,
        "compression": args.compression,
        "overflow": args.overflow,
        "queue_bytes": args.queue,
        "segment_bytes": args.segment,
        "retention": spool.Retention(
            seconds=args.keep,
            bytes=args.max_bytes,
            consumer_seconds=args.forget,
            local_bytes=args.local_bytes,
            compact_bytes=args.compact,
        ),
        "tier": args.tier,
    }
    if keys:
        _keep_keys(args, keys, given | {"segment_seconds": args.roll})
    for name in ("shared", "spread"):
        if getattr(args, name):
            raise ConfigError(f"--{name}: a spool of ZRE has one spooler", path=f"--{name}")
    given["segment_seconds"] = _ROLL if args.roll is None else args.roll
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
            _watch(args, zre, zre.node)
    with spool.ZreLogSpooler(args.dir, bind=args.zre_log, config=config, **given) as log:
        _options.say(f"keeping ZRE/LOG in {args.dir}, spool {log.id}, collector {log.endpoint}")
        _watch(args, log)


def _keep_keys(args: argparse.Namespace, keys: list[str], given: dict[str, Any]) -> NoReturn:
    if args.shards != "keys" and not args.shards.isdigit():
        raise ConfigError(f"--shards {args.shards}: expected a number or keys", path="--shards")
    config = _options.session_config(args)
    shards: Any = "keyexprs" if args.shards == "keys" else int(args.shards)
    given |= {"recovery": args.recovery, "history": args.history, "serve": args.serve}
    given |= {"shared": args.shared, "spread": args.spread, "standby_bytes": args.standby}
    with spool.Spooler(args.dir, keys, config=config, shards=shards, **given) as spooler:
        _options.settle(spooler.session)
        _options.say(f"keeping {' '.join(keys)} in {args.dir}, spool {spooler.id}")
        _watch(args, spooler, spooler.session)


def _zre_config(args: argparse.Namespace) -> dict[str, Any]:
    """Return the settings of the node."""
    for name in ("listen", "mode", "config", "cfg", "tap"):
        if getattr(args, name):
            raise ConfigError(f"--{name} is for Zenoh; give --zre NAME=VALUE", path=f"--{name}")
    return {**({"peers": args.connect} if args.connect else {}), **_options.settings("--zre", args.zre)}


def _watch(args: argparse.Namespace, spooler: Keeper, *more: Source) -> NoReturn:
    """Wait for the signal to end; show progress on a terminal, and report each problem once."""
    said = state = None

    def line(seconds: float) -> str:
        stats = spooler.stats()
        rate = stats["rows"] / max(seconds, 0.001)
        behind = f", {stats['tier']['behind']} segments behind" if stats["tier"] else ""
        state = f", {_state(lease)}" if (lease := stats["lease"]) else ""
        counted = f"{stats['rows']} rows, {rate:.0f}/s, {stats['dropped']} dropped, {stats['lost']} lost"
        return f"{counted}{behind}{state}"

    with _spool.metrics(args.metrics, spooler, *more), _progress.drawn(line):
        while True:
            time.sleep(_spool.LOOK)
            spooler.check()
            stats = spooler.stats()
            problem = stats["problem"]
            if problem not in {None, said}:
                said = problem
                _options.say(f"zwire spool keep: {said}")
            if stats["lease"] is not None and (now := _state(stats["lease"])) != state:
                state = now
                _options.say(f"zwire spool keep: {state}")


def _state(lease: dict[str, Any]) -> str:
    """Describe which spooler of a shared spool writes."""
    if lease["state"] in {"finding", "starting"}:
        return str(lease["state"])
    if lease["shards"] is not None:
        return f"{lease['state']}, shards {' '.join(map(str, lease['shards'])) or 'none'}"
    return f"{lease['state']}, epoch {lease['epoch']} of {lease['holder']}"
