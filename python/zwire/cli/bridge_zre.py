"""SHOUTs of ZRE peers become publications on NAME/group/GROUP/UUID, and publications there become SHOUTs.

Only groups that are named cross. Several bridges may join one LAN to one network: one forwards, another one
takes over within two seconds. Prints the UUID of the node of the bridge, and runs until Ctrl-C or SIGTERM.
"""

from __future__ import annotations

import argparse
import time
from typing import TYPE_CHECKING

from zwire.cli import _options
from zwire.errors import ConfigError, ZwireError

if TYPE_CHECKING:
    from typing import Any

EPILOG = """\
examples:
  zwire bridge zre --groups chat
      the group chat, by the router on this machine, as zre/group/chat/**
  zwire bridge zre --network lab --groups 'robot-*,chat' --interface eth1 -e tcp/192.168.1.5:7447
      groups of the network behind eth1, as lab/group/**
  zwire bridge zre --groups '*' --mode mirror
      all groups, and a node for each peer that other bridges see
"""

_LOOK_SECONDS = 0.2


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    group = parser.add_argument_group("bridge")
    group.add_argument(
        "--network", default="zre", metavar="NAME", help="first part of its keys (default: zre)"
    )
    _options.add_several(
        group,
        "--groups",
        metavar="PATTERN,...",
        help="groups that cross, with * for any characters and %%2F for a slash; again for more",
    )
    group.add_argument(
        "--mode",
        choices=["one", "mirror", "observer"],
        default="one",
        help="what ZRE peers see: one node, a node for each far peer too, or nothing (default: one)",
    )
    group.add_argument(
        "--no-whispers", action="store_true", help="keep messages to single peers from crossing"
    )
    group.add_argument("--log", action="store_true", help="collect ZRE/LOG of peers, and publish the records")
    group.add_argument(
        "--rate",
        type=_options.positive,
        metavar="N",
        help="most messages of a sender in a second, for each group",
    )
    node = parser.add_argument_group("ZRE")
    node.add_argument("--name", help="name of the node (default: six digits of its UUID)")
    _options.add_several(
        node,
        "-i",
        "--interface",
        metavar="NAME",
        help="use only these: name, address, CIDR, or a pattern such as 'en*' (default: every suitable one)",
    )
    node.add_argument("--port", type=_options.port, help="UDP port of beacons (default: 5670)")
    _options.add_several(
        node,
        "-g",
        "--generation",
        choices=["20", "zyre1", "36", "43"],
        help="speak this one; several are served together (default: 36)",
    )
    _options.add_several(
        node,
        "--set",
        metavar="NAME=VALUE",
        help="another setting of the node, such as secret_key or gossip_connect, as in zwire.zre.Config",
    )
    _options.add_network(parser, mode=False)


def run(args: argparse.Namespace) -> int:
    """Join both networks until the command is interrupted."""
    from zwire import zenoh
    from zwire.bridge import zre as bridge

    patterns = [pattern for text in args.groups for pattern in text.split(",") if pattern]
    if not patterns and args.no_whispers:
        raise ConfigError("nothing would cross: name groups, such as --groups chat", path="groups")
    node: dict[str, Any] = {
        "name": args.name,
        "interfaces": args.interface or None,
        "beacon_port": args.port,
        "generations": args.generation or None,
    }
    given = {name: value for name, value in node.items() if value is not None}
    given |= _options.settings("--set", args.set)
    config = _options.session_config(argparse.Namespace(**{**vars(args), "mode": None}))
    with (
        _options.running(endless=True),
        zenoh.open(config) as session,
        bridge.Bridge(
            session,
            [bridge.Rule(pattern, rate=args.rate) for pattern in patterns],
            network=args.network,
            mode=args.mode,
            whispers=not args.no_whispers,
            log=args.log,
            node=given,
        ) as running,
    ):
        _options.show(running.uuid)
        named = ", ".join(patterns) or "no group, whispers alone"
        _options.say(f"the bridge joins {named} to {args.network}/**, Ctrl-C ends it")
        active = None
        while True:
            stats = running.stats()
            if stats["problem"] is not None:
                raise ZwireError(f"the bridge has ended: {stats['problem']}")
            # At first it listens for other bridges.
            if stats["active"] is not active and (stats["active"] or stats["other_bridges"]):
                active = stats["active"]
                _options.say(
                    "active: this bridge forwards" if active else "in reserve: another bridge forwards"
                )
            time.sleep(_LOOK_SECONDS)
    return 0
