"""Parts shared by the subcommands of ``zwire zre``: options, the node they describe, printing of events."""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING, Any

from zwire import zre
from zwire.cli import _format, _options
from zwire.errors import ConfigError

if TYPE_CHECKING:
    import argparse

GENERATIONS = ("20", "zyre1", "36", "43")


def add_node(parser: argparse.ArgumentParser) -> None:
    """Add the options of a node."""
    group = parser.add_argument_group("node")
    group.add_argument("--name", help="name announced to peers (default: six digits of the UUID)")
    _options.add_several(group, "--header", metavar="NAME=VALUE", help="tell peers this; may be repeated")
    _options.add_several(
        group,
        "-i",
        "--interface",
        metavar="NAME",
        help="use only these: name, address, CIDR, or a pattern such as 'en*' (default: every suitable one)",
    )
    group.add_argument("--port", type=int, help="UDP port of beacons (default: 5670)")
    _options.add_seconds(group, "--interval", help="between beacons (default: 1)")
    group.add_argument("--no-beacons", action="store_true", help="neither send beacons nor listen for them")
    _options.add_several(
        group,
        "-e",
        "--connect",
        metavar="ENDPOINT",
        help="a peer that no beacon announces, such as tcp://192.168.1.5:49152",
    )
    group.add_argument("--gossip-bind", metavar="ENDPOINT", help="be a gossip hub at this endpoint")
    _options.add_several(
        group, "--gossip-connect", metavar="ENDPOINT", help="use the gossip hub at this endpoint"
    )
    group.add_argument(
        "--advertise", metavar="ENDPOINT", help="tell peers this endpoint instead of the own one"
    )
    group.add_argument(
        "--mailbox", type=int, metavar="PORT", help="TCP port of the mailbox (default: from 49152)"
    )
    _options.add_several(
        group,
        "-g",
        "--generation",
        choices=GENERATIONS,
        help="speak this one; several are served together (default: 36)",
    )


def node(args: argparse.Namespace, **settings: Any) -> zre.Node:  # noqa: ANN401 - those of zre.Config
    """Return the node that the options describe; it is not started."""
    headers = {}
    for header in args.header:
        name, equals, value = header.partition("=")
        if not equals or not name:
            raise ConfigError(f"--header {header}: expected NAME=VALUE")
        headers[name] = value
    given: dict[str, Any] = {
        "headers": headers,
        "interfaces": args.interface or None,
        "beacon_port": args.port,
        "interval": args.interval,
        "beacons": False if args.no_beacons else None,
        "peers": args.connect or None,
        "gossip_bind": args.gossip_bind,
        "gossip_connect": args.gossip_connect or None,
        "advertise": args.advertise,
        "mailbox": args.mailbox,
        "generations": args.generation or None,
    }
    chosen = {name: value for name, value in given.items() if value is not None}
    return zre.Node(args.name, **{**chosen, **settings})


def row(node: zre.Node, peer: str) -> dict[str, Any]:
    """Return a dict that describes a peer."""
    return {
        "peer": peer,
        "name": node.peer_name(peer),
        "address": node.peer_address(peer),
        "generation": node.peer_generation(peer),
        "groups": sorted(g for g in node.peer_groups() if peer in node.peers_by_group(g)),
        "headers": dict(node.peer_headers(peer)),
    }


def event_line(event: zre.Event, form: str) -> str:
    """Return an event as a line."""
    if form == "jsonl":
        return json.dumps(_event_fields(event), ensure_ascii=False)
    match event:
        case zre.Enter():
            headers = "".join(f" {k}={v}" for k, v in event.headers.items())
            return f"{event.name} entered from {event.address}{headers}"
        case zre.Join():
            return f"{event.name} joined {event.group}"
        case zre.Leave():
            return f"{event.name} left {event.group}"
        case zre.Shout():
            return f"{event.name} to {event.group}: {_shown(event.content)}"
        case zre.Whisper():
            return f"{event.name}: {_shown(event.content)}"
        case zre.MessagesLost():
            return f"{event.name}: {event.lost} messages lost"
        case zre.Leader():
            return f"{event.name} leads {event.group}"
    return f"{event.name} {_WORDS.get(event.type, event.type.lower())}"


_WORDS = {"EXIT": "is gone", "EVASIVE": "is slow to answer", "SILENT": "is silent", "STOP": "stops"}


def _shown(content: list[bytes]) -> str:
    return " | ".join(_format.shown(frame) for frame in content)


def _event_fields(event: zre.Event) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "type": event.type,
        "time": event.time,
        "peer": event.peer,
        "name": event.name,
        "address": event.address,
    }
    for name in ("group", "lost"):
        if hasattr(event, name):
            fields[name] = getattr(event, name)
    if isinstance(event, zre.Enter):
        fields["headers"] = dict(event.headers)
    if isinstance(event, (zre.Whisper, zre.Shout)):
        fields["content"] = [base64.b64encode(frame).decode() for frame in event.content]
    return fields
