"""Clients of Kafka read the spools as topics. Runs until Ctrl-C or SIGTERM."""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING

from zwire import spool
from zwire.cli import _options, _spool
from zwire.errors import ConfigError
from zwire.spool._kafka import LISTEN, topic_of

if TYPE_CHECKING:
    import argparse

EPILOG = """\
examples:
  zwire spool kafka /var/spool/robots
      topic robots, to clients on this machine
  zwire spool kafka fleet=/var/spool/robots s3://bucket/archive --listen 0.0.0.0:9092 --no-commits
      topics fleet and archive, to clients that reach this machine, which cannot commit
"""

_NAMED = re.compile(r"([A-Za-z0-9._-]+)=(.+)", re.DOTALL)


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument(
        "spools",
        nargs="+",
        metavar="[TOPIC=]DIR",
        help="folder of a spool, or its tier; the topic is the last part of it by default",
    )
    parser.add_argument(
        "-l",
        "--listen",
        default=LISTEN,
        metavar="HOST:PORT",
        help="address to listen on; port 0 takes a free one (default: %(default)s)",
    )
    parser.add_argument(
        "--advertised",
        metavar="HOST:PORT",
        help="address that clients are told to connect to (default: the one that they have used)",
    )
    parser.add_argument("--no-commits", action="store_true", help="refuse commits of groups")


def named(texts: list[str]) -> dict[str, str]:
    """Return the places of spools by topic."""
    found: dict[str, str] = {}
    for text in texts:
        match = _NAMED.fullmatch(text)
        name, place = match.groups() if match else (topic_of(text), text)
        if name in found:
            raise ConfigError(f"topic {name}: two spools have this name; give one as TOPIC=DIR", path=text)
        found[name] = place
    return found


def run(args: argparse.Namespace) -> int:
    """Serve until the command is interrupted."""
    spools = named(args.spools)
    with (
        _options.running(endless=True),
        spool.KafkaServer(
            spools, listen=args.listen, advertised=args.advertised, commits=not args.no_commits
        ) as server,
    ):
        _options.say(f"serving {', '.join(spools)} to clients of Kafka on {server.address}")
        while True:
            time.sleep(_spool.LOOK)
    return 0
