"""Searches for nodes by multicast for `--timeout` seconds, and prints each node once.

No session is opened. The exit code is 3 if no node answered.
"""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

from zwire import zenoh
from zwire.cli import _options
from zwire.errors import TimedOut

if TYPE_CHECKING:
    import argparse
    from pathlib import Path

EPILOG = """\
examples:
  zwire scout
      routers, peers and clients that answer within three seconds
  zwire scout router -n 1 --timeout 10
      ends with the first router
  zwire scout --interface eth0 --format jsonl
      on one interface, a JSON object per node, as it answers
"""

_ROLES = ("router", "peer", "client")


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument("role", nargs="*", choices=_ROLES, help="default: all", metavar="ROLE")
    _options.add_count(parser, "-n", "--count", help="end when N have answered")
    _options.add_seconds(parser, "--timeout", default=3.0, help="default: 3")
    _options.add_format(parser, help="a table at the end, or lines as they come")
    parser.add_argument(
        "--interface",
        metavar="NAMES",
        help="names, patterns, addresses or networks of interfaces, separated by commas (default: all)",
    )
    parser.add_argument("--address", metavar="GROUP:PORT", help="default: 224.0.0.224:7446")
    parser.add_argument("-c", "--config", metavar="FILE", help="configuration as JSON5 or YAML")


def run(args: argparse.Namespace) -> int:
    """Print the nodes found."""
    found: dict[str, dict[str, Any]] = {}
    end = time.monotonic() + args.timeout
    with (
        _options.stop_signals(),
        zenoh.scout(what="|".join(args.role or _ROLES), config=_config(args.config, args)) as scout,
    ):
        while args.count is None or len(found) < args.count:
            try:
                hello = scout.recv(timeout=max(0.0, end - time.monotonic()))
            except TimedOut:
                break
            zid = str(hello.zid)
            if zid in found:
                continue
            found[zid] = {"zid": zid, "whatami": str(hello.whatami.name).lower(), "locators": hello.locators}
            if args.format == "jsonl":
                _options.show(json.dumps(found[zid]))
    if args.format == "text" and found:
        _table(list(found.values()))
    if not found:
        _options.say(f"zwire scout: no node answered within {args.timeout:g} s")
    return 3 if len(found) < (args.count or 1) else 0


def _config(file: Path | None, args: argparse.Namespace) -> zenoh.Config:
    config = zenoh.Config() if file is None else zenoh.Config.from_file(file)
    for key, value in (("interface", args.interface), ("address", args.address)):
        if value is not None:
            config.insert_json5(f"scouting/multicast/{key}", json.dumps(value))
    return config


def _table(rows: list[dict[str, Any]]) -> None:
    width = max(len(row["zid"]) for row in rows)
    _options.show(f"{'ROLE':6}  {'ID':{width}}  LOCATORS")
    for row in sorted(rows, key=lambda row: (_ROLES.index(row["whatami"]), row["zid"])):
        _options.show(f"{row['whatami']:6}  {row['zid']:{width}}  {' '.join(row['locators']) or '-'}")
